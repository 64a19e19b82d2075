"""Any one call fails: what was published stays, the handle goes on, and nothing is left behind."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache

import pytest
from streaming import everything_large

from faults import FULL
from faults.crashes import record
from faults.injection import FAULTS, inject
from faults.recorder import Fault
from faults.stories import chosen_stories, stories

STORIES = stories()
#: Of the calls, every so manieth is made to fail; another one in each story and for each fault.
STRIDE, STRIDE_IN_PIECES = (1, 1) if FULL else (16, 23)


def befall(name: str, fault: Fault, stride: int, calls: int) -> None:
    """Have one call fail after another, `stride` apart."""
    position = list(STORIES).index(name) + FAULTS.index(fault)
    struck = [inject(STORIES[name], fault, at) for at in range(1 + position % stride, calls + 1, stride)]
    print(f"{name:28} {fault:9} {len(struck)} of {calls} calls")
    # These befall writes only.
    assert any(struck) if fault in ("short", "unwritten") else all(struck)


@cache
def count(name: str, large: bool = False) -> int:
    """How many calls a story makes."""
    with everything_large() if large else nullcontext():
        return record(STORIES[name].kind, STORIES[name].steps)[0].count


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", chosen_stories())
def test_a_failing_call_loses_nothing(name: str, fault: Fault) -> None:
    befall(name, fault, STRIDE, count(name))


@pytest.mark.parametrize("fault", ["eio", "enospc", "short", "stop"])
@pytest.mark.parametrize("name", chosen_stories())
def test_a_failing_call_of_a_copy_in_pieces_loses_nothing(name: str, fault: Fault) -> None:
    """Chunks of edits wait in temporary files, the system copies pieces of some KB, and memory is left for nothing."""
    calls = count(name, large=True)
    with everything_large():
        befall(name, fault, STRIDE_IN_PIECES, calls)


@pytest.mark.parametrize("name", chosen_stories())
def test_a_failing_close_loses_nothing(name: str) -> None:
    """It closes all the same: what was closed is forgotten, and the number is not used again."""
    at = 1
    while inject(STORIES[name], "close", at):
        at += 1 if FULL else 1 + at // 2
    assert at > 1
