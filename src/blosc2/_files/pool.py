"""Threads that do what they are given. Imported where they are needed: `concurrent.futures` is slow to import."""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


def no_thread(error: RuntimeError) -> Exception:
    """What Python raises where a thread cannot be started, as the error of the system that it is."""
    if "start new thread" not in str(error):  # the interpreter ends, say
        return error
    return OSError(errno.EAGAIN, "a thread could not be started: set_nthreads(1) does without")


class Pool(ThreadPoolExecutor):
    """Threads of Python; where one cannot be started, that is an `OSError`."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        try:
            return super().submit(work, *given, **named)
        except RuntimeError as error:
            raise no_thread(error) from None
