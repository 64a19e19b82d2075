"""`.b2z` files of ours have a file checksum: one of every byte, which goes on from commit to commit."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2._backends.zip import publishing as member_writing
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive
from blosc2._stores import pending


def has_file_checksum(path: Path) -> bool:
    """Whether there is a file checksum; it must be right then, and Python find nothing wrong."""
    data = path.read_bytes()
    archive = Archive(Source.of_buffer(data))
    assert archive.end == len(data)
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
    if archive.file_checksum is None:
        return False
    assert archive.file_checksum == crc32c(data)
    assert data[-8:] == b"%08x" % crc32c(data[:-8])
    return True


def test_a_tail_that_was_cut_off_is_not_in_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.DictStore(path, "w") as store:
        store["/a"] = np.arange(10)
    with path.open("ab") as file:
        file.write(b"unfinished" * 1000)
    with blosc2.DictStore(path, "a") as store:
        store["/b"] = np.arange(10)
    assert has_file_checksum(path)


@pytest.mark.parametrize("nth", range(1, 4))
def test_frames_that_outlive_a_failed_commit(nth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie behind the published archive, and the next commit goes on behind them."""
    monkeypatch.setattr(pending, "MEMORY_LIMIT", 1000)
    path = tmp_path / "x.b2z"
    with blosc2.DictStore(path, "w") as store:
        store["/a"] = np.arange(10)
    noise = np.random.default_rng(0).integers(0, 255, (10, 500), np.uint8)
    calls = 0
    real = os.fsync

    def failing(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise OSError(5, "Input/output error")
        real(descriptor)

    store = blosc2.DictStore(path, "a")
    for n, row in enumerate(noise):
        store[f"/{n}"] = row
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing)
        try:
            store.flush()
        except OSError as error:
            assert "Input/output" in str(error)  # noqa: PT017 - later calls do not come in every version
    store["/more"] = noise[0]
    store.close()
    assert has_file_checksum(path)
    with blosc2.DictStore(path, "r") as store:
        assert len(store) == 12
        for n, row in enumerate(noise):
            np.testing.assert_array_equal(store[f"/{n}"][:], row)


def test_leaves_beyond_memory_go_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_writing, "_LARGE", 100)
    with blosc2.DictStore(tmp_path / "x.b2z", "w") as store:
        for n in range(20):
            store[f"/{n}"] = np.random.default_rng(n).random(n * 50)
    assert has_file_checksum(tmp_path / "x.b2z")
    with blosc2.DictStore(tmp_path / "x.b2z", "r") as store:
        for n in range(20):
            np.testing.assert_array_equal(store[f"/{n}"][:], np.random.default_rng(n).random(n * 50))
