"""Unpublished data of a change: in memory up to a budget, and in a temporary file beyond it."""

from __future__ import annotations

import math
import os
from typing import Any, BinaryIO, Final, cast

import numpy as np

from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.ndim.grid_write import StoredChunk
from blosc2._files.copies import ByteRange, Part, check_copy, write_parts
from blosc2._files.owner import Owner
from blosc2._options import absolute_path

#: Bytes of a change that wait in memory.
BUDGET: Final = 16 << 20


class Spooled:
    """A stored chunk that waits in a file.

    Parameters
    ----------
    byte_range : tuple
        Where it lies.
    own : int, optional
        Its checksum; by default it is computed when it is asked for.
    """

    __slots__ = ("_sum", "byte_range")

    def __init__(self, byte_range: ByteRange, own: int | None = None) -> None:
        self.byte_range = byte_range
        self._sum = own

    @property
    def sum(self) -> int:
        """Its checksum."""
        if self._sum is None:
            self._sum = int(crc32c(self.read()))
        return self._sum

    def __len__(self) -> int:
        return self.byte_range[2]

    def read(self) -> bytes:
        """Its bytes."""
        return self.byte_range[0].read(*self.byte_range[1:])


class TemporaryFile:
    """A file without a name for unpublished bytes. It is made when first needed, and goes with its last source.

    Parameters
    ----------
    beside : str
        The file for which it waits: there is most likely to be room on the same disk.
    """

    def __init__(self, beside: str) -> None:
        self._beside = beside
        self._owner = Owner()
        # The file object for writing, with the descriptor of the source.
        self._file: BinaryIO | None = None
        self._source: Source | None = None
        #: Bytes that were written to it.
        self.size = 0

    def another(self) -> TemporaryFile:
        """A new, empty file on the same disk."""
        return TemporaryFile(self._beside)

    def add(self, part: Part) -> ByteRange:
        """Append a buffer or byte range, and return where it lies."""
        self._owner.check(self._beside)  # a forked child would overwrite bytes of its parent
        if self._file is None:
            folder = os.path.dirname(absolute_path(self._beside))
            with _nameless(folder) as file:
                self._source = Source.of_descriptor(os.dup(file.fileno()), f"a temporary file in {folder}")
            self._file = cast("BinaryIO", open(self._source.descriptor, "rb+", buffering=0, closefd=False))  # noqa: SIM115
        start = self.size
        self._file.seek(start)
        write_parts(self._file, (part,))
        self.size = self._file.tell()
        byte_range = self.byte_range(start)
        if isinstance(part, tuple):
            check_copy(part, byte_range)
        return byte_range

    def byte_range(self, start: int) -> ByteRange:
        """What was written from a position on."""
        if self._source is None:
            return Source.of_buffer(b""), 0, 0
        return self._source.longer(self.size), start, self.size - start

    def keep(self, stored: bytes | StoredChunk | Spooled) -> Spooled:
        """Append a stored chunk."""
        if isinstance(stored, Spooled):
            return Spooled(self.add(stored.byte_range), stored._sum)
        own = stored.sum if isinstance(stored, StoredChunk) else None
        return Spooled(self.add(stored), int(crc32c(stored)) if own is None else own)


class Spool:
    """Takes the stored chunks of one change.

    Parameters
    ----------
    waiting : TemporaryFile or None
        Where they go beyond a budget; None keeps them in memory, whatever they take.
    """

    def __init__(self, waiting: TemporaryFile | None) -> None:
        self._waiting = waiting
        self._left = BUDGET

    def keep(self, stored: bytes | StoredChunk) -> bytes | Spooled:
        """Keep a stored chunk: return its bytes, or where they wait."""
        if self._waiting is None or len(stored) <= self._left:
            self._left -= len(stored)
            return bytes(stored)
        return self._waiting.keep(stored)


def held(stored: bytes | Spooled) -> bytes:
    """The bytes of a stored chunk that was kept."""
    return stored.read() if isinstance(stored, Spooled) else stored


def waiting_items(beside: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array for items that wait. Above a budget, its memory is a temporary file."""
    if math.prod(shape) * dtype.itemsize <= BUDGET:
        return np.empty(shape, dtype)
    return np.memmap(_nameless(os.path.dirname(absolute_path(beside))), dtype, "w+", shape=shape).view(np.ndarray)


def _nameless(folder: str) -> BinaryIO:
    """A file without a name in a folder, or elsewhere if none can be made there."""
    import tempfile  # not needed by most programs, and slow to import

    for directory in (folder, None):
        try:
            return cast("BinaryIO", tempfile.TemporaryFile(buffering=0, prefix=".", suffix=".tmp", dir=directory))
        except OSError:
            if directory is None:
                raise
    raise AssertionError
