"""Files of embedded values, and their layout."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blosc2
from blosc2._backends.embedded_map import open_embedded
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames.checksums import carried, verify_frame
from fixture_kit.schunks import decode_all

# The header fields that an append may change: length, sizes, whether there is metadata, and the mark of checksums.
CHANGEABLE = {*range(16, 25), *range(30, 48), 68, 86}

Change = Callable[[blosc2.EmbedStore], None]


def values_of(path: str | Path, mmap_mode: str | None = None) -> dict[str, list[Any]]:
    with blosc2.EmbedStore(path, mode="r", mmap_mode=mmap_mode) as store:
        return {key: leaf[()].tolist() for key, leaf in store.items()}


def frame_of(path: str | Path) -> Frame:
    return Frame.open(Source.open(str(path)))


def filled(path: str | Path, number: int = 20, length: int = 30, seed: int = 1) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    values = {f"/g{n % 3}/v{n}": rng.random(length) for n in range(number)}
    with blosc2.EmbedStore(path, mode="w") as store:
        store.update(values)
    return {key: value.tolist() for key, value in values.items()}


def check_layout(path: str | Path, *, verified: bool = True) -> None:
    """What every file of ours must be: checksums that hold, chunks that decode, values that are byte ranges."""
    embedded = open_embedded(str(path), None)
    frame = embedded.frame
    assert (carried(frame) is not None) == verified
    assert list(verify_frame(frame)) == []
    decode_all(frame)
    assert os.path.getsize(path) == frame.frame_len
    for key, entry in embedded.entries.items():
        byte_range = embedded.locate(key)
        assert byte_range is not None
        if entry["length"] <= frame.chunksize:
            assert byte_range[0] is frame.source
            assert byte_range[1] % 64 == 0 or not gains_by_alignment(byte_range)


def gains_by_alignment(byte_range: tuple[Any, int, int]) -> bool:
    """Whether the payload of a frame is aligned where the frame is: all others may lie anywhere."""
    frame = Frame.open(*byte_range)
    return bool(frame.clevel == 0 and frame.header_len % 64 == 32)


# ------------------------------------------------------------------ one append
def put(store: blosc2.EmbedStore) -> None:
    store["/new"] = [1, 2, 3]
    store["/large"] = np.random.default_rng(3).random(6000)


def delete(store: blosc2.EmbedStore) -> None:
    del store["/g0/v0"]
    del store["/g1/v19"]


def overwrite(store: blosc2.EmbedStore) -> None:
    store["/g0/v0"] = [5]


def apply(change: Change, path: Path, *, verify: bool | None = None, **how: Any) -> dict[str, list[Any]]:
    """Make a change, and say what there must be afterwards, by what the store itself shows before it publishes."""
    store = blosc2.EmbedStore(path, verify=verify)
    change(store)
    expected = {key: leaf[()].tolist() for key, leaf in store.items()}
    store.close(**how)
    return expected
