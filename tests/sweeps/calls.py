"""Each system call that changes files fails, in each of several ways; see `faults.injection`."""

from __future__ import annotations

from pathlib import Path

from faults.crashes import record
from faults.injection import FAULTS, inject
from faults.recorder import Fault
from faults.stories import stories

STORIES = stories()
_CASES: dict[str, tuple[str, Fault]] = {f"{name}: {fault}": (name, fault) for name in STORIES for fault in FAULTS}
_COUNTS: dict[str, int] = {}


def cases() -> list[str]:
    return list(_CASES)


def count(case: str, folder: Path) -> int:
    name = _CASES[case][0]
    if name not in _COUNTS:
        _COUNTS[name] = record(STORIES[name].kind, STORIES[name].steps)[0].count
    return _COUNTS[name]


def play(case: str, at: int, folder: Path) -> None:
    name, fault = _CASES[case]
    struck = inject(STORIES[name], fault, at + 1)
    assert struck or fault in ("short", "unwritten"), "there is no such call"  # these two befall writes only
