"""Arrays of this package as arrays of dask: their chunks, and the tokens that name them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dask.array")

import dask
import dask.array as da
from dask.base import tokenize

import blosc2

ITEMS = np.arange(6000, dtype="i4").reshape(60, 100)
_open: list[Any] = []  # stores, whose leaves can be changed as long as somebody has them
KINDS = ("memory", ".b2nd", ".b2z", ".b2d", ".b2e")


def made(kind: str, folder: Path, items: Any = ITEMS, mode: str = "r", mmap_mode: str | None = None) -> Any:
    """An array of some kind, opened anew."""
    array = blosc2.asarray(items, chunks=(7, 50)) if items.size else blosc2.asarray(items)
    if kind == "memory":
        return array
    if kind == ".b2nd":
        array.save(str(folder / "a.b2nd"), mode="w")
        return blosc2.open(str(folder / "a.b2nd"), mode=mode, mmap_mode=mmap_mode)
    make: Any = blosc2.EmbedStore if kind == ".b2e" else blosc2.TreeStore
    with make(str(folder / f"a{kind}"), mode="w") as store:
        store["/g/x"] = array
    store = blosc2.open(str(folder / f"a{kind}"), mode=mode, mmap_mode=mmap_mode)
    if mode != "r":
        _open.append(store)
    return store["/g/x"]


@pytest.mark.parametrize("asarray", [None, False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_values_and_chunks(kind: str, asarray: bool | None, tmp_path: Path) -> None:
    array = made(kind, tmp_path)
    with dask.config.set({"array.chunk-size": "4KiB"}):
        found = da.from_array(array, asarray=asarray)
    assert found.numblocks > (1, 1)
    for lengths, chunk in zip(found.chunks, array.chunks, strict=True):
        assert all(end % chunk == 0 for end in np.cumsum(lengths)[:-1])
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(found, ITEMS)
        np.testing.assert_array_equal(found[::-3, [5, 1]].compute(), ITEMS[::-3, [5, 1]])
        assert (found.sum() + found[3, 4]).compute() == ITEMS.sum() + ITEMS[3, 4]


def test_by_threads_and_processes(tmp_path: Path) -> None:
    arrays = [made(kind, tmp_path, mmap_mode="r" if kind != "memory" else None) for kind in KINDS]
    found = [da.from_array(array, chunks=(30, 100)).sum() for array in arrays]
    assert dask.compute(*found, scheduler="threads") == (ITEMS.sum(),) * len(KINDS)
    assert dask.compute(*found, scheduler="processes", num_workers=1) == (ITEMS.sum(),) * len(KINDS)


@pytest.mark.parametrize("shape", [(), (0, 3), (5,)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    items = np.ones(shape)
    np.testing.assert_array_equal(da.from_array(blosc2.asarray(items)).compute(scheduler="synchronous"), items)


# ------------------------------------------------------------------ tokens
@pytest.mark.parametrize("mmap_mode", [None, "r"])
@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_token_is_that_of_path_key_and_version(kind: str, mmap_mode: str | None, tmp_path: Path) -> None:
    array = made(kind, tmp_path, mmap_mode=mmap_mode)
    token = tokenize(array)
    assert tokenize(array) == token
    key = None if kind == ".b2nd" else "/g/x"
    code = f"import blosc2, sys; from dask.base import tokenize; a = blosc2.open({str(tmp_path / f'a{kind}')!r})\n"
    code += f"print(tokenize(a if {key!r} is None else a[{key!r}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == token  # the same in another process, with another way to read
    other = ITEMS.copy()
    other[59, 99] += 1
    assert tokenize(made(kind, tmp_path, other)) != token
    assert tokenize(made(kind, tmp_path)) == token  # the same bytes at the same place again


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_changes_the_token(kind: str, tmp_path: Path) -> None:
    array = made(kind, tmp_path, mode="a")
    tokens = {tokenize(array)}
    array[0, 0] = 99
    tokens.add(tokenize(array))
    array.resize((70, 100))
    tokens.add(tokenize(array))
    array.vlmeta["units"] = "m"
    assert len(tokens) == 3
    while _open:
        _open.pop().close()


def test_tokens_of_arrays_in_memory() -> None:
    first, same = blosc2.asarray(ITEMS), blosc2.asarray(ITEMS)
    assert tokenize(first) == tokenize(same)
    assert tokenize(first) != tokenize(blosc2.asarray(ITEMS + 1))
    assert tokenize(first) != tokenize(blosc2.asarray(ITEMS.view("u4")))
    assert tokenize(first) != tokenize(blosc2.asarray(ITEMS.reshape(100, 60)))


def test_tokens_of_views() -> None:
    base = blosc2.asarray(ITEMS[None])
    view = base.squeeze(0)
    assert tokenize(view) == tokenize(base.squeeze(0))
    assert tokenize(view) != tokenize(base)
    assert tokenize(view) != tokenize(blosc2.expand_dims(view, 1))
    np.testing.assert_array_equal(da.from_array(view).compute(scheduler="synchronous"), ITEMS)


def test_what_others_may_change_is_never_the_same(tmp_path: Path) -> None:
    blosc2.asarray(ITEMS, urlpath=str(tmp_path / "a.b2nd"))
    array = blosc2.open(str(tmp_path / "a.b2nd"), locking=True)
    assert tokenize(array) != tokenize(array)


def test_nothing_is_read_for_a_token(tmp_path: Path) -> None:
    items = np.random.default_rng(0).random(1 << 17)  # 1 MiB that cannot be compressed
    blosc2.asarray(items, urlpath=str(tmp_path / "a.b2nd"), chunks=(1 << 14,))
    array = blosc2.open(str(tmp_path / "a.b2nd"))
    with open(tmp_path / "a.b2nd", "r+b") as file:  # in the middle of some chunk
        file.seek(500_000)
        file.write(bytes(1000))
    tokenize(array)
    with pytest.raises(blosc2.FormatError):
        array[:]


def test_functions_that_name_the_package_travel() -> None:
    """A function of a script is sent by its code, and with it the modules that it names."""
    cloudpickle = pytest.importorskip("cloudpickle")

    def mean(length: int) -> float:
        return float(blosc2.arange(length)[:].mean())

    mean.__module__ = "__main__"
    assert cloudpickle.loads(cloudpickle.dumps(mean))(5) == 2.0
    assert tokenize(mean) == tokenize(mean)
