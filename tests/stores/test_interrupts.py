"""Ctrl-C at any point of an operation: a store shows the old version or the new one, and works on."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults import FULL
from sweeps import lines

#: Of all points, how many are tried in a short run. It takes some of the cases; `tests/sweeps/run.py` draws from all.
_SOME = 2
CASES = lines.cases()[:: 1 if FULL else 7]


# What was opened when the interrupt came, a file or a folder, and is known to nobody yet, is closed by the collector.
@pytest.mark.filterwarnings("ignore:unclosed (file|scandir iterator):ResourceWarning")
@pytest.mark.parametrize("case", CASES)
def test_interrupts(case: str, tmp_path: Path) -> None:
    """At each point, or at some of them."""
    count = len(lines.count(case, tmp_path))
    for at in range(len(case) % 5, count, 1 if FULL else max(1, count // _SOME)):
        lines.play(case, at, tmp_path)
