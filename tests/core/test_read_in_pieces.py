"""A few large chunks are read by several threads, each of which checks the stored bytes that it reads."""

from __future__ import annotations

import itertools
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

RNG = np.random.default_rng(23)
# One chunk of 8 MB, which has more blocks than items need; there are enough of both for several threads.
SHAPE, CHUNKS, BLOCKS = (90, 128, 128), (128, 128, 128), (16, 64, 64)
ITEMS = RNG.integers(0, 300, SHAPE).astype("f4")
STORED = {"cparams": {"clevel": 0}}
COMPRESSED = {"cparams": {"codec": blosc2.Codec.LZ4, "clevel": 1, "nthreads": 1}}


@pytest.fixture(params=[None, "r"], ids=["read", "mapped"])
def source(request: pytest.FixtureRequest) -> str | None:
    return request.param


def in_disorder(chunk: bytes) -> bytes:
    """The same chunk with its blocks in reverse, as threads leave them that write in the order in which they end."""
    (nbytes, blocksize, cbytes) = struct.unpack_from("<iii", chunk, 4)
    count = -(-nbytes // blocksize)
    starts = [*struct.unpack_from(f"<{count}i", chunk, 32), cbytes]
    blocks = [chunk[start:stop] for start, stop in itertools.pairwise(starts)]
    at, table = 32 + 4 * count, [0] * count
    for number in reversed(range(count)):
        table[number] = at
        at += len(blocks[number])
    return chunk[:32] + struct.pack(f"<{count}i", *table) + b"".join(reversed(blocks))


def write(path: Path, how: dict[str, Any], *, disorder: bool = False) -> tuple[Path, str | None]:
    """A file with checksums of its own."""
    array = blosc2.asarray(ITEMS, chunks=CHUNKS, blocks=BLOCKS, urlpath=str(path / "x.b2nd"), **how)
    if disorder:
        array.schunk.update_chunk(0, in_disorder(array.schunk.get_chunk(0)))
    return path / "x.b2nd", None


def write_member(path: Path, how: dict[str, Any], *, disorder: bool = False) -> tuple[Path, str | None]:
    """A leaf as other programs store it: the archive has its checksum."""
    array = blosc2.asarray(ITEMS, chunks=CHUNKS, blocks=BLOCKS, **how)
    if disorder:
        array.schunk.update_chunk(0, in_disorder(array.schunk.get_chunk(0)))
    with zipfile.ZipFile(path / "x.b2z", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("x.b2nd", array.to_cframe())
        archive.writestr("embed.b2e", blosc2.EmbedStore().to_cframe())
    return path / "x.b2z", "/x"


def stored_chunk(path: Path, key: str | None) -> tuple[int, int, bytearray]:
    """Where the chunk begins in the file, its size, and the file."""
    data = bytearray(path.read_bytes())
    start = opened(path, key)._handle.frame.chunk_info(0)[0]
    return start, struct.unpack_from("<i", data, start + 12)[0], data


def opened(path: Path, key: str | None, **how: Any) -> Any:
    found = blosc2.open(str(path), dparams={"nthreads": 2}, **how)
    return found if key is None else found[key]


@pytest.mark.parametrize(
    ("how", "disorder"),
    [(STORED, False), (COMPRESSED, False), (COMPRESSED, True)],  # stored blocks are always in order
    ids=["stored", "compressed", "in disorder"],
)
@pytest.mark.parametrize("make", [write, write_member], ids=["array", "member"])
def test_no_changed_byte_of_a_chunk_in_pieces_is_missed(
    make: Any, how: dict[str, Any], disorder: bool, tmp_path: Path, source: str | None
) -> None:
    path, key = make(tmp_path, how, disorder=disorder)
    np.testing.assert_array_equal(opened(path, key, mmap_mode=source)[...], ITEMS)
    start, size, data = stored_chunk(path, key)
    for at in [0, 16, 33, 40, size - 1, *(int(n) for n in RNG.integers(32, size, 12))]:
        data[start + at] ^= 64
        path.write_bytes(data)
        with pytest.raises(blosc2.FormatError):
            opened(path, key, mmap_mode=source)[...]
        data[start + at] ^= 64
    path.write_bytes(data)
    np.testing.assert_array_equal(opened(path, key, mmap_mode=source)[...], ITEMS)
