"""Keys that exclude each other: a new leaf is not published before what had to go for it, and `check` finds both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.recount import recount

import blosc2

LARGE = np.arange(500)


def remove_attributes(store: Any) -> None:
    store["/g"].vlmeta.clear()


def remove_value(store: Any) -> None:
    del store["/h/small"]


# What is removed, then what is assigned that could not be there beside it, in a tree or in any store.
PAIRS: dict[str, tuple[Callable[[Any], None], str, bool]] = {
    "attributes, a leaf": (remove_attributes, "/g", True),
    "a value, a leaf": (remove_value, "/h", True),
    "a value, a leaf below it": (remove_value, "/h/small/x", True),
    "a value, another case": (remove_value, "/h/SMALL", False),
    "a value, a folder like its file": (remove_value, "/h/small.b2nd/x", False),
}


@pytest.mark.parametrize("how", ["set", "update", "rename"])
@pytest.mark.parametrize(
    ("cls", "pair"),
    [(cls, pair) for pair, found in PAIRS.items() for cls in (blosc2.TreeStore, blosc2.DictStore)[: 2 - found[2]]],
)
@pytest.mark.usefixtures("publishes_at_once")
def test_what_excluded_a_leaf_does_not_come_back_beside_it(
    cls: type, pair: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, key, _ = PAIRS[pair]
    is_tree = cls is blosc2.TreeStore
    path = str(tmp_path / "x.b2d")
    with cls(path, mode="w", threshold=100) as store:
        store["/h/small"], store["/k"] = [1], LARGE
        if is_tree:
            store.create_group("/g").vlmeta["x"] = 1
    with cls(path, mode="a", threshold=100) as store:
        with monkeypatch.context() as patch:  # the removal waits, as in a large store
            patch.setattr("blosc2._backends.publish_pace.Pace.is_due", lambda *given: False)
            remove(store)
        if how == "rename":
            store.rename("/k", key)
        elif how == "update":
            store.update({key: LARGE})
        else:
            store[key] = LARGE
        store.discard()
        leaves = {name: leaf[:].tolist() for name in store if isinstance(leaf := store[name], blosc2.NDArray)}
        assert leaves[key] == LARGE.tolist()
        assert len({name.lower() for name in leaves}) == len(leaves)
        recount(store, leaves, {"/g"} if is_tree and key != "/g" else ())
        assert key == "/g" or "/h/small" not in leaves
    assert blosc2.check(path).ok


@pytest.mark.parametrize("embedded", [0, 1, 2])
@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
def test_check_finds_a_name_of_a_leaf_and_a_group(suffix: str, embedded: int, tmp_path: Path) -> None:
    path = str(tmp_path / ("x" + suffix))
    with blosc2.TreeStore(path, mode="w", threshold=100 if embedded else 0) as store:
        store["/g/x"] = [1] if embedded == 1 else LARGE
        store["/g-"] = [1]
    assert blosc2.check(path).ok
    with blosc2.DictStore(path, threshold=100 if embedded else 0) as store:
        store["/g"] = [1] if embedded == 2 else LARGE
    (finding,) = blosc2.check(path)
    assert finding.key == "/g"
    assert "a group as well" in finding.problem
    with blosc2.DictStore(path) as store:  # as it says
        store.rename("/g", "/other")
    assert blosc2.check(path).ok
    with blosc2.TreeStore(path) as store:
        assert list(store) == ["/g", "/g-", "/g/x", "/other"]
