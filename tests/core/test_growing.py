"""Files that grow: versions share one descriptor or mapping, old ones stay, and another file is noticed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits
from fixture_kit.limits import descriptors, mappings

import blosc2
from blosc2._core.io.source import Source
from blosc2.exceptions import FormatError

FLUSHES = 200

DATA = bytes(range(256)) * 40

counted = pytest.mark.skipif(not limits.LINUX, reason="counts mappings and descriptors in /proc")


@pytest.fixture
def path(tmp_path: Path) -> str:
    name = tmp_path / "data.bin"
    name.write_bytes(DATA)
    return str(name)


@pytest.fixture(params=[Source.map, Source.open], ids=["map", "open"])
def make(request: pytest.FixtureRequest) -> Callable[[str], Source]:
    how: Callable[[str], Source] = request.param
    return how


def append(path: str, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def use(path: str) -> int:
    """Mappings and descriptors of a file."""
    open_files = [name for name in Path("/proc/self/fd").iterdir() if name.exists() and os.path.samefile(name, path)]
    return mappings(path) + len(open_files)


# ---------------------------------------------------------------------- sources
def test_a_source_of_a_longer_file(path: str, make: Callable[[str], Source]) -> None:
    old = make(path)
    seen = old
    content = DATA
    for more in (b"x", b"y" * 5000, b"z" * 300_000):
        append(path, more)
        content += more
        seen = seen.reopen()
        status = Path(path).stat()
        assert seen.identity == (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        assert (seen.size, seen.path, seen.mapped) == (len(content), path, old.mapped)
        assert seen.read(0, len(content)) == content
    assert old.size == len(DATA)
    assert old.read(0, len(DATA)) == DATA
    for source in (old, seen):
        with pytest.raises(FormatError):
            source.read(source.size, 1)


def test_a_file_that_is_as_it_was(path: str, make: Callable[[str], Source]) -> None:
    old = make(path)
    same = old.reopen()
    assert (same.identity, same.size) == (old.identity, old.size)
    del old
    assert same.read(5, 500) == DATA[5:505]


def test_a_shorter_file_and_another_one(path: str, make: Callable[[str], Source]) -> None:
    source = make(path)
    os.truncate(path, 100)
    source = source.reopen()
    assert source.read(0, source.size) == DATA[:100]
    os.truncate(path, 0)
    source = source.reopen()
    assert (source.size, source.read(0, 0)) == (0, b"")
    append(path, b"again")
    source = source.reopen()
    assert source.read(0, 5) == b"again"
    Path(path + ".new").write_bytes(b"another file")
    os.replace(path + ".new", path)
    other = source.reopen()
    assert (source.read(0, 5), other.read(0, other.size)) == (b"again", b"another file")
    os.unlink(path)
    with pytest.raises(FileNotFoundError):
        other.reopen()
    assert other.read(0, 7) == b"another"


def test_buffers_are_not_opened_again() -> None:
    with pytest.raises(ValueError, match="buffer"):
        Source.of_buffer(DATA, "name").reopen()


def test_a_view_stays_when_its_source_is_gone_and_the_file_grows(path: str) -> None:
    source = Source.map(path)
    view = memoryview(source)
    append(path, b"more")
    source = source.reopen()
    longer = memoryview(source)
    del source
    gc.collect()
    assert (bytes(view), bytes(longer)) == (DATA, DATA + b"more")


def test_mapping_what_a_descriptor_shows(path: str) -> None:
    mapped = Source.open(path).mapped_to(len(DATA))
    append(path, b"more and more")
    by_position = Source.open(path)
    longer = by_position.mapped_to(len(DATA) + 4, mapped)
    assert (longer.size, longer.mapped, longer.identity) == (len(DATA) + 4, True, by_position.identity)
    assert longer.read(len(DATA) - 1, 5) == DATA[-1:] + b"more"
    assert by_position.mapped_to(0, mapped).size == 0
    with pytest.raises(FormatError, match="cut"):
        by_position.mapped_to(by_position.size + 1, longer)
    os.truncate(path, 7)
    with pytest.raises(FormatError, match="cut"):
        by_position.mapped_to(by_position.size, longer)


@counted
def test_what_growing_costs(path: str, make: Callable[[str], Source]) -> None:
    before = use(path)
    held = [make(path)]
    for n in range(FLUSHES):
        append(path, bytes([n]) * 3000)
        held.append(held[-1].reopen())
    # A mapping without room behind the file, and one with.
    assert use(path) - before <= 2
    for n, source in enumerate(held[1:]):
        assert source.read(source.size - 3000, 3000) == bytes([n]) * 3000
    del held, source
    assert use(path) == before


@counted
@pytest.mark.skipif(sys.maxsize < 1 << 32, reason="needs addresses for large files")
def test_the_room_grows_with_the_file(path: str) -> None:
    """A file that becomes 4096 times as large, without a byte in it."""
    held = [Source.map(path)]
    size = 1 << 20
    while size < 4 << 30:
        os.truncate(path, size)
        held.append(held[-1].reopen())
        assert held[-1].read(size - 2, 2) == b"\0\0"
        size += size // 10
    assert len(held) > 80
    assert mappings(path) <= 10


@counted
def test_no_addresses_to_spare(path: str) -> None:
    """Where a process may not have the room, a mapping is as long as the file."""
    script = f"""
import resource
from fixture_kit import limits
from blosc2._core.io.source import Source
source = Source.map({path!r})
limits.limit_address_space(16 << 20)
open({path!r}, "ab").write(b"more")
source = source.reopen()
assert source.read(source.size - 4, 4) == b"more"
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------------- stores and arrays
def leaf(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n, n + 40, dtype="i4")


def open_store(path: str, mode: str, mmap_mode: str | None = None) -> Any:
    kind = blosc2.EmbedStore if path.endswith(".b2e") else blosc2.TreeStore
    return kind(path, mode=mode, mmap_mode=mmap_mode)


@pytest.mark.local
@counted
@pytest.mark.parametrize("suffix", [".b2e", ".b2z", "_embedded.b2d"])
def test_leaves_held_over_many_flushes(tmp_path: Path, suffix: str, source: str | None) -> None:
    path = str(tmp_path / f"store{suffix}")
    held: list[tuple[int, Any]] = []
    files = set()
    if suffix == "_embedded.b2d":
        writer: Any = blosc2.DictStore(path, mode="w", threshold=1 << 40)
        # A small file is read as a whole and needs no descriptor.
        writer["/first"] = np.random.default_rng(1).random(20_000)
        writer.flush()
        before = descriptors(), mappings()
        reader: Any = blosc2.DictStore(path, mode="r", mmap_mode=source)
    else:
        writer = open_store(path, "w")
        writer["/first"] = leaf(0)
        writer.flush()
        before = descriptors(), mappings()
        reader = open_store(path, "r", source)
    for n in range(FLUSHES):
        writer[f"/g/{n}"] = leaf(n)
        writer.flush(durable=False)
        held.append((n, writer[f"/g/{n}"]))
        assert reader.refresh()
        held.append((n, reader[f"/g/{n}"]))
        files.add(os.stat(os.path.join(path, "embed.b2e") if os.path.isdir(path) else path).st_ino)
    # An embedded value makes the file anew when dead bytes have become too many. Writer and reader have a descriptor
    # of each of these files; or the reader a mapping without room behind the file, and one with.
    assert len(files) < 20
    assert descriptors() - before[0] <= 2 * len(files)
    assert mappings() - before[1] <= (2 * len(files) if source else 0)
    for n, array in held:
        np.testing.assert_array_equal(array[:], leaf(n))
    writer.close()
    reader.close()
    for n, array in held[::7]:
        np.testing.assert_array_equal(array[:], leaf(n))


@pytest.mark.local
@counted
def test_an_array_that_is_appended_to(tmp_path: Path, source: str | None) -> None:
    path = str(tmp_path / "signal.b2nd")
    writer = blosc2.zeros(0, dtype="i4", urlpath=path, mode="w", chunks=64, cparams={"clevel": 0})
    writer.append(leaf(0))
    reader = blosc2.open(path, mmap_mode=source)
    before = descriptors(), mappings()
    items = leaf(0)
    frames = []
    for n in range(1, FLUSHES):
        writer.append(leaf(n))
        items = np.concatenate([items, leaf(n)])
        assert reader.refresh()
        # What a view or an operation under way would hold.
        frames += [(writer._handle.frame, items.nbytes), (reader._handle.frame, items.nbytes)]
        assert reader.shape == items.shape
    # Of the writer, none more than before; of the reader, a mapping with room behind the file.
    assert descriptors() <= before[0]
    assert mappings() - before[1] <= (1 if source else 0)
    np.testing.assert_array_equal(reader[:], items)
    for frame, nbytes in frames[::9]:
        assert frame.read_bytes(0, nbytes) == items.tobytes()[:nbytes]


@counted
def test_a_mapped_writer(tmp_path: Path) -> None:
    path = str(tmp_path / "signal.b2nd")
    blosc2.asarray(leaf(0), urlpath=path, chunks=64)
    writer = blosc2.open(path, mmap_mode="r+")
    before = descriptors(), mappings()
    frames = [writer._handle.frame]
    for n in range(1, 50):
        writer.append(leaf(n))
        frames.append(writer._handle.frame)
    # With room behind the file now.
    assert (descriptors(), mappings()) == (before[0], before[1] + 1)
    items = np.concatenate([leaf(n) for n in range(50)])
    for n, frame in enumerate(frames):
        assert frame.read_bytes(0, frame.nbytes)[: 160 * (n + 1)] == items[: 40 * (n + 1)].tobytes()
    np.testing.assert_array_equal(writer[:], items)


def test_views_stay_while_the_file_grows(tmp_path: Path) -> None:
    path = str(tmp_path / "signal.b2nd")
    writer = blosc2.asarray(leaf(0), urlpath=path, cparams={"clevel": 0})
    reader = blosc2.open(path, mmap_mode="r")
    view = reader.view()
    for n in range(1, 5):
        writer.resize((40 * (n + 1),))
        writer[40 * n :] = leaf(n)
        writer[:40] = 7
        assert reader.refresh()
    np.testing.assert_array_equal(view, leaf(0))
    np.testing.assert_array_equal(reader[:40], np.full(40, 7))
    np.testing.assert_array_equal(reader[-40:], leaf(4))


@pytest.mark.local
@pytest.mark.parametrize("suffix", [".b2e", ".b2z"])
def test_a_store_that_is_replaced_is_noticed(tmp_path: Path, suffix: str, source: str | None) -> None:
    path = str(tmp_path / f"store{suffix}")
    with open_store(path, "w") as store:
        store["/a"] = leaf(1)
        store["/b"] = leaf(2)
    reader = open_store(path, "r", source)
    old = reader["/a"]
    with open_store(path, "a") as store:
        del store["/b"]
        store["/a"] = leaf(9)
        store.compact()
    assert reader.refresh()
    np.testing.assert_array_equal(reader["/a"][:], leaf(9))
    assert "/b" not in reader
    np.testing.assert_array_equal(old[:], leaf(1))
    reader.close()
