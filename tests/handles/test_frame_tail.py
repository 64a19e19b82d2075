"""What lies behind a frame in its file, and commits of arrays that fail late."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.schunks import decode_all
from fixture_kit.syncs import is_of_others

import blosc2
from blosc2._frames import append
from blosc2._frames import changeable as frame_file
from blosc2._frames import handle as frame_handle

NOISE = np.random.default_rng(3).integers(0, 1 << 62, 40_000)


def array_file(path: Path) -> None:
    blosc2.asarray(NOISE[:3000], chunks=(1000,), urlpath=path, mode="w").vlmeta["unit"] = "mm"


def schunk_file(path: Path) -> None:
    blosc2.SChunk(chunksize=8000, data=NOISE[:2500], cparams={"typesize": 8}, urlpath=path, mode="w")


def append_array(x: Any, n: int = 2000) -> None:
    x.append(NOISE[n : n + 1500])


def append_schunk(x: Any, n: int = 2000) -> None:
    x.append_data(NOISE[n : n + 1000])


def annotate(x: Any, n: int = 3) -> None:
    x.vlmeta["note"] = "x" * n


KINDS = {
    "array": (array_file, append_array), "array metadata": (array_file, annotate),
    "schunk": (schunk_file, append_schunk), "schunk metadata": (schunk_file, annotate),
}  # fmt: skip
each = pytest.mark.parametrize(("make", "change"), KINDS.values(), ids=KINDS)


def everything(x: Any) -> tuple[Any, ...]:
    return np.asarray(x[:]).tobytes(), dict(x.vlmeta[:])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.b2frame"


@contextlib.contextmanager
def failing_sync(nth: int, then: Any = lambda: None, *, forever: bool = False) -> Any:
    """Make the n-th sync fail, or all from then on; call something right before the first that does."""
    real, calls = os.fsync, 0

    def fsync(descriptor: int) -> None:
        nonlocal calls
        if is_of_others():
            return real(descriptor)
        calls += 1
        if calls == nth:
            then()
        if calls == nth or (forever and calls > nth):
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor)

    os.fsync = fsync
    try:
        yield
    finally:
        os.fsync = real


@each
@pytest.mark.parametrize("forever", [False, True])
@pytest.mark.parametrize("same", [False, True])
def test_what_was_visible_stays(path: Path, make: Any, change: Any, same: bool, forever: bool) -> None:
    make(path)
    before = everything(blosc2.open(path))
    handle = blosc2.open(path, mode="a", durable=True)
    seen = []

    def look() -> None:
        reader = blosc2.open(path, mmap_mode="r")
        seen.append((reader, path.stat().st_size))

    with (
        failing_sync(2, look, forever=forever),
        pytest.raises(OSError, match="Input/output error; the file is what it was"),
    ):
        change(handle)
    reader, size = seen[0]
    assert path.stat().st_size >= size
    assert everything(blosc2.open(path)) == everything(blosc2.open(path, mmap_mode="r")) == everything(handle) == before
    again = handle if same else blosc2.open(path, mode="a", durable=True)
    annotate(again, 500)
    change(again, 11)
    # All that was mapped is still what it was.
    shown = everything(reader)
    assert shown != before
    assert shown == everything(reader)
    decode_all(reader._handle.frame)
    assert everything(blosc2.open(path)) == everything(again) != shown
    assert [one for one in blosc2.check(path) if one.kind == "damage"] == []


@each
def test_a_version_that_cannot_be_read_after_it_was_published(
    path: Path, make: Any, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(path)
    before = everything(blosc2.open(path))
    handle = blosc2.open(path, mode="a", durable=True)

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        for module in (append, frame_file, frame_handle):
            patched.setattr(module, "open_frame", fail)
        with pytest.raises(OSError, match=r"Too many open files; the change may be in the file: refresh\(\) tells"):
            change(handle)
    assert everything(handle) == before
    published = everything(blosc2.open(path))
    assert published != before
    handle.vlmeta["more"] = 1  # goes on from what is in the file
    assert handle.vlmeta["more"] == 1
    assert everything(handle)[0] == published[0]
    assert everything(blosc2.open(path)) == everything(handle)


def make_frame(path: Path, make: Any, plain: bool) -> None:
    """A file with checksums, or one without."""
    make(path)
    if plain:
        path.write_bytes(blosc2.open(path).to_cframe())


@each
@pytest.mark.parametrize("plain", [False, True], ids=["with sums", "without"])
def test_a_flipped_bit_of_the_header_loses_no_version(path: Path, make: Any, change: Any, plain: bool) -> None:
    """Whatever the header says, opening for writing and a change leave all that follows it where it is."""
    make_frame(path, make, plain)
    change(blosc2.open(path, mode="a"))
    data = path.read_bytes()
    start = int.from_bytes(data[11:15])
    refused = 0
    for bit in range(8 * 11, 8 * min(start, 97)):
        damaged = bytearray(data)
        damaged[bit >> 3] ^= 1 << (bit & 7)
        path.write_bytes(damaged)
        try:
            annotate(blosc2.open(path, mode="a"), 4)
        except Exception:  # noqa: BLE001 - what it is, is said elsewhere
            refused += 1
            assert path.read_bytes() == damaged
        now = path.read_bytes()
        assert now[start : len(data)] == data[start:] or rewritten(damaged, now), bit
    assert refused > 200 or plain


def rewritten(old: bytes, new: bytes) -> bool:
    """Whether a file was written anew, with all that its header said it had."""
    return new[16:24] != old[16:24] and int.from_bytes(new[16:24]) == len(new)


@pytest.mark.local
@pytest.mark.parametrize("kind", [".b2e", ".b2d", "_embedded.b2d", ".b2z"])
def test_two_versions_of_one_tick(tmp_path: Path, kind: str, source: str | None) -> None:
    """A coarse clock gives both one time; here it is set back."""
    path = tmp_path / f"x{kind}"
    if kind == ".b2e":
        store: Any = blosc2.EmbedStore(path, mode="w")
    else:
        store = blosc2.TreeStore(path, mode="w", threshold=None if "embedded" in kind else 0)
    store["/a"] = NOISE[:300]
    store["/b"] = [1]
    store.flush()
    reader = blosc2.open(path, mmap_mode=source)
    assert sorted(reader) == ["/a", "/b"]
    files = [path, *(path.rglob("*") if path.is_dir() else ())]
    times = {file: os.stat(file) for file in files}
    assert not reader.refresh()
    store["/c"] = [2]
    store["/a"] = NOISE[300:600]
    del store["/b"]
    store.flush()
    for file, status in times.items():
        if file.exists():
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert reader.refresh()
    assert sorted(reader) == ["/a", "/c"]
    assert reader["/a"][0] == NOISE[300]
    store.close()


def test_a_header_that_comes_after_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that opens between the two writes of an append, and then asks within the same tick."""
    from blosc2._frames.append import NextVersion

    path = tmp_path / "x.b2e"
    store = blosc2.EmbedStore(path, mode="w")
    store["/a"] = NOISE[:5000]
    store.flush()
    real, seen = NextVersion.commit, []

    def commit(self: Any, *, durable: bool) -> None:
        seen.append((blosc2.open(path), os.stat(path)))
        real(self, durable=durable)

    monkeypatch.setattr(NextVersion, "commit", commit)
    store["/b"] = [1]
    store.flush()
    reader, status = seen[0]
    assert list(reader) == ["/a"]
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert reader.refresh()
    assert sorted(reader) == ["/a", "/b"]
    assert not reader.refresh()
    store.close()


def test_check_tells_what_a_tail_is(tmp_path: Path) -> None:
    """What may have been a version stays; other bytes are written over."""
    path = tmp_path / "x.b2nd"
    blosc2.asarray(np.arange(100), urlpath=path)
    whole = path.read_bytes()
    path.write_bytes(whole + whole + b"rest")
    first, second = blosc2.check(path).notes
    assert str(len(whole)) in first.problem
    assert "stay" in first.problem
    assert first.offset == len(whole)
    assert "4 bytes" in second.problem
    assert "overwrites" in second.problem
    assert second.offset == 2 * len(whole)
    with blosc2.open(path, mode="a") as array:
        array[0] = 5
    assert path.read_bytes()[len(whole) : 2 * len(whole)] == whole
