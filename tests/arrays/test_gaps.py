"""Bytes between the fields of structured items: NumPy leaves them as they were in its memory where it converts values.

None of that memory may come into a file: what an operation itself makes has zeros there.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits

import blosc2
from blosc2._core.ndim.gaps import clear_gaps

INNER = np.dtype([("x", "u1"), ("y", "<i4")], align=True)
PLAIN = np.dtype([("a", "i1"), ("b", "<f8"), ("c", "<i2")], align=True)
DTYPES = {
    "aligned": PLAIN,
    "at the beginning": np.dtype({"names": ["a"], "formats": ["<i2"], "offsets": [5], "itemsize": 9}),
    "within a field": np.dtype([("a", "i1"), ("b", INNER), ("c", INNER, (2,))]),
}
ITEMS = {
    "aligned": (1, 2.5, 3),
    "at the beginning": (7,),
    "within a field": (1, (2, 3), [(4, 5), (6, 7)]),
}
_PERTURB = -6  # of mallopt: what fresh memory is filled with


@contextmanager
def dirty_memory() -> Iterator[None]:
    """What NumPy and the system's allocator give out was used before."""
    libc = ctypes.CDLL(None) if limits.LINUX else None
    if libc is not None:
        libc.mallopt(_PERTURB, 0x11)
    try:
        used = [np.full(n, 0xEE, "u1") for n in range(1, 1024) for _ in range(3)]
        del used
        gc.collect()
        yield
    finally:
        if libc is not None:
            libc.mallopt(_PERTURB, 0)


def gaps_of(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Which bytes of an item belong to no field."""
    raw = np.full(dtype.itemsize, 1, "u1")

    def mark(item: Any) -> None:
        for name in item.dtype.names:
            if item[name].dtype.names is None:
                item[name] = np.zeros((), item[name].dtype)
            else:
                mark(item[name])

    mark(raw.view(dtype))
    return raw.astype(bool)


def gap_bytes(array: Any) -> list[int]:
    items = array[...]
    assert items.flags.c_contiguous  # a copy by NumPy would have bytes of its own there
    raw = items.reshape(-1).view("u1").reshape(-1, items.dtype.itemsize)
    return np.unique(raw[:, gaps_of(items.dtype)]).tolist()


def clean(items: list[Any], dtype: np.dtype[Any], shape: int | tuple[int, ...] = -1) -> np.ndarray[Any, Any]:
    """An array of the caller's, with zeros between the fields."""
    array = np.zeros(len(items), dtype)
    array[:] = items
    return array.reshape(shape)


def filled(items: list[Any], dtype: np.dtype[Any]) -> Any:
    array = blosc2.zeros(len(items), dtype)
    array[:] = items
    return array


def assigned(items: list[Any], dtype: np.dtype[Any]) -> Any:
    array = blosc2.zeros(len(items), dtype)
    for n, item in enumerate(items[:50]):
        array[n] = item
    array.oindex[[50, 52]] = items[50:52]
    array[np.arange(len(items)) > 60] = items[61:]
    return array


def appended(items: list[Any], dtype: np.dtype[Any]) -> Any:
    array = blosc2.zeros(10, dtype)
    array.append(items)
    array.append(clean(items, dtype)[::2])
    return array


def boxes(items: list[Any], dtype: np.dtype[Any]) -> Any:
    array = blosc2.zeros((40, 20), dtype, chunks=(7, 7), blocks=(3, 2))
    array[:20, ::2] = clean(items, dtype, (10, -1)).T
    array[30:, 1::2] = clean(items * 2, dtype, (10, -1))[:, ::4]
    return array


def points(items: list[Any], dtype: np.dtype[Any]) -> Any:
    array = blosc2.zeros((4000, 50), dtype, chunks=(1000, 50))
    array[[0, 3999, 500], [1, 2, 3]] = clean(items, dtype)[:6:2]
    array.oindex[[7, 2000], ::5] = clean(items, dtype)[:40].reshape(20, 2)[::2].T
    return array


def resized(items: list[Any], dtype: np.dtype[Any]) -> Any:
    array = blosc2.asarray(clean(items, dtype), chunks=(30,))
    array.resize((70,))
    array.resize((100,))
    return array


def frames(items: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(blosc2.SChunk(data=items, cparams={"typesize": dtype.itemsize})[:], dtype)


def listed(items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    batches = blosc2.ObjectArray()
    batches.append(items)
    return batches[0]


def packed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same fields without gaps."""

    def description(one: Any) -> Any:
        return [
            (name, one[name].base if one[name].base.names is None else description(one[name].base), one[name].shape)
            for name in one.names
        ]

    return np.dtype(description(dtype))


MADE: dict[str, Callable[[list[Any], np.dtype[Any]], Any]] = {
    "full": lambda items, dtype: blosc2.full(len(items), items[0], dtype),
    "asarray": lambda items, dtype: blosc2.asarray(items, dtype=dtype),
    "asarray of another dtype": lambda items, dtype: blosc2.asarray(np.array(items, packed(dtype)), dtype=dtype),
    "asarray of blocks": lambda items, dtype: blosc2.asarray(
        iter([items[:100], items[100:]]), shape=len(items), dtype=dtype
    ),
    "asarray of every second": lambda items, dtype: blosc2.asarray(clean(items * 2, dtype)[::2]),
    "asarray of a transposed array": lambda items, dtype: blosc2.asarray(clean(items, dtype, (20, -1)).T),
    "asarray of blocks of every second": lambda items, dtype: blosc2.asarray(
        (clean(items[:n] * 2, dtype)[::2] for n in (70, 30, 100)), shape=len(items), dtype=dtype
    ),
    "full of many chunks": lambda items, dtype: blosc2.full((20, 10), items[0], dtype, chunks=(3, 3), blocks=(2, 2)),
    "strided boxes": boxes,
    "strided points": points,
    "super-chunk": lambda items, dtype: frames(clean(items * 2, dtype)[::2], dtype),
    "a list": lambda items, dtype: listed(clean(items * 2, dtype)[::2]),
    "transposed": lambda items, dtype: blosc2.asarray(clean(items, dtype, (20, -1)), chunks=(3, 3)).T.copy(),
    "reshaped": lambda items, dtype: blosc2.reshape(blosc2.asarray(clean(items, dtype), chunks=(7,)), (20, -1)),
    "taken": lambda items, dtype: blosc2.take(blosc2.asarray(clean(items, dtype)), [5, 3, 150]),
    "resized": resized,
    "fromiter": lambda items, dtype: blosc2.fromiter(iter(items), len(items), dtype),
    "all assigned": filled,
    "assigned": assigned,
    "appended": appended,
    "astype": lambda items, dtype: blosc2.asarray(np.array(items, packed(dtype))).copy(dtype),
    "concatenation": lambda items, dtype: blosc2.concat(
        [blosc2.zeros(3, dtype), blosc2.asarray(np.array(items, packed(dtype)))]
    ),
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("kind", DTYPES)
def test_gaps_are_zero(kind: str, made: str) -> None:
    dtype, items = DTYPES[kind], [ITEMS[kind]] * 200
    with dirty_memory():
        array = MADE[made](items, dtype)
    if made != "concatenation":  # of two dtypes
        assert array.dtype == dtype
    assert gap_bytes(array) == ([0] if gaps_of(array.dtype).any() else [])


@pytest.mark.parametrize("kind", DTYPES)
def test_a_store(kind: str, tmp_path: Path) -> None:
    dtype = DTYPES[kind]
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        with dirty_memory():
            store["/a"] = blosc2.full(50, ITEMS[kind], dtype)
            store["/a"][7] = ITEMS[kind]
        assert gap_bytes(store["/a"]) == [0]


@pytest.mark.parametrize("kind", DTYPES)
def test_what_salvage_fills_in(kind: str, tmp_path: Path) -> None:
    dtype = DTYPES[kind]
    path, out = tmp_path / "a.b2nd", tmp_path / "b.b2nd"
    items = np.zeros(4000, dtype)
    clear_gaps(items)["a"] = np.random.default_rng(1).integers(0, 100, 4000)
    blosc2.asarray(items, urlpath=str(path), chunks=500, blocks=500)
    at = blosc2.open(str(path))._handle.frame.chunk_info(7)[0]
    data = bytearray(path.read_bytes())
    data[at + 40] ^= 1
    path.write_bytes(data)
    with dirty_memory():
        report = blosc2.salvage(str(path), str(out), fill=7)
    assert report.lost
    array = blosc2.open(str(out), mode="r")
    assert len(array) == 4000
    assert array[3999]["a"] == 7
    assert gap_bytes(array) == [0]


def test_memory_of_the_caller_is_not_written_to() -> None:
    """What is stored as it is keeps what it has between its fields, as in a file of NumPy."""
    raw = np.full((5, PLAIN.itemsize), 0xEE, "u1")
    items = raw.view(PLAIN)[:, 0]
    array = blosc2.asarray(items)
    assert gap_bytes(array) == [0xEE]
    assert np.all(raw == 0xEE)


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("order", ["C", "F", "strided", "one item"])
def test_clearing(kind: str, order: str) -> None:
    dtype = DTYPES[kind]
    raw = np.full((6, 4, dtype.itemsize), 0xEE, "u1")
    items = raw.view(dtype)[..., 0]
    items = {"C": items, "F": items.T, "strided": items[::2, 1:], "one item": items[2, 3:].reshape(())}[order]
    assert clear_gaps(items) is items
    seen = raw.reshape(24, -1)[np.arange(24).reshape(6, 4)[{"C": ..., "F": ..., "strided": np.s_[::2, 1:],
                                                            "one item": np.s_[2, 3]}[order]].ravel()]  # fmt: skip
    assert np.unique(seen[:, gaps_of(dtype)]).tolist() == [0]
    assert np.unique(seen[:, ~gaps_of(dtype)]).tolist() == [0xEE]
    assert np.count_nonzero(raw == 0) == gaps_of(dtype).sum() * items.size
