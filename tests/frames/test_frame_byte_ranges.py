"""Frames as byte ranges: the same bytes as a frame that is made anew, and the checksums of these."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.checksums import ITEMS, NOISE, every_kind, made

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import checksums_of, stored_lengths
from blosc2._core.io.checksum import crc32c, crc32c_of_parts
from blosc2._core.io.source import Source
from blosc2._frames import PADDING, FrameUpdate, MemoryHandle, frame_byte_range, frame_bytes, with_padding
from blosc2._frames import update as edited_chunks
from blosc2.exceptions import FormatError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.b2nd"


def check(byte_range: Any, frame: Frame) -> None:
    """What a byte range holds is what a frame of these chunks is; what it knows of checksums is what these are."""
    data = frame_bytes(FrameUpdate(frame))
    assert byte_range[0].read(*byte_range[1:]) == data
    known = byte_range[0].checksums
    if known:
        assert known[:3] == checksums_of(Frame.open(Source.of_buffer(data)))
        assert crc32c(data[known.start : known.stop]) == known.body


def edited(frame: Frame, chunks: list[int], monkeypatch: pytest.MonkeyPatch) -> MemoryHandle:
    """A handle whose chunks stay where they are, but for some that were replaced."""
    monkeypatch.setattr(edited_chunks, "SMALL_FRAME", 0)
    handle = MemoryHandle(frame)
    for chunk in chunks:
        update = FrameUpdate(handle.frame)
        update.replace(chunk, special(handle.frame, chunk))
        handle.publish(update)
    return handle


def special(frame: Frame, chunk: int) -> bytes:
    """A stored chunk of the same size as another one, with other bytes."""
    size = len(frame.decode_chunk(chunk))
    made: bytes = blosc2.compress2(bytes([chunk + 1]) * size, typesize=frame.typesize, blocksize=frame.blocksize)
    return made


@every_kind
def test_a_frame_as_it_is(make: Callable[[str], None], path: Path) -> None:
    made(make, path)
    frame = Frame.open(Source.open(str(path)))
    check(frame_byte_range(FrameUpdate(frame)), frame)


@every_kind
def test_an_edited_frame(make: Callable[[str], None], path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(make, path)
    frame = Frame.open(Source.open(str(path)))
    handle = edited(frame, sorted({0, frame.nchunks - 1}) if frame.nbytes else [], monkeypatch)
    check(handle.byte_range() if frame.nbytes else frame_byte_range(FrameUpdate(frame)), handle.frame)


@pytest.mark.parametrize("chunks", [[0], [5], [29], [3, 4, 5], [29, 0, 3, 0], list(range(30))])
@pytest.mark.parametrize("history", ["new", "appended", "of others"])
def test_runs_of_chunks(history: str, chunks: list[int], path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = blosc2.asarray(np.tile(NOISE, 5), chunks=(100,), blocks=(50,), urlpath=path)
    if history == "appended":
        for start in (700, 0, 2950):  # their old chunks are dead bytes, and the new ones come last
            array[start : start + 30] = 1
    elif history == "of others":
        path.write_bytes(array.to_cframe())
    frame = Frame.open(Source.open(str(path)))
    handle = edited(frame, chunks, monkeypatch)
    byte_range = handle.byte_range()
    check(byte_range, handle.frame)
    assert bool(byte_range[0].checksums) is (history != "of others")
    if history == "new" and chunks == [5]:
        # A header, the chunks before it, itself, those behind it, a table, a trailer.
        assert len(byte_range[0].byte_ranges(0, byte_range[0].size)) == 6


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_aligned_payloads(count: int, path: Path) -> None:
    schunk = blosc2.SChunk(chunksize=100, urlpath=path, cparams={"typesize": 1, "clevel": 0})
    for n in range(count):
        schunk.append_data(bytes(NOISE[n : n + 100]))
    plain = Frame.open(Source.open(str(path)))
    update = FrameUpdate(plain)
    update.metalayers = with_padding(update.metalayers)
    aligned = Frame.open(Source.of_buffer(frame_bytes(update)))
    assert PADDING in aligned.metalayers()
    update = FrameUpdate(aligned)
    offsets = update.offsets
    byte_range = frame_byte_range(update, checksums=sums_at(aligned, offsets[offsets >= 0]))
    check(byte_range, aligned)
    assert byte_range[0].checksums
    for chunk in range(count):
        assert aligned.chunk_info(chunk)[0] % 64 == 32  # type: ignore[operator]  # none of these is special


def sums_at(frame: Frame, offsets: Any) -> Any:
    return np.array([crc32c(frame.chunk_stored_at(at)) for at in offsets.tolist()], np.uint32)


def test_checksums_of_parts_that_follow_each_other() -> None:
    parts = [bytes(NOISE[:size]) for size in (0, 1, 600, 600, 3, 3, 0, 64)]
    checksums = np.array([crc32c(part) for part in parts], np.uint32)
    sizes = np.array([len(part) for part in parts], np.int64)
    for before in (b"", b"before"):
        assert crc32c_of_parts(crc32c(before), checksums, sizes) == crc32c(before + b"".join(parts))
    assert crc32c_of_parts(7, checksums[:0], sizes[:0]) == 7
    with pytest.raises(ValueError, match="7 checksums for 8 parts"):
        crc32c_of_parts(0, checksums[1:], sizes)


def test_lengths_are_those_of_the_chunks(path: Path) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=path)
    frame = Frame.open(Source.open(str(path)))
    offsets = np.frombuffer(frame.offsets_bytes(), np.int64)
    lengths = np.frombuffer(stored_lengths(frame, offsets), np.int64)
    assert lengths.tolist() == [len(frame.chunk(n)) for n in range(frame.nchunks)]


@pytest.mark.parametrize("mapped", [False, True])
def test_a_damaged_chunk_is_told_of(mapped: bool, path: Path) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=path)
    frame = Frame.open((Source.map if mapped else Source.open)(str(path)))
    start, stop = frame.chunks_range
    assert frame.nchunks == 3  # the table is read while it is whole
    offsets = np.frombuffer(frame.offsets_bytes(), np.int64)
    with open(path, "r+b") as file:
        file.seek(start + int(offsets[1]) + 12)
        file.write((stop - start).to_bytes(4, "little"))  # longer than there is room
    with pytest.raises(FormatError, match="a stored chunk") as raised:
        stored_lengths(frame, offsets)
    assert raised.value.offset == start + int(offsets[1])
    assert raised.value.path == str(path)
    with pytest.raises(FormatError):  # an offset that is none
        stored_lengths(frame, np.array([1 << 60]))
