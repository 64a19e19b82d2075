"""Metadata as mappings over a handle that only remembers: `VLMeta` is a dict, `Meta` keeps its sizes."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from typing import Any

import hypothesis.strategies as st
import msgpack
import numpy as np
import pytest
from hypothesis import given

from blosc2._frames.metadata import Meta, VLMeta, check_name, pack_metalayers
from blosc2.exceptions import FormatError, MissingMetadataError, ReadOnlyError, UnsafeDeserializationError


class FakeFrame:
    key = "/k"
    file_size = 0

    def __init__(self, metalayers: dict[str, bytes], entries: dict[str, bytes]) -> None:
        self._metalayers, self._entries = metalayers, entries

    def metalayers(self) -> dict[str, bytes]:
        return dict(self._metalayers)

    def metalayer(self, name: str) -> bytes | None:
        return self._metalayers.get(name)

    def vlmeta_names(self) -> list[str]:
        return list(self._entries)

    def vlmeta(self, name: str) -> bytes | None:
        return self._entries.get(name)


class FakeHandle:
    urlpath = "a.b2nd"

    def __init__(
        self, entries: dict[str, bytes] | None = None, metalayers: dict[str, bytes] | None = None, *,
        writable: bool = True, deserialize: str = "safe",
    ) -> None:  # fmt: skip
        self.frame = FakeFrame(metalayers or {}, entries or {})
        self.writable, self.deserialize = writable, deserialize
        self.published: list[dict[str, bytes | None]] = []

    def require_writable(self) -> None:
        if not self.writable:
            raise ReadOnlyError("Cannot do this action with reading mode", path=self.urlpath)

    def editing(self) -> Any:
        return nullcontext()

    def set_vlmeta(self, changes: dict[str, bytes | None]) -> None:
        self.published.append(changes)
        merged = {**self.frame._entries, **changes}
        entries = {name: content for name, content in merged.items() if content is not None}
        self.frame = FakeFrame(self.frame._metalayers, entries)

    def set_metalayer(self, name: str, content: bytes) -> None:
        self.frame = FakeFrame({**self.frame._metalayers, name: content}, self.frame._entries)


def entries(number: int) -> dict[str, bytes]:
    return {f"k{n}": msgpack.packb(n) for n in range(number)}


# VLMeta


NAMES = st.sampled_from(["a", "b", "c", "é", "日本"])
STEPS = st.one_of(
    st.tuples(st.just("set"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("del"), NAMES, st.none()),
    st.tuples(st.just("pop"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("update"), st.dictionaries(NAMES, st.integers(0, 9)), st.none()),
    st.tuples(st.just("merge"), st.dictionaries(NAMES, st.integers(0, 9)), st.none()),
    st.tuples(st.just("setdefault"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("clear"), st.none(), st.none()),
)


@given(st.lists(STEPS))
def test_behaves_like_a_dict(steps):
    handle = FakeHandle()
    meta, model = VLMeta(handle), {}
    for verb, name, value in steps:
        if verb == "set":
            meta[name] = model[name] = value
        elif verb == "del" and name in model:
            del meta[name], model[name]
        elif verb == "del":
            with pytest.raises(KeyError):
                del meta[name]
        elif verb == "pop":
            assert meta.pop(name, value) == model.pop(name, value)
        elif verb == "update":
            meta.update(name)
            model.update(name)
        elif verb == "merge":
            meta[:] = name
            model.update(name)
        elif verb == "setdefault":
            assert meta.setdefault(name, value) == model.setdefault(name, value)
        else:
            meta.clear()
            model.clear()
        assert list(meta) == list(model) == meta.get_names()
        assert dict(meta) == meta[:] == meta.getall() == model
        assert len(meta) == meta.nvlmetalayers() == len(model)
        assert list(meta.items()) == list(model.items())
        assert repr(meta) == str(meta) == repr(model)
        assert meta.to_dict() == {key.encode(): item for key, item in model.items()}
        assert {key: msgpack.packb(item) for key, item in model.items()} == handle.frame._entries


def test_missing():
    meta = VLMeta(FakeHandle(entries(1)))
    assert "q" not in meta
    assert 5 not in meta
    assert meta.get("q", 7) == 7
    for act in (
        lambda: meta["q"],
        lambda: meta.__delitem__("q"),
        lambda: meta.get_vlmeta("q"),
        lambda: meta.del_vlmeta("q"),
        lambda: meta[5],
    ):
        with pytest.raises(KeyError) as caught:
            act()
        assert isinstance(caught.value, RuntimeError)
        assert "not found" in str(caught.value)
        assert "a.b2nd" in str(caught.value)


def test_partial_slices():
    for meta in (VLMeta(FakeHandle()), Meta(FakeHandle())):
        with pytest.raises(NotImplementedError, match=r"unless \[:\]"):
            meta[1:2]
    with pytest.raises(NotImplementedError, match=r"unless \[:\]"):
        VLMeta(FakeHandle())[:2] = {}


@pytest.mark.parametrize("name", ["a", "n" * 31, "é" * 15, "日" * 10, " "])
def test_names(name):
    meta = VLMeta(FakeHandle())
    meta[name] = 1
    assert check_name(name) == name
    assert meta[:] == {name: 1}


@pytest.mark.parametrize("name", ["n" * 32, "é" * 16, "日" * 11])
def test_long_names(name):
    """Variable metadata takes them, in one entry that other programs see as a dictionary; fixed metadata does not."""
    with pytest.raises(ValueError, match="31 bytes"):
        pack_metalayers({name: 1})
    with pytest.raises(ValueError, match="31 bytes"):
        check_name(name)
    meta = VLMeta(FakeHandle())
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
        meta = VLMeta(FakeHandle({"blosc2_long_names": msgpack.packb(content)}))
        assert meta[:] == {"blosc2_long_names": content}
        with pytest.raises(ValueError, match="is no dictionary of entries with long names"):
            meta["n" * 40] = 1
        assert meta[:] == {"blosc2_long_names": content}
        del meta["blosc2_long_names"]
        meta["n" * 40] = 1
        assert meta[:] == {"n" * 40: 1}
    whole = msgpack.packb({"n" * 40: [1, 2, 3]})
    for cut in range(len(whole)):
        meta = VLMeta(FakeHandle({"blosc2_long_names": whole[:cut]}))
        assert list(meta) == ["blosc2_long_names"]
    # Another program may put entries beside them, which are kept.
    meta = VLMeta(FakeHandle({"blosc2_long_names": msgpack.packb({"n" * 40: 1, "unit": "mm"})}))
    meta["m" * 40] = 2
    assert meta[:] == {"n" * 40: 1, "unit": "mm", "m" * 40: 2}
    del meta["n" * 40], meta["m" * 40]
    assert meta[:] == {"unit": "mm"}
    with pytest.raises(ValueError, match="one msgpack value"):
        meta.set_vlmeta("y" * 40, b"any bytes")
    claims = b"\xdf\xff\xff\xff\xff" + whole[1:]
    assert list(VLMeta(FakeHandle({"blosc2_long_names": claims}))) == ["blosc2_long_names"]


@pytest.mark.parametrize(
    "name", ["", "n" * 70_000, "blosc2_long_names", "a\0b", "a\0" * 20, "\ud800", "\ud800" * 40, b"\xff"]
)
def test_illegal_names(name):
    handle = FakeHandle()
    with pytest.raises(ValueError):
        VLMeta(handle)[name] = 1
    if name != "blosc2_long_names":
        with pytest.raises(ValueError):
            pack_metalayers({name: 1})
    for other in (5, None, ("a",)):
        with pytest.raises(TypeError, match="must be a str"):
            VLMeta(handle)[other] = 1
    assert handle.published == []


def test_packed_contents():
    meta = VLMeta(FakeHandle())
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


def test_active_values():
    packed = msgpack.packb(msgpack.ExtType(42, b"frame"))
    safe = VLMeta(FakeHandle({"a": packed, "b": b"\x01"}))
    assert safe["b"] == 1
    for read in (lambda: safe["a"], lambda: safe[:]):
        with pytest.raises(UnsafeDeserializationError) as caught:
            read()
        assert str(caught.value.location).startswith("variable metadata 'a' of ")
        assert FakeHandle.urlpath in str(caught.value.location)
    assert repr(safe) == "{'a': <embedded frame>, 'b': 1}"
    full = VLMeta(FakeHandle({"a": packed}, deserialize="full"))
    assert full["a"] == msgpack.ExtType(42, b"frame")
    assert VLMeta(FakeHandle({"a": packed}, deserialize="full"), bytes.decode)["a"] == "frame"


def test_damage_names_the_entry():
    handle = FakeHandle({"bad": b"\xc1", "good": b"\x01"}, {"bad": b"\xc1"})
    for view, words in ((VLMeta(handle), "variable metadata 'bad'"), (Meta(handle), "fixed metadata 'bad'")):
        with pytest.raises(FormatError, match=words) as caught:
            view["bad"]
        assert (caught.value.path, caught.value.key) == ("a.b2nd", "/k")
        assert "unreadable" in repr(view)


# Meta


def test_meta_keeps_its_sizes():
    handle = FakeHandle(metalayers=pack_metalayers({"u": 5, "t": "abc"}))
    meta = Meta(handle)
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


def test_geometry_can_be_seen_but_not_assigned():
    content = msgpack.packb([0, 1, [5], [5], [5], 0, "<i8"])
    handle = FakeHandle(metalayers={"b2nd": content, "_pad": b"\xc4\x00"})
    meta = Meta(handle)
    assert meta["b2nd"] == [0, 1, [5], [5], [5], 0, "<i8"]
    for name in ("b2nd", "_pad"):
        with pytest.raises(ValueError, match="written by the library"):
            meta[name] = meta[name]


def test_geometry_of_16_dimensions():
    def numbers(marker: int, form: str, values: list[int]) -> bytes:
        return b"\xa0" + b"".join(bytes([marker]) + struct.pack(form, value) for value in values)

    shape, chunks, blocks = list(range(1, 17)), list(range(101, 117)), list(range(201, 217))
    content = b"\x97\x00\x10" + numbers(0xD3, ">q", shape) + numbers(0xD2, ">i", chunks) + numbers(0xD2, ">i", blocks)
    meta = Meta(FakeHandle(metalayers={"b2nd": content + b"\x00\xdb\x00\x00\x00\x03<i8"}))
    assert meta["b2nd"] == [0, 16, shape, chunks, blocks, 0, "<i8"]


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
