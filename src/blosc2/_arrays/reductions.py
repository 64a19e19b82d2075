"""Reductions of arrays piece by piece, by threads: the sum of an array larger than memory, and its like.

An array is divided into pieces of whole blocks, which are decoded into memory of a thread and reduced by NumPy while
they are in the processor's cache. The pieces of one part of the result are joined in an order that depends on the array
alone: the result is the same for any number of threads. An array of one piece is read, and left to NumPy.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from blosc2._arrays.reduction_kinds import Asked, Fold, Items, State, Variance, kind_of
from blosc2._arrays.slabs import Shape, Snapshot
from blosc2._files import advise_frame
from blosc2._frames import CHUNK_HEADER, FrameHandle
from blosc2._options import Filter, Support
from blosc2.schunk import repeated_item
from blosc2.storage import SpecialValue

#: Uncompressed bytes of a piece, unless a block has more. A chunk of a few times as many is not divided: to read a part
#: of a chunk costs more than to leave the processor's cache.
PIECE_NBYTES: Final = 2 << 20
_UNDIVIDED: Final = 4
#: Uncompressed bytes of a share, which a thread reduces at a time: no less, no more, and else this part of an array.
SHARE_NBYTES: Final = (4 << 20, 16 << 20)
SHARES: Final = 32
#: Threads where bytes come from a server: what they are to need is fetched at the same time, and has to be kept.
_FAR_THREADS: Final = 2
#: Items of a part of the result up to which states are joined two by two, for which some have to be kept.
_FEW: Final = 1 << 16
#: Bytes of a stored chunk, and of the gap behind it, up to which it may consist of one value.
_VALUE_NBYTES: Final = CHUNK_HEADER + 255 + 64
_FLAGS: Final = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}


def reduced(
    handle: FrameHandle, name: str, field: str | None, axis: Any, keepdims: bool, options: Mapping[str, Any]
) -> Any:
    """The reduction that NumPy has under a name, of the items of an array or of a field of it.

    `options` are further keywords of NumPy's function; those that are None are not given.
    """
    options = {key: value for key, value in options.items() if value is not None}
    if name in ("var", "std") and np.dtype(options.get("dtype", float)).kind not in "fc":
        raise TypeError(f"dtype of {name} should be a floating point type, not {np.dtype(options['dtype'])}")
    source = _Source(Snapshot.of(handle), field)
    mask = options.pop("where", None)
    if math.prod(source.shape, start=source.read_dtype.itemsize) <= PIECE_NBYTES or not source.shape:
        if mask is not None:
            options["where"] = np.asarray(mask)
        return getattr(np, name)(source.all_items(), axis=axis, keepdims=keepdims, **options)
    out = options.pop("out", None)
    masks = None if mask is None else _Masks(mask, source.shape)
    asked = _asked(name, source, axis, masks, options, out)
    found = _Walk(source, kind_of(asked), masks).result()
    if not keepdims:
        found = found.reshape([n for axis, n in enumerate(found.shape) if axis not in asked.axes])
    if out is None:
        return found[()]  # which makes a scalar of an array without axes
    if out.shape != found.shape:
        raise ValueError(f"out has the shape {out.shape}, and the result of {name} {found.shape}")
    np.copyto(out, found, casting="unsafe")  # as NumPy has let pass
    return out


def _asked(
    name: str, source: _Source, axis: Any, masks: _Masks | None, options: Mapping[str, Any], out: Items | None
) -> Asked:
    """A reduction in full. What NumPy says of one item shows whether it is possible, and the type of its result."""
    ndim = len(source.shape)
    given = {key: value for key, value in options.items() if key != "ddof"}
    if masks is not None:
        given["where"] = np.ones((1,) * ndim, masks.dtype)
    one = np.zeros((1,) * ndim, source.dtype)
    with np.errstate(all="ignore"):
        result = getattr(np, name)(one, axis=axis, keepdims=True, **given).dtype
        if out is not None:
            given["out"] = np.zeros((1,) * ndim, out.dtype)
            result = _wider(name, result, getattr(np, name)(one, axis=axis, keepdims=True, **given).dtype)
    axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(axis, ndim)
    dtype = options.get("dtype")
    return Asked(
        name, source.shape, source.dtype, axes, result, None if dtype is None else np.dtype(dtype),
        options.get("ddof", 0), options.get("initial"), axis is None,
    )  # fmt: skip


def _wider(name: str, result: np.dtype[Any], out: np.dtype[Any]) -> np.dtype[Any]:
    """The type to compute in where the result is converted to another one at the end, as NumPy does.

    Only sums and what is made of them gain from more digits. Sums of integers are the same in whatever type.
    """
    is_sum = name in ("sum", "prod", "mean", "var", "std")
    both = result.kind + out.kind
    if not is_sum or not set(both) <= set("biufc") or set(both) <= set("biu"):
        return result
    return np.result_type(result, out)


class _Source:
    """What is reduced: an array, or a field of it, whose own axes come last."""

    def __init__(self, snapshot: Snapshot, field: str | None) -> None:
        self.snapshot = snapshot
        self.single = Snapshot(snapshot.version, 1)
        self.field = field
        self.read_dtype = snapshot.dtype
        self.dtype = snapshot.dtype
        more: Shape = ()
        if field is not None:
            self.dtype, more = self.read_dtype[field].subdtype or (self.read_dtype[field], ())
        self.shape: Shape = (*snapshot.geometry.shape, *more)
        self._more = more
        frame = snapshot.frame
        self.repeated = frame.repeated_offset is not None
        self._table = self._small = np.zeros(0, np.int64)

    def all_items(self) -> Items:
        shape = self.snapshot.geometry.shape
        found: Items = self._field(self.snapshot.read((0,) * len(shape), shape))
        return found

    def _field(self, items: Any) -> Any:
        return items if self.field is None else items[self.field]

    def read(self, starts: Shape, counts: Shape, room: Items) -> Items:
        """The items of a box, in memory that is used again for the next one."""
        ndim = self.snapshot.geometry.ndim
        items: Items = np.ndarray(counts[:ndim], self.read_dtype, room)
        found: Items = self._field(self.single.read(starts[:ndim], counts[:ndim], out=items))
        return found

    def find_constants(self) -> None:
        """Look which chunks may consist of one value."""
        geometry, frame = self.snapshot.geometry, self.snapshot.frame
        table = np.frombuffer(frame.offsets_bytes(), np.int64)
        start, stop = frame.chunks_range
        ends = np.append(np.unique(table[table >= 0]), stop - start)
        self._small = (ends[np.searchsorted(ends, table, "right").clip(max=len(ends) - 1)] - table) <= _VALUE_NBYTES
        self._table = table[: geometry.nchunks].reshape(geometry.grid)  # a file may hold chunks of an older shape

    def constant(self, starts: Shape, counts: Shape) -> Any:
        """The value that a box is full of, as far as that is known without decoding; else None."""
        box = self._chunks_of(starts, counts)
        table = self._table[tuple(slice(part.start, part.stop) for part in box)]
        if table.min() >= 0:
            number = int(np.ravel_multi_index([part.start for part in box], self._table.shape))
            return self._value(number) if table.size == 1 and self._small[number] else None
        if table.min() != table.max():
            return None
        return self.first(starts)

    def _chunks_of(self, starts: Shape, counts: Shape) -> list[range]:
        chunks = self.snapshot.geometry.chunks
        return [range(s // c, (s + n - 1) // c + 1) for s, n, c in zip(starts, counts, chunks)]

    def fetch(self, boxes: Iterable[tuple[Shape, Shape]]) -> None:
        """Have a server send what boxes need, side by side, without waiting for it."""
        grid = self.snapshot.geometry.grid
        numbers = (np.ravel_multi_index(np.ix_(*self._chunks_of(*box)), grid).ravel() for box in boxes)
        advise_frame("willneed", self.snapshot.frame, numbers)

    def first(self, starts: Shape) -> Any:
        """The first item of a box, or the items of its subarray."""
        ndim = self.snapshot.geometry.ndim
        return self._field(self.single.read(starts[:ndim], (1,) * ndim).reshape(())[()])

    def _value(self, number: int) -> Any:
        frame = self.snapshot.frame
        if frame.chunk_info(number)[3] != SpecialValue.VALUE.value:
            return None
        item = repeated_item(frame.special_value(number) or b"", self.read_dtype)
        return None if item is None else self._field(item)

    def cuts(self, limit: int, undivided: int) -> list[_Cuts]:
        """How the axes are cut into pieces of so many bytes: several chunks, or parts of those that are larger."""
        geometry, frame = self.snapshot.geometry, self.snapshot.frame
        chunks, units, most = geometry.chunks, geometry.chunks, geometry.shape
        whole = frame.needs_geometry or frame.checks_chunks or _decodes_whole(frame.filters)
        if geometry.chunk_nbytes > undivided and not whole:
            units, most = geometry.blocks, chunks
        lengths = list(units)
        for axis in reversed(range(len(units))):
            times = limit // math.prod(lengths, start=geometry.itemsize)
            lengths[axis] = min(units[axis] * max(times, 1), most[axis])
            if lengths[axis] < most[axis]:
                break
        return [
            *(_Cuts(n, max(c, part), part) for n, c, part in zip(geometry.shape, chunks, lengths)),
            *(_Cuts(n, n, n) for n in self._more),
        ]  # fmt: skip


def _decodes_whole(filters: Sequence[int]) -> bool:
    """Whether a chunk has to be decoded as a whole, however little of it is needed."""
    return any(one in [f.value for f in Filter if f.facts.support is Support.WHOLE_CHUNK] for one in filters)


class _Cuts(NamedTuple):
    """An axis in pieces, which begin anew with each chunk."""

    length: int
    chunk: int
    piece: int

    @property
    def many(self) -> int:
        """How many pieces there are."""
        return self.length // self.chunk * -(-self.chunk // self.piece) + -(-(self.length % self.chunk) // self.piece)

    def at(self, number: int) -> tuple[int, int]:
        """Where a piece begins, and its length."""
        chunk, part = divmod(number, -(-self.chunk // self.piece))
        start = chunk * self.chunk + part * self.piece
        return start, min(start + self.piece, (chunk + 1) * self.chunk, self.length) - start


class _Masks:
    """Which items count: an array that is broadcast to the shape of what is reduced, of NumPy or of this package."""

    def __init__(self, mask: Any, shape: Shape) -> None:
        self._stored: Snapshot | None = None
        if hasattr(mask, "_snapshot") and mask.shape == shape:
            self._stored = Snapshot(mask._snapshot().version, 1)
            self.dtype = mask.dtype
        else:
            mask = np.asarray(mask)
            self.dtype = mask.dtype
            self._mask = np.broadcast_to(mask, shape)

    def read(self, starts: Shape, counts: Shape) -> Items:
        """The mask of a box."""
        if self._stored is not None:
            return self._stored.read(starts, counts)
        return self._mask[tuple(slice(s, s + n) for s, n in zip(starts, counts, strict=True))]


class _Walk:
    """The way through the pieces, part of the result by part of it.

    Pieces are counted in that order, and a share is some that follow each other.
    """

    def __init__(self, source: _Source, kind: Fold, masks: _Masks | None) -> None:
        self.source, self.kind, self.masks = source, kind, masks
        self.axes = kind.asked.axes
        self.shape = tuple(1 if axis in self.axes else n for axis, n in enumerate(source.shape))
        limit = PIECE_NBYTES
        if isinstance(kind, Variance):  # whose differences need more room
            limit = limit * source.dtype.itemsize // max(kind.work.itemsize, source.dtype.itemsize)
        self.cuts = source.cuts(limit, _UNDIVIDED * limit)
        self.order = [axis for axis in range(len(self.cuts)) if axis not in self.axes] + list(self.axes)
        self.parts = math.prod(cut.many for axis, cut in enumerate(self.cuts) if axis not in self.axes)
        self.depth = math.prod(self.cuts[axis].many for axis in self.axes)
        self.rooms: list[Items] = []
        self.flags: set[str] = set()

    def result(self) -> Items:
        """The whole result, with axes of length 1 where the items were reduced."""
        with self._noting():
            if self.source.repeated and self.masks is None:
                value = self.source.first((0,) * len(self.shape))
                found = self.kind.finished(self._constant(value, self.source.shape, (0,) * len(self.shape)))
            else:
                found = np.empty(self.shape, self.kind.asked.result)
                for part, state in self._states():
                    starts, counts = self._box(part * self.depth)
                    box = (slice(s, s + n) for s, n in zip(starts, counts, strict=True))
                    found[tuple(slice(1) if axis in self.axes else b for axis, b in enumerate(box))] = (
                        self.kind.finished(state)
                    )
        _report(self.flags, self.kind.asked.name)
        return found

    def _noting(self) -> Any:
        """Note what goes wrong with floating point numbers, in this thread."""
        return np.errstate(all="call", call=lambda what, _: self.flags.add(what))

    def _states(self) -> Iterator[tuple[int, State]]:
        """The number of each part of the result, and its state. Those of shares come in their order."""
        current, waiting = 0, _Waiting(self.kind)
        for found in self._shares():
            for part, state in found:
                if part != current:
                    yield current, waiting.joined()
                    current, waiting = part, _Waiting(self.kind)
                waiting.add(state)
            if self.parts == 1 and self.kind.is_settled(waiting.last):
                break
        yield current, waiting.joined()

    def _shares(self) -> Iterator[list[tuple[int, State]]]:
        if not self.source.repeated:
            self.source.find_constants()
        itemsize = self.source.read_dtype.itemsize
        count = self.parts * self.depth
        least, most = SHARE_NBYTES
        share = min(max(math.prod(self.source.shape, start=itemsize) // SHARES, least), most)
        step = max(share // math.prod((cut.piece for cut in self.cuts), start=itemsize), 1)
        snapshot = self.source.snapshot
        far = snapshot.frame.source.far
        shares = [range(first, min(first + step, count)) for first in range(0, count, step)]
        prepared = map(self._fetched, shares) if far else iter(shares)
        return _in_order(self._share, prepared, min(_FAR_THREADS if far else snapshot.nthreads, len(shares)))

    def _fetched(self, pieces: range) -> range:
        self.source.fetch(map(self._box, pieces))
        return pieces

    def _share(self, pieces: range) -> list[tuple[int, State]]:
        """The parts of the result that some pieces belong to, with the states of these pieces."""
        with self._noting():
            return self._joined(pieces)

    def _joined(self, pieces: range) -> list[tuple[int, State]]:
        found: list[tuple[int, State]] = []
        for number in pieces:
            part = number // self.depth
            if not found or found[-1][0] != part:
                found.append((part, self._state(number)))
            elif not self.kind.is_settled(found[-1][1]):
                found[-1] = part, self.kind.joined(found[-1][1], self._state(number))
        return found

    def _box(self, number: int) -> tuple[Shape, Shape]:
        """The first item of a piece, and its number of items on each axis."""
        starts, counts = [0] * len(self.cuts), [0] * len(self.cuts)
        for axis in reversed(self.order):
            number, place = divmod(number, self.cuts[axis].many)
            starts[axis], counts[axis] = self.cuts[axis].at(place)
        return tuple(starts), tuple(counts)

    def _state(self, number: int) -> State:
        starts, counts = self._box(number)
        mask = None if self.masks is None else self.masks.read(starts, counts)
        if mask is None:
            value = self.source.constant(starts, counts)
            if value is not None:
                return self._constant(value, counts, starts)
        try:
            room = self.rooms.pop()
        except IndexError:
            room = np.empty(
                math.prod((cut.piece for cut in self.cuts), start=self.source.read_dtype.itemsize), np.uint8
            )
        state = self.kind.partial(self.source.read(starts, counts, room), mask, starts)
        self.rooms.append(room)
        return state

    def _constant(self, value: Any, counts: Shape, starts: Shape) -> State:
        if np.ndim(value):  # a subarray
            return self.kind.partial(np.broadcast_to(value, counts), None, starts)
        return self.kind.constant(value, counts, starts)


class _Waiting:
    """States of one part of the result, which are joined two by two, as sums lose least so; large ones at once."""

    def __init__(self, kind: Fold) -> None:
        self.kind = kind
        self.ranked: list[tuple[int, State]] = []

    @property
    def last(self) -> State:
        """A state that was not joined yet."""
        return self.ranked[-1][1]

    def add(self, state: State) -> None:
        """Take the state that follows."""
        rank = 0
        while self.ranked and (self.ranked[-1][0] == rank or np.size(state[-1]) > _FEW):
            rank, before = self.ranked.pop()
            state = self.kind.joined(before, state)
            rank += 1
        self.ranked.append((rank, state))

    def joined(self) -> State:
        """All of them."""
        state = self.ranked.pop()[1]
        while self.ranked:
            state = self.kind.joined(self.ranked.pop()[1], state)
        return state


def _in_order(
    work: Callable[[range], list[tuple[int, State]]], shares: Iterator[range], threads: int
) -> Iterator[list[tuple[int, State]]]:
    """What shares come to, in their order; some are done ahead by threads."""
    if threads == 1:
        yield from map(work, shares)
        return
    from blosc2._files import Pool

    with Pool(threads - 1, "blosc2-reducing") as pool:
        # In turns, and None for those of this thread. Were it to wait only, another one would have to begin, which the
        # system may let wait for milliseconds while all processors are busy.
        drawn = ((share, pool.submit(work, share) if number % threads else None) for number, share in enumerate(shares))
        ahead = deque(islice(drawn, 2 * threads))
        try:
            while True:
                if not ahead:
                    return
                share, future = ahead.popleft()
                found = work(share) if future is None else future.result()
                ahead.extend(islice(drawn, 1))
                yield found
        finally:
            pool.shutdown(cancel_futures=True)


def _report(flags: set[str], name: str) -> None:
    """Say once what went wrong with floating point numbers, in the way that `numpy.errstate` asks for."""
    for what in sorted(flags):
        how = np.geterr()[_FLAGS[what]]  # type: ignore[literal-required]
        if how == "raise":
            raise FloatingPointError(f"{what} encountered in {name}")
        if how == "call":
            np.geterrcall()(what, 0)  # type: ignore[operator, misc]
        elif how != "ignore":
            warnings.warn(f"{what} encountered in {name}", RuntimeWarning, stacklevel=5)
