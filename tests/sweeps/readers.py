"""Each operation of a reader before each system call of each operation of a writer, for each kind of store; and each
operation of a writer before each line of a reader.
 A reader of a `.b2e` or `.b2z` sees the old version or the new one. A `.b2d` has no common
version: there each leaf is old or new, one that stays is never missing, and one that gets another key is found under
one of the two.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from faults.recorder import Recorder
from fixture_kit.interrupts import Interrupt
from store_makers import KINDS, Maker

import blosc2

Values = dict[str, list[int]]

OLD: Final[Values] = {
    "/a": [1, 2], "/b": list(range(60)), "/c": [3], "/g/a": list(range(70)), "/g/b": [5], "/g/h/c": list(range(80)),
    "/z": [6],
}  # fmt: skip
MANY: Final[Values] = {f"/m/k{n}": [n] * (1 + n % 2 * 50) for n in range(6)}


def without(*keys: str) -> Values:
    return {key: items for key, items in OLD.items() if key not in keys}


def renamed(names: dict[str, str]) -> Values:
    return {names.get(key, key): items for key, items in OLD.items()}


def arrays(values: Values) -> dict[str, Any]:
    return {key: np.array(items) for key, items in values.items()}


def put(key: str, items: list[int]) -> tuple[Callable[[Any], object], Values]:
    return (lambda store: store.__setitem__(key, np.array(items))), {**OLD, key: items}


def remove(store: Any, group: str) -> None:
    with store.transaction():
        for key in [key for key in OLD if key.startswith(group + "/")]:
            del store[key]


def move(store: Any, names: dict[str, str]) -> None:
    with store.transaction():
        for old, new in names.items():
            store.rename(old, new)


def edit(store: Any) -> None:
    store["/b"][0] = 7


GROUP: Final = {"/g/a": "/n/i/a", "/g/b": "/n/i/b", "/g/h/c": "/n/i/h/c"}
# What a writer does, what is there then, and what it does in a tree instead.
WRITES: Final[dict[str, tuple[Callable[[Any], object], Values, Callable[[Any], object] | None]]] = {
    "add": (*put("/new/x", [8]), None),
    "replace": (*put("/b", [9, 9]), None),
    "let it grow": (*put("/a", list(range(90))), None),
    "edit": (edit, {**OLD, "/b": [7, *range(1, 60)]}, None),
    "delete": (lambda store: store.__delitem__("/b"), without("/b"), None),
    "delete a group": (lambda store: remove(store, "/g"), without(*GROUP), lambda store: store.__delitem__("/g")),
    "rename": (lambda store: store.rename("/b", "/g/new"), renamed({"/b": "/g/new"}), None),
    "rename a group": (lambda store: move(store, GROUP), renamed(GROUP), lambda store: store.rename("/g", "/n/i")),
    "update": (lambda store: store.update(arrays({**MANY, "/b": [4]})), {**OLD, **MANY, "/b": [4]}, None),
    "write_many": (lambda store: store.write_many(arrays(MANY)), {**OLD, **MANY}, None),
    "clear": (lambda store: store.clear(), {}, None),
    "compact": (lambda store: store.compact(), OLD, None),
}
#: When the reader was opened: now, or before the writer does anything; whether it has listed its keys then. Or the
#: writer does it all before a line of the reader.
HANDLES: Final = ("new", "kept", "listed", "at its lines")
WAYS: Final = {"": {}, " shared": {"locking": True}}


class Shown:
    """What readers may show: the versions before and after."""

    def __init__(self, kind: str, how: dict[str, Any], old: Values, new: Values, names: dict[str, str]) -> None:
        self.is_directory = "b2d" in kind
        # An iteration over leaves goes on with the newest version of each.
        self.follows = bool(how)
        self.old, self.new, self.names = old, new, names

    def keys(self, found: Any) -> None:
        found = set(found)
        if not self.is_directory:
            assert found in (set(self.old), set(self.new)), found
        assert found <= {*self.old, *self.new}, found
        assert found >= self.old.keys() & self.new.keys(), found
        for key, name in self.names.items():
            assert key in found or name in found, (key, found)

    def values(self, found: Values) -> None:
        if not (self.is_directory or self.follows):
            assert found in (self.old, self.new), found
        for key, items in found.items():
            assert items in (self.old.get(key), self.new.get(key)), (key, items)
        assert found.keys() >= self.old.keys() & self.new.keys(), found


def items_of(pairs: Any) -> Values:
    return {key: leaf[:].tolist() for key, leaf in pairs if isinstance(leaf, blosc2.NDArray)}


def is_leaf(key: str) -> bool:
    return key in OLD or key in MANY or key in GROUP.values() or key in ("/new/x", "/g/new")


def walked(store: Any) -> list[str]:
    return [f"{group}/{name}".replace("//", "/") for group, _, names in store.walk() for name in names]


def look(reader: Any, shown: Shown, path: Path) -> None:
    """All that a reader does."""
    shown.keys(key for key in reader if is_leaf(key))
    shown.keys(key for key in reader.keys() if is_leaf(key))  # noqa: SIM118 - a view, with methods of its own
    shown.values(items_of(reader.items()))
    assert len([leaf for leaf in reader.values() if isinstance(leaf, blosc2.NDArray)]) >= len(
        shown.old.keys() & shown.new.keys()
    )
    assert len(reader) == len(list(reader)) or shown.is_directory or shown.follows
    for key in shown.old.keys() & shown.new.keys():
        assert key in reader, key
        assert reader[key][:].tolist() in (shown.old[key], shown.new[key]), key
        assert reader.read(key).tolist() in (shown.old[key], shown.new[key]), key
    repr(reader)
    reader._repr_html_()
    if isinstance(reader, blosc2.DictStore):
        str(reader.info)
        reader.stats()
        [reader.describe(key) for key in shown.old.keys() & shown.new.keys()]
        dict(reader.map_tree)
        reader.to_b2z(overwrite=True, filename=str(path.parent / "copy.b2z"))
        with blosc2.open(str(path.parent / "copy.b2z")) as copy:
            shown.values(items_of(copy.items()))
        reader.to_b2d(str(path.parent / "copy.b2d"), overwrite=True)
    if isinstance(reader, blosc2.TreeStore):
        shown.keys(walked(reader))
        str(reader.tree())
        for group in ("/", "/g", "/n/i"):
            reader.get_children(group)
            reader.get_descendants(group)


class Reader:
    """What looks at a store, as `handle` and `how` say."""

    def __init__(self, make: Maker, shown: Shown, handle: str, how: dict[str, Any]) -> None:
        self.make, self.shown, self.how = make, shown, how
        self.kept = make("r", **how) if handle in ("kept", "listed") else None
        if self.kept is not None and handle == "listed":
            list(self.kept)

    def read(self) -> None:
        with self.make("r", **self.how) if self.kept is None else self.kept as reader:
            look(reader, self.shown, self.make.path)
            reader.refresh()
            look(reader, self.shown, self.make.path)
        report = blosc2.check(str(self.make.path))
        assert report.ok, report


class AtCall(Recorder):
    """Does something before the n-th system call of this thread that changes files, and says later what went wrong."""

    def __init__(self, folder: Path, act: Callable[[], None], at: int) -> None:
        super().__init__(folder)
        self.calls, self.where = 0, ""
        self.error: BaseException | None = None

        writer = threading.get_ident()

        def before() -> None:
            if threading.get_ident() != writer:
                return
            if self.calls == at:
                self.where = f"call {at}"
                try:
                    act()
                except BaseException as error:  # noqa: BLE001 - raised when the writer is done
                    self.error = error
            self.calls += 1

        self.watch = before


class AtPoint(Interrupt):
    """Does something before one line, whichever."""

    depth = 2

    def __init__(self, act: Callable[[], None], at: int) -> None:
        super().__init__(at, thin=True)
        self.come = act  # type: ignore[method-assign]
        self.error = None


def cases() -> list[str]:
    return [
        f"{kind}{way}, {write}, {handle}" for kind in KINDS for way in WAYS for write in WRITES for handle in HANDLES
    ]


def _run(case: str, folder: Path, at: int) -> list[int]:
    """One run with the other one at a point; a number for each point there was, which tells how it was reached."""
    folder.mkdir()
    kind, write, handle = case.split(", ")
    kind, _, way = kind.partition(" ")
    how = WAYS[way and " " + way]
    make = Maker(kind, folder)
    act, new, in_tree = WRITES[write]
    if make.is_tree and in_tree is not None:
        act = in_tree
    with make("w") as store:
        store.update(arrays(OLD))
    names = {"rename": {"/b": "/g/new"}, "rename a group": GROUP}.get(write, {})
    store = make("a", **how)

    def do() -> None:
        act(store)
        store.flush()

    reader = Reader(make, Shown(kind, how, OLD, new, names), handle, how)
    point = AtPoint(do, at) if handle == "at its lines" else AtCall(folder, reader.read, at)
    try:
        with point:
            reader.read() if handle == "at its lines" else do()
        if point.error is not None:
            raise point.error
    except BaseException as error:
        error.add_note(f"{case}: before {point.where}")
        raise
    finally:
        store.close()
        if reader.kept is not None:
            reader.kept.close()
    assert make.values() == (OLD if handle == "at its lines" and not point.where else new)
    if isinstance(point, AtPoint):
        return point.found
    return [zlib.crc32(f"{case}: {call}".encode()) for call in range(point.calls)]


def count(case: str, folder: Path) -> list[int]:
    _run(case, folder / "0", -1)  # at first, some modules may have to be imported
    return _run(case, folder / "1", -1)


def play(case: str, at: int, folder: Path) -> None:
    _run(case, folder / f"at{at}", at)
