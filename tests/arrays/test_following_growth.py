"""A handle looks at the file once more before it refuses an index: another handle may have appended the item."""

import os
import sys

import numpy as np
import pytest

import blosc2

KINDS = ["mapped", "positional", "directory"]


@pytest.fixture(params=KINDS)
def both(request, tmp_path):
    """A handle that writes, and one that was opened for reading before it did."""
    path = str(tmp_path / "a.b2nd")
    writer = blosc2.asarray(
        np.arange(10).reshape(5, 2), urlpath=path, mode="w", chunks=(2, 2), contiguous=request.param != "directory"
    )
    return writer, blosc2.open(path, mode="r", mmap_mode="r" if request.param == "mapped" else None)


@pytest.mark.parametrize(
    "read",
    [
        lambda array: array[6],
        lambda array: array[6, :],
        lambda array: array[[6, 5]][0],
        lambda array: array[None, 6][0],
        lambda array: array.read(6),
        lambda array: array.read_many([0, 6])[1],
        lambda array: array.oindex[[6], [0, 1]][0],
    ],
)
def test_an_item_that_was_appended_is_read(both, read):
    writer, reader = both
    assert reader.shape == (5, 2)
    writer.append(np.array([[20, 21], [30, 31]]))
    np.testing.assert_array_equal(read(reader), [30, 31])
    assert reader.shape == (7, 2)


@pytest.mark.skipif(sys.platform == "win32", reason="no locking there")
@pytest.mark.parametrize("kind", ["file", "directory", "leaf"])
def test_shapes_are_the_newest_where_programs_take_turns(tmp_path, kind):
    """With `locking=True`, also before anything was read, and through a view; leaves of a store for writing."""
    store = None
    if kind == "leaf":
        path = str(tmp_path / "s.b2z")
        with blosc2.TreeStore(path, mode="w", locking=True) as new:
            new["/a"] = blosc2.zeros((5, 2), dtype="i8", chunks=(2, 2))
        writing, store = blosc2.TreeStore(path, mode="a", locking=True), blosc2.open(path, mode="a", locking=True)
        writer, reader = writing["/a"], store["/a"]
    else:
        path = str(tmp_path / "a.b2nd")
        given = {"urlpath": path, "mode": "w", "chunks": (2, 2), "contiguous": kind == "file", "locking": True}
        writer = writing = blosc2.asarray(np.arange(10).reshape(5, 2), **given)
        reader = blosc2.open(path, mode="r", locking=True)
    view = blosc2.expand_dims(reader, 1)
    writer.append(np.array([[20, 21], [30, 31]]))
    writing.flush()
    assert reader.shape == (7, 2)
    assert view.shape == (7, 1, 2)
    writer.append(np.array([[40, 41]]))
    writing.flush()
    assert len(reader) == 8
    writer.resize((3, 2))
    writing.flush()
    assert (reader.size, reader.nbytes, reader.ndim) == (6, 48, 2)
    assert [len(row) for row in reader] == [2, 2, 2]
    if store is not None:
        store.close()
        assert reader.shape == (3, 2)
        writing.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no locking there")
def test_what_is_gone_is_still_shown(tmp_path):
    path = str(tmp_path / "a.b2nd")
    blosc2.asarray(np.arange(5), urlpath=path, mode="w", locking=True)
    reader = blosc2.open(path, mode="r", locking=True)
    blosc2.open(path, mode="a", locking=True).append([5])
    os.remove(path)
    assert "(5,)" in repr(reader)
    with pytest.raises(FileNotFoundError):
        reader.shape  # noqa: B018 - like any read


@pytest.mark.parametrize("key", [7, -8, (0, 2), [0, 7]])
def test_an_index_that_is_wrong_stays_so(both, key):
    writer, reader = both
    writer.append(np.array([[20, 21], [30, 31]]))
    with pytest.raises(IndexError, match="out of bounds"):
        reader[key]


def test_slices_show_the_version_of_the_handle(both):
    writer, reader = both
    writer.append(np.array([[20, 21]]))
    np.testing.assert_array_equal(reader[:], np.arange(10).reshape(5, 2))
    np.testing.assert_array_equal(reader[-1], [8, 9])
    assert reader.shape == (5, 2)


def test_a_file_that_is_gone_is_not_what_the_error_tells(tmp_path):
    path = str(tmp_path / "a.b2nd")
    blosc2.asarray(np.arange(5), urlpath=path, mode="w")
    reader = blosc2.open(path, mode="r")
    os.remove(path)
    with pytest.raises(IndexError):
        reader[5]


def test_an_item_that_was_appended_is_set(tmp_path):
    path = str(tmp_path / "a.b2nd")
    writer = blosc2.asarray(np.arange(5), urlpath=path, mode="w", chunks=(2,))
    other = blosc2.open(path, mode="a")
    writer.append(np.array([6, 7]))
    other[6] = 70
    other.oindex[[5]] = 60
    np.testing.assert_array_equal(blosc2.open(path)[:], [0, 1, 2, 3, 4, 60, 70])
    with pytest.raises(IndexError):
        other[7] = 1


def test_a_transaction_keeps_its_version(tmp_path):
    path = str(tmp_path / "a.b2nd")
    writer = blosc2.asarray(np.arange(5), urlpath=path, mode="w")
    other = blosc2.open(path, mode="a")
    with pytest.raises(IndexError), other.transaction():
        other[0] = 9
        writer.append(np.array([6]))
        other[5] = 1
    np.testing.assert_array_equal(blosc2.open(path)[:], [0, 1, 2, 3, 4, 6])


@pytest.mark.parametrize("mapped", [None, "r"])
def test_chunks_and_items_of_a_super_chunk(tmp_path, mapped):
    path = str(tmp_path / "s.b2frame")
    writer = blosc2.SChunk(chunksize=4, data=b"abcd", cparams={"typesize": 1}, urlpath=path, mode="w")
    readers = [blosc2.open(path, mode="r", mmap_mode=mapped) for _ in range(3)]
    writer.append_data(b"efgh")
    assert readers[0][5] == b"f"
    assert readers[1].decompress_chunk(1) == b"efgh"
    assert len(readers[2].get_lazychunk(1)) >= 32
    assert readers[2].get_chunk(1) == writer.get_chunk(1)
    with pytest.raises(IndexError):
        readers[0][8]
    with pytest.raises(RuntimeError, match="no chunk 2"):
        readers[0].get_chunk(2)


@pytest.mark.parametrize("kind", [blosc2.ObjectArray, blosc2.BatchArray])
def test_elements_of_a_list(tmp_path, kind):
    path = str(tmp_path / "list.b2frame")
    writer = kind(urlpath=path, mode="w")
    writer.append([1, 2])
    reader = blosc2.open(path, mode="r")
    writer.append([3, 4])
    assert list(reader[np.int64(1)]) == [3, 4]
    with pytest.raises(IndexError):
        reader[2]
