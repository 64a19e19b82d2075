"""Files of embedded values: damage is not copied, those of a folder are appended to, and the parts by themselves."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from fixture_kit.embedded_files import CHANGEABLE, check_layout, frame_of

import blosc2
from blosc2._backends.embedded_map import Embedded, open_embedded
from blosc2._core.io.source import Source
from blosc2._frames.checksums import verify_frame
from blosc2.exceptions import FormatError

# What is looked at is one publication of several changes.
pytestmark = pytest.mark.usefixtures("changes_wait")


# ------------------------------------------------------------------ damage
def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_damaged_values_are_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path) as store:
        rng = np.random.default_rng(1)
        store.update({f"/v{n}": rng.random(3000) for n in range(20)})
    embedded = open_embedded(str(path), None)
    byte_range = embedded.locate("/v0")
    assert byte_range is not None
    flip(path, byte_range[1] + 1000)
    before = path.read_bytes()
    with blosc2.EmbedStore(path) as store:
        with pytest.raises(FormatError, match="not those that were written"):
            store.compact()
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["x.b2e"]
        for _ in range(40):  # far more dead bytes than would otherwise be left
            store["/v19"] = rng.random(15_000)
            store.flush(durable=False)
    assert [finding.chunk for finding in verify_frame(frame_of(path))] == [0]
    with blosc2.EmbedStore(path, mode="r", verify=False) as store:
        assert len([leaf[()] for leaf in store.values()]) == 20
    # Without the values around the damage there is nothing left to be afraid of.
    with blosc2.EmbedStore(path) as store:
        for n in range(10):
            del store[f"/v{n}"]
        store.compact()
    check_layout(path)


# ------------------------------------------------------------------ in a directory
def test_embedded_values_of_a_directory_are_appended(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.TreeStore(path, mode="w", threshold=1 << 20) as store:
        for n in range(50):
            store[f"/g/v{n}"] = np.full(20, n)
        store["/g"].vlmeta["unit"] = "mm"
    embed = path / "embed.b2e"
    before = embed.read_bytes()
    inode = embed.stat().st_ino
    reader = blosc2.TreeStore(path, mode="r", mmap_mode=source)
    with blosc2.TreeStore(path, threshold=1 << 20) as store:
        store["/g/new"] = [1]
        del store["/g/v3"]
        store["/g/v4"][0] = 99
        store.rename("/g/v5", "/h/v5")
        store["/g"].vlmeta["count"] = 3
    after = embed.read_bytes()
    assert embed.stat().st_ino == inode
    assert {n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b} <= CHANGEABLE
    check_layout(embed)
    assert Embedded((Source.open(str(embed)), 0, -1)).kind == "b2tree"
    assert reader["/g/v3"][0] == 3
    reader.close()
    for turn in range(2):
        with blosc2.TreeStore(path, mode="r", mmap_mode=source) as store:
            assert "/g/v3" not in store
            assert store["/g/v4"][:2].tolist() == [99, 4]
            assert store["/h/v5"][0] == 5
            assert store["/g"].vlmeta[:] == {"unit": "mm", "count": 3}
            assert len(store["/g"]) == 49
        if turn == 0:
            with blosc2.TreeStore(path, threshold=1 << 20) as store:
                before_size, after_size = store.compact()
                assert after_size < before_size
    assert embed.stat().st_size < len(after)
    check_layout(embed)
