"""Directory frames: the files of their chunks as one source, and handles that read and publish versions.

A small frame is read; the chunks of a large one stay in their files. An open file shows what it holds whatever becomes
of its name, so a version that was opened stays whole. Files that are too many to be kept open go into one without a
name, one behind the other.

New chunks get files with numbers that no version uses; then the header file is replaced by a new one, in one rename;
files of chunks that are gone are removed last.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, Final, NamedTuple, cast

import numpy as np

from blosc2._core.allocation import FREE, table_limit, too_much
from blosc2._core.codec.codec import decode_bytes
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import stored_lengths
from blosc2._core.frame.frame_writer import header_length, pack_header, pack_index, pack_trailer
from blosc2._core.io.sharing import Lock
from blosc2._core.io.source import Source
from blosc2._core.ndim.grid_write import StoredChunk
from blosc2._files import (
    ByteRange,
    Descriptor,
    LockedFile,
    NewFile,
    Owner,
    Spool,
    Spooled,
    SyncsBeside,
    TemporaryFile,
    as_block,
    file_identity,
    sync_folder,
    sync_names,
    temporary_name,
    through_link,
    write_parts,
)
from blosc2._frames.changeable import Draft, Drafting, stale
from blosc2._frames.handle import FrameHandle, HandleOptions
from blosc2._frames.header_fields import (
    CBYTES_AT,
    CHUNK_HEADER,
    CHUNK_SIZES,
    FRAME_HEADER,
    FRAME_TYPE_AT,
    HEADER_FILE,
    is_directory_frame,
    special_kind,
)
from blosc2._frames.update import (
    NAN_OFFSET,
    SMALL_FRAME,
    UNINIT_OFFSET,
    ZERO_OFFSET,
    EditedChunks,
    FrameContent,
    FrameUpdate,
    lay_out,
)
from blosc2._options import absolute_path
from blosc2.exceptions import ExistingFileError, FormatError, name_file

Integers = np.ndarray[Any, np.dtype[np.int64]]

# Descriptors that a process is assumed to have if the system does not tell, and the most that are used here.
_FEW_DESCRIPTORS: Final = 512
_MOST_DESCRIPTORS: Final = 8192
# Up to here a file is opened, read and closed in one step.
_AT_ONCE: Final = 64 << 10


class ChunkFiles:
    """Takes the files of chunks in their order: where they lie, and whether all of them are in memory."""

    def __init__(self, path: str) -> None:
        self._waiting = TemporaryFile(path)
        self._last = most_descriptors() // 2
        self.byte_ranges: list[ByteRange] = []
        self._held = 0
        self.is_small = True

    def add(self, name: str) -> int:
        """Add the next chunk and return its bytes."""
        source = Source.of_small_file(name, _AT_ONCE) if self.is_small else None
        if source is None or source.size == _AT_ONCE:  # there may be more
            try:
                source = Source.open(name)
            except FileNotFoundError:
                raise FormatError("a chunk file of this directory frame is missing", path=name) from None
        size = int(source.size)
        self._held += size
        if self.is_small and self._held <= SMALL_FRAME:
            own = source if source.in_memory else Source.of_buffer(source.read(0, size))
            self.byte_ranges.append((own, 0, size))
        else:
            self.is_small = False
            self.byte_ranges.append(kept_open(source, self._last) or self._waiting.add((source, 0, size)))
        return size

    def source(self, path: str) -> Source:
        """One source of all files, one after another."""
        return Source.joined(self.byte_ranges, path)

    def bytes(self) -> Iterator[bytes]:
        """The bytes of the files of a small frame, one after another."""
        return (source.read(offset, length) for source, offset, length in self.byte_ranges)


class ChunkNumbers:
    """Which file each stored chunk of a version has, by `Directory.numbers`, and how large it is.

    By default the headers of the chunks tell the lengths.
    """

    __slots__ = ("_offsets", "lengths", "numbers")

    def __init__(self, frame: Frame, numbers: Integers, lengths: Integers | None = None) -> None:
        self.numbers = numbers[numbers >= 0]
        repeated = frame.repeated_offset
        offsets = np.frombuffer(frame.offsets_bytes(), np.int64) if repeated is None else np.array([repeated])
        self._offsets = offsets[offsets >= 0] if len(self.numbers) else self.numbers
        self.lengths = np.frombuffer(stored_lengths(frame, self._offsets), np.int64) if lengths is None else lengths
        order = np.argsort(self._offsets, kind="stable")  # which is quick where they are in order already
        self._offsets, self.numbers, self.lengths = self._offsets[order], self.numbers[order], self.lengths[order]

    def at(self, offsets: Integers) -> tuple[Integers, Integers]:
        """Number and length of the file of each chunk that is stored at these offsets of the version."""
        found = np.searchsorted(self._offsets, offsets)
        return self.numbers[found], self.lengths[found]

    def without(self, used: Integers) -> list[int]:
        """Numbers of files that a later version does not use."""
        if np.array_equal(used[: len(self.numbers)], self.numbers):  # nothing but appended to
            return []
        used = np.sort(used)
        # Not by `np.setdiff1d`, which imports `numpy.ma`.
        stays = np.searchsorted(used, self.numbers, "right") > np.searchsorted(used, self.numbers)
        gone: list[int] = np.sort(self.numbers[~stays]).tolist()
        return gone


def kept_open(source: Source, last: int) -> ByteRange | None:
    """All of a file that is open, if the process has descriptors enough: a new one gets the lowest number."""
    return (source, 0, int(source.size)) if source.descriptor < last else None


def from_file(name: str, stored: bytes | Spooled) -> bytes | Spooled:
    """A stored chunk that was written to a file, as what lies there, if that can be kept open."""
    source = Source.open(name)
    byte_range = kept_open(source, most_descriptors() // 2)
    if byte_range is None or byte_range[2] != len(stored):
        return stored
    return Spooled(byte_range)


def most_descriptors() -> int:
    """The number of descriptors that this process may have."""
    try:
        import resource
    except ImportError:
        return _FEW_DESCRIPTORS
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST_DESCRIPTORS if soft < 0 else min(soft, _MOST_DESCRIPTORS)


# The file that is locked where directories cannot be locked.
_LOCK_FILE: Final = f"{HEADER_FILE}.b2lock"
_CHUNK_NAME = re.compile("[0-9A-F]{8}")
_LAST_NUMBER: Final = 0xFFFFFFFF
# How often, and for how many seconds, a reader tries again because writers were faster.
_TRIES: Final = 10
_PATIENCE: Final = 10.0


class Directory(NamedTuple):
    """One version of a directory frame.

    Attributes
    ----------
    head : bytes
        The content of the header file.
    numbers : int64 array
        Of each chunk, its file; or an offset that stands for a chunk without data. One such may stand for all.
    frame : Frame
        All of it: in memory where it is small, else with chunks that lie in their files.
    identity : tuple of int or None
        Of the header file: each version has a new one, though it may hold the same bytes as one before.
    """

    head: bytes
    numbers: Integers
    frame: Frame
    identity: tuple[int, ...] | None = None


def chunk_file(path: str, number: int) -> str:
    """The name of a chunk's file."""
    return f"{path}{os.sep}{number:08X}.chunk"


def chunk_number(name: str) -> int | None:
    """The number in the name of a chunk's file. None for other names."""
    stem, suffix = os.path.splitext(name)
    return int(stem, 16) if suffix == ".chunk" and _CHUNK_NAME.fullmatch(stem) else None


def head_identity(path: str) -> tuple[int, ...] | None:
    """`Directory.identity` of the version that is current."""
    return file_identity(os.path.join(path, HEADER_FILE))


def read_head(path: str) -> bytes:
    """The content of the header file."""
    source = Source.open(os.path.join(path, HEADER_FILE))
    return source.read(0, source.size)


def read_directory(path: str) -> Directory:
    """The frame of a directory, whose chunks are in memory or in files that are open.

    `OSError` where writers publish versions faster than one can be read.
    """
    tries, stop = 0, time.monotonic() + _PATIENCE
    while tries < _TRIES or time.monotonic() < stop:
        tries += 1
        # It stays open until the end, so that no other file gets its inode.
        source = Source.open(os.path.join(path, HEADER_FILE))
        head = source.read(0, source.size)
        try:
            found = _read(path, head)
        except FormatError:
            # A writer may have published another version meanwhile, and removed chunks of this one.
            if _is_current(path, source):
                raise
            continue
        # Numbers of chunk files are used again: what was read may be made of several versions, and look sound.
        if _is_current(path, source):
            return found._replace(identity=source.identity)
    raise OSError(errno.EBUSY, "other versions were published all the time while it was read; try again", path)


def _is_current(path: str, header: Source) -> bool:
    """Whether this is still the header file. Each version has a new one."""
    with suppress(FileNotFoundError):
        status = os.stat(os.path.join(path, HEADER_FILE))
        return header.identity is not None and (status.st_dev, status.st_ino) == header.identity[:2]
    return False


def frame_of_head(name: str, head: bytes) -> tuple[Frame, Integers]:
    """The header file as a frame without chunks, and what `Directory.numbers` is."""
    data = bytearray(head)
    if len(data) < FRAME_HEADER or data[FRAME_TYPE_AT] & 15 != 1:
        raise FormatError("this is not the header of a directory frame", path=name, offset=FRAME_TYPE_AT)
    # Without chunks between header and offsets table, it reads as a contiguous frame with 0 bytes of chunks.
    data[FRAME_TYPE_AT] &= 0xF0
    struct.pack_into(">q", data, CBYTES_AT, 0)
    frame = Frame.open(Source.of_buffer(bytes(data), name))
    if not frame.nbytes:
        return frame, np.zeros(0, np.int64)
    start, stop = frame.header_len, frame.frame_len - frame.trailer_len
    try:
        return frame, _numbers(frame, bytes(data[start:stop]), name, start)
    except FormatError as error:
        raise FormatError(f"the offsets table: {error.reason}", path=name, offset=start) from None


def _numbers(frame: Frame, stored: bytes, name: str, at: int) -> Integers:
    """The table of offsets that a chunk holds."""
    nbytes = CHUNK_SIZES.unpack_from(stored)[0] if len(stored) >= CHUNK_HEADER else 0
    count = nbytes // 8 if frame.variable else -(-frame.nbytes // frame.chunksize)
    if nbytes != 8 * count or count < 1:
        raise FormatError(f"{nbytes} bytes for {count} chunks")
    if special_kind(stored):
        # One value is kept as one: it may stand for any number of chunks.
        decode_bytes(stored[:4] + (8).to_bytes(4, "little") + stored[8:], 8, name, None, at)
        numbers = np.frombuffer(stored[CHUNK_HEADER : CHUNK_HEADER + 8].ljust(8, b"\0"), "<i8").astype(np.int64)
        if numbers[0] >= 0 and count > 1:
            raise FormatError("it names one chunk file for all chunks")
    else:
        size = len(stored) if nbytes <= FREE // 2 else _size_of_files(os.path.dirname(name))
        if nbytes > table_limit(size):
            raise FormatError(too_much(nbytes, f"{count} chunks", table_limit(size)))
        numbers = np.frombuffer(decode_bytes(stored, nbytes, name, None, at), "<i8").astype(np.int64, copy=False)
    used = np.sort(numbers[numbers >= 0])
    if len(used) and (used[-1] > _LAST_NUMBER or (used[1:] == used[:-1]).any()):
        raise FormatError("it names one chunk file twice, or one that cannot be")
    others, special = numbers[numbers < 0], set()
    for kind in (ZERO_OFFSET, NAN_OFFSET, UNINIT_OFFSET):
        if (others == kind).any():
            special.add(kind)
            others = others[others != kind]
    if len(others):
        raise FormatError(f"it has an entry {others.min()} that is neither a chunk file nor a special value")
    if special and frame.variable:
        raise FormatError("a special value in a frame of variable chunks, which gives it no size")
    if NAN_OFFSET in special and frame.typesize not in (4, 8):
        raise FormatError(f"chunks of NaN with items of {frame.typesize} bytes; 4 or 8 are possible")
    return numbers


def _size_of_files(path: str) -> int:
    with os.scandir(path) as entries:
        return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)


def _read(path: str, head: bytes) -> Directory:
    frame, numbers = frame_of_head(os.path.join(path, HEADER_FILE), head)
    # How many chunks there are: one number may stand for all.
    count = len(numbers) if frame.variable or not frame.nbytes else -(-int(frame.nbytes) // int(frame.chunksize))
    content = FrameContent(
        FrameUpdate(frame).fields(), frame.metalayers(), frame.vlmeta_chunks(), (), count, int(frame.nbytes)
    )
    files = ChunkFiles(path)
    sizes = np.array([files.add(chunk_file(path, number)) for number in numbers.tolist() if number >= 0], np.int64)
    if files.is_small:
        # A serialised frame, whose size and offsets are those of a file.
        parts: list[bytes] = []
        chunks = files.bytes()
        stored = (number if number < 0 else next(chunks) for number in numbers.tolist())
        header = lay_out(parts.append, content._replace(chunks=stored))
        return Directory(head, numbers, Frame.open(Source.of_buffer(b"".join([header, *parts]), path)))
    offsets = numbers.copy()
    offsets[numbers >= 0] = np.cumsum(sizes) - sizes
    assembled = Frame.assemble(
        files.source(path), offsets, count, content.nbytes, int(frame.chunksize), *content[:3],
        vlblocks=bool(frame.vlblocks), variable=bool(frame.variable),
    )  # fmt: skip
    return Directory(head, numbers, assembled)


def pack_head(content: FrameContent, numbers: Sequence[int] | Integers, cbytes: int) -> bytes:
    """The header file of this content, with the numbers of its files; one negative number may stand for all chunks."""
    fields, metalayers, vlmeta, _, count, nbytes = content
    tail = b""
    if nbytes:
        one = len(numbers) == 1 and numbers[0] < 0
        tail = pack_index(numbers[0] if one else np.array(numbers, np.int64), count)
    tail += pack_trailer(vlmeta)
    frame_len = header_length(metalayers) + len(tail)
    header = bytearray(pack_header(fields, metalayers, bool(vlmeta), frame_len, nbytes, cbytes))
    header[FRAME_TYPE_AT] |= 1
    return bytes(header) + tail


def write_chunk(
    path: str, number: int, stored: bytes | StoredChunk | Spooled, owner: Owner, syncs: SyncsBeside
) -> None:
    """Write the file of a chunk, which is durable at the end of `syncs`."""
    name = chunk_file(path, number)
    with suppress(FileNotFoundError):
        owner.unlink(name)  # of no version any more, but a reader may have it open
    with owner.open_raw(name, "xb") as file:
        write_parts(cast("BinaryIO", file), (stored.byte_range if isinstance(stored, Spooled) else stored,))
    syncs.add(name)


def publish_head(path: str, head: bytes, owner: Owner) -> None:
    """Make a version current; its chunk files are there."""
    with NewFile(os.path.join(path, HEADER_FILE), replace=True, owner=owner) as file:
        file.write(head)


def write_directory(path: str, content: FrameContent, *, replace: bool) -> None:
    """Write a new directory frame. It appears whole or not at all."""
    target = absolute_path(through_link(path) if replace else path)
    temporary = temporary_name(target)
    owner = Owner()
    try:
        owner.mkdir(temporary)
    except OSError as error:
        # The temporary name means nothing to a caller.
        raise type(error)(error.errno, f"cannot write here: {error.strerror}", path) from None
    try:
        numbers: list[int] = []
        cbytes = files = 0
        with SyncsBeside() as syncs:
            for stored in content.chunks:
                if isinstance(stored, int):
                    numbers.append(stored)
                    continue
                write_chunk(temporary, files, stored, owner, syncs)
                numbers.append(files)
                files += 1
                cbytes += len(stored)

        def head(first: int) -> bytes:
            counted = [number if number < 0 else number + first for number in numbers]
            return pack_head(content, counted, cbytes)

        if replace and is_directory_frame(target):
            _replace_frame(target, temporary, files, head, owner)
            owner.remove_tree(temporary)
        else:
            publish_head(temporary, head(0), owner)
            _take_name(temporary, target, owner, replace=replace)
    except BaseException as error:
        if isinstance(error, OSError) and str(error.filename).startswith(temporary):
            error.filename = path  # the temporary name would tell a caller nothing here either
        name_file(error, path)
        owner.remove_tree(temporary)
        raise
    sync_folder(target)


def _replace_frame(path: str, temporary: str, files: int, head: Callable[[int], bytes], owner: Owner) -> None:
    """Make new chunk files, and a header that begins to count them at some number, the version of a frame.

    One directory cannot take another's name while that is there. So the new files go where the old ones are, under
    numbers that none has, and the header changes in one step.
    """
    with locked_directory(path):
        old = read_head(path)
        there = _chunk_numbers(path)
        first = first_free(there, files)
        try:
            for number in range(files):
                owner.rename(chunk_file(temporary, number), chunk_file(path, first + number))
            sync_names(path)
            publish_head(path, head(first), owner)
        except BaseException:
            take_back(path, old, range(first, first + files), owner)
            raise
        _remove_chunks(path, there, owner)


def take_back(path: str, head: bytes, numbers: Iterable[int], owner: Owner) -> None:
    """Show an old version, whose files are all there, and remove chunk files that were added to it."""
    if not owner.is_here:
        return
    try:
        if read_head(path) != head:  # renamed, and not made durable: that is no success
            publish_head(path, head, owner)
    except OSError:
        return  # whichever version shows is whole as long as nothing is removed
    _remove_chunks(path, numbers, owner)


def _remove_chunks(path: str, numbers: Iterable[int], owner: Owner) -> None:
    for number in numbers:
        # A file that cannot be removed takes disk space and does no harm.
        with suppress(OSError):
            owner.unlink(chunk_file(path, number))


def first_free(taken: Sequence[int] | Integers, count: int) -> int:
    """The first of so many numbers in a row that no chunk file has: behind all others, as long as numbers last."""
    taken = np.array(taken, np.int64)
    last = int(taken.max(initial=-1))
    if last + count <= _LAST_NUMBER:
        return last + 1
    before = -1
    for number in np.sort(taken).tolist():
        if number - before > count:
            return before + 1
        before = number
    raise ValueError(
        f"no {count} numbers in a row are left for chunk files: write the frame anew, with copy(urlpath=...)"
    )


def _chunk_numbers(path: str) -> list[int]:
    return [number for number in map(chunk_number, os.listdir(path)) if number is not None]


@as_block
def locked_directory(path: str, *, exclusive: bool = True, timeout: float | None = None) -> Iterator[None]:
    """Keep other writers out of a directory, in any process; where a directory cannot be opened, nobody is."""
    if os.name != "posix":
        yield
        return
    with (
        Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor,
        LockedFile(descriptor.fileno(), path, Owner(), exclusive=exclusive, stand_in=_LOCK_FILE, timeout=timeout),
    ):
        yield


def _take_name(temporary: str, path: str, owner: Owner, *, replace: bool) -> None:
    """Rename a directory; what else has the name is moved aside first, and back if that fails."""
    if not os.path.lexists(path):
        owner.rename(temporary, path)
        return
    if not replace:
        raise ExistingFileError(errno.EEXIST, "a file of this name appeared meanwhile", path)
    aside = f"{temporary}.old"
    owner.keep_access(temporary, path)
    owner.rename(path, aside)
    try:
        owner.rename(temporary, path)
    except BaseException:
        if owner.is_here:
            owner.rename(aside, path)
        raise
    sync_folder(path)
    if os.path.isdir(aside):
        owner.remove_tree(aside)
    else:
        owner.unlink(aside)


class ReadOnlyDirectoryHandle(FrameHandle):
    """A directory frame that is only read."""

    __slots__ = ("_identity", "_path", "head")

    def __init__(self, path: str, options: HandleOptions) -> None:
        self._path = absolute_path(path)  # stays right when the process changes its working directory
        found = read_directory(self._path)
        super().__init__(found.frame, options, path)
        self._show(found)

    def _show(self, found: Directory) -> None:
        self.head, self._identity = found.head, found.identity

    @property
    def contiguous(self) -> bool:
        return False

    def _is_current(self) -> bool:
        # The same bytes may name other chunk files: numbers are used again.
        return head_identity(self._path) == self._identity and read_head(self._path) == self.head

    def refresh(self) -> bool:
        """Take up the version that is on disk now; True when it is another one."""
        if self._is_current():
            return False
        found = read_directory(self._path)
        self._show(found)
        self._adopt(found.frame)
        return True


class DirectoryHandle(Drafting, ReadOnlyDirectoryHandle):
    """A directory frame that can be changed."""

    # `_gone`: the files that are still to be removed.
    __slots__ = ("_behind", "_busy", "_chunks", "_draft", "_exclusive", "_files", "_gone", "_lock", "_owner")

    writable = True

    def __init__(self, path: str, options: HandleOptions) -> None:
        self._lock, self._busy = Lock(), Lock()
        self._owner = Owner()
        self._draft: Draft | None = None
        self._exclusive = options.exclusive
        self._behind = False
        self._files: ChunkNumbers
        self._gone: set[int] = set()
        super().__init__(path, options)

    def _show(self, found: Directory) -> None:
        super()._show(found)
        if self._behind:  # what was published is known only now
            self._gone.update(self._files.without(found.numbers))
        # In memory while they are few, else in open files.
        self._chunks = EditedChunks(TemporaryFile(self._path))
        self._files = ChunkNumbers(found.frame, found.numbers)

    def spool(self) -> Spool:
        return Spool(self._path)

    def _publish(self, update: FrameUpdate, *, fresh: bool, durable: bool) -> None:  # noqa: ARG002 - always durable
        with locked_directory(self._path, exclusive=self._exclusive, timeout=self.options.timeout):
            if not self._is_current():
                raise stale("frame", self.urlpath)
            owner = Owner()
            written: set[int] = set()
            is_published = False
            self._behind = True
            try:
                head, files = self._write(update, written, owner)
                publish_head(self._path, head, owner)
                is_published = True
                self._show_published(head, files, owner)
            except BaseException as error:
                if not is_published:
                    take_back(self._path, self.head, written, owner)
                self._look_again(error)
                raise

    def _write(self, update: FrameUpdate, written: set[int], owner: Owner) -> tuple[bytes, ChunkNumbers]:
        """Write the files of the new chunks. Returns what the header of the next version is to be, and its files."""
        entries, _ = update.entries()
        with SyncsBeside() as syncs:
            # One value that stands for all chunks stays one.
            numbers, lengths = np.zeros(0, np.int64), np.zeros(0, np.int64)
            if not isinstance(entries, int):
                numbers, lengths = self._write_new(update, written, owner, syncs)
            frame = self._chunks.after(update)
            named = [entries] if isinstance(entries, int) else numbers
            fields, count = update.fields(), int(frame.nchunks)
            content = FrameContent(fields, update.metalayers, update.vlmeta, (), count, update.nbytes)
            head = pack_head(content, named, int(lengths.sum()))
        sync_names(self._path)
        return head, ChunkNumbers(frame, numbers, lengths)

    def _show_published(self, head: bytes, files: ChunkNumbers, owner: Owner) -> None:
        """Show the version that was written, and remove the files that it does not use."""
        assert self._chunks.frame is not None
        self._gone.update(self._files.without(files.numbers))
        self._files = files
        self._adopt(self._chunks.frame)
        self._identity = head_identity(self._path)
        self.head = head  # last: a child that is forked before this knows that it is behind
        for number in sorted(self._gone.difference(files.numbers.tolist())):
            # A file that cannot be removed takes disk space and does no harm.
            with contextlib.suppress(OSError):
                owner.unlink(chunk_file(self._path, number))
        self._gone = set()
        self._behind = False

    def _version(self) -> bytes:
        return self.head

    def _write_new(
        self, update: FrameUpdate, written: set[int], owner: Owner, syncs: SyncsBeside
    ) -> tuple[Integers, Integers]:
        """Write files for the new chunks; gives the number of each chunk's file, and the lengths of the stored ones."""
        number = first_free(self._files.numbers, len(update.new))
        large = self._chunks.joins(update)
        numbers = np.array(update.offsets)
        lengths = np.zeros_like(numbers)
        kept = numbers >= 0
        kept[list(update.new)] = False
        numbers[kept], lengths[kept] = self._files.at(numbers[kept])
        for index, stored in sorted(update.new.items()):
            written.add(number)
            write_chunk(self._path, number, stored, owner, syncs)
            numbers[index], lengths[index] = number, len(stored)
            if large:  # from now on it lies there
                update.new[index] = from_file(chunk_file(self._path, number), stored)
            number += 1
        return numbers, lengths[numbers >= 0]

    def _is_current(self) -> bool:
        return not self._behind and super()._is_current()


def directory_handle(path: str, options: HandleOptions) -> FrameHandle:
    """The handle of a directory frame, for reading or for changes."""
    return (ReadOnlyDirectoryHandle if options.mode == "r" else DirectoryHandle)(path, options)
