"""What users of h5py, zarr, NumPy and the published package write: it works, or says what to write here."""

from __future__ import annotations

import pydoc
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._options import OF_ARRAYS, OF_CHUNKS, OF_STORES


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_arrays_say_what_to_write(name: str) -> None:
    array = blosc2.arange(3)
    assert not hasattr(array, name)
    assert name not in dir(array)
    with pytest.raises(AttributeError, match=f"^'NDArray' has no {name}: "):
        getattr(array, name)


@pytest.mark.parametrize("name", OF_CHUNKS)
def test_super_chunks_say_what_to_write(name: str) -> None:
    schunk = blosc2.SChunk()
    assert not hasattr(schunk, name)
    assert name not in dir(schunk)
    with pytest.raises(AttributeError, match=f"^'SChunk' has no {name}: "):
        getattr(schunk, name)


@pytest.mark.parametrize("name", OF_STORES)
@pytest.mark.parametrize("kind", [blosc2.EmbedStore, blosc2.DictStore, blosc2.TreeStore])
def test_stores_say_what_to_write(tmp_path: Path, kind: Any, name: str) -> None:
    with kind(str(tmp_path / ("a.b2e" if kind is blosc2.EmbedStore else "a.b2z")), mode="w") as store:
        assert not hasattr(store, name)
        assert name not in dir(store)
        with pytest.raises(AttributeError, match=f"^'{kind.__name__}' has no {name}: "):
            getattr(store, name)


@pytest.mark.parametrize(
    ("kind", "names"), [(blosc2.NDArray, OF_ARRAYS), (blosc2.SChunk, OF_CHUNKS), (blosc2.TreeStore, OF_STORES)]
)
def test_help_says_what_is_absent(kind: Any, names: Any) -> None:
    text = pydoc.plain(pydoc.render_doc(kind))
    for name in names:
        assert re.search(rf"^ \|  {name}\n \|      Absent: \w", text, re.MULTILINE), name


@pytest.mark.parametrize(
    ("name", "what"),
    [("File", "TreeStore"), ("Group", "TreeStore"), ("Dataset", "NDArray"), ("Array", "NDArray"),
     ("finfo", r"numpy.finfo\(array.dtype\)"), ("get_slice", r"array\[...\]"), ("BLOSC_LOCKING", "environment"),
     ("ListArray", "values of an ObjectArray, one each, or batches of a BatchArray"), ("CTable", "convert")],
)  # fmt: skip
def test_the_package_says_what_to_write(name: str, what: str) -> None:
    with pytest.raises(AttributeError, match=what):
        getattr(blosc2, name)


@pytest.mark.parametrize("dtype", ["i4", ">f8", "?", "U3", "S2", "M8[s]", [("a", "i4"), ("b", "f8")]])
def test_tolist_and_astype(dtype: Any) -> None:
    items = np.arange(6).reshape(2, 3).astype("M8[s]" if dtype == "M8[s]" else "i4").astype(dtype)
    array = blosc2.asarray(items, chunks=(1, 2), blocks=(1, 1))
    assert array.tolist() == items.tolist()
    for target in ("U30", items.dtype) if items.dtype.names is None else (items.dtype,):
        np.testing.assert_array_equal(array.astype(target)[:], items.astype(target))
    assert array.astype(items.dtype, copy=False) is array
    with pytest.raises(TypeError, match="according to the rule"):
        array.astype(np.dtype("c16"), casting="no")


def test_one_axis_is_resized() -> None:
    array = blosc2.asarray(np.arange(6).reshape(2, 3))
    array.resize(4, axis=-1)
    array.resize(1, axis=0)
    assert array[:].tolist() == [[0, 1, 2, 0]]
    for length, axis in ((3, 2), ((3, 4), 0), (-1, 0)):
        with pytest.raises(ValueError, match=r"axis|axes|negative"):
            array.resize(length, axis=axis)
    assert array.shape == (1, 4)


def test_an_integer_is_an_index() -> None:
    assert [4, 5, 6][blosc2.asarray(np.uint8(2))] == 6
    assert list(range(blosc2.asarray(2))) == [0, 1]
    for other in (blosc2.asarray(2.0), blosc2.asarray([2]), blosc2.asarray(True)):
        with pytest.raises(TypeError):
            range(other)


@pytest.mark.parametrize(
    ("name", "what"),
    [("num_workers", "it is workers= here"), ("generator", "seed= here"), ("sampler", "replicas="),
     ("bach_size", "did you mean 'batch_size'"), ("pin_memory", "torch.utils.data.DataLoader")],
)  # fmt: skip
def test_loaders_say_what_to_write(name: str, what: str) -> None:
    with pytest.raises(TypeError, match=f"^Loader\\(\\) has no keyword '{name}'.*{what}.*It takes dataset, batch_size"):
        blosc2.Loader(blosc2.Samples(blosc2.zeros((4, 3))), **{name: 1})


def test_children_of_the_root(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as tree:
        tree["/a/b"], tree["/c"] = [1], [2]
        assert tree.get_children() == ["/a", "/c"]
        assert tree["/a"].get_children() == ["/b"]
