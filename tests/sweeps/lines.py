"""Ctrl-C at one point of an operation on a store, whichever: the handle shows the old version or the new one, works on,
takes back nothing that was published, keeps nobody out, and leaves no file."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from fixture_kit.interrupts import Interrupt, Signal
from store_makers import KINDS, Maker, values_of

import blosc2

#: Where an interrupt comes: before each line, or at each point at which the interpreter looks at signals.
WAYS = {"lines": Interrupt, "signals": Signal}

Values = dict[str, list[Any]]

SMALL = {"/g/a": [1, 2], "/g/b": list(range(50)), "/c": [3], "/d": list(range(9))}
#: So many leaves get a catalog, are removed and renamed together, and are streamed.
MANY = {f"/many/k{number:03}": [number] * (1 + number % 3) for number in range(270)}


class Model(dict[str, np.ndarray[Any, Any]]):
    """What a store does, by a dict of arrays."""

    def __init__(self, values: Values) -> None:
        super().__init__({key: np.array(value) for key, value in values.items()})

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, np.array(value))

    def __delitem__(self, key: str) -> None:
        for one in [one for one in self if one == key or one.startswith(key + "/")]:
            super().__delitem__(one)

    def update(self, values: Any = ()) -> None:  # type: ignore[override]
        for key, value in dict(values).items():
            self[key] = value

    write_many = update

    def rename(self, old: str, new: str) -> None:
        for one in [one for one in self if one == old or one.startswith(old + "/")]:
            super().__setitem__(new + one[len(old) :], super().pop(one))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        before = dict(self)
        try:
            yield
        except BaseException:
            self.clear()
            super().update(before)
            raise

    def flush(self, durable: bool = True) -> None:
        pass

    close = compact = refresh = discard = flush

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    @property
    def values_now(self) -> Values:
        return {key: value.tolist() for key, value in self.items()}


def change(store: Any) -> None:
    """Changes of every kind."""
    store["/g/a"][0] = 4
    store.rename("/g/b", "/g/e")
    store["/c"] = np.arange(40)
    store["/f"] = np.array([5])
    del store["/d"]


def transact(store: Any) -> None:
    with store.transaction():
        change(store)


def undone(store: Any) -> None:
    with suppress(ZeroDivisionError), store.transaction():
        change(store)
        1 / 0  # noqa: B018


def block(store: Any) -> None:
    with store:
        change(store)


def raising_block(store: Any) -> None:
    with suppress(ZeroDivisionError), store:
        change(store)
        1 / 0  # noqa: B018


def edit(store: Any) -> None:
    store["/g/b"][3] = 17
    store["/c"][:] = 8


def put(*values: tuple[str, Any]) -> Callable[[Any], None]:
    def act(store: Any) -> None:
        for key, value in values:
            store[key] = np.array(value)

    return act


def write(values: Values, *, at_once: bool = False) -> Callable[[Any], None]:
    """By `write_many`; `at_once` says how many there are."""

    def act(store: Any) -> None:
        arrays = {key: np.array(value) for key, value in values.items()}
        store.write_many(arrays if at_once else iter(arrays.items()))

    return act


def update(values: Values) -> Callable[[Any], None]:
    return lambda store: store.update({key: np.array(value) for key, value in values.items()})


def delete(*keys: str) -> Callable[[Any], None]:
    def act(store: Any) -> None:
        for key in keys:
            del store[key]

    return act


def rename_many(store: Any) -> None:
    store.rename("/many", "/much")


def reopen(mode: str) -> Callable[[Any], None]:
    """Close the store, and open it again; the second one is closed without changes."""

    def act(store: Any) -> None:
        store.close()
        if isinstance(store, Model):
            if mode == "w":
                store.clear()
            return
        type(store)(store._table.backend.named, mode=mode).close()

    return act


def nothing(store: Any) -> None:
    pass


@dataclass(frozen=True)
class Operation:
    """One that is interrupted.

    Attributes
    ----------
    act : callable
        What is interrupted.
    start : dict
        What the store has at first; None for one that is still to be made.
    begin : callable
        What is done before, without an interrupt.
    steps : bool
        Whether it consists of several changes, which may be done one by one.
    drops : bool
        Whether what was pending may be dropped.
    groups : bool
        Whether it needs groups.
    """

    act: Callable[[Any], Any]
    start: str = "small"
    begin: Callable[[Any], Any] = nothing
    steps: bool = False
    drops: bool = False
    groups: bool = False


STARTS: dict[str, Values | None] = {"new": None, "small": SMALL, "large": {**SMALL, **MANY}}
FEW = {"/g/a": [8], "/n/x": list(range(60)), "/y": [7]}
OTHERS = {f"/other/n{number:03}": [number] for number in range(270)} | {"/g/a": [9]}
AGAIN = {key: [*value, 1] for key, value in MANY.items()}

OPERATIONS = {
    "set a new leaf": Operation(put(("/f", [5]))),
    "set a large leaf": Operation(put(("/f", np.arange(100_000)))),
    "set a leaf of a new group": Operation(put(("/h/i/f", [5]))),
    "set an existing leaf": Operation(put(("/g/a", [7, 8]))),
    "set many leaves": Operation(put(*FEW.items()), steps=True),
    "del": Operation(delete("/g/b")),
    "pop": Operation(lambda store: store.pop("/g/a")),
    "setdefault": Operation(lambda store: store.setdefault("/f", np.array([5]))),
    "rename": Operation(lambda store: store.rename("/g/b", "/h/b")),
    "rename a group": Operation(lambda store: store.rename("/g", "/h"), groups=True),
    "del a group": Operation(delete("/g"), groups=True),
    "clear": Operation(lambda store: store.clear()),
    "update": Operation(update(FEW)),
    "edit": Operation(edit, steps=True),
    "changes": Operation(change, steps=True),
    "write few": Operation(write(FEW)),
    "write few beside changes": Operation(write(FEW), begin=put(("/f", [5])), steps=True),
    "write many": Operation(write(OTHERS)),
    "write many at once": Operation(write(OTHERS, at_once=True)),
    "update many": Operation(update(OTHERS)),
    "flush": Operation(lambda store: store.flush(), begin=change),
    "quick flush": Operation(lambda store: store.flush(durable=False), begin=change),
    "transaction": Operation(transact),
    "undone transaction": Operation(undone),
    "discard": Operation(lambda store: store.discard(), begin=change, drops=True),
    "refresh": Operation(lambda store: store.refresh()),
    "compact": Operation(lambda store: store.compact(), begin=lambda store: (change(store), store.flush())),
    "compact with changes": Operation(lambda store: store.compact(), begin=change),
    "close": Operation(lambda store: store.close()),
    "close with changes": Operation(lambda store: store.close(), begin=change),
    "open to read": Operation(reopen("r")),
    "open": Operation(reopen("a")),
    "open to replace": Operation(reopen("w")),
    "block": Operation(block, steps=True),
    "raising block": Operation(raising_block, steps=True),
    "flush of a new store": Operation(lambda store: store.flush(), "new", put(*FEW.items())),
    "write few to a new store": Operation(write(FEW), "new"),
    "write many to a new store": Operation(write(MANY), "new"),
    "close of a new store": Operation(lambda store: store.close(), "new", put(*FEW.items())),
    "large: set": Operation(put(("/many/k100", [7, 8]), ("/many/f", [7])), "large", steps=True),
    "large: write many": Operation(write(OTHERS), "large"),
    "large: write them again": Operation(write(AGAIN), "large"),
    "large: update many": Operation(update(OTHERS), "large"),
    "large: rename a group": Operation(lambda store: store.rename("/many", "/much"), "large", groups=True),
    "large: del a group": Operation(delete("/many"), "large", groups=True),
    "large: clear": Operation(lambda store: store.clear(), "large"),
    "large: flush": Operation(lambda store: store.flush(), "large", change),
    "large: flush of a group": Operation(lambda store: store.flush(), "large", rename_many, groups=True),
    "large: flush without a group": Operation(lambda store: store.flush(), "large", delete("/many"), groups=True),
    "large: compact of a group": Operation(lambda store: store.compact(), "large", rename_many, groups=True),
    "large: close with a group": Operation(lambda store: store.close(), "large", rename_many, groups=True),
    "large: transaction": Operation(transact, "large"),
    "large: discard": Operation(lambda store: store.discard(), "large", rename_many, groups=True, drops=True),
    "large: compact": Operation(lambda store: store.compact(), "large", change),
    "large: close with changes": Operation(lambda store: store.close(), "large", change),
}

#: What is done first after the interrupt.
NEXT = ("flush", "discard", "close")


def cases() -> list[str]:
    """Operation, kind of store, way."""
    return [
        f"{name} | {kind} | {way}"
        for name, operation in OPERATIONS.items()
        for kind in KINDS
        for way in WAYS
        if not operation.groups or kind.startswith("tree")
    ]


@cache
def _template(kind: str, start: str, folder: Path) -> Path:
    made = folder / f"{kind} {start}"
    made.mkdir(parents=True)
    with Maker(kind, made)("w") as store:
        store.update({key: np.array(value) for key, value in (STARTS[start] or {}).items()})
    return made


class _Run:
    """One operation on one store."""

    def __init__(self, case: str, folder: Path, name: str) -> None:
        operation, self.kind, way = case.split(" | ")
        self.operation, self.interrupt = OPERATIONS[operation], WAYS[way]
        place = folder / name
        start = self.operation.start
        if start == "new":
            place.mkdir()
        else:
            shutil.copytree(_template(self.kind, start, folder / "templates"), place)
        self.make = Maker(self.kind, place)
        values = STARTS[start] or {}
        model = Model(values)
        self.published = model.values_now
        self.operation.begin(model)
        self.before = model.values_now
        self.operation.act(model)
        self.after = model.values_now
        self.store = self.make("a")
        self.operation.begin(self.store)
        if self.make.at_once and not self.make.is_directory and self.make.path.exists():
            self.published = self.make.values()  # some of what was begun may be published, as the disk has time
        if self.operation.drops:
            self.after = self.published

    def remove(self) -> None:
        shutil.rmtree(self.make.path.parent)


def count(case: str, folder: Path) -> list[int]:
    """The points that there are: how each is reached, by a number."""
    for name in ("first", "second"):  # at first, some modules may have to be imported
        run = _Run(case, folder, f"{name} {case.replace('|', ',')}")
        with run.interrupt(thin=True) as found:
            run.operation.act(run.store)
        check(run, NEXT[0])
        run.remove()
    return found.found


def play(case: str, at: int, folder: Path) -> None:
    """One run that is interrupted at one of the points, and all that holds afterwards."""
    for number, step in enumerate(NEXT):
        if number == at % len(NEXT) or EACH_NEXT:
            run = _Run(case, folder, f"{at} {step}")
            interrupt = run.interrupt(at, thin=True)
            try:
                with interrupt, suppress(KeyboardInterrupt):
                    run.operation.act(run.store)
                    assert not interrupt.where, "swallowed"
                check(run, step)
            except BaseException as error:
                error.add_note(f"{case}: interrupted before {interrupt.where}, {at} of all, then {step}")
                with suppress(BaseException):
                    run.store.discard()
                with suppress(BaseException):
                    run.store.close()
                raise
            run.remove()


#: Whether each of `NEXT` is tried at each point, and not one of them in turn.
EACH_NEXT = False


def _is_one_of(run: _Run, shown: Values, *versions: Values) -> bool:
    """Whether this is one of some versions; of each leaf by itself where they are published so."""
    if not run.operation.steps and (not run.make.is_directory or len(versions) == 1):
        return shown in versions
    return all(any(shown.get(key) == version.get(key) for version in versions) for key in set().union(shown, *versions))


def check(run: _Run, step: str) -> None:
    """What holds after an interrupt; `step` is what is done first."""
    store, make = run.store, run.make
    versions = [run.published, run.before, run.after]
    visible = make.values() if make.path.exists() else {}
    assert _is_one_of(run, visible, *versions), f"the file has {_some(visible)}"
    if not store.closed:
        shown = values_of(store)
        _check_listed(store, make, shown)
        assert _is_one_of(run, shown, *(versions if run.operation.drops or run.operation.steps else versions[1:])), (
            f"shows {_some(shown)}"
        )
        if step == "discard" and make.path.exists():
            store.discard()
            shown = values_of(store)
            _check_listed(store, make, shown)
            visible = make.values()
            assert shown == visible, f"after discard {_some(shown)}, in the file {_some(visible)}"
        elif not run.operation.drops:
            for key in {*run.after, *run.before}:  # nothing that is published is taken back
                new = run.after.get(key)
                if visible.get(key) == new != run.before.get(key):
                    assert shown.get(key) == new, f"{key} is published as {new}, and shown as {shown.get(key)}"
        if step == "flush":
            store["/more"] = [6]
            store.flush()
            shown["/more"] = [6]
            visible = make.values()
            assert visible == shown, f"flushed {_some(visible)} of {_some(shown)}"
            assert values_of(store) == shown
            del store["/more"]
            store.compact()
            del shown["/more"]
        store.close()
        visible = make.values() if make.path.exists() else {}
        assert visible == shown, f"closed with {_some(visible)} of {_some(shown)}"
    left = os.listdir(make.path.parent)
    assert left in ([make.path.name], []), f"left {left}"
    gc.collect()  # nobody holds a store that was being opened, but the error's frames may
    with make("a") as other:
        assert values_of(other) == visible
        other["/last"] = [1]
    assert make.values() == {**visible, "/last": [1]}
    assert os.listdir(make.path.parent) == [make.path.name]
    if make.is_directory:
        hidden = [str(path) for path in make.path.rglob("*") if path.name.endswith(".tmp")]
        assert not hidden, f"left {hidden}"
    found = blosc2.check(make.path)
    assert found.ok, found


def _check_listed(store: Any, make: Maker, shown: Values) -> None:
    """What is known of the keys agrees."""
    assert len(list(store)) == len(store)
    assert all(key in store for key in store)
    if make.is_tree:
        groups = {key[:end] for key in shown for end in range(1, len(key)) if key[end] == "/"}
        assert {key for key in store if isinstance(store[key], blosc2.TreeStore)} == groups
    else:
        assert len(shown) == len(store)


def _some(values: Values) -> str:
    few = dict(list(values.items())[:6])
    return f"{len(values)} leaves, {few}"[:300]
