"""A file that is opened again is the same frame again, and never one that the file does not hold any more."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._frames import opening


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files count as settled as soon as they are written, so that no test has to wait."""
    monkeypatch.setattr(opening, "SETTLED", -3600.0)
    old = blosc2.set_file_cache(128)
    yield
    blosc2.set_file_cache(old)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """An array of 0 to 9,999."""
    name = str(tmp_path / "a.b2nd")
    blosc2.asarray(np.arange(10_000), urlpath=name, chunks=(1_000,))
    return name


def opened(path: str, mmap_mode: str | None = "r", **options: Any) -> blosc2.NDArray:
    found: blosc2.NDArray = blosc2.open(path, mmap_mode=mmap_mode, **options)
    return found


def frame_of(array: blosc2.NDArray) -> object:
    return array._handle.frame


def later(path: str) -> None:
    """Wait until the clock of the file system has gone on, so that the next change has another time."""
    probe = f"{path}.probe"
    before = os.stat(path).st_ctime_ns
    while True:
        Path(probe).touch()
        if os.stat(probe).st_ctime_ns > before:
            return
        time.sleep(0.001)


def test_ways_to_open_do_not_mix(path: str) -> None:
    mapped, read = opened(path), opened(path, None)
    unchecked, checked = opened(path, verify=False), opened(path, verify=True)
    advised = opened(path, advise="random")
    assert len({id(frame_of(array)) for array in (mapped, read, unchecked, checked, advised)}) == 5
    assert opened(path).schunk.urlpath == path
    array = opened(path, None)
    array.advise("sequential")
    assert frame_of(opened(path, None)) is not frame_of(array)


def test_a_removed_file_is_missing(path: str, source: str | None) -> None:
    opened(path, source)
    os.unlink(path)
    with pytest.raises(FileNotFoundError):
        opened(path, source)
    _ = blosc2.asarray(np.zeros(3), urlpath=path)
    assert (opened(path, source)[...] == 0).all()


@pytest.mark.local
def test_a_header_that_changed_unnoticed_shows(path: str, source: str | None) -> None:
    """A mapping for writing does not change the times of a file at each write."""
    opened(path, source)
    frames = opening._mapped if source else opening._not_mapped
    name = (path, True)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[8] ^= 0xFF
    status = os.stat(path)
    known = frames._frames[name]
    known.identity, known.changed = (*known.identity[:3], status.st_mtime_ns), status.st_ctime_ns
    with pytest.raises(blosc2.FormatError):
        opened(path, source)


def test_a_file_that_was_just_changed_is_not_kept(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "SETTLED", 3600.0)
    assert frame_of(opened(path)) is not frame_of(opened(path))
    assert len(opening._mapped) == 0


def test_what_is_not_asked_for_is_let_go(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other = str(tmp_path / "other.b2nd")
    blosc2.zeros(3, urlpath=other)
    opened(path)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + opening.UNUSED + 1)
    opened(other)
    assert list(opening._mapped._frames) == [(other, True)]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc")
def test_files_are_bounded(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{number}.b2nd") for number in range(40)]
    for number, name in enumerate(names):
        blosc2.full(5, number, urlpath=name)
    blosc2.free_resources()
    before = len(os.listdir("/proc/self/fd"))
    for number, name in enumerate(names):
        assert opened(name, None)[0] == number
        assert opened(name)[0] == number
    assert len(os.listdir("/proc/self/fd")) <= before + opening.MOST_DESCRIPTORS
    assert len(opening._mapped) == 40
    blosc2.set_file_cache(7)
    for name in names:
        opened(name)
    assert len(opening._mapped) == 7
    assert frame_of(opened(names[-7])) is frame_of(opened(names[-7]))
    blosc2.free_resources()
    assert len(os.listdir("/proc/self/fd")) == before
    assert len(opening._mapped) == len(opening._not_mapped) == 0


FORKING = """
import os, sys, threading, warnings
import blosc2
from blosc2._frames import opening
warnings.simplefilter("ignore")
opening.SETTLED = -3600.0
path = {path!r}
a = blosc2.open(path, mmap_mode="r")
lock = opening._mapped._lock
{taken}
if os.fork() == 0:
    kept = opening._mapped._frames
    assert len(kept) == {kept} and a[7] == 7, len(kept)
    b = blosc2.open(path, mmap_mode="r")
    assert b[5] == 5 and blosc2.open(path, mmap_mode="r")._handle.frame is b._handle.frame
    assert (a._handle.frame is b._handle.frame) == ({kept} == 1)
    os._exit(17)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 17
assert len(opening._mapped) == 1
done.set()
"""
BY_ITSELF = "lock.__enter__(); done = threading.Event()"
BY_ANOTHER = """
done, taken = threading.Event(), threading.Event()
def hold():
    with lock:
        taken.set()
        done.wait()
threading.Thread(target=hold).start()
taken.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize(("taken", "kept"), [(BY_ITSELF, 1), (BY_ANOTHER, 0)], ids=["itself", "another"])
def test_a_forked_child_begins_anew_if_another_thread_was_in_a_change(path: str, taken: str, kept: int) -> None:
    """Without a GIL it always does: a dictionary has a lock of its own."""
    if not opening._has_gil():
        kept = 0
    program = FORKING.format(path=path, taken=taken, kept=kept)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_threads_that_open_while_others_replace(path: str, source: str | None) -> None:
    """Whoever opens gets the version that was there then, or a newer one."""
    published, stop, wrong = [0], threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            before = published[0]
            found = opened(path, source)[...]
            if not before <= found[0] <= published[0] + 1 or (found != found[0]).any():
                wrong.append((before, found[0]))

    blosc2.full(500, 0, urlpath=path, mode="w", dtype="i8")
    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for number in range(1, 20):
            later(path)  # no two versions with the same time, or they would have to be left alone for two seconds
            blosc2.full(500, number, urlpath=f"{path}.new", mode="w", dtype="i8")
            os.replace(f"{path}.new", path)
            published[0] = number
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not wrong
