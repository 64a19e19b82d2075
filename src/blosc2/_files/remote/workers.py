"""Threads that fetch, shared by all objects of a process; a forked child gets its own.

They are daemons: a program ends although a server does not answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from blosc2._core.io.forking import in_child
from blosc2._core.io.sharing import free_in_child, item_of


class _Pool:
    """So many threads, each of which is started when there is work for it."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._started = self._idle = 0
        self._lock = threading.Lock()
        self._work: SimpleQueue[tuple[Callable[..., Any], Any]] = SimpleQueue()

    def submit(self, work: Callable[..., Any], given: Any) -> None:
        with self._lock:
            waiting = self._idle <= self._work.qsize()
            if waiting and self._started < self._count:
                threading.Thread(target=self._run, name="blosc2-remote", daemon=True).start()
                self._started += 1
        self._work.put((work, given))

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            work, given = self._work.get()
            with self._lock:
                self._idle -= 1
            work(given)
            del work, given  # what it was about may go


_pools: dict[int, _Pool] = free_in_child({})
in_child(_pools.clear)  # behind that


def submit(count: int, work: Callable[[Any], Any], given: Any) -> bool:
    """Have one of so many threads do something that raises nothing; False where no thread can be started."""
    pool = item_of(_pools, count)
    if pool is None:
        pool = _pools.setdefault(count, _Pool(count))
    try:
        pool.submit(work, given)
    except RuntimeError:  # the interpreter is ending, or there are too many threads
        return False
    return True
