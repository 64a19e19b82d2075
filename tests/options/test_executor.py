"""Work in threads: as many as were asked for, nothing lost, errors raised, and nothing inherited by a fork."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2._core.codec import thread_pool
from blosc2._core.ndim.grid_read import Read
from blosc2._options.threads import run
from blosc2.exceptions import FormatError

ITEMS = np.random.default_rng(1).integers(0, 1 << 62, (1200, 1000))


@pytest.fixture
def many() -> Iterator[None]:
    """As if nobody had started a thread yet, and with more of them than this machine has cores."""
    gc.collect()  # stores that earlier tests left behind compress and sync now, not in the middle of a test
    before = thread_pool.limit(16)
    thread_pool.forget()
    yield
    thread_pool.limit(before)


def read_of(array: blosc2.NDArray, out: np.ndarray) -> Read:
    geometry, _, frame = array._handle.array  # type: ignore[misc]
    ndim = geometry.ndim
    return Read(frame, geometry, (0,) * ndim, (1,) * ndim, geometry.shape, out)


def test_the_others_work_too(many: None) -> None:
    array = blosc2.asarray(ITEMS, chunks=(10, 1000))
    out = np.empty_like(ITEMS)
    deadline = time.monotonic() + 60
    alone = 0.0
    while alone < 0.01 and time.monotonic() < deadline:
        process, thread = time.process_time(), time.thread_time()
        run(read_of(array, out), 1 << 40, 4)
        alone += (time.process_time() - process) - (time.thread_time() - thread)
    assert alone >= 0.01


@pytest.mark.parametrize("nchunk", [0, 7])
def test_an_error_in_any_thread_is_raised(many: None, nchunk: int, tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    small = np.arange(100000).reshape(100, 1000)
    array = blosc2.asarray(small, chunks=(10, 1000), urlpath=path)
    start = array._handle.frame.chunk_info(nchunk)[0]
    assert start is not None
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xff" * 16)
    damaged = blosc2.open(path, mode="r")
    for nthreads in (1, 4):
        for _ in range(20):
            with pytest.raises(FormatError, match=f"chunk {nchunk}"):
                run(read_of(damaged, np.empty_like(small)), 1 << 40, nthreads)
    out = np.empty_like(small)
    run(read_of(blosc2.asarray(small, chunks=(10, 1000)), out), 1 << 40, 4)  # the threads go on
    np.testing.assert_array_equal(out, small)


def test_without_threads_the_caller_does_all(many: None) -> None:
    thread_pool.limit(0)
    out = np.empty_like(ITEMS)
    run(read_of(blosc2.asarray(ITEMS), out), 1 << 40, 4)
    np.testing.assert_array_equal(out, ITEMS)
    assert thread_pool.count() == 0


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs and Linux"
)
def test_threads_stay_where_their_caller_may_run(many: None) -> None:
    """Also when the caller is kept to one CPU after they were started."""
    before = os.sched_getaffinity(0)
    old = set(os.listdir("/proc/self/task"))
    array = blosc2.asarray(ITEMS, chunks=(10, 1000), cparams={"nthreads": 1})
    out = np.empty_like(ITEMS)
    run(read_of(array, out), 1 << 40, 3)
    # Other threads that began meanwhile end again: a store that is collected now syncs its files in some.
    deadline = time.monotonic() + 10
    while len(set(os.listdir("/proc/self/task")) - old) > thread_pool.count() and time.monotonic() < deadline:
        time.sleep(0.001)
    helpers = [int(task) for task in set(os.listdir("/proc/self/task")) - old]
    assert len(helpers) == thread_pool.count() == 2
    try:
        for cpu in before:
            os.sched_setaffinity(0, {cpu})
            deadline = time.monotonic() + 10
            while any(os.sched_getaffinity(task) != {cpu} for task in helpers) and time.monotonic() < deadline:
                run(read_of(array, out), 1 << 40, 3)  # they cannot be sent anywhere before they have begun to run
            assert [os.sched_getaffinity(task) for task in helpers] == [{cpu}] * 2
    finally:
        os.sched_setaffinity(0, before)
    np.testing.assert_array_equal(out, ITEMS)


@pytest.mark.skipif(
    not hasattr(os, "fork") or sys.version_info >= (3, 12), reason="forking with threads warns or is not there"
)
def test_a_fork_starts_threads_of_its_own(many: None) -> None:
    array = blosc2.asarray(ITEMS, chunks=(10, 1000))
    out = np.empty_like(ITEMS)
    run(read_of(array, out), 1 << 40, 2)
    child = os.fork()
    if child == 0:
        fresh = thread_pool.count() == 0
        out[:] = 0
        run(read_of(array, out), 1 << 40, 2)
        os._exit(0 if fresh and thread_pool.count() == 1 and np.array_equal(out, ITEMS) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_the_process_ends_while_threads_sleep_or_work() -> None:
    code = (
        "import threading, numpy, blosc2\n"
        "from blosc2._core.codec import thread_pool\n"
        "thread_pool.limit(3)\n"
        "a = blosc2.asarray(numpy.random.default_rng(0).normal(size=4_000_000))\n"
        "def loop():\n"
        "    while True: a[:]\n"
        "threading.Thread(target=loop, daemon=True).start()\n"
        "[a[:] for _ in range(3)]\n"
        "print('done')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_an_interrupt_reaches_the_main_thread(many: None) -> None:
    """Threads without Python take no signals from it, also while it sleeps."""
    run(read_of(blosc2.asarray(ITEMS), np.empty_like(ITEMS)), 1 << 40, 4)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which may be ignored in the background
    try:
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(30)
        assert time.monotonic() - begun < 20
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("nthreads", [1, 2, 3])
def test_arrays_obey_their_number_of_threads(many: None, nthreads: int) -> None:
    def used() -> int:
        count = thread_pool.count()
        thread_pool.forget()
        return count

    array = blosc2.asarray(ITEMS, chunks=(200, 1000), blocks=(40, 1000), dparams={"nthreads": nthreads},
                           cparams={"nthreads": nthreads})  # fmt: skip
    assert used() == nthreads - 1
    np.testing.assert_array_equal(array[:], ITEMS)
    assert used() == nthreads - 1
    np.testing.assert_array_equal(array[3:1199, ::2], ITEMS[3:1199, ::2])
    assert used() == nthreads - 1
    np.testing.assert_array_equal(array[:200], ITEMS[:200])  # one chunk, divided
    assert used() == nthreads - 1
    np.testing.assert_array_equal(array[:, 7], ITEMS[:, 7])  # few items of many blocks
    assert used() == nthreads - 1
    np.testing.assert_array_equal(array[2:7], ITEMS[2:7])  # many items of one
    assert used() == 0
    array[:] = ITEMS[::-1]
    assert used() == nthreads - 1
    assert array[5, 5] == ITEMS[-6, 5]
    array[5, 5] = 1  # one chunk, whose blocks are shared
    assert used() == nthreads - 1


def test_the_number_of_threads_of_the_package_is_the_default(many: None) -> None:
    old = blosc2.nthreads
    try:
        for nthreads in (1, 2, 4):
            blosc2.set_nthreads(nthreads)
            thread_pool.forget()
            array = blosc2.asarray(ITEMS[:400], chunks=(50, 1000))
            assert thread_pool.count() == nthreads - 1
            thread_pool.forget()
            np.testing.assert_array_equal(array[:], ITEMS[:400])
            assert thread_pool.count() == nthreads - 1
    finally:
        blosc2.set_nthreads(old)
