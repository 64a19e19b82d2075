"""`write_many` with several threads: the same leaves as with one, and errors reach the call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import Maker

import blosc2
from blosc2._stores.leaves import many_frames

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


@pytest.mark.parametrize("nbytes", [5000, 40_000, 200_000])
def test_an_array_may_be_filled_again_for_the_next_value(make: Maker, nbytes: int) -> None:
    blosc2.set_nthreads(2)
    array = np.empty(nbytes // 8, "i8")

    def items() -> Iterator[tuple[str, Any]]:
        for n in range(600 if nbytes < 10_000 else 60):
            array[:] = n
            array[0] = -1
            yield f"/k{n}", array

    with make("w") as store:
        count = store.write_many(items())
    with make("r") as store:
        assert len(store) == count
        for n in range(count):
            values = store[f"/k{n}"][:]
            assert values[0] == -1
            assert (values[1:] == n).all()


@pytest.mark.parametrize("nbytes", [5000, 200_000])
@pytest.mark.parametrize("what", ["raises", "object", "key"])
def test_an_error_reaches_the_call_and_nothing_is_stored(make: Maker, nbytes: int, what: str) -> None:
    blosc2.set_nthreads(2)
    rng = np.random.default_rng(1)
    with make("w") as store:
        store["/before"] = [1]

    def items() -> Iterator[tuple[str, Any]]:
        for n in range(40):
            if n == 33:
                if what == "raises":
                    raise ZeroDivisionError
                yield ("/bad//key", rng.random(9)) if what == "key" else ("/bad", np.array([object()] * 999))
            yield f"/k{n}", of_size(rng, nbytes)

    error: Any = {"raises": ZeroDivisionError, "object": TypeError, "key": ValueError}[what]
    with make("a") as store:
        with pytest.raises(error):
            store.write_many(items())
        assert list(store) == ["/before"]
        store.write_many([("/after", of_size(rng, nbytes))])
    assert sorted(leaves(make)) == ["/after", "/before"]


def test_in_a_transaction(make: Maker) -> None:
    blosc2.set_nthreads(2)
    rng = np.random.default_rng(1)
    values = {f"/k{n}": of_size(rng, 30_000) for n in range(50)}
    with make("w") as store:
        with store.transaction():
            store.write_many(values)
            assert np.array_equal(store["/k7"][:], values["/k7"])
        with pytest.raises(ZeroDivisionError), store.transaction():
            store.write_many((f"/more{n}", of_size(rng, 30_000)) for n in range(50))
            1 / 0  # noqa: B018
    with make("r") as store:
        assert sorted(store) == sorted(values)
        assert all(np.array_equal(store[key][:], value) for key, value in values.items())


def test_few_values_are_taken_ahead() -> None:
    """At most 256 values, and 33 MB of copies."""
    for nbytes in (5000, 60_000, 200_000, 8 << 20):
        taken = given = most = 0
        value = np.zeros(nbytes, "u1")

        def items(nbytes: int = nbytes, value: Any = value) -> Iterator[tuple[str, Any]]:
            nonlocal taken
            for n in range(2000 if nbytes < 100_000 else 300 if nbytes < 1 << 20 else 12):
                taken += 1
                yield f"/k{n}", value

        for key, size, _ in many_frames._together(items(), None, {}, 2):
            assert (key, size) == (f"/k{given}", nbytes)
            given += 1
            most = max(most, taken - given)
        assert given == taken > 0
        assert most <= 257
        assert most * nbytes <= (34 << 20) + 8 * nbytes


def test_frames_that_are_not_made_together_are_made_one_by_one(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        """Some frames cannot be made by a template."""

        def __init__(self) -> None:
            self.batch = real()
            self.clear, self.add, self.items_at = self.batch.clear, self.batch.add, self.batch.items_at

        @property
        def nbytes(self) -> int:
            return self.batch.nbytes

        def frames(self, threads: int) -> list[bytes | None]:
            return [None if n % 3 == 0 else frame for n, frame in enumerate(self.batch.frames(threads))]

    items = all_kinds()
    blosc2.set_nthreads(2)
    with make("w") as store:
        store.write_many(items)
    good = leaves(make)
    real = many_frames.FrameBatch
    monkeypatch.setattr(many_frames, "FrameBatch", Failing)
    with make("w") as store:
        store.write_many(items)
    assert leaves(make) == good
