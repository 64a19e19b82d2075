"""The compressed chunks of a large array that is being converted, in a file: a later run goes on from there."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from io import FileIO
from typing import Any, Final

from blosc2._arrays import ArrayPlan
from blosc2._core.io.checksum import crc32c
from blosc2._files import Owner, Spooled, flock
from blosc2._frames import NAN_OFFSET, UNINIT_OFFSET, ZERO_OFFSET, AnyChunk
from blosc2.storage import MAX_OVERHEAD

if sys.platform != "win32":
    import fcntl

_MAGIC: Final = b"blosc2: chunks of a conversion\n"
# Arrays of fewer bytes are made anew.
_LEAST = 256 << 20
# The length of a chunk, or the offset that stands for a special one; and the CRC-32C of its bytes.
_RECORD: Final = struct.Struct("<qI")
_SPECIAL: Final = (ZERO_OFFSET, NAN_OFFSET, UNINIT_OFFSET)

Chunks = Generator[AnyChunk, None, None]
#: Gives the chunks of an array from a number on.
Others = Callable[[int], Chunks]


class KeptChunks:
    """A file of chunks behind a hash of what they were made of; `went_on` is the key of an array with earlier ones."""

    def __init__(self, path: str, made_of: object) -> None:
        self.path, self._made_of = path, made_of
        self.went_on: str | None = None

    def remove(self) -> None:
        """Nothing is needed any more. A file of others that has this name stays."""
        file = _opened(self.path, create=False)
        if file is not None:
            file.close()
            Owner().unlink(self.path)

    def and_others(self, key: str, plan: ArrayPlan, others: Others) -> Chunks:
        """The chunks of an array: those of the file, then `others` from a number on, which are added to it."""
        geometry = plan.geometry
        # What is chosen from the data is chosen when their first chunk is made.
        if geometry.size * plan.dtype.itemsize < _LEAST or plan.asked is not None:
            return others(0)
        what = (self._made_of, key, geometry.shape, geometry.chunks, geometry.blocks, plan.dtype, plan.cparams)
        return self._and_others(key, hashlib.sha256(repr(what).encode()).digest(), plan, others)

    def _and_others(self, key: str, head: bytes, plan: ArrayPlan, others: Others) -> Chunks:
        file, number = _opened(self.path, create=True), 0
        try:
            if file is not None:
                end = 0
                if file.read(len(_MAGIC + head)) == _MAGIC + head:
                    end = file.tell()
                    for stored in _read(file, plan):
                        self.went_on, number = key, number + 1
                        yield stored
                        end = file.tell()
                file.seek(end)
                file.truncate()
                if end == 0 and not _written(file, _MAGIC + head):
                    file.close()
                    file = None
            with closing(others(number)) as rest:
                for stored in rest:
                    if file is not None and not _added(file, stored):
                        file.close()
                        file = None
                    yield stored
        finally:
            if file is not None:
                file.close()


def _opened(path: str, *, create: bool) -> FileIO | None:
    """None where another run has the file, where it cannot be, or where something else has the name."""
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    if not create and not os.path.lexists(path):
        return None
    try:
        descriptor = Owner().open_lock(path, flags)
    except OSError:
        return None
    file = FileIO(descriptor, "r+")
    try:
        is_ours = stat.S_ISREG(os.fstat(descriptor).st_mode) and file.read(len(_MAGIC)) in (b"", _MAGIC)
        if is_ours and sys.platform != "win32":
            flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, path)
        file.seek(0)
    except OSError:
        is_ours = False
    if is_ours:
        return file
    file.close()
    return None


def _read(file: FileIO, plan: ArrayPlan) -> Iterator[Any]:
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


def _added(file: FileIO, stored: AnyChunk) -> bool:
    """Write a chunk. False where there is no room: the target may need all that there is."""
    if isinstance(stored, int):
        return _written(file, _RECORD.pack(stored, 0))
    held: Any = stored.read() if isinstance(stored, Spooled) else stored
    return _written(file, _RECORD.pack(len(held), crc32c(held))) and _written(file, held)


def _written(file: FileIO, data: Any) -> bool:
    try:
        if file.write(data) == len(data):
            return True
        file.truncate(0)
    except OSError:
        with suppress(OSError):
            file.truncate(0)
    return False
