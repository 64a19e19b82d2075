"""Rows of an array in a file that wait, uncompressed, to be published: see `_frames/changeable.py`.

A row is what one index of the first axis selects. Rows that are appended, or set where the array has grown, are written
as one box in the end: each of their blocks is compressed once. Rows that are set elsewhere wait by themselves.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from blosc2 import _indexing
from blosc2._arrays.resize import resize_update
from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.gaps import contiguous
from blosc2._core.ndim.geometry import Geometry
from blosc2._files import Owner, superseded
from blosc2._frames import INDEXES, FrameHandle, FrameUpdate, Waiting

# Bytes, and pieces, that wait before they are published however fast they came; the memory of a piece; bytes of rows
# that may wait; and bytes that are not published sooner than others because they fill a chunk.
_MOST: Final = 8 << 20
_MOST_PIECES: Final = 1 << 15
_PIECE: Final = 200
_LARGEST: Final = 1 << 20
_FEW: Final = 1 << 16
# The number of stored axes in b2nd: others belong to the dtype.
_NDIM: Final = 2

Items = np.ndarray[Any, Any]
# Rows that follow each other: the first, how many, where they end in the room, and the array's geometry after them.
_Piece = tuple[int, int, int, Geometry]


class WaitingRows(Waiting):
    """Rows that wait, and the length of an array that has grown.

    Parameters
    ----------
    grows : bool
        Whether all rows lie behind the end of the array as it was; otherwise all lie before it.
    """

    __slots__ = ("_room", "grows")
    _pieces: list[_Piece]

    def __init__(self, handle: Any, *, grows: bool) -> None:
        super().__init__(handle)
        handle.encoding(blocksize=int(self.array[0].block_nbytes))  # which raises now where nothing can be compressed
        self.grows = grows
        self._room = np.empty((0, row_nbytes(self.array[0])), np.uint8)

    @property
    def geometry(self) -> Geometry:
        pieces = self._pieces
        return pieces[-1][3] if pieces else self.array[0]

    @property
    def described(self) -> str:
        pieces = self._pieces
        count = pieces[-1][2] if pieces else 0
        if not count:
            return "a new length"
        return "1 row" if count == 1 else f"{count} rows"

    def put(self, before: Geometry, geometry: Geometry, first: int, rows: Items) -> _Piece | None:
        """Keep rows from a number on, and the geometry after that. Returns what was last before, for `take_back`."""
        if self.geometry.shape != before.shape:  # a handler of signals came while the change was on the way
            raise superseded()
        pieces = self._pieces
        last = pieces[-1] if pieces else None
        begin = 0 if last is None else last[2]
        end = begin + len(rows)
        if end > len(self._room):
            room = np.empty((max(2 * len(self._room), end, 16), self._room.shape[1]), np.uint8)
            room[:begin] = self._room[:begin]
            self._room = room
            self.nbytes = room.nbytes + _PIECE * len(pieces)
        self._room[begin:end] = contiguous(rows).view(np.uint8).reshape(len(rows), self._room.shape[1])
        if last is not None and (not len(rows) or not last[1] or last[0] + last[1] == first):
            pieces[-1] = (last[0] if last[1] or not len(rows) else first, last[1] + len(rows), end, geometry)
        else:
            pieces.append((first, len(rows), end, geometry))
        return last

    def take_back(self, last: _Piece | None) -> None:
        """Leave out what was put last, before which this was the last piece."""
        pieces = self._pieces
        if last is None:
            pieces.clear()
        elif len(pieces) > 1 and pieces[-2] is last:
            pieces.pop()
        else:
            pieces[-1] = last

    @property
    def is_much(self) -> bool:
        """Whether it is to be published now, however fast it came: also where chunks have been filled."""
        _, _, end, geometry = self._pieces[-1]
        nbytes = end * self._room.shape[1]
        if nbytes >= _MOST or len(self._pieces) >= _MOST_PIECES:
            return True
        if not self.grows or nbytes < _FEW:
            return False
        first, count, _, _ = self._pieces[-1]
        return first + count == geometry.shape[0] and not geometry.shape[0] % geometry.chunks[0]

    def update(self, handle: Any) -> FrameUpdate:
        before, dtype, frame = self.array
        geometry = self.geometry
        update = FrameUpdate(frame)
        numbers, rows = self._in_order(dtype, geometry.shape[1:])
        key: Any = numbers
        if self.grows:
            start, stop = before.shape[0], geometry.shape[0]
            if not len(numbers):
                resize_update(handle, update, geometry)
                return update
            if len(numbers) < stop - start:
                filled = np.zeros((stop - start, *geometry.shape[1:]), dtype)
                filled[numbers - start] = rows
                rows = filled
            resize_update(handle, update, geometry, filled=True)
            key = slice(start, None)
        elif len(numbers) == numbers[-1] - numbers[0] + 1:
            key = slice(int(numbers[0]), int(numbers[-1]) + 1)
        update.replace_all(_indexing.chunks_with((geometry, dtype, frame), handle, key, rows))
        return update

    def _in_order(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[Items, Items]:
        """The numbers of the rows, in order, and what was put there last."""
        pieces = self._pieces
        room = self._room[: pieces[-1][2]]
        numbers = np.concatenate([np.arange(first, first + count) for first, count, _, _ in pieces])
        if len(pieces) > 1:
            order = np.argsort(numbers, kind="stable")
            ordered = numbers[order]
            order = order[np.append(ordered[1:] != ordered[:-1], True)[: len(order)]]
            numbers, room = numbers[order], room[order]
        return numbers, room.reshape(-1).view(dtype).reshape(len(numbers), *shape)


def row_nbytes(geometry: Geometry) -> int:
    """Bytes of a row."""
    return math.prod(geometry.shape[1:]) * int(geometry.itemsize)


def append_rows(handle: Any, before: Geometry, geometry: Geometry, rows: Items) -> bool:
    """Let rows wait behind the others, if these are few; see `keep_rows`."""
    return _are_few(geometry, len(rows)) and keep_rows(handle, before, geometry, before.shape[0], rows)


def keep_rows(handle: Any, before: Geometry, geometry: Geometry, first: int, rows: Items) -> bool:
    """Let rows wait which an array of a handle gets, whose geometry is another one then; or publish them if it is time.

    False if they cannot wait: nothing has changed then. If what waits cannot be published, these rows are taken back.
    `RuntimeError` if the array has no longer the geometry that it had `before`: a handler of signals changed it.
    """
    if handle.waiting is not None and handle.waiting.was_tried:
        handle.settle(of_change=True)  # nothing is added to what may be in the file already
    array = (handle.waiting or handle).array
    old: Geometry = array[0]
    length = old.shape[0]
    grows = first >= length
    if not grows and (first + len(rows) > length or geometry.shape[0] != length):
        return False
    waiting = handle.waiting
    # One that is empty is there since an interrupt, and may be of an older version.
    if not waiting or not isinstance(waiting, WaitingRows) or waiting.grows != grows or not waiting.owner.is_here:
        handle.settle(of_change=True)
        if not _can_wait(handle, old):
            return False
        waiting = WaitingRows(handle, grows=grows)
        handle.wait(waiting)
    handle.keep(waiting, before, geometry, first, rows)
    return True


def _can_wait(handle: FrameHandle, geometry: Geometry) -> bool:
    """Whether rows of an array may wait. Indexes of other programs are marked as out of date with each change."""
    frame = handle.frame
    stored = frame.metalayer("b2nd") or b""
    return 0 not in geometry.chunks and stored[_NDIM] > 0 and INDEXES not in frame.vlmeta_names()


def keep_length(handle: Any, geometry: Geometry) -> bool:
    """Let an array of a handle wait to be longer; see `keep_rows`. False if it cannot, or if that is much."""
    old: Geometry = handle.layout[0]
    base: Geometry = (handle.waiting or handle).array[0]
    if not old.ndim or geometry.shape[1:] != old.shape[1:] or geometry.chunks != old.chunks:
        return False
    if geometry.shape[0] < old.shape[0] or not 0 < row_nbytes(old) * (geometry.shape[0] - base.shape[0]) <= _LARGEST:
        return False
    return keep_rows(handle, old, geometry, old.shape[0], np.empty((0, *old.shape[1:]), handle.layout[1]))


def few_rows(handle: Any, key: Any, value: Any) -> tuple[Geometry, int, Items] | None:
    """The items that are assigned to a key, if these are few whole rows: of an array of what geometry, and from where.

    Nobody may hold the lock of the handle: the value may read an array whose lock a thread has that reads this one.
    """
    geometry, dtype = handle.layout[:2]
    try:
        selection = _indexing.basic_selection(key, geometry.shape)
    except IndexError:
        return None  # somebody may have appended them
    if (
        selection is None or not selection.counts or not selection.unit or selection.flip is not None
        or selection.counts[1:] != geometry.shape[1:]
    ):  # fmt: skip
        return None
    count = selection.counts[0]
    if not _are_few(geometry, count):
        return None
    return geometry, selection.starts[0], items_of(handle, value, dtype, selection.shape).reshape(selection.counts)


def items_of(handle: Any, value: Any, dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> Items:
    """A caller's values, before a handle is locked. A child that they fork changes nothing of its parent."""
    if type(value) is np.ndarray or not handle.urlpath:
        return _indexing.as_items(value, dtype, shape)
    owner = Owner()
    items = _indexing.as_items(value, dtype, shape)
    owner.check(handle.urlpath)
    return items


def keep_items(handle: Any, geometry: Geometry, first: int, rows: Items) -> bool:
    """Let rows that are set wait; see `few_rows` and `keep_rows`."""
    now = handle.layout[0]
    return now.shape == geometry.shape and now.chunks == geometry.chunks and keep_rows(handle, now, now, first, rows)


def frame_of(handle: Any, geometry: Geometry) -> Frame:
    """The frame of an array that had a geometry just now; see `keep_rows`."""
    now, _, frame = handle.array
    if now.shape != geometry.shape:
        raise superseded()
    return frame  # type: ignore[no-any-return]


def _are_few(geometry: Geometry, count: int) -> bool:
    """Whether so many rows are some, and less than would be published at once."""
    return 0 < count * row_nbytes(geometry) <= _LARGEST and count < geometry.chunks[0]
