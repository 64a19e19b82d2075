"""Sixteen threads with one store: each sees whole values of some version, whatever the others do.

BLOSC2_STRESS_SECONDS says for how long each case runs. It is for Pythons without a GIL, and finds little with one.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

SECONDS = float(os.environ.get("BLOSC2_STRESS_SECONDS", "2"))
THREADS = 16
LEAVES = 60
LENGTH = 50

KINDS: dict[str, tuple[Any, str]] = {
    "embed": (blosc2.EmbedStore, "s.b2e"), "zip": (blosc2.TreeStore, "s.b2z"), "folder": (blosc2.DictStore, "s.b2d"),
}  # fmt: skip


def name(i: int) -> str:
    return f"/group{i % 3}/leaf{i}"


def value(i: int, version: int) -> np.ndarray:
    """One number in all items: half of a version shows."""
    return np.full(LENGTH, 1000 * version + i)


def is_whole(i: int, items: np.ndarray) -> None:
    assert items.shape == (LENGTH,)
    assert (items == items[0]).all()
    assert items[0] % 1000 == i


class Crowd:
    """Threads that repeat what they do until the time is over, or one of them fails."""

    def __init__(self, count: int = THREADS) -> None:
        self.count = count
        self.until = time.monotonic() + SECONDS
        self.errors: list[BaseException] = []
        self.turns: dict[str, int] = {}
        self.threads: list[threading.Thread] = []
        self.start = threading.Barrier(count)

    def add(self, act: Callable[[random.Random], None]) -> None:
        seed = len(self.threads)

        def run() -> None:
            chance, turns = random.Random(seed), 0
            try:
                self.start.wait()
                while time.monotonic() < self.until and not self.errors:
                    act(chance)
                    turns += 1
            except BaseException as error:  # noqa: BLE001 - told by `finish`
                self.errors.append(error)
            self.turns[f"{act.__name__} {seed}"] = turns

        self.threads.append(threading.Thread(target=run, name=f"{act.__name__} {seed}"))

    def finish(self) -> None:
        assert len(self.threads) == self.count
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join(SECONDS + 120)
            assert not thread.is_alive(), f"{thread.name} hangs"
        if self.errors:
            raise self.errors[0]
        assert all(self.turns.values()), self.turns


@pytest.fixture(autouse=True)
def switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)
    gc.collect()


def fill(kind: str, folder: Path) -> str:
    make, file = KINDS[kind]
    path = str(folder / file)
    with make(path, mode="w") as store:
        for i in range(LEAVES):
            store[name(i)] = value(i, 0)
    return path


class Readers:
    """What threads do that read one store."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.held: list[Any] = [None] * LEAVES

    def get(self, chance: random.Random) -> None:
        i = chance.randrange(LEAVES)
        is_whole(i, self.store[name(i)][:])

    def part(self, chance: random.Random) -> None:
        i = chance.randrange(LEAVES)
        assert self.store[name(i)][3:7].shape == (4,)

    def read(self, chance: random.Random) -> None:
        i = chance.randrange(LEAVES)
        is_whole(i, self.store.read(name(i)))

    def hold(self, chance: random.Random) -> None:
        i = chance.randrange(LEAVES)
        leaf = self.store[name(i)]
        assert leaf.shape == (LENGTH,)
        assert leaf.chunks
        self.held[i] = leaf if chance.random() < 0.5 else None
        is_whole(i, leaf[:])

    def many(self, chance: random.Random) -> None:
        chosen = chance.sample(range(LEAVES), 20)
        for i, items in zip(chosen, self.store.read_many([name(i) for i in chosen]), strict=True):
            is_whole(i, items)

    def walk(self, chance: random.Random) -> None:
        try:
            keys = list(self.store)
        except RuntimeError as error:  # another thread has shown a newer version meanwhile
            assert "during iteration" in str(error)  # noqa: PT017
            return
        assert {name(i) for i in range(LEAVES)} <= set(keys)
        assert len(self.store) >= LEAVES

    def ask(self, chance: random.Random) -> None:
        assert name(chance.randrange(LEAVES)) in self.store
        assert "/absent" not in self.store

    def all(self) -> list[Callable[[random.Random], None]]:
        return [self.get, self.part, self.read, self.hold, self.many, self.walk, self.ask]


@pytest.mark.parametrize("mapped", ["r", None])
@pytest.mark.parametrize("kind", KINDS)
def test_readers_while_another_publishes(kind: str, mapped: str | None, tmp_path: Path) -> None:
    path = fill(kind, tmp_path)
    make = KINDS[kind][0]
    versions = [0]

    def publish(chance: random.Random) -> None:
        versions[0] += 1
        for i in chance.sample(range(LEAVES), 5):
            written[name(i)] = value(i, versions[0])
        written.flush(durable=False)

    def refresh(chance: random.Random) -> None:
        store.refresh()
        time.sleep(0.001)

    def open_and_close(chance: random.Random) -> None:
        """Another thread reads when the store is closed: it gets a value, or is told."""
        own = make(path, mode="r", mmap_mode=mapped)
        seen: list[BaseException] = []

        def read_on() -> None:
            try:
                while True:
                    i = chance.randrange(LEAVES)
                    is_whole(i, own[name(i)][:])
            except blosc2.exceptions.ClosedStoreError:
                pass
            except BaseException as error:  # noqa: BLE001 - told below
                seen.append(error)

        other = threading.Thread(target=read_on)
        other.start()
        time.sleep(0.002)
        own.close()
        other.join()
        if seen:
            raise seen[0]

    with make(path, mode="a") as written, make(path, mode="r", mmap_mode=mapped) as store:
        crowd, readers = Crowd(), Readers(store)
        for act in (publish, refresh, open_and_close, open_and_close):
            crowd.add(act)
        acts = readers.all()
        for i in range(THREADS - 4):
            crowd.add(acts[i % len(acts)])
        crowd.finish()
    assert blosc2.check(path).ok


@pytest.mark.parametrize("kind", KINDS)
def test_one_store_that_all_change(kind: str, tmp_path: Path) -> None:
    path = fill(kind, tmp_path)
    make = KINDS[kind][0]

    def assign(chance: random.Random) -> None:
        i = chance.randrange(LEAVES)
        store[name(i)] = value(i, chance.randrange(1000))

    def add_and_remove(chance: random.Random) -> None:
        key = f"/group1/{threading.get_ident()}x{chance.randrange(1000)}"
        store[key] = value(1, 1)
        is_whole(1, store[key][:])
        del store[key]

    def flush(chance: random.Random) -> None:
        store.flush(durable=False)
        time.sleep(0.002)

    with make(path, mode="a") as store:
        crowd, readers = Crowd(), Readers(store)
        for act in (assign, assign, assign, add_and_remove, add_and_remove, flush):
            crowd.add(act)
        acts = [act for act in readers.all() if act.__name__ != "walk"]  # which is told when keys change
        for i in range(THREADS - 6):
            crowd.add(acts[i % len(acts)])
        crowd.finish()
    with make(path, mode="r") as store:
        # A tree lists its groups, too.
        assert sorted(key for key in store if key.count("/") == 2) == sorted(name(i) for i in range(LEAVES))
        for i in range(LEAVES):
            is_whole(i, store[name(i)][:])
    assert blosc2.check(path).ok


@pytest.mark.parametrize("kind", KINDS)
def test_one_key_that_some_set_and_others_read(kind: str, tmp_path: Path) -> None:
    """What waits for publication is replaced while it is read. More threads than these come in between less often."""

    def assign(chance: random.Random) -> None:
        for version in range(200):
            store["/a"] = versions[version]

    def read(chance: random.Random) -> None:
        for _ in range(200):
            is_whole(1, store.read("/a"))

    versions = [value(1, version) for version in range(200)]
    with KINDS[kind][0](fill(kind, tmp_path), mode="a") as store:
        store["/a"] = versions[0]
        crowd = Crowd(4)
        for act in (assign, read, read, read):
            crowd.add(act)
        crowd.finish()
