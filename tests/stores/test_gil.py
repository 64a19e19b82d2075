"""Reads of small leaves keep the GIL: to let other threads run takes longer than to decode one."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

pytestmark = pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no GIL")


@contextmanager
def turns_of_another_thread() -> Iterator[Callable[[], int]]:
    """How often another thread had the GIL, which it gets only from who gives it up; it is waiting for it."""
    turns, stop, interval = [0], [False], sys.getswitchinterval()

    def take_turns() -> None:
        while not stop[0]:
            turns[0] += 1
            time.sleep(0.0005)

    def turns_once_it_waits() -> int:
        start = time.perf_counter()
        while time.perf_counter() < start + 0.005:
            pass
        return turns[0]

    thread = threading.Thread(target=take_turns)
    sys.setswitchinterval(1000)
    thread.start()
    try:
        yield turns_once_it_waits
    finally:
        stop[0] = True
        thread.join()
        sys.setswitchinterval(interval)


def leaves(kind: str) -> list[Any]:
    rng = np.random.default_rng(1)
    if kind == "compressed":
        return [np.arange(100, dtype="f4") + i for i in range(50)]
    if kind == "noise":
        return [rng.normal(size=100) for _ in range(50)]
    if kind == "3 KB":
        return [rng.integers(0, 99, 3000, dtype="u1") for _ in range(50)]
    return [blosc2.SChunk(chunksize=200, data=rng.bytes(400)) for _ in range(50)]


@pytest.mark.parametrize("mmap_mode", [None, "r"])  # from a server they come without it
@pytest.mark.parametrize("kind", ["compressed", "noise", "3 KB", "super-chunk"])
@pytest.mark.parametrize("suffix", [".b2z", ".b2e"])
def test_small_leaves_are_read_with_the_gil(suffix: str, kind: str, mmap_mode: str | None, tmp_path: Path) -> None:
    path = str(tmp_path / f"x{suffix}")
    values = leaves(kind)
    with (blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore)(path, mode="w") as made:
        for number, value in enumerate(values):
            made[f"/k{number}"] = value
    store = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    keys = list(store.keys())
    for key in keys[:10]:  # what is learned at first
        store[key][:]
    with turns_of_another_thread() as turns:
        before = turns()
        for _ in range(5):
            read = [store[key][:] for key in keys[10:]]
        assert turns() == before
    for key, items in zip(keys[10:], read, strict=True):
        assert bytes(items) == bytes(values[int(key[2:])][:])


def test_large_reads_let_others_run() -> None:
    """The count above counts."""
    array = blosc2.asarray(np.random.default_rng(1).normal(size=300_000))
    with turns_of_another_thread() as turns:
        before, reads = turns(), 0
        while turns() == before and reads < 1000:
            array[:]
            reads += 1
        assert turns() > before
