"""Whether a file counts as in memory, by how many of the requests of its reads came late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._core.frame.header_parser import note_requests

MODES = pytest.mark.parametrize("mmap_mode", [None, "r"], ids=["positional", "mapped"])
#: Requests in a row that found all in memory, from which on reads go without; and the most reads that then do.
LEAST, MOST = 32, 1024


def opened(tmp_path: Path, mmap_mode: Any) -> Any:
    path = str(tmp_path / "items.b2nd")
    blosc2.asarray(np.arange(1000), urlpath=path)
    return blosc2.open(path, mode="r", mmap_mode=mmap_mode)


def grown(frame: Any) -> None:
    """Have all bytes be in memory for long."""
    for _ in range(LEAST + 10):
        streak = note_requests(frame, 1, 0)
    assert streak == MOST


@MODES
def test_requests_in_time_add_up(tmp_path: Path, mmap_mode: Any) -> None:
    frame = opened(tmp_path, mmap_mode)._handle.frame
    assert note_requests(frame, 1, 1) == 0
    assert [note_requests(frame, 64, 0) for _ in range(LEAST)] == list(range(1, LEAST + 1))
    assert [note_requests(frame, 64, 0) for _ in range(7)] == [66, 134, 270, 542, MOST, MOST, MOST]


@MODES
@pytest.mark.parametrize(("sent", "late"), [(64, 1), (127, 1), (128, 2), (256, 4), (6400, 100)])
def test_one_late_request_in_64_changes_nothing(tmp_path: Path, mmap_mode: Any, sent: int, late: int) -> None:
    """A thread that was interrupted is late, too."""
    frame = opened(tmp_path, mmap_mode)._handle.frame
    note_requests(frame, 1, 1)
    assert [note_requests(frame, sent, late) for _ in range(LEAST)] == list(range(1, LEAST + 1))
    grown(frame)
    assert note_requests(frame, sent, late) == MOST


@MODES
@pytest.mark.parametrize(("sent", "late"), [(1, 1), (63, 1), (64, 2), (127, 2), (256, 5), (6400, 101), (300, 300)])
def test_more_late_requests_end_it(tmp_path: Path, mmap_mode: Any, sent: int, late: int) -> None:
    """And all begins anew; after a long time in memory only eight more are needed to be believed again."""
    frame = opened(tmp_path, mmap_mode)._handle.frame
    for before in range(LEAST):
        note_requests(frame, 1, 1)
        for _ in range(before):
            note_requests(frame, 1, 0)
        assert note_requests(frame, sent, late) == 0
    grown(frame)
    assert note_requests(frame, sent, late) == LEAST - 8
    assert note_requests(frame, sent, late) == 0


def test_buffers_are_not_asked_for() -> None:
    with pytest.raises(ValueError, match="in memory"):
        note_requests(blosc2.asarray(np.arange(10))._handle.frame, 1, 0)
