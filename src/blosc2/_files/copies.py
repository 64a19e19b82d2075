"""Bytes on their way to a file: kept, copied and moved with bounded memory."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias, cast

import numpy as np

from blosc2._core.frame.frame_checksums import range_checksum
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.ndim.grid_write import StoredChunk
from blosc2._files.owner import Owner
from blosc2._options import absolute_path
from blosc2.exceptions import FormatError

#: Fewer bytes than this are simply joined.
_SMALL: Final = 1 << 20
#: At most this much memory is taken at first.
_LARGE: Final = 1 << 30


class ChunkBuffer:
    """Takes pieces of up to `expected` bytes in all, one after the other; `stored` gives all of them as one buffer.

    Examples
    --------
    >>> buffer = ChunkBuffer(100)
    >>> buffer.write(b"abc")
    >>> buffer.write(b"def")
    >>> bytes(buffer.stored())
    b'abcdef'
    """

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._pieces: list[bytes] = []  # until there are too many bytes for that
        self._buffer: np.ndarray[Any, np.dtype[np.uint8]] | None = None
        self._used = 0

    def write(self, data: Any) -> None:
        """Copy one more piece."""
        stop = self._used + len(data)
        if self._buffer is None:
            if stop <= _SMALL:
                self._pieces.append(bytes(data))  # the memory that it lies in will be used again
                self._used = stop
                return
            self._buffer = self._larger(max(stop, min(self._expected, _LARGE)), b"".join(self._pieces))
            self._pieces.clear()
        elif stop > len(self._buffer):
            self._buffer = self._larger(max(stop, 2 * len(self._buffer)), self._buffer[: self._used])
        self._buffer[self._used : stop] = np.frombuffer(data, np.uint8)
        self._used = stop

    def stored(self) -> Any:
        """All that was written."""
        if self._buffer is None:
            return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        if 2 * self._used <= len(self._buffer):
            # Address space may be scarcer than memory. What stays is not moved.
            self._buffer.resize(self._used, refcheck=False)
        return self._buffer if self._used == len(self._buffer) else self._buffer[: self._used]

    @staticmethod
    def _larger(size: int, begin: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
        buffer = np.empty(size, np.uint8)
        buffer[: len(begin)] = np.frombuffer(begin, np.uint8)
        return buffer


#: Where bytes lie: a source, the offset in it, and how many.
ByteRange = tuple[Source, int, int]
#: Bytes that are to be written: a buffer, or where they lie.
Part = Any
#: Called with the bytes that are done and those in all.
Progress: TypeAlias = Callable[[int, int], Any]


def told(
    frames: Mapping[str, ByteRange | None], keys: Iterable[str], progress: Progress | None
) -> Iterator[tuple[str, ByteRange]]:
    """The frames of these keys, but for those that are None. When one is done, the bytes so far and in all are told."""
    total = 0 if progress is None else sum(frame[2] for frame in frames.values() if frame is not None)
    done = 0
    for key in keys:
        frame = frames[key]
        if frame is not None:
            yield key, frame
            done += frame[2]
            if progress is not None:
                progress(done, total)


# Bytes read and written at a time, and bytes that the system copies at a time. Interrupts are served in between.
_PIECE: Final = 2 << 20
_AT_ONCE: Final = 64 << 20
# Fewer bytes are copied faster without the system.
_WORTH_ASKING: Final = 256 << 10
_NOT_WRITTEN: Final = (
    "the chunks to be copied are not those that were written, as their checksums say; check() tells more"
)
# Errors of systems that cannot copy between two files.
_CANNOT: Final = (
    errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.ETXTBSY, errno.EOVERFLOW,
)  # fmt: skip


class Compaction(NamedTuple):
    """How large a file or store was, and is now, as `compact` gives it.

    Attributes
    ----------
    before : int
        Its bytes on disk before it was compacted.
    after : int
        Its bytes on disk since then; never more.
    """

    before: int
    after: int


def pieces_of(byte_range: ByteRange) -> Iterator[bytes | memoryview]:
    """The bytes of a byte range, in pieces of bounded size; of a buffer or mapping, as they lie there."""
    for source, offset, length in byte_range[0].byte_ranges(*byte_range[1:]):
        try:
            view = memoryview(source)[offset : offset + length]
        except BufferError:
            for at in range(offset, offset + length, _PIECE):
                yield source.read(at, min(_PIECE, offset + length - at))
            continue
        # A raw write takes at most 2 GiB at a time.
        for start in range(0, length, 1 << 30):
            yield view[start : start + (1 << 30)]


def checked_pieces(byte_range: ByteRange) -> Iterator[bytes | memoryview]:
    """The pieces of a byte range; of all of a joined source, its checksums are checked when its body was drawn.

    Raises
    ------
    FormatError
        The bytes are not those that were written: they are damaged, or somebody changed the file meanwhile.
    """
    source, offset, length = byte_range
    known = source.checksums
    parts: tuple[Part, ...] = (byte_range,)
    if known and not offset and length == source.size:
        # Header and trailer were checked when they were read.
        body = source, known.start, known.stop - known.start
        parts = source.read(0, known.start), body, source.read(known.stop, length - known.stop)
    return checked_parts(parts, byte_range)


def checked_parts(parts: Iterable[Part], byte_range: ByteRange) -> Iterator[bytes | memoryview]:
    """The bytes of parts that a byte range was taken into, which is checked in the same way.

    Of the parts, the byte range among them is what lies between header and trailer.
    """
    source, offset, length = byte_range
    checksums = None if offset or length != source.size else source.checksums
    for part in parts:
        if not isinstance(part, tuple):
            yield part
            continue
        running = 0
        for piece in pieces_of(part):
            if checksums:
                running = crc32c(piece, running)
            yield piece
        if checksums and running != checksums.body:
            raise FormatError(_NOT_WRITTEN, path=_path_of(source), offset=checksums.start)
    check_unchanged(source)


def check_unchanged(source: Source) -> None:
    """Refuse what was copied from a file that was written to meanwhile, and has no checksums which would tell of it.

    This concerns joined sources whose `checksums` are None. Those of files that only this process writes to have False.
    """
    if source.is_joined and source.checksums is None and not source.is_unchanged():
        raise FormatError(
            "the file was written to while it was copied, and has no checksums that would tell what was copied: "
            "copy it again", path=_path_of(source),
        )  # fmt: skip


def check_copy(byte_range: ByteRange, copy: ByteRange) -> None:
    """Refuse a copy that disagrees with the checksums of its source, or whose files were written to meanwhile."""
    source, offset, length = byte_range
    checksums = source.checksums
    if checksums and not offset and length == source.size:
        if range_checksum(copy[0], copy[1] + checksums.start, checksums.stop - checksums.start) != checksums.body:
            raise FormatError(_NOT_WRITTEN, path=_path_of(source), offset=checksums.start)
    else:
        check_unchanged(source)


def _path_of(source: Source) -> str | None:
    """The file with most bytes of a joined source."""
    parts = source.byte_ranges(0, source.size)
    return max(parts, key=lambda part: part[2])[0].path if parts else None


def write_parts(file: BinaryIO, parts: Iterable[Part]) -> None:
    """Write buffers and byte ranges one behind the other to a file, from where it is."""
    raw = file.write
    for part in parts:
        if isinstance(part, tuple):
            _copy(file, part)
        else:
            write_all(raw, part)


def write_all(write: Callable[[Any], int], data: Any) -> None:
    """Write all of a buffer, even if single writes take only a part."""
    view = memoryview(data)
    while view:
        view = view[write(view) :]


def _copy(file: BinaryIO, byte_range: ByteRange) -> None:
    """Write the bytes of a byte range to a file, from where it is."""
    for source, offset, length in byte_range[0].byte_ranges(*byte_range[1:]):
        if source.descriptor >= 0 and length >= _WORTH_ASKING and hasattr(os, "copy_file_range"):
            done = _copy_by_system(file, source, offset, length)
            offset, length = offset + done, length - done
        for piece in pieces_of((source, offset, length)):
            write_all(file.write, piece)


def _copy_by_system(file: BinaryIO, source: Source, offset: int, length: int) -> int:
    """Let the system copy bytes to a file. Returns how many it copied; after an error, the position is what it was."""
    file.flush()
    position = file.tell()
    done = 0
    try:
        while done < length:
            count = min(length - done, _AT_ONCE)
            copied = os.copy_file_range(source.descriptor, file.fileno(), count, offset + done, position + done)
            if not copied:  # at the end of a file that was cut, or of one whose system has no such call for it
                break
            done += copied
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    file.seek(position + done)
    return done


#: Bytes of a change that wait in memory.
BUDGET: Final = 16 << 20


class Spooled:
    """A stored chunk that waits in a file; its checksum is computed when it is asked for, unless it is given."""

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


class DrawnChunk:
    """A stored chunk that is made while it is written, since it may be larger than memory should hold."""

    __slots__ = ("_length", "_pieces", "sum")

    def __init__(self, length: int, pieces: Callable[[DrawnChunk], Iterator[bytes]]) -> None:
        """`pieces` gives its bytes, and sets `sum`."""
        self._length = length
        self._pieces = pieces
        self.sum = 0

    def __len__(self) -> int:
        return self._length

    def pieces(self) -> Iterator[bytes]:
        """Its bytes, once."""
        return self._pieces(self)


class TemporaryFile:
    """A file without a name for unpublished bytes. It is made when first needed, and goes with its last source.

    It lies beside the file for which it waits: there is most likely to be room on the same disk.
    """

    def __init__(self, beside: str) -> None:
        self._beside = beside
        self._owner: Owner | None = None
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
        if self._owner is None:
            self._owner = Owner()
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
    """Takes the stored chunks of one change; beyond a budget they go to a temporary file, or to one beside a file.

    With None they stay in memory, whatever they take.
    """

    def __init__(self, beside: str | TemporaryFile | None) -> None:
        self._beside = beside
        self._left = BUDGET

    def keep(self, stored: bytes | StoredChunk) -> bytes | Spooled:
        """Keep a stored chunk: return its bytes, or where they wait."""
        if self._beside is None or len(stored) <= self._left:
            self._left -= len(stored)
            return bytes(stored)
        if isinstance(self._beside, str):
            self._beside = TemporaryFile(self._beside)
        return self._beside.keep(stored)


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
