"""Large arrays are compressed right into the file of a `.b2z`; what fails meanwhile leaves nothing behind."""

from __future__ import annotations

import errno
import os
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._arrays import ArrayPlan
from blosc2._backends import new_key
from blosc2._frames import ZERO_OFFSET, AnyChunk
from blosc2._stores import FramedValue, table_of
from blosc2._stores.leaves import leaf_setting

ITEMS = np.random.default_rng(1).integers(0, 1 << 62, (40, 500))
KEYWORDS = {"chunks": (4, 500)}


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._stores.leaves.leaf_setting.LARGE", 100_000)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.b2z")


def plan(**keywords: Any) -> ArrayPlan:
    return ArrayPlan(ITEMS.shape, ITEMS.dtype, {**KEYWORDS, **keywords})


def chunks(plan: ArrayPlan, *, fail_after: int | None = None) -> Iterator[AnyChunk]:
    for number, stored in enumerate(plan.compressed(ITEMS)):
        if number == fail_after:
            raise RuntimeError("no more of them")
        yield stored


def set_chunks(store: Any, key: str, plan: ArrayPlan, chunks: Iterator[AnyChunk]) -> bool:
    """Give a key an array whose chunks come one by one; False where a store keeps them in memory or a file first."""
    key, table = new_key(store._absolute(key)), table_of(store)
    table.session.check_writable("set items", key)
    with table.lock:
        if not leaf_setting.takes_chunks(table):
            return False
        table.check_assignable(key)
        nbytes = plan.geometry.size * plan.dtype.itemsize
        leaf_setting.set_leaf(store, key, FramedValue(leaf_setting.lay_out(table, key, plan, chunks), nbytes))
    return True


def check(path: str, expected: dict[str, np.ndarray[Any, Any]]) -> None:
    """What is published is sound for us, and for others that read ZIP files."""
    assert blosc2.check(path).ok
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    for how in ({}, {"mmap_mode": "r"}, {"verify": True}):
        with blosc2.open(path, mode="r", **how) as store:
            assert {key for key in store if not isinstance(store[key], blosc2.TreeStore)} == set(expected)
            for key, items in expected.items():
                np.testing.assert_array_equal(store[key][...], items)


@pytest.mark.parametrize("kind", [blosc2.TreeStore, blosc2.DictStore])
@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("level", [0, 1])
def test_an_array_is_written_once(kind: Any, is_new: bool, level: int, path: str) -> None:
    with kind(path, mode="w", cparams={"clevel": level}) as store:
        if not is_new:
            store["/before"] = ITEMS[:2]
            store.flush()
        store["/group/large"] = ITEMS
        store["/small"] = [1, 2]
        np.testing.assert_array_equal(store["/group/large"][3], ITEMS[3])  # before it is published
    check(path, {"/group/large": ITEMS, "/small": np.array([1, 2])} | ({} if is_new else {"/before": ITEMS[:2]}))
    assert os.path.getsize(path) < ITEMS.nbytes + 30_000
    assert os.listdir(os.path.dirname(path)) == ["store.b2z"]


def test_it_is_replaced_before_it_is_published(path: str) -> None:
    with blosc2.TreeStore(path, mode="w") as store:
        for number in range(4):
            store["/x"] = ITEMS + number
            store["/y"] = ITEMS - number
        del store["/y"]
    check(path, {"/x": ITEMS + 3})


@pytest.mark.parametrize("is_staged", [False, True])
@pytest.mark.parametrize("taken", [0, 1, 9])
def test_a_source_that_fails(is_staged: bool, taken: int, path: str, changes_wait: None) -> None:
    with blosc2.TreeStore(path, mode="w") as store:
        store["/before"] = ITEMS[:2]
        store.flush()
        if is_staged:
            store["/staged"] = ITEMS * 2
        before = os.path.getsize(path)
        failing = plan()
        with pytest.raises(RuntimeError, match="no more"):
            set_chunks(store, "/x", failing, chunks(failing, fail_after=taken))
        assert "/x" not in store
        assert os.path.getsize(path) == before
        store["/after"] = ITEMS[2:4]
        if is_staged:
            np.testing.assert_array_equal(store["/staged"][...], ITEMS * 2)
    staged = {"/staged": ITEMS * 2} if is_staged else {}
    check(path, {"/before": ITEMS[:2], "/after": ITEMS[2:4], **staged})


@pytest.mark.parametrize("at", [1, 2])
def test_a_disk_that_fails(at: int, path: str, monkeypatch: pytest.MonkeyPatch, changes_wait: None) -> None:
    write, count = os.pwrite, 0

    def full(*given: Any) -> int:
        nonlocal count
        count += 1
        if count == at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*given)

    with blosc2.TreeStore(path, mode="w") as store:
        store["/before"] = ITEMS[:2]
        store.flush()
        before = Path(path).read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(OSError, match="No space") as caught:
                store["/x"] = ITEMS
        assert caught.value.errno == errno.ENOSPC
        assert Path(path).read_bytes() == before
        assert list(store) == ["/before"]
        store["/x"] = ITEMS
    check(path, {"/before": ITEMS[:2], "/x": ITEMS})


def test_what_is_taken_back_is_not_published(path: str, changes_wait: None) -> None:
    with blosc2.TreeStore(path, mode="w") as store:
        store["/before"] = ITEMS[:2]
        store.flush()
        with pytest.raises(RuntimeError), store.transaction():
            store["/x"] = ITEMS
            raise RuntimeError
        store["/discarded"] = ITEMS
        store.discard()
        assert list(store) == ["/before"]
        store["/y"] = ITEMS * 3
    check(path, {"/before": ITEMS[:2], "/y": ITEMS * 3})


def test_a_refused_key_takes_no_chunk(path: str) -> None:
    with blosc2.TreeStore(path, mode="w") as store:
        store["/Scan"], store["/group/leaf"] = [1], [2]
        store.flush()
        before = os.path.getsize(path)
        for key in ("/scan", "/group", "/Scan/below", "/a//b", ""):
            with pytest.raises((KeyError, ValueError)):
                set_chunks(store, key, plan(), iter_of_errors())
        assert os.path.getsize(path) == before
    with blosc2.open(path, mode="r") as store, pytest.raises(ValueError, match="read"):
        set_chunks(store, "/x", plan(), iter_of_errors())


def iter_of_errors() -> Iterator[AnyChunk]:
    raise AssertionError("a chunk was taken")
    yield b""


def test_stores_that_cannot(tmp_path: Path) -> None:
    for make in (
        lambda: blosc2.TreeStore(str(tmp_path / "x.b2d"), mode="w"),
        lambda: blosc2.EmbedStore(str(tmp_path / "x.b2e"), mode="w"),
        lambda: blosc2.EmbedStore(),
        lambda: blosc2.TreeStore(str(tmp_path / "x.b2z"), mode="w", locking=True),
    ):
        with make() as store:
            assert not set_chunks(store, "/x", plan(), iter_of_errors())
            store["/x"] = ITEMS
            np.testing.assert_array_equal(store["/x"][...], ITEMS)


def test_other_threads_wait(path: str) -> None:
    """What another thread sets meanwhile comes behind the array, not into it."""
    threads = []

    def slow(plan: ArrayPlan) -> Iterator[AnyChunk]:
        for number, stored in enumerate(plan.compressed(ITEMS)):
            if number == 3:
                threads.append(threading.Thread(target=store.__setitem__, args=("/other", ITEMS * 2)))
                threads[0].start()
                threads[0].join(0.05)
                assert threads[0].is_alive()
            yield stored

    with blosc2.TreeStore(path, mode="w") as store:
        made = plan()
        assert set_chunks(store, "/x", made, slow(made))
        threads[0].join()
    check(path, {"/x": ITEMS, "/other": ITEMS * 2})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_writes_nothing(path: str) -> None:
    children: list[int] = []

    def forking(plan: ArrayPlan) -> Iterator[AnyChunk]:
        for number, stored in enumerate(plan.compressed(ITEMS)):
            if number == 5 and (child := os.fork()):
                children.append(child)
            yield stored

    with blosc2.TreeStore(path, mode="w") as store:
        made = plan()
        try:
            set_chunks(store, "/x", made, forking(made))
        except BaseException as error:
            if not children:
                os._exit(0 if "fork" in str(error) else 2)
            raise
        if not children:
            os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    check(path, {"/x": ITEMS})


def test_a_member_that_might_have_been_too_large_for_four_bytes(path: str) -> None:
    """Its sizes are in zip64 fields, though they turn out to be small."""
    shape = (5 << 30,)
    vast = ArrayPlan(shape, np.dtype("u1"), {"chunks": (1 << 30,), "blocks": (1 << 20,)})
    with blosc2.TreeStore(path, mode="w") as store:
        assert set_chunks(store, "/vast", vast, iter([ZERO_OFFSET] * 5))
        store["/x"] = ITEMS
    assert blosc2.check(path).ok
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    with blosc2.open(path, mmap_mode="r") as store:
        assert store["/vast"].shape == shape
        assert not store["/vast"][(3 << 30) - 5 : (3 << 30) + 5].any()
        np.testing.assert_array_equal(store["/x"][...], ITEMS)
