"""Frames: built by hand after FORMATS section 1 and read, and our own bytes taken apart by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fixture_kit import claims
from fixture_kit.schunks import decode_all
from fuzz.generate import frame

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames.handle import vlmeta_chunk
from blosc2._frames.metadata import pack
from blosc2.exceptions import FormatError


def raw_chunk(data: bytes, typesize: int = 1) -> bytes:
    header = struct.pack("<4B3i", 5, 1, 7, typesize, len(data), len(data), len(data) + 32)
    return header + bytes(16) + data


class Parts:
    """A frame of one-byte items in chunks of 8 bytes, in parts that a test can change before they are joined."""

    def __init__(self, data: bytes = b"0123456789ab", *, chunksize: int = 8) -> None:
        pieces = [data[at : at + chunksize] for at in range(0, len(data), chunksize)]
        self.chunks: list[bytes | int] = [raw_chunk(piece) for piece in pieces]
        self.nbytes, self.chunksize, self.flags = len(data), chunksize, 0x12
        self.meta: dict[bytes, bytes] = {}
        self.vlmeta: dict[bytes, bytes] = {}

    def join(self) -> bytes:
        """The frame, made by hand by the fuzzer's module."""
        return frame(
            list(self.meta.items()), self.chunks, list(self.vlmeta.items()),
            nbytes=self.nbytes, chunksize=self.chunksize, typesize=1, flags=self.flags,
        )  # fmt: skip


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
    parts.chunks = [raw_chunk(piece) for piece in pieces]
    parts.nbytes, parts.chunksize, parts.flags = 19, 0, 0x53
    found = Frame.open(make(parts.join()))
    assert (found.nchunks, found.variable) == (4, True)
    whole = b"".join(pieces)
    for i in range(20):
        for j in range(i, 20):
            assert found.read_bytes(i, j) == whole[i:j]
    assert np.frombuffer(found.chunk_sizes(), "<i8").tolist() == [5, 1, 3, 10]
    parts.nbytes = 20
    with pytest.raises(FormatError, match="19 bytes"):
        Frame.open(make(parts.join())).read_bytes(0, 1)


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
    parts.meta = {b"": b"\1"}
    with pytest.raises(FormatError, match="without a name"):
        Frame.open(make(parts.join()))
    parts.meta = {b"a" * 31: b"\1"}
    assert Frame.open(make(parts.join())).metalayers() == {"a" * 31: b"\1"}
    parts.meta = {b"aa": b"\1", b"ab": b"\2"}
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
    parts.vlmeta = {b"aa": raw_chunk(b"\1"), b"ab": raw_chunk(b"\2")}
    data = parts.join()
    trailer = len(data) - int.from_bytes(data[-22:-18], "big")
    assert Frame.open(make(data)).vlmeta("ab") == b"\2"
    for old, new, text in (
        (b"\xa2ab", b"\xa2aa", "are named"),
        (b"\xa2ab", b"\xa2\xff\xfe", "UTF-8"),
        (b"\xde\0\2", b"\xde\x21\0", "8448"),
        (b"\xc6\0\0\0\x21\5\1\7\1\1\0\0\0\1", b"\xc6\0\0\1\x21\5\1\7\1\1\0\0\0\1", "outside"),
    ):
        assert old in data
        found = Frame.open(make(data[:trailer] + data[trailer:].replace(old, new)))
        with pytest.raises(FormatError, match=text):
            found.vlmeta_names()
    special = bytearray(raw_chunk(b"\1"))
    for chunk, text in (
        (special[:31] + b"\x10" + special[32:], "special chunk"), (special[:-1], "stored size|32 bytes"),
        (special + b"x", "stored size"), (b"short", "32 bytes"),
    ):  # fmt: skip
        parts.vlmeta = {b"bad": bytes(chunk), b"good": raw_chunk(b"\5")}
        found = Frame.open(make(parts.join()))
        assert found.vlmeta("good") == b"\5"
        for read in (lambda found=found: found.vlmeta("bad"), lambda found=found: decode_all(found)):
            with pytest.raises(FormatError, match=text):
                read()


def test_many_chunks_share_no_offset(make: Maker) -> None:
    stored = [raw_chunk(bytes(range(8 * n, 8 * n + 8))) for n in range(10)]
    index = raw_chunk(bytes(8 * 20), 8)
    data = frame([], [*stored], [], nbytes=160, chunksize=8, typesize=1, index=index)
    with pytest.raises(FormatError, match="stored chunks do not fit"):
        Frame.open(make(data)).read_bytes(0, 1)


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
