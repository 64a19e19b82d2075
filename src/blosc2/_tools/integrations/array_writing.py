"""Writing arrays of other libraries part by part, in any number of processes."""

from __future__ import annotations

import os
import struct
import tempfile
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

import numpy as np

from blosc2._arrays import ArrayPlan, compressed_box, made, slabs_in
from blosc2._core.io.checksum import crc32c
from blosc2._core.ndim.gaps import as_dtype
from blosc2._core.ndim.geometry import Geometry
from blosc2._files import Owner
from blosc2._indexing import lossless
from blosc2._options import absolute_path, shortened
from blosc2.exceptions import FormatError
from blosc2.ndarray import NDArray

_END: Final = struct.Struct("<8s16sQI")
_MAGIC: Final = b"b2part01"
_SUFFIX: Final = ".part"
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
        chunks = compressed_box(self.plan(), starts, items)
        stem = os.path.join(self.folder, f"{self.number(block)}-{uuid.uuid4().hex}")
        owner = Owner()
        try:
            with owner.open(f"{stem}.tmp", "xb") as file:
                _write_chunks(file, chunks, self.token)
            owner.rename(f"{stem}.tmp", f"{stem}{_SUFFIX}")
        except FileNotFoundError as error:
            raise FileNotFoundError(
                error.errno,
                "the folder of this run is gone, or no folder of this machine: all workers need the same files",
                self.folder,
            ) from None
        except BaseException:
            with suppress(OSError):
                owner.unlink(f"{stem}.tmp")
            raise


def _write_chunks(file: Any, chunks: dict[int, Any], token: bytes) -> None:
    table = np.zeros((len(chunks), 4), "<i8")
    position = 0
    for row, number in zip(table, sorted(chunks), strict=True):
        stored = chunks[number]
        if isinstance(stored, int):  # zeros and the like, of which there is no chunk
            row[:] = number, stored, 0, 0
        else:
            row[:] = number, position, len(stored), crc32c(stored)
            file.write(stored)
            position += len(stored)
    written = table.tobytes()
    file.write(written)
    file.write(_END.pack(_MAGIC, token, len(written), crc32c(written)))


def _table_of(file: Any, path: str, token: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The table of a part; `FormatError` if the part is not whole, or of another array."""
    size = file.seek(0, os.SEEK_END)
    if size < _END.size:
        raise FormatError("the part is not whole", path=path)
    magic, found, length, checksum = _END.unpack(_read(file, size - _END.size, _END.size))
    start = size - _END.size - length
    if magic != _MAGIC or found != token or start < 0 or length % 32:
        raise FormatError("the part is not whole, or of another array", path=path)
    written = _read(file, start, length)
    if len(written) != length or crc32c(written) != checksum:
        raise FormatError("the table of the part does not have its checksum", path=path)
    table = np.frombuffer(written, "<i8").reshape(-1, 4)
    chunks = table[table[:, 1] >= 0]
    if len(chunks) and (chunks[:, 2].min() < 0 or (chunks[:, 1] + chunks[:, 2]).max() > start):
        raise FormatError("the table of the part names bytes behind its chunks", path=path)
    return table


def _read(file: Any, offset: int, length: int) -> bytes:
    file.seek(offset)
    found: bytes = file.read(length)
    return found


class Parts:
    """The whole parts of an array in a folder."""

    def __init__(self, part: Part) -> None:
        self._part = part
        #: Paths by number of the block.
        self.paths: dict[int, str] = {}
        self._open: OrderedDict[str, Any] = OrderedDict()

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
                with open(path, "rb") as file:
                    _table_of(file, path, part.token)
            except FormatError:
                owner.unlink(path)
            else:
                self.paths[int(number)] = path

    def chunks(self, count: int) -> Iterator[Any]:
        """All chunks of the array in their order, each checked.

        A part that is damaged is a `FormatError`; it is removed, so that another run writes it again.
        """
        where, paths = np.zeros((count, 3), np.int64), list(self.paths.values())
        source = np.full(count, -1, np.int64)
        for at, path in enumerate(paths):
            with open(path, "rb") as file:
                table = _table_of(file, path, self._part.token)
            if len(table) and (table[:, 0].min() < 0 or table[:, 0].max() >= count):
                raise self._damaged(path, "it has chunks that the array has not")
            where[table[:, 0]], source[table[:, 0]] = table[:, 1:], at
        if (source < 0).any():
            raise FormatError(f"no part has the chunk {int(np.flatnonzero(source < 0)[0])}", path=self._part.folder)
        try:
            for number in range(count):
                offset, length, checksum = where[number].tolist()
                if offset < 0:
                    yield offset
                    continue
                path = paths[source[number]]
                stored = _read(self._file(path), offset, length)
                if len(stored) != length or crc32c(stored) != checksum:
                    raise self._damaged(path, f"chunk {number} does not have its checksum")
                yield stored
        finally:
            for file in self._open.values():
                file.close()
            self._open.clear()

    def _file(self, path: str) -> Any:
        file = self._open.get(path)
        if file is None:
            if len(self._open) >= _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            file = self._open[path] = open(path, "rb")  # noqa: SIM115 - closed in `chunks`
        else:
            self._open.move_to_end(path)
        return file

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
            self._made = tempfile.mkdtemp(".tmp", name, os.path.dirname(self._beside))
        self._count += 1
        return os.path.join(self._made, f"{self._count}.b2nd")

    def new_folder(self) -> str:
        """The path of another folder, which exists."""
        path = f"{self.new_path()}.parts"
        Owner().mkdir(path)
        return path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._made is not None:
            remove_folder(self._made)


def remove_folder(folder: str) -> None:
    """Remove a folder, although a task that is not wanted any more may be writing to it just now."""
    for pause in (0, 0.01, 0.1, 0.5, 1):
        time.sleep(pause)
        Owner().remove_tree(folder, strict=False)
        if not os.path.lexists(folder):
            return


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
