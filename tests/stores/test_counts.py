"""Acts of all kinds in any order, beside a dictionary: what is counted, listed and found is counted anew after each.

`BLOSC2_ACTS` is how many acts each case has; seeds come after another from `BLOSC2_SEED` on.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.recount import groups_of, recount
from store_makers import KINDS, Maker

import blosc2
from blosc2.exceptions import MissingFileError

NAMES = [
    "/a", "/b", "/g/a", "/g/b", "/g/h/c", "/g/h/d", "/g/h/i/e", "/k/a", "/k/b", "/g2/a", "/g-/x", "/é/ü", "/g.b2nd/x",
    "/G/y",
]  # fmt: skip
GROUPS = ["/g", "/g/h", "/k", "/n", "/n/m", "/é", "/g2"]
HIDDEN = "/__vlmeta__"
ACTS = int(os.environ.get("BLOSC2_ACTS", "40"))
SEED = int(os.environ.get("BLOSC2_SEED", "0"))

#: What an act may raise that is refused: nothing has happened then.
REFUSED = (ValueError, KeyError, TypeError, MissingFileError)


class Fails(Exception):
    """What a block raises."""


class Beside:
    """A store, and what it must hold."""

    def __init__(self, kind: str, folder: Path, rng: random.Random, *, locking: bool = False) -> None:
        self.make, self.rng, self.locking = Maker(kind, folder), rng, locking
        self.store = self.make("w", **self._how())
        self.now: dict[str, list[int]] = {}
        self.described: set[str] = set()
        self.held: list[Any] = []
        self.log: list[str] = []

    def _how(self) -> dict[str, Any]:
        return {"locking": True} if self.locking else {}

    # ------------------------------------------------------------------ the model
    def value(self) -> np.ndarray[Any, Any]:
        return np.full(self.rng.choice([1, 5, 40, 400]), self.rng.randrange(100))

    def given(self, value: np.ndarray[Any, Any]) -> Any:
        return self.rng.choice([value, value, value.tolist(), blosc2.asarray(value)])

    def key(self) -> str:
        return self.rng.choice(sorted(self.now) if self.now and self.rng.random() < 0.6 else NAMES)

    def below(self, group: str) -> list[str]:
        return [key for key in self.now if key.startswith(group + "/")]

    def drop(self, *keys: str) -> None:
        for key in keys:
            self.now.pop(key, None)

    def drop_group(self, group: str) -> None:
        self.drop(*self.below(group))
        self.described = {path for path in self.described if not (path + "/").startswith(group + "/")}

    def items(self) -> dict[str, Any]:
        return {self.key(): self.value() for _ in range(self.rng.randrange(1, 4))}

    # ------------------------------------------------------------------ acts on leaves
    def put(self) -> None:
        key, value = self.key(), self.value()
        self.store[key] = self.given(value)
        self.now[key] = value.tolist()

    def edit(self) -> None:
        if self.now:
            key = self.rng.choice(sorted(self.now))
            leaf = self.store[key]
            leaf[0] = 7
            self.now[key] = [7, *self.now[key][1:]]
            self.held.append(leaf)

    def hold(self) -> None:
        self.held.append(self.store.get(self.key()))

    def delete(self) -> None:
        key = self.key()
        del self.store[key]
        self.drop(key)

    def pop(self) -> None:
        key = self.key()
        leaf = self.store.pop(key)
        assert leaf[:].tolist() == self.now[key]
        self.drop(key)

    def pop_all_but_one(self) -> None:
        for key in self.rng.sample(sorted(self.now), max(0, len(self.now) - 1)):
            self.store.pop(key)
            self.drop(key)

    def popitem(self) -> None:
        key, leaf = self.store.popitem()
        assert leaf[:].tolist() == self.now[key]
        self.drop(key)

    def setdefault(self) -> None:
        key, value = self.key(), self.value()
        self.store.setdefault(key, value)
        self.now.setdefault(key, value.tolist())

    def clear(self) -> None:
        self.store.clear()
        self.now, self.described = {}, set()

    def update(self) -> None:
        items = self.items()
        self.store.update(items)
        self.now.update({key: value.tolist() for key, value in items.items()})

    def write_many(self) -> None:
        items = self.items()
        if self.rng.random() < 0.3:
            items |= {f"/many/{n}": self.value() for n in range(self.rng.choice([3, 40]))}
        self.store.write_many(items)
        self.now.update({key: value.tolist() for key, value in items.items()})

    def fail_to_write(self) -> None:
        def pairs() -> Any:
            yield from self.items().items()
            raise Fails

        with suppress(*REFUSED, Fails):
            self.rng.choice([self.store.update, self.store.write_many])(pairs())

    def rename(self) -> None:
        old, new = self.key(), self.rng.choice(NAMES)
        self.store.rename(old, new)
        self.now = {new if key == old else key: items for key, items in self.now.items()}

    # ------------------------------------------------------------------ acts on groups
    def fill_group(self) -> None:
        group = self.rng.choice(GROUPS)
        for n in range(self.rng.randrange(1, 9)):
            value = self.value()
            self.store[f"{group}/f{n}"] = value
            self.now[f"{group}/f{n}"] = value.tolist()

    def rename_group(self) -> None:
        old, new = self.rng.choice(GROUPS), self.rng.choice(GROUPS)
        self.store.rename(old, new)
        start = len(old)
        self.now = {
            new + key[start:] if (key + "/").startswith(old + "/") else key: items for key, items in self.now.items()
        }
        self.described = {new + path[start:] if (path + "/").startswith(old + "/") else path for path in self.described}

    def delete_group(self) -> None:
        group = self.rng.choice(GROUPS)
        del self.store[group]
        self.drop(group)
        self.drop_group(group)

    def create_group(self) -> None:
        group = self.rng.choice(GROUPS)
        was_there = group in groups_of(self.now, self.described)
        self.store.create_group(group)
        if not was_there:
            self.described.add(group)

    def describe(self) -> None:
        group = self.rng.choice(GROUPS)
        self.store.get_subtree(group).vlmeta["x"] = 3
        self.described.add(group)

    def undescribe(self) -> None:
        group = self.rng.choice(GROUPS)
        self.store.get_subtree(group).vlmeta.clear()
        self.described.discard(group)

    def set_at_group(self) -> None:
        group, value = self.rng.choice(GROUPS), self.value()
        self.store[group] = value
        self.now[group] = value.tolist()

    # ------------------------------------------------------------------ publishing
    def transaction(self) -> None:
        before = dict(self.now), set(self.described)
        fails = self.rng.random() < 0.5
        try:
            with self.store.transaction():
                for _ in range(self.rng.randrange(1, 5)):
                    self.act(self.rng.choice(CHANGES))
                if fails:
                    raise Fails
        except Fails:
            self.now, self.described = before

    def flush(self) -> None:
        self.store.flush()

    def refresh(self) -> None:
        with suppress(ValueError):  # something is unpublished
            self.store.refresh()

    def compact(self) -> None:
        self.store.compact()

    def discard(self) -> None:
        there = self.make.path.exists()
        self.now, self.described = {}, set()
        if there:
            self.see_published()
        self.store.discard()
        if there:
            before = dict(self.now), set(self.described)
            self.see_published()
            assert before == (self.now, self.described), "discard has published something"

    def see_published(self) -> None:
        """Take what others see for what must be there."""
        with self.make("r") as reader:
            leaves = {key: leaf[:].tolist() for key in reader if isinstance(leaf := reader[key], blosc2.NDArray)}
            described: set[str] = set()
            if self.make.is_tree:
                with blosc2.DictStore(str(self.make.path), mode="r") as plain:  # which shows the leaves of attributes
                    described = {key[: -len(HIDDEN)] for key in plain if key.endswith(HIDDEN)}
            recount(reader, leaves, described, NAMES + GROUPS)
            self.now, self.described = leaves, described

    def reopen(self) -> None:
        self.store.close()
        self.held = []
        if self.make.path.exists():
            assert blosc2.check(str(self.make.path)).ok
        self.store = self.make("a", **self._how())
        if self.rng.random() < 0.5:
            self.act(self.rng.choice(CHANGES), look=False)

    def look(self) -> None:
        recount(self.store, self.now, self.described, NAMES + GROUPS)

    def act(self, name: str, *, look: bool = True) -> None:
        if name in OF_TREES and not self.make.is_tree:
            return
        before = dict(self.now), set(self.described)
        self.log.append(name)
        try:
            getattr(self, name)()
        except REFUSED as error:
            self.log[-1] += f" refused: {error!r:.120}"
            if name not in ("pop_all_but_one", "fill_group"):
                self.now, self.described = before
        if len(self.held) > 5:
            self.held = []
        if look:
            self.look()


OF_TREES = ("rename_group", "delete_group", "create_group", "describe", "undescribe", "set_at_group")
LEAVES = (
    "put", "put", "put", "edit", "hold", "delete", "pop", "pop_all_but_one", "popitem", "setdefault", "clear", "update",
    "fail_to_write", "rename",
)  # fmt: skip
CHANGES = (*LEAVES, *OF_TREES, *OF_TREES, "fill_group")
ALL = (*CHANGES, *CHANGES, "write_many", "transaction", "flush", "refresh", "compact", "discard", "reopen", "reopen")


@pytest.mark.parametrize("pace", ["at once", "waits", "usual"])
@pytest.mark.parametrize("locking", [False, True], ids=["alone", "locking"])
@pytest.mark.parametrize("kind", KINDS)
def test_acts_beside_a_dictionary(
    kind: str, locking: bool, pace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if pace != "usual":
        request.getfixturevalue("changes_wait" if pace == "waits" else "publishes_at_once")
    if SEED % 2:
        monkeypatch.setattr("blosc2._stores.changes.MANY", 2)  # groups are moved as wholes
    if SEED % 3 == 1:
        monkeypatch.setattr("blosc2._stores.automatic_publishing.GROUP", 3)
    store = Beside(kind, tmp_path, random.Random(f"{kind} {locking} {pace} {SEED}"), locking=locking)
    try:
        for _ in range(ACTS):
            store.act(store.rng.choice(ALL))
        store.reopen()
        store.look()
    except BaseException as error:
        error.add_note("\n".join(store.log[-25:]))
        raise
    store.store.close()


@pytest.mark.parametrize("number", [250, 256, 262, 600])
@pytest.mark.parametrize("kind", ["tree-b2z", "tree-b2d", "b2z-mixed"])
def test_acts_on_large_groups(kind: str, number: int, tmp_path: Path) -> None:
    """From 256 leaves on an archive has a catalog, and what is done to large groups of it is noted in few words."""
    rng = random.Random(f"{kind} {number} {SEED}")
    for turn in range(3):
        (tmp_path / str(turn)).mkdir()
        store = Beside(kind, tmp_path / str(turn), rng)
        store.now = {f"{GROUPS[n % 3 and n % len(GROUPS)]}/k{n:03}": [n] for n in range(number)}
        store.store.write_many(store.now)
        try:
            for act in rng.choices(
                (*OF_TREES, *OF_TREES, "put", "delete", "hold", "update", "write_many", "clear", "transaction", "flush",
                 "discard", "compact", "reopen", "reopen"), k=9,
            ):  # fmt: skip
                store.act(act)
            store.reopen()
            store.look()
        except BaseException as error:
            error.add_note("\n".join(store.log))
            raise
        store.store.close()


# ------------------------------------------------------------------ the first act on a store that was just opened
def pop_some(store: Any) -> None:
    for key in ("/g/b", "/g/h/c", "/g/h/d"):
        store.pop(key)


def popitem(store: Any) -> None:
    store.popitem()


def clear(store: Any) -> None:
    store.clear()


def fail_in_a_transaction(store: Any) -> None:
    with suppress(Fails), store.transaction():
        store.pop("/g/b")
        raise Fails


# What is done, and what is left of `FIRST`.
FIRST = {f"/{name}": [n, 1, 2] for n, name in enumerate(["g/a", "g/b", "g/h/c", "g/h/d", "k"])}
FIRST_ACTS: dict[str, tuple[Callable[[Any], object], list[str]]] = {
    "pop": (lambda store: store.pop("/g/b"), ["/g/a", "/g/h/c", "/g/h/d", "/k"]),
    "pop some": (pop_some, ["/g/a", "/k"]),
    "popitem": (popitem, ["/g/b", "/g/h/c", "/g/h/d", "/k"]),
    "del": (lambda store: store.__delitem__("/g/b"), ["/g/a", "/g/h/c", "/g/h/d", "/k"]),
    "del of a group": (lambda store: store.__delitem__("/g/h"), ["/g/a", "/g/b", "/k"]),
    "clear": (clear, []),
    "setdefault": (lambda store: store.setdefault("/g/b", [9]), list(FIRST)),
    "a transaction that raises": (fail_in_a_transaction, list(FIRST)),
}


@pytest.mark.parametrize("act", FIRST_ACTS)
@pytest.mark.parametrize("more", [{}, {"locking": True}, {"threshold": 1000}, {"threshold": None}], ids=str)
@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
def test_the_first_act_counts_once(suffix: str, more: dict[str, Any], act: str, tmp_path: Path) -> None:
    path = tmp_path / ("x" + suffix)
    with blosc2.TreeStore(path, mode="w", threshold=more.get("threshold", 0)) as store:
        store.update({key: np.array(items) for key, items in FIRST.items()})
    do, left = FIRST_ACTS[act]
    with blosc2.TreeStore(path, mode="a", **more) as store:
        do(store)
        recount(store, {key: FIRST[key] for key in left}, (), FIRST)
        if "/g/h/d" in left or "/g/a" in left:
            with pytest.raises(ValueError, match="already has children"):
                store["/g"] = [1]
            store.rename("/g", "/n")
        recount(store, {key.replace("/g/", "/n/"): FIRST[key] for key in left}, (), FIRST)


def test_a_file_that_is_to_go_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its removal is pending when its key gets another leaf."""
    with blosc2.TreeStore(tmp_path / "x.b2d", mode="w") as store:
        store["/g/a"] = [1]
        with monkeypatch.context() as patch:
            patch.setattr("blosc2._stores.automatic_publishing.LeafPublishing.remove", lambda *given: False)
            patch.setattr("blosc2._stores.automatic_publishing.LeafPublishing.is_due", lambda *given: False)
            del store["/g/a"]
        recount(store, {}, (), ["/g/a"])
        store["/g/a"] = [2]
        recount(store, {"/g/a": [2]})
