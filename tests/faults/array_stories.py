"""Scenarios of arrays, super-chunks and lists in files of their own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import blosc2
from blosc2._frames import Growth
from faults.paces import ForcedCosts
from faults.scenarios import ABSENT, Kind, Play, Publication, Step, Value, Version, noise, value_of

#: Marks what is salvaged of a list without entries that are damaged, as the report says.
LEFT_OUT: dict[str, Value] = {"left out": ("", (), b"", "")}


# ---------------------------------------------------------------------------------------------------------- arrays
@dataclass
class ArrayFile(Kind):
    """An `NDArray` in a file of its own.

    If it does not wait for the disk, what a power cut left may be salvaged.
    """

    #: Whether programs share it.
    locking: bool = False
    durable: bool = True
    #: When its small changes are published; only where they are not durable.
    pace: str = "quick"

    def open(self, path: str, mode: str) -> Any:
        how = {"durable": self.durable, **({"locking": True} if self.locking else {})}
        if not self.durable and not blosc2.check(path).ok:
            with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as aside:
                blosc2.salvage(path, os.path.join(aside, self.name))
                os.replace(os.path.join(aside, self.name), path)
        return self.paced(blosc2.open(path, mode=mode, **how))

    def paced(self, array: Any) -> Any:
        """An array whose small changes are published as its kind says."""
        if hasattr(array._handle, "_costs"):
            array._handle._costs = ForcedCosts(self.pace)
        return array

    def close(self, handle: Any) -> None:
        handle.flush()

    def drop(self, handle: Any) -> None:
        if handle._handle.waiting is not None:
            handle._handle.show_again()

    def observe(self, folder: Path | str, mmap_mode: str | None = None) -> Version:
        try:
            return super().observe(folder, mmap_mode)
        except blosc2.FormatError as error:
            if self.durable or self.name not in str(error):
                raise
        with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as aside:
            try:
                report = blosc2.salvage(os.path.join(folder, self.name), os.path.join(aside, self.name))
            except blosc2.FormatError:
                return ABSENT
            whole = not report.lost and "could not be compared" not in str(report)
            if not whole and not isinstance(self, ListFile):
                return ABSENT  # as it says, this is not all, or not certain
            found = super().observe(aside, mmap_mode)
            return found if whole else {**(found or {}), **LEFT_OUT}

    def read(self, handle: Any) -> dict[str, Value]:
        return {"": value_of(handle[:], dict(handle.vlmeta[:]))}

    def extend(self, handle: Any, version: dict[str, Value]) -> dict[str, Value]:
        array = np.frombuffer(version[""][2], version[""][0]).reshape(version[""][1])
        handle.resize((len(array) + 1, *array.shape[1:]))
        array = np.concatenate([array, np.zeros((1, *array.shape[1:]), array.dtype)])
        return {"": (str(array.dtype), array.shape, array.tobytes(), version[""][3])}


def early(array: Any) -> Any:
    """An array whose file is written anew as soon as most of it is dead."""
    array._handle._growth = Growth()
    array._handle._growth.slack = 0
    return array


@dataclass
class GrownFile(ArrayFile):
    """An `NDArray` whose file is written anew every few changes."""

    def open(self, path: str, mode: str) -> Any:
        return early(super().open(path, mode)) if mode != "r" else super().open(path, mode)


@dataclass
class SChunkFile(ArrayFile):
    """An `SChunk` in a file of its own."""

    def read(self, handle: Any) -> dict[str, Value]:
        return {"": value_of(np.frombuffer(handle[:], "i8"), dict(handle.vlmeta[:]))}

    def extend(self, handle: Any, version: dict[str, Value]) -> dict[str, Value]:
        handle.append_data(np.arange(3))
        items = np.concatenate([np.frombuffer(version[""][2], "i8"), np.arange(3)])
        return {"": (str(items.dtype), items.shape, items.tobytes(), version[""][3])}


def flat(elements: Iterable[Any]) -> Any:
    """The elements of a list, numbers or batches of them, as one array: each batch begins with its length."""
    numbers: list[int] = []
    for one in elements:
        numbers += [one] if isinstance(one, int) else [len(one), *one]
    return np.array(numbers, "i8")


@dataclass
class ListFile(ArrayFile):
    """An `ObjectArray` or `BatchArray` of numbers in a file of its own."""

    def check(self, seen: Version, versions: Iterable[Version]) -> None:
        if LEFT_OUT.keys() - (seen or {}).keys():
            # What was salvaged, and written in its place, says no more that something was left out.
            every = list(versions)
            salvaged = [v and {key: v[key] for key in v if key not in LEFT_OUT} for v in every]
            super().check(seen, [*every, *salvaged])

    def read(self, handle: Any) -> dict[str, Value]:
        metadata = {name: value for name, value in handle.vlmeta[:].items() if not name.startswith("_")}
        return {"": value_of(flat(one[:] if isinstance(one, blosc2.Batch) else one for one in handle), metadata)}

    def extend(self, handle: Any, version: dict[str, Value]) -> dict[str, Value]:
        one: Any = [1, 2] if isinstance(handle, blosc2.BatchArray) else 7
        handle.append(one)
        items = np.concatenate([np.frombuffer(version[""][2], "i8"), flat([one])])
        return {"": (str(items.dtype), items.shape, items.tobytes(), version[""][3])}


@dataclass
class ArrayStory:
    """Steps for a file that publishes each change at once; an array and its metadata are the model."""

    kind: ArrayFile
    steps: list[Step] = field(default_factory=list)
    array: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def add(self, act: Callable[[Any], Any], array: Any = None, *, durable: bool = False, **metadata: Any) -> None:
        """A change of the handle, and what is there after it."""
        self.array = self.array if array is None else np.asarray(array)
        self.metadata = {k: v for k, v in {**self.metadata, **metadata}.items() if v is not ...}
        version = {"": value_of(self.array, self.metadata)}

        def step(play: Play) -> None:
            play.publish(version, lambda: act(play.handle), durable=durable or self.kind.durable)
            play.now = version

        self.steps.append(step)

    def create(self, make: Callable[[str], Any], array: Any) -> None:
        self.array, self.metadata = np.asarray(array), {}
        version = {"": value_of(self.array)}

        def step(play: Play) -> None:
            def act() -> None:
                play.handle = self.kind.paced(make(play.path))

            if not self.kind.durable:  # what is replaced may be gone before the new file is there
                play.publications.append(Publication(ABSENT, play.clock(), play.clock(), durable=False))
            play.publish(version, act, durable=self.kind.durable)
            play.now = version

        self.steps.append(step)

    def reopen(self) -> None:
        def step(play: Play) -> None:
            if play.handle is not None:  # else nothing could be made
                play.publish(play.now, play.handle.flush)
            play.handle = None
            play.handle = play.kind.open(play.path, "a")

        self.steps.append(step)


def array_story(kind: ArrayFile, *, contiguous: bool = True) -> ArrayStory:
    story = ArrayStory(kind)
    array = noise(30 * 8, 1).reshape(30, 8)
    story.create(
        lambda path: blosc2.asarray(
            array, chunks=(10, 8), blocks=(5, 8), urlpath=path, contiguous=contiguous, mode="w", durable=kind.durable
        ),
        array,
    )
    story.add(lambda a: a.resize((55, 8)), np.concatenate([story.array, np.zeros((25, 8), "i8")]))
    changed = story.array.copy()
    changed[3:27, 2:6] = noise(24 * 4, 3).reshape(24, 4)
    part = changed[3:27, 2:6].copy()
    story.add(lambda a: a.__setitem__((slice(3, 27), slice(2, 6)), part), changed)
    story.add(lambda a: a.vlmeta.__setitem__("note", "first"), note="first")
    story.add(lambda a: a.vlmeta.update({"note": "second" * 90, "more": 2}), note="second" * 90, more=2)
    story.reopen()
    story.add(lambda a: a.resize((70, 8)), np.concatenate([story.array, np.zeros((15, 8), "i8")]))
    story.add(lambda a: a.resize((33, 8)), story.array[:33])
    story.add(lambda a: a.resize((33, 11)), np.concatenate([story.array, np.zeros((33, 3), "i8")], axis=1))
    everything = noise(33 * 11, 4).reshape(33, 11)
    story.add(lambda a: a.__setitem__(slice(None), everything), everything)
    story.add(lambda a: a.vlmeta.__delitem__("more"), more=...)
    story.add(lambda a: a.__setitem__((slice(0, 10), slice(0, 8)), 0), _zeroed(everything))
    return story


def vector_story(kind: ArrayFile, *, contiguous: bool = True) -> ArrayStory:
    story = ArrayStory(kind)
    array = noise(100, 1)
    story.create(
        lambda path: blosc2.asarray(
            array, chunks=(64,), blocks=(16,), urlpath=path, contiguous=contiguous, mode="w", durable=kind.durable
        ),
        array,
    )
    for seed in range(2, 5):
        more = noise(90, seed)
        story.add(lambda a, more=more: a.append(more), np.concatenate([story.array, more]))
    story.reopen()
    story.add(lambda a: a.vlmeta.__setitem__("note", "x" * 600), note="x" * 600)
    story.add(lambda a: a.append(noise(10, 5)), np.concatenate([story.array, noise(10, 5)]))
    story.add(lambda a: a.resize((0,)), story.array[:0])
    story.add(lambda a: a.append(noise(70, 6)), noise(70, 6))
    other = noise(80, 7)
    story.create(
        lambda path: blosc2.asarray(
            other, chunks=(50,), blocks=(10,), urlpath=path, contiguous=contiguous, mode="w", durable=kind.durable
        ),
        other,
    )
    story.add(lambda a: a.append(noise(9, 8)), np.concatenate([other, noise(9, 8)]))
    return story


def grown_story(kind: ArrayFile) -> ArrayStory:
    """Changes of a file that is written anew by itself, several times."""
    story = ArrayStory(kind)
    first = noise(60, 1).reshape(60, 1)
    story.create(
        lambda path: early(
            blosc2.asarray(
                first,
                chunks=(20, 1),
                blocks=(10, 1),
                urlpath=path,
                mode="w",
                locking=kind.locking,
                durable=kind.durable,
            )
        ),
        first,
    )
    for seed in range(2, 14):
        part = noise(40, seed).reshape(40, 1)
        story.add(lambda a, part=part: a.__setitem__(slice(0, 40), part), _put(story.array, 0, part))
        if seed % 3 == 0:
            rows = len(story.array) + 7
            story.add(
                lambda a, rows=rows: a.resize((rows, 1)), np.concatenate([story.array, np.zeros((7, 1), first.dtype)])
            )
            story.add(lambda a, seed=seed: a.vlmeta.__setitem__("note", seed), note=seed)
        if seed == 5:
            story.reopen()
    return story


def transaction_story(kind: ArrayFile, *, contiguous: bool = True) -> ArrayStory:
    """Blocks of several changes, each of which is one version; one block raises."""
    story = ArrayStory(kind)
    first = noise(600, 1).reshape(300, 2)
    story.create(
        lambda path: blosc2.asarray(
            first,
            chunks=(100, 2),
            blocks=(50, 2),
            urlpath=path,
            mode="w",
            contiguous=contiguous,
            locking=kind.locking,
            durable=kind.durable,
        ),
        first,
    )

    def block(seed: int) -> Callable[[Any], None]:
        def change(array: Any) -> None:
            with array.transaction():
                array.append(noise(480, seed).reshape(240, 2))
                array[5:155] = noise(300, seed + 1).reshape(150, 2)
                array.vlmeta["note"] = seed
                array.resize((len(array) - 3, 2))

        return change

    def dropped(array: Any) -> None:
        try:
            with array.transaction():
                array.append(noise(480, 5).reshape(240, 2))
                raise KeyError
        except KeyError:
            pass

    for seed in (10, 20, 30):
        after = np.concatenate([story.array, noise(480, seed).reshape(240, 2)])
        after = _put(after, 5, noise(300, seed + 1).reshape(150, 2))[:-3]
        story.add(block(seed), after, durable=True, note=seed)
        if seed == 10:
            story.add(dropped)
            story.reopen()
    return story


def _zeroed(array: Any) -> Any:
    array = array.copy()
    array[:10, :8] = 0
    return array


def schunk_story(kind: ArrayFile, *, contiguous: bool = True, meta: dict[str, Any] | None = None) -> ArrayStory:
    story = ArrayStory(kind)
    items = noise(500, 1)
    story.create(
        lambda path: blosc2.SChunk(
            chunksize=1600,
            data=items,
            urlpath=path,
            contiguous=contiguous,
            mode="w",
            durable=kind.durable,
            cparams={"typesize": 8},
            meta=meta,
        ),
        items,
    )
    story.add(lambda s: s.append_data(noise(200, 2)), np.concatenate([items[:500], noise(200, 2)]))
    story.add(lambda s: s.update_data(1, noise(200, 3)), _put(story.array, 200, noise(200, 3)))
    story.add(lambda s: s.insert_data(0, noise(200, 4)), np.concatenate([noise(200, 4), story.array]))
    story.add(lambda s: s.vlmeta.__setitem__("note", [1, 2, 3]), note=[1, 2, 3])
    story.reopen()
    story.add(lambda s: s.__setitem__(slice(150, 650), noise(500, 5)), _put(story.array, 150, noise(500, 5)))
    story.add(lambda s: s.delete_chunk(1), np.concatenate([story.array[:200], story.array[400:]]))
    story.add(lambda s: s.vlmeta.__setitem__("note", [4]), note=[4])
    story.add(lambda s: s.append_data(noise(50, 6)), np.concatenate([story.array, noise(50, 6)]))
    return story


def list_story(kind: ArrayFile, cls: Any, *, contiguous: bool = True) -> ArrayStory:
    """Every change of a list; `elements` is what it holds."""
    story = ArrayStory(kind)
    numbers = noise(90, 1).tolist()
    new = numbers if cls is blosc2.ObjectArray else [numbers[n : n + 1 + n % 7] for n in range(80)]
    many = 60 if contiguous else 25  # of chunk files, each of which is made and removed by calls of its own
    elements: list[Any] = []
    story.create(lambda path: cls(urlpath=path, contiguous=contiguous, mode="w", durable=kind.durable), flat([]))

    def add(act: Callable[[Any], Any]) -> None:
        act(elements)
        story.add(act, flat(elements))

    add(lambda x: x.append(new[0]))
    add(lambda x: x.extend(new[1:many]))
    story.add(lambda x: x.vlmeta.__setitem__("note", [1, 2, 3]), note=[1, 2, 3])
    add(lambda x: x.insert(3, new[60]))
    story.reopen()
    add(lambda x: x.__setitem__(5, new[61]))
    add(lambda x: x.__setitem__(slice(10, 30), new[70:75]))
    add(lambda x: x.__delitem__(slice(None, None, 3)))
    add(lambda x: x.pop(0) and None)
    add(lambda x: x.reverse())
    add(lambda x: x.clear())
    add(lambda x: x.extend(new[:20]))
    return story


def _put(array: Any, at: int, part: Any) -> Any:
    array = array.copy()
    array[at : at + len(part)] = part
    return array
