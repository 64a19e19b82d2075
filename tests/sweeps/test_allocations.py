"""Some allocations fail, in each case of `allocations`; `run.py` plays them all."""

from __future__ import annotations

import random

import pytest
from fixture_kit import failing_allocator

from sweeps import allocations, run

pytestmark = pytest.mark.skipif(not failing_allocator.AVAILABLE, reason="needs Linux and a C compiler")
#: Of each case, how many allocations fail.
SOME = 3


@pytest.mark.parametrize("case", allocations.cases())
def test_some_allocations_fail(case: str) -> None:
    positions, wrong = run.count("allocations", case)
    assert not wrong, wrong
    for at in sorted(random.Random(case).sample(range(positions), min(SOME, positions))):
        wrong = run.play(run.Position("allocations", case, at))
        assert not wrong, f"allocation {at} of {positions}: {wrong}"
