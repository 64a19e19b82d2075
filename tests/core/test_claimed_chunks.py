"""Small files that claim many chunks: memory goes by what is there, not by what is claimed."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import SChunk
from blosc2._core.frame.frame_writer import pack_index
from blosc2.exceptions import FormatError

MOST = 268435451  # chunks of a frame: their table is as large as a chunk may be
ZERO, NAN = -0x7F00000000000000, -0x7E00000000000000


@contextmanager
def little_memory() -> Iterator[None]:
    """Refuse code that holds much, NumPy's arrays included."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """An array of all the chunks that can be, none of which takes room."""
    name = str(tmp_path / "zeros.b2nd")
    blosc2.zeros((MOST,), dtype="u1", chunks=(1,), blocks=(1,), urlpath=name)
    assert (tmp_path / "zeros.b2nd").stat().st_size < 500
    return name


def test_what_is_asked_of_them(path: str, source: str | None) -> None:
    with little_memory():
        for verify in (False, True):
            array = blosc2.open(path, mmap_mode=source, verify=verify)
            for advice in ("willneed", "dontneed"):
                for key in (slice(None), slice(7, None), slice(5, 8), 3, None, [5, 6]):
                    array.advise(advice, key)
                for part in (slice(None), slice(7, None), 3, None):
                    array.schunk.advise(advice, part)
            assert blosc2.get_slice_nchunks(array, slice(5, 8)).tolist() == [5, 6, 7]
            assert blosc2.get_slice_nchunks(array.schunk, slice(5, 8)).tolist() == [5, 6, 7]
            assert blosc2.get_slice_nchunks(array.schunk, MOST - 1).tolist() == [MOST - 1]
            assert blosc2.get_slice_nchunks(array, slice(-2, None)).tolist() == [MOST - 2, MOST - 1]
            assert array[MOST - 1] == 0
            assert array.check().ok


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array.__setitem__(5, 1),
        lambda array: array.resize((MOST - 1,)),
        lambda array: array.resize((10,)),
        lambda array: array.append(np.ones(1, "u1")),
        lambda array: array.schunk.update_data(3, b"x"),
    ],
)  # fmt: skip
def test_changes_for_which_each_chunk_had_to_be_named(path: str, change: Callable[[Any], object]) -> None:
    before = Path(path).read_bytes()
    with little_memory():
        array = blosc2.open(path, mode="a")
        with pytest.raises((FormatError, ValueError), match=r"chunks|dimension|too"):
            change(array)
    assert Path(path).read_bytes() == before


def test_changes_for_which_they_need_not(path: str, source: str | None) -> None:
    with little_memory():
        array = blosc2.open(path, mode="a")
        array.vlmeta["a"] = 1
        array.compact()
        array.save(f"{path}.copy.b2nd")
        for name in (path, f"{path}.copy.b2nd"):
            found = blosc2.open(name, mmap_mode=source)
            assert found.vlmeta["a"] == 1
            assert found.schunk.nchunks == MOST


def with_table(frame: bytes, offsets: Any, count: int, chunksize: int) -> bytes:
    """A frame without stored chunks, whose table has these offsets."""
    head = int.from_bytes(frame[11:15], "big")
    trailer = frame[len(frame) - int.from_bytes(frame[-22:-18], "big") :]
    index = pack_index(offsets, count)
    header = bytearray(frame[:head])
    struct.pack_into(">Qqq", header, 16, 0, 0, 0)
    header[24] = 0xA4
    header[25:29] = frame[25:29]
    header[29:30], header[38:39] = b"\xd3", b"\xd3"
    struct.pack_into(">Q", header, 16, head + len(index) + len(trailer))
    struct.pack_into(">q", header, 30, count * chunksize)
    struct.pack_into(">q", header, 39, 0)
    return bytes(header) + index + trailer


def test_a_table_that_is_larger_than_a_file_may_ask_for(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "sparse.b2frame"
    frame = SChunk(chunksize=4, data=bytes(8), cparams={"typesize": 4}).to_cframe()
    many = np.full(6 << 20, ZERO)
    many[::1000] = NAN
    for count in (1 << 20, 6 << 20):
        path.write_bytes(with_table(frame, many[:count], count, 4))
        with little_memory():
            schunk = blosc2.open(str(path), mmap_mode=source)
            if count == 1 << 20:
                assert schunk[1:3] == bytes(8)
                schunk.advise("willneed", slice(0, 5000))
                assert schunk.check().ok
            else:
                with pytest.raises(FormatError, match=r"sparse\.b2frame.*6291456 chunks.*memory"):
                    schunk[1:3]
                assert not schunk.check().ok


# ------------------------------------------------------------------ directories of chunk files
def directory(tmp_path: Path, offsets: Any, count: int, chunksize: int = 4) -> Path:
    """A directory frame whose header file has this table, and one chunk file."""
    path = tmp_path / "frame"
    SChunk(chunksize=4, data=b"abcd", cparams={"typesize": 4, "clevel": 0}, urlpath=str(path), contiguous=False)
    name = path / "chunks.b2frame"
    head = bytearray(with_table(name.read_bytes(), offsets, count, chunksize))
    head[26] |= 1
    name.write_bytes(head)
    return path


def test_one_value_for_all_chunks_of_a_directory(tmp_path: Path) -> None:
    path = directory(tmp_path, ZERO, MOST)
    with little_memory():
        for mode in ("r", "a"):
            schunk = blosc2.open(str(path), mode)
            assert schunk.nchunks == MOST
            assert schunk[4:6] == bytes(8)
        schunk.vlmeta["a"] = 1
        assert blosc2.open(str(path)).vlmeta["a"] == 1
        assert blosc2.check(str(path)).ok


@pytest.mark.parametrize(
    ("offsets", "count"),
    [(0, 2), (0, MOST), (np.zeros(5, np.int64), 5), (np.array([0, 1, 1]), 3), (np.array([0, 1 << 32]), 2),
     (np.zeros(6 << 20, np.int64), 6 << 20), (np.full(6 << 20, ZERO), 6 << 20), (np.arange(1 << 20), 1 << 20)],
)  # fmt: skip
def test_tables_of_directories_that_cannot_be(tmp_path: Path, offsets: Any, count: int) -> None:
    path = directory(tmp_path, offsets, count)
    with little_memory():
        for mode in ("r", "a"):
            with pytest.raises(FormatError, match=r"chunks\.b2frame|chunk"):
                blosc2.open(str(path), mode)
        assert not blosc2.check(str(path)).ok
