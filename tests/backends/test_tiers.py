"""Leaves of a `.b2d` that a writer moves between the tiers, and between suffixes, under an open reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends.directory.backend import DirectoryBackend

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
