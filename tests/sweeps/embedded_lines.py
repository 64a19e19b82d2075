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
from typing import Any, Final, NamedTuple

import numpy as np
from store_makers import Maker, values_of

import blosc2
from sweeps.interrupted import count_lines, play_line
from sweeps.lines import Model, Values, delete, put, update, write

Step = Callable[[Any], object]

OLD: Final[Values] = {"/a": [1, 2], "/b": list(range(50)), "/c": [3], "/d": list(range(9))}
MANY: Final[Values] = {"/c": [7], "/m": list(range(30)), "/n": [1]}


def edit(store: Any) -> None:
    store["/a"][0] = 4


def rename(store: Any) -> None:
    store.rename("/b", "/e")


NEW, OVER, DELETE = put(("/f", [5])), put(("/c", range(40))), delete("/d")
#: Steps from one version to the next, of a store or of a `Model`.
STEPS: Final[tuple[Step, ...]] = (edit, rename, OVER, NEW, DELETE)


def do(store: Any, steps: tuple[Step, ...]) -> None:
    for step in steps:
        step(store)


def transact(store: Any) -> None:
    with store.transaction():
        do(store, STEPS)


def undo(store: Any) -> None:
    with suppress(ZeroDivisionError), store.transaction():
        do(store, STEPS)
        1 / 0  # noqa: B018


def leave(store: Any) -> None:
    with store:
        pass


def leave_by_error(store: Any) -> None:
    with suppress(ZeroDivisionError), store:
        1 / 0  # noqa: B018


class Operation(NamedTuple):
    """What is interrupted.

    Attributes
    ----------
    steps : tuple
        Steps of which each is published at once, or that publish what waits.
    act : callable
        What a store does in their place.
    before : tuple
        Steps that wait when it begins.
    flushed : bool
        Whether they were published then.
    values : dict
        What the store has at first.
    makes : bool
        Whether the store is to be made; with `values`, in place of another one.
    """

    steps: tuple[Step, ...] = ()
    act: Step | None = None
    before: tuple[Step, ...] = ()
    flushed: bool = False
    values: Values = OLD
    makes: bool = False


OPERATIONS: Final[dict[str, Operation]] = {
    "assign": Operation((NEW,)),
    "assign the first": Operation((NEW,), values={}),
    "assign again": Operation((OVER,)),
    "assign twice": Operation((NEW, OVER)),
    "delete": Operation((DELETE,)),
    "rename": Operation((rename,)),
    "pop": Operation((DELETE,), lambda store: store.pop("/d")),
    "popitem": Operation((delete("/a"),), lambda store: store.popitem()),
    "setdefault": Operation((NEW,), lambda store: store.setdefault("/f", np.array([5]))),
    "clear": Operation((lambda store: store.clear(),)),
    "steps": Operation(STEPS),
    "update": Operation((update(MANY),)),
    "write_many": Operation((write(MANY),)),
    "edit, flush": Operation((lambda store: store.flush(),), before=(edit,)),
    "flush": Operation((lambda store: store.flush(),), before=STEPS),
    "quick flush": Operation((lambda store: store.flush(durable=False),), before=STEPS),
    "close": Operation((lambda store: store.close(),), before=STEPS),
    "leave": Operation((leave,), before=STEPS),
    "leave by an error": Operation((leave_by_error,), before=STEPS),
    "discard": Operation((lambda store: store.discard(),), before=STEPS),
    "refresh": Operation((lambda store: store.refresh(),), before=STEPS, flushed=True),
    "transaction": Operation((transact,)),
    "undone": Operation((undo,)),
    "compact": Operation((lambda store: store.compact(),), before=STEPS, flushed=True),
    "compact with changes": Operation((lambda store: store.compact(),), before=STEPS),
    "create": Operation(values={}, makes=True),
    "create over": Operation(makes=True),
}


class Embedded:
    """A store whose values are embedded, and what it may be afterwards: `versions`, from the old one to the new one."""

    def __init__(self, kind: str, folder: Path, operation: str) -> None:
        kind, _, way = kind.partition(" ")
        self.make = Maker(kind, folder)
        if kind != "b2e":
            self.make.options = {"threshold": None}
        if way:
            self.make.options = {**self.make.options, "locking": True}
        self.operation = OPERATIONS[operation]
        self.versions = [self.operation.values]
        self.store: Any = None
        self.leaf: Any = None
        if self.operation.values or not self.operation.makes:
            with self.make("w") as store:
                store.update({key: np.array(value) for key, value in self.operation.values.items()})
        if self.operation.makes:
            self.versions.append({})
        else:
            self._begin()

    def _begin(self) -> None:
        """Do what comes before the interrupt, and find out what comes of it."""
        operation, model = self.operation, Model(self.operation.values)
        self.store = store = self.make("a")
        self.leaf = store.get("/a")
        pace = store._table.publishing.pace
        if operation.before:
            pace._spent = pace._took = 1e12  # it waits
            do(store, operation.before)
            do(model, operation.before)
            self.versions.append(model.values_now)
            assert values_of(store) == model.values_now
            if operation.flushed:
                store.flush()
            if operation.flushed or "locking" in self.make.options:  # where each change is published
                del self.versions[0]
            assert self.make.values() == self.versions[0]
        else:
            pace._spent = -1e9  # it is published at once
        for step in operation.steps:
            step(model)
            if model.values_now != self.versions[-1]:
                self.versions.append(model.values_now)

    def act(self) -> None:
        if self.operation.makes:
            self.store = self.make("w")
        else:
            do(self.store, self.operation.steps if self.operation.act is None else (self.operation.act,))

    def check(self) -> None:
        if self.operation.makes and not self.operation.values:  # there is a store or none
            if self.store is None and not self.make.path.exists():
                assert not os.listdir(self.make.path.parent)
                self.act()
            if not self.make.path.exists():  # which comes with the first change
                self.store.flush()
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


_KINDS: Final = ("b2e", "b2d", "b2z") + (("b2e shared",) if os.name != "nt" else ())


def cases() -> list[str]:
    return [f"{operation}; {kind}" for operation in OPERATIONS for kind in _KINDS]


def begin(case: str, folder: Path) -> Embedded:
    operation, _, kind = case.partition("; ")
    return Embedded(kind, folder, operation)


def count(case: str, folder: Path) -> list[int]:
    return count_lines(partial(begin, case), folder)


def play(case: str, at: int, folder: Path) -> None:
    play_line(partial(begin, case), at, folder)
