"""Bytes that are appended to a file in another thread: the same file, and the same after an error, as without one."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from fixture_kit.forks import in_child

from blosc2._core.zip.archive_writer import ArchiveWriter

pytestmark = pytest.mark.skipif(not hasattr(os, "pwrite"), reason="another thread writes by pwrite only")

#: What is collected before it is written.
COLLECTED = 1 << 20


@pytest.fixture(autouse=True)
def one_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives that are to be equal get the same time."""
    now = time.localtime()
    monkeypatch.setattr(time, "localtime", lambda: now)


def members(count: int, size: int) -> dict[str, bytes]:
    return {f"m{n:05}": bytes([n % 256]) * size for n in range(count)}


def written_by_this_thread() -> int:
    """Bytes that this thread has written in all."""
    with open(f"/proc/self/task/{threading.get_native_id()}/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("wchar"))


def write(file: Any, contents: dict[str, bytes], *, in_background: bool, eager: bool = True, sums: bool = True) -> None:
    writer = ArchiveWriter(file.fileno(), file_checksum=0 if sums else None)
    writer.eager, writer.in_background = eager, in_background
    for name, data in contents.items():
        writer.append(name.encode(), data)
    writer.write_directory()
    writer.write_end()
    assert writer.written == writer.position == os.fstat(file.fileno()).st_size


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(("count", "size"), [(3, 100), (40_000, 100), (900, 20_000), (9, 1_500_000), (3, 5 << 20)])
def test_the_same_file(count: int, size: int, eager: bool, sums: bool, tmp_path: Path) -> None:
    contents = members(count, size)
    one, other = tmp_path / "one.zip", tmp_path / "other.zip"
    with one.open("xb") as file:
        write(file, contents, in_background=False, eager=eager, sums=sums)
    with other.open("xb") as file:
        write(file, contents, in_background=True, eager=eager, sums=sums)
    assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(other) as z:
        assert z.testzip() is None
        assert len(z.infolist()) == count


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a thread writes")
def test_another_thread_writes_most_of_it(tmp_path: Path) -> None:
    contents, path = members(9000, 1000), tmp_path / "x.zip"
    shares = []
    for in_background in (False, True):
        with path.open("wb") as file:
            before = written_by_this_thread()
            write(file, contents, in_background=in_background)
            shares.append((written_by_this_thread() - before) / path.stat().st_size)
    assert shares[0] == 1
    assert shares[1] < 0.2


def test_what_is_asked_of_it_in_between_waits(tmp_path: Path) -> None:
    contents = members(9000, 1000)
    with (tmp_path / "x.zip").open("xb") as file, (tmp_path / "y.zip").open("xb") as other:
        writer = ArchiveWriter(file.fileno(), file_checksum=0)
        writer.in_background = True
        straight = ArchiveWriter(other.fileno(), file_checksum=0)
        for name, data in contents.items():
            writer.append(name.encode(), data)
            straight.append(name.encode(), data)
            assert writer.position == straight.position
            if int(name[1:]) % 1000 == 0:
                assert writer.file_checksum == straight.file_checksum
            if int(name[1:]) % 1700 == 0:
                assert writer.written == os.fstat(file.fileno()).st_size
        writer.wait()


def test_a_full_disk_is_an_error_of_a_later_write() -> None:
    with open("/dev/full", "r+b", buffering=0) as file:
        writer = ArchiveWriter(file.fileno(), file_checksum=0)
        writer.in_background = True
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
    writer.in_background = True
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
        write(file, members(9000, 1000), in_background=True)
    assert sum(length for _, length in seen) == path.stat().st_size


@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_a_writer_that_is_dropped_waits_for_its_thread(in_a_cycle: bool, tmp_path: Path) -> None:
    with (tmp_path / "x.zip").open("xb") as file:
        for _ in range(20):
            writer: Any = ArchiveWriter(file.fileno())
            writer.in_background = True
            for name, data in members(1100, 1000).items():
                writer.append(name.encode(), data)
            if in_a_cycle:
                writer.descriptions[b"itself"] = writer
            del writer
            gc.collect()
            file.truncate(0)
            assert os.fstat(file.fileno()).st_size == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_waits_for_nobody(tmp_path: Path) -> None:
    with (tmp_path / "x.zip").open("xb") as file:
        writer = ArchiveWriter(file.fileno())
        writer.in_background = True
        for name, data in members(1100, 1000).items():
            writer.append(name.encode(), data)
        in_child(writer.wait)
        writer.write_directory()
        writer.write_end()
    with zipfile.ZipFile(tmp_path / "x.zip") as z:
        assert z.testzip() is None


def test_threads_that_wait_beside_the_one_that_writes(tmp_path: Path) -> None:
    contents = members(3500, 1000)
    for number in range(10):
        with (tmp_path / f"{number}.zip").open("xb") as file:
            writer = ArchiveWriter(file.fileno(), file_checksum=0)
            writer.in_background = True
            threads = [threading.Thread(target=writer.wait) for _ in range(3)]
            for at, (name, data) in enumerate(contents.items()):
                writer.append(name.encode(), data)
                if at == 1010 + 210 * number:
                    for thread in threads:
                        thread.start()
            for thread in threads:
                thread.join(60)
                assert not thread.is_alive()
            writer.write_directory()
            writer.write_end()
        with zipfile.ZipFile(tmp_path / f"{number}.zip") as z:
            assert z.testzip() is None
            assert len(z.infolist()) == len(contents)


def test_writers_in_several_threads(tmp_path: Path) -> None:
    contents = members(3000, 1500)

    def one(number: int) -> None:
        with (tmp_path / f"{number}.zip").open("xb") as file:
            write(file, contents, in_background=True)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(tmp_path / f"{number}.zip").read_bytes() for number in range(6)}) == 1
