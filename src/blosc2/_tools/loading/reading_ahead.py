"""Threads that make numbered results ahead of who takes them, in order."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from blosc2._files import no_thread
from blosc2._tools.loading.batch_memory import begin_loop, end_loop


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Shared:
    """What the threads and their consumer share. It does not refer to the consumer, so that an iterator that nobody
    holds ends its threads."""

    def __init__(self, make: Callable[[int], Any], first: int, stop: int, limit: int) -> None:
        self.make = make
        self.drawn = self.taken = first  # numbers that threads have begun with, and that were handed out
        self.stop, self.limit = stop, limit
        self.results: dict[int, Any] = {}
        # A finalizer may run in a thread that has the lock.
        lock = threading.RLock()
        self.ended, self.process = False, os.getpid()
        self.threads: list[threading.Thread] = []
        self.ready, self.not_full = threading.Condition(lock), threading.Condition(lock)

    def work(self) -> None:
        while True:
            with self.not_full:
                self.not_full.wait_for(lambda: self.drawn >= self.stop or self.drawn - self.taken < self.limit)
                if self.drawn >= self.stop:
                    return
                number = self.drawn
                self.drawn += 1
            result: Any
            try:
                result = self.make(number)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the consumer raises it
                result = _Failure(error)
            with self.ready:
                self.results[number] = result
                if isinstance(result, _Failure):
                    self.stop = min(self.stop, number + 1)  # nobody takes what comes after it
                    self.not_full.notify_all()
                self.ready.notify_all()
            del result

    def end(self) -> None:
        """Tell the threads to end. It waits for nothing: a collector may call it in a thread that has the lock."""
        # What has ended when the program ends may be told again when even `os` is gone.
        if self.ended or os.getpid() != self.process:  # the threads are those of a parent
            return
        with self.not_full:
            self.stop = self.drawn
            self.ended = True
            self.results.clear()
            end_loop(self)
            self.not_full.notify_all()
            self.ready.notify_all()

    def close(self) -> None:
        """End the threads, each after the result that it is making, and wait for them."""
        self.end()
        if self.threads and os.getpid() == self.process:
            for thread in self.threads:
                if thread is not threading.current_thread():
                    thread.join()
            self.threads = []


_running: weakref.WeakSet[_Shared] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """End all threads while Python can still run them."""
    for shared in list(_running):
        shared.close()


class ReadAhead(Iterator[Any]):
    """The results of a function for the numbers ``first .. stop``, made by threads in any order and given in this one.

    Parameters
    ----------
    make : callable
        Called with a number, in several threads at the same time.
    first, stop : int
    workers : int
        Threads.
    prefetch : int
        Results for each thread that may be made before they are taken.
    """

    def __init__(self, make: Callable[[int], Any], first: int, stop: int, workers: int, prefetch: int) -> None:
        self._stop = stop
        self._shared = shared = _Shared(make, first, stop, workers * prefetch)
        # Daemons, so that a program that ends in the middle of a loop gets to its exit handlers, which end them.
        shared.threads += [
            threading.Thread(target=shared.work, name=f"blosc2-loader-{number}", daemon=True)
            for number in range(min(workers, max(stop - first, 0)))
        ]
        _running.add(shared)
        begin_loop(shared)
        weakref.finalize(self, shared.end).atexit = False
        for number, thread in enumerate(shared.threads):
            try:
                thread.start()
            except RuntimeError as error:
                del shared.threads[number:]
                if not number:  # else those that there are do all
                    shared.end()
                    raise no_thread(error) from None
                break

    def __next__(self) -> Any:
        shared = self._shared
        if os.getpid() != shared.process:
            raise RuntimeError("a loop over a loader does not go on in a forked process: begin one there")
        with shared.ready:
            number = shared.taken
            shared.ready.wait_for(lambda: number >= self._stop or shared.ended or number in shared.results)
            is_over = number not in shared.results
            result = shared.results.pop(number, None)
            shared.taken += 1
            shared.not_full.notify()
        if is_over:
            self.close()
            raise StopIteration
        if isinstance(result, _Failure):
            self.close()
            try:
                raise result.error
            finally:
                del result  # or the error would refer to itself by its traceback
        return result

    def close(self) -> None:
        """End the threads, each after the result that it is making."""
        self._shared.close()
