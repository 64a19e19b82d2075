"""An interrupt at each line of a change of an array or a super-chunk in a file, or in a directory of chunk files.

Whatever the line, the file has the old version, the new one or one between, and the handle shows the same; the next
change stands on it; and nothing stays beside the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import blosc2
from sweeps.interrupted import count_lines, play_line

#: Items, and the metadata.
Version = tuple[list[int], dict[str, Any]]
OLD: Final = list(range(0, 60, 2))


class Way(NamedTuple):
    """How a file is opened for changes."""

    suffix: str
    how: dict[str, Any] = {}


WAYS: Final = {
    "file": Way(".b2nd"),
    "file, durable": Way(".b2nd", {"durable": True}),
    "file, no lock": Way(".b2nd", {"exclusive": False}),
    "file, shared": Way(".b2nd", {"locking": True}),
    "directory": Way("_d.b2nd"),
    "directory, shared": Way("_d.b2nd", {"locking": True}),
}
KINDS: Final = tuple(name for name in WAYS if os.name != "nt" or "shared" not in name)


class Frame:
    """An array or a super-chunk, and what it may be afterwards: `versions`, from the old one to the new one."""

    def __init__(self, is_array: bool, kind: str, folder: Path, operation: Operation) -> None:
        way = WAYS[kind]
        self.is_directory = way.suffix.startswith("_d")
        self.path = folder / ("frame" + (way.suffix if is_array else way.suffix.replace("nd", "frame")))
        storage = {"urlpath": str(self.path), "contiguous": not self.is_directory}
        items = np.array(OLD, np.int32)
        made: Any = (
            blosc2.asarray(items, chunks=(8,), blocks=(4,), **storage)
            if is_array
            else blosc2.SChunk(chunksize=32, data=items, cparams={"typesize": 4}, **storage)
        )
        made.vlmeta["a"] = 1
        del made
        self.object = blosc2.open(str(self.path), mode="a", **way.how)
        self.is_array = is_array
        if "grows" in operation.name:
            self._let_grow()
        self._act = operation.act
        self.versions: list[Version] = [(OLD, {"a": 1}), *operation.after]

    def _let_grow(self) -> None:
        """The next change finds so many dead bytes that the file is written anew."""
        growth = type(self.object._handle._growth or _growth())()
        growth.slack = 0
        self.object._handle._growth = growth
        for number in range(6):
            self.object.vlmeta["a"] = "x" * 400 * (6 - number)
        self.object.vlmeta["a"] = 1
        self.object.flush()
        if not self.is_directory:  # the next one is published at once: what waits has tests of its own
            self.object._handle._costs = type(self.object._handle._costs)()

    def act(self) -> object:
        return self._act(self.object)

    def now(self, found: Any = None) -> Version:
        """What is in the file, or what an object shows."""
        found = blosc2.open(str(self.path), mode="r") if found is None else found
        items = found[:] if self.is_array else np.frombuffer(found[:], np.int32)
        return items.tolist(), found.vlmeta[:]

    def check(self) -> None:
        published, shown = self.now(), self.now(self.object)
        assert published in self.versions
        assert shown == published
        self.object.vlmeta["b"] = 2
        items, metadata = shown
        if items:
            items = [-1, *items[1:]]
            if self.is_array:
                self.object[0] = -1
            else:
                self.object[0:1] = np.array([-1], np.int32)
        wanted = items, {**metadata, "b": 2}
        assert self.now() == self.now(self.object) == wanted
        other = blosc2.open(str(self.path), mode="a", **({"locking": True} if self.object._handle.locking else {}))
        other.vlmeta["c"] = 3
        self.object.refresh()
        assert self.now() == self.now(self.object) == (items, {**metadata, "b": 2, "c": 3})
        assert blosc2.check(self.path).ok
        assert [name for name in os.listdir(self.path.parent) if not name.endswith("lock")] == [self.path.name]
        if self.is_directory:
            names = set(os.listdir(self.path))
            stray = [name for name in names if not name.endswith((".chunk", "lock")) and name != "chunks.b2frame"]
            assert not stray
            assert len([name for name in names if name.endswith(".chunk")]) == self.stored_chunks()

    def stored_chunks(self) -> int:
        """How many chunk files there should be."""
        frame = self.object._handle.frame
        return int((np.frombuffer(frame.offsets_bytes(), np.int64) >= 0).sum()) if frame.nbytes else 0


def _growth() -> Any:
    from blosc2._frames import Growth

    return Growth()


class Operation(NamedTuple):
    name: str
    act: Callable[[Any], object]
    after: list[Version]


def set_items(array: Any) -> None:
    array[5:20] = np.arange(15, dtype=np.int32)


def set_some_points(array: Any) -> None:
    array[[1, 9, 25]] = np.array([7, 8, 9], np.int32)


def set_metadata(frame: Any) -> None:
    frame.vlmeta["k"] = "v"


def remove_metadata(frame: Any) -> None:
    del frame.vlmeta["a"]


def in_transaction(frame: Any) -> None:
    with frame.transaction():
        set_items(frame)
        set_metadata(frame)
        remove_metadata(frame)


def undone(frame: Any) -> None:
    with suppress(ZeroDivisionError), frame.transaction():
        set_items(frame)
        set_metadata(frame)
        1 / 0  # noqa: B018


def one_after_the_other(frame: Any) -> None:
    set_items(frame)
    set_metadata(frame)


SET: Final = [*OLD[:5], *range(15), *OLD[20:]]
ATTRS: Final = {"a": 1}
MORE: Final = {"a": 1, "k": "v"}

COMMON: Final = (
    Operation("assign", set_items, [(SET, ATTRS)]),
    Operation("vlmeta", set_metadata, [(OLD, MORE)]),
    Operation("attrs", lambda frame: frame.attrs.update(k="v"), [(OLD, MORE)]),
    Operation("del vlmeta", remove_metadata, [(OLD, {})]),
    Operation("one after the other", one_after_the_other, [(SET, ATTRS), (SET, MORE)]),
    Operation("transaction", in_transaction, [(SET, {"k": "v"})]),
    Operation("undone", undone, []),
    Operation("flush", lambda frame: frame.flush(), []),
    Operation("refresh", lambda frame: frame.refresh(), []),
)
#: For frames that are files.
FILES: Final = (
    Operation("compact", lambda frame: frame.compact(), []),
    Operation("assign, grows", set_items, [(SET, ATTRS)]),
    Operation("vlmeta, grows", set_metadata, [(OLD, MORE)]),
)
ARRAYS: Final = (
    Operation("points", set_some_points, [([*OLD[:1], 7, *OLD[2:9], 8, *OLD[10:25], 9, *OLD[26:]], ATTRS)]),
    Operation("append", lambda array: array.append(np.arange(20, dtype=np.int32)), [([*OLD, *range(20)], ATTRS)]),
    Operation("resize", lambda array: array.resize((47,)), [([*OLD, *([0] * 17)], ATTRS)]),
    Operation("shrink", lambda array: array.resize((9,)), [(OLD[:9], ATTRS)]),
    Operation("to nothing", lambda array: array.resize((0,)), [([], ATTRS)]),
)


def _chunk(first: int) -> np.ndarray[Any, Any]:
    return np.arange(first, first + 8, dtype=np.int32)


SCHUNKS: Final = (
    Operation("append_data", lambda schunk: schunk.append_data(_chunk(9)), [([*OLD, 0, 0, *range(9, 17)], ATTRS),
                                                                         ([*OLD, *range(9, 17)], ATTRS)]),
    Operation("insert_data", lambda schunk: schunk.insert_data(1, _chunk(9), True),
              [([*OLD[:8], *range(9, 17), *OLD[8:]], ATTRS)]),
    Operation("update_data", lambda schunk: schunk.update_data(1, _chunk(9), True),
              [([*OLD[:8], *range(9, 17), *OLD[16:]], ATTRS)]),
    Operation("delete_chunk", lambda schunk: schunk.delete_chunk(1), [([*OLD[:8], *OLD[16:]], ATTRS)]),
)  # fmt: skip


def _operations(name: str) -> tuple[Operation, ...]:
    own = ARRAYS if name == "array" else SCHUNKS
    return (*COMMON, *own)


def cases() -> list[str]:
    found = []
    for what in ("array", "super-chunk"):
        for kind in KINDS:
            operations = _operations(what) + (() if kind.startswith("directory") else FILES)
            found += [f"{operation.name}; {what}; {kind}" for operation in operations]
    return found


def begin(case: str, folder: Path) -> Frame:
    name, what, kind = case.split("; ")
    operation = next(one for one in (*_operations(what), *FILES) if one.name == name)
    return Frame(what == "array", kind, folder, operation)


def count(case: str, folder: Path) -> list[int]:
    return count_lines(partial(begin, case), folder)


def play(case: str, at: int, folder: Path) -> None:
    play_line(partial(begin, case), at, folder)
