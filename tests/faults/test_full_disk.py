"""A disk that is full, a limit on the size of files: what was published stays, and work goes on once there is room."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2._frames import changeable
from faults import FULL
from faults.crashes import FAST
from faults.injection import play_on
from faults.scenarios import Play
from faults.stories import Story, stories

STORIES = stories()
_PAGE = 4096


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of its own in memory, of 400 KB."""
    folder = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("name", STORIES)
def test_a_full_disk(name: str, small_disk: Path) -> None:
    story = STORIES[name]
    failed = []
    for pages in range(24) if FULL else (0, 1, 2, 4, 7, 11, 16):
        empty(small_disk)
        folder, ballast = small_disk / "folder", small_disk / "ballast"
        folder.mkdir()
        with ballast.open("wb", buffering=0) as file:
            free = os.statvfs(small_disk)
            assert file.write(bytes(max(0, free.f_bavail * free.f_bsize - pages * _PAGE))) > 0
        failed.append(_played(story, folder, lambda ballast=ballast: _make_room(ballast)))
        left = {path.name for path in folder.iterdir()}
        assert left - {f"{story.kind.name}.b2lock"} == {story.kind.name}
    assert failed[0] > 0
    assert any(failed[1:])


def _make_room(ballast: Path) -> bool:
    there = ballast.exists()
    ballast.unlink(missing_ok=True)
    return there


def _played(story: Story, folder: Path, mend: object) -> int:
    play = Play(story.kind, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        failed = play_on(story, play, mend)  # type: ignore[arg-type]
        story.kind.check(story.kind.observe(folder), [play.now])
    return failed


def test_rows_that_wait_on_a_full_disk(small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read, and saved elsewhere, and published when there is room."""
    monkeypatch.setattr(changeable.FileHandle, "is_due", False)
    monkeypatch.setattr(changeable.FileHandle, "is_late", False)
    empty(small_disk)
    path, ballast = small_disk / "x.b2nd", small_disk / "ballast"
    rows = np.random.default_rng(0).integers(0, 1 << 60, (1000, 8))
    array = blosc2.asarray(rows[:800], chunks=(100, 8), urlpath=path)
    array[3] = rows[3] = 7
    for row in rows[800:]:
        array.append(row)
    free = os.statvfs(small_disk)
    ballast.write_bytes(bytes(free.f_bavail * free.f_bsize))
    for _ in range(3):
        with pytest.raises(OSError, match="still in memory"):
            array.flush()
        np.testing.assert_array_equal(array[:], rows)
    array.save(tmp_path / "y.b2nd")
    np.testing.assert_array_equal(blosc2.open(tmp_path / "y.b2nd")[:], rows)
    assert len(blosc2.open(path)) == 800
    ballast.unlink()
    array.flush()
    np.testing.assert_array_equal(blosc2.open(path)[:], rows)
    assert [each.name for each in small_disk.iterdir()] == ["x.b2nd"]


@pytest.mark.parametrize("name", STORIES)
def test_a_limit_on_the_size_of_files(name: str) -> None:
    """The system lets a write that crosses the limit write a part, and refuses the next."""
    story = STORIES[name]
    failed = []
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    limits = range(0, 40_000, 500) if FULL else (1, 250, 1500, 3000, 5000, 8000, 12_345, 20_000)

    def mend() -> bool:
        limited = resource.getrlimit(resource.RLIMIT_FSIZE) != old
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        return limited

    for limit in limits:
        with tempfile.TemporaryDirectory(dir=FAST) as name:
            folder = Path(name)
            try:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
                failed.append(_played(story, folder, mend))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, old)
            left = {path.name for path in folder.iterdir()}
            assert left - {f"{story.kind.name}.b2lock"} == {story.kind.name}
    assert failed[0] > 0
    assert any(failed[1:]) or "crowd" in name  # whose files are all small
