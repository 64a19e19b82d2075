"""Any one call fails: what was published stays, the handle goes on, and nothing is left behind."""

from __future__ import annotations

import pytest

from faults import FULL
from faults.injection import FAULTS, inject
from faults.recorder import Fault
from faults.stories import chosen_stories, stories

STORIES = stories()
#: Of the calls, every so manieth is made to fail; another one in each story and for each fault.
STRIDE = 1 if FULL else 16


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", chosen_stories())
def test_a_failing_call_loses_nothing(name: str, fault: Fault) -> None:
    story = STORIES[name]
    position = list(STORIES).index(name) + FAULTS.index(fault)
    calls = CALLS.get(name)
    if calls is None:
        calls = CALLS[name] = count(name)
    struck = [inject(story, fault, at) for at in range(1 + position % STRIDE, calls + 1, STRIDE)]
    print(f"{name:28} {fault:9} {len(struck)} of {calls} calls")
    # These befall writes only.
    assert any(struck) if fault in ("short", "unwritten") else all(struck)


@pytest.mark.parametrize("name", chosen_stories())
def test_a_failing_close_loses_nothing(name: str) -> None:
    """It closes all the same: what was closed is forgotten, and the number is not used again."""
    at = 1
    while inject(STORIES[name], "close", at):
        at += 1 if FULL else 1 + at // 2
    assert at > 1


CALLS: dict[str, int] = {}


def count(name: str) -> int:
    """How many calls a story makes."""
    from faults.crashes import record

    return record(STORIES[name].kind, STORIES[name].steps)[0].count
