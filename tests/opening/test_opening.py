"""`open`, `load` and the family of `from_cframe`: every mode, every kind of storage, and what they refuse.

Stores are opened in the tests of their own classes; here they only have to be recognised.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from fixture_kit import manifest

import blosc2
from blosc2 import SChunk
from blosc2.exceptions import FormatError, UnsafeDeserializationError

ITEMS = np.arange(100, dtype="<i4").reshape(10, 10)


@pytest.fixture
def array_path(tmp_path: Path) -> Path:
    path = tmp_path / "array.b2nd"
    array = blosc2.asarray(ITEMS, chunks=(4, 10), blocks=(2, 5), urlpath=path, meta={"m": 1})
    array.vlmeta["v"] = (1, 2)
    return path


@pytest.fixture
def schunk_path(tmp_path: Path) -> Path:
    path = tmp_path / "schunk.b2frame"
    SChunk(chunksize=120, data=ITEMS, urlpath=path).vlmeta["v"] = 3
    return path


def writes(x: Any) -> bool:
    """Whether a change through a handle is published in its file."""
    before = Path(x.urlpath).read_bytes()
    x.vlmeta["new"] = 1
    x.flush()  # what follows other changes closely waits
    return Path(x.urlpath).read_bytes() != before


# --------------------------------------------------------------------- modes


@pytest.mark.parametrize(("mode", "mmap_mode", "effective", "kind"), [
    ("r", None, "r", "read"), ("a", None, "a", "write"), ("w", None, "a", "write"), ("r", "r", "r", "read"),
    ("a", "r", "r", "read"), ("w", "r", "r", "read"), ("r", "r+", "a", "write"), ("a", "r+", "a", "write"),
    ("r", "c", "a", "private"), ("w", "c", "a", "private"),
])  # fmt: skip
def test_modes_of_arrays(mode: str, mmap_mode: str | None, effective: str, kind: str, array_path: Path) -> None:
    before = array_path.read_bytes()
    array = blosc2.open(array_path, mode, mmap_mode=mmap_mode)
    assert (array.mode, array.mmap_mode, array.urlpath) == (effective, mmap_mode, str(array_path))
    np.testing.assert_array_equal(array[:], ITEMS)  # also mode 'w' keeps the items of an array
    if kind == "read":
        with pytest.raises(ValueError, match="reading mode"):
            array[0] = 1
        assert array_path.read_bytes() == before
    else:
        array[2:5] = -1
        want = ITEMS.copy()
        want[2:5] = -1
        np.testing.assert_array_equal(array[:], want)
        np.testing.assert_array_equal(blosc2.open(array_path)[:], want if kind == "write" else ITEMS)
        assert (array_path.read_bytes() != before) is (kind == "write")
        assert writes(array) is (kind == "write")


def test_mode_w_empties_a_super_chunk(schunk_path: Path) -> None:
    schunk = blosc2.open(schunk_path, "w")
    assert (schunk.nchunks, schunk.nbytes, schunk.mode) == (0, 0, "a")
    assert blosc2.open(schunk_path).nchunks == 0
    assert blosc2.open(schunk_path).vlmeta["v"] == 3
    schunk.append_data(ITEMS[:3])
    assert blosc2.open(schunk_path)[:] == ITEMS[:3].tobytes()
    assert blosc2.open(schunk_path, "a").nchunks == 1
    before = schunk_path.read_bytes()
    assert blosc2.open(schunk_path, "w", mmap_mode="c").nchunks == 1
    assert schunk_path.read_bytes() == before


@pytest.mark.parametrize(("more", "kind", "text"), [
    ({"mode": "x"}, FileExistsError, "only creates"), ({"mode": "rw"}, ValueError, "mode must be"),
    ({"mode": None}, ValueError, "mode must be"), ({"mode": 5}, ValueError, "mode must be"),
    ({"mmap_mode": "w+"}, ValueError, "w. mmap_mode cannot be used to open an existing file"),
    ({"mmap_mode": "x"}, ValueError, "Invalid mmap_mode"), ({"mmap_mode": True}, ValueError, "Invalid mmap_mode"),
    ({"initial_mapping_size": 100}, ValueError, "initial_mapping_size can only be used with mmap_mode"),
    ({"initial_mapping_size": 100, "mmap_mode": "r"}, ValueError, "only be used with writing modes"),
    ({"initial_mapping_size": "a", "mmap_mode": "r+"}, TypeError, "number of bytes"),
    ({"deserialize": "all"}, ValueError, "must be 'safe' or 'full'"), ({"deserialize": True}, TypeError, "boolean"),
    ({"storage": blosc2.Storage()}, AttributeError, "storage"), ({"dataset": "x"}, NotImplementedError, "dataset"),
    ({"hdf5_index": 1}, NotImplementedError, "hdf5_index"), ({"path": "x"}, NotImplementedError, "path"),
    ({"shared_cache": True}, NotImplementedError, "shared_cache"), ({"offset": -1}, ValueError, "negative"),
    ({"storage_options": {"a": 1}}, ValueError, "storage_options"),
    ({"remote": {"retries": 1}}, ValueError, "remote"),
    ({"timeout": "5"}, TypeError, "seconds"),
    ({"cparams": {"clevel": 11}}, ValueError, "clevel"), ({"dparams": {"nthreads": 0}}, ValueError, "positive"),
    ({"offset": 7}, RuntimeError, "magic"), ({"offset": 1 << 40}, RuntimeError, "offset"),
])  # fmt: skip
def test_arguments_that_are_refused(more: dict[str, Any], kind: type[Exception], text: str, array_path: Path) -> None:
    before = array_path.read_bytes()
    with pytest.raises(kind, match=text):
        blosc2.open(array_path, **more)
    if kind is not FileExistsError and "offset" not in more:  # before any file is touched
        with pytest.raises(kind, match=text):
            blosc2.open(array_path.with_name("missing"), **more)
    assert array_path.read_bytes() == before


def test_arguments_that_are_taken(array_path: Path) -> None:
    array = blosc2.open(
        str(array_path), "a", 0, None, None, path=None, shared_cache=False, locking=False, initial_mapping_size=1 << 20,
        mmap_mode="r+", cparams={"codec": blosc2.Codec.LZ4, "clevel": 2}, dparams=blosc2.DParams(nthreads=3),
    )  # fmt: skip
    assert (array.cparams.codec, array.cparams.clevel, array.dparams.nthreads) == (blosc2.Codec.LZ4, 2, 3)
    array[:4] = 5
    assert array.get_chunk(0)[22] == blosc2.Codec.LZ4.value
    np.testing.assert_array_equal(blosc2.open(array_path)[:4], 5)
    assert blosc2.open(os.fsencode(array_path), cparams=None, dparams=None).shape == (10, 10)
    with pytest.warns(UserWarning, match="'chunks', 'colour'"):
        blosc2.open(array_path, colour="red", chunks=(1,))


def test_a_new_handle_each_time_with_the_current_number_of_threads(array_path: Path) -> None:
    old = blosc2.set_nthreads(3)
    try:
        assert blosc2.open(array_path).dparams.nthreads == 3
        blosc2.nthreads = 2
        assert blosc2.open(array_path).dparams.nthreads == 2
    finally:
        blosc2.set_nthreads(old)
    one, two = blosc2.open(array_path), blosc2.open(array_path)
    assert one is not two
    assert one._handle is not two._handle


# --------------------------------------------------------------------- what is there


def test_the_kind_comes_from_the_content(
    array_path: Path, schunk_path: Path, tmp_path: Path, source: str | None
) -> None:
    for name in ("a", "a.b2frame", "a.mb2nd", "a.zip", "a.h5"):
        shutil.copy(array_path, tmp_path / name)
        assert isinstance(blosc2.open(tmp_path / name, mmap_mode=source), blosc2.NDArray)
        shutil.copy(schunk_path, tmp_path / name)
        assert type(blosc2.open(tmp_path / name, mmap_mode=source)) is SChunk


def test_missing_paths(tmp_path: Path, source: str | None) -> None:
    for name in ("a", "a.b2nd", "a.b2z", "a.b2d", "a.b2e", "no/such/folder/a"):
        with pytest.raises(FileNotFoundError) as caught:
            blosc2.open(tmp_path / name, mmap_mode=source)
        assert isinstance(caught.value, RuntimeError)
        assert caught.value.filename == str(tmp_path / name)
        assert "does not exist" in str(caught.value) or "No such file" in str(caught.value)
    for mode in ("a", "w"):
        with pytest.raises(FileNotFoundError):
            blosc2.open(tmp_path / "a", mode)
    assert os.listdir(tmp_path) == []


def test_what_is_no_frame(tmp_path: Path, source: str | None) -> None:
    for data, text in (
        (b"", "empty"), (b"x", "112 bytes"), (b"text " * 50, "magic"), (b"PK\3\4" + bytes(200), "archive"),
    ):  # fmt: skip
        (tmp_path / "a").write_bytes(data)
        with pytest.raises(FormatError, match=text) as caught:
            blosc2.open(tmp_path / "a", mmap_mode=source)
        assert str(tmp_path / "a") in str(caught.value)
    with pytest.raises((ValueError, FileNotFoundError)):
        blosc2.open(tmp_path, mmap_mode=source)
    wrong: list[Any] = [5, None, 2.5, ["a"]]
    for path in wrong:
        with pytest.raises(TypeError, match="path"):
            blosc2.open(path)
    for path in ("http://host/a.b2nd", "s3://bucket/a"):
        with pytest.raises(ValueError, match="only be read"):
            blosc2.open(path, "a")
        with pytest.raises(NotImplementedError, match="written as a whole"):
            blosc2.TreeStore(path, mode="w")


def test_stores_are_recognised(tmp_path: Path, source: str | None) -> None:
    made: dict[str, Any] = {
        "e.b2e": blosc2.EmbedStore, "d.b2d": blosc2.DictStore, "d.b2z": blosc2.DictStore, "t.b2d": blosc2.TreeStore,
        "t.b2z": blosc2.TreeStore,
    }  # fmt: skip
    for name, kind in made.items():
        with kind(str(tmp_path / name), mode="w") as store:
            store["/a"] = ITEMS
    for name, kind in made.items():
        found = blosc2.open(tmp_path / name, mmap_mode=source)
        assert type(found) is kind
        np.testing.assert_array_equal(found["/a"][:], ITEMS)
    # a path without suffix also finds stores: directories first, then archives, then embedded ones
    assert type(blosc2.open(tmp_path / "d")) is blosc2.DictStore
    assert type(blosc2.open(tmp_path / "e")) is blosc2.EmbedStore
    shutil.copy(tmp_path / "t.b2z", tmp_path / "renamed.data")
    assert type(blosc2.open(tmp_path / "renamed.data", mmap_mode=source)) is blosc2.TreeStore
    shutil.copytree(tmp_path / "t.b2d", tmp_path / "renamed")
    assert type(blosc2.open(tmp_path / "renamed", mmap_mode=source)) is blosc2.TreeStore
    # an embedded store under another suffix is a super-chunk
    shutil.copy(tmp_path / "e.b2e", tmp_path / "e.data")
    assert type(blosc2.open(tmp_path / "e.data", mmap_mode=source)) is SChunk


def test_an_offset(array_path: Path, tmp_path: Path, source: str | None) -> None:
    frame = array_path.read_bytes()
    path = tmp_path / "host.h5"
    path.write_bytes(b"\x89HDF" + bytes(996) + frame + b"more" + frame)
    for offset in (1000, 1000 + len(frame) + 4):
        for mode in ("r", "a", "w"):
            array = blosc2.open(path, mode, offset, mmap_mode=source)
            np.testing.assert_array_equal(array[:], ITEMS)
            assert array._schunk.to_cframe() == blosc2.open(array_path).to_cframe()
            with pytest.raises(ValueError, match="reading mode"):
                array[0] = 1
    with pytest.raises(RuntimeError):
        blosc2.open(path, offset=999)
    assert path.read_bytes() == b"\x89HDF" + bytes(996) + frame + b"more" + frame
    np.testing.assert_array_equal(blosc2.load(path, 1000)[:], ITEMS)


def test_a_frame_in_a_directory(tmp_path: Path, source: str | None) -> None:
    (entry,) = [e for e in manifest.files("schunk") if e["path"].endswith("directory.b2frame")]
    path = manifest.path_of(entry)
    schunk = blosc2.open(path, mmap_mode=source)
    assert manifest.sha256(schunk[:]) == entry["sha256"]
    assert (schunk.nchunks, schunk.typesize) == (entry["nchunks"], entry["typesize"])
    with pytest.raises(ValueError, match="reading mode"):
        schunk.append_data(bytes(8))
    for mmap_mode in ("r+", "c"):
        with pytest.raises(ValueError, match="Only contiguous storage"):
            blosc2.open(path, mmap_mode=mmap_mode)
    with pytest.raises(ValueError, match="offset is for a frame in a file"):
        blosc2.open(path, offset=8)
    copy = blosc2.load(path)
    copy.append_data(bytes(8))
    assert copy.nchunks == entry["nchunks"] + 1
    shutil.copytree(path, tmp_path / "d")
    chunks = sorted((tmp_path / "d").glob("*.chunk"))
    chunks[1].rename(tmp_path / "away")
    with pytest.raises(FormatError, match="missing"):
        blosc2.open(tmp_path / "d")
    chunks[1].write_bytes(b"short")
    with pytest.raises(FormatError):
        blosc2.open(tmp_path / "d")[:]
    (tmp_path / "d" / "chunks.b2frame").write_bytes(array_bytes := blosc2.zeros(3).to_cframe())
    assert array_bytes[26] == 0
    with pytest.raises(FormatError, match="directory frame"):
        blosc2.open(tmp_path / "d")


# --------------------------------------------------------------------- deserialize


def test_active_values(array_path: Path) -> None:
    """Code 42 is a whole frame (FORMATS 4): opened only where that is allowed."""
    inner = blosc2.arange(5).to_cframe()
    array = blosc2.open(array_path, "a")
    array.vlmeta.set_vlmeta("frame", msgpack.packb(msgpack.ExtType(42, inner)))
    for opened in (blosc2.open(array_path), blosc2.open(array_path, deserialize="safe"), blosc2.load(array_path),
                   blosc2.from_cframe(array.to_cframe())):  # fmt: skip
        assert opened.vlmeta["v"] == (1, 2)
        with pytest.raises(UnsafeDeserializationError, match="while using deserialize='safe'"):
            opened.vlmeta["frame"]
    full = blosc2.DeserializeMode.FULL
    for opened in (blosc2.open(array_path, deserialize=full), blosc2.load(array_path, deserialize="full"),
                   blosc2.from_cframe(array.to_cframe(), deserialize="full"),
                   blosc2.ndarray_from_cframe(array.to_cframe(), deserialize="full"),
                   blosc2.schunk_from_cframe(array.to_cframe(), deserialize="full")):  # fmt: skip
        np.testing.assert_array_equal(opened.vlmeta["frame"][:], np.arange(5))
    assert array.copy().vlmeta["frame"].shape == (5,)  # what this process makes is trusted
    path = manifest.ROOT / "vlmeta" / "active.b2nd"
    with pytest.raises(UnsafeDeserializationError):
        blosc2.open(path).vlmeta["array"]
    assert isinstance(blosc2.open(path, deserialize="full").vlmeta["array"], blosc2.NDArray)


# --------------------------------------------------------------------- load, from_cframe


def test_load(array_path: Path, schunk_path: Path, source: str | None) -> None:
    before = array_path.read_bytes(), schunk_path.read_bytes()
    array, schunk = blosc2.load(array_path, mmap_mode=source), blosc2.load(schunk_path, mmap_mode=source)
    assert (array.urlpath, schunk.urlpath) == (None, None)
    assert (array.meta["m"], array.vlmeta["v"], schunk.vlmeta["v"]) == (1, (1, 2), 3)
    array[:] = 0
    array.resize((3, 3))
    schunk.append_data(ITEMS[:1])
    array.vlmeta["w"] = schunk.vlmeta["w"] = 1
    assert (array_path.read_bytes(), schunk_path.read_bytes()) == before
    array_path.unlink()
    np.testing.assert_array_equal(array[:], np.zeros((3, 3)))
    with pytest.raises(FileNotFoundError):
        blosc2.load(array_path)


def test_from_cframe(array_path: Path, schunk_path: Path) -> None:
    frame, schunk_frame = blosc2.open(array_path).to_cframe(), schunk_path.read_bytes()
    for data in (frame, bytearray(frame), memoryview(frame), np.frombuffer(frame, np.uint8)):
        for copy in (True, False):
            for call in (blosc2.from_cframe, blosc2.ndarray_from_cframe):
                array = call(data, copy)
                assert isinstance(array, blosc2.NDArray)
                np.testing.assert_array_equal(array[:], ITEMS)
                assert array.to_cframe() == frame
                array[0] = 99
                array.vlmeta["v"] = "changed"
                assert array[0, 0] == 99
            schunk = blosc2.schunk_from_cframe(data, copy)
            assert type(schunk) is SChunk
            assert schunk.nbytes == 3 * 160
        assert bytes(data) == frame
    assert type(blosc2.from_cframe(schunk_frame)) is SChunk
    with pytest.raises(RuntimeError, match="Could not get the NDArray"):
        blosc2.ndarray_from_cframe(schunk_frame)
    for bad in (b"", b"x" * 500, frame[:200], frame[1:]):
        for call in (blosc2.from_cframe, blosc2.ndarray_from_cframe, blosc2.schunk_from_cframe):
            with pytest.raises(RuntimeError, match="Could not get the schunk from the cframe"):
                call(bad)
    with pytest.raises(TypeError, match="bytes"):
        blosc2.from_cframe("text")
    with pytest.raises(ValueError, match="deserialize"):
        blosc2.from_cframe(frame, deserialize="no")


def test_a_frame_that_is_kept_is_not_copied() -> None:
    items = np.random.default_rng(1).integers(0, 1 << 60, 10000)
    buffer = bytearray(blosc2.asarray(items).to_cframe())
    array = blosc2.ndarray_from_cframe(buffer, copy=False)
    with pytest.raises(BufferError):
        buffer.append(1)
    np.testing.assert_array_equal(array[:], items)
    del array
    buffer.append(1)
    array = blosc2.ndarray_from_cframe(buffer[:-1], copy=True)
    np.testing.assert_array_equal(array[:], items)


def test_frames_of_stores_and_lists(tmp_path: Path) -> None:
    with blosc2.EmbedStore(str(tmp_path / "e.b2e"), mode="w") as store:
        store["/a"] = ITEMS
        frame = store.to_cframe()
    for found in (blosc2.from_cframe(frame), blosc2.estore_from_cframe(frame)):
        assert isinstance(found, blosc2.EmbedStore)
        np.testing.assert_array_equal(found["/a"][:], ITEMS)
    with pytest.raises(ValueError, match="not an EmbedStore"):
        blosc2.estore_from_cframe(blosc2.zeros(3).to_cframe())
    with pytest.raises(ValueError, match="not tagged as an ObjectArray"):
        blosc2.objectarray_from_cframe(blosc2.zeros(3).to_cframe())
    (entry, *_) = [e for e in manifest.files("objectarray") if e["values"]]
    data = manifest.path_of(entry).read_bytes()
    for call in (blosc2.objectarray_from_cframe, blosc2.from_cframe):
        assert manifest.tagged(list(call(data))) == entry["values"]


def test_bytes_behind_a_frame_are_no_part_of_it(array_path: Path) -> None:
    changed = blosc2.open(array_path, mode="a")  # kept, so that the file has holes
    changed[:] = changed[:] + 1
    changed[:] = ITEMS
    frame = blosc2.open(array_path).to_cframe()
    assert blosc2.from_cframe(frame + b"behind").to_cframe() == frame
    array_path.write_bytes(array_path.read_bytes() + b"behind")
    assert blosc2.open(array_path).to_cframe() == frame
    assert blosc2.load(array_path).to_cframe() == frame
    copy = blosc2.open(array_path).copy(urlpath=array_path.with_name("copy"))
    copied = array_path.with_name("copy").read_bytes()  # without the holes that changes left
    assert b"behind" not in copied
    assert len(copied) == int.from_bytes(copied[16:24], "big") < len(frame)
    np.testing.assert_array_equal(copy[:], ITEMS)


@pytest.mark.parametrize("suffix", [".b2nd", ".b2z", ".b2d", ".b2e"])
def test_mode_r_plus_is_mode_a(tmp_path, suffix):
    path = str(tmp_path / f"x{suffix}")
    with pytest.raises(FileNotFoundError):
        blosc2.open(path, mode="r+")
    if suffix == ".b2nd":
        blosc2.zeros(3, dtype="i4", urlpath=path)
        blosc2.open(path, mode="r+")[1] = 5
        assert blosc2.open(path)[:].tolist() == [0, 5, 0]
        return
    kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    with kind(path, mode="a") as store:
        store["/a"] = np.arange(3)
    with blosc2.open(path, mode="r+") as store:
        store["/b"] = np.arange(2)
        assert store.mode == "a"
    with blosc2.open(path) as store:
        assert sorted(store) == ["/a", "/b"]


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_a_key_behind_the_name_of_a_store(tmp_path: Path, suffix: str) -> None:
    path = str(tmp_path / f"s{suffix}")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/a/b"] = [1]
    for key in ("a/b", "a/none"):
        with pytest.raises(FileNotFoundError) as caught:
            blosc2.open(f"{path}/{key}")
        assert f"a key is read by blosc2.open({path!r})['/{key}']" in str(caught.value)
