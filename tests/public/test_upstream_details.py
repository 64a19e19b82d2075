"""Details in which programs for the published package rely on what it does."""

from __future__ import annotations

import os
import struct
import warnings
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest

import blosc2

ITEMS = np.arange(1000, dtype="i4")


# ---------------------------------------------------------------------- typesize=None
@pytest.mark.parametrize(
    "src", [ITEMS, ITEMS.astype("f8"), ITEMS.tobytes(), memoryview(ITEMS)], ids=["i4", "f8", "bytes", "memoryview"]
)
def test_typesize_of_the_data(src: Any) -> None:
    itemsize = getattr(src, "itemsize", 1)
    want = bytes(memoryview(src).cast("B"))
    for chunk in (
        blosc2.compress2(src, typesize=None), blosc2.compress2(src, cparams={"typesize": None}),
        blosc2.compress2(src, cparams=blosc2.CParams(typesize=None)), blosc2.compress(src, typesize=None),
    ):  # fmt: skip
        assert chunk[3] == itemsize
        assert blosc2.decompress2(chunk) == want
    for cparams in ({"typesize": None}, blosc2.CParams(typesize=None)):
        schunk = blosc2.SChunk(data=src, cparams=cparams)
        assert (schunk.typesize, schunk.cparams.typesize, schunk[:]) == (itemsize, itemsize, want)


def test_typesize_where_there_are_no_data() -> None:
    assert blosc2.CParams(typesize=None).typesize is None
    assert blosc2.SChunk(cparams={"typesize": None}).typesize == 1
    assert blosc2.asarray(ITEMS, cparams={"typesize": None}).schunk.typesize == 4
    assert blosc2.zeros(3, "f8", cparams=blosc2.CParams(typesize=None)).cparams.typesize == 8
    np.testing.assert_array_equal(blosc2.unpack_array2(blosc2.pack_array2(ITEMS, cparams={"typesize": None})), ITEMS)
    delta = {"filters": [blosc2.Filter.SHUFFLE, blosc2.Filter.BYTEDELTA], "typesize": None}
    array = blosc2.asarray(ITEMS, cparams=delta)
    assert array.cparams.filters_meta[1] == 4
    np.testing.assert_array_equal(array[:], ITEMS)


# ---------------------------------------------------------------------- chunks of different sizes
@pytest.mark.parametrize("chunksize", [-1, None])
@pytest.mark.parametrize("on_disk", [False, True])
def test_chunks_of_different_sizes(chunksize: int | None, on_disk: bool, tmp_path: Path) -> None:
    how = {"urlpath": tmp_path / "s.b2frame"} if on_disk else {}
    schunk = blosc2.SChunk(chunksize=chunksize, cparams={"typesize": 1}, **how)
    parts = [os.urandom(n) for n in (100, 40, 2000, 1)]
    for number, part in enumerate(parts, 1):
        assert schunk.append_chunk(blosc2.compress2(part, typesize=1)) == number
    again = blosc2.open(tmp_path / "s.b2frame") if on_disk else blosc2.from_cframe(schunk.to_cframe())
    for found in (schunk, again):
        assert [found.decompress_chunk(n) for n in range(4)] == parts
        assert found[:] == b"".join(parts)
    assert blosc2.SChunk(chunksize=chunksize, data=ITEMS).nchunks == 1


# ---------------------------------------------------------------------- dtypes with a shape
TEN = np.dtype(("f8", (10,)))


@pytest.mark.parametrize("make", [blosc2.zeros, blosc2.empty, blosc2.ones, blosc2.nans], ids=lambda make: make.__name__)
@pytest.mark.parametrize("dtype", [TEN, "10f8", ("i2", (2, 3)), np.dtype((("f4", (2,)), (3,)))], ids=str)
def test_dtypes_with_a_shape(make: Callable[..., Any], dtype: Any) -> None:
    if make is blosc2.nans and np.dtype(dtype).base.kind == "i":
        with pytest.raises(ValueError, match="NaN"):
            make((3, 2), dtype=dtype)
        return
    want = {blosc2.ones: np.ones, blosc2.nans: lambda s, dtype: np.full(s, np.nan, dtype)}.get(make, np.zeros)(  # type: ignore[operator]
        (3, 2), dtype=dtype
    )
    for chunks in (None, (2, 1), (2, 1, *want.shape[2:])):
        array = make((3, 2), dtype=dtype, chunks=chunks)
        assert (array.shape, array.dtype) == (want.shape, want.dtype)
        if chunks:
            assert array.chunks == (2, 1, *want.shape[2:])
        np.testing.assert_array_equal(array[:], want)


def test_other_constructors_of_such() -> None:
    for value in (2.5, np.arange(10.0), [0.0] * 10):
        np.testing.assert_array_equal(blosc2.full((4, 3), value, TEN, chunks=(3, 2))[:], np.full((4, 3), value, TEN))
    np.testing.assert_array_equal(blosc2.asarray(np.ones(3), dtype=TEN)[:], np.asarray(np.ones(3), TEN))
    data = np.arange(30.0)
    np.testing.assert_array_equal(blosc2.frombuffer(data.tobytes(), (3,), TEN)[:], np.frombuffer(data, TEN))
    found = blosc2.fromiter((np.arange(10) + n for n in range(7)), (5,), TEN, chunks=(2, 4))
    np.testing.assert_array_equal(found[:], np.fromiter((np.arange(10) + n for n in range(5)), TEN))
    np.testing.assert_array_equal(blosc2.zeros_like(np.ones(3), TEN)[:], np.zeros((3, 10)))
    with pytest.raises(ValueError, match="an item has the shape"):
        blosc2.fromiter([[1, 2]], (1,), TEN)
    with pytest.raises(ValueError, match="too short"):
        blosc2.fromiter([np.zeros(10)], (2,), TEN)


# ---------------------------------------------------------------------- order of items
@pytest.mark.parametrize(
    ("shape", "chunks"), [((60,), (7,)), ((6, 10), (3, 5)), ((7, 10), (3, 4)), ((4, 6, 8), (3, 4, 5))]
)
def test_insertion_order(shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    """One chunk after the other, each in C order, as the published package fills them."""
    want, at = np.empty(shape, "i4"), 0
    for index in np.ndindex(*(-(-n // c) for n, c in zip(shape, chunks))):
        part = tuple(slice(p * c, min((p + 1) * c, n)) for p, c, n in zip(index, chunks, shape))
        want[part] = np.arange(at, at + want[part].size).reshape(want[part].shape)
        at += want[part].size
    found = blosc2.fromiter(range(at + 5), shape, "i4", c_order=False, chunks=chunks)
    np.testing.assert_array_equal(found[:], want)
    in_order = blosc2.fromiter(range(at), shape, "i4", chunks=chunks)
    np.testing.assert_array_equal(in_order[:], np.arange(at).reshape(shape))
    with pytest.raises(ValueError, match="too short"):
        blosc2.fromiter(range(at - 1), shape, "i4", c_order=False, chunks=chunks)


def test_padded_chunks_are_not_behaved() -> None:
    for shape, chunks, blocks in (
        ((10,), (20,), (5,)),
        ((100, 50), (120, 50), (60, 50)),
        ((10, 20), (10, 40), (5, 40)),
    ):
        assert not blosc2.are_partitions_behaved(shape, chunks, blocks)
    assert blosc2.are_partitions_behaved((100, 50), (20, 50), (10, 50))


def test_aligned_partitions() -> None:
    for shape, chunks, blocks, want in (
        ((100,), (20,), (10,), True), ((100,), (30,), (10,), False), ((100,), (20,), (7,), False),
        ((100, 50), (20, 25), (10, 5), True), ((100, 50), (20, 30), (10, 5), False), ((10,), (20,), (10,), False),
    ):  # fmt: skip
        assert blosc2.are_partitions_aligned(shape, chunks, blocks) is want


def test_sizes_of_info_are_for_people() -> None:
    items = dict(blosc2.asarray(np.zeros(10)).info_items)
    assert items["nbytes"] == "80 (80 B)"
    assert dict(blosc2.SChunk().info_items)["nbytes"] == "0 (0 B)"
    assert dict(blosc2.zeros(1 << 20).info_items)["nbytes"] == "8388608 (8.00 MiB)"


def test_devices() -> None:
    array = blosc2.zeros(3)
    assert array.to_device("cpu") is array
    with pytest.raises(ValueError, match="'cuda'"):
        array.to_device("cuda")
    assert blosc2.cpu_info == blosc2.get_cpu_info()


@pytest.mark.local
# ---------------------------------------------------------------------- lazy chunks
@pytest.mark.parametrize("clevel", [0, 5])
def test_lazy_chunks(clevel: int, source: str | None, tmp_path: Path) -> None:
    cparams = {"typesize": 4, "clevel": clevel, "blocksize": 8000}
    items = np.random.default_rng(0).integers(0, 9, 60_001, dtype="i4")
    schunk = blosc2.SChunk(chunksize=80_000, data=items, cparams=cparams, urlpath=tmp_path / "s.b2frame")
    schunk = blosc2.open(tmp_path / "s.b2frame", mmap_mode=source)
    frame = (tmp_path / "s.b2frame").read_bytes()
    for nchunk in range(schunk.nchunks):
        whole, lazy = schunk.get_chunk(nchunk), schunk.get_lazychunk(nchunk)
        assert lazy[:31] == whole[:31]
        assert lazy[31] == whole[31] | 8
        assert not whole[31] & 8
        nbytes, blocksize, cbytes = struct.unpack_from("<iii", whole, 4)
        blocks = -(-nbytes // blocksize)
        assert lazy[32 : 32 + 4 * blocks] == whole[32 : 32 + 4 * blocks]
        number, offset = struct.unpack_from("<iq", lazy, 32 + 4 * blocks)
        assert number == nchunk
        assert frame[offset : offset + cbytes] == whole
        lengths = np.frombuffer(lazy[44 + 4 * blocks :], "<i4")
        assert len(lengths) == blocks
        assert lengths.sum() == (nbytes if whole[2] & 2 else cbytes - 32 - 4 * blocks)
    assert [info.lazychunk for info in schunk.iterchunks_info()] == [schunk.get_lazychunk(n) for n in range(4)]


def test_lazy_chunks_of_special_chunks_and_of_memory(tmp_path: Path) -> None:
    for how in ({}, {"urlpath": tmp_path / "s.b2frame"}):
        schunk = blosc2.SChunk(chunksize=400, cparams={"typesize": 4}, **how)
        schunk.fill_special(100, blosc2.SpecialValue.ZERO)
        schunk.fill_special(100, blosc2.SpecialValue.VALUE, 7)
        for nchunk in range(2):
            assert schunk.get_lazychunk(nchunk) == schunk.get_chunk(nchunk)
    schunk = blosc2.SChunk(data=ITEMS)
    assert schunk.get_lazychunk(0) == schunk.get_chunk(0)[:32]


@pytest.mark.local  # a lazy chunk is one that is read from a file
def test_lazy_chunks_whose_blocks_are_not_in_their_order(source: str | None, tmp_path: Path) -> None:
    path = tmp_path / "s.b2frame"
    items = np.random.default_rng(0).integers(0, 9, 4000, dtype="i4")
    schunk = blosc2.SChunk(chunksize=16_000, data=items, cparams={"typesize": 4, "blocksize": 4000}, urlpath=path)
    whole = bytearray(schunk.get_chunk(0))
    starts = [*struct.unpack_from("<4i", whole, 32), len(whole)]
    blocks = [whole[one:end] for one, end in pairwise(starts)]
    order = [2, 0, 3, 1]
    lengths, at = [0] * 4, starts[0]
    for number in order:
        whole[at : at + len(blocks[number])] = blocks[number]
        struct.pack_into("<i", whole, 32 + 4 * number, at)
        lengths[number], at = len(blocks[number]), at + len(blocks[number])
    schunk.update_chunk(0, bytes(whole))
    schunk.flush()
    schunk = blosc2.open(path, mmap_mode=source)
    assert schunk[:] == items.tobytes()
    assert schunk.get_lazychunk(0)[60:] == struct.pack("<4i", *lengths)


# ---------------------------------------------------------------------- metadata views
def test_views_of_metadata_say_how_it_was_opened(tmp_path: Path) -> None:
    array = blosc2.zeros(3, urlpath=tmp_path / "a.b2nd")
    assert (array.vlmeta.mode, array.vlmeta.urlpath, array.vlmeta.mmap_mode) == ("a", array.urlpath, None)
    assert blosc2.open(tmp_path / "a.b2nd", mmap_mode="r").vlmeta.mmap_mode == "r"
    assert blosc2.open(tmp_path / "a.b2nd").schunk.vlmeta.mode == "r"
    assert blosc2.open(tmp_path / "a.b2nd", "a", locking=True).vlmeta.locking is True
    memory = blosc2.zeros(3).vlmeta
    assert (memory.mode, memory.urlpath, memory.locking, memory.initial_mapping_size) == ("a", None, False, None)


# ---------------------------------------------------------------------- stores that other tools have changed
def packed(path: Path, compressed: set[str]) -> None:
    """The same archive with some members compressed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            method = zipfile.ZIP_DEFLATED if name in compressed else zipfile.ZIP_STORED
            archive.writestr(name, data, compress_type=method)


@pytest.mark.parametrize("count", [3, 400])
@pytest.mark.parametrize("kind", [blosc2.TreeStore, blosc2.DictStore], ids=lambda kind: kind.__name__)
def test_compressed_members_are_no_keys(kind: Any, count: int, source: str | None, tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    with kind(str(path), mode="w") as store:
        store.update((f"/g/{n}", ITEMS[n : n + 9]) for n in range(count))
        store["/a"] = ITEMS
    packed(path, {"a.b2nd", "g/1.b2nd"})
    with pytest.warns(UserWarning, match="another tool has compressed"):
        store = blosc2.open(path, mmap_mode=source)
        keys = list(store)
    assert "/a" not in keys
    assert "/a" not in store
    assert "/g/0" in keys
    for key in ("/a", "/g/1"):
        with pytest.raises(KeyError, match="another tool has compressed"):
            store[key]
    store.close()
    with pytest.warns(UserWarning, match="another tool"), kind(str(path), mode="a") as store:
        store["/a"] = ITEMS[:5]
        store["/new"] = ITEMS[:3]
        store.flush()
    with zipfile.ZipFile(path) as archive:  # it replaces the member, and keeps the other one
        names = archive.namelist()
        assert names.count("a.b2nd") == names.count("g/1.b2nd") == 1
    with pytest.warns(UserWarning, match="g/1"):
        store = blosc2.open(path, mmap_mode=source)
        np.testing.assert_array_equal(store["/a"][:], ITEMS[:5])
    with pytest.warns(UserWarning, match="g/1"), kind(str(path), mode="a") as store:
        list(store)
        before = path.read_bytes()
        with pytest.raises(blosc2.FormatError, match=r"g/1\.b2nd.*compressed"):  # rather than leave it out
            store.compact()
        assert path.read_bytes() == before


def test_a_compressed_leaf_is_no_key(source: str | None) -> None:
    """The fixture of the reference package, which shows no key either."""
    (entry,) = [e for e in manifest.HOSTILE if e["path"].endswith("zip_leaf_deflated.b2z")]
    with pytest.warns(UserWarning, match="'/z' is not shown"):
        store = blosc2.open(manifest.path_of(entry), mmap_mode=source)
        assert list(store) == []
    assert "keys []" in entry["reference"]
    with pytest.raises(KeyError, match=r"/z.*compressed"):
        store["/z"]
    assert not blosc2.check(manifest.path_of(entry)).ok


def test_compressed_embedded_values_say_so(tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    with blosc2.DictStore(str(path), mode="w", threshold=None) as store:
        store["/a"] = ITEMS
    packed(path, {"embed.b2e"})
    for act in (blosc2.open, blosc2.DictStore, blosc2.TreeStore):
        with pytest.raises(ValueError, match=r"compressed embed\.b2e"):
            act(str(path))


def test_a_leaf_that_was_renamed_on_disk(source: str | None, tmp_path: Path) -> None:
    path = tmp_path / "s.b2d"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store["/a"], store["/b"] = blosc2.SChunk(data=b"abc"), ITEMS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store = blosc2.open(path, mmap_mode=source)
        assert (store["/a"][:], len(store["/b"])) == (b"abc", 1000)
    (path / "a.b2f").rename(path / "a.b2nd")
    (path / "b.b2nd").rename(path / "c.b2f")
    store = blosc2.open(path, mmap_mode=source)
    for key, suffix in (("/a", ".b2f"), ("/c", ".b2nd")):
        with pytest.warns(UserWarning, match=rf"{key}.*{suffix}.*renamed"):
            assert len(store[key]) in (3, 1000)


# ---------------------------------------------------------------------- texts of the C library
@pytest.mark.parametrize("variable", ["BLOSC_TRACE", "BLOSC_INFO"])
@pytest.mark.parametrize("initial", [None, 1000, 1 << 20])
def test_mapped_opens_are_told(
    variable: str, initial: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    path = tmp_path / "a.b2nd"
    how = {} if initial is None else {"initial_mapping_size": initial}
    blosc2.zeros(3, urlpath=tmp_path / "quiet.b2nd", mmap_mode="w+", **how)
    assert capfd.readouterr().err == ""
    monkeypatch.setenv(variable, "1")
    blosc2.asarray(np.random.default_rng(1).random(500), urlpath=path, mmap_mode="w+", **how)
    size = max(path.stat().st_size, (1 << 30) if initial is None else initial)
    text = "Opened memory-mapped file {} in mode {} with an mapping size of {} bytes.\n"
    assert text.format(path, "w+", size) in capfd.readouterr().err
    for mode in ("r+", "c"):
        blosc2.open(path, mmap_mode=mode, **how)
        assert text.format(path, mode, size) in capfd.readouterr().err
    blosc2.open(path, mmap_mode="r")
    assert text.format(path, "r", path.stat().st_size) in capfd.readouterr().err
    blosc2.open(path)
    assert capfd.readouterr().err == ""


# ---------------------------------------------------------------------- fields
def test_messages_of_field_assignment() -> None:
    array = blosc2.asarray(np.zeros(4, [("x", "i4"), ("y", "f8")]))
    with pytest.raises(TypeError, match="assign through the field view"):
        array.fields["x"] = 5
    array.fields["x"][:2] = 5
    array["y"] = 2
    assert array[1].item() == (5, 2.0)
    with pytest.raises(KeyError, match="no field 'z'; there are 'x', 'y'"):
        array["z"] = 1
    with pytest.raises(ValueError, match="not structured"):
        blosc2.zeros(3)["x"] = 1


# ---------------------------------------------------------------------- locking by the environment
@pytest.mark.skipif(os.name == "nt", reason="needs advisory locks")
@pytest.mark.parametrize("value", ["1", "yes", "0", ""])
def test_locking_by_the_environment(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOSC_LOCKING", value)
    locks = value not in ("0", "")
    array = blosc2.zeros(6, "i4", urlpath=tmp_path / "a.b2nd")
    schunk = blosc2.SChunk(chunksize=8, data=b"12345678", urlpath=tmp_path / "s.b2frame", cparams={"typesize": 1})
    batches = blosc2.BatchArray(urlpath=str(tmp_path / "l.b2f"), mode="w")
    opened = blosc2.open(tmp_path / "a.b2nd", "a")
    assert {array.schunk.vlmeta.locking, schunk.vlmeta.locking, opened.vlmeta.locking} == {locks}
    assert (batches.schunk.vlmeta.locking, blosc2.Storage(urlpath="x").locking) == (locks, locks)
    for cls, name in ((blosc2.EmbedStore, "s.b2e"), (blosc2.DictStore, "s.b2d"), (blosc2.TreeStore, "s.b2z")):
        with cls(str(tmp_path / name), "w") as store, cls(str(tmp_path / name), "a") if locks else store as second:
            store["/a"] = [1, 2]
            second["/b"] = [3]
            assert {*store} == {*second} == {"/a", "/b"}
        assert (tmp_path / f"{name}.b2lock").exists() == (locks and name != "s.b2d")
    if locks:
        opened[2] = 5
        array[3] = 6
        assert opened[:].tolist() == [0, 0, 5, 6, 0, 0]


def test_locking_by_the_environment_where_there_can_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be locked works as without it, where it is not asked for by name."""
    blosc2.asarray(ITEMS, urlpath=tmp_path / "a.b2nd")
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), "w") as store:
        store["/a"] = ITEMS
    offset = zipfile.ZipFile(tmp_path / "s.b2z").getinfo("a.b2nd").header_offset
    offset += (tmp_path / "s.b2z").read_bytes()[offset:].index(b"\x9e\xa8b2frame")
    monkeypatch.setenv("BLOSC_LOCKING", "1")
    assert not blosc2.zeros(3).vlmeta.locking
    assert not blosc2.Storage().locking
    for array in (
        blosc2.open(tmp_path / "a.b2nd", mmap_mode="r"), blosc2.open(tmp_path / "s.b2z", offset=offset),
        blosc2.open(tmp_path / "s.b2z", mmap_mode="r")["/a"], blosc2.open(tmp_path / "a.b2nd", "a", exclusive=False),
    ):  # fmt: skip
        np.testing.assert_array_equal(array[:], ITEMS)
    with blosc2.EmbedStore() as memory:
        memory["/a"] = [1]
    with pytest.raises(ValueError, match="urlpath must be set"):
        blosc2.EmbedStore(locking=True)
