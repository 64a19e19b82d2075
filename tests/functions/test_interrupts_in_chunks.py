"""Ctrl-C while one large chunk is compressed: signals are handled within it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import blosc2

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="SIGALRM does not exist on every platform")

ITEMS = np.random.default_rng(0).poisson(30, 4 << 20).astype("i4")
TWO_FILTERS = {"filters": [blosc2.Filter.SHUFFLE, blosc2.Filter.BYTEDELTA], "filters_meta": [0, 0], "clevel": 7}


class Interrupted(Exception):
    pass


@contextmanager
def interrupted(after: int) -> Iterator[None]:
    """Have a handler raise when it is called so often: it is called once, at the end, where nobody looks meanwhile."""
    calls = 0

    def handle(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == after:
            raise Interrupted

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


WAYS: dict[str, Callable[[Any], Any]] = {
    "one thread": lambda data: blosc2.compress2(data, typesize=4, nthreads=1),
    "two threads": lambda data: blosc2.compress2(data, typesize=4, nthreads=2),
    "two filters": lambda data: blosc2.compress2(data, typesize=4, nthreads=1, **TWO_FILTERS),
    "LZ4HC": lambda data: blosc2.compress2(data, typesize=4, codec=blosc2.Codec.LZ4HC, clevel=5),
    "ZLIB": lambda data: blosc2.compress(data, typesize=4, codec=blosc2.Codec.ZLIB),
    "chunk": lambda data: blosc2.SChunk(chunksize=data.nbytes, data=data, cparams={"typesize": 4}).to_cframe(),
    "array": lambda data: blosc2.asarray(data, chunks=data.shape, blocks=(1 << 16,)).to_cframe(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_raises_within_a_chunk(way: str) -> None:
    data, compress = ITEMS.copy(), WAYS[way]
    with pytest.raises(Interrupted), interrupted(2):
        compress(data)
    np.testing.assert_array_equal(data, ITEMS)
    compressed = compress(data)
    with interrupted(0):
        assert compress(data) == compressed
    np.testing.assert_array_equal(data, ITEMS)


@pytest.mark.parametrize("typesize", [1, 2, 3, 7, 8, 12, 16, 100, 255])
@pytest.mark.parametrize("more", [0, 1, 7, 250])
@pytest.mark.parametrize("how", [{}, {"clevel": 7, "blocksize": 100_000}, {"codec": blosc2.Codec.LZ4HC, "clevel": 1}])
def test_the_last_bytes_need_not_be_an_item(typesize: int, more: int, how: dict[str, Any]) -> None:
    data = (np.arange((4 << 20) + typesize * 5 + more) // 999).astype("u1").tobytes()
    for filters in ([], [blosc2.Filter.SHUFFLE], [blosc2.Filter.BITSHUFFLE]):
        given = {"filters": filters, "filters_meta": [0] * len(filters), **how}
        for nthreads in (1, 2):
            chunk = blosc2.compress2(data, typesize=typesize, nthreads=nthreads, **given)
            assert blosc2.decompress2(chunk) == data
    schunk = blosc2.SChunk(chunksize=8 << 20, data=data, cparams={"typesize": typesize, **how})
    assert schunk.decompress_chunk(0) == data


def test_a_handler_may_compress() -> None:
    """What it does leaves no trace in the chunk that is being made."""
    expected = blosc2.compress2(ITEMS, typesize=4, nthreads=2)
    made: list[bytes] = []
    before = signal.signal(signal.SIGALRM, lambda *_: made.append(blosc2.compress2(ITEMS[:9999], typesize=4)))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        assert blosc2.compress2(ITEMS, typesize=4, nthreads=2) == expected
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(made) > 1
    assert set(made) == {blosc2.compress2(ITEMS[:9999], typesize=4)}
