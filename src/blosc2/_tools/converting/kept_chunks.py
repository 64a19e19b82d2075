"""The compressed chunks of a large array that is being converted, in a file: a later run goes on from there."""

from __future__ import annotations

import hashlib
import os
import struct
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from typing import Any, BinaryIO, Final

from blosc2._arrays import ArrayPlan
from blosc2._core.io.checksum import crc32c
from blosc2._files import Owner, Spooled, flock
from blosc2._frames import NAN_OFFSET, UNINIT_OFFSET, ZERO_OFFSET, AnyChunk
from blosc2._tools.stores import remove
from blosc2.storage import MAX_OVERHEAD

if sys.platform != "win32":
    import fcntl

# Arrays of fewer bytes are made anew.
_LEAST = 256 << 20
# The length of a chunk, or the offset that stands for a special one; and the CRC-32C of its bytes.
_RECORD: Final = struct.Struct("<qI")
_SPECIAL: Final = (ZERO_OFFSET, NAN_OFFSET, UNINIT_OFFSET)

Chunks = Generator[AnyChunk, None, None]
#: Gives the chunks of an array from a number on.
Others = Callable[[int], Chunks]


class KeptChunks:
    """A file of chunks, which begins with a hash of what they were made of. `went_on` is the key of an array with
    chunks of an earlier run.
    """

    def __init__(self, path: str, made_of: object) -> None:
        self.path, self._made_of = path, made_of
        self.went_on: str | None = None

    def remove(self) -> None:
        """Nothing is needed any more."""
        remove(self.path)

    def and_others(self, key: str, plan: ArrayPlan, others: Others) -> Chunks:
        """The chunks of an array: those of the file, then `others` from a number on, which are added to it."""
        geometry = plan.geometry
        # What is chosen from the data is chosen when their first chunk is made.
        if geometry.size * plan.dtype.itemsize < _LEAST or plan.asked is not None:
            return others(0)
        what = (self._made_of, key, geometry.shape, geometry.chunks, geometry.blocks, plan.dtype, plan.cparams)
        return self._and_others(key, hashlib.sha256(repr(what).encode()).digest(), plan, others)

    def _and_others(self, key: str, head: bytes, plan: ArrayPlan, others: Others) -> Chunks:
        file, number = _opened(self.path), 0
        try:
            if file is not None:
                end = 0
                if file.read(len(head)) == head:
                    end = len(head)
                    for stored in _read(file, plan):
                        self.went_on, number = key, number + 1
                        yield stored
                        end = file.tell()
                _begin(file, end, head)
            with closing(others(number)) as rest:
                for stored in rest:
                    if file is not None and not _added(file, stored):
                        file.close()
                        file = None
                    yield stored
        finally:
            if file is not None:
                with suppress(OSError):  # a full disk
                    file.close()


def _opened(path: str) -> BinaryIO | None:
    """None where another run has the file, or where it cannot be: nothing is kept then."""
    try:
        file = Owner().open(path, "r+b" if os.path.exists(path) else "w+b")
    except OSError:
        return None
    try:
        if sys.platform != "win32":
            flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB, path)
    except OSError:
        file.close()
        return None
    return file


def _begin(file: BinaryIO, end: int, head: bytes) -> None:
    """Have a file end behind its sound chunks."""
    file.seek(end)
    file.truncate()
    if end == 0:
        file.write(head)


def _read(file: BinaryIO, plan: ArrayPlan) -> Iterator[Any]:
    """The chunks that are whole."""
    most = int(plan.geometry.chunk_nbytes) + MAX_OVERHEAD
    for _ in range(plan.geometry.nchunks):
        record = file.read(_RECORD.size)
        if len(record) < _RECORD.size:
            return
        length, own = _RECORD.unpack(record)
        stored = length if length in _SPECIAL else file.read(length) if 0 < length <= most else b""
        if isinstance(stored, bytes) and (len(stored) != length or crc32c(stored) != own):
            return
        yield stored


def _added(file: BinaryIO, stored: AnyChunk) -> bool:
    """Write a chunk. False where the disk is full: the target may need the rest of it."""
    try:
        if isinstance(stored, int):
            file.write(_RECORD.pack(stored, 0))
        else:
            held: Any = stored.read() if isinstance(stored, Spooled) else stored
            file.write(_RECORD.pack(len(held), crc32c(held)))
            file.write(held)
    except OSError:
        with suppress(OSError):
            file.truncate(0)
        return False
    return True
