"""Several threads of one operation find something wrong: what is said of a chunk is what is wrong with that one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._core.codec import thread_pool
from blosc2._core.codec.thread_pool import share_from

# Chunks of which the first can be read, so that all threads have begun when the others fail.
COUNT, GOOD, WIDTH = 48, 8, 1 << 15
ITEMS = np.random.default_rng(29).integers(0, 1 << 14, (COUNT, WIDTH)).astype("i4")
TIMES = 30
SAID = {0: "unknown format version", 1: "as many bytes as its frame says"}


@pytest.fixture(autouse=True)
def eager() -> Iterator[None]:
    """Threads for the smallest work, and more of them than there may be cores."""
    work, limit = share_from(0), thread_pool.limit(3)
    yield
    share_from(work)
    thread_pool.limit(limit)


@pytest.fixture(params=[None, "r"], ids=["read", "mapped"])
def damaged(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """An array whose first chunks are whole; then even ones have another version, odd ones another length."""
    path = tmp_path / "x.b2nd"
    array = blosc2.asarray(ITEMS, chunks=(1, WIDTH), blocks=(1, WIDTH // 4), urlpath=str(path), cparams={"clevel": 1})
    data = bytearray(path.read_bytes())
    starts = [array._handle.frame.chunk_info(number)[0] for number in range(COUNT)]
    for number in range(GOOD, COUNT):
        data[starts[number] + (5 if number % 2 else 0)] ^= 1
    path.write_bytes(data)
    return blosc2.open(str(path), mmap_mode=request.param, dparams={"nthreads": 4})


def fail_often(operation: Callable[[], object]) -> None:
    """Have it fail, many times, and compare the chunk with what is said of it."""
    for _ in range(TIMES):
        with pytest.raises(blosc2.FormatError) as raised:
            operation()
        found = re.search(r"chunk (\d+): (.*)", str(raised.value))
        assert found is not None, raised.value
        assert SAID[int(found[1]) % 2] in found[2], raised.value


READS: dict[str, Callable[[blosc2.NDArray], object]] = {
    "a selection": lambda array: array[...],
    "points": lambda array: array[np.arange(COUNT), np.arange(COUNT)],
    "many selections": lambda array: array.read_many([(slice(n, n + 2), slice(0, WIDTH)) for n in range(COUNT - 1)]),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reads(damaged: blosc2.NDArray, read: Callable[[blosc2.NDArray], object]) -> None:
    fail_often(lambda: read(damaged))


def test_a_write(damaged: blosc2.NDArray) -> None:
    writable = blosc2.open(damaged.urlpath, mode="a", cparams={"nthreads": 4}, dparams={"nthreads": 4})
    fail_often(lambda: writable.__setitem__((slice(None), slice(3, 5)), 7))
