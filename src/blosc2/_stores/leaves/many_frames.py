"""Turning many values into frames, in their order.

Few values are taken at a time, so memory is bounded whatever their number. Values that take long are compressed in
parallel: large ones one in each thread, small ones some at a time, without Python.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import numpy as np

from blosc2 import _files
from blosc2._arrays import TINY, settled, template_of, tiny_frame
from blosc2._backends import ByteRange, filed_as
from blosc2._core.frame.frame_writer import FrameBatch
from blosc2._core.ndim.gaps import as_bytes
from blosc2._options import COMPRESSED_BESIDE, get_nthreads
from blosc2._stores.leaves.leaf_setting import FramedValue, frame_of, new_frame

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

#: Suffix, description and frame of a leaf.
Filed: TypeAlias = tuple[str, bytes, ByteRange | bytes]

# How far compression runs ahead of the value that is yielded: bytes, and values.
_AHEAD: Final = 32 << 20
_AHEAD_VALUES: Final = 256
# Large values that are handed to each thread at a time.
_EACH: Final = 3
#: Uncompressed bytes from which a value is worth handing to another thread.
LEAST: Final = 4 << 10
# Uncompressed bytes of small values that are compressed together.
_TOGETHER: Final = 1 << 20
# After so many values that no thread is worth while for, the next ones are taken in another way.
_FEW: Final = 64


def nbytes_of(value: Any) -> int:
    """Uncompressed bytes of a value that can be stored."""
    nbytes = getattr(value, "nbytes", None)
    return int(np.asarray(value).nbytes if nbytes is None else nbytes)


class FrameMaker:
    """Makes the frames of values in their order; values that take long are compressed beside others."""

    __slots__ = ("_encoding", "_items", "_path", "_under_way")

    def __init__(self, items: Iterator[tuple[str, Any]], path: str | None, encoding: dict[str, Any]) -> None:
        self._items = items
        self._path = path
        self._encoding = encoding
        self._under_way: Generator[tuple[str, int, Filed], None, None] | None = None

    def begin(self, key: str, value: Any) -> None:
        """Begin with a value; others may be taken from the items. `take` gives the frames."""
        nthreads = get_nthreads()
        if nthreads > 1 and worth_compressing_beside(value):
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


def worth_compressing_beside(value: Any) -> bool:
    """Whether the frame of a value is made faster together with those of others, in several threads."""
    return type(value) is np.ndarray and value.nbytes >= LEAST and not value.dtype.hasobject


class _Batch:
    """Small arrays whose frames are made together when the first of them is needed."""

    __slots__ = ("_batch", "_filed", "_kinds")

    def __init__(self, batch: FrameBatch) -> None:
        self._batch = batch
        self._kinds: list[tuple[np.dtype[Any], tuple[int, ...]]] = []
        self._filed: list[Filed] | None = None

    def add(self, value: Any, encoding: dict[str, Any]) -> bool:
        """Take a copy of a value, if its frame can be made here."""
        if not worth_compressing_beside(value):
            return False
        template = template_of(value, encoding)
        if template is None or not self._batch.add(template, value):
            return False
        self._kinds.append((value.dtype, value.shape))
        return True

    @property
    def is_full(self) -> bool:
        """Whether no more arrays should be added."""
        return self._filed is not None or len(self) >= _AHEAD_VALUES or self._batch.nbytes >= _TOGETHER

    def __len__(self) -> int:
        return len(self._kinds)

    def make(self, path: str | None, encoding: dict[str, Any], nthreads: int) -> None:
        """Make the frames of all of them."""
        batch = self._batch
        filed: list[Filed] = []
        for n, frame in enumerate(batch.frames(nthreads)):
            if frame is None:
                dtype, shape = self._kinds[n]
                items = np.frombuffer(batch.items_at(n), dtype).reshape(shape)
                byte_range = frame_of(items, "", path, encoding)
            else:
                byte_range = new_frame(frame, ".b2nd")
            filed.append((*filed_as(byte_range), byte_range))
        batch.clear()
        self._filed = filed

    def filed(self, number: int) -> Filed:
        """What `_filed` gives of one of them."""
        assert self._filed is not None
        return self._filed[number]


class _Waiting(NamedTuple):
    """A value whose frame is made, or will be."""

    key: str
    nbytes: int
    copied: int  # bytes of the copy of a value that is compressed in another thread
    frame: Future[Filed] | Filed | None  # None: it is in a batch
    batch: _Batch | None = None
    number: int = 0

    def is_made(self) -> bool:
        """Whether its frame is there. Other threads are not asked: their speed must not decide when leaves are set."""
        return self.batch.is_full if self.batch is not None else isinstance(self.frame, tuple)


def with_frames(
    items: Iterator[tuple[str, Any]], path: str | None, encoding: dict[str, Any]
) -> Generator[tuple[str, Any], None, None]:
    """Items in their order, with a `FramedValue` in place of each value whose frame is made in several threads."""
    nthreads = get_nthreads()
    if nthreads == 1:
        yield from items
    for key, value in items:
        if not worth_compressing_beside(value):
            yield key, value
            continue
        other: list[tuple[str, Any]] = []
        for one, nbytes, filed in _together(chain([(key, value)], items), path, encoding, nthreads, other):
            yield one, FramedValue(as_range(filed), nbytes)
        yield from other


def as_range(filed: Filed) -> ByteRange:
    """The byte range of a frame."""
    suffix, description, frame = filed
    return new_frame(frame, suffix, description) if isinstance(frame, bytes) else frame


def _together(
    items: Iterable[tuple[str, Any]],
    path: str | None,
    encoding: dict[str, Any],
    nthreads: int,
    other: list[tuple[str, Any]] | None = None,
) -> Generator[tuple[str, int, Filed], None, None]:
    """Key, uncompressed bytes and frame of each item, in their order, with several threads.

    Large values are compressed one in each thread, small ones some at a time. It ends early, with all taken items
    yielded, where only values come that neither is worth while for. With `other` it ends at the first such value, and
    adds that to the list.
    """
    waiting: deque[_Waiting] = deque()
    pool: ThreadPoolExecutor | None = None
    frames = FrameBatch()
    batch = _Batch(frames)
    ahead = others = handed = 0
    owner = _files.Owner()

    def first() -> tuple[str, int, Filed]:
        """The first one that waits, whose frame is made now if it must be."""
        nonlocal ahead, batch, handed
        key, nbytes, copied, frame, own, number = waiting.popleft()
        ahead -= copied
        handed -= copied > 0
        if own is not None:
            if own is batch:
                own.make(path, encoding, nthreads)
                batch = _Batch(frames)
            return key, nbytes, own.filed(number)
        return key, nbytes, frame if isinstance(frame, tuple) else cast("Future[Filed]", frame).result()

    def due() -> Iterator[tuple[str, int, Filed]]:
        while waiting and (
            ahead > _AHEAD or handed > _EACH * nthreads or len(waiting) > _AHEAD_VALUES or waiting[0].is_made()
        ):
            yield first()
            owner.check(path)

    def rest() -> Iterator[tuple[str, int, Filed]]:
        while waiting:
            owner.check(path)
            yield first()

    try:
        for key, value in items:
            owner.check(path)  # a forked child has no such threads
            others += 1
            if batch.add(value, encoding):
                waiting.append(_Waiting(key, value.nbytes, 0, None, batch, len(batch) - 1))
                others = 0
            elif type(value) is np.ndarray and value.nbytes >= COMPRESSED_BESIDE:
                if pool is None:
                    pool = _files.Pool(nthreads, thread_name_prefix="blosc2")
                # A copy, because the caller may fill the same array again for the next value. What is chosen for it is
                # chosen here, where the order of values is known.
                how = settled(value, encoding)
                frame = pool.submit(_filed, as_bytes(value).copy().view(value.dtype), key, path, how)
                waiting.append(_Waiting(key, value.nbytes, value.nbytes, frame))
                ahead += value.nbytes
                handed += 1
                others = 0
            elif other is not None:
                yield from rest()
                other.append((key, value))
                return
            else:
                waiting.append(_Waiting(key, nbytes_of(value), 0, _filed(value, key, path, encoding)))
            yield from due()
            if others < _FEW or waiting:
                continue
            return
        yield from rest()
    finally:
        if owner.is_here:
            for one in waiting:
                if one.batch is None and not isinstance(one.frame, tuple):
                    cast("Future[Filed]", one.frame).cancel()
        if pool is not None:
            pool.shutdown()
