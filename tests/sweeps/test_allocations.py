"""Some allocations fail, in each case of `allocations`; `run.py` plays them all."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
from faults import FULL
from fixture_kit import failing_allocator
from fixture_kit.failing_allocator import lack

from blosc2._core.frame.frame_writer import pack_trailer
from sweeps import allocations, run

pytestmark = pytest.mark.skipif(not failing_allocator.AVAILABLE, reason="needs Linux and a C compiler")
#: Of each case, how many allocations fail. Some of the cases are played here; `run.py` draws from all.
SOME = 3
CASES = allocations.cases()[:: 1 if FULL else 11]


@pytest.mark.parametrize("case", CASES)
def test_some_allocations_fail(case: str) -> None:
    positions, wrong = run.count("allocations", case)
    assert not wrong, wrong
    for at in sorted(random.Random(case).sample(range(len(positions)), min(SOME, len(positions)))):
        wrong = run.play(run.Position("allocations", case, at))
        assert not wrong, f"allocation {at} of {len(positions)}: {wrong}"


@pytest.mark.parametrize("change", ["delete", "update"])
def test_no_memory_from_the_end_of_a_publication_on(change: str) -> None:
    """The new version is in the file and could not be read: the next change finds that, and no other writer."""
    case = f"all: {change} dict.b2d"
    for at in range(0, len(run.count("allocations", case)[0]), 2):
        wrong = run.play(run.Position("allocations", case, at))
        assert not wrong, f"allocation {at}: {wrong}"


def test_what_finds_no_room_in_a_list_is_released_once() -> None:
    """Cython released it twice; `cmake/compile_package.py` mends that."""

    def pack(folder: Path) -> str:
        entries = {"embed_map": b"x" * 100}
        pack_trailer(entries)
        for at in range(20):
            for _ in range(10):
                with suppress(MemoryError), lack(at, python=True):
                    pack_trailer(entries)
        numbers = [10**30 + number for number in range(2000)]  # who gets memory that is still used notices
        assert sum(numbers) == 2000 * 10**30 + 1999000
        return "well"

    failing_allocator.build()
    assert run.in_a_child(pack) == ("well", "")
