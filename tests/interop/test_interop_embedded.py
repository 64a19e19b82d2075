"""Files of embedded values that are changed in place, by us and by the reference in turn, after each change."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from fixture_kit import peer
from interop.test_interop_stores import Model

import blosc2
from blosc2._backends.embedded_map import open_embedded

pytestmark = pytest.mark.interop

forms = pytest.mark.parametrize(
    ("cls", "suffix"), [("EmbedStore", ".b2e"), ("DictStore", ".b2d"), ("TreeStore", ".b2d")]
)
EVERYTHING_EMBEDDED = 1 << 40


def check_both(model: Model, path: str, upstream: Any) -> None:
    for got in (peer.describe(path), peer.describe(path, "r"), upstream.describe(path=path)):
        model.check(got)
    report = blosc2.check(path)
    assert report.ok, report


def file_of(path: str) -> str:
    return path if path.endswith(".b2e") else os.path.join(path, "embed.b2e")


def open_store(cls: str, path: str) -> Any:
    more = {} if cls == "EmbedStore" else {"threshold": EVERYTHING_EMBEDDED}
    return getattr(blosc2, cls)(path, mode="a", **more)


def random_steps(rng: random.Random, model: Model, number: int) -> list[list[Any]]:
    """Changes of one publication: keys come, go and get other values."""
    steps: list[list[Any]] = []
    keys = set(model.leaves)
    for _ in range(number):
        key = f"/g{rng.randrange(3)}/k{rng.randrange(8)}"
        if key in keys and rng.random() < 0.4:
            steps.append(["delete", key])
            keys.remove(key)
        else:
            steps.append(["set", key, rng.choice(["small", "big", "empty", "scalar"]), rng.randrange(100)])
            keys.add(key)
    return steps


@pytest.mark.usefixtures("ends_as_it_is")
@forms
@pytest.mark.parametrize("seed", range(3))
def test_every_version_of_ours_is_read_by_the_reference(
    cls: str, suffix: str, seed: int, tmp_path: Path, upstream: Any
) -> None:
    path = str(tmp_path / f"store{suffix}")
    rng = random.Random(seed)
    model = Model()
    steps = [["set", f"/start/{n}", "small", n] for n in range(10)]
    peer.change_store(path, cls, "w", steps, EVERYTHING_EMBEDDED)
    model.apply(steps)
    inode = os.stat(file_of(path)).st_ino
    for turn in range(12):
        steps = random_steps(rng, model, rng.randrange(1, 5))
        peer.change_store(path, cls, "a", steps, EVERYTHING_EMBEDDED)
        model.apply(steps)
        if turn % 3 == 0:
            old = rng.choice(sorted(model.leaves))
            with open_store(cls, path) as store:
                store.rename(old, f"/renamed/{turn}")
            model.leaves[f"/renamed/{turn}"] = model.leaves.pop(old)
        check_both(model, path, upstream)
    assert os.stat(file_of(path)).st_ino == inode  # never written anew
    with open_store(cls, path) as store:
        before, after = store.compact()
        assert after < before
    check_both(model, path, upstream)


@pytest.mark.usefixtures("ends_as_it_is")
@forms
@pytest.mark.parametrize("seed", range(3))
def test_both_append_in_turn(cls: str, suffix: str, seed: int, tmp_path: Path, upstream: Any) -> None:
    """Values that the reference appends to our file stay byte ranges of it, and we append in place after them."""
    path = str(tmp_path / f"store{suffix}")
    rng = random.Random(seed)
    model = Model()
    steps = [["set", f"/start/{n}", "big" if n == 3 else "small", n] for n in range(10)]
    peer.change_store(path, cls, "w", steps, EVERYTHING_EMBEDDED)
    model.apply(steps)
    for turn in range(8):
        theirs = turn % 2 == 0
        steps = random_steps(rng, model, rng.randrange(1, 6))
        inode = os.stat(file_of(path)).st_ino
        side = upstream if theirs else peer
        side.change_store(path=path, cls=cls, mode="a", steps=steps, threshold=EVERYTHING_EMBEDDED)
        model.apply(steps)
        check_both(model, path, upstream)
        if not theirs:
            assert os.stat(file_of(path)).st_ino == inode
        embedded = open_embedded(file_of(path), "r")
        for key, entry in embedded.entries.items():
            byte_range = embedded.locate(key)
            assert byte_range is not None
            if entry["offset"] // embedded.frame.chunksize == (
                (entry["offset"] + entry["length"] - 1) // embedded.frame.chunksize
            ):
                assert byte_range[0] is embedded.frame.source, key


@forms
def test_the_reference_goes_on_after_a_half_written_append(
    cls: str, suffix: str, tmp_path: Path, upstream: Any
) -> None:
    path = str(tmp_path / f"store{suffix}")
    model = Model()
    steps = [["set", f"/start/{n}", "small", n] for n in range(10)]
    peer.change_store(path, cls, "w", steps, EVERYTHING_EMBEDDED)
    model.apply(steps)
    file = Path(file_of(path))
    before = file.read_bytes()
    peer.change_store(path, cls, "a", [["set", "/lost", "big", 1]], EVERYTHING_EMBEDDED)
    after = file.read_bytes()
    for cut in (1, (len(after) - len(before)) // 2, len(after) - len(before)):
        file.write_bytes(before + after[len(before) : len(before) + cut])
        for got in (peer.describe(path), upstream.describe(path=path)):
            model.check(got)
    more = [["set", "/more", "small", 5]]
    upstream.change_store(path=path, cls=cls, mode="a", steps=more, threshold=EVERYTHING_EMBEDDED)
    model.apply(more)
    for got in (peer.describe(path), upstream.describe(path=path)):
        model.check(got)
