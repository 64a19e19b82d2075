"""Items of a new array are made in a thread, and compressed in another, while chunks are written."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from blosc2._arrays import ArrayPlan, made
from blosc2.ndarray import NDArray

WANTED = np.arange(48 * 512 * 512, dtype="i4").reshape(48, 512, 512)  # 48 MB: several pieces


def plan() -> ArrayPlan:
    return ArrayPlan(WANTED.shape, WANTED.dtype, {"chunks": (1, 512, 512), "cparams": {"clevel": 1, "nthreads": 2}})


def threads() -> list[str]:
    names = sorted(thread.name for thread in threading.enumerate())
    return [name for name in names if name.startswith(("blosc2-reading", "blosc2-compressing"))]


def test_the_items_are_the_same_and_come_in_order() -> None:
    boxes: list[Any] = []

    def make(box: Any) -> Any:
        boxes.append((threading.current_thread() is threading.main_thread(), box))
        return WANTED[box]

    chunks = plan()
    array = NDArray._of(chunks.write(made(chunks, make, ahead=True)))
    assert np.array_equal(array[...], WANTED)
    assert len(boxes) > 2
    assert not any(is_main for is_main, _ in boxes)
    assert [box for _, box in boxes] == sorted((box for _, box in boxes), key=lambda box: [side.start for side in box])
    assert threads() == []


def test_an_array_of_one_piece_needs_no_thread() -> None:
    small = ArrayPlan((10, 10), np.dtype("i4"), {})
    seen: list[str] = []

    def make(box: Any) -> Any:
        seen.append(threading.current_thread().name)
        return WANTED[0][box]

    array = NDArray._of(small.write(made(small, make, ahead=True)))
    assert np.array_equal(array[...], WANTED[0, :10, :10])
    assert seen == [threading.current_thread().name]


@pytest.mark.parametrize("failing", [0, 1, 3])
def test_an_error_ends_it(failing: int) -> None:
    calls: list[Any] = []

    def make(box: Any) -> Any:
        calls.append(box)
        if len(calls) == failing + 1:
            raise OSError("the source is damaged")
        return WANTED[box]

    chunks = plan()
    with pytest.raises(OSError, match="the source is damaged"):
        chunks.write(made(chunks, make, ahead=True))
    assert len(calls) <= failing + 2
    assert threads() == []


def test_who_wants_no_more_stops_it() -> None:
    chunks = plan()
    stream = made(chunks, lambda box: WANTED[box], ahead=True)
    next(stream)
    assert threads() == ["blosc2-compressing_0", "blosc2-reading_0"]
    stream.close()
    assert threads() == []


def test_who_writes_slowly_bounds_what_waits() -> None:
    made_so_far: list[Any] = []

    def make(box: Any) -> Any:
        made_so_far.append(box)
        return WANTED[box]

    stream = made(plan(), make, ahead=True)
    first = next(stream)
    time.sleep(0.3)  # whoever would run ahead had the time to
    assert len(made_so_far) <= 3  # one is written, one compressed, one read
    assert NDArray._of(plan().write([first, *stream]))[0, 0, 5] == WANTED[0, 0, 5]


def test_chunks_keep_their_bytes_while_the_next_batches_are_made() -> None:
    """A chunk that is held longer than the list it came in is not overwritten."""
    slow = plan()
    chunks = [bytes(chunk) for chunk in made(plan(), lambda box: WANTED[box], ahead=True)]
    held = list(made(slow, lambda box: WANTED[box], ahead=True))
    assert [bytes(chunk) for chunk in held] == chunks
