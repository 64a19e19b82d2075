"""Lists of values are read; kinds that this package does not have are described and copied, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from fixture_kit import manifest

import blosc2
from blosc2 import BatchArray, ObjectArray
from blosc2._functions.from_frame import OPAQUE_KINDS, OpaqueArray, OpaqueObject, OpaqueSChunk
from blosc2.exceptions import FormatError, UnsupportedKindError

OPAQUE = sorted((manifest.ROOT / "hostile").glob("kind_*"))


@pytest.mark.parametrize("entry", manifest.files("objectarray"), ids=lambda e: e["path"])
def test_lists_of_values(entry: dict[str, Any], source: str | None, tmp_path: Path) -> None:
    found = blosc2.open(manifest.path_of(entry), mmap_mode=source)
    assert isinstance(found, ObjectArray)
    assert isinstance(found, Sequence)
    want = entry["values"]
    assert len(found) == len(want) == found.schunk.nchunks
    assert manifest.tagged(list(found)) == want
    assert manifest.tagged(found[1:-1]) == want[1:-1]
    assert manifest.tagged(found[::-2]) == want[::-2]
    for n in range(-len(want), len(want)):
        assert manifest.tagged(found[n]) == want[n]
    for n in (len(want), -len(want) - 1):
        with pytest.raises(IndexError, match="out of range"):
            found[n]
    with pytest.raises(TypeError):
        found["a"]
    assert (found.nbytes, found.cbytes) == (found.schunk.nbytes, found.schunk.cbytes)
    assert len(repr(found)) < 100
    again = blosc2.from_cframe(found.to_cframe())
    assert manifest.tagged(list(again)) == want
    (tmp_path / "copy").write_bytes(found.to_cframe())
    assert manifest.tagged(list(blosc2.open(tmp_path / "copy"))) == want


@pytest.mark.parametrize("entry", manifest.files("batcharray"), ids=lambda e: e["path"])
def test_lists_of_batches(entry: dict[str, Any], source: str | None) -> None:
    found = blosc2.open(manifest.path_of(entry), mmap_mode=source)
    assert isinstance(found, BatchArray)
    want = entry["batches"]
    assert len(found) == len(want)
    assert manifest.tagged([list(batch) for batch in found]) == want
    assert manifest.tagged(list(found.iter_items())) == [item for batch in want for item in batch]
    assert found.items_per_block == entry["items_per_block"]
    assert found.serializer == "msgpack"
    for nchunk, batch in enumerate(found):
        blocks = found.schunk._handle.frame.vl_blocks(nchunk)
        assert b"".join(blocks) == found.schunk.decompress_chunk(nchunk)
        assert [found.schunk.get_vlblock(nchunk, n) for n in range(len(blocks))] == blocks
        assert batch
    with pytest.raises(ValueError, match="reading mode"):
        found.schunk.append_data(b"1")


@pytest.mark.parametrize("entry", manifest.files("batcharray"), ids=lambda e: e["path"])
def test_lists_of_batches_in_a_directory(entry: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "batches.b2b"
    blosc2.open(manifest.path_of(entry)).schunk.copy(urlpath=path, contiguous=False)
    chunks = sorted(file.name for file in path.iterdir())
    # The header says so too: blocks of variable length, and whether the batches differ in size.
    assert (path / "chunks.b2frame").read_bytes()[25] == manifest.path_of(entry).read_bytes()[25]
    for mode in ("r", "a"):
        found = blosc2.open(path, mode=mode)
        assert isinstance(found, BatchArray)
        assert not found.schunk.contiguous
        assert manifest.tagged([list(batch) for batch in found]) == entry["batches"]
    found.vlmeta["mine"] = 1
    assert sorted(file.name for file in path.iterdir()) == chunks
    again = blosc2.open(path)
    assert again.vlmeta["mine"] == 1
    assert manifest.tagged([list(batch) for batch in again]) == entry["batches"]
    assert manifest.tagged([list(batch) for batch in blosc2.from_cframe(again.to_cframe())]) == entry["batches"]
    again.schunk.copy(urlpath=tmp_path / "one_file.b2b")
    assert manifest.tagged([list(batch) for batch in blosc2.open(tmp_path / "one_file.b2b")]) == entry["batches"]
    store = tmp_path / "store.b2z"
    with blosc2.DictStore(store, mode="w") as leaves:
        leaves["/batches"] = again
    with blosc2.open(store) as leaves:
        assert manifest.tagged([list(batch) for batch in leaves["/batches"]]) == entry["batches"]
    if entry["batches"]:
        with pytest.raises(NotImplementedError, match="only be read"):
            found.schunk.append_data(b"1")


def test_copies_of_lists_keep_the_policy() -> None:
    # The first value of this list is one that only deserialize="full" opens.
    active = msgpack.packb(msgpack.ExtType(43, msgpack.packb({"kind": "ref", "version": 1})))
    schunk = blosc2.SChunk(chunksize=len(active), cparams={"typesize": 1}, meta={"vlarray": {"serializer": "msgpack"}})
    schunk.append_data(active)
    frame = schunk.to_cframe()
    with pytest.raises(blosc2.UnsafeDeserializationError):
        blosc2.from_cframe(frame).copy()[0]
    assert blosc2.from_cframe(frame, deserialize="full").copy()[0].code == 43


def test_there_are_fixtures_of_opaque_kinds() -> None:
    assert {path.stem.removeprefix("kind_") for path in OPAQUE} == {"b2o", "lazyarray", "listarray", "proxy-source"}


def test_opaque_kinds_are_said_in_words() -> None:
    words = {"b2o": "a lazy expression, or", "lazyarray": "a lazy exp", "listarray": "a col", "proxy-source": "a proxy"}
    for path in OPAQUE:
        found = blosc2.open(path)
        start = f"of kind {found.kind!r} ({words[path.stem.removeprefix('kind_')]}"
        assert start in repr(found)
        with pytest.raises(UnsupportedKindError, match=re.escape(start)):
            found[0]


@pytest.mark.parametrize("path", OPAQUE, ids=lambda p: p.stem)
@pytest.mark.parametrize("deserialize", ["safe", "full"])
def test_opaque_objects(path: Path, deserialize: str, source: str | None, tmp_path: Path) -> None:
    found: Any = blosc2.open(path, mmap_mode=source, deserialize=deserialize)
    assert issubclass(type(found), OpaqueObject)
    assert found.kind in OPAQUE_KINDS
    assert found.kind in repr(found)
    assert found.kind in found.meta
    assert list(found.vlmeta) is not None
    assert found.info_items[0][0] == "type"
    assert len(repr(found.info)) < 5000
    frame = path.read_bytes()
    assert found.to_cframe() == frame
    array = type(found) is OpaqueArray
    refused: list[Any] = [
        lambda: found[0], lambda: found[:], lambda: list(found), lambda: found.__setitem__(0, 1),
        lambda: found.get_chunk(0), lambda: list(found.iterchunks_info()),
    ]  # fmt: skip
    if array:
        assert found.shape is not None
        assert found.dtype is not None
        assert isinstance(found.schunk, OpaqueSChunk)
        refused += [
            lambda: np.asarray(found), lambda: found[...], lambda: found[()], lambda: found.tobytes(),
            lambda: found.item(), lambda: found.slice(0), lambda: float(found), lambda: found.T,
            lambda: found.copy("i1"), lambda: found.resize(found.shape), lambda: found.append([1]),
            lambda: found.reshape((1,)), lambda: found.squeeze(), lambda: found.schunk[:],
            lambda: found.copy(chunks=tuple(max(n - 1, 1) for n in found.chunks)),
            lambda: found.read(), lambda: found.view(), lambda: found.oindex[0], lambda: found.__dlpack__(),
            lambda: found.__dlpack_device__(), lambda: found.__buffer__(0), lambda: found.take([0]),
            lambda: blosc2.asarray(found, meta={"x": 1}),
        ]  # fmt: skip
    else:
        refused += [
            lambda: found.decompress_chunk(0), lambda: found.append_data(b"1"), lambda: found.delete_chunk(0),
            lambda: found.get_slice(0, 1), lambda: found.set_slice(b""), lambda: list(found.iterchunks("u1")),
            lambda: found.get_lazychunk(0), lambda: found.get_vlblock(0, 0),
        ]  # fmt: skip
    for n, read in enumerate(refused):
        with pytest.raises(NotImplementedError, match=found.kind):
            read()
            pytest.fail(f"{n} was not refused")
    assert path.read_bytes() == frame
    # copies are opaque again, byte for byte
    found.copy(urlpath=tmp_path / "copy.b2nd")
    assert blosc2.open(tmp_path / "copy.b2nd").to_cframe() == frame
    for again in (blosc2.open(tmp_path / "copy.b2nd"), blosc2.from_cframe(frame), blosc2.load(path), found.copy()):
        assert type(again) is type(found)
        assert again.to_cframe() == frame


def test_an_opaque_array_opened_for_writing_is_not_changed(tmp_path: Path) -> None:
    for path in OPAQUE:
        copy = tmp_path / path.name
        copy.write_bytes(path.read_bytes())
        found = blosc2.open(copy, "a")
        with pytest.raises(NotImplementedError):
            found[0] = 1
        if isinstance(found, OpaqueArray):
            for change in (found.resize, found.append):
                with pytest.raises(NotImplementedError):
                    change(1)
        assert copy.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("stored", [b"abcd" * 10, bytes(200)])
def test_a_batch_that_is_a_chunk_of_equal_blocks(stored: bytes, tmp_path: Path, source: str | None) -> None:
    """Numbers of its header are no numbers of blocks."""
    path = tmp_path / "batches.b2b"
    path.write_bytes((manifest.ROOT / "objects" / "batch_empty.b2b").read_bytes())
    blosc2.open(str(path), mode="a").schunk.append_data(stored)
    batches = blosc2.open(str(path), mmap_mode=source)
    with pytest.raises(FormatError, match=r"batches\.b2b.*chunk 0 (does not consist|is one value)"):
        batches[0][0]
    assert not blosc2.check(str(path)).ok


def test_a_description_that_cannot_be_read_names_the_file(source: str | None, tmp_path: Path) -> None:
    entry = next(e for e in manifest.files("batcharray") if "varied" in e["path"])
    path = tmp_path / "batches.b2b"
    path.write_bytes(manifest.path_of(entry).read_bytes().replace(b"items_per_block", b"items_per_bl\xff\xffk"))
    batches = blosc2.open(path, mmap_mode=source)
    for read in (lambda: batches[0][0], lambda: batches.items_per_block, lambda: batches.serializer):
        with pytest.raises(blosc2.FormatError, match=r"batches\.b2b: the metalayer batcharray"):
            read()
