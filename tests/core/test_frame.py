"""Frames: built by hand after FORMATS section 1 and read, and our own bytes taken apart by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fixture_kit import claims
from fixture_kit.schunks import decode_all

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames.handle import vlmeta_chunk
from blosc2._frames.metadata import pack
from blosc2.exceptions import FormatError


def raw_chunk(data: bytes, typesize: int = 1) -> bytes:
    header = struct.pack("<4B3i", 5, 1, 7, typesize, len(data), len(data), len(data) + 32)
    return header + bytes(16) + data


def u64(*numbers: int) -> bytes:
    return b"".join(n.to_bytes(8, "little") for n in numbers)


def table(entries: dict[str, bytes], start: int, size_from: int) -> bytes:
    """A metalayer table (FORMATS 1.3); offsets count from `start` bytes before it."""
    names = [name.encode() for name in entries]
    map_size = sum(6 + len(name) for name in names) + 6 + size_from
    head = b"\x93\xcd" + struct.pack(">H", map_size) + b"\xde" + struct.pack(">H", len(names))
    offset = start + len(head) + sum(6 + len(name) for name in names) + 3
    pointers, contents = b"", b"\xdc" + struct.pack(">H", len(names))
    for name, content in zip(names, entries.values(), strict=True):
        pointers += bytes([0xA0 + len(name)]) + name + b"\xd2" + struct.pack(">i", offset)
        contents += b"\xc6" + struct.pack(">I", len(content)) + content
        offset += 5 + len(content)
    return head + pointers + contents


class Parts:
    """A frame of one-byte items in chunks of 8 bytes, in parts that a test can change before they are joined."""

    def __init__(self, data: bytes = b"0123456789ab", *, chunksize: int = 8, typesize: int = 1) -> None:
        pieces = [data[i : i + chunksize] for i in range(0, len(data), chunksize)]
        chunks = [raw_chunk(piece, typesize) for piece in pieces]
        self.chunks = b"".join(chunks)
        self.offsets = [sum(map(len, chunks[:n])) for n in range(len(chunks))]
        self.nbytes, self.chunksize, self.typesize = len(data), chunksize, typesize
        self.flags = 0x12
        self.meta: dict[str, bytes] = {}
        self.vlmeta: dict[str, bytes] = {}
        self.index: bytes | None = None
        self.gap = b""

    def header(self, frame_len: int, cbytes: int) -> bytes:
        metalayers = table(self.meta, 87, 1)
        header_len = 87 + len(metalayers)
        return (
            b"\x9e\xa8b2frame\0" + b"\xd2" + struct.pack(">i", header_len) + b"\xcf" + struct.pack(">Q", frame_len)
            + b"\xa4" + bytes([self.flags, 0, 0x51, 0]) + b"\xd3" + struct.pack(">q", self.nbytes)
            + b"\xd3" + struct.pack(">q", cbytes) + b"\xd2" + struct.pack(">i", self.typesize)
            + b"\xd2" + struct.pack(">i", 0) + b"\xd2" + struct.pack(">i", self.chunksize)
            + b"\xd1\0\1\xd1\0\1" + (b"\xc3" if self.vlmeta else b"\xc2") + b"\xd8\x06" + bytes(5) + b"\x01"
            + b"\x01\0" + bytes(6) + bytes(2) + metalayers
        )  # fmt: skip

    def trailer(self) -> bytes:
        body = b"\x94\x01" + table(self.vlmeta, 2, 0)
        return body + b"\xce" + struct.pack(">I", len(body) + 23) + b"\xd8" + bytes(17)

    def join(self) -> bytes:
        index = (raw_chunk(u64(*self.offsets), 8) if self.index is None else self.index) if self.nbytes else b""
        trailer = self.trailer()
        chunks = self.chunks if self.nbytes else b""
        rest = chunks + index + self.gap + trailer
        frame_len = len(self.header(0, 0)) + len(rest)
        return self.header(frame_len, len(chunks)) + rest


Maker = Callable[[bytes], Source]


@pytest.fixture(params=["memory", "pread", "mmap"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    """Puts bytes where each kind of source reads them."""

    def made(data: bytes) -> Source:
        if request.param == "memory":
            return Source.of_buffer(data, "frame")
        path = tmp_path / "frame"
        path.write_bytes(data)
        return Source.map(path) if request.param == "mmap" else Source.open(path)

    return made


# --------------------------------------------------------------------- reading


def test_variable_chunks(make: Maker) -> None:
    pieces = [b"12345", b"6", b"789", b"abcdefghij"]
    parts = Parts()
    chunks = [raw_chunk(piece) for piece in pieces]
    parts.chunks, parts.offsets = b"".join(chunks), [sum(map(len, chunks[:n])) for n in range(4)]
    parts.nbytes, parts.chunksize, parts.flags = 19, 0, 0x53
    frame = Frame.open(make(parts.join()))
    assert (frame.nchunks, frame.variable) == (4, True)
    whole = b"".join(pieces)
    for i in range(20):
        for j in range(i, 20):
            assert frame.read_bytes(i, j) == whole[i:j]
    assert np.frombuffer(frame.chunk_sizes(), "<i8").tolist() == [5, 1, 3, 10]
    parts.nbytes = 20
    frame = Frame.open(make(parts.join()))
    with pytest.raises(FormatError, match="19 bytes"):
        frame.read_bytes(0, 1)


def change(at: int, value: bytes) -> Callable[[bytearray], None]:
    def changed(data: bytearray) -> None:
        data[at : at + len(value)] = value

    return changed


HEADER_LEN = 97
# what is wrong, how, where the error is, when it comes
DAMAGE: list[tuple[str, Callable[[bytearray], None], int]] = [
    ("magic", change(5, b"x"), 0),
    ("header_len marker", change(10, b"\0"), 10),
    ("short header", change(11, b"\0\0\0\x60"), 11),
    ("long header", change(11, b"\x7f\0\0\0"), 11),
    ("negative header", change(11, b"\xff\0\0\0"), 11),
    ("long frame", change(16, b"\0\0\1"), 16),
    ("huge frame", change(16, b"\xff" * 8), 16),
    ("version 1", change(25, b"\x11"), 25),
    ("version 4", change(25, b"\x14"), 25),
    ("32-bit offsets", change(25, b"\x02"), 25),
    ("directory", change(26, b"\1"), 26),
    ("negative nbytes", change(30, b"\x80"), 30),
    ("typesize 0", change(48, bytes(4)), 48),
    ("typesize", change(48, b"\x7f"), 48),
    ("variable flag", change(25, b"\x53"), 58),
    ("no chunk size", change(58, bytes(4)), 58),
    ("chunk size", change(58, b"\x80"), 58),
    ("cbytes", change(39, b"\1"), 39),
    ("negative cbytes", change(39, b"\x80"), 39),
    ("7 slots", change(70, b"\7"), 70),
    ("vlmeta marker", change(68, b"\0"), 10),
    ("table marker", change(87, b"\0"), 87),
    ("17 metalayers", change(93, b"\x11"), 92),
    ("trailer marker", change(-23, b"\0"), -23),
    ("trailer length", change(-22, b"\1"), -22),
    ("small trailer", change(-19, b"\1"), -22),
    ("trailer start", change(-35, b"\x93"), -35),
    ("vlmeta table", change(-33, b"\0"), -33),
    ("index version", change(HEADER_LEN + 76, b"\7"), HEADER_LEN + 76),
    ("index size", change(HEADER_LEN + 80, b"\x11"), HEADER_LEN + 76),
    ("entry outside", change(HEADER_LEN + 108, b"\x2d"), HEADER_LEN + 76),
    ("entry unknown", change(HEADER_LEN + 123, b"\x83"), HEADER_LEN + 76),
    ("chunk size differs", change(HEADER_LEN + 4, b"\7"), HEADER_LEN),
    ("chunk past the end", change(HEADER_LEN + 52, b"\x30"), HEADER_LEN + 40),
    ("chunk header", change(HEADER_LEN + 42, b"\2"), HEADER_LEN + 40),
]


@pytest.mark.parametrize(("damage", "at"), [d[1:] for d in DAMAGE], ids=[d[0] for d in DAMAGE])
def test_damage_is_named_with_its_byte(damage: Callable[[bytearray], None], at: int, make: Maker) -> None:
    data = bytearray(Parts().join())
    size = len(data)
    if at < 0:
        at += size
    damage(data)
    source = make(b"front" + bytes(data))
    with pytest.raises(FormatError) as caught:
        decode_all(Frame.open(source, 5, key="/k"))
    assert caught.value.offset == 5 + at, caught.value
    assert caught.value.key == "/k"
    assert caught.value.path == source.path
    assert str(5 + at) in str(caught.value)


def test_metalayers_that_are_damaged(make: Maker) -> None:
    parts = Parts()
    for meta in ({"": b"\1"}, {"a" * 31: b"\1"}):
        parts.meta = meta
        if "" in meta:
            with pytest.raises(FormatError, match="without a name"):
                Frame.open(make(parts.join()))
        else:
            assert Frame.open(make(parts.join())).metalayers() == meta
    parts.meta = {"aa": b"\1", "ab": b"\2"}
    data = parts.join()
    for old, new, text in (
        (b"\xa2ab", b"\xa2aa", "same name"),
        (b"\xa2ab", b"\xa2\xff\xfe", "UTF-8"),
        (b"\xa2ab", b"\xbfab", "fit|marker"),
        (b"\xc6\0\0\0\1\2", b"\xc6\0\0\0\2\2", "outside"),
        (b"\xc6\0\0\0\1\2", b"\xc5\0\0\0\1\2", "not where"),
        (b"\xc6\0\0\0\1\2", b"\xc6\xff\0\0\1\2", "outside"),
    ):
        assert data.count(old) == 1
        with pytest.raises(FormatError, match=text):
            Frame.open(make(data.replace(old, new)))


def test_vlmeta_that_is_damaged(make: Maker) -> None:
    parts = Parts()
    parts.vlmeta = {"aa": raw_chunk(b"\1"), "ab": raw_chunk(b"\2")}
    data = parts.join()
    assert Frame.open(make(data)).vlmeta("ab") == b"\2"
    for old, new, text in (
        (b"\xa2ab", b"\xa2aa", "are named"),
        (b"\xa2ab", b"\xa2\xff\xfe", "UTF-8"),
        (b"\xde\0\2", b"\xde\x21\0", "8448"),
        (b"\xc6\0\0\0\x21\5\1\7\1\1\0\0\0\1", b"\xc6\0\0\1\x21\5\1\7\1\1\0\0\0\1", "outside"),
    ):
        assert old in data
        frame = Frame.open(make(data[: -len(parts.trailer())] + data[-len(parts.trailer()) :].replace(old, new)))
        with pytest.raises(FormatError, match=text):
            frame.vlmeta_names()
    special = bytearray(raw_chunk(b"\1"))
    for chunk, text in (
        (special[:31] + b"\x10" + special[32:], "special chunk"), (special[:-1], "stored size|32 bytes"),
        (special + b"x", "stored size"), (b"short", "32 bytes"),
    ):  # fmt: skip
        parts.vlmeta = {"bad": bytes(chunk), "good": raw_chunk(b"\5")}
        frame = Frame.open(make(parts.join()))
        assert frame.vlmeta("good") == b"\5"
        with pytest.raises(FormatError, match=text):
            frame.vlmeta("bad")
        with pytest.raises(FormatError, match=text):
            decode_all(frame)


def test_many_chunks_share_no_offset(make: Maker) -> None:
    parts = Parts(bytes(range(160)), chunksize=8)
    parts.chunks = parts.chunks[:400]
    parts.offsets = [0] * 20
    with pytest.raises(FormatError, match="stored chunks do not fit"):
        Frame.open(make(parts.join())).read_bytes(0, 1)


# ------------------------------------------------------------------ blocks and metadata made to mislead


def test_metadata_entries_that_share_their_content_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "shared.b2frame"
    schunk = blosc2.SChunk(data=b"abcd", urlpath=str(path))
    schunk.vlmeta.update({"a": np.random.default_rng(0).bytes(4000), "b": 1, "c": 2})
    frame = bytearray(path.read_bytes())
    trailer = len(frame) - Frame.open(Source.of_buffer(bytes(frame))).trailer_len
    first, *others = (frame.index(b"\xa1" + name + b"\xd2", trailer) + 3 for name in (b"a", b"b", b"c"))
    for offset in others:
        frame[offset : offset + 4] = frame[first : first + 4]
    path.write_bytes(frame)
    with pytest.raises(FormatError, match="share"):
        blosc2.open(str(path)).vlmeta.getall()


def test_a_small_metadata_entry_cannot_claim_much(tmp_path: Path) -> None:
    path = tmp_path / "bomb.b2frame"
    claims.write_frame(path, vlmeta={"k": vlmeta_chunk(pack(b"\0" * (64 << 20)))})
    assert path.stat().st_size < 4096
    with pytest.raises(FormatError, match="bomb"):
        blosc2.open(str(path)).vlmeta["k"]
