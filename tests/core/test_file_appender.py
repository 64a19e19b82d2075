"""Bytes that are appended to a file: an archive that others read, and the next write goes on after an error."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from blosc2._core.zip.archive_writer import ArchiveWriter

#: What is collected before it is written.
COLLECTED = 1 << 20


def members(count: int, size: int) -> dict[str, bytes]:
    return {f"m{n:05}": bytes([n % 256]) * size for n in range(count)}


def write(file: Any, contents: dict[str, bytes], *, eager: bool = True, sums: bool = True) -> None:
    writer = ArchiveWriter(file.fileno(), file_checksum=0 if sums else None)
    writer.eager = eager
    for name, data in contents.items():
        writer.append(name.encode(), data)
    writer.write_directory()
    writer.write_end()
    assert writer.written == writer.position == os.fstat(file.fileno()).st_size


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(("count", "size"), [(3, 100), (40_000, 100), (900, 20_000), (9, 1_500_000), (3, 5 << 20)])
def test_an_archive(count: int, size: int, eager: bool, sums: bool, tmp_path: Path) -> None:
    contents, path = members(count, size), tmp_path / "x.zip"
    with path.open("xb") as file:
        write(file, contents, eager=eager, sums=sums)
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        assert len(z.infolist()) == count


def test_a_full_disk_is_an_error_of_a_later_write() -> None:
    with open("/dev/full", "r+b", buffering=0) as file:
        writer = ArchiveWriter(file.fileno(), file_checksum=0)
        with pytest.raises(OSError, match="No space left") as caught:
            for name, data in members(9000, 1000).items():
                writer.append(name.encode(), data)
        assert caught.value.errno == errno.ENOSPC
        assert writer.written == 0
        assert writer.position > COLLECTED  # nothing was lost
        with pytest.raises(OSError, match="No space left"):
            writer.drain()


def test_after_an_error_the_next_write_goes_on(tmp_path: Path) -> None:
    """A limit of the file's size is like a disk that is full for a while, and lets a part of a write through."""
    code = """
import os, resource, sys
sys.path.insert(0, sys.argv[1])
from core.test_file_appender import ArchiveWriter, members
contents = members(9000, 1000)
failed = 0
with open(sys.argv[2], "xb") as file:
    writer = ArchiveWriter(file.fileno(), file_checksum=0)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, hard))
    for name, data in contents.items():
        try:
            writer.append(name.encode(), data)
        except OSError:
            # It was collected all the same, but is not among the members: its record was not kept.
            failed += 1
            resource.setrlimit(resource.RLIMIT_FSIZE, (writer.written + 2_500_000, hard))
            writer.append(name.encode(), data)
    try:
        writer.drain()
    except OSError:
        failed += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    writer.write_directory()
    writer.write_end()
    assert writer.written == os.fstat(file.fileno()).st_size
print(failed)
"""
    path = tmp_path / "x.zip"
    tests = str(Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code, tests, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 2
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        assert {name: z.read(name) for name in z.namelist()} == members(9000, 1000)


def test_who_replaces_pwrite_sees_all_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = os.pwrite, []

    def recorded(descriptor: int, data: Any, at: int) -> int:
        seen.append((at, len(data)))
        return real(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", recorded)
    path = tmp_path / "x.zip"
    with path.open("xb") as file:
        write(file, members(9000, 1000))
    assert sum(length for _, length in seen) == path.stat().st_size
