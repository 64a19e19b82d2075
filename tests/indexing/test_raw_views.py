"""Views of uncompressed chunks: what NumPy would show, in the memory of the file, or a reason why not."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from fixture_kit.keys import basic_key
from hypothesis import given

import blosc2

RAW = {"clevel": 0}


def raw(tmp_path: Path, items: np.ndarray, **how: Any) -> blosc2.NDArray:
    path = tmp_path / "raw.b2nd"
    blosc2.asarray(items, urlpath=path, mode="w", cparams=RAW, **how)
    return blosc2.open(path, mmap_mode="r")


@given(data=st.data())
def test_a_view_is_what_numpy_shows_or_refused(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 7), max_size=3)))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    blocks = tuple(data.draw(st.integers(1, n)) for n in chunks)
    items = np.random.default_rng(1).integers(1, 99, shape).astype(data.draw(st.sampled_from(["u1", ">i4", "f8"])))
    array = blosc2.from_cframe(blosc2.asarray(items, cparams=RAW, chunks=chunks, blocks=blocks).to_cframe())
    key = basic_key(np.random.default_rng(data.draw(st.integers(0, 10**6))), shape)
    expected = np.asarray(items[key], items.dtype)
    # What lies in parts may be refused, and chunks of one value, for which nothing is stored.
    if chunks != shape or blocks[1:] != shape[1:] or np.unique(items).size == 1:
        try:
            array.view(key)
        except ValueError:
            with pytest.raises(ValueError, match="without a copy"):
                array.view(key)
            return
    view = array.view(key)
    np.testing.assert_array_equal(view, expected, strict=True)
    assert not view.flags.writeable


@pytest.mark.parametrize("dtype", ["f8", "c16", "i2", "S5"])
@pytest.mark.parametrize("meta", [None, {"unit": "mm", "origin": [1, 2, 3]}])
def test_payloads_are_aligned(dtype: str, meta: Any, tmp_path: Path) -> None:
    items = np.arange(1, 4001).reshape(40, 100).astype(dtype)
    path = tmp_path / "a.b2nd"
    array = blosc2.asarray(items, urlpath=path, chunks=(10, 100), blocks=(5, 100), cparams=RAW, meta=meta)
    array[3, 4] = items[3, 5]
    array.resize((50, 100))
    array[40:] = items[:10]
    items = np.concatenate([items, items[:10]])
    items[3, 4] = items[3, 5]
    copied = tmp_path / "b.b2nd"
    array.save(copied)
    with blosc2.DictStore(tmp_path / "s.b2z", mode="w") as store:
        store["/a"] = array
    store = blosc2.DictStore(tmp_path / "s.b2z", mode="r", mmap_mode="r")
    for found in (blosc2.open(path, mmap_mode="r"), blosc2.open(copied, mmap_mode="r"), store["/a"]):
        np.testing.assert_array_equal(found[...], items)
        assert {name: value for name, value in found.meta.items() if name not in ("b2nd", "_pad")} == (meta or {})
        for start in range(0, 50, 10):
            view = found.view(slice(start, start + 10))
            np.testing.assert_array_equal(view, items[start : start + 10])
            assert view.ctypes.data % 64 == 0
            assert view.flags.aligned


def test_asarray_without_a_copy(tmp_path: Path) -> None:
    items = np.arange(600.0).reshape(20, 30)
    array = raw(tmp_path, items)
    view = np.asarray(array, copy=False)
    np.testing.assert_array_equal(view, items)
    assert not view.flags.owndata
    # From Python 3.12 on NumPy takes the buffer, and says itself that it would have to copy.
    with pytest.raises(ValueError, match=r"float32|Unable to avoid copy"):
        np.asarray(array, dtype="f4", copy=False)
    for refused, why in (
        (blosc2.asarray(items), "compressed"), (blosc2.open(tmp_path / "raw.b2nd"), "mmap_mode='r'"),
        (blosc2.asarray(items, chunks=(10, 30), cparams=RAW), "more than one chunk"), (blosc2.zeros(30), "compressed"),
        (blosc2.asarray(items, blocks=(20, 10), cparams=RAW), "more than one block"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=why):
            np.asarray(refused, copy=False)
    with pytest.raises(ValueError, match="integers and slices"):
        array.view([0, 1])
    with pytest.raises(IndexError, match="bounds"):
        array.view(20)
    assert array.view(slice(3, 3)).shape == (0, 30)


def test_exchange_of_memory(tmp_path: Path) -> None:
    items = np.arange(600.0).reshape(20, 30)
    array = raw(tmp_path, items)
    np.testing.assert_array_equal(np.from_dlpack(array), items)
    assert array.__dlpack_device__() == (1, 0)
    assert bytes(array.__buffer__(0)) == items.tobytes()
    compressed = blosc2.asarray(items)
    with pytest.raises(BufferError, match="without a copy"):
        compressed.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="without a copy"):
        compressed.__buffer__(0)


def test_exchange_of_a_copy(tmp_path: Path) -> None:
    """Where no view is asked for, what cannot be viewed is read."""
    items = np.arange(600.0).reshape(20, 30)
    compressed = blosc2.asarray(items)
    assert compressed.__dlpack_device__() == (1, 0)
    for copy in (None, True):
        assert "dltensor" in repr(compressed.__dlpack__(copy=copy))
    np.testing.assert_array_equal(np.from_dlpack(compressed), items)
    # A mapped file is only read. A consumer of the first protocol cannot be told so, and gets a copy.
    mapped = raw(tmp_path, items)
    capsule = mapped.__dlpack__()
    assert "dltensor" in repr(capsule)
    asks_by_the_second = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
    assert np.shares_memory(np.from_dlpack(mapped), mapped.view()) == asks_by_the_second
    with pytest.raises(BufferError):
        blosc2.zeros(3, "i4,f8").__dlpack__()


def test_a_view_outlives_its_array_its_store_and_changes(tmp_path: Path) -> None:
    items = np.arange(600.0).reshape(20, 30)
    with blosc2.TreeStore(tmp_path / "t.b2z", mode="w") as tree:
        tree["/a"] = blosc2.asarray(items, cparams=RAW)
    tree = blosc2.TreeStore(tmp_path / "t.b2z", mode="r", mmap_mode="r")
    view = tree["/a"].view()
    tree.close()
    del tree
    gc.collect()
    with blosc2.TreeStore(tmp_path / "t.b2z", mode="a") as tree:
        tree["/a"] = np.zeros(3)
    np.testing.assert_array_equal(view, items)
    memory = blosc2.asarray(items, cparams=RAW)
    old = memory.view()
    memory[...] = 0
    np.testing.assert_array_equal(old, items)


def test_a_view_takes_no_memory(tmp_path: Path) -> None:
    items = np.ones(20_000_000)
    items[::2] = 2
    array = blosc2.asarray(items, urlpath=tmp_path / "a.b2nd", chunks=items.shape, blocks=items.shape, cparams=RAW)
    del array
    code = (
        "import sys, resource, numpy as np, blosc2\n"
        f"a = blosc2.open({str(tmp_path / 'a.b2nd')!r}, mmap_mode='r')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "v = np.asarray(a, copy=False)\n"
        "assert v[123] == 1 and v.shape == (20_000_000,)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 20_000  # kilobytes, of 160,000


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("name", ["a.b2z", "a.b2e"])
def test_members_of_a_store_are_aligned_wherever_they_were_made(tmp_path: Path, name: str, where: str) -> None:
    items = np.random.default_rng(1).random((40, 30), dtype="f4")
    path = tmp_path / "one.b2nd" if where == "file" else None
    made = blosc2.asarray(items, cparams=RAW, urlpath=path, chunks=(7, 30), blocks=(3, 30))
    kind = blosc2.EmbedStore if name.endswith("e") else blosc2.TreeStore
    with kind(str(tmp_path / name), mode="w") as store:
        store["/odd"] = np.arange(3, dtype="u1")
        store["/a"] = made
    with blosc2.open(tmp_path / name, mmap_mode="r") as store:
        for start in range(0, 40, 7):
            view = store["/a"].view(slice(start, start + 3))
            assert view.ctypes.data % 64 == 0
            assert np.array_equal(view, items[start : start + 3])
