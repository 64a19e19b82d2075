"""Run the chunks of one operation in several threads.

The loops are in `_core` and release the GIL, so Python threads do. They live in one pool for the process, which
starts with the first large operation; a forked child forgets it, since its threads stayed with the parent.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from blosc2._core.frame import Frame
from blosc2.threads import detect_number_of_cores

#: Work (see `work_of`) below which a second thread does not reliably pay: waking it takes 50 us at best, and several
#: times that when its core sleeps or both threads fill fresh memory.
PARALLEL_WORK = 1 << 20
# More threads than cores would only take turns. (The pool starts a new one whenever none has yet said that it is idle.)
_MOST_THREADS = max(detect_number_of_cores() - 1, 1)

_pool: ThreadPoolExecutor | None = None


class Operation(Protocol):
    """Work that any number of threads can draw pieces of."""

    @property
    def tasks(self) -> int: ...

    def share(self, threads: int) -> None:
        """Divide the work so that as many threads have something to do."""

    def run(self) -> None:
        """Work until nothing is left."""

    def finish(self) -> None:
        """Raise what went wrong in any thread."""


def work_of(nbytes: int, frame: Frame) -> int:
    """What reading `nbytes` uncompressed bytes of a frame costs.

    Decoders spend their time on compressed bytes; on what compresses to nothing they run some 16 times as fast.
    """
    stored: int = frame.cbytes
    whole: int = frame.nbytes
    return nbytes // 16 + (nbytes * stored // whole if whole else 0)


def run(operation: Operation, work: int, nthreads: int) -> None:
    """Do an operation, with up to `nthreads` threads where the work is worth it."""
    if work >= PARALLEL_WORK and nthreads > 1:
        operation.share(nthreads)
    if work < PARALLEL_WORK or nthreads < 2 or operation.tasks < 2:
        operation.run()
    else:
        others = _start(operation, min(nthreads, operation.tasks) - 1)
        try:
            operation.run()
        finally:
            # One that has not begun finds nothing left to do: do not wait for its turn.
            for other in others:
                if not other.cancel():
                    other.result()
    operation.finish()


def _start(operation: Operation, count: int) -> list[Future[None]]:
    global _pool
    pool = _pool
    if pool is None:
        pool = _pool = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="blosc2")
    started: list[Future[None]] = []
    try:
        while len(started) < count:
            started.append(pool.submit(operation.run))
    except RuntimeError:  # the interpreter is shutting down, or no thread can be had: the caller does all
        pass
    return started


def forget_threads() -> None:
    """Drop the pool without waiting for it."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_threads)
