"""Sources: mapped, by position and in memory show the same bytes, and nothing beyond them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from blosc2._core.io.small_file import read_small
from blosc2._core.io.source import Source
from blosc2.exceptions import FormatError

DATA = bytes(range(256)) * 40


@pytest.fixture
def path(tmp_path: Path) -> str:
    name = tmp_path / "data.bin"
    name.write_bytes(DATA)
    return str(name)


def of_buffer(path: str) -> Source:
    return Source.of_buffer(Path(path).read_bytes(), path)


def test_appended_bytes_are_not_seen_and_a_cut_is_an_error(path: str) -> None:
    source = Source.open(path)
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(FormatError):
        source.read(len(DATA), 4)
    os.truncate(path, 100)
    assert source.read(50, 50) == DATA[50:100]
    with pytest.raises(FormatError, match="it was cut, or its server failed"):
        source.read(50, 51)


@pytest.mark.parametrize("opened", ["Source.open", "Source.map"])
def test_a_source_that_lives_to_the_end_of_the_process_ends_quietly(tmp_path: Path, opened: str) -> None:
    """The interpreter may have taken its modules apart by then."""
    path = tmp_path / "file"
    path.write_bytes(b"bytes")
    work = f"""
import sys
from blosc2._core.io.small_file import read_small
from blosc2._core.io.source import Source
sys.kept = {opened}({str(path)!r})  # that module goes last
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", work], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are listed in /proc")
def test_programs_that_are_started_get_no_descriptor(path: str) -> None:
    sources = Source.map(path), Source.open(path)
    mine = [int(fd.name) for fd in Path("/proc/self/fd").iterdir() if fd.exists() and os.path.samefile(fd, path)]
    assert mine
    assert not any(map(os.get_inheritable, mine))
    assert [source.read(0, 1) for source in sources] == [DATA[:1]] * 2


# --------------------------------------------------------------------------- small files, read at once
def by_calls_of_python(path: str, limit: int) -> Source | None:
    """What systems without POSIX do."""
    data = read_small(path, limit, os.O_RDONLY | os.O_NONBLOCK)
    return None if data is None else Source.of_buffer(data, path)


def test_a_directory_that_cannot_be_opened_is_no_small_file(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows no directory can. A file that may not be read is an error."""

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "open", refuse)
    assert read_small(str(tmp_path), 100, os.O_RDONLY) is None
    with pytest.raises(PermissionError, match="Permission denied"):
        read_small(path, 100, os.O_RDONLY)


@pytest.mark.parametrize("read", [Source.of_small_file, by_calls_of_python])
class TestSmallFiles:
    @pytest.mark.parametrize("size", [0, 1, 99, 100])
    def test_bytes(self, tmp_path: Path, read: Callable[[str, int], Source | None], size: int) -> None:
        path = tmp_path / "ä.bin"
        path.write_bytes(DATA[:size])
        before = os.listdir("/proc/self/fd")
        source = read(str(path), 100)
        assert source is not None
        assert source.read(0, source.size) == DATA[:size]
        assert (source.path, source.in_memory) == (str(path), True)
        assert os.listdir("/proc/self/fd") == before

    def test_no_more_than_the_limit(self, path: str, read: Callable[[str, int], Source | None]) -> None:
        source = read(path, 100)
        assert source is not None
        assert source.read(0, source.size) == DATA[:100]

    def test_what_is_no_regular_file(
        self, tmp_path: Path, path: str, read: Callable[[str, int], Source | None]
    ) -> None:
        pipe = str(tmp_path / "pipe")
        os.mkfifo(pipe)
        missing = [str(tmp_path / "none"), path + "/below", str(tmp_path / ("n" * 300))]
        for name in [*missing, str(tmp_path), pipe, "/dev/null", "/dev/zero"]:
            assert read(name, 100) is None, name
        writer = os.open(pipe, os.O_RDWR)
        try:
            assert read(pipe, 100) is None
        finally:
            os.close(writer)

    def test_an_error_names_the_file(self, tmp_path: Path, read: Callable[[str, int], Source | None]) -> None:
        link = tmp_path / "link"
        link.symlink_to("link")
        with pytest.raises(OSError, match="symbolic links") as info:
            read(str(link), 100)
        assert (info.value.errno, info.value.filename) == (errno.ELOOP, str(link))
