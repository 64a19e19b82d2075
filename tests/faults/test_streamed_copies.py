"""A call that fails in the middle of a copy that goes piece by piece: what was published stays, nothing is left behind.

The stories are those of `test_injection`, in which everything now counts as large: chunks of edits wait in temporary
files, values are copied by the system in pieces of some KB, and no memory is left for what is to be published.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from streaming import everything_large

from faults import FULL
from faults.crashes import record
from faults.injection import inject
from faults.recorder import Fault
from faults.stories import chosen_stories, stories

STORIES = stories()
STRIDE = 1 if FULL else 23
FAULTS: tuple[Fault, ...] = ("eio", "enospc", "short", "stop")


@pytest.fixture(autouse=True)
def large() -> Iterator[None]:
    with everything_large():
        yield


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", chosen_stories())
def test_a_failing_call_loses_nothing(name: str, fault: Fault) -> None:
    story = STORIES[name]
    calls = CALLS.get(name) or CALLS.setdefault(name, record(story.kind, story.steps)[0].count)
    position = list(STORIES).index(name) + FAULTS.index(fault)
    struck = [inject(story, fault, at) for at in range(1 + position % STRIDE, calls + 1, STRIDE)]
    assert any(struck) if fault == "short" else all(struck)


CALLS: dict[str, int] = {}
