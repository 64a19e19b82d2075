"""Ctrl-C at any line of a change of an array or a super-chunk on disk: what is there is whole, and shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults import FULL
from sweeps import file_lines

#: Of all lines, how many are tried in a short run.
_SOME = 8


# A file that was opened when the interrupt came, and is known to nobody yet, is closed by the collector.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("case", file_lines.cases())
def test_interrupted_changes(case: str, tmp_path: Path) -> None:
    lines = len(file_lines.count(case, tmp_path))
    for at in range(len(case) % 7, lines, 1 if FULL else max(1, lines // _SOME)):
        file_lines.play(case, at, tmp_path)
