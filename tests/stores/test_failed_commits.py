"""Commits that fail late: between the write that shows a version and the end of the call.

What was visible for a moment stays where it is, for those who mapped it; the version before shows again; a handle keeps
its pending changes, or shows what is published; and nothing of the program but the store is touched.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.syncs import is_of_others
from store_makers import Maker, values_of

import blosc2
from blosc2._backends import tiers
from blosc2._backends.directory.backend import DirectoryBackend
from blosc2._backends.embedded import backend as embedded_backend
from blosc2._backends.zip import backend as zip_backend
from blosc2._core.io.source import Source
from blosc2._files import atomic_file as new_file

pytestmark = pytest.mark.usefixtures("changes_wait")
FILES = ["b2e", "b2z", "b2z-mixed", "tree-b2z"]
NOISE = np.random.default_rng(3).integers(0, 1 << 62, 40_000)


def filled(make: Maker) -> Any:
    """A store with a few leaves that are published."""
    store = make("w")
    store["/big"] = NOISE[:30_000]
    store["/a"] = NOISE[:900]
    store["/small"] = [1]
    store.flush()
    return store


def change(store: Any, seed: int = 0) -> None:
    store["/a"] = NOISE[seed : seed + 800]
    store["/b"] = NOISE[:20_000] + seed
    store["/c"] = [seed]
    if "/small" in store:
        del store["/small"]


# ------------------------------------------------------------------------------------------------ close(2)
@contextlib.contextmanager
def failing_close(path: Path) -> Iterator[list[int]]:
    """The next `close` of a file open for writing closes it and says that it could not; what was closed is told."""
    real = os.close
    closed: list[int] = []

    def close(descriptor: int) -> None:
        there = os.fstat(descriptor)
        mine = path.is_file() and os.path.samestat(there, path.stat())
        real(descriptor)
        if mine and not closed:
            closed.append(descriptor)
            raise OSError(errno.EIO, "Input/output error")

    os.close = close
    try:
        yield closed
    finally:
        os.close = real


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("make", ["b2z", "b2z-mixed", "tree-b2z"], indirect=True)
def test_a_descriptor_is_closed_once(make: Maker, tmp_path: Path, durable: bool) -> None:
    store = filled(make)
    change(store)
    wanted = values_of(store)
    # A lock is on the same file, so only the one that changes it.
    descriptors: list[int] = []
    real = store._table.backend.begin_append

    def begin(*args: Any) -> Any:
        writer = real(*args)
        descriptors.append(store._table.backend.descriptor)
        return writer

    store._table.backend.begin_append = begin
    with failing_close(make.path) as closed, contextlib.suppress(OSError):
        store.flush(durable=durable)
    assert closed
    assert closed[0] in descriptors
    del store._table.backend.begin_append
    with (tmp_path / "other").open("w") as other:
        assert values_of(store) == wanted
        store["/d"] = [4]
        store.flush()
        store.discard()
        store.close()
        other.write("mine")
        other.flush()
    assert (tmp_path / "other").read_text() == "mine"
    assert make.values() == {**wanted, "/d": [4]}


@pytest.mark.parametrize("nth", range(1, 12))
def test_no_number_is_closed_twice(make: Maker, nth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever call of all fails."""
    real, count = os.close, 0
    gone: list[int] = []

    def close(descriptor: int) -> None:
        nonlocal count
        count += 1
        try:
            os.fstat(descriptor)
        except OSError:
            gone.append(descriptor)
        real(descriptor)
        if count == nth:
            raise OSError(errno.EIO, "Input/output error")

    filled(make).close()
    monkeypatch.setattr(os, "close", close)
    store = None
    with contextlib.suppress(OSError):
        store = make()
        change(store)
        store.flush()
        change(store, 5)
        store.flush()
    if store is not None:
        with contextlib.suppress(OSError):
            store.discard()
        with contextlib.suppress(OSError):
            store.close()
    assert not gone


# ------------------------------------------------------------------------------------------------ late errors
@contextlib.contextmanager
def failing_sync(nth: int, then: Callable[[], Any] = lambda: None, *, forever: bool = False) -> Iterator[list[int]]:
    """Make the n-th sync fail, or all from then on; call something right before the first that does."""
    real = os.fsync
    calls: list[int] = []

    def fsync(descriptor: int) -> None:
        if is_of_others():
            return real(descriptor)
        calls.append(descriptor)
        if len(calls) == nth:
            then()
        if len(calls) == nth or (forever and len(calls) > nth):
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor)

    os.fsync = fsync
    try:
        yield calls
    finally:
        os.fsync = real


@pytest.mark.parametrize("after", ["again", "discard", "close", "another writer"])
@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("make", FILES, indirect=True)
def test_what_was_visible_is_not_cut_off(make: Maker, forever: bool, after: str) -> None:
    store = filled(make)
    before = make.values()
    change(store)
    pending = values_of(store)
    readers = []

    def look() -> None:
        reader = make("r", mmap_mode="r")
        leaves = {key: leaf for key in sorted(reader) if isinstance(leaf := reader[key], blosc2.NDArray)}
        readers.append((reader, leaves, make.path.stat()))

    with failing_sync(2, look, forever=forever), pytest.raises(OSError, match="Input/output") as raised:
        store.flush()
    assert "your changes are kept" in str(raised.value)
    (reader, leaves, was) = readers[0]
    assert values_of(reader) == pending
    if not forever:
        assert make.values() == make.values(mmap_mode="r") == before
        assert "nothing of the changes was published" in str(raised.value)
    assert values_of(store) == pending
    if after == "again":
        store["/d"] = [5]
        store.flush()
        assert make.values() == {**pending, "/d": [5]}
        store["/e"] = NOISE[:3000]
        store.close()
        assert sorted(make.values()) == ["/a", "/b", "/big", "/c", "/d", "/e"]
    else:
        store.discard()
        assert values_of(store) == make.values()
        store.close()
    if after == "another writer":
        with make() as store:
            store["/d"] = NOISE[7:30_000]
        assert make.values()["/d"] == NOISE[7:30_000].tolist()
    now = make.path.stat()
    assert now.st_size >= was.st_size or now.st_ino != was.st_ino  # which may be written anew when it is closed
    # All that was mapped is there, and what it was.
    assert {key: leaf[:].tolist() for key, leaf in leaves.items()} == pending
    assert [one for one in blosc2.check(make.path) if one.kind == "damage"] == []


def no_more_files(patched: pytest.MonkeyPatch) -> None:
    """What was published cannot be opened."""

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    patched.setattr(tiers, "read_embedded", fail)
    for module in (zip_backend, embedded_backend):
        patched.setattr(module, "open_source", fail)
    patched.setattr(DirectoryBackend, "show_published", fail)


@pytest.mark.parametrize("again", ["flush", "discard", "refresh"])
def test_a_version_that_cannot_be_read_after_it_was_published(
    make: Maker, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(make)
    store.rename("/small", "/moved")
    change(store)
    pending = values_of(store)

    with monkeypatch.context() as patched:
        no_more_files(patched)
        with pytest.raises(OSError, match=r"Too many open files.*your changes are kept"):
            store.flush()
    # The b2d writes its embedded values in the same way, so what is published may be the one or the other.
    if again == "flush":
        assert values_of(store) == pending
        store["/d"] = [3]
        store.flush()
        assert make.values() == values_of(store) == {**pending, "/d": [3]}
    else:
        store.discard()
        if again == "refresh":
            store.refresh()
        assert values_of(store) == make.values()
        store["/d"] = [3]
        store.flush()
        assert make.values() == values_of(store)
    store.close()
    with make() as store:
        store["/e"] = [3]
    assert make.values()["/e"] == [3]


@pytest.mark.parametrize("make", ["b2z", "tree-b2z"], indirect=True)
def test_many_values_that_were_written_and_cannot_be_read(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of them waits any more: the next commit must not do without them."""
    store = filled(make)
    real = tiers.read_embedded
    with monkeypatch.context() as patched:
        patched.setattr(tiers, "read_embedded", lambda byte_range: real(lambda: byte_range() and None))
        with pytest.raises(TypeError):
            store.write_many((f"/m/{n}", [n]) for n in range(300))
    store["/d"] = [3]
    store.flush()
    assert len(make.values()) == 304
    store.close()


def test_packing_anew_and_not_being_able_to_read_it(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(make)
    change(store)
    store.flush()
    shown = values_of(store)

    with monkeypatch.context() as patched:
        no_more_files(patched)
        with pytest.raises(OSError, match="Too many"):
            store.compact()
    assert values_of(store) == shown
    store["/d"] = [3]
    store.flush()
    assert make.values() == values_of(store) == {**shown, "/d": [3]}
    store.compact()
    store.close()


@pytest.mark.parametrize("change_it", [False, True])
def test_a_new_name_that_cannot_be_made_durable(make: Maker, change_it: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has its name by then; the handle goes on with it, and nobody else is blamed."""
    store = filled(make) if change_it else make("w")
    store["/d"] = [1]

    def fail(path: str) -> None:
        raise OSError(errno.EIO, "Input/output error", path)

    with monkeypatch.context() as patched:
        patched.setattr(new_file, "sync_folder", fail)
        with contextlib.suppress(OSError):
            store.flush()
        with contextlib.suppress(OSError):
            store.compact()
    store["/e"] = [2]
    store.flush()
    store.compact()
    assert {key: make.values()[key] for key in ("/d", "/e")} == {"/d": [1], "/e": [2]}
    store.close()


def test_sources_say_what_a_file_is(tmp_path: Path) -> None:
    """Two versions of one size and time differ in the record that shows them."""
    path = tmp_path / "x.b2z"
    with blosc2.DictStore(path, "w") as store:
        store["/a"] = NOISE[:50]
    status = path.stat()
    first = path.read_bytes()
    with blosc2.DictStore(path, "w") as store:
        store["/a"] = NOISE[50:100]
    second = path.read_bytes()
    if len(first) != len(second):
        pytest.fail("these are to have one length")
    path.write_bytes(first)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    writer, reader = blosc2.DictStore(path, "a"), blosc2.open(path)
    with path.open("r+b") as file:
        file.write(second)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert Source.open(str(path)).identity == reader._table.backend.members.source.identity
    writer["/b"] = [1]
    with pytest.raises(OSError, match="somebody else"):
        writer.flush()
    writer.discard()
    assert path.read_bytes() == second
    assert reader.refresh()
    assert not reader.refresh()
    assert reader["/a"][:].tolist() == NOISE[50:100].tolist()
    reader.close()
    writer.close()
