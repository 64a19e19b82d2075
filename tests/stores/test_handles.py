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
from blosc2._core.leaves.weak_cache import hold, sweep
from blosc2._frames import FrameHandle

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


class _Leaf:
    pass


def test_a_reference_gives_way_only_when_its_object_is_gone() -> None:
    held: dict[str, Any] = {}
    first, second = _Leaf(), _Leaf()
    assert hold(held, "/a", first) is first
    assert hold(held, "/a", second) is first
    assert hold(held, "/b", second) is second
    sweep(held)
    assert set(held) == {"/a", "/b"}
    gone = weakref.ref(first)
    del first
    assert gone() is None
    assert hold(held, "/a", second) is second
    del second
    sweep(held)
    assert held == {}


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
        if WITHOUT_GIL:  # the last leaf that a thread has opened is its to open again
            assert store[key_of(1)] is gone()
            _ = store[key_of(2)]
        assert gone() is None
    finally:
        gc.enable()


def test_a_large_leaf_is_gone_at_once(tmp_path: Path, source: str | None) -> None:
    """Also without a GIL: only small leaves wait for the next one."""
    with blosc2.DictStore(str(tmp_path / "large.b2z"), mode="w") as writing:
        writing["/a"] = np.random.default_rng(1).integers(0, 256, 100_000, "u1")
    store = blosc2.open(str(tmp_path / "large.b2z"), mode="r", mmap_mode=source)
    leaf = store["/a"]
    assert store["/a"] is leaf
    gone = weakref.ref(leaf)
    del leaf
    gc.collect()
    assert gone() is None


def test_references_to_what_is_gone_do_not_pile_up(path: str) -> None:
    store = blosc2.open(path, mode="r")
    for number in range(LEAVES):
        store[key_of(number)]
        assert len(store._leaves.held) <= 1025
    held = [store[key_of(number)] for number in range(5000)]
    for number in range(LEAVES):
        store[key_of(number)]
        assert len(store._leaves.held) <= 2 * 6100
    assert all(store[key_of(number)] is leaf for number, leaf in enumerate(held))
    del held
    for number in range(2 * LEAVES):
        store[key_of(number % LEAVES)]
    assert len(store._leaves.held) <= 1025


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


def test_a_store_open_for_writing_keeps_no_leaf_that_was_only_read(tmp_path: Path) -> None:
    with blosc2.DictStore(str(tmp_path / "live.b2z"), mode="w") as store:
        store.update({f"/k{number}": [number] for number in range(20)})
        store.flush()
        for number in range(2000):
            leaf = store[f"/k{number % 20}"]
            assert store[f"/k{number % 20}"] is leaf
        del leaf
        assert len(store._leaves.handles) == 0
        assert len(store._leaves.held) == 20


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


@pytest.mark.parametrize("verify", [None, False])
@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_a_leaf_has_all_that_its_classes_set(mmap_mode: str | None, verify: bool | None, tmp_path: Path) -> None:
    """Slots of new handles and arrays are filled where they lie: with what `__init__` gives them."""
    path = tmp_path / "s.b2z"
    with blosc2.DictStore(str(path), mode="w") as store:
        store.update({f"/{n}": np.arange(n + 3) for n in range(40)})
    store = blosc2.DictStore(str(path), mode="r", mmap_mode=mmap_mode, verify=verify)
    leaf = store["/7"]
    handle = leaf._handle
    assert type(handle) is FrameHandle
    other = FrameHandle(handle.frame, handle.options, handle.urlpath, handle.key)
    for name in {*FrameHandle.__slots__} - {"__weakref__", "array"}:
        assert getattr(handle, name) == getattr(other, name), name
    other.read_as_array()
    assert handle.array[1:] == other.array[1:]
    assert handle.array[0].shape == other.array[0].shape == (10,)
    assert (handle.key, handle.verify, handle.options.verify) == ("/7", verify, verify)
    assert handle.frame in gc.get_referents(handle)
    assert handle in gc.get_referents(leaf)
    # Each is let go of with its array: no reference is counted twice, or not at all.
    key = "/" + str(len(store) - 1)

    def opened() -> weakref.ref[Any]:
        made = weakref.ref(store[key]._handle)
        assert np.array_equal(store[key][:], np.arange(42))
        store["/8"], store["/9"]
        return made

    opened()  # the store remembers the key for a while
    before = sys.getrefcount(key), sys.getrefcount(handle.options)
    gone = [opened() for _ in range(300)]
    gc.collect()
    assert not [made for made in gone if made() is not None]
    after = sys.getrefcount(key), sys.getrefcount(handle.options)
    assert all(abs(y - x) < 5 for x, y in zip(before, after, strict=True))
