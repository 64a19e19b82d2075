"""An interrupt at each line of what is done with a `.b2e`, and with the embedded values of the other stores.

Whatever the line, the file has the old version, the new one or one between; the handle shows that or what is still to
be published, and never goes back behind what others may have seen; and the next commit has all of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from store_makers import Maker, values_of

import blosc2
from sweeps.interrupted import count_lines, play_line

Values = dict[str, list[Any]]

OLD: Final[Values] = {"/a": [1, 2], "/b": list(range(50)), "/c": [3], "/d": list(range(9))}
#: Steps from one version to the next, each for a store and for a dict.
EDIT: Final = ("edit", "/a", 4)
NEW: Final = ("set", "/f", [5])
OVER: Final = ("set", "/c", list(range(40)))
RENAME: Final = ("rename", "/b", "/e")
DELETE: Final = ("delete", "/d", None)
STEPS: Final = (EDIT, RENAME, OVER, NEW, DELETE)
MANY: Final[Values] = {"/c": [7], "/m": list(range(30)), "/n": [1]}


def do(store: Any, what: str, key: str, value: Any) -> None:
    """A step, with a store."""
    if what == "edit":
        store[key][0] = value
    elif what == "set":
        store[key] = np.array(value)
    elif what == "rename":
        store.rename(key, value)
    else:
        del store[key]


def done(values: Values, what: str, key: str, value: Any) -> Values:
    """The values after a step."""
    values = dict(values)
    if what == "edit":
        values[key] = [value, *values[key][1:]]
    elif what == "set":
        values[key] = value
    else:
        before = values.pop(key)
        if what == "rename":
            values[value] = before
    return values


def after(*steps: Any, values: Values = OLD) -> list[Values]:
    """The versions that come one after the other."""
    versions = [values]
    for step in steps:
        versions.append(done(versions[-1], *step))
    return versions


class Embedded:
    """A store whose values are embedded, and what it may be afterwards: `versions`, from the old one to the new one."""

    def __init__(self, kind: str, folder: Path, operation: str) -> None:
        kind, _, way = kind.partition(" ")
        self.make = Maker(kind, folder)
        if kind != "b2e":
            self.make.options = {"threshold": None}
        if way:
            self.make.options = {**self.make.options, "locking": True}
        self.versions = [OLD]
        self.store: Any = None
        self._begin, self._act = OPERATIONS[operation]
        self._begin(self)

    def fill(self, values: Values = OLD) -> Any:
        """Open a store with these values."""
        with self.make("w") as store:
            store.update({key: np.array(value) for key, value in values.items()})
        self.versions = [values]
        self.store = self.make("a")
        self.leaf = self.store["/a"] if values else None
        return self.store

    def act(self) -> object:
        return self._act(self)

    def check(self) -> None:
        assert self.make.values() in self.versions
        if self.store is not None and not self.store.closed:
            self._check_open(self.store)
        with self.make("a", timeout=1) as other:
            now = values_of(other)
            other["/last"] = [1]
        assert self.make.values() == {**now, "/last": [1]}
        assert blosc2.check(self.make.path).ok
        assert [name for name in os.listdir(self.make.path.parent) if not name.endswith("lock")] == [
            self.make.path.name
        ]

    def _check_open(self, store: Any) -> None:
        published, shown = self.make.values(), values_of(store)
        assert shown in self.versions
        assert self.versions.index(shown) >= self.versions.index(published), f"has {published}, shows {shown}"
        assert len(list(store)) == len(store)
        assert all(key in store for key in store)
        if self.leaf is not None and self.leaf is store.get("/a"):
            assert self.leaf[:].tolist() == shown["/a"]
        store["/more"] = [1]
        store.flush()
        shown["/more"] = [1]
        assert self.make.values() == values_of(store) == shown
        if self.leaf is not None and "/a" in shown:
            store["/a"][1] = 6
            shown["/a"] = [shown["/a"][0], 6]
            store.flush()
            assert self.make.values() == values_of(store) == shown
        store.close()
        assert self.make.values() == shown


def begin_steps(*steps: Any, values: Values = OLD) -> Callable[[Embedded], None]:
    """A store, in which each of these steps is published at once."""

    def begin(scene: Embedded) -> None:
        at_once(scene.fill(values))
        scene.versions = after(*steps, values=values)

    return begin


def in_steps(*steps: Any) -> Callable[[Embedded], None]:
    def act(scene: Embedded) -> None:
        for step in steps:
            do(scene.store, *step)

    return act


def steps_at_once(*steps: Any, values: Values = OLD) -> Any:
    return begin_steps(*steps, values=values), in_steps(*steps)


def begin_pending(scene: Embedded) -> None:
    """A store with changes that wait."""
    store = scene.fill()
    let_wait(store)
    for step in STEPS:
        do(store, *step)
    last = after(*STEPS)[-1]
    if "locking" in scene.make.options:  # each is published
        scene.versions = [last]
    else:
        scene.versions = [OLD, last]
        assert scene.make.values() == OLD
    assert values_of(store) == last


def begin_edited(scene: Embedded) -> None:
    """A store with a leaf that was edited."""
    store = scene.fill()
    let_wait(store)
    store["/a"][0] = 4
    versions = after(EDIT)
    scene.versions = versions[1:] if "locking" in scene.make.options else versions


def begin_published(scene: Embedded) -> None:
    begin_pending(scene)
    scene.store.flush()
    scene.versions = scene.versions[-1:]


def at_once(store: Any) -> None:
    store._publishing.pace._spent = -1e9


def let_wait(store: Any) -> None:
    store._publishing.pace._spent = store._publishing.pace._took = 1e12


def begin_one_step(scene: Embedded) -> None:
    at_once(scene.fill())
    scene.versions = [OLD, after(*STEPS)[-1]]


def begin_many(scene: Embedded) -> None:
    at_once(scene.fill())
    scene.versions = [OLD, {**OLD, **MANY}]


def begin_empty(scene: Embedded) -> None:
    at_once(scene.fill())
    scene.versions = [OLD, {}]
    scene.leaf = None


def begin_new(scene: Embedded) -> None:
    """Nothing is there yet."""
    scene.versions = [{}]
    scene.check = partial(check_made, scene)  # type: ignore[method-assign]
    scene.leaf = None


def begin_over(scene: Embedded) -> None:
    """A store is there already, which stays until the first change of the new one."""
    scene.fill().close()
    scene.store = scene.leaf = None
    scene.versions = [OLD, {}]


def create(scene: Embedded) -> None:
    scene.store = scene.make("w")


def check_made(scene: Embedded) -> None:
    """There is a store or none."""
    if scene.store is None and not scene.make.path.exists():
        assert not os.listdir(scene.make.path.parent)
        create(scene)
    if not scene.make.path.exists():  # which comes with the first change
        scene.store.flush()
    Embedded.check(scene)


def transact(scene: Embedded) -> None:
    with scene.store.transaction():
        in_steps(*STEPS)(scene)


def undo(scene: Embedded) -> None:
    with suppress(ZeroDivisionError), scene.store.transaction():
        in_steps(*STEPS)(scene)
        1 / 0  # noqa: B018


def begin_undone(scene: Embedded) -> None:
    at_once(scene.fill())


def update(scene: Embedded) -> None:
    scene.store.update({key: np.array(value) for key, value in MANY.items()})


def write_many(scene: Embedded) -> None:
    scene.store.write_many((key, np.array(value)) for key, value in MANY.items())


def leave(scene: Embedded) -> None:
    with scene.store:
        pass


def leave_by_error(scene: Embedded) -> None:
    with suppress(ZeroDivisionError), scene.store:
        1 / 0  # noqa: B018


#: What is prepared and what is interrupted.
OPERATIONS: Final[dict[str, tuple[Callable[[Embedded], None], Callable[[Embedded], object]]]] = {
    "assign": steps_at_once(NEW),
    "assign the first": steps_at_once(NEW, values={}),
    "assign again": steps_at_once(OVER),
    "assign twice": steps_at_once(NEW, OVER),
    "delete": steps_at_once(DELETE),
    "rename": steps_at_once(RENAME),
    "pop": (begin_steps(DELETE), lambda scene: scene.store.pop("/d")),
    "popitem": (begin_steps(("delete", "/a", None)), lambda scene: scene.store.popitem()),
    "setdefault": (begin_steps(NEW), lambda scene: scene.store.setdefault("/f", np.array([5]))),
    "clear": (begin_empty, lambda scene: scene.store.clear()),
    "steps": steps_at_once(*STEPS),
    "update": (begin_many, update),
    "write_many": (begin_many, write_many),
    "edit, flush": (begin_edited, lambda scene: scene.store.flush()),
    "flush": (begin_pending, lambda scene: scene.store.flush()),
    "quick flush": (begin_pending, lambda scene: scene.store.flush(durable=False)),
    "close": (begin_pending, lambda scene: scene.store.close()),
    "leave": (begin_pending, leave),
    "leave by an error": (begin_pending, leave_by_error),
    "discard": (begin_pending, lambda scene: scene.store.discard()),
    "refresh": (begin_published, lambda scene: scene.store.refresh()),
    "transaction": (begin_one_step, transact),
    "undone": (begin_undone, undo),
    "compact": (begin_published, lambda scene: scene.store.compact()),
    "compact with changes": (begin_pending, lambda scene: scene.store.compact()),
    "create": (begin_new, create),
    "create over": (begin_over, create),
}
_KINDS: Final = ("b2e", "b2d", "b2z") + (("b2e shared",) if os.name != "nt" else ())


def cases() -> list[str]:
    return [f"{operation}; {kind}" for operation in OPERATIONS for kind in _KINDS]


def begin(case: str, folder: Path) -> Embedded:
    operation, _, kind = case.partition("; ")
    return Embedded(kind, folder, operation)


def count(case: str, folder: Path) -> int:
    return count_lines(partial(begin, case), folder)


def play(case: str, at: int, folder: Path) -> None:
    play_line(partial(begin, case), at, folder)
