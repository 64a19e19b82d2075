"""What `salvage` makes of lists of values and of metadata that are damaged: less, but whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import claims, manifest

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames.metadata import pack
from blosc2.exceptions import FormatError

LIST = {"vlarray": pack({"version": 1, "serializer": "msgpack"})}
# An array of 2 ** 31 values that are not there.
WRONG = b"\xdd\x80\0\0\0"


def write_list(path: Path, packed: list[bytes], **more: Any) -> Path:
    chunks = [blosc2.compress2(one, typesize=1) for one in packed]
    claims.write_frame(path, chunks, nbytes=sum(map(len, packed)), variable=True, metalayers=LIST, **more)
    return path


def salvaged(path: Path, **more: Any) -> tuple[Any, blosc2.SalvageReport]:
    """What is recovered of a file, which must be whole, and the report."""
    out = path.with_name("out" + path.suffix)
    report = blosc2.salvage(path, out, **more)
    assert blosc2.check(out).ok, blosc2.check(out)
    return blosc2.open(str(out)), report


@pytest.mark.parametrize("fill", [None, 0])
def test_entries_that_cannot_be_unpacked_are_left_out(tmp_path: Path, fill: Any) -> None:
    path = write_list(tmp_path / "x.b2frame", [pack([1, "one"]), WRONG, pack({"two": 2}), WRONG, pack(None)])
    values, report = salvaged(path, fill=fill)
    assert list(values) == [[1, "one"], {"two": 2}, None]
    (lost,) = report.lost
    assert "2 of 5 entries" in lost.problem
    assert "(1, 3)" in lost.problem
    assert "msgpack" in lost.problem


def test_a_list_of_which_nothing_can_be_unpacked(tmp_path: Path) -> None:
    path = write_list(tmp_path / "x.b2frame", [WRONG, WRONG])
    with pytest.raises(blosc2.FormatError, match="msgpack"):
        blosc2.salvage(path, tmp_path / "out.b2frame")
    assert not (tmp_path / "out.b2frame").exists()


def test_entries_of_equal_size_that_are_zeros(tmp_path: Path) -> None:
    """One number stands for any number of chunks: none of them is looked at twice."""
    claims.write_frame(tmp_path / "x.b2frame", [-0x7F00000000000000], count=1 << 27, nbytes=3 << 27, chunksize=3,
                       metalayers=LIST)  # fmt: skip
    with pytest.raises(blosc2.FormatError, match="follow it"):
        blosc2.salvage(tmp_path / "x.b2frame", tmp_path / "out.b2frame")
    claims.write_frame(tmp_path / "y.b2frame", [-0x7F00000000000000], count=1 << 27, nbytes=1 << 27, chunksize=1,
                       metalayers=LIST)  # fmt: skip
    assert blosc2.check(tmp_path / "y.b2frame").ok


def test_a_leaf_of_a_store(tmp_path: Path) -> None:
    store = blosc2.DictStore(str(tmp_path / "x.b2d"), mode="w")
    store["/fine"] = np.arange(3)
    store.close()
    write_list(tmp_path / "x.b2d" / "list.b2f", [pack("a"), WRONG, pack("c")])
    found, report = salvaged(tmp_path / "x.b2d")
    with found:
        assert list(found["/list"]) == ["a", "c"]
        np.testing.assert_array_equal(found["/fine"][:], [0, 1, 2])
    assert [one.key for one in report.lost] == ["/list"]


@pytest.mark.parametrize("kind", ["objectarray", "batcharray"])
def test_damaged_chunks_of_a_list(kind: str, tmp_path: Path) -> None:
    name = "entries" if kind == "objectarray" else "batches"
    for number, entry in enumerate(one for one in manifest.files(kind) if len(one.get(name, ())) > 1):
        path = tmp_path / f"{number}" / "x.b2frame"
        path.parent.mkdir()
        data = bytearray(manifest.path_of(entry).read_bytes())
        frame = Frame.open(Source.of_buffer(bytes(data)))
        at = frame.chunk_info(1)[0]
        data[at : at + 32] = b"\xff" * 32
        path.write_bytes(data)
        values, report = salvaged(path)
        whole = blosc2.open(manifest.path_of(entry))
        assert repr(list(values)) == repr([value for n, value in enumerate(whole) if n != 1])
        assert any("1 of" in one.problem for one in report.lost)


def test_metadata_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """A metalayer, and an entry with a frame inside that is cut: the array is recovered without them."""
    array = blosc2.asarray(np.arange(10), meta={"mine": {"a": 1}, "other": 2})
    array.vlmeta["frame"] = blosc2.asarray(np.arange(1000))
    data = bytearray(array.to_cframe())
    at = data.index(b"\x81\xa1a\x01")
    data[at] = 0xC1
    path = tmp_path / "x.b2nd"
    path.write_bytes(data)
    found, report = salvaged(path)
    np.testing.assert_array_equal(found[:], np.arange(10))
    assert "mine" not in found.schunk.meta
    assert found.schunk.meta["other"] == 2
    assert any("'mine'" in one.problem for one in report.lost)


def test_a_last_chunk_that_is_larger_than_chunks_are(tmp_path: Path) -> None:
    """The size of chunks in the header is wrong: so many of them would be more than the table has."""
    data = bytes(range(200)) * 3
    whole = bytearray(blosc2.SChunk(chunksize=200, data=data, cparams={"typesize": 1}).to_cframe())
    assert whole[58:62] == (200).to_bytes(4)
    whole[58:62] = (15).to_bytes(4)
    path = tmp_path / "a.b2frame"
    path.write_bytes(whole)
    with pytest.raises(FormatError, match="nothing could be recovered"):
        blosc2.salvage(path, tmp_path / "b.b2frame")
    table = np.arange(3)
    encoding = blosc2.SChunk(chunksize=200, data=data)._handle.frame
    for count, nbytes, chunksize in (
        (3, 600, 15),
        (3, 601, 200),
        (3, 400, 200),
        (3, 0, 200),
        (3, -1, 200),
        (0, 1, 200),
    ):
        with pytest.raises(FormatError, match="do not hold"):
            Frame.assemble(
                Source.of_buffer(b""), table[:count], count, nbytes, chunksize, encoding, {}, {}, variable=False
            )
