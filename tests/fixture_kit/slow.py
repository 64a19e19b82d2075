"""Tests that run only where they are asked for: those of `slow.txt`, which get the marker `slow`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

LIST = Path(__file__).resolve().parents[1] / "slow.txt"


def listed(text: str) -> dict[str, int]:
    """The list: for each test, or file of tests, 0 where all are slow and N where one of N cases runs each time."""
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, cases, reason = (part.strip() for part in (line + " | | ").split(" | ")[:3])
        stride = re.fullmatch(r"none|1 of ([2-9]|[1-9][0-9])", cases)
        if stride is None or not reason or name in found:
            raise pytest.UsageError(f"{LIST.name}:{number}: expected 'test | none or 1 of N | reason', found {line!r}")
        found[name] = int(stride[1] or 0)
    return found


def is_remote(item: pytest.Item) -> bool:
    """Whether a case reads a copy on a server: such cases are not always collected (`conftest.py`)."""
    case = getattr(item, "callspec", None)
    return case is not None and case.params.get("source_kind") == "remote"


def mark(items: Iterable[pytest.Item], names: dict[str, int]) -> None:
    """Mark the tests that a list names; of `1 of N`, all but the first case and each Nth after it.

    Cases that are not always collected are not counted, so that those marked are the same each time.
    """
    cases: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        stride = names.get(test, names.get(test.partition("::")[0]))
        if stride is None:
            continue
        if is_remote(item):
            item.add_marker("slow")
            continue
        if stride == 0 or cases[test] % stride:
            item.add_marker("slow")
        cases[test] += 1
