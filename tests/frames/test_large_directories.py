"""Directory frames (``contiguous=False``) and leaves that are too large for memory: their chunks stay in files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._core.io.checksum import crc32c
from blosc2._files import Spooled, TemporaryFile
from blosc2._frames import directory, update
from blosc2.exceptions import FormatError

SHAPE, CHUNKS = (40, 100), (3, 100)


@pytest.fixture(params=["descriptors", "few descriptors", "no descriptors"])
def everything_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is small; of chunk files all are kept open, or some, or none."""
    monkeypatch.setattr(directory, "SMALL_FRAME", 0)
    monkeypatch.setattr(update, "SMALL_FRAME", 0)
    if request.param != "descriptors":
        at = os.open(os.devnull, os.O_RDONLY)
        os.close(at)
        most = 2 * (at + 4) if request.param == "few descriptors" else 0
        monkeypatch.setattr(directory, "most_descriptors", lambda: most)


pytestmark = pytest.mark.usefixtures("everything_large")


@pytest.fixture
def items(rng: np.random.Generator) -> Any:
    return rng.integers(0, 1 << 40, SHAPE)


@pytest.fixture
def path(tmp_path: Path, items: Any) -> Path:
    path = tmp_path / "a.b2nd"
    blosc2.asarray(items, chunks=CHUNKS, urlpath=path, contiguous=False)
    return path


def test_it_is_read(path: Path, items: Any, tmp_path: Path) -> None:
    array = blosc2.open(path)
    assert array.schunk.contiguous is False
    np.testing.assert_array_equal(array[:], items)
    np.testing.assert_array_equal(array[5:31, 20:30], items[5:31, 20:30])
    np.testing.assert_array_equal(array[[30, 2, 2]], items[[30, 2, 2]])
    assert not array.schunk._handle.frame.source.in_memory
    assert array.check().ok
    assert blosc2.check(path).ok
    np.testing.assert_array_equal(blosc2.ndarray_from_cframe(array.to_cframe())[:], items)
    for contiguous in (True, False):
        copied = array.copy(urlpath=tmp_path / f"c{contiguous}", contiguous=contiguous)
        np.testing.assert_array_equal(copied[:], items)
    for suffix in (".b2z", ".b2d", ".b2e"):
        cls = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
        with cls(tmp_path / f"s{suffix}", mode="w") as store:
            store["/a"] = array
        with cls(tmp_path / f"s{suffix}", mode="r") as store:
            np.testing.assert_array_equal(store["/a"][:], items)
        assert blosc2.check(tmp_path / f"s{suffix}").ok


def test_it_is_changed(path: Path, items: Any, rng: np.random.Generator) -> None:
    array = blosc2.open(path, mode="a")
    before = blosc2.open(path)
    expected = items.copy()
    for n in range(30):
        start = int(rng.integers(0, len(expected) - 4))
        part = rng.integers(0, 1 << 40, (4, 100))
        array[start : start + 4] = part
        expected[start : start + 4] = part
        if n % 5 == 0:
            array.resize((len(expected) + 7, 100))
            expected = np.concatenate([expected, np.zeros((7, 100), expected.dtype)])
        if n % 11 == 7:
            array.resize((len(expected) - 9, 100))
            expected = expected[:-9]
        array.vlmeta["n"] = n
        np.testing.assert_array_equal(array[:], expected)
        files = [file.stat().st_size for file in path.glob("*.chunk")]
        assert blosc2.open(path).schunk.cbytes == sum(files)
        assert len(files) == sum(1 for info in array.schunk.iterchunks_info() if info.special.value == 0)
    np.testing.assert_array_equal(blosc2.open(path)[:], expected)
    assert blosc2.check(path).ok
    used = np.count_nonzero([name.endswith(".chunk") for name in os.listdir(path)])
    assert used <= array.schunk.nchunks
    # Who had it open before sees what was there then, whatever has become of the files.
    np.testing.assert_array_equal(before[:], items)
    assert before.refresh()
    np.testing.assert_array_equal(before[:], expected)


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e"])
def test_a_leaf_grows_from_nothing(suffix: str, tmp_path: Path, rng: np.random.Generator) -> None:
    expected = rng.integers(0, 1 << 40, 999)
    cls = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    with cls(tmp_path / f"s{suffix}", mode="w") as store:
        store["/a"] = blosc2.empty((0,), "i8", chunks=(50,))
        leaf = store["/a"]
        for start in range(0, 999, 37):
            leaf.append(expected[start : start + 37])
            if start == 370:
                store.flush()
            elif start == 555:
                leaf[:100] = expected[:100] = rng.integers(0, 1 << 40, 100)
        np.testing.assert_array_equal(leaf[:], expected)
    with cls(tmp_path / f"s{suffix}", mode="r") as store:
        np.testing.assert_array_equal(store["/a"][:], expected)
    assert blosc2.check(tmp_path / f"s{suffix}").ok


@pytest.mark.parametrize("of", ["bytes", "what waits"])
def test_a_chunk_in_a_file_knows_its_checksum(of: str, path: Path) -> None:
    name = str(path / "00000003.chunk")
    stored = Path(name).read_bytes()
    found = directory.from_file(name, stored if of == "bytes" else TemporaryFile(name).keep(stored))
    assert len(found) == len(stored)
    if isinstance(found, Spooled):  # where there are descriptors enough
        assert (found.read(), found.sum, found.sum) == (stored, crc32c(stored), crc32c(stored))
        again = TemporaryFile(name).keep(found)
        assert (again.read(), again.sum) == (stored, crc32c(stored))


def test_special_chunks_and_other_kinds(tmp_path: Path, rng: np.random.Generator) -> None:
    array = blosc2.zeros((60, 100), "f8", chunks=(5, 100), urlpath=tmp_path / "z.b2nd", contiguous=False)
    array[12:14] = 3.0
    again = blosc2.open(tmp_path / "z.b2nd", mode="a")
    again[40:42] = 5.0
    expected = np.zeros((60, 100))
    expected[12:14], expected[40:42] = 3.0, 5.0
    np.testing.assert_array_equal(blosc2.open(tmp_path / "z.b2nd")[:], expected)

    schunk = blosc2.SChunk(chunksize=-1, urlpath=tmp_path / "v.b2frame", contiguous=False, cparams={"typesize": 1})
    parts = [rng.bytes(int(size)) for size in rng.integers(1, 900, 20)]
    for part in parts:
        schunk.append_data(part)
    opened = blosc2.open(tmp_path / "v.b2frame")
    assert [opened.decompress_chunk(n) for n in range(20)] == parts

    batches = blosc2.BatchArray(urlpath=tmp_path / "l.b2f", contiguous=False)
    batches.extend([list(range(n)) for n in range(1, 9)])
    batches.insert(2, ["new"])
    expected_batches = [list(range(n)) for n in range(1, 9)]
    expected_batches.insert(2, ["new"])
    assert [batch[:] for batch in blosc2.open(tmp_path / "l.b2f")] == expected_batches


def test_a_chunk_file_that_is_missing_or_is_none(path: Path) -> None:
    name = next(path.glob("*.chunk"))
    data = name.read_bytes()
    name.unlink()
    with pytest.raises(FormatError, match="is missing"):
        blosc2.open(path)[:]
    os.mkdir(name)
    with pytest.raises((FormatError, OSError)):
        blosc2.open(path)[:]
    os.rmdir(name)
    name.write_bytes(data[:40])
    with pytest.raises(FormatError):
        blosc2.open(path)[:]
    assert not blosc2.check(path).ok


def test_a_chunk_file_that_is_cut_under_a_reader(path: Path, items: Any) -> None:
    array = blosc2.open(path)
    for name in path.glob("*.chunk"):
        os.truncate(name, 20)
    with suppress(FormatError):  # what was copied is whole
        np.testing.assert_array_equal(array[:], items)
