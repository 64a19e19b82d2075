"""A handler of signals changes an array in the middle of a change by its thread: each change is whole, or refused."""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._frames import append, changeable, handle, update

#: Functions in whose middle a handler comes: between two steps of a change, and where the file is locked.
PLACES = {
    "a change is prepared": (update.FrameUpdate, "settle"),
    "rows begin to wait": (changeable, "note_waiting"),
    "a transaction begins": (changeable, "EditedChunks"),
    "the file is opened": (handle, "open_frame"),
    "the file is locked": (changeable.FileHandle, "_is_current"),
    "the version is written": (append.NextVersion, "end"),
    "the file is written anew": (changeable, "write_frame"),
    "the version is shown": (changeable.FileHandle, "_adopt"),
    "nothing waits any more": (changeable, "note_published"),
}


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """A thread that waits for itself fails the test."""

    def late(*_: object) -> None:
        raise TimeoutError

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 100)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class Rows:
    """An array in a file, and the rows that were accepted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        blosc2.zeros((2, 4), dtype="i4", chunks=(16, 4), blocks=(4, 4), urlpath=path)
        self.array = blosc2.open(path, mode="a")
        self.number, self.accepted, self.entries = 0, [0, 0], {}  # type: ignore[var-annotated]

    def append(self) -> None:
        self.number += 1
        row = self.number
        self.array.append([[row] * 4])
        self.accepted.append(row)

    def note(self) -> None:
        self.number += 1
        key = f"k{self.number}"
        self.array.vlmeta[key] = 1
        self.entries[key] = 1

    def transact(self) -> None:
        self.number += 1
        row, key = self.number, f"k{self.number}"
        with self.array.transaction():
            self.array.append([[row] * 4])
            self.array.vlmeta[key] = 1
        self.accepted.append(row)
        self.entries[key] = 1

    def part(self) -> None:
        self.array[:2, 1] = 0

    def compact(self) -> None:
        self.array.compact()

    def flush(self) -> None:
        self.array.flush()
        assert self.in_file() == (self.accepted, self.entries)  # what was accepted before

    def refresh(self) -> None:
        self.array.refresh()

    def read(self) -> None:
        self.array[:]
        assert self.array.vlmeta[:] == self.entries

    def open(self) -> None:
        blosc2.open(self.path)[:]

    def in_file(self) -> tuple[list[int], dict[str, int]]:
        """What another program would find."""
        copy = self.path.with_name("copy.b2nd")
        copy.write_bytes(self.path.read_bytes())
        found = blosc2.open(copy)
        return found[:, 0].tolist(), found.vlmeta[:]

    def check(self) -> None:
        self.array.refresh()
        for change in (self.append, self.note, self.transact, self.compact):
            change()
        wanted = sorted(self.accepted), self.entries
        self.array.flush()
        rows, entries = self.in_file()
        assert (sorted(rows), entries) == wanted
        assert (sorted(self.array[:, 0].tolist()), self.array.vlmeta[:]) == wanted
        assert blosc2.check(self.path).ok


@contextmanager
def within(place: str, act: Callable[[], None]) -> Iterator[list[str]]:
    """Have something done by a handler of signals that comes once, before a function is called."""
    owner, name = PLACES[place]
    real, came, thread = getattr(owner, name), [], threading.get_ident()

    def interrupted(*given: Any, **how: Any) -> Any:
        if not came and threading.get_ident() == thread:  # another one may end what earlier tests have left
            came.append(place)
            with suppress(RuntimeError):  # it is refused
                act()
        return real(*given, **how)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(owner, name, interrupted)
        yield came


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """Whose changes wait."""
    monkeypatch.setattr(changeable.Costs, "is_cheap", lambda *_: False)
    monkeypatch.setattr(changeable.FileHandle, "is_late", False)
    return Rows(tmp_path / "x.b2nd")


ACTS = ("append", "note", "transact", "part", "compact", "flush", "refresh", "read")
HANDLERS = ("append", "note", "transact", "part", "compact", "flush", "refresh", "read", "open")


@pytest.mark.parametrize("waits", ["nothing", "rows", "entries"])
@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize("act", ACTS)
def test_a_handler_of_signals(act: str, handler: str, waits: str, rows: Rows) -> None:
    """Nothing that was accepted is lost or hidden, and no thread waits for itself."""
    for place in PLACES:
        {"rows": rows.append, "entries": rows.note, "nothing": rows.array.flush}[waits]()
        with within(place, getattr(rows, handler)), suppress(RuntimeError):
            getattr(rows, act)()
        rows.check()


def test_a_flush_in_the_middle_of_a_publication_is_refused(rows: Rows) -> None:
    """It cannot make durable what is on the way."""
    rows.append()
    heard = []

    def flush() -> None:
        with pytest.raises(RuntimeError, match="at the same time") as raised:
            rows.array.flush()
        heard.append(raised)

    with within("the version is written", flush):
        rows.array.flush()
    assert len(heard) == 1
    rows.check()


@pytest.mark.parametrize("place", ["the file is locked", "the version is written"])
@pytest.mark.parametrize("waits", [True, False])
def test_another_handle_in_the_middle_of_a_publication_is_refused(place: str, waits: bool, rows: Rows) -> None:
    """It would wait for the thread that it is in, or have rows that were accepted before lost."""
    other = blosc2.open(rows.path, mode="a")
    if waits:
        rows.append()
    heard = []

    def interfere() -> None:
        with pytest.raises(RuntimeError, match="at the same time") as raised:
            other.compact()
        heard.append(raised)

    with within(place, interfere):
        rows.flush() if waits else rows.part()
    assert len(heard) == 1
    rows.check()


@pytest.mark.parametrize("waits", ["rows", "entries"])
def test_what_a_handler_changes_is_not_taken_back_with_a_change_that_fails(waits: str, rows: Rows) -> None:
    change = {"rows": rows.append, "entries": rows.note}[waits]
    change()
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail() -> None:
        with suppress(RuntimeError):
            change()
        raise full

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(changeable.FileHandle, "is_due", True)
        with within("the version is written", fail), pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            change()
    rows.check()


def test_a_directory_of_chunk_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = blosc2.zeros(40, dtype="i4", chunks=(10,), urlpath=tmp_path / "x", contiguous=False)
    from blosc2._frames import directory

    real, came = directory.publish_head, []
    other = blosc2.open(tmp_path / "x", mode="a")

    def interrupted(*given: Any) -> None:
        if not came:
            came.append(given)
            for handle in (array, other):  # which would wait for the lock of the directory
                with pytest.raises(RuntimeError, match="at the same time"):
                    handle[20:] = 7
            assert not array.refresh()
        real(*given)

    monkeypatch.setattr(directory, "publish_head", interrupted)
    array[:10] = np.arange(10)
    assert came
    assert array[:].tolist() == blosc2.open(tmp_path / "x")[:].tolist() == [*range(10), *[0] * 30]
