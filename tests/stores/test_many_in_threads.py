"""`write_many` with several threads: the same leaves as with one, and errors reach the call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import Maker

import blosc2

KINDS = ["b2e", "b2z", "b2d", "b2d-mixed", "b2d-embedded", "tree-b2z"]
SIZES = (3, 100, 1000, 4095, 4096, 5000, 32 << 10, 64 << 10, 65537, 100_000, 300_000, 1 << 20)


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    return Maker(request.param, tmp_path)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = blosc2.nthreads
    yield
    blosc2.set_nthreads(before)


def of_size(rng: np.random.Generator, nbytes: int, dtype: str = "i2") -> Any:
    """An array that compresses to some part of it."""
    count = -(-nbytes // np.dtype(dtype).itemsize)
    return np.cumsum(rng.integers(-2, 3, count)).astype(dtype)


def all_kinds() -> list[tuple[str, Any]]:
    """Values of all sizes and kinds, in an order without any."""
    rng = np.random.default_rng(4)
    table = np.zeros(900, [("a", "i4"), ("b", "f8")])
    table["a"] = np.arange(900)
    values: list[Any] = [of_size(rng, size, dtype) for size in SIZES for dtype in ("i1", "i2", "i4", "f8", "u4", "i8")]
    values += [of_size(rng, 32 << 10).reshape(64, -1) for _ in range(100)]
    values += [np.zeros(5000), np.ones((40, 50)), np.zeros((9, 1000), "u1"), table, table[::2], np.empty((0, 5))]
    values += [of_size(rng, 20_000).reshape(100, 100).T, of_size(rng, 40_000)[::-3], np.array(["text"] * 3000)]
    values += [list(range(2000)), blosc2.arange(3000), blosc2.SChunk(data=b"12345678" * 900), np.float64(3.5)]
    order = rng.permutation(len(values))
    return [(f"/g{n % 3}/k{n}", values[n]) for n in order]


def leaves(make: Maker) -> dict[str, bytes]:
    with make("r") as store:
        keys = [key for key in store if not isinstance(store[key], blosc2.TreeStore)]
        return {key: store[key].to_cframe() for key in keys}


def plain(value: Any) -> Any:
    return value[:] if isinstance(value, blosc2.SChunk) else np.asarray(value)


def test_the_leaves_are_those_of_one_thread(make: Maker) -> None:
    items = all_kinds()
    found = []
    for nthreads in (1, 2, 4):
        blosc2.set_nthreads(nthreads)
        told: list[tuple[int, int]] = []
        with make("w") as store:
            assert store.write_many(iter(items), progress=lambda *now, told=told: told.append(now)) == len(items)
        assert told[-1] == (len(items), sum(getattr(v, "nbytes", np.asarray(v).nbytes) for _, v in items))
        found.append(leaves(make))
        assert blosc2.check(make.path).ok
    assert list(found[0]) == list(found[1]) == list(found[2])
    assert found[0] == found[1] == found[2]
    with make("r") as store:
        for key, value in items:
            np.testing.assert_array_equal(plain(store[key]), plain(value))


@pytest.mark.parametrize("make", ["b2e", "b2z"], indirect=True)
def test_they_are_those_of_one_assignment(make: Maker) -> None:
    blosc2.set_nthreads(2)
    items = all_kinds()
    with make("w") as store:
        store.write_many(items)
    many = leaves(make)
    with make("w") as store:
        for key, value in items:
            store[key] = value
    assert leaves(make) == many
