"""Turning many values into frames, in their order.

Few values are taken at a time, so memory is bounded whatever their number. Large values are compressed in parallel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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


def frames(
    items: Iterable[tuple[str, Any]], path: str | None, encoding: dict[str, Any]
) -> Generator[tuple[str, int, Filed], None, None]:
    """Key, uncompressed bytes and frame of each item, in their order."""
    nthreads = get_nthreads()
    source = iter(items)
    for key, value in source:
        if nthreads > 1 and _takes_long(value):
            yield from _together(chain([(key, value)], source), path, encoding, nthreads)
        else:
            filed = _filed(value, key, path, encoding)
            yield key, nbytes_of(value), filed


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
) -> Iterator[tuple[str, int, Filed]]:
    """Key, uncompressed bytes and frame of each item, in their order, with several threads."""
    # Key, uncompressed bytes, bytes of the copy if one was made, and the frame to come.
    waiting: deque[tuple[str, int, int, Future[Filed]]] = deque()
    ahead = 0
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
                else:
                    frame.set_result(_filed(value, key, path, encoding))
                waiting.append((key, nbytes_of(value), copied, frame))
                ahead += copied
                while waiting and (ahead > _AHEAD or len(waiting) > _AHEAD_VALUES or waiting[0][3].done()):
                    first, nbytes, copied, frame = waiting.popleft()
                    ahead -= copied
                    yield first, nbytes, frame.result()
                    owner.check(path)
            while waiting:
                owner.check(path)
                first, nbytes, _, frame = waiting.popleft()
                yield first, nbytes, frame.result()
        finally:
            for *_, frame in waiting if owner.is_here else ():
                frame.cancel()
