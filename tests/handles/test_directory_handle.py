"""Frames that are a directory of chunk files: made, read and changed; the files are those of the current version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.isolated import environment

import blosc2
from blosc2 import SChunk
from blosc2._frames import directory as directory_frame
from blosc2._frames.update import NAN_OFFSET, Fields, FrameContent
from blosc2.exceptions import FormatError

ITEMS = np.arange(1000, dtype="<i4") // 7


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.b2frame"


def chunk_files(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path) if name != "chunks.b2frame")


def numbers(path: Path) -> list[int]:
    return directory_frame.read_directory(str(path)).numbers


def check_files(path: Path) -> None:
    """The files are those of the current version."""
    assert chunk_files(path) == sorted(f"{n:08X}.chunk" for n in numbers(path) if n >= 0)


def test_a_super_chunk_in_a_directory(path: Path) -> None:
    schunk = SChunk(chunksize=1200, data=ITEMS, urlpath=path, contiguous=False, meta={"m": 1})
    schunk.vlmeta["v"] = [1, 2]
    assert (schunk.contiguous, schunk.urlpath, schunk.mode, schunk.mmap_mode) == (False, str(path), "a", None)
    assert chunk_files(path) == [f"0000000{n}.chunk" for n in range(4)]
    # the header says so (FORMATS 1.1), and each file is one chunk
    head = (path / "chunks.b2frame").read_bytes()
    assert head[26] == 1
    assert int.from_bytes(head[16:24], "big") == len(head)
    assert int.from_bytes(head[30:38], "big") == 4000
    stored = [(path / name).read_bytes() for name in chunk_files(path)]
    assert int.from_bytes(head[39:47], "big") == sum(map(len, stored))
    assert [schunk.get_chunk(n) for n in range(4)] == stored
    for mode in ("r", "a"):
        found = blosc2.open(path, mode)
        assert (found[:], found.contiguous, found.meta["m"]) == (ITEMS.tobytes(), False, 1)
        assert (found.vlmeta["v"], found.cparams.typesize) == ([1, 2], 4)
    assert SChunk(urlpath=path, mode="r")[:] == ITEMS.tobytes()
    assert blosc2.load(path)[:] == ITEMS.tobytes()
    with pytest.raises(ValueError, match="reading mode"):
        blosc2.open(path).append_data(b"1234")


def test_paths_that_are_taken(path: Path) -> None:
    SChunk(data=b"old", urlpath=path, contiguous=False)
    for mode in ("a", "x"):
        with pytest.raises(FileExistsError):
            SChunk(data=b"new", urlpath=path, contiguous=False, mode=mode)
        with pytest.raises(FileExistsError):
            SChunk(data=b"new", urlpath=path, mode=mode)
    assert blosc2.open(path)[:] == b"old"
    SChunk(data=b"new", urlpath=path, contiguous=False, mode="w")
    assert blosc2.open(path)[:] == b"new"
    shutil.rmtree(path)
    SChunk(data=b"file", urlpath=path)
    SChunk(data=b"directory", urlpath=path, contiguous=False, mode="w")
    assert blosc2.open(path)[:] == b"directory"
    with pytest.raises(IsADirectoryError, match=r"remove_urlpath\(\) removes it"):
        SChunk(data=b"file", urlpath=path, mode="w")
    other = path.with_name("other")
    other.mkdir()
    (other / "mine").write_text("kept")
    for contiguous in (False, True):
        with pytest.raises(IsADirectoryError, match="is to be: "):
            SChunk(data=b"new", urlpath=other, contiguous=contiguous, mode="w")
    with pytest.raises(FileNotFoundError, match="no/such"):
        SChunk(data=b"new", urlpath=path.with_name("no") / "such", contiguous=False)
    assert sorted(os.listdir(path.parent)) == ["other", path.name]
    blosc2.remove_urlpath(path)
    assert not path.exists()


def test_opening_to_empty(path: Path) -> None:
    SChunk(chunksize=400, data=ITEMS, urlpath=path, contiguous=False).vlmeta["v"] = 1
    schunk = blosc2.open(path, mode="w")
    assert (schunk.nchunks, schunk.vlmeta["v"], chunk_files(path)) == (0, 1, [])
    schunk.append_data(ITEMS[:100])
    assert blosc2.open(path)[:] == ITEMS[:100].tobytes()


def test_remains_of_a_writer_that_was_killed_do_no_harm(path: Path) -> None:
    schunk = SChunk(chunksize=8, data=b"01234567", urlpath=path, contiguous=False, cparams={"typesize": 1})
    (path / "00000001.chunk").write_bytes(b"half of a ch")
    (path / ".chunks.b2frame.0123abcd.tmp").write_bytes(b"half of a header")
    assert blosc2.open(path)[:] == b"01234567"
    schunk.append_data(b"89")
    assert blosc2.open(path)[:] == b"0123456789"


def test_a_reader_that_meets_a_change_reads_the_new_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SChunk(chunksize=8, data=b"01234567", urlpath=path, contiguous=False, cparams={"typesize": 1})
    read = directory_frame._read
    heads: list[bytes] = []

    def meanwhile(name: str, head: bytes) -> Any:
        if not heads:
            writer.update_data(0, b"abcdefgh")
        heads.append(head)
        return read(name, head)

    monkeypatch.setattr(directory_frame, "_read", meanwhile)
    assert blosc2.open(path)[:] == b"abcdefgh"
    assert len(heads) == 2


def test_a_reader_never_takes_chunks_of_several_versions(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of a chunk file that was removed is used again."""
    writer = SChunk(chunksize=4, data=b"aaaabbbbcccc", urlpath=path, contiguous=False, cparams={"typesize": 1})
    add = directory_frame.ChunkFiles.add
    before = chunk_files(path)
    begun: list[int] = []

    def slowly(files: Any, name: str) -> int:
        size = add(files, name)
        if len(files.byte_ranges) == 2 and not begun:
            begun.append(1)
            writer.delete_chunk(0)
            writer.delete_chunk(1)
            writer.delete_chunk(0)
            writer.append_data(b"xxxx")
            writer.append_data(b"yyyy")
            writer.append_data(b"zzzz")
            assert chunk_files(path) == before
        return size

    monkeypatch.setattr(directory_frame.ChunkFiles, "add", slowly)
    assert blosc2.open(path)[:] == b"xxxxyyyyzzzz"
    assert begun


def test_a_reader_that_is_always_too_late(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = SChunk(chunksize=4, data=b"aaaa", urlpath=path, contiguous=False, cparams={"typesize": 1})
    read, counts = directory_frame._read, []

    def meanwhile(name: str, head: bytes) -> Any:
        found = read(name, head)
        writer.vlmeta["n"] = len(counts)
        counts.append(1)
        return found

    monkeypatch.setattr(directory_frame, "_TRIES", 5)
    monkeypatch.setattr(directory_frame, "_PATIENCE", 0)
    monkeypatch.setattr(directory_frame, "_read", meanwhile)
    with pytest.raises(OSError, match="published all the time"):
        blosc2.open(path)
    assert len(counts) == 5


WRITERS = """
import sys
import blosc2

schunk = blosc2.open(sys.argv[1], mode="a")
for n in range(25):
    while True:
        try:
            schunk.append_data(bytes([int(sys.argv[2])]) * 4)
            break
        except blosc2.FormatError:
            schunk.refresh()
"""


@pytest.mark.skipif(os.name != "posix", reason="writers are kept apart by a lock on the directory, which POSIX has")
def test_writers_in_several_processes_lose_nothing(path: Path) -> None:
    SChunk(chunksize=4, urlpath=path, contiguous=False, cparams={"typesize": 1})
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITERS, str(path), str(n)], env=environment()) for n in range(3)
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    found: Any = blosc2.open(path)
    values = [found.decompress_chunk(n) for n in range(found.nchunks)]
    assert sorted(values) == sorted(bytes([n]) * 4 for n in range(3) for _ in range(25))
    check_files(path)


@pytest.mark.parametrize(("entries", "reason"), [
    ([0, -17, 2, 3], "neither a chunk file nor a special value"),
    ([0, 1, 1, 3], "one chunk file twice"),
    ([0, 1, NAN_OFFSET, 3], "chunks of NaN with items of 2 bytes"),
])  # fmt: skip
def test_entries_that_cannot_be(entries: list[int], reason: str, path: Path) -> None:
    """`check` finds in the table what reading would refuse."""
    SChunk(chunksize=100, data=bytes(range(200)) * 2, urlpath=path, contiguous=False, cparams={"typesize": 2})
    head = path / "chunks.b2frame"
    frame, _ = directory_frame.frame_of_head(str(head), head.read_bytes())
    fields = Fields(frame, 100, variable=False, vlblocks=False)
    assert blosc2.check(str(path)).ok
    head.write_bytes(directory_frame.pack_head(FrameContent(fields, {}, {}, (), 4, 400), entries, 400))
    with pytest.raises(FormatError, match=reason):
        blosc2.open(path)[:]
    assert [reason in one.problem for one in blosc2.check(str(path)).findings] == [True]


def test_a_file_of_the_last_number(path: Path) -> None:
    """Numbers behind it are none that a chunk file could have: lower ones are used again."""
    blosc2.asarray(ITEMS, chunks=(300,), urlpath=path, contiguous=False)
    (path / "FFFFFFFF.chunk").write_bytes(b"")
    again = blosc2.asarray(-ITEMS, chunks=(300,), urlpath=path, contiguous=False, mode="w")
    assert np.array_equal(blosc2.open(path)[:], -ITEMS)
    check_files(path)
    again[:] = ITEMS
    assert np.array_equal(blosc2.open(path)[:], ITEMS)
    assert blosc2.check(str(path)).ok


def test_numbers_in_a_row() -> None:
    last = 0xFFFFFFFF
    assert directory_frame.first_free([], 3) == 0
    assert directory_frame.first_free([4, 2], 3) == 5
    assert directory_frame.first_free([last - 3], 3) == last - 2
    assert directory_frame.first_free([last - 2], 3) == 0
    assert directory_frame.first_free([last, 1, 5], 3) == 2
    assert directory_frame.first_free([last, 1, 5], 4) == 6
    with pytest.raises(ValueError, match="numbers in a row"):
        directory_frame.first_free([last, 2], last - 2)
