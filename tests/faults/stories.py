"""What is done to each kind of file and store, and what must be in it afterwards.

A `Play` does the steps of a story to a file or store and, side by side, to a model of it: a version is a dictionary of
values, or `ABSENT`. It notes when each version was being published and when its publication was over, so that for any
moment the versions are known that a reader may find (`Play.legal`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import blosc2
from blosc2._backends import Pace
from faults import FULL

Value = tuple[str, tuple[int, ...], bytes, str]
Version = dict[str, Value] | None
#: Nothing is there.
ABSENT = None
Step = Callable[["Play"], None]

_RNG = np.random.default_rng(20261121)
# Bytes that do not shrink, so that they fill sectors.
NOISE = _RNG.integers(0, 1 << 62, 40_000)


def noise(size: int, seed: int) -> np.ndarray[Any, Any]:
    """Numbers that no other seed has."""
    return NOISE[seed * 7 : seed * 7 + size] + seed


#: What is refused when it is read, by an error that names it.
TORN: Value = ("torn", (), b"", "")


class IllegalStateError(AssertionError):
    """Something else is there than any version that may be."""


def value_of(array: Any, metadata: dict[str, Any] | None = None) -> Value:
    """An array and its metadata as something to compare."""
    array = np.asarray(array)
    return str(array.dtype), array.shape, array.tobytes(), repr(sorted((metadata or {}).items()))


@dataclass
class Publication:
    """A version, and the numbers of changes before and after it was published."""

    version: Version
    before: int
    after: int | None = None
    durable: bool = True


@dataclass
class Kind:
    """How one kind of file or store is opened, changed and read.

    Attributes
    ----------
    name : str
        The last part of its path.
    atomic : bool
        Whether all values change at once.
    """

    name: str
    atomic: bool = True
    #: Whether mode "a" makes one where there is none.
    creates = False
    #: Whether it may publish changes before it is told to.
    at_once = False

    def open(self, path: str, mode: str) -> Any:
        raise NotImplementedError

    def read(self, handle: Any) -> dict[str, Value]:
        """All values that an open file or store shows."""
        raise NotImplementedError

    def close(self, handle: Any) -> None:
        """Publish and end."""

    def drop(self, handle: Any) -> None:
        """End without publishing anything."""

    def extend(self, handle: Any, version: dict[str, Value]) -> dict[str, Value]:
        """Make and publish a small change; the version that there must be then."""
        raise NotImplementedError

    def observe(self, folder: Path | str, mmap_mode: str | None = None) -> Version:
        """What there is, read anew."""
        path = os.path.join(folder, self.name)
        try:
            handle = self.reader(path, mmap_mode)
        except FileNotFoundError:
            if os.path.lexists(path):
                raise
            return ABSENT
        try:
            return self.read(handle)
        finally:
            self.drop(handle)

    def reader(self, path: str, mmap_mode: str | None) -> Any:
        return blosc2.open(path, mode="r", mmap_mode=mmap_mode)

    def check(self, seen: Version, versions: Iterable[Version]) -> None:
        """Raise unless what was seen is one of the versions or, where values change one by one, made of them."""
        allowed = list(versions)
        if seen in allowed:
            return
        if not self.atomic and seen is not None:
            keys = {key for version in allowed for key in version or {}} | set(seen)
            wrong = [
                key
                for key in keys
                if seen.get(key) not in [(version or {}).get(key) for version in allowed]
                # What was not there when all was durable last may be refused.
                and not (seen.get(key) == TORN and key not in (allowed[0] or {}))
            ]
            # What is there before and after, under another key perhaps, is there all the time.
            kept = set.intersection(*(set((version or {}).values()) for version in allowed))
            if not wrong and kept <= set(seen.values()):
                return
        raise IllegalStateError(f"{self.name}: found {show(seen)}, allowed are {' or '.join(map(show, allowed))}")


def show(version: Version) -> str:
    """A version in short."""
    if version is None:
        return "nothing"
    return "{" + ", ".join(f"{k}: {v[0]}{list(v[1])} {hash(v[2]) & 0xFFFF:x} {v[3]}" for k, v in version.items()) + "}"


class Play:
    """A story as it is played: a handle, the model of what it shows, and what was published when.

    Parameters
    ----------
    kind : Kind
    folder : path
        Where the file or store is.
    clock : callable
        Gives the number of changes made up to now.
    """

    def __init__(self, kind: Kind, folder: Path | str, clock: Callable[[], int] = lambda: 0) -> None:
        self.kind, self.folder, self.clock = kind, folder, clock
        self.path = os.path.join(folder, kind.name)
        self.handle: Any = None
        self.now: dict[str, Value] = {}
        self.publications = [Publication(ABSENT, 0, 0)]

    @property
    def published(self) -> Version:
        """The last version whose publication was over."""
        return next(p.version for p in reversed(self.publications) if p.after is not None)

    def publish(self, version: dict[str, Value], act: Callable[[], Any], *, durable: bool = True) -> None:
        """Do what publishes a version."""
        publication = Publication(dict(version), self.clock(), durable=durable)
        self.publications.append(publication)
        act()
        publication.after = self.clock()

    def legal(self, moment: int) -> list[Version]:
        """The versions of which one must be there after a crash when so many changes were made."""
        versions: list[Version] = []
        for publication in self.publications:
            if publication.after is not None and publication.after <= moment:
                if publication.durable:
                    versions = []
                versions.append(publication.version)
            elif publication.before < moment:
                versions.append(publication.version)
        return versions

    def settle(self, version: Version) -> None:
        """Nothing but this version may be there."""
        moment = self.clock()
        self.publications.append(Publication(version, moment, moment))


# ---------------------------------------------------------------------------------------------------------- arrays
@dataclass
class ArrayFile(Kind):
    """An `NDArray` in a file of its own."""

    #: Whether programs share it.
    locking: bool = False

    def open(self, path: str, mode: str) -> Any:
        return blosc2.open(path, mode=mode, **({"locking": True} if self.locking else {}))

    def read(self, handle: Any) -> dict[str, Value]:
        return {"": value_of(handle[:], dict(handle.vlmeta[:]))}

    def extend(self, handle: Any, version: dict[str, Value]) -> dict[str, Value]:
        array = np.frombuffer(version[""][2], version[""][0]).reshape(version[""][1])
        handle.resize((len(array) + 1, *array.shape[1:]))
        array = np.concatenate([array, np.zeros((1, *array.shape[1:]), array.dtype)])
        return {"": (str(array.dtype), array.shape, array.tobytes(), version[""][3])}


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

    kind: Kind
    steps: list[Step] = field(default_factory=list)
    array: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def add(self, act: Callable[[Any], Any], array: Any = None, **metadata: Any) -> None:
        """A change of the handle, and what is there after it."""
        self.array = self.array if array is None else np.asarray(array)
        self.metadata = {k: v for k, v in {**self.metadata, **metadata}.items() if v is not ...}
        version = {"": value_of(self.array, self.metadata)}

        def step(play: Play) -> None:
            play.publish(version, lambda: act(play.handle))
            play.now = version

        self.steps.append(step)

    def create(self, make: Callable[[str], Any], array: Any) -> None:
        self.array, self.metadata = np.asarray(array), {}
        version = {"": value_of(self.array)}

        def step(play: Play) -> None:
            def act() -> None:
                play.handle = make(play.path)

            play.publish(version, act)
            play.now = version

        self.steps.append(step)

    def reopen(self) -> None:
        def step(play: Play) -> None:
            play.handle = None
            play.handle = play.kind.open(play.path, "a")

        self.steps.append(step)


def array_story(kind: Kind, *, contiguous: bool = True) -> ArrayStory:
    story = ArrayStory(kind)
    array = noise(30 * 8, 1).reshape(30, 8)
    story.create(
        lambda path: blosc2.asarray(
            array, chunks=(10, 8), blocks=(5, 8), urlpath=path, contiguous=contiguous, mode="w"
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


def vector_story(kind: Kind, *, contiguous: bool = True) -> ArrayStory:
    story = ArrayStory(kind)
    array = noise(100, 1)
    story.create(
        lambda path: blosc2.asarray(array, chunks=(64,), blocks=(16,), urlpath=path, contiguous=contiguous, mode="w"),
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
        lambda path: blosc2.asarray(other, chunks=(50,), blocks=(10,), urlpath=path, contiguous=contiguous, mode="w"),
        other,
    )
    story.add(lambda a: a.append(noise(9, 8)), np.concatenate([other, noise(9, 8)]))
    return story


def _zeroed(array: Any) -> Any:
    array = array.copy()
    array[:10, :8] = 0
    return array


def schunk_story(kind: Kind, *, contiguous: bool = True, meta: dict[str, Any] | None = None) -> ArrayStory:
    story = ArrayStory(kind)
    items = noise(500, 1)
    story.create(
        lambda path: blosc2.SChunk(
            chunksize=1600,
            data=items,
            urlpath=path,
            contiguous=contiguous,
            mode="w",
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


def list_story(kind: Kind, cls: Any, *, contiguous: bool = True) -> ArrayStory:
    """Every change of a list; `elements` is what it holds."""
    story = ArrayStory(kind)
    numbers = noise(300, 1).tolist()
    new = numbers if cls is blosc2.ObjectArray else [numbers[n : n + 1 + n % 7] for n in range(290)]
    elements: list[Any] = []
    story.create(lambda path: cls(urlpath=path, contiguous=contiguous, mode="w"), flat([]))

    def add(act: Callable[[Any], Any]) -> None:
        act(elements)
        story.add(act, flat(elements))

    add(lambda x: x.append(new[0]))
    add(lambda x: x.extend(new[1:60]))
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


# ---------------------------------------------------------------------------------------------------------- stores
#: How many changes in a row find that publishing is cheap, and how many then that it is not.
PACES = {"quick": (1, 0), "slow": (0, 1), "changing": (3, 2)}


class ForcedPace(Pace):
    """The pace of a store on a disk that is as quick as is said, whatever the time."""

    __slots__ = ("_asked", "_cheap", "_dear")

    def __init__(self, pace: str) -> None:
        super().__init__()
        self._asked, (self._cheap, self._dear) = 0, PACES[pace]

    def is_due(self, waiting: int, values: int) -> bool:
        return self.is_cheap(0.0)

    def is_cheap(self, allowance: float) -> bool:
        self._asked += 1
        return (self._asked - 1) % (self._cheap + self._dear) < self._cheap


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
        return not self.name.endswith(".b2z")

    @property
    def there_when_opened(self) -> bool:
        """Whether a new store is there when it is opened."""
        return self.make is blosc2.EmbedStore

    def open(self, path: str, mode: str) -> Any:
        handle = self.make(path, mode=mode, **self.options)
        if isinstance(handle, blosc2.EmbedStore):
            handle._pace = ForcedPace(self.pace)
        else:
            handle._publishing.pace, handle._publishing.leaf_pace = ForcedPace(self.pace), ForcedPace(self.pace)
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
                values[key] = TORN
        if self.is_tree:
            for group, _, _ in handle.walk("/"):
                try:
                    attributes = (handle if group == "/" else handle.get_subtree(group)).vlmeta[:]
                except blosc2.exceptions.FormatError as error:
                    if self.atomic or group not in str(error):
                        raise
                    values[f"attributes of {group}"] = TORN
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

    def put(self, key: str, array: Any) -> None:
        array = np.asarray(array)

        def step(play: Play) -> None:
            self.change(play, {**play.now, key: value_of(array)}, lambda: play.handle.__setitem__(key, array))

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
            play.handle[key][at : at + len(part)] = part
            dtype, shape, data, metadata = play.now[key]
            array = np.frombuffer(data, dtype).reshape(shape).copy()
            array[at : at + len(part)] = part
            play.now = {**play.now, key: (dtype, shape, array.tobytes(), metadata)}

        self.steps.append(step)

    def note(self, key: str, **metadata: Any) -> None:
        """Change the metadata of a live leaf that had none."""

        def step(play: Play) -> None:
            if key in play.now:
                play.handle[key].vlmeta.update(metadata)
                play.now = {**play.now, key: (*play.now[key][:3], repr(sorted(metadata.items())))}

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


Story = ArrayStory | StoreStory


def stories() -> dict[str, Story]:
    """The stories by name, each for one kind."""
    found: dict[str, Story] = {
        "array": array_story(ArrayFile("array.b2nd")),
        "vector": vector_story(ArrayFile("vector.b2nd")),
        "schunk": schunk_story(SChunkFile("items.b2frame")),
        "shared array": array_story(ArrayFile("shared.b2nd", locking=True)),
        "long header": schunk_story(SChunkFile("long.b2frame"), meta={"text": "x" * 700}),
        "sparse vector": vector_story(ArrayFile("row.b2nd"), contiguous=False),
        "sparse array": array_story(ArrayFile("sparse.b2nd"), contiguous=False),
        "sparse schunk": schunk_story(SChunkFile("sparse.b2frame"), contiguous=False),
    }
    for name, cls in (("values", blosc2.ObjectArray), ("batches", blosc2.BatchArray)):
        found[f"list of {name}"] = list_story(ListFile(f"{name}.b2f"), cls)
        found[f"sparse list of {name}"] = list_story(ListFile(f"sparse_{name}.b2f"), cls, contiguous=False)
    found["shared list of batches"] = list_story(ListFile("shared_batches.b2f", locking=True), blosc2.BatchArray)
    kinds = {
        "embed": _store("embed.b2e", blosc2.EmbedStore),
        "dict b2z": _store("dict.b2z", blosc2.DictStore),
        "dict b2d": _store("dict.b2d", blosc2.DictStore),
        "dict b2z tiers": _store("tiers.b2z", blosc2.DictStore, threshold=1000),
        "dict b2d tiers": _store("tiers.b2d", blosc2.DictStore, threshold=1000),
        "tree b2z": _store("tree.b2z", blosc2.TreeStore),
        "tree b2d": _store("tree.b2d", blosc2.TreeStore),
        "tree b2z tiers": _store("treetiers.b2z", blosc2.TreeStore, threshold=1000),
        "tree b2d tiers": _store("treetiers.b2d", blosc2.TreeStore, threshold=1000),
        "tree b2z embedded": _store("embedded.b2z", blosc2.TreeStore, threshold=None),
    }
    for name, kind in kinds.items():
        found[name] = store_story(kind)
        found[f"{name}, upkeep"] = upkeep_story(kind)
    for name in ("embed", "dict b2d", "dict b2z"):
        found[f"{name}, crowd"] = crowd_story(kinds[name])
    for pace in PACES:
        for name, kind in kinds.items():
            if kind.at_once and pace != kind.pace:
                paced = replace(kind, pace=pace)
                found[f"{name}, {pace}"] = store_story(paced)
                found[f"{name}, upkeep, {pace}"] = upkeep_story(paced)
    return found


#: What a short run leaves out: a `DictStore` does what a `TreeStore` does with the same files, but for the attributes.
SIMILAR = ("dict b2z tiers", "dict b2d tiers", "tree b2z", "tree b2d", "dict b2z, upkeep", "dict b2d, upkeep",
           "dict b2z tiers, upkeep", "dict b2d tiers, upkeep", "tree b2z tiers, upkeep", "embed, crowd")  # fmt: skip
#: Of the stories at another pace, what a short run takes.
PACED = ("embed, slow", "tree b2d, upkeep, changing", "tree b2d tiers, slow", "tree b2d tiers, upkeep, slow")


def chosen_stories() -> list[str]:
    """The names of the stories that this run is to take: all, or some."""
    return [
        name
        for name in stories()
        if FULL or name in PACED or not (name in SIMILAR or name.rpartition(", ")[2] in PACES)
    ]


def hasty_stories() -> dict[str, StoreStory]:
    """Stories that do not wait for the disk."""
    return {story.kind.name: hasty_story(story.kind) for story in stories().values() if isinstance(story, StoreStory)}
