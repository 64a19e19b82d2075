"""`ChunkCodec`, by itself and as a codec of numcodecs: single chunks of arrays, sound and damaged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._tools.integrations.references import ChunkCodec
from blosc2.exceptions import FormatError

# shape, chunks, blocks, dtype
SHAPES: list[tuple[Any, Any, Any, str]] = [
    ((100, 64), (60, 40), (16, 16), "f8"), ((5, 6, 7), (5, 6, 7), (2, 3, 4), "i2"),
    ((5, 6, 7, 3), (2, 6, 3, 2), (2, 4, 3, 1), "u1"), ((10,), (20,), (7,), "u1"), ((7,), (3,), (2,), "S300"),
    ((), (), (), "i4"),
]  # fmt: skip


def items(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    return (np.arange(math.prod(shape)).reshape(shape) * 7 % 101).astype(dtype)


def codec_of(array: Any) -> ChunkCodec:
    return ChunkCodec(array.chunks, array.blocks, array.dtype.itemsize)


def check_chunks(array: Any, expected: np.ndarray[Any, Any]) -> None:
    """Decode each chunk, and compare the items that are inside of the array."""
    codec = codec_of(array)
    grid = [-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)]
    for number, index in enumerate(np.ndindex(*grid)):
        found = codec.decode(array.schunk.get_chunk(number)).view(array.dtype).reshape(array.chunks)
        start = [i * c for i, c in zip(index, array.chunks, strict=True)]
        wanted = expected[tuple(slice(s, s + c) for s, c in zip(start, array.chunks, strict=True))]
        np.testing.assert_array_equal(found[tuple(slice(0, n) for n in wanted.shape)], wanted)


@pytest.mark.parametrize(("shape", "chunks", "blocks", "dtype"), SHAPES)
@pytest.mark.parametrize("clevel", [0, 5])
def test_chunks_of_arrays(shape: Any, chunks: Any, blocks: Any, dtype: str, clevel: int) -> None:
    expected = items(shape, dtype)
    check_chunks(blosc2.asarray(expected, chunks=chunks, blocks=blocks, cparams={"clevel": clevel}), expected)


@pytest.mark.parametrize(("shape", "chunks", "blocks", "dtype"), SHAPES)
def test_new_chunks(shape: Any, chunks: Any, blocks: Any, dtype: str) -> None:
    """What is encoded is a chunk that others decode: an array that gets it has its items."""
    array = blosc2.zeros(chunks, dtype, chunks=chunks, blocks=blocks)
    expected = items(chunks, dtype)
    codec = ChunkCodec(chunks, blocks, array.dtype.itemsize, codec="LZ4", clevel=9)
    array.schunk.update_chunk(0, codec.encode(expected.tobytes()))
    np.testing.assert_array_equal(array[...], expected)
    with pytest.raises(ValueError, match="bytes, not 1"):
        codec.encode(b"1")


@pytest.mark.parametrize("wrong", [
    {"chunks": (3, 0)}, {"chunks": (3,)}, {"chunks": "ab"}, {"chunks": (1 << 20, 1 << 20)},
    {"chunks": (1 << 70, 1)}, {"blocks": (4, 8)}, {"blocks": (True, 2)}, {"itemsize": 0}, {"itemsize": 1 << 60},
    {"itemsize": 2.0}, {"codec": "NDLZ"}, {"codec": None}, {"clevel": 10},
])  # fmt: skip
def test_impossible_shapes_are_refused(wrong: dict[str, Any]) -> None:
    """All of it may come from a file of JSON."""
    given: dict[str, Any] = {"chunks": (3, 4), "blocks": (2, 2), "itemsize": 4, **wrong}
    with pytest.raises(ValueError):
        ChunkCodec(**given)


def test_chunks_of_another_shape_are_refused() -> None:
    array = blosc2.asarray(items((40, 40), "i4"), chunks=(40, 40), blocks=(10, 10))
    chunk = array.schunk.get_chunk(0)
    for chunks, blocks, itemsize in (((40, 50), (10, 10), 4), ((40, 40), (10, 19), 4), ((40, 40), (10, 10), 8)):
        with pytest.raises(FormatError):
            ChunkCodec(chunks, blocks, itemsize).decode(chunk)
    for cut in (0, 15, 31, 32, 100, len(chunk) - 1):
        with pytest.raises(FormatError):
            codec_of(array).decode(chunk[:cut])


def test_damaged_chunks(rng: np.random.Generator) -> None:
    """Any bytes give an error, or as many bytes as a chunk has."""
    arrays = [
        blosc2.asarray(items((40, 40), "i4"), chunks=(40, 40), blocks=(10, 10), cparams={"codec": codec, **how})
        for codec in (blosc2.Codec.BLOSCLZ, blosc2.Codec.LZ4, blosc2.Codec.ZSTD)
        for how in ({}, {"filters": [blosc2.Filter.DELTA], "filters_meta": [0]})
    ]
    refused = 0
    for array in arrays:
        chunk, codec = array.schunk.get_chunk(0), codec_of(array)
        for number in range(400):
            damaged = bytearray(chunk)
            at = number if number < 64 else int(rng.integers(len(chunk)))
            damaged[at] = int(rng.integers(256))
            try:
                assert len(codec.decode(bytes(damaged))) == 6400
            except FormatError:
                refused += 1
    assert refused > 200


def test_numcodecs() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    from blosc2._tools.integrations.numcodecs_codec import Blosc2Chunk

    numcodecs.register_codec(Blosc2Chunk)
    expected = items((20, 30), "f4")
    codec = Blosc2Chunk(chunks=[20, 30], blocks=[7, 8], itemsize=4)
    again = numcodecs.get_codec(codec.get_config())
    assert again == codec
    assert eval(repr(codec), {"Blosc2Chunk": Blosc2Chunk}) == codec
    stored = codec.encode(expected)
    np.testing.assert_array_equal(again.decode(stored).view("f4").reshape(20, 30), expected)
    out = np.empty((20, 30), "f4")
    again.decode(stored, out=out)
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(FormatError):
        codec.decode(stored[:40])
