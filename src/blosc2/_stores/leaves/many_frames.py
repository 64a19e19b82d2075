"""Turning many values into frames, in their order.

Few values are taken at a time, so memory is bounded whatever their number. Large values are compressed in parallel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np

from blosc2._arrays import TINY, tiny_frame
from blosc2._backends import ByteRange, filed_as
from blosc2._files import Owner
from blosc2._options import COMPRESSED_BESIDE, get_nthreads
from blosc2._stores.leaves.value_to_frame import frame_of

#: Suffix, description and frame of a leaf.
Filed: TypeAlias = tuple[str, bytes, ByteRange | bytes]

# How far compression runs ahead of the value that is yielded: bytes, and values.
_AHEAD: Final = 32 << 20
_AHEAD_VALUES: Final = 64


def nbytes_of(value: Any) -> int:
    """Uncompressed bytes of a value that can be stored."""
    nbytes = getattr(value, "nbytes", None)
    return int(np.asarray(value).nbytes if nbytes is None else nbytes)


class FrameMaker:
    """Makes the frames of values in their order; values that take long are compressed beside others.

    Parameters
    ----------
    items : iterator
        Keys and values.
    path : str or None
        Of the store.
    encoding : dict
        How values are compressed.
    """

    __slots__ = ("_encoding", "_items", "_path", "_under_way")

    def __init__(self, items: Iterator[tuple[str, Any]], path: str | None, encoding: dict[str, Any]) -> None:
        self._items = items
        self._path = path
        self._encoding = encoding
        self._under_way: Generator[tuple[str, int, Filed], None, None] | None = None

    def begin(self, key: str, value: Any) -> None:
        """Begin with a value; others may be taken from the items. `take` gives the frames."""
        nthreads = get_nthreads()
        if nthreads > 1 and _takes_long(value):
            self._under_way = _together(chain([(key, value)], self._items), self._path, self._encoding, nthreads)
        else:
            self._under_way = self._alone(key, value)

    def _alone(self, key: str, value: Any) -> Generator[tuple[str, int, Filed], None, None]:
        filed = _filed(value, key, self._path, self._encoding)
        yield key, nbytes_of(value), filed

    def take(self) -> tuple[str, int, Filed] | None:
        """Key, uncompressed bytes and frame of the next value that was taken; None if there is none."""
        under_way = self._under_way
        if under_way is None:
            return None
        found = next(under_way, None)
        if found is None:
            self._under_way = None
        return found

    def close(self) -> None:
        """End the threads."""
        if self._under_way is not None:
            self._under_way.close()


def _filed(value: Any, key: str, path: str | None, encoding: dict[str, Any]) -> Filed:
    """The frame of a value, its suffix and its description."""
    if type(value) is np.ndarray and value.nbytes <= TINY and not value.dtype.hasobject:
        tiny = tiny_frame(value, encoding)
        if tiny is not None:
            return ".b2nd", tiny[1], tiny[0]
    byte_range = frame_of(value, key, path, encoding)
    return *filed_as(byte_range), byte_range


def _takes_long(value: Any) -> bool:
    return type(value) is np.ndarray and value.nbytes >= COMPRESSED_BESIDE


def _together(
    items: Iterable[tuple[str, Any]], path: str | None, encoding: dict[str, Any], nthreads: int
) -> Generator[tuple[str, int, Filed], None, None]:
    """Key, uncompressed bytes and frame of each item, in their order, with several threads.

    It ends early, with all taken items yielded, where only values come that do not take long.
    """
    from concurrent.futures import Future, ThreadPoolExecutor  # slow to import

    # Key, uncompressed bytes, bytes of the copy if one was made, and the frame to come.
    waiting: deque[tuple[str, int, int, Future[Filed]]] = deque()
    ahead = others = 0
    owner = Owner()
    with ThreadPoolExecutor(nthreads, thread_name_prefix="blosc2") as pool:
        try:
            for key, value in items:
                owner.check(path)  # a forked child has no such threads
                frame: Future[Filed] = Future()
                copied = 0
                if _takes_long(value):
                    # A copy, because the caller may fill the same array again for the next value.
                    frame = pool.submit(_filed, value.copy(), key, path, encoding)
                    copied = value.nbytes
                    others = 0
                else:
                    frame.set_result(_filed(value, key, path, encoding))
                    others += 1
                waiting.append((key, nbytes_of(value), copied, frame))
                ahead += copied
                while waiting and (ahead > _AHEAD or len(waiting) > _AHEAD_VALUES or waiting[0][3].done()):
                    first, nbytes, copied, frame = waiting.popleft()
                    ahead -= copied
                    yield first, nbytes, frame.result()
                    owner.check(path)
                if others >= _AHEAD_VALUES and not waiting:
                    return
            while waiting:
                owner.check(path)
                first, nbytes, _, frame = waiting.popleft()
                yield first, nbytes, frame.result()
        finally:
            for *_, frame in waiting if owner.is_here else ():
                frame.cancel()
