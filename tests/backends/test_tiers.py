"""Leaves of a `.b2d` that a writer moves between the tiers, and between suffixes, under an open reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends.directory.backend import DirectoryBackend
from blosc2.exceptions import StoreKeyError

LARGE = np.random.default_rng(5).integers(0, 1 << 62, 500)
SMALL = np.arange(4)

MAPPED = pytest.mark.parametrize("mmap_mode", ["r", None])
STORES = pytest.mark.parametrize("make", [blosc2.DictStore, blosc2.TreeStore])


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.b2d")


def super_chunk() -> Any:
    """A leaf with another suffix than an array."""
    return blosc2.SChunk(800, LARGE, cparams={"typesize": 8})


def start(make: Any, path: str) -> Any:
    """A writer of a store with a leaf in each tier."""
    writer = make(path, mode="w", threshold=1000)
    writer["/g/file"], writer["/g/embedded"], writer["/stays"] = LARGE, SMALL, SMALL
    writer.flush()
    return writer


@pytest.fixture(params=[False, True], ids=["fresh", "listed"])
def reader_of(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Opens readers, of which some have listed their keys."""
    opened = []

    def reader(path: str, mmap_mode: str | None = None) -> Any:
        store = blosc2.open(path, mmap_mode=mmap_mode)
        opened.append(store)
        if request.param:
            assert sorted(store)
        return store

    reader.lists = request.param  # type: ignore[attr-defined]
    yield reader
    for store in opened:
        store.close()


@MAPPED
@STORES
@pytest.mark.parametrize("ask", ["get", "in", "read", "read_many", "describe", "advise", "items", "stats"])
def test_a_leaf_that_leaves_its_file(
    make: Any, mmap_mode: str | None, ask: str, path: str, reader_of: Callable[..., Any]
) -> None:
    with start(make, path) as writer:
        reader = reader_of(path, mmap_mode)
        writer["/g/file"] = SMALL
        writer.flush()
        key = "/g/file"
        if ask == "get":
            np.testing.assert_array_equal(reader[key][:], SMALL)
        elif ask == "in":
            assert key in reader
        elif ask == "read":
            np.testing.assert_array_equal(reader.read(key), SMALL)
        elif ask == "read_many":
            np.testing.assert_array_equal(reader.read_many([key, "/stays"]), [SMALL, SMALL])
        elif ask == "describe":
            assert reader.describe(key).shape == (4,)
        elif ask == "advise":
            reader.advise("willneed", keys=[key])
        elif ask == "items":
            assert sorted(reader) == sorted(writer)
            assert {k: v.shape for k, v in reader.items() if isinstance(v, blosc2.NDArray)}[key] == (4,)
        else:
            assert reader.stats()[0].leaves == 3


@MAPPED
@STORES
def test_a_leaf_that_gets_a_file(make: Any, mmap_mode: str | None, path: str, reader_of: Any) -> None:
    """A reader that has not listed the keys looks for files first; for others it is embedded, as it was."""
    with start(make, path) as writer:
        reader = reader_of(path, mmap_mode)
        writer["/g/embedded"] = LARGE
        writer["/g/file"] = SMALL  # which makes the reader look at the embedded values again
        writer.flush()
        assert reader["/g/file"].shape == (4,)
        assert "/g/embedded" in reader
        np.testing.assert_array_equal(reader["/g/embedded"][:], SMALL if reader_of.lists else LARGE)
        assert sorted(reader) == sorted(writer)


@MAPPED
@STORES
def test_a_leaf_that_goes_there_and_back(
    make: Any, mmap_mode: str | None, path: str, reader_of: Callable[..., Any]
) -> None:
    """A leaf is never missing, and each time that it has moved its newest value is read."""
    with start(make, path) as writer:
        reader = reader_of(path, mmap_mode)
        for number in range(2):
            writer["/g/file"] = SMALL + number
            writer.flush()
            np.testing.assert_array_equal(reader["/g/file"][:], SMALL + number)
            writer["/g/file"] = LARGE + number
            writer.flush()
            np.testing.assert_array_equal(reader["/g/file"][:], LARGE + number)
        writer["/g/file"] = SMALL + 9
        writer.flush()
        assert reader.refresh()
        np.testing.assert_array_equal(reader["/g/file"][:], SMALL + 9)


@MAPPED
@STORES
def test_a_leaf_of_another_kind_is_another_file(
    make: Any, mmap_mode: str | None, path: str, reader_of: Callable[..., Any]
) -> None:
    with start(make, path) as writer:
        reader = reader_of(path, mmap_mode)
        writer["/g/file"] = super_chunk()
        writer.flush()
        assert "/g/file" in reader
        assert isinstance(reader["/g/file"], blosc2.SChunk)
        writer["/g/file"] = LARGE
        writer.flush()
        assert isinstance(reader["/g/file"], blosc2.NDArray)


@STORES
def test_a_leaf_that_moves_while_it_is_looked_for(
    make: Any, path: str, reader_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer is quicker each time: just after the files were looked at, and just before the embedded values are."""
    moves: list[Any] = [SMALL, LARGE, SMALL, LARGE]
    with start(make, path) as writer:
        reader = reader_of(path)
        found = DirectoryBackend.embed_has_changed

        def quicker(backend: DirectoryBackend) -> bool:
            if moves:
                writer["/g/file"] = moves.pop(0)
                writer.flush()
            return found(backend)

        writer["/g/file"] = super_chunk()
        writer.flush()
        writer["/g/file"] = SMALL
        writer.flush()
        monkeypatch.setattr(DirectoryBackend, "embed_has_changed", quicker)
        assert reader["/g/file"].shape in {SMALL.shape, LARGE.shape}
        assert "/g/file" in reader


@STORES
def test_a_listing_beside_a_writer_that_moves_leaves(make: Any, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    moves: list[Any] = [LARGE, SMALL, LARGE]
    with start(make, path) as writer:
        reader = blosc2.open(path)
        found = DirectoryBackend.embed_has_changed

        def quicker(backend: DirectoryBackend) -> bool:
            if moves:
                writer["/g/embedded"] = moves.pop(0)
                writer["/g/file"] = SMALL if len(moves) % 2 else LARGE
                writer.flush()
            return found(backend)

        monkeypatch.setattr(DirectoryBackend, "embed_has_changed", quicker)
        assert sorted(reader) == sorted(writer)
        assert {key for key in writer if key not in reader} == set()
        reader.close()


@MAPPED
def test_what_is_not_there_stays_absent(mmap_mode: str | None, path: str, reader_of: Callable[..., Any]) -> None:
    with start(blosc2.DictStore, path) as writer:
        reader = reader_of(path, mmap_mode)
        del writer["/g/embedded"], writer["/g/file"]
        writer["/stays"] = SMALL + 1
        writer.flush()
        with pytest.raises(StoreKeyError):
            reader["/g/file"]
        with pytest.raises(StoreKeyError):
            reader["/never"]
        assert "/never" not in reader
        assert reader.refresh()
        assert list(reader) == ["/stays"]


@MAPPED
def test_keys_that_came_after_a_listing_wait_for_a_refresh(mmap_mode: str | None, path: str) -> None:
    with start(blosc2.DictStore, path) as writer, blosc2.open(path, mmap_mode=mmap_mode) as reader:
        assert len(reader) == 3
        writer["/new/file"], writer["/new/embedded"], writer["/g/file"] = LARGE, SMALL, SMALL
        writer.flush()
        assert reader["/g/file"].shape == (4,)
        for key in ("/new/file", "/new/embedded"):
            assert key not in list(reader)
        assert reader.refresh()
        assert len(reader) == 5
        assert reader["/new/file"].shape == LARGE.shape


@MAPPED
def test_a_refresh_tells_of_a_version_that_was_looked_at(mmap_mode: str | None, path: str) -> None:
    with start(blosc2.DictStore, path) as writer, blosc2.open(path, mmap_mode=mmap_mode) as reader:
        writer["/g/file"] = SMALL
        writer.flush()
        assert reader["/g/file"].shape == (4,)
        assert reader.refresh()
        assert not reader.refresh()
        assert reader["/g/file"].shape == (4,)


@MAPPED
def test_a_copy_has_the_leaves_that_moved(mmap_mode: str | None, path: str, tmp_path: Path) -> None:
    with start(blosc2.DictStore, path) as writer, blosc2.open(path, mmap_mode=mmap_mode) as reader:
        assert len(reader) == 3
        writer["/g/file"] = SMALL
        writer.flush()
        with blosc2.open(reader.to_b2z(filename=tmp_path / "copy.b2z")) as copy:
            assert {key: leaf.shape for key, leaf in copy.items()} == dict.fromkeys(reader, (4,))


@MAPPED
@STORES
def test_a_miss_leaves_the_other_embedded_values_as_they_were(make: Any, mmap_mode: str | None, path: str) -> None:
    with start(make, path) as writer, blosc2.open(path, mmap_mode=mmap_mode) as reader:
        writer["/g/file"] = SMALL
        writer["/stays"] = SMALL + 1
        del writer["/g/embedded"]
        writer.flush()
        assert "/nothing" not in reader
        np.testing.assert_array_equal(reader["/g/file"][:], SMALL)
        np.testing.assert_array_equal(reader["/stays"][:], SMALL)
        np.testing.assert_array_equal(reader["/g/embedded"][:], SMALL)
        assert reader.refresh()
        np.testing.assert_array_equal(reader["/stays"][:], SMALL + 1)
        assert "/g/embedded" not in reader
