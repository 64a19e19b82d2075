"""Writing arrays of other libraries part by part, in any number of processes."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple, Self

import numpy as np

from blosc2._arrays import ArrayPlan, compressed_box, made, slabs_in
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._core.ndim.gaps import as_dtype
from blosc2._core.ndim.geometry import Geometry
from blosc2._files import NewFile, Owner
from blosc2._frames import Fields, FrameContent, pack, unpack, vlmeta_chunk, write_content
from blosc2._indexing import lossless
from blosc2._options import absolute_path, shortened
from blosc2._tools.stores import remove_folder
from blosc2.exceptions import FormatError, name_target
from blosc2.ndarray import NDArray

_SUFFIX: Final = ".part"
#: The metadata entry of a part with the token of its array, and the numbers of its chunks.
_ENTRY: Final = "blosc2.part"
#: Parts that are open at a time.
_MOST_OPEN: Final = 64


class Part(NamedTuple):
    """What a task has to know to write the chunks of its block.

    The folder is absolute, and the same for all processes; `token` has 16 bytes that tell this array and its
    compression from others; shape, dtype and keywords are those of the new array; `bounds` says where blocks begin on
    each axis, and where the last one ends.
    """

    folder: str
    token: bytes
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    keywords: dict[str, Any]
    bounds: tuple[tuple[int, ...], ...]

    def plan(self) -> ArrayPlan:
        """The plan of the new array, in memory; a task has one core."""
        plan = ArrayPlan(self.shape, self.dtype, dict(self.keywords))
        plan.cparams.nthreads = 1
        return plan

    def number(self, block: tuple[int, ...]) -> int:
        number = 0
        for index, bounds in zip(block, self.bounds, strict=True):
            number = number * (len(bounds) - 1) + index
        return number

    def box(self, block: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        starts = tuple(bounds[index] for index, bounds in zip(block, self.bounds, strict=True))
        stops = tuple(bounds[index + 1] for index, bounds in zip(block, self.bounds, strict=True))
        return starts, tuple(stop - start for start, stop in zip(starts, stops, strict=True))

    def write(self, items: Any, block: tuple[int, ...]) -> None:
        """Compress the items of a block, and write its part file.

        `ValueError` for items of another shape or dtype than the array says, `TypeError` for items with a mask, and
        `FileNotFoundError` where there is no folder: this machine sees other files, or the run is over.
        """
        starts, counts = self.box(block)
        items = lossless(items)
        if items.shape != counts or items.dtype != self.dtype:
            raise ValueError(
                f"block {block} has items of shape {items.shape} and {items.dtype}, and the array says {counts} and "
                f"{self.dtype}"
            )
        plan = self.plan()
        chunks = compressed_box(plan, starts, items)
        numbers, nbytes = sorted(chunks), int(plan.geometry.chunk_nbytes)
        content = FrameContent(
            Fields(plan.encoding, nbytes), {},
            {_ENTRY: vlmeta_chunk(pack([self.token, np.array(numbers, "<i8").tobytes()]))},
            [chunks[number] for number in numbers], len(numbers), len(numbers) * nbytes,
        )  # fmt: skip
        path = os.path.join(self.folder, f"{self.number(block)}-{uuid.uuid4().hex}{_SUFFIX}")
        try:
            with NewFile(path, replace=False, durable=False) as file:
                write_content(file, content)
        except FileNotFoundError as error:
            raise FileNotFoundError(
                error.errno,
                "the folder of this run is gone, or no folder of this machine: all workers need the same files",
                self.folder,
            ) from None


class _Opened(NamedTuple):
    """A part that is whole: its frame, the numbers of its chunks, and their entries in its offsets table."""

    frame: Frame
    numbers: np.ndarray[Any, np.dtype[np.int64]]
    entries: np.ndarray[Any, np.dtype[np.int64]]

    @classmethod
    def at(cls, path: str, token: bytes) -> Self:
        """`FormatError` where the part is not whole, or of another array."""
        frame = Frame.open(Source.open(path))
        frame.check_wholes()
        found = unpack(frame.vlmeta(_ENTRY) or b"", file_size=frame.file_size)
        if not isinstance(found, list) or found[:1] != [token] or not frame.checksums_len:
            raise FormatError("the part is of another array", path=path)
        numbers, repeated = np.frombuffer(found[1], "<i8"), frame.repeated_offset
        entries = np.full(numbers.shape, repeated or 0)
        if repeated is None:
            entries = np.frombuffer(frame.offsets_bytes(), np.int64)
        return cls(frame, numbers, entries)


class Parts:
    """The whole parts of an array in a folder."""

    def __init__(self, part: Part) -> None:
        self._part = part
        #: Paths by number of the block.
        self.paths: dict[int, str] = {}

    def find(self) -> None:
        """Look which parts are there. What is no whole part of this array is removed."""
        owner, part = Owner(), self._part
        self.paths.clear()
        with os.scandir(part.folder) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            path = os.path.join(part.folder, name)
            number = name.partition("-")[0]
            if not name.endswith(_SUFFIX) or not number.isdecimal():
                continue
            if int(number) in self.paths:  # written twice: each of both is right
                continue
            try:
                _Opened.at(path, part.token)
            except FormatError:
                owner.unlink(path)
            else:
                self.paths[int(number)] = path

    def chunks(self, count: int) -> Iterator[Any]:
        """All chunks of the array in their order, each checked.

        A part that is damaged is a `FormatError`; it is removed, so that another run writes it again.
        """
        paths, opened = list(self.paths.values()), lru_cache(_MOST_OPEN)(_Opened.at)
        source, place = np.full(count, -1, np.int64), np.zeros(count, np.int64)
        for at, path in enumerate(paths):
            numbers = _Opened.at(path, self._part.token).numbers
            if len(numbers) and (numbers.min() < 0 or numbers.max() >= count):
                raise self._damaged(path, "it has chunks that the array has not")
            source[numbers], place[numbers] = at, np.arange(len(numbers))
        if (source < 0).any():
            raise FormatError(f"no part has the chunk {int(np.flatnonzero(source < 0)[0])}", path=self._part.folder)
        for at, index in zip(source.tolist(), place.tolist(), strict=True):
            try:
                frame, _, entries = opened(paths[at], self._part.token)
                stored = int(entries[index]) if entries[index] < 0 else frame.chunk(index)
            except FormatError as error:
                raise self._damaged(paths[at], error.reason) from None
            yield stored

    def _damaged(self, path: str, why: str) -> FormatError:
        with suppress(OSError):
            Owner().unlink(path)
        return FormatError(f"the part is damaged and was removed: {why}; write the array again", path=path)


# Arrays of more uncompressed bytes wait in a file.
_LARGE: Final = 64 << 20

#: Takes a box, a slice with start and stop for each axis, and gives its items.
Reader = Callable[[tuple[slice, ...]], Any]


class ScratchFolder:
    """A folder beside a store, in which arrays wait until they are published. It is made when first needed."""

    def __init__(self, beside: str) -> None:
        self._beside = absolute_path(beside)
        self._made: str | None = None
        self._count = 0

    def new_path(self) -> str:
        if self._made is None:
            name = f".{shortened(os.path.basename(self._beside))}."
            try:
                self._made = tempfile.mkdtemp(".tmp", name, os.path.dirname(self._beside))
            except OSError as error:
                raise type(error)(error.errno, f"cannot write here: {error.strerror}", self._beside) from None
        self._count += 1
        return os.path.join(self._made, f"{self._count}.b2nd")

    def new_folder(self) -> str:
        """The path of another folder, which exists."""
        path = f"{self.new_path()}.parts"
        Owner().mkdir(path)
        return path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._made is not None:
            if error is not None:
                name_target(error, self._made, self._beside)
            remove_folder(self._made)


def new_array(
    shape: tuple[int, ...], dtype: Any, read: Reader, keywords: Mapping[str, Any], scratch: ScratchFolder,
    attributes: Mapping[str, Any],
) -> NDArray:  # fmt: skip
    """A compressed array of items that are read box by box, in memory or, if it is large, in a file."""
    plan = ArrayPlan(shape, dtype, {**keywords, **where_to(shape, dtype, scratch)})
    array = NDArray._of(plan.write(made(plan, lambda box: as_dtype(read(box), plan.dtype))))
    if attributes:
        array.vlmeta.update(attributes)
    return array


def where_to(shape: tuple[int, ...], dtype: Any, scratch: ScratchFolder) -> dict[str, Any]:
    """Keywords that say where a new array waits: in memory, or in a file, which is synced where it is published."""
    nbytes = int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize
    return {} if nbytes <= _LARGE else {"urlpath": scratch.new_path(), "mode": "w"}


def write_box(array: NDArray, starts: tuple[int, ...], shape: tuple[int, ...], read: Reader) -> None:
    """Write items to a box of an existing array, slab by slab; `read` takes a box relative to the first item of it."""
    if not shape:
        array[()] = np.asarray(read(()))
        return
    if 0 in shape:
        return
    # Slabs of the whole array, cut to the box: each chunk is compressed once, and those beside the box not at all.
    stops = tuple(start + n for start, n in zip(starts, shape, strict=True))
    first = tuple(start // c * c for start, c in zip(starts, array.chunks, strict=True))
    geometry = Geometry(
        tuple(stop - low for stop, low in zip(stops, first, strict=True)),
        array.chunks,
        array.blocks,
        array.dtype.itemsize,
    )
    for slab in slabs_in(geometry):
        low = [max(f + s, start) for f, s, start in zip(first, slab.starts, starts, strict=True)]
        high = [f + s + n for f, s, n in zip(first, slab.starts, slab.counts, strict=True)]
        if all(a < b for a, b in zip(low, high, strict=True)):
            items = read(tuple(slice(a - s, b - s) for a, b, s in zip(low, high, starts, strict=True)))
            array[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = np.asarray(items)
