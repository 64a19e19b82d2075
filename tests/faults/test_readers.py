"""Readers beside a writer that moves leaves from tier to tier, or cuts off what a dead one left."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends import publish_pace as pace
from blosc2._core.io.source import Source
from blosc2._stores import automatic_publishing
from blosc2.exceptions import FormatError
from faults.crashes import FAST
from faults.recorder import Recorder
from faults.scenarios import Play, Publication, value_of
from faults.store_stories import StoreStory
from faults.stories import stories

STORIES = stories()
DIRECTORIES = ["tree b2d", "tree b2d tiers", "dict b2d tiers", "tree b2d tiers, upkeep", "dict b2d, crowd"]


class Watch:
    """Readers, opened before each flush, that look for its leaves at each call of the writer."""

    def __init__(self, story: StoreStory, play: Play) -> None:
        self.kind, self.play = story.kind, play
        self.readers: list[Any] = []
        self.looks = 0
        self._publication: Publication | None = None
        self._before: dict[str, Any] = {}

    def __call__(self) -> None:
        publication = self.play.publications[-1]
        if publication.after is not None:
            return
        if publication is not self._publication:
            self._publication, self._before = publication, self.play.published or {}
            self.close()
            if self._before:
                self.readers = [self.kind.reader(self.play.path, mapped) for mapped in (None, None, "r", "r")]
                for reader in self.readers[::2]:
                    assert sorted(reader)
        after = publication.version or {}
        for key in self._before.keys() & after.keys():
            if key.startswith("/"):
                for reader in self.readers:
                    assert key in reader, f"{key} is missing"
                    leaf = reader[key]
                    assert value_of(leaf[()], dict(leaf.vlmeta[:])) in (self._before[key], after[key])
                    self.looks += 1

    def close(self) -> None:
        for reader in self.readers:
            reader.close()
        self.readers = []


@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_leaf_is_never_missing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open reader finds each leaf at every call of a writer."""
    monkeypatch.setattr(pace, "_ALLOWANCE", 1e9)  # what is assigned is published, and readers find it
    monkeypatch.setattr(automatic_publishing, "ALLOWANCE", 1e9)
    story = STORIES[name]
    assert isinstance(story, StoreStory)
    with tempfile.TemporaryDirectory(dir=FAST) as folder, Recorder(Path(folder)) as recorder:
        play = Play(story.kind, folder, lambda: len(recorder.ops))
        recorder.watch = watch = Watch(story, play)
        for step in story.steps:
            step(play)
        recorder.watch = None
        watch.close()
    assert watch.looks > 100


@pytest.mark.parametrize("tail", [b"x", b"PK\3\4" + bytes(20_000), b"PK\5\6" + bytes(18)])
def test_a_tail_may_go_under_a_mapped_store(tail: bytes, tmp_path: Path) -> None:
    path = str(tmp_path / "store.b2z")
    with blosc2.DictStore(path, mode="w") as store:
        store["/a"] = np.arange(5000)
    end = os.path.getsize(path)
    with open(path, "ab") as file:
        file.write(tail)
    with blosc2.DictStore(path, mode="r", mmap_mode="r") as reader:
        # Bytes of a mapping that the file no longer has would end this process.
        assert reader._table.backend.members.source.size == end
        with blosc2.DictStore(path, mode="a") as writer:
            assert os.path.getsize(path) == end
            writer["/b"] = np.arange(3)
        assert list(reader) == ["/a"]
        np.testing.assert_array_equal(reader["/a"][:], np.arange(5000))
        assert reader.refresh()
        assert sorted(reader) == ["/a", "/b"]


def test_a_part_of_an_open_file_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)))
    source = Source.open(str(path))
    part = source.mapped_to(50)
    assert (part.size, part.mapped, part.path, part.identity) == (50, True, str(path), source.identity)
    assert source.mapped_to(0).size == 0
    os.truncate(path, 60)
    assert part.read(0, 50) == bytes(range(50))
    with pytest.raises(FormatError, match="cut just now"):
        source.mapped_to(61)
