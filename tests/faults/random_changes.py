"""Stories of random changes of each kind of file and store, each of which is a commit."""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from faults.crashes import FAST
from faults.disk import Tree
from faults.scenarios import NOISE, Kind, Play, Step, Value, value_of
from faults.store_stories import StoreKind
from faults.stories import stories

Change = Callable[[Any], Any]
_KEYS = [f"/{group}{name}" for group in ("", "g/", "g/h/", "k/") for name in "abc"]


def _array_changes(rng: random.Random, version: dict[str, Value]) -> Iterator[tuple[Change, dict[str, Value]]]:
    """Changes of an array of two axes; each is a commit."""
    while True:
        dtype, shape, data, metadata = version[""]
        array = np.frombuffer(data, dtype).reshape(shape)
        choice = rng.randrange(4)
        if choice == 0:
            rows = rng.randint(1, 60)
            new = np.zeros((rows, shape[1]), dtype)
            new[: min(rows, shape[0])] = array[:rows]
            change: Change = lambda a, rows=rows, wide=shape[1]: a.resize((rows, wide))  # noqa: E731
            version = {"": (dtype, new.shape, new.tobytes(), metadata)}
        elif choice == 1:
            note = {"note": rng.randrange(1000), "text": "x" * rng.choice([3, 400])}
            change = lambda a, note=note: a.vlmeta.update(note)  # noqa: E731
            version = {"": (dtype, shape, data, repr(sorted(note.items())))}
        else:
            new = array.copy()
            start, stop = sorted(rng.sample(range(shape[0] + 1), 2))
            part = NOISE[rng.randrange(10_000) :][: (stop - start) * shape[1]].reshape(stop - start, shape[1])
            new[start:stop] = part
            change = lambda a, start=start, stop=stop, part=part: a.__setitem__(slice(start, stop), part)  # noqa: E731
            version = {"": (dtype, shape, new.tobytes(), metadata)}
        yield change, version


def _schunk_changes(rng: random.Random, version: dict[str, Value]) -> Iterator[tuple[Change, dict[str, Value]]]:
    """Changes of a super-chunk of 200 items a chunk."""
    while True:
        dtype, shape, data, metadata = version[""]
        items, chunks = np.frombuffer(data, dtype), shape[0] // 200
        part = NOISE[rng.randrange(10_000) :][:200]
        index = rng.randrange(chunks) if chunks else 0
        choice = rng.choice(["append", "update", "delete", "insert"])
        if choice == "append" or chunks < 2:
            change: Change = lambda s, part=part: s.append_data(part)  # noqa: E731
            new = np.concatenate([items, part])
        elif choice == "update":
            change = lambda s, index=index, part=part: s.update_data(index, part)  # noqa: E731
            new = np.concatenate([items[: index * 200], part, items[index * 200 + 200 :]])
        elif choice == "insert" and chunks < 12:
            change = lambda s, index=index, part=part: s.insert_data(index, part)  # noqa: E731
            new = np.concatenate([items[: index * 200], part, items[index * 200 :]])
        else:
            change = lambda s, index=index: s.delete_chunk(index)  # noqa: E731
            new = np.concatenate([items[: index * 200], items[index * 200 + 200 :]])
        version = {"": (dtype, new.shape, new.tobytes(), metadata)}
        yield change, version


def _store_changes(
    rng: random.Random, version: dict[str, Value], *, at_once: bool = False
) -> Iterator[tuple[Change, dict[str, Value]]]:
    """A few changes of a store, and a commit of them all.

    Where changes may be published by themselves, only those of a transaction are one commit.
    """
    ways = ["flush", "flush", "transaction", "compact"]
    while True:
        changes: list[Change] = []
        committed = version
        many = not at_once or rng.random() < 0.3
        for _ in range(rng.randint(1, 4) if many else 1):
            change, version = _store_change(rng, version, committed)
            changes.append(change)
        yield _committed(changes, "transaction" if at_once and many else rng.choice(ways)), version


def _store_change(
    rng: random.Random, version: dict[str, Value], committed: dict[str, Value]
) -> tuple[Change, dict[str, Value]]:
    there = sorted(version)
    # A `.b2d` cannot swap two leaves in one commit: neither file can go first.
    free = [key for key in _KEYS if key not in version and key not in committed]
    choice = rng.choice(["put", "put", "put", "delete", "edit", "rename"])
    if choice == "delete" and len(there) > 3:
        gone = rng.choice(there)
        return lambda s: s.__delitem__(gone), {k: v for k, v in version.items() if k != gone}
    if choice == "rename" and there and free:
        old, new = rng.choice(there), rng.choice(free)
        return lambda s: s.rename(old, new), {new if k == old else k: v for k, v in version.items()}
    if choice == "edit" and there:
        key, number = rng.choice(there), rng.randrange(1000)
        array = np.frombuffer(version[key][2], version[key][0]).copy()
        array[0] = number
        return lambda s: s[key].__setitem__(0, number), {**version, key: (*version[key][:2], array.tobytes(), "[]")}
    key = rng.choice(_KEYS)
    array = NOISE[rng.randrange(10_000) :][: rng.choice([1, 8, 100, 500, 3000])]
    return lambda s: s.__setitem__(key, array), {**version, key: value_of(array)}


def _committed(changes: list[Change], how: str) -> Change:
    def act(store: Any) -> None:
        with store.transaction() if how == "transaction" else contextlib.nullcontext():
            for change in changes:
                change(store)
        if how == "compact":
            store.compact()
        elif how != "transaction":
            store.flush()

    return act


def random_story(name: str, seed: int, count: int) -> tuple[Kind, list[Step], Tree]:
    """A story of random changes, and what there is before it."""
    kind, first, changes = _targets()[name]
    rng = random.Random(f"{name} {seed}")
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        _begin(name, kind, first, folder)
        start, _ = Tree.load(Path(folder))
    source: list[Iterator[tuple[Change, dict[str, Value]]]] = []

    def begin(play: Play) -> None:
        play.handle = kind.open(play.path, "a")
        source.append(changes(rng, play.now))

    def step(play: Play) -> None:
        change, version = next(source[-1])
        play.publish(version, lambda: change(play.handle), durable=getattr(kind, "durable", True))
        play.now = version

    def end(play: Play) -> None:
        play.publish(play.now, lambda: kind.close(play.handle))

    return kind, [begin, *[step] * count, end], start


#: Stories whose kinds are changed at random.
RANDOM = [name for name in stories() if not any(part in name for part in ("vector", ",", "shared", "long", "list"))]


def _targets() -> dict[str, tuple[Kind, Callable[[str], Any], Callable[..., Any]]]:
    """Kinds of files, what begins one, and what changes it."""
    found: dict[str, tuple[Kind, Callable[[str], Any], Callable[..., Any]]] = {}
    for name, story in stories().items():
        if name not in RANDOM:
            continue
        kind = story.kind
        first = story.steps[0]
        if isinstance(kind, StoreKind):
            changes = partial(_store_changes, at_once=kind.at_once)
            found[name] = kind, lambda path, kind=kind: kind.open(path, "w").close(), changes
        else:
            changes = _schunk_changes if "schunk" in name else _array_changes
            found[name] = kind, first, changes
    return found


def _begin(name: str, kind: Kind, first: Any, folder: str) -> None:
    if isinstance(kind, StoreKind):
        first(os.path.join(folder, kind.name))
    else:
        first(Play(kind, folder))
    if kind.observe(folder) is not None and "schunk" in name:  # whole chunks, as the changes know them
        handle = kind.open(os.path.join(folder, kind.name), "a")
        handle.delete_chunk(handle.nchunks - 1)
