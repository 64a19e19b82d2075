"""Scenarios of stores."""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import blosc2
from faults.paces import ForcedPace
from faults.scenarios import REFUSED, Kind, Play, Step, Value, noise, value_of


@dataclass
class StoreKind(Kind):
    """A store: class and keyword arguments."""

    make: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    #: When it publishes by itself, one of PACES: what it does must not depend on how quick this machine is.
    pace: str = "quick"
    creates = True

    @property
    def is_tree(self) -> bool:
        return self.make is blosc2.TreeStore

    @property
    def at_once(self) -> bool:  # type: ignore[override]
        """Whether assignments and deletions may be published when they return, and a new store when it is opened."""
        return self.shared or not self.name.endswith(".b2z")

    @property
    def shared(self) -> bool:
        """Whether each change is published when it returns."""
        return bool(self.options.get("locking"))

    @property
    def there_when_opened(self) -> bool:
        """Whether a new store is there when it is opened."""
        return self.shared or self.make is blosc2.EmbedStore

    def open(self, path: str, mode: str) -> Any:
        handle = self.make(path, mode=mode, **self.options)
        if isinstance(handle, blosc2.EmbedStore):
            handle._table.publishing.pace = ForcedPace(self.pace)
        else:
            handle._table.publishing.pace, handle._table.publishing.leaf_pace = (
                ForcedPace(self.pace),
                ForcedPace(self.pace),
            )
        return handle

    def read(self, handle: Any) -> dict[str, Value]:
        values = {}
        for key in handle:
            try:
                leaf = handle[key]
                if not isinstance(leaf, blosc2.TreeStore):
                    values[key] = value_of(leaf[()], dict(leaf.vlmeta[:]))
            except blosc2.exceptions.FormatError as error:
                if self.atomic or key not in str(error):
                    raise
                values[key] = REFUSED
        if self.is_tree:
            for group, _, _ in handle.walk("/"):
                try:
                    attributes = (handle if group == "/" else handle.get_subtree(group)).vlmeta[:]
                except blosc2.exceptions.FormatError as error:
                    if self.atomic or group not in str(error):
                        raise
                    values[f"attributes of {group}"] = REFUSED
                    continue
                if attributes:
                    values[f"attributes of {group}"] = value_of(0, attributes)
        return values

    def close(self, handle: Any) -> None:
        handle.close()

    def drop(self, handle: Any) -> None:
        if not handle.closed:
            handle.discard()
            handle.close()

    def extend(self, handle: Any, version: dict[str, Value]) -> dict[str, Value]:
        handle["/added/late"] = np.arange(11)
        handle.flush()
        return {**version, "/added/late": value_of(np.arange(11))}


class StoreStory:
    """Steps for a store, which publishes on flush and close, and may do so with each assignment, durable or not."""

    def __init__(self, kind: StoreKind) -> None:
        self.kind = kind
        self.steps: list[Step] = []
        #: Steps whose changes are forgotten when they fail.
        self.undone: list[Step] = []

    def opened(self, mode: str) -> None:
        def step(play: Play) -> None:
            def act() -> None:
                play.handle = play.kind.open(play.path, mode)

            if self.kind.there_when_opened and mode == "w" and not os.path.lexists(play.path):
                play.publish({}, act)
            else:
                act()
            if mode == "w":
                play.now = {}

        self.steps.append(step)

    def change(self, play: Play, version: dict[str, Value], act: Callable[[], Any]) -> None:
        """Do what changes keys; where that may be published at once, it is certain only when it is flushed."""
        if self.kind.at_once:
            play.publish(version, act, durable=False)
        else:
            act()
        play.now = version

    def change_leaf(self, play: Play, version: dict[str, Value], act: Callable[[], Any]) -> None:
        """The same for a live leaf, which waits for a publication if nobody else changes the store."""
        if self.kind.shared:
            self.change(play, version, act)
        else:
            act()
            play.now = version

    def put(self, key: str, array: Any) -> None:
        array = np.asarray(array)

        def step(play: Play) -> None:
            self.change(play, {**play.now, key: value_of(array)}, lambda: play.handle.__setitem__(key, array))

        self.steps.append(step)

    def fill(self, group: str, number: int) -> None:
        """Give a group many leaves."""

        def step(play: Play) -> None:
            for n in range(number):  # each is a change of its own: those before one that fails stay
                key, array = f"{group}/n{n:03}", np.full(3, n, "i2")
                version = {**play.now, key: value_of(array)}
                self.change(play, version, partial(operator.setitem, play.handle, key, array))

        self.steps.append(step)

    def delete(self, key: str) -> None:
        def step(play: Play) -> None:
            if key in play.now:
                version = {k: v for k, v in play.now.items() if k != key}
                self.change(play, version, lambda: play.handle.__delitem__(key))

        self.steps.append(step)

    def delete_group(self, group: str) -> None:
        def step(play: Play) -> None:
            gone = [k for k in play.now if k.startswith((f"{group}/", f"attributes of {group}"))]
            if any(not k.startswith("attr") for k in gone):
                version = {k: v for k, v in play.now.items() if k not in gone}
                self.change(play, version, lambda: play.handle.__delitem__(group))

        if self.kind.is_tree:
            self.steps.append(step)

    def edit(self, key: str, at: int, part: Any) -> None:
        """Change items of a live leaf."""

        def step(play: Play) -> None:
            if key not in play.now:
                return
            dtype, shape, data, metadata = play.now[key]
            array = np.frombuffer(data, dtype).reshape(shape).copy()
            array[at : at + len(part)] = part
            version = {**play.now, key: (dtype, shape, array.tobytes(), metadata)}
            self.change_leaf(play, version, lambda: play.handle[key].__setitem__(slice(at, at + len(part)), part))

        self.steps.append(step)

    def note(self, key: str, **metadata: Any) -> None:
        """Change the metadata of a live leaf that had none."""

        def step(play: Play) -> None:
            if key in play.now:
                version = {**play.now, key: (*play.now[key][:3], repr(sorted(metadata.items())))}
                self.change_leaf(play, version, lambda: play.handle[key].vlmeta.update(metadata))

        self.steps.append(step)

    def attributes(self, group: str, **values: Any) -> None:
        def step(play: Play) -> None:
            def act() -> None:
                (play.handle if group == "/" else play.handle.get_subtree(group)).vlmeta[:] = values

            self.change(play, {**play.now, f"attributes of {group}": value_of(0, values)}, act)

        if self.kind.is_tree:
            self.steps.append(step)

    def rename(self, old: str, new: str) -> None:
        """Give a leaf another key."""

        def step(play: Play) -> None:
            if old in play.now and new not in play.now:
                version = {new if key == old else key: value for key, value in play.now.items()}
                self.change(play, version, lambda: play.handle.rename(old, new))

        self.steps.append(step)

    def rename_group(self, old: str, new: str) -> None:
        """Give a group, with its attributes, another name."""

        def moved(key: str) -> str:
            if key == f"attributes of {old}":
                return f"attributes of {new}"
            return new + key[len(old) :] if key.startswith(old + "/") else key

        def step(play: Play) -> None:
            # By an attempt that failed half way, and came no further than the attributes perhaps.
            taken = any(key.startswith((f"{new}/", f"attributes of {new}")) for key in play.now)
            if any(key.startswith(old + "/") for key in play.now) and not taken:
                version = {moved(key): value for key, value in play.now.items()}
                self.change(play, version, lambda: play.handle.rename(old, new))

        if self.kind.is_tree:
            self.steps.append(step)

    def transaction(self, puts: dict[str, Any], deletes: tuple[str, ...] = (), renames: dict[str, str] | None = None,
                    *, title: str = "", fails: bool = False) -> None:  # fmt: skip
        """Several changes at once, or none when the block raises."""

        def step(play: Play) -> None:
            version = {key: value for key, value in play.now.items() if key not in deletes}
            moves = {old: new for old, new in (renames or {}).items() if old in version and new not in version}
            version = {moves.get(key, key): value for key, value in version.items()}
            version |= {key: value_of(value) for key, value in puts.items()}
            if title and self.kind.is_tree:
                version["attributes of /"] = value_of(0, {"title": title})

            def act() -> None:
                with play.handle.transaction() as store:
                    for key in deletes:
                        if key in play.now:
                            del store[key]
                    for old, new in moves.items():
                        store.rename(old, new)
                    store.update(puts)
                    if title and self.kind.is_tree:
                        store.vlmeta["title"] = title
                    if fails:
                        raise ZeroDivisionError

            if fails:
                with contextlib.suppress(ZeroDivisionError):
                    act()
                return
            play.publish(version, act)
            play.now = version

        self.undone.append(step)
        self.steps.append(step)

    def compact(self) -> None:
        self.steps.append(lambda play: play.publish(play.now, play.handle.compact))

    def flush(self, *, durable: bool = True) -> None:
        self.steps.append(lambda play: play.publish(play.now, lambda: play.handle.flush(durable=durable)))

    def close(self) -> None:
        def step(play: Play) -> None:
            play.publish(play.now, play.handle.close)
            play.handle = None

        self.steps.append(step)


def store_story(kind: StoreKind) -> StoreStory:
    story = StoreStory(kind)
    story.opened("w")
    story.put("/small", np.arange(8))
    story.put("/g/large", noise(700, 1))
    story.put("/g/h/small", np.arange(3.0))
    story.attributes("/g", unit="mm")
    story.flush()
    story.put("/small", np.arange(9))
    story.delete("/g/h/small")
    story.put("/other", np.arange(5))
    story.attributes("/g", unit="cm")
    story.attributes("/", title="all")
    story.flush()
    story.edit("/g/large", 100, noise(300, 2))
    story.note("/small", seen=True)
    story.flush()
    story.delete("/other")
    story.put("/small", noise(400, 3))  # across the tiers, where there are two
    story.close()
    story.opened("a")
    story.put("/g/large", np.arange(4))  # and back
    story.put("/new/a", noise(100, 4))
    story.put("/new/b", np.arange(6))
    story.flush()
    story.edit("/new/a", 0, np.arange(20))
    story.flush()
    story.delete_group("/new")
    story.delete("/g/large")
    story.put("/last", np.arange(2))
    story.close()
    return story


def upkeep_story(kind: StoreKind) -> StoreStory:
    """Renames, transactions, compaction, replacement."""
    story = StoreStory(kind)
    story.opened("w")
    for number in range(3):
        story.put(f"/g/n{number}", noise(20 + 150 * number, number))
    story.put("/top", noise(30, 5))
    story.attributes("/g", unit="mm")
    story.flush()
    story.rename("/top", "/g/sub/top")
    story.put("/top", np.arange(3))
    story.flush()
    story.rename_group("/g", "/moved")
    story.flush()
    story.transaction({"/a": noise(40, 6), "/b": noise(200, 7)}, ("/top",), title="one")
    story.transaction({"/a": noise(41, 8), "/d": np.arange(1)}, ("/b",), {"/moved/n0": "/was"}, title="two")
    story.transaction({"/never": np.arange(5)}, ("/a",), fails=True)
    story.rename("/d", "/a2")
    story.rename("/was", "/d")  # where another one was
    story.rename("/a2", "/e")
    story.flush()
    story.rename("/d", "/was")
    story.compact()
    story.put("/a", noise(60, 9))
    story.delete("/was")
    story.compact()
    story.close()
    story.opened("w")
    story.put("/a", np.arange(7))
    story.put("/fresh/b", noise(250, 10))
    story.close()
    return story


def crowd_story(kind: StoreKind) -> StoreStory:
    """More leaves in one commit than are synced at the same time."""
    story = StoreStory(kind)
    story.opened("w")
    for number in range(18):
        story.put(f"/g{number % 3}/n{number}", noise(8, number))
    story.flush()
    for number in range(17):
        story.put(f"/g{number % 3}/n{number}", noise(9 + number, number + 20))
    story.delete("/g2/n17")
    story.close()
    return story


def ranges_story(kind: StoreKind) -> StoreStory:
    """Few changes of many leaves, with a catalog (see `conftest.py`); groups that go and get other names."""
    story = StoreStory(kind)
    story.opened("w")
    for group, number in (("/a", 12), ("/b/c", 16), ("/d", 16)):
        story.fill(group, number)
    story.attributes("/b", unit="mm")
    story.flush()
    story.put("/a/more", noise(40, 1))
    story.put("/d/n007", np.arange(4))
    story.delete("/d/n011")
    story.flush()
    story.delete_group("/b/c")
    story.put("/b/c/again", np.arange(5))
    story.flush()
    story.rename_group("/a", "/e/f")
    story.delete("/e/f/n003")
    story.flush()
    story.delete_group("/d")
    story.close()
    story.opened("a")
    story.put("/last", np.arange(2))
    story.close()
    return story


def hasty_story(kind: StoreKind) -> StoreStory:
    """Changes that are not waited for: whole when the program dies, though not when the power fails."""
    story = StoreStory(kind)
    story.opened("w")
    story.put("/a", noise(30, 1))
    story.put("/g/b", noise(300, 2))
    story.flush(durable=False)
    story.put("/a", np.arange(3))
    story.edit("/g/b", 5, noise(100, 3))
    story.flush(durable=False)
    story.delete("/a")
    story.put("/c", noise(70, 4))
    story.flush(durable=False)
    story.close()
    return story


def _store(name: str, make: Any, **options: Any) -> StoreKind:
    return StoreKind(name, not name.endswith(".b2d"), make, options)
