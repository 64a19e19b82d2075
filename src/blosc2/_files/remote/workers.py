"""Threads that fetch, shared by all objects of a process; a forked child gets its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from blosc2._core.io.forking import in_child

_pools: dict[int, ThreadPoolExecutor] = {}
in_child(_pools.clear)


def submit(count: int, work: Callable[..., Any], *given: Any) -> bool:
    """Have one of so many threads do something; False where the interpreter is ending, and nobody would."""
    pool = _pools.get(count)
    if pool is None:
        pool = _pools.setdefault(count, ThreadPoolExecutor(count, "blosc2-remote"))
    try:
        pool.submit(work, *given)
    except RuntimeError:
        return False
    return True
