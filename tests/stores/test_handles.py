"""Handles of leaves: one for each leaf that is held, none for others, and little memory for each."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import sysconfig
import threading
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits

import blosc2

LEAVES = 20_000
WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
#: Resident bytes for each leaf that is open. Without a GIL each object has 16 bytes more.
MOST = 1300 if WITHOUT_GIL else 1200


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Leaves of 64 bytes."""
    path = str(tmp_path_factory.mktemp("handles") / "leaves.b2z")
    with blosc2.DictStore(path, mode="w") as store:
        for number in range(LEAVES):
            store[key_of(number)] = np.arange(8) + number
    return path


def key_of(number: int) -> str:
    return f"/g{number // 1000:03d}/leaf{number:06d}"


def test_threads_that_open_a_leaf_together_get_one_object(path: str, source: str | None) -> None:
    store = blosc2.open(path, mode="r", mmap_mode=source)
    keys = [key_of(number) for number in range(2000)]
    found: list[list[Any]] = [[] for _ in range(8)]
    begin = threading.Barrier(len(found))

    def read(mine: list[Any]) -> None:
        begin.wait()
        mine.extend(store[key] for key in keys)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=read, args=(mine,)) for mine in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for number, leaves in enumerate(zip(*found, strict=True)):
        assert WITHOUT_GIL or len(set(map(id, leaves))) == 1
        assert all(leaf[0] == number for leaf in leaves)
    # Without a GIL threads may have got one each; later all get one of these. The last one is its thread's still.
    for key, leaves in zip(keys[:-1], zip(*found, strict=True)):
        assert any(store[key] is leaf for leaf in leaves)


def test_a_leaf_that_was_let_go_is_gone(path: str, source: str | None) -> None:
    store = blosc2.open(path, mode="r", mmap_mode=source)
    gc.disable()  # no cycle keeps it until the collector comes
    try:
        leaf = store[key_of(1)]
        _ = leaf[:], leaf.schunk, leaf.vlmeta, leaf.info_items
        gone = weakref.ref(leaf)
        del leaf
        assert gone() is None
    finally:
        gc.enable()


def test_opening_and_letting_go_leaves_nothing(path: str, source: str | None) -> None:
    store = blosc2.open(path, mode="r", mmap_mode=source)
    keys = [key_of(number) for number in range(1000)]

    def rounds(number: int) -> None:
        for _ in range(number):
            for key in keys:
                store[key]
            store[keys[0]][:]

    tracemalloc.start()
    try:
        rounds(3)  # as many references as are kept before they are looked through
        gc.collect()
        before, objects = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
        rounds(20)
        gc.collect()
        # One object or 8 bytes left by each cycle would be 20,000 objects, or 160,000 bytes.
        assert tracemalloc.get_traced_memory()[0] - before < 40_000
        assert len(gc.get_objects()) - objects < 200
    finally:
        tracemalloc.stop()


_HOLD = """
import sys
import blosc2

path, mmap_mode, leaves = sys.argv[1], sys.argv[2] or None, int(sys.argv[3])
resident = lambda: int(open("/proc/self/statm").read().split()[1]) * {page}
store = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
keys = [f"/g{{number // 1000:03d}}/leaf{{number:06d}}" for number in range(leaves)]
held = [store[key][:] for key in keys[:10]] + [None] * leaves
before = resident()
for number, key in enumerate(keys):
    held[number] = store[key]
opened = resident()
for leaf in held[:leaves]:
    leaf[:]
read = resident()
for _ in range(5):
    held[:] = [None] * len(held)
    for number, key in enumerate(keys):
        held[number] = store[key]
again = resident()
print((opened - before) / leaves, (read - before) / leaves, (again - before) / leaves)
"""


@pytest.mark.skipif(not limits.LINUX, reason="counts resident memory in /proc")
def test_what_a_held_leaf_costs(path: str, source: str | None) -> None:
    program = _HOLD.format(page=os.sysconf("SC_PAGE_SIZE"))
    environment = {**os.environ, "PYTHONPATH": str(Path(blosc2.__file__).parents[1])}
    output = subprocess.run(
        [sys.executable, "-c", program, path, source or "", str(LEAVES)],
        check=True, capture_output=True, text=True, env=environment,
    ).stdout  # fmt: skip
    opened, read, again = map(float, output.split())
    assert 300 < opened < MOST  # below that, nothing was measured
    assert read < MOST
    assert (
        again < 1.3 * MOST
    )  # old and new ones are there together for a moment, and memory comes back in larger pieces
