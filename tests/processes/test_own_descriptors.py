"""Threads without a GIL read small leaves of a file that is not mapped by a descriptor each; with one they share it."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
MOST = 64  # in a process

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="descriptors are counted in /proc")


def descriptors_of(path: Path) -> int:
    """How many descriptors of a file the process has, whatever the file is called by now."""
    wanted = path.stat()
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            status = os.stat(f"/proc/self/fd/{name}")
        except OSError:  # the one by which the folder is listed
            continue
        found += (status.st_dev, status.st_ino) == (wanted.st_dev, wanted.st_ino)
    return found


def made(path: Path, leaves: int = 20) -> Path:
    with blosc2.DictStore(str(path), mode="w") as store:
        for n in range(leaves):
            store[f"/{n}"] = np.full(10, n)
    return path


def in_threads(count: int, read: Callable[[int], Any], after: Callable[[], Any] = lambda: None) -> Any:
    """Have threads read, all of them alive meanwhile; what `after` says of it before they end."""
    ready, go_on = threading.Barrier(count + 1), threading.Event()
    failures: list[Exception] = []

    def run(n: int) -> None:
        try:
            read(n)
        except Exception as error:  # noqa: BLE001 - raised by the main thread
            failures.append(error)
        ready.wait()
        go_on.wait()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    try:
        result = after()
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return result


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_each_thread_has_one_and_all_go_with_the_store(tmp_path: Path, mmap_mode: str | None) -> None:
    path = made(tmp_path / "s.b2z")
    with blosc2.DictStore(str(path), mode="r", mmap_mode=mmap_mode) as store:
        alone = descriptors_of(path)

        def read(thread: int) -> None:
            for n in range(20):
                assert (store[f"/{n}"][:] == n).all()

        more = in_threads(4, read, lambda: descriptors_of(path) - alone)
    assert more == (3 if WITHOUT_GIL and mmap_mode is None else 0)
    gc.collect()
    assert descriptors_of(path) == 0


def test_the_process_keeps_descriptors_for_others(tmp_path: Path) -> None:
    paths = [made(tmp_path / f"{n}.b2z", 2) for n in range(30)]
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(blosc2.DictStore(str(path), mode="r")) for path in paths]
        alone = sum(map(descriptors_of, paths))

        def read(_thread: int) -> None:
            for store in stores:
                assert (store["/1"][:] == 1).all()

        more = in_threads(8, read, lambda: sum(map(descriptors_of, paths)) - alone)
    assert more == (MOST if WITHOUT_GIL else 0)
    gc.collect()
    assert sum(map(descriptors_of, paths)) == 0
    # Those that were closed may be opened again.
    test_each_thread_has_one_and_all_go_with_the_store(tmp_path, None)


def test_a_file_without_a_name_and_one_that_took_its_name(tmp_path: Path) -> None:
    path = made(tmp_path / "s.b2z")
    store = blosc2.DictStore(str(path), mode="r")
    with blosc2.DictStore(str(tmp_path / "other.b2z"), mode="w") as other:
        for n in range(20):
            other[f"/{n}"] = np.full(10, -1 - n)
    os.replace(tmp_path / "other.b2z", path)

    def read(_thread: int) -> None:
        for n in range(20):
            assert (store[f"/{n}"][:] == n).all()

    in_threads(4, read)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_reads_on(tmp_path: Path) -> None:
    path = made(tmp_path / "s.b2z")
    with blosc2.DictStore(str(path), mode="r") as store:

        def read(_thread: int) -> None:
            for n in range(20):
                assert (store[f"/{n}"][:] == n).all()

        def fork() -> int:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    in_threads(2, read)
                    store.close()
                    status = 0
                finally:
                    os._exit(status)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

        assert in_threads(4, read, fork) == 0
        in_threads(4, read)  # nothing of the child's end reaches its parent


def test_without_a_free_descriptor_threads_share_one(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = made(tmp_path / "s.b2z")
    store = blosc2.DictStore(str(path), mode="r")

    def read(_thread: int) -> None:
        for n in range(20):
            assert (store[f"/{n}"][:] == n).all()

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(path, os.O_RDONLY)  # the lowest number that is free, as all below are taken
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        in_threads(4, read)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_advice_before_and_meanwhile(tmp_path: Path) -> None:
    path = made(tmp_path / "s.b2z")
    store = blosc2.DictStore(str(path), mode="r", advise="random")
    steps = iter(["sequential", "random", "normal", "random"])
    lock = threading.Lock()

    def read(_thread: int) -> None:
        for n in range(20):
            assert (store[f"/{n}"][:] == n).all()
        with lock:
            store.advise(next(steps))
        for n in range(20):
            assert (store[f"/{n}"][:] == n).all()

    in_threads(4, read)
