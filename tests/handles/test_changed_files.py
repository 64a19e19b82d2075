"""Files that another program changes under an open handle: an error, or bytes of the file, and never other memory."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends.zip import publishing as zip_backend
from blosc2.exceptions import FormatError

BLOCK = 4096
BLOCKSIZE_AT = 8  # in the header of a chunk


def chunk_at(path: Path) -> int:
    """Where the first chunk of a frame lies."""
    return int.from_bytes(path.read_bytes()[11:15], "big")


def read(path: Path, call: Callable[[], Any]) -> Any:
    """What a call gives; None where it says that the file is damaged."""
    try:
        return call()
    except FormatError as error:
        if str(path) not in str(error):
            raise
        return None


def change(path: Path, at: int, value: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(struct.pack("<i", value))


@pytest.fixture
def data(rng: np.random.Generator) -> bytes:
    return bytes(rng.integers(0, 4, 64 * BLOCK, np.uint8))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("blocksize", [1, BLOCK // 2, BLOCK - 1, BLOCK + 1, 2 * BLOCK, 32 * BLOCK, 64 * BLOCK])
def test_another_block_size(data: bytes, blocksize: int, source: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.b2frame"
    blosc2.SChunk(chunksize=len(data), data=data, urlpath=str(path), cparams={"typesize": 1, "blocksize": BLOCK})
    schunk = blosc2.open(str(path), mmap_mode=source)
    assert schunk[10:20] == data[10:20]  # the block is kept
    change(path, chunk_at(path) + BLOCKSIZE_AT, blocksize)
    for start, stop in ((10, 20), (10, BLOCK), (10, 60 * BLOCK), (BLOCK // 2, BLOCK // 2 + 1)):
        got = read(path, lambda start=start, stop=stop: schunk[start:stop])
        assert got in (None, data[start:stop])


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("byte", range(32))
def test_each_byte_of_a_chunk_header(data: bytes, byte: int, source: str | None, tmp_path: Path) -> None:
    """Each value that is one bit away, and some others, after parts of the chunk were read."""
    path = tmp_path / "a.b2nd"
    items = np.frombuffer(data[: 16 * BLOCK], "u1").reshape(16, BLOCK)
    blosc2.asarray(items, chunks=items.shape, blocks=(1, BLOCK), urlpath=str(path))
    array = blosc2.open(str(path), mmap_mode=source)
    at = chunk_at(path) + byte
    before = path.read_bytes()[at]
    with open(path, "r+b", buffering=0) as file:
        for value in {before ^ 1 << bit for bit in range(8)} | {0, 1, 127, 128, 255}:
            array[3, 5:9]
            os.pwrite(file.fileno(), bytes([value]), at)
            for key in ((3, slice(5, 9)), (slice(2, 5), slice(5, None)), ...):
                got = read(path, lambda key=key: array[key])
                assert got is None or got.shape == items[key].shape
            os.pwrite(file.fileno(), bytes([before]), at)
    assert np.array_equal(array[...], items)


@pytest.mark.parametrize("cataloged", [False, True])
@pytest.mark.parametrize(
    "text", [b"/", b"//", b"a/", b"/a", b"a//b", b"..", b"../b", b"b/..", b".", b"\0", b"\xff\xff", b"a"]
)
def test_names_that_change(text: bytes, cataloged: bool, source: str | None, tmp_path: Path, monkeypatch: Any) -> None:
    """What is listed of a mapped directory are keys that a store may have, or it is refused."""
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", 2 if cataloged else 1000)
    path = tmp_path / "s.b2z"
    names = [f"/{group}/leaf{n}" for group in ("", "group", "other/one") for n in range(3)]
    names = [name.replace("//", "/") for name in names]
    with blosc2.TreeStore(str(path), mode="w") as store:
        for name in names:
            store[name] = np.arange(3)
    directory = path.read_bytes().rindex(b"PK\1\2", 0, path.read_bytes().index(b"PK\1\2") + 4)
    for wanted in (b"leaf1.b2nd", b"group/leaf2.b2nd", b"other/one/leaf0.b2nd"):
        at = path.read_bytes().index(b"PK\1\2", directory)
        at = path.read_bytes().index(wanted, at)
        for shift in range(len(wanted) - len(text) + 1):
            with blosc2.open(str(path), mmap_mode=source) as store:
                assert sorted(store.get_children("/")) == ["/group", "/leaf0", "/leaf1", "/leaf2", "/other"]
                before = write_at(path, at + shift, text)
                try:
                    for ask in (
                        lambda: list(store),
                        lambda: [f"{g}/{n}" for g, groups, leaves in store.walk() for n in (*groups, *leaves)],
                        lambda: [row.group for row in store.stats(depth=5)],
                        lambda: [name for group in ("/", "/group", "/other") for name in store.get_children(group)],
                    ):
                        for key in read(path, ask) or ():
                            if key != "/":
                                read(path, partial(store.__contains__, key))  # or a ValueError: no key
                    read(path, lambda: str(store.tree()))
                    with suppress(KeyError):  # as hashes are those of before
                        read(path, lambda: [store[key] for key in store])
                finally:
                    write_at(path, at + shift, before)


def write_at(path: Path, at: int, data: bytes) -> bytes:
    """Put bytes into a file; what was there is returned."""
    with open(path, "r+b") as file:
        file.seek(at)
        before = file.read(len(data))
        file.seek(at)
        file.write(data)
    return before
