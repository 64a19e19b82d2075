"""Streams of LZ4, most of which this package decodes itself: beside a decoder in Python, and beside LZ4's own."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import blosc2
from blosc2.exceptions import FormatError

# Where decoders change their ways: lengths in the token and behind it, copies of 8, 16 and 128 bytes at a time.
LENGTHS = st.one_of(
    st.integers(0, 40), st.integers(100, 150), st.integers(250, 300), st.integers(500, 540), st.just(1000)
)
OFFSETS = st.one_of(st.integers(1, 20), st.integers(100, 140), st.integers(1, 65535))
SHORT_OFFSETS = [(0, offset, matched) for offset in range(1, 20) for matched in (0, 10, 14, 15, 16, 300)]
SEQUENCES = st.lists(st.tuples(LENGTHS, OFFSETS, LENGTHS), max_size=120)


def length_bytes(length: int) -> bytes:
    """What follows a token for a length of 15 or more (from 15 on)."""
    return b"" if length < 15 else b"\xff" * ((length - 15) // 255) + bytes([(length - 15) % 255])


def sequence(literals: bytes, offset: int = 0, matched: int | None = None) -> bytes:
    match = 0 if matched is None else matched - 4
    token = bytes([min(len(literals), 15) << 4 | min(match, 15)])
    start = token + length_bytes(len(literals)) + literals
    return start if matched is None else start + struct.pack("<H", offset) + length_bytes(match)


def stream_of(sequences: list[tuple[int, int, int]], seed: int, last: int) -> tuple[bytes, bytes]:
    """A stream of these sequences, and what it stands for: matches are copied byte by byte."""
    rng = np.random.default_rng(seed)
    stream, result = bytearray(), bytearray()
    for length, offset, matched in sequences:
        literals = rng.bytes(max(length, not result))
        result += literals
        offset, matched = min(offset, len(result)), matched + 4
        stream += sequence(literals, offset, matched)
        for _ in range(matched):
            result.append(result[-offset])
    literals = rng.bytes(last)
    return bytes(stream + sequence(literals)), bytes(result + literals)


def chunk_of(stream: bytes, size: int, shuffles: int) -> bytes:
    """A chunk of one block of bytes, which shuffling does not change.

    Shuffled once, streams are decoded by this package, and twice by the C library.
    """
    filters = {"filters": [blosc2.Filter.SHUFFLE] * shuffles, "filters_meta": [0] * shuffles}
    made = blosc2.compress2(bytes(100_000), typesize=1, blocksize=100_000, codec=blosc2.Codec.LZ4, clevel=5, **filters)
    header = bytearray(made[:32])
    header[2] |= 0x10  # blocks are not split
    header[31] = 0  # not a special chunk
    struct.pack_into("<iii", header, 4, size, size, 40 + len(stream))
    return bytes(header) + struct.pack("<ii", 36, len(stream)) + stream


def decoded(stream: bytes, size: int, shuffles: int = 1) -> bytes | None:
    """What a chunk of this stream holds, or None if it is refused."""
    try:
        found = blosc2.decompress2(chunk_of(stream, size, shuffles))
    except FormatError:
        return None
    assert isinstance(found, bytes)
    return found


@given(sequences=SEQUENCES, seed=st.integers(0, 99), last=st.integers(12, 400))
@example(sequences=SHORT_OFFSETS, seed=1, last=300)
@example(sequences=[(length, 30, 2) for length in range(300)], seed=1, last=12)
@example(sequences=[(14, 16, 14)] * 1000, seed=2, last=12)
def test_streams_give_what_they_stand_for(sequences: list[tuple[int, int, int]], seed: int, last: int) -> None:
    stream, result = stream_of(sequences, seed, last)
    assume(len(stream) != len(result))  # such streams are not compressed
    assert decoded(stream, len(result)) == result
    assert decoded(stream, len(result), 2) == result


@given(sequences=SEQUENCES.filter(bool), seed=st.integers(0, 99), last=st.integers(0, 300), data=st.data())
@settings(max_examples=300)
def test_damaged_streams_are_taken_and_refused_as_by_lz4(
    sequences: list[tuple[int, int, int]], seed: int, last: int, data: st.DataObject
) -> None:
    """But for a offset of 0, which LZ4 takes: what it copies then depends on what lies in memory."""
    stream, result = stream_of(sequences, seed, last)
    changed = bytearray(stream)
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at] = data.draw(st.sampled_from([0, 1, 7, 0x0F, 0x10, 0xF0, 0xFE, 0xFF]))
    changed = changed[: data.draw(st.one_of(st.just(len(changed)), st.integers(1, len(changed))))]
    size = max(len(result) + data.draw(st.sampled_from([0, 0, 0, 0, 1, -1, -20, 40, -200])), 1)
    ours, theirs = decoded(bytes(changed), size), decoded(bytes(changed), size, 2)
    assert ours == theirs or (ours is None and has_offset_0(bytes(changed), size))


def has_offset_0(stream: bytes, size: int) -> bool:
    """Whether a stream copies from a offset of 0 before its end, or that of the result."""
    at = done = 0

    def length(token: int) -> int:
        nonlocal at
        more = 255 if token == 15 else 0
        while more == 255:
            more = stream[at]
            token += more
            at += 1
        return token

    try:
        while done < size:
            token = stream[at]
            at += 1
            literals = length(token >> 4)
            at += literals
            offset = stream[at] | stream[at + 1] << 8
            at += 2
            if offset == 0:
                return True
            done += literals + length(token & 15) + 4
    except IndexError:
        pass
    return False


@pytest.mark.parametrize("at", [0, 50, 400])
@pytest.mark.parametrize("matched", [4, 18, 19, 400])
def test_what_copies_from_before_the_result_is_refused(at: int, matched: int) -> None:
    """Also by one byte, and with any offset for which there is a special way to copy."""
    for offset in (0, 1, 2, 7, 8, 15, 16, 1000, 65535):
        before = sequence(b"x" * 10, 4, 4) * (at // 10)
        bad = sequence(b"", offset, matched)
        if 0 < offset <= 14 * (at // 10):
            continue
        stream = before + bad + sequence(b"y" * 2000)
        assert decoded(stream, 14 * (at // 10) + matched + 2000) is None, offset


@pytest.mark.parametrize("wanted", [1, 100, 700, 2000, 3999])
@pytest.mark.parametrize("length", [0, 3, 14, 15, 100, 1000])
def test_the_beginning_of_a_stream(length: int, wanted: int, source: str | None, tmp_path: Path) -> None:
    """Slices decode no more of a block than they need: what is behind that may be damaged."""
    stream, result = stream_of([(length, 50, 15)] * (8000 // (length + 19) + 1), 3, 100)
    path = tmp_path / "x.b2frame"
    cparams = {"typesize": 1, "filters": [blosc2.Filter.SHUFFLE]}
    schunk = blosc2.SChunk(chunksize=len(result), cparams=cparams, urlpath=str(path))
    schunk.insert_chunk(0, chunk_of(stream, len(result), 1))
    whole = path.read_bytes()
    for damaged in (0, len(stream) // 4):
        path.write_bytes(whole.replace(stream, stream[: len(stream) - damaged] + b"\xff" * damaged))
        opened = blosc2.open(str(path), mmap_mode=source)
        assert opened[:wanted] == result[:wanted]
        assert opened[wanted // 2 : wanted] == result[wanted // 2 : wanted]
    with pytest.raises(FormatError):
        opened[:]
