"""Part files: the compressed chunks of one block of a new array, written by one task, read by who assembles the array.

A part has a name of its own from the first byte to the last, and gets the suffix ``.part`` when it is whole. So a task
that runs twice, or whose process is killed, disturbs nobody. Layout: chunks, table (number, position, length and
checksum of each chunk as little-endian int64), and at the end the token of the array, the length of the table and its
checksum.
"""

from __future__ import annotations

import os
import struct
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._arrays import ArrayPlan, compressed_box
from blosc2._core.io.checksum import crc32c
from blosc2._files import Owner
from blosc2._indexing import lossless
from blosc2.exceptions import FormatError

_END: Final = struct.Struct("<8s16sQI")
_MAGIC: Final = b"b2part01"
_SUFFIX: Final = ".part"
#: Parts that are open at a time.
_MOST_OPEN: Final = 64


class Part(NamedTuple):
    """What a task has to know to write the chunks of its block.

    Attributes
    ----------
    folder : str
        Absolute; the same for all processes.
    token : bytes
        16 bytes that tell this array and its compression from others.
    shape, dtype, keywords
        Of the new array.
    bounds : tuple of tuple of int
        Where blocks begin on each axis, and the end of the last.
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
        """The number of a block, in C order."""
        number = 0
        for index, bounds in zip(block, self.bounds, strict=True):
            number = number * (len(bounds) - 1) + index
        return number

    def box(self, block: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first item of a block, and its lengths."""
        starts = tuple(bounds[index] for index, bounds in zip(block, self.bounds, strict=True))
        stops = tuple(bounds[index + 1] for index, bounds in zip(block, self.bounds, strict=True))
        return starts, tuple(stop - start for start, stop in zip(starts, stops, strict=True))

    def write(self, items: Any, block: tuple[int, ...]) -> None:
        """Compress the items of a block, and write its part file.

        Raises
        ------
        ValueError
            The items have another shape or dtype than the array says.
        TypeError
            The items have a mask.
        FileNotFoundError
            The folder is not there: this machine sees other files, or the run is over.
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
    """The whole parts in a folder.

    Parameters
    ----------
    part : Part
        Of the array.
    """

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

        Raises
        ------
        FormatError
            A part is damaged. It is removed, so that another run writes it again.
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
