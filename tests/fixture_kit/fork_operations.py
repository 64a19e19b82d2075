"""Operations of stores and arrays that fork in each of their blocks, generators and callbacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

import blosc2

_NOISE = np.random.default_rng(1).integers(0, 1 << 62, 4000)
Fork = Callable[[], None]


def noise(count: int, seed: int) -> np.ndarray[Any, Any]:
    return _NOISE[seed : seed + count] + seed


class Left(Exception):
    """Somebody leaves the block."""


# ---------------------------------------------------------------------- stories of stores
def transaction(s: Any, fork: Fork) -> None:
    with s.transaction():
        s["/new/1"], s["/a"] = noise(300, 1), noise(10, 2)
        fork()
        s["/new/2"] = noise(300, 3)
        del s["/g/b"]


def transaction_to_its_end(s: Any, fork: Fork) -> None:
    with s.transaction():
        s["/new/1"], s["/a"] = noise(300, 1), noise(10, 2)
        fork()


def transaction_that_is_taken_back(s: Any, fork: Fork) -> None:
    s["/before"] = [1]
    with suppress(ZeroDivisionError), s.transaction():
        s["/new/1"] = noise(300, 1)
        fork()
        raise ZeroDivisionError


def _items(fork: Fork, at: int, count: int = 12) -> Iterator[tuple[str, Any]]:
    for n in range(count):
        if n == at:
            fork()
        yield f"/w/{n}", noise(30 + 40 * n, n)


def write_many(s: Any, fork: Fork) -> None:
    s.write_many(_items(fork, 9))


def write_few(s: Any, fork: Fork) -> None:
    s.write_many(_items(fork, 1, 3))


def write_many_to_its_end(s: Any, fork: Fork) -> None:
    def items() -> Iterator[tuple[str, Any]]:
        yield from _items(fork, -1)
        fork()

    s.write_many(items())


def write_large(s: Any, fork: Fork) -> None:
    """Values that are compressed in threads."""

    def items() -> Iterator[tuple[str, Any]]:
        for n in range(12):
            if n == 10:
                fork()
            yield f"/w/{n}", np.resize(_NOISE, 20_000) + n

    s.write_many(items())


def write_many_in_a_transaction(s: Any, fork: Fork) -> None:
    with s.transaction():
        s["/x"] = [1]
        s.write_many(_items(fork, 9))


def update(s: Any, fork: Fork) -> None:
    s.update(_items(fork, 9))
    s.flush()


def tell_progress(s: Any, fork: Fork) -> None:
    s.write_many(_items(fork, -1), progress=lambda *_: fork())


def compact(s: Any, fork: Fork) -> None:
    del s["/a"]
    s["/b"] = noise(400, 5)
    s.flush()
    s["/b"] = noise(300, 6)
    s.compact(lambda *_: fork())


def block(s: Any, fork: Fork) -> None:
    s["/x"] = noise(200, 1)
    del s["/g/b"]
    fork()
    s["/y"] = noise(200, 2)


def moved_out_of_memory(s: Any, fork: Fork) -> None:
    for n in range(8):
        s[f"/x{n}"] = noise(300, n)
    s["/a"] = noise(600, 9)
    fork()
    s["/x9"] = noise(300, 3)
    s.flush()


def moved_and_dropped(s: Any, fork: Fork) -> None:
    for n in range(8):
        s[f"/x{n}"] = noise(300, n)
    fork()
    s.discard()
    s["/x3"] = noise(300, 99)
    s.flush()


def assignment(s: Any, fork: Fork) -> None:
    for n in range(4):
        s[f"/x{n}"] = noise(300, n)
    s["/y"] = Forks(fork, 600)


def rename(s: Any, fork: Fork) -> None:
    s.rename("/a", "/z/a")
    s.rename("/g/b", "/a")
    fork()
    s.flush()


def iteration(s: Any, fork: Fork) -> None:
    for key in s:
        if key == "/g/b":
            fork()


def leaf(s: Any, fork: Fork) -> None:
    held = s["/a"]
    held[0] = 5
    fork()
    held[1] = 6
    s.flush()
    held[2] = Forks(fork, 1)


def checks(s: Any, fork: Fork) -> None:
    s["/x"] = [1]
    s.check(progress=lambda *_: fork())


def salvage(s: Any, fork: Fork) -> None:
    s.flush()
    path = str(s._table.backend.named)
    to = os.path.join(os.path.dirname(path), "saved" + os.path.splitext(path)[1])
    blosc2.salvage(path, to, progress=lambda *_: fork())


STORE_STORIES = [
    transaction, transaction_to_its_end, transaction_that_is_taken_back, write_many, write_few, write_many_to_its_end,
    write_large, write_many_in_a_transaction, update, tell_progress, compact, block, moved_out_of_memory,
    moved_and_dropped, assignment, rename, iteration, leaf, checks, salvage,
]  # fmt: skip


# ---------------------------------------------------------------------- stories of arrays
class Forks:
    """An array-like whose items are had by forking."""

    def __init__(self, fork: Fork, size: int) -> None:
        self.fork, self.size = fork, size

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        self.fork()
        return noise(self.size, 7).reshape(self.size) if self.size > 1 else np.array(8)


def assign_items(a: Any, fork: Fork) -> None:
    a[100:1100] = Forks(fork, 1000)
    a[3] = 4


def append_items(a: Any, fork: Fork) -> None:
    a.append(Forks(fork, 700))


def hold_lock(a: Any, fork: Fork) -> None:
    with a.holding_lock():
        a[1] = 5
        if a.schunk._handle.locking:
            fork()
        a[2] = 6


def make_new(a: Any, fork: Fork) -> None:
    """Replace the array by one of values that come one by one."""

    def values() -> Iterator[int]:
        for n in range(3000):
            if n == 2500:
                fork()
            yield n * n

    how = {"contiguous": a.schunk.contiguous, "locking": a.schunk._handle.locking, "chunks": (500,), "mode": "w"}
    blosc2.fromiter(values(), (3000,), np.int64, urlpath=a.urlpath, **how)


def make_of_blocks(a: Any, fork: Fork) -> None:
    def blocks() -> Iterator[np.ndarray[Any, Any]]:
        for n in range(4):
            if n == 3:
                fork()
            yield noise(500, n)

    path = str(a.urlpath) + ".new.b2nd"
    blosc2.asarray(blocks(), shape=(2000,), dtype=np.int64, urlpath=path, contiguous=a.schunk.contiguous, chunks=(500,))


def salvage_array(a: Any, fork: Fork) -> None:
    if a.schunk.contiguous:
        blosc2.salvage(a.urlpath, str(a.urlpath) + ".saved.b2nd", progress=lambda *_: fork())


ARRAY_STORIES = [assign_items, append_items, hold_lock, make_new, make_of_blocks, salvage_array]
