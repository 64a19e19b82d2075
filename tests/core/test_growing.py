"""Files that grow: versions share one descriptor or mapping, and old ones stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits
from fixture_kit.limits import descriptors, mappings

import blosc2
from blosc2._core.io.source import Source

FLUSHES = 200

DATA = bytes(range(256)) * 40

counted = pytest.mark.skipif(not limits.LINUX, reason="counts mappings and descriptors in /proc")


@pytest.fixture
def path(tmp_path: Path) -> str:
    name = tmp_path / "data.bin"
    name.write_bytes(DATA)
    return str(name)


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
def test_an_array_that_is_appended_to(tmp_path: Path, source: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._frames.append._SLACK", 1 << 20)  # a file that is written anew is another one
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
