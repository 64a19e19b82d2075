"""Names and packed values of metadata entries: those with long names, those of other programs, and fixed ones."""

from __future__ import annotations

import struct

import msgpack
import numpy as np
import pytest

import blosc2
from blosc2._frames.metadata import _with_array_markers, check_name, pack_metalayers, unpack
from blosc2.exceptions import FormatError, MissingMetadataError


def holding(entries: dict[str, bytes]) -> blosc2.SChunk:
    """A super-chunk with entries whose packed values these are, whatever their names."""
    schunk = blosc2.SChunk()
    schunk._handle.set_vlmeta(dict(entries))
    return schunk


# VLMeta


def test_partial_slices():
    schunk = blosc2.SChunk()
    for meta in (schunk.vlmeta, schunk.meta):
        with pytest.raises(NotImplementedError, match=r"unless \[:\]"):
            meta[1:2]
    with pytest.raises(NotImplementedError, match=r"unless \[:\]"):
        schunk.vlmeta[:2] = {}


@pytest.mark.parametrize("name", ["n" * 32, "é" * 16, "日" * 11])
def test_long_names(name):
    """Variable metadata takes them, in one entry that other programs see as a dictionary; fixed metadata does not."""
    with pytest.raises(ValueError, match="31 bytes"):
        pack_metalayers({name: 1})
    with pytest.raises(ValueError, match="31 bytes"):
        check_name(name)
    meta = blosc2.SChunk().vlmeta
    meta.update({"a": 1, name: (1, 2), name + "2": np.arange(3)})
    assert list(meta) == meta.get_names() == ["a", name, name + "2"]
    assert len(meta) == 3
    assert name in meta
    assert (meta[name], meta[name + "2"].tolist()) == ((1, 2), [0, 1, 2])
    assert meta.get_vlmeta(name) == msgpack.packb(["__tuple__", 1, 2])
    assert "blosc2_long_names" not in meta
    assert list(msgpack.unpackb(meta._handle.frame.vlmeta("blosc2_long_names"))) == [name, name + "2"]
    with pytest.raises(KeyError):
        meta["n" * 33]
    del meta[name]
    assert list(meta) == ["a", name + "2"]
    meta.clear()
    assert meta._handle.frame.vlmeta_names() == []


def test_what_is_no_entry_of_long_names_is_an_entry():
    for content in ({"short": 1}, 5, [1, 2]):
        meta = holding({"blosc2_long_names": msgpack.packb(content)}).vlmeta
        assert meta[:] == {"blosc2_long_names": content}
        with pytest.raises(ValueError, match="is no dictionary of entries with long names"):
            meta["n" * 40] = 1
        assert meta[:] == {"blosc2_long_names": content}
        del meta["blosc2_long_names"]
        meta["n" * 40] = 1
        assert meta[:] == {"n" * 40: 1}
    whole = msgpack.packb({"n" * 40: [1, 2, 3]})
    for cut in range(len(whole)):
        meta = holding({"blosc2_long_names": whole[:cut]}).vlmeta
        assert list(meta) == ["blosc2_long_names"]
    # Another program may put entries beside them, which are kept.
    meta = holding({"blosc2_long_names": msgpack.packb({"n" * 40: 1, "unit": "mm"})}).vlmeta
    meta["m" * 40] = 2
    assert meta[:] == {"n" * 40: 1, "unit": "mm", "m" * 40: 2}
    del meta["n" * 40], meta["m" * 40]
    assert meta[:] == {"unit": "mm"}
    with pytest.raises(ValueError, match="one msgpack value"):
        meta.set_vlmeta("y" * 40, b"any bytes")
    claims = b"\xdf\xff\xff\xff\xff" + whole[1:]
    assert list(holding({"blosc2_long_names": claims}).vlmeta) == ["blosc2_long_names"]


@pytest.mark.parametrize(
    "name", ["", "n" * 70_000, "blosc2_long_names", "a\0b", "a\0" * 20, "\ud800", "\ud800" * 40, b"\xff"]
)
def test_illegal_names(name):
    schunk = blosc2.SChunk()
    with pytest.raises(ValueError):
        schunk.vlmeta[name] = 1
    if name != "blosc2_long_names":
        with pytest.raises(ValueError):
            pack_metalayers({name: 1})
    for other in (5, None, ("a",)):
        with pytest.raises(TypeError, match="must be a str"):
            schunk.vlmeta[other] = 1
    assert schunk.change_tick == 0


def test_packed_contents():
    meta = blosc2.SChunk().vlmeta
    meta.set_vlmeta("a", msgpack.packb([1, 2]), typesize=1)
    assert meta["a"] == [1, 2]
    assert meta.get_vlmeta("a") == b"\x92\x01\x02"
    meta.set_vlmeta("b", memoryview(b"\xc0"))
    assert meta["b"] is None
    meta.set_vlmeta("raw", b"abc")  # the format of some other program
    assert meta.get_vlmeta("raw") == b"abc"
    for read in (lambda: meta["raw"], meta.getall):
        with pytest.raises(FormatError, match="'raw'"):
            read()
    meta.del_vlmeta("raw")
    with pytest.raises(ValueError, match="cannot be empty"):
        meta.set_vlmeta("c", b"")
    with pytest.raises(TypeError, match="must be bytes"):
        meta.set_vlmeta("c", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="foo"):
        meta.set_vlmeta("c", b"\xc0", foo=1)
    assert meta.get_names() == ["a", "b"]


# Meta


def test_meta_keeps_its_sizes():
    meta = blosc2.SChunk(meta={"u": 5, "t": "abc"}).meta
    meta["u"] = 7
    meta["t"] = "xyz"
    assert meta[:] == {"u": 7, "t": "xyz"}
    for name, value in (("u", 1000), ("t", "ab"), ("t", None)):
        with pytest.raises(ValueError, match="The length of the content in a metalayer cannot change"):
            meta[name] = value
    with pytest.raises(MissingMetadataError, match="new not found"):
        meta["new"] = 1
    with pytest.raises(NotImplementedError):
        del meta["u"]
    assert meta[:] == {"u": 7, "t": "xyz"}


def test_geometry_of_16_dimensions():
    def numbers(marker: int, form: str, values: list[int]) -> bytes:
        return b"\xa0" + b"".join(bytes([marker]) + struct.pack(form, value) for value in values)

    shape, chunks, blocks = list(range(1, 17)), list(range(101, 117)), list(range(201, 217))
    content = b"\x97\x00\x10" + numbers(0xD3, ">q", shape) + numbers(0xD2, ">i", chunks) + numbers(0xD2, ">i", blocks)
    mended = _with_array_markers(content + b"\x00\xdb\x00\x00\x00\x03<i8")
    assert unpack(mended) == [0, 16, shape, chunks, blocks, 0, "<i8"]


def test_metalayers_for_something_new():
    assert pack_metalayers(None) == {}
    assert pack_metalayers({"a": (1,)}) == {"a": msgpack.packb(["__tuple__", 1])}
    assert len(pack_metalayers({f"m{n}": n for n in range(15)}, ["b2nd"])) == 15
    with pytest.raises(ValueError, match="16 metalayers, 1 of them"):
        pack_metalayers({f"m{n}": n for n in range(16)}, ["b2nd"])
    with pytest.raises(ValueError, match="'b2embed' is written by the library"):
        pack_metalayers({"b2embed": 1}, ["b2embed"])
    with pytest.raises(ValueError, match="'b2nd' is written by the library"):
        pack_metalayers({"b2nd": 1})
    with pytest.raises(TypeError, match="can not serialize"):
        pack_metalayers({"a": object()})
