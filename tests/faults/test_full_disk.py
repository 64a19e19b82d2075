"""A disk that is full, a limit on the size of files: what was published stays, and work goes on once there is room."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

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
