"""pytest plugin of the CI: run what was skipped before, by the lines that `skip_gate` has written to ``SKIPPED``."""

import os
from pathlib import Path

import pytest

STEP = 'the step "tests of extras" runs'


def wanted() -> set[str]:
    """The node ids of tests, and of files of tests, that this step runs."""
    lines = Path(os.environ["SKIPPED"]).read_text(encoding="utf-8").splitlines()
    return {name for name, _, reason in (line.partition(" | ") for line in lines) if STEP in reason}


def pytest_configure(config: pytest.Config) -> None:
    config.args = sorted({name.partition("::")[0] for name in wanted()})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = wanted()
    chosen = [item for item in items if not names.isdisjoint((item.nodeid, item.nodeid.partition("::")[0]))]
    gone = names - {name for item in chosen for name in (item.nodeid, item.nodeid.partition("::")[0])}
    if gone:
        raise pytest.UsageError(f"skipped before, and not found now: {sorted(gone)}")
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen
