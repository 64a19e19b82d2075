"""Work in threads: as many as were asked for, nothing lost, errors raised, and nothing inherited by a fork."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import executor
from blosc2.executor import PARALLEL_WORK, forget_threads, run, work_of


class Counting:
    """An operation of numbered tasks that remembers which thread did each."""

    def __init__(self, tasks: int, fail_at: int | None = None, slow: float = 0.001) -> None:
        self._tasks, self.fail_at, self.slow = tasks, fail_at, slow
        self.shared_by: list[int] = []
        self.done: dict[int, int] = {}
        self.lock = threading.Lock()
        self.next, self.finished = 0, 0
        self.error: BaseException | None = None

    @property
    def tasks(self) -> int:
        return self._tasks

    def share(self, threads: int) -> None:
        self.shared_by.append(threads)

    def run(self) -> None:
        while True:
            with self.lock:
                task, self.next = self.next, self.next + 1
            if task >= self._tasks:
                return
            if task == self.fail_at:
                raise KeyError("failed")
            time.sleep(self.slow)
            self.done[task] = threading.get_ident()

    def finish(self) -> None:
        self.finished += 1


@pytest.mark.parametrize(
    ("tasks", "work", "nthreads", "most"),
    [(20, PARALLEL_WORK, 4, 4), (20, PARALLEL_WORK, 2, 2), (20, PARALLEL_WORK, 1, 1), (20, PARALLEL_WORK - 1, 4, 1),
     (1, 1 << 30, 4, 1), (2, 1 << 30, 8, 2), (0, 1 << 30, 4, 1), (30, 1 << 30, 1000, 64)],
)  # fmt: skip
def test_every_task_is_done_once_by_no_more_threads_than_asked(tasks: int, work: int, nthreads: int, most: int) -> None:
    operation = Counting(tasks)
    run(operation, work, nthreads)
    assert sorted(operation.done) == list(range(tasks))
    assert len(set(operation.done.values())) <= most
    assert operation.finished == 1
    assert operation.shared_by == ([nthreads] if work >= PARALLEL_WORK and nthreads > 1 else [])


def test_the_caller_works_too_and_is_not_alone() -> None:
    operation = Counting(200)
    run(operation, 1 << 30, 3)
    threads = set(operation.done.values())
    assert threading.get_ident() in threads
    assert len(threads) > 1


@pytest.mark.parametrize("fail_at", [0, 10])
def test_an_error_in_any_thread_is_raised(fail_at: int) -> None:
    for nthreads in (1, 4):
        with pytest.raises(KeyError, match="failed"):
            run(Counting(30, fail_at), 1 << 30, nthreads)
    operation = Counting(10)
    run(operation, 1 << 30, 4)  # the pool goes on
    assert len(operation.done) == 10


def test_operations_of_many_threads_at_once() -> None:
    operations = [Counting(15) for _ in range(100)]
    callers = [threading.Thread(target=run, args=(operation, 1 << 30, 4)) for operation in operations]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert all(sorted(operation.done) == list(range(15)) for operation in operations)


def test_without_threads_the_caller_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def submit(self, _: Any) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(executor, "_pool", Refusing())
    operation = Counting(5)
    run(operation, 1 << 30, 4)
    assert set(operation.done.values()) == {threading.get_ident()}


def test_a_forgotten_pool_is_made_anew() -> None:
    run(Counting(4), 1 << 30, 2)
    old: Any = executor._pool
    forget_threads()
    operation = Counting(50)
    run(operation, 1 << 30, 2)
    assert len(operation.done) == 50
    assert executor._pool is not old
    old.shutdown()


@pytest.mark.skipif(
    not hasattr(os, "fork") or sys.version_info >= (3, 12), reason="forking with threads warns or is not there"
)
def test_a_fork_has_no_pool() -> None:
    run(Counting(4), 1 << 30, 2)
    child = os.fork()
    if child == 0:
        os._exit(0 if executor._pool is None else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_what_work_costs() -> None:
    dense = blosc2.asarray(np.random.default_rng(1).integers(0, 1 << 62, 100000))
    sparse = blosc2.zeros(100000, dtype="i8")
    assert work_of(800000, dense._carrier.frame) > 800000
    assert work_of(800000, sparse._carrier.frame) == 50000
    assert work_of(0, sparse._carrier.frame) == 0
    assert work_of(0, blosc2.zeros(0)._carrier.frame) == 0


@pytest.mark.parametrize("nthreads", [1, 2, 3])
def test_arrays_obey_their_number_of_threads(nthreads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    items = np.random.default_rng(1).integers(0, 1 << 62, (1200, 1000))
    array = blosc2.asarray(items, chunks=(200, 1000), blocks=(40, 1000), dparams={"nthreads": nthreads},
                           cparams={"nthreads": nthreads})  # fmt: skip
    started: list[int] = []
    start = executor._start

    def counted(operation: Any, count: int) -> Any:
        started.append(count)
        return start(operation, count)

    monkeypatch.setattr(executor, "_start", counted)
    np.testing.assert_array_equal(array[:], items)
    np.testing.assert_array_equal(array[3:1199, ::2], items[3:1199, ::2])
    np.testing.assert_array_equal(array[:200], items[:200])  # one chunk, divided
    array[:] = items[::-1]
    assert started == ([] if nthreads == 1 else [nthreads - 1] * 4)
    started.clear()
    assert array[5, 5] == items[-6, 5]
    array[5, 5] = 1
    assert started == []


def test_the_number_of_threads_of_the_package_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    items = np.random.default_rng(1).integers(0, 1 << 62, (400, 1000))
    old = blosc2.nthreads
    started: list[int] = []

    def only_counted(_: Any, count: int) -> list[Any]:
        started.append(count)
        return []

    monkeypatch.setattr(executor, "_start", only_counted)
    try:
        for nthreads in (1, 2, 4):
            blosc2.set_nthreads(nthreads)
            started.clear()
            np.testing.assert_array_equal(blosc2.asarray(items, chunks=(50, 1000))[:], items)
            assert started == [nthreads - 1] * 2 if nthreads > 1 else not started
    finally:
        blosc2.set_nthreads(old)
