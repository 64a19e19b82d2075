"""A writer that is killed (SIGKILL) while it commits, again and again, and what it leaves.

``python -m faults.kills 1000`` (in ``tests``) runs until a thousand writers were killed and prints what was found.

Each writer is a fork of this process that goes on with what the last one left: random changes, each followed by a
commit, and one byte into a pipe when that is over. The changes follow from a number, so that this process knows the
version of each commit without having made it. After the kill there must be the version of the last commit that was
over, or of the next one; in a `.b2d`, leaf by leaf.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from faults.crashes import FAST
from faults.disk import Tree
from faults.scenarios import NOISE, Kind, Play, Step, Value, Version, value_of
from faults.store_stories import StoreKind
from faults.stories import stories

Change = Callable[[Any], Any]
#: Kills of one file before a new one is begun.
_ROUND = 25
_LONGEST = 0.03
_KEYS = [f"/{group}{name}" for group in ("", "g/", "g/h/", "k/") for name in "abc"]


class Kill(NamedTuple):
    """What a kill left.

    Attributes
    ----------
    version
        What is there.
    over : int
        Commits that were over.
    ahead : bool
        Whether one more commit is there.
    reads : int
        How often all of it was read meanwhile.
    """

    version: Version
    over: int
    ahead: bool
    reads: int


class Killed(AssertionError):
    """A kill left something that must not be."""


# ------------------------------------------------------------------------------------------------ random changes
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
    rng: random.Random, version: dict[str, Value], *, hasty: bool = True, at_once: bool = False
) -> Iterator[tuple[Change, dict[str, Value]]]:
    """A few changes of a store, and a commit of them all.

    Where changes may be published by themselves, only those of a transaction are one commit.
    """
    ways = ["flush", "flush", "transaction", "compact", *["hasty"] * hasty]
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
            store.flush(durable=how == "flush")

    return act


def random_story(name: str, seed: int, count: int) -> tuple[Kind, list[Step], Tree]:
    """A story of random changes, and what there is before it."""
    kind, first, changes = _targets()[name]
    rng = random.Random(f"{name} {seed}")
    if isinstance(kind, StoreKind):
        changes = partial(changes, hasty=False)
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


# ------------------------------------------------------------------------------------------------------ killing
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


def _begin(name: str, kind: Kind, first: Any, folder: str) -> Version:
    if isinstance(kind, StoreKind):
        first(os.path.join(folder, kind.name))
    else:
        first(Play(kind, folder))
    version = kind.observe(folder)
    if version is not None and "schunk" in name:  # whole chunks, as the changes know them
        handle = kind.open(os.path.join(folder, kind.name), "a")
        handle.delete_chunk(handle.nchunks - 1)
        version = kind.observe(folder)
    return version


def _write(kind: Kind, path: str, changes: Iterator[tuple[Change, Version]], pipe: int) -> None:
    """In the child: commit until killed."""
    handle = kind.open(path, "a")
    for change, _ in changes:
        change(handle)
        os.write(pipe, b".")


def kill_once(kind: Kind, folder: str, make: Callable[[], Iterator[tuple[Change, Any]]], version: Version,
              seconds: float) -> Kill:  # fmt: skip
    """Let a writer change what is there, kill it after some time, and look; read all the time meanwhile.

    A reader sees whole versions, and none that is older than one seen before. (Of a `.b2d` only what is left at the end
    is looked at: its leaves change one by one.)
    """
    inlet, outlet = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads that there may be know about forks
        child = os.fork()
    if child == 0:
        try:
            os.close(inlet)
            _write(kind, os.path.join(folder, kind.name), make(), outlet)
        except BaseException:  # noqa: BLE001 - said in the pipe, in full
            os.write(outlet, b"!" + traceback.format_exc().encode())
        os._exit(1)
    os.close(outlet)
    read: list[Version] = []
    try:
        end = time.monotonic() + seconds
        while kind.atomic and time.monotonic() < end:
            read.append(kind.observe(folder, "r" if len(read) % 2 else None))
        time.sleep(max(0.0, end - time.monotonic()))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    with open(inlet, "rb") as pipe:
        said = pipe.read()
    if b"!" in said:
        raise Killed(f"{kind.name}: the writer failed: {said[said.index(b'!') :].decode()}")
    over = len(said)
    versions = [version]
    for (_, after), _ in zip(make(), range(over + 1), strict=False):
        versions.append(after)
    seen = kind.observe(folder)
    kind.check(seen, versions[over : over + 2])
    newest = 0
    for found in read:
        kind.check(found, versions[newest : over + 2])
        newest += versions[newest:].index(found)
    return Kill(seen, over, seen not in versions[over : over + 1], len(read))


def run(kills: int, seed: int, names: list[str] | None = None) -> Counter[str]:
    """Kill so many writers, of each kind in turn.

    Returns
    -------
    Counter
        Kills, commits that were over, commits that had taken place although the writer could not say so any more,
        and temporary files that nobody removed.
    """
    targets = {name: target for name, target in _targets().items() if names is None or name in names}
    counts: Counter[str] = Counter()
    rng = random.Random(seed)
    while counts["kills"] < kills:
        for number, (name, (kind, first, changes)) in enumerate(targets.items()):
            share = max(1, min(_ROUND, (kills - counts["kills"]) // (len(targets) - number)))
            if counts["kills"] >= kills:
                break
            with tempfile.TemporaryDirectory(dir=FAST) as folder:
                version = _begin(name, kind, first, folder)
                for _ in range(share):
                    key = rng.random()

                    def make(key: float = key, version: Version = version, changes: Any = changes) -> Any:
                        return changes(random.Random(key), dict(version or {}))

                    try:
                        kill = kill_once(kind, folder, make, version, rng.uniform(0.001, _LONGEST))
                    except Exception as error:
                        raise Killed(f"{name}, seed {seed}, kill {counts['kills']}: {error!r}") from error
                    counts["kills"] += 1
                    version = kill.version
                    counts["commits"] += kill.over
                    counts["commits cut short"] += kill.ahead
                    counts["reads meanwhile"] += kill.reads
                counts["temporary files left"] += sum(entry != kind.name for entry in os.listdir(folder))
    return counts


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    start = time.monotonic()
    result = run(number, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print(json.dumps(result))
    print(f"{time.monotonic() - start:.1f} s")
