"""Files of all kinds that carry checksums."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames.checksums import verify_frame
from fixture_kit import checked_files

ITEMS = np.arange(300, dtype="i4").reshape(30, 10)
NOISE = np.random.default_rng(5).integers(0, 256, 600, np.uint8)


def crc(data: bytes) -> int:
    """CRC-32C bit by bit, by its definition."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


# ---------------------------------------------------------------------- files of all kinds


def compressed(path: Path) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=path)


def nans(path: Path) -> None:
    blosc2.nans((100,), chunks=(30,), blocks=(10,), urlpath=path)


def partly_special(path: Path) -> None:
    items = np.zeros((30, 10), "i4")
    items[10:20] = ITEMS[10:20]
    blosc2.asarray(items, chunks=(10, 10), blocks=(5, 10), urlpath=path)


def appended(path: Path) -> None:
    array = blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=path)
    array[3, 3] = 77
    array.resize((45, 10))
    array[40:] = 5
    array.vlmeta["a"] = 1


def only_metadata_appended(path: Path) -> None:
    array = blosc2.asarray(ITEMS[:5], urlpath=path)
    for n in range(4):
        array.vlmeta["n"] = n


def shrunk_to_nothing(path: Path) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 10), blocks=(5, 10), urlpath=path).resize((0, 10))


def superchunk(path: Path) -> None:
    schunk = blosc2.SChunk(chunksize=400, data=bytes(NOISE), cparams={"typesize": 1}, urlpath=path)
    schunk.insert_data(1, ITEMS[:10].tobytes(), copy=True)
    schunk.reorder_offsets([2, 0, 1])


def variable_chunks(path: Path) -> None:
    schunk = blosc2.SChunk(chunksize=100, urlpath=path, cparams={"typesize": 1})
    for size in (100, 30, 70):
        schunk.append_data(bytes(NOISE[:size]))


def empty_superchunk(path: Path) -> None:
    blosc2.SChunk(chunksize=400, urlpath=path).vlmeta["a"] = 1


def leaf(path: Path) -> None:
    with blosc2.DictStore(f"{path}.b2d", mode="w") as store:
        store["/x"] = ITEMS[:10]
    os.replace(f"{path}.b2d/x.b2nd", path)


def embedded(path: Path) -> None:
    with blosc2.EmbedStore(f"{path}.b2e", mode="w") as store:
        store["/x"] = ITEMS[:2]
    with blosc2.EmbedStore(f"{path}.b2e", mode="a") as store:
        store["/y"] = ITEMS[:1]
    os.replace(f"{path}.b2e", path)


MAKERS: list[Callable[[Path], None]] = [
    compressed, nans, partly_special, appended, only_metadata_appended, shrunk_to_nothing, superchunk, variable_chunks,
    empty_superchunk, leaf, embedded, checked_files.raw, checked_files.special, checked_files.repeated,
    checked_files.empty, checked_files.scalar, checked_files.with_metadata, checked_files.shrunk, checked_files.saved,
]  # fmt: skip
every_kind = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


def made(make: Callable[[Path], None], path: Path) -> bytes:
    make(path)
    return path.read_bytes()


def found(data: Any) -> list[Any]:
    """What there is to find in the bytes of a frame, be it that they are no frame any more."""
    try:
        frame = Frame.open(Source.of_buffer(data))
        return list(verify_frame(frame))
    except blosc2.FormatError as error:
        return [error]
