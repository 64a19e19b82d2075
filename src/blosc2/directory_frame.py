"""Frames that are a directory: ``chunks.b2frame`` with header, offsets and trailer, and a file for each chunk.

They are what ``contiguous=False`` with a path asks for. The table of offsets holds the numbers of the chunk files.
Reading brings a whole frame into memory, as a contiguous one.
"""

from __future__ import annotations

import errno
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import numpy as np

from blosc2._core.codec import decode_bytes
from blosc2._core.frame import Frame
from blosc2._core.frame_writer import header_length, pack_header, pack_index, pack_trailer
from blosc2._core.grid_write import StoredChunk
from blosc2._core.source import Source
from blosc2.draft import Fields, Stored, lay_out
from blosc2.exceptions import ExistingFileError, FormatError
from blosc2.file_lock import locked
from blosc2.new_file import NewFile, remove_tree, sync_folder

HEADER_FILE: Final = "chunks.b2frame"
_FRAME_TYPE = 26
_CBYTES = 39
_CHUNK_NAME = re.compile("[0-9A-F]{8}")


class Directory(NamedTuple):
    """One version of a directory frame.

    Attributes
    ----------
    head : bytes
        The content of the header file.
    numbers : list of int
        Of each chunk, its file; or an offset that stands for a chunk without data.
    frame : Frame
        All of it in memory.
    """

    head: bytes
    numbers: list[int]
    frame: Frame


def is_directory_frame(path: str) -> bool:
    """Whether a directory looks like a frame."""
    return os.path.isfile(os.path.join(path, HEADER_FILE))


def chunk_file(path: str, number: int) -> str:
    """The name of a chunk's file."""
    return os.path.join(path, f"{number:08X}.chunk")


def read_head(path: str) -> bytes:
    """The content of the header file."""
    source = Source.open(os.path.join(path, HEADER_FILE))
    return source.read(0, source.size)


def read_directory(path: str) -> Directory:
    """The frame of a directory, all of it in memory.

    Raises
    ------
    FormatError
        A file is missing or is not what its name says.
    """
    head = read_head(path)
    while True:
        try:
            return _read(path, head)
        except FormatError:
            # A writer may have published another version meanwhile, and removed chunks of this one.
            now = read_head(path)
            if now == head:
                raise
            head = now


def _read(path: str, head: bytes) -> Directory:
    name = os.path.join(path, HEADER_FILE)
    data = bytearray(head)
    if len(data) < 87 or data[_FRAME_TYPE] & 15 != 1:
        raise FormatError("this is not the header of a directory frame", path=name, offset=_FRAME_TYPE)
    # Without chunks between header and offsets table, it reads as a contiguous frame with 0 bytes of chunks.
    data[_FRAME_TYPE] &= 0xF0
    struct.pack_into(">q", data, _CBYTES, 0)
    frame = Frame.open(Source.of_buffer(bytes(data), name))
    start, stop = frame.header_len, frame.frame_len - frame.trailer_len
    numbers: list[int] = []
    if frame.nbytes:
        table = decode_bytes(bytes(data[start:stop]), 4096 * (stop - start), name, None, start)
        if len(table) % 8:
            raise FormatError("the offsets table is not made of 8-byte entries", path=name, offset=start)
        numbers = np.frombuffer(table, "<i8").tolist()
    parts: list[bytes] = []
    fields = Fields(frame, frame.chunksize, variable=bool(frame.variable), vlblocks=bool(frame.vlblocks))
    header = lay_out(
        parts.append, fields, frame.metalayers(), frame.vlmeta_chunks(), _chunks(path, numbers), len(numbers),
        int(frame.nbytes),
    )  # fmt: skip
    return Directory(head, numbers, Frame.open(Source.of_buffer(b"".join([header, *parts]), path)))


def _chunks(path: str, numbers: list[int]) -> Iterator[Stored]:
    for number in numbers:
        if number < 0:
            yield number
            continue
        name = chunk_file(path, number)
        try:
            source = Source.open(name)
        except FileNotFoundError:
            raise FormatError("a chunk file of this directory frame is missing", path=name) from None
        yield source.read(0, source.size)


def pack_head(
    fields: Fields, metalayers: dict[str, bytes], vlmeta: dict[str, bytes], numbers: list[int], count: int, nbytes: int,
    cbytes: int,
) -> bytes:  # fmt: skip
    """The content of the header file; one negative number may stand for all `count` chunks."""
    tail = b""
    if nbytes:
        one = len(numbers) == 1 and numbers[0] < 0
        tail = pack_index(numbers[0] if one else np.array(numbers, np.int64), count)
    tail += pack_trailer(vlmeta)
    frame_len = header_length(metalayers) + len(tail)
    header = bytearray(pack_header(fields, metalayers, bool(vlmeta), frame_len, nbytes, cbytes))
    header[_FRAME_TYPE] |= 1
    return bytes(header) + tail


def write_chunk(path: str, number: int, stored: bytes | StoredChunk) -> None:
    """Write the file of a chunk and make it durable."""
    with open(chunk_file(path, number), "wb", buffering=0) as file:
        view = memoryview(stored)
        while view:
            view = view[file.write(view) :]
        os.fsync(file.fileno())


def publish_head(path: str, head: bytes) -> None:
    """Make a version current; its chunk files are there."""
    with NewFile(os.path.join(path, HEADER_FILE), replace=True) as file:
        file.write(head)


def write_directory(
    path: str, fields: Fields, metalayers: dict[str, bytes], vlmeta: dict[str, bytes], chunks: Iterable[Stored],
    count: int, nbytes: int, *, replace: bool,
) -> None:  # fmt: skip
    """Write a new directory frame; see `blosc2.draft.lay_out` for the parameters. It appears whole or not at all."""
    place = os.path.abspath(path)
    folder, name = os.path.split(place)
    temporary = os.path.join(folder, f".{name}.{os.urandom(4).hex()}.tmp")
    try:
        os.mkdir(temporary)
    except OSError as error:
        # The temporary name would tell a caller nothing.
        raise type(error)(error.errno, f"cannot write here: {error.strerror}", path) from None
    try:
        numbers: list[int] = []
        cbytes = files = 0
        for stored in chunks:
            if isinstance(stored, int):
                numbers.append(stored)
                continue
            write_chunk(temporary, files, stored)
            numbers.append(files)
            files += 1
            cbytes += len(stored)

        def head(first: int) -> bytes:
            counted = [number if number < 0 else number + first for number in numbers]
            return pack_head(fields, metalayers, vlmeta, counted, count, nbytes, cbytes)

        if replace and is_directory_frame(place):
            _replace_frame(place, temporary, files, head)
            remove_tree(temporary)
        else:
            publish_head(temporary, head(0))
            _take_name(temporary, place, replace=replace)
    except BaseException:
        remove_tree(temporary)
        raise
    sync_folder(place)


def _replace_frame(path: str, temporary: str, files: int, head: Callable[[int], bytes]) -> None:
    """Make new chunk files, and a header that begins to count them at some number, the version of a frame.

    One directory cannot take another's name while that is there. So the new files go where the old ones are, under
    numbers that none has, and the header changes in one step.
    """
    with locked_directory(path):
        old = read_head(path)
        there = _chunk_numbers(path)
        first = max(there, default=-1) + 1
        try:
            for number in range(files):
                os.rename(chunk_file(temporary, number), chunk_file(path, first + number))
            sync_folder(os.path.join(path, HEADER_FILE))
            publish_head(path, head(first))
        except BaseException:
            take_back(path, old, range(first, first + files))
            raise
        _remove_chunks(path, there)


def take_back(path: str, head: bytes, numbers: Iterable[int]) -> None:
    """Show an old version, whose files are all there, and remove chunk files that were added to it."""
    try:
        if read_head(path) != head:  # renamed, and not made durable: that is no success
            publish_head(path, head)
    except OSError:
        return  # whichever version shows is whole as long as nothing is removed
    _remove_chunks(path, numbers)


def _remove_chunks(path: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        # What cannot be removed takes room, no more.
        with suppress(OSError):
            os.unlink(chunk_file(path, number))


def _chunk_numbers(path: str) -> list[int]:
    names = [os.path.splitext(name) for name in os.listdir(path)]
    return [int(stem, 16) for stem, suffix in names if suffix == ".chunk" and _CHUNK_NAME.fullmatch(stem)]


@contextmanager
def locked_directory(path: str) -> Iterator[None]:
    """Keep other writers out of a directory, in any process; where a directory cannot be opened, nobody is."""
    if os.name != "posix":
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with locked(descriptor):
            yield
    finally:
        os.close(descriptor)


def _take_name(temporary: str, path: str, *, replace: bool) -> None:
    """Rename a directory; what else has the name is moved aside first, and back if that fails."""
    if not os.path.lexists(path):
        os.rename(temporary, path)
        return
    if not replace:
        raise ExistingFileError(errno.EEXIST, "a file of this name appeared meanwhile", path)
    aside = f"{temporary}.old"
    os.rename(path, aside)
    try:
        os.rename(temporary, path)
    except BaseException:
        os.rename(aside, path)
        raise
    sync_folder(path)
    if os.path.isdir(aside):
        remove_tree(aside)
    else:
        os.unlink(aside)
