"""How long decoding takes, from counts in the compressed bytes.

zstd spends its time on sequences (a match and the literals before it), and on literals that are Huffman codes; both
numbers stand in the headers of its frames (RFC 8878, sections 3.1.1.2 and 3.1.1.3). So the time of a stream can be told
without decoding it. Weights are nanoseconds on one core of the machine that `bench/compression_costs.py` was run on,
which fits them to measured times; only their ratios decide, unless a caller asks for a speed.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from blosc2._core.io.sharing import item_of
from blosc2._options import Codec, Filter

#: Nanoseconds for a Huffman literal, a byte that a match copies, a sequence, and a stream.
_HUFFMAN, _MATCHED, _SEQUENCE, _STREAM = 0.53, 0.07, 5.5, 600.0
#: The same of codecs without such counts: for a byte of a compressed stream, and for a stream.
_FAST: Final = {Codec.LZ4.value: (0.11, 600.0), Codec.LZ4HC.value: (0.08, 600.0), Codec.BLOSCLZ.value: (0.21, 800.0)}
#: For each byte, whatever it is: of items of one byte, and of others.
_SINGLE, _COPIED = 0.13, 0.05
#: For each byte and filter, beside that, by the size of items; of larger ones.
_BITSHUFFLED: Final = {1: 0.31, 2: 0.13, 4: 0.06}
_SUMMED: Final = {1: 0.06, 2: 0.11, 4: 0.1}
_OTHERS: Final = 0.045
#: Shuffling by widths for which the C library has fast code costs nearly nothing.
_FAST_WIDTHS, _SHUFFLED_SLOWLY = (2, 4, 8, 16), 0.25
#: Nanoseconds for compressing a byte, by codec and level.
ENCODING: Final = {
    (Codec.ZSTD, 1): 2.1, (Codec.ZSTD, 3): 6.2, (Codec.ZSTD, 5): 9.6, (Codec.ZSTD, 7): 39.0, (Codec.ZSTD, 9): 198.0,
    (Codec.LZ4, 5): 0.9, (Codec.LZ4HC, 9): 28.0, (Codec.BLOSCLZ, 5): 2.0,
}  # fmt: skip

_HEADER: Final = 32
_MEMCPYED, _UNSPLIT = 0x02, 0x10
_ZSTD: Final = b"\x28\xb5\x2f\xfd"


class _Counts(NamedTuple):
    """Of a zstd frame: literals that are Huffman codes, sequences, and bytes that matches do not make."""

    huffman: int
    sequences: int
    literal: int


def _zstd_counts(frame: memoryview) -> _Counts:
    """Counts of a frame that this package has just made: nothing is checked."""
    descriptor = frame[4]
    single = descriptor >> 5 & 1
    at = 5 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + (single, 2, 4, 8)[descriptor >> 6]
    huffman = sequences = literal = 0
    while True:
        header = int.from_bytes(frame[at : at + 3], "little")
        at += 3
        kind, size = header >> 1 & 3, header >> 3
        if kind == 2:
            coded, regenerated, behind = _literals(frame, at)
            huffman += regenerated if coded else 0
            literal += regenerated
            first = frame[behind]
            if first < 128:
                sequences += first
            elif first < 255:
                sequences += (first - 128 << 8) + frame[behind + 1]
            else:
                sequences += frame[behind + 1] + (frame[behind + 2] << 8) + 0x7F00
        else:
            literal += size
        at += 1 if kind == 1 else size
        if header & 1:
            return _Counts(huffman, sequences, literal)


def _literals(frame: memoryview, at: int) -> tuple[bool, int, int]:
    """Whether the literals of a block are Huffman codes, how many there are, and where what follows them begins."""
    kind, form = frame[at] & 3, frame[at] >> 2 & 3
    if kind < 2:
        length = (1, 2, 1, 3)[form]
        size = int.from_bytes(frame[at : at + length], "little") >> (4 if length > 1 else 3)
        return False, size, at + length + (size if kind == 0 else 1)
    length, bits = (3, 3, 4, 5)[form], (10, 10, 14, 18)[form]
    sizes = int.from_bytes(frame[at : at + length], "little") >> 4
    mask = (1 << bits) - 1
    return True, sizes & mask, at + length + (sizes >> bits & mask)


def read_time(chunk: bytes, codec: int, filters: tuple[int, ...], metas: tuple[int, ...], itemsize: int) -> float:
    """Nanoseconds for decoding a chunk that was made with these parameters."""
    sizes: tuple[int, int] = struct.unpack_from("<ii", chunk, 4)
    nbytes, blocksize = sizes
    time = (_SINGLE if itemsize == 1 else _COPIED) * nbytes
    flags = chunk[2]
    if len(chunk) == _HEADER or flags & _MEMCPYED:
        return time
    used = zip(filters, metas, strict=True)
    time += nbytes * sum(_filter_time(one, meta or itemsize, itemsize) for one, meta in used)
    starts = struct.unpack_from(f"<{-(-nbytes // blocksize)}i", chunk, _HEADER)
    for number, start in enumerate(starts):
        size = min(blocksize, nbytes - number * blocksize)
        count = 1 if flags & _UNSPLIT or size < blocksize else chunk[3]
        time += _block_time(memoryview(chunk), codec, start, count, size // count)
    return time


def _filter_time(number: int, width: int, itemsize: int) -> float:
    """Nanoseconds that undoing a filter takes for each byte."""
    if number == Filter.BITSHUFFLE.value:
        return item_of(_BITSHUFFLED, itemsize) or _OTHERS
    if number == Filter.BYTEDELTA.value:
        return item_of(_SUMMED, itemsize) or _OTHERS
    return _SHUFFLED_SLOWLY if number == Filter.SHUFFLE.value and width not in (1, *_FAST_WIDTHS) else 0.0


def _block_time(chunk: memoryview, codec: int, at: int, count: int, size: int) -> float:
    """Nanoseconds for the streams of a block, without filters."""
    time = 0.0
    for _ in range(count):
        (stored,) = struct.unpack_from("<i", chunk, at)
        at += 4
        if stored <= 0:  # one byte, repeated
            at += stored < 0
            continue
        if stored < size:
            if codec in _FAST:
                each, whole = _FAST[codec]
                time += whole + each * size
            elif bytes(chunk[at : at + 4]) == _ZSTD:
                counts = _zstd_counts(chunk[at : at + stored])
                matched = size - counts.literal
                time += _STREAM + _HUFFMAN * counts.huffman + _SEQUENCE * counts.sequences + _MATCHED * matched
        at += stored
    return time
