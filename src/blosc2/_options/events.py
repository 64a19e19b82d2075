"""What happens rarely in a process: counted for `metrics`, and told to the logger "blosc2" if a program uses loggers.

What only reads local files comes by neither.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Final, NamedTuple

from blosc2._core.codec import shared_blocks
from blosc2._core.io.sharing import Lock, item_of

#: Seconds from which on it is told that a lock was waited for. A lock that is free takes microseconds.
_WAITED: Final = 0.001
_LOCK = Lock()


class Metrics(NamedTuple):
    """What this process has done with files and servers since it began; see `metrics`.

    Attributes
    ----------
    commits : int
        Versions of arrays and stores that were published in files.
    rewrites : int
        Files that were written anew, without the bytes that no version needs any more.
    lock_waits : int
        Locks of files for which others had to be waited for, a millisecond or longer.
    lock_seconds : float
        How long, all together.
    requests, received : int
        Answers of servers, and the bytes that came with them.
    retries : int
        Requests that were repeated after an error that may pass.
    disk_hits : int
        Requests that were saved, since their bytes were in the folder of ``remote={"disk": ...}``.
    block_hits, block_misses : int
        Those of the block cache, since the last `set_block_cache`.
    """

    commits: int
    rewrites: int
    lock_waits: int
    lock_seconds: float
    requests: int
    received: int
    retries: int
    disk_hits: int
    block_hits: int
    block_misses: int


_counts: dict[str, float] = dict.fromkeys(Metrics._fields[:-2], 0)


def metrics() -> Metrics:
    """Return counts of what this process has done with files and servers.

    They only go up, and begin with 0; a forked child goes on with those of its parent. What is counted is also told to
    the logger ``"blosc2"`` of Python's `logging`.

    Examples
    --------
    >>> import blosc2
    >>> before = blosc2.metrics()
    >>> blosc2.metrics().commits - before.commits
    0
    """
    found = shared_blocks.counts()
    with _LOCK:
        counts = dict(_counts)
    seconds = counts.pop("lock_seconds")
    whole = {name: int(number) for name, number in counts.items()}
    return Metrics(**whole, lock_seconds=seconds, block_hits=found[3], block_misses=found[4])


def count(name: str, number: float = 1) -> None:
    """Count something that `Metrics` names."""
    with _LOCK:
        _counts[name] += number


def tell(level: str, message: str, *given: object, counted: str = "") -> None:
    """Tell the logger "blosc2" something, and count it under a name of `Metrics` if one is given.

    Nothing is told in a program that has not imported `logging`.
    """
    if counted:
        with _LOCK:
            _counts[counted] += 1
    logging: Any = item_of(sys.modules, "logging")
    if not hasattr(logging, "NullHandler"):  # or another thread is importing it
        return
    logger = logging.getLogger("blosc2")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # else warnings would go to stderr
    number = getattr(logging, level)
    if logger.isEnabledFor(number):
        logger.log(number, message, *given)


def told_commit(path: object) -> None:
    """A version of an array or a store was published."""
    tell("DEBUG", "%s: a version was published", path, counted="commits")


def told_rewrite(path: object, before: int, after: int) -> None:
    """A file was written anew."""
    change = "" if after == before else f" instead of {before}"
    tell("INFO", "%s: written anew, %d bytes%s", path, after, change, counted="rewrites")


def told_wait(path: object, begun: float) -> None:
    """The lock of a file is held now; `begun` is when it was asked for, as `time.monotonic` has it."""
    seconds = time.monotonic() - begun
    if seconds >= _WAITED:
        count("lock_seconds", seconds)
        tell("INFO", "%s: waited %.3f s for its lock", path, seconds, counted="lock_waits")
