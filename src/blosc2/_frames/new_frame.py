"""Put a new frame where its storage parameters say: in memory, in a file of its own, or in a directory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from blosc2 import _frames
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_writer import header_length
from blosc2._core.io.source import Source
from blosc2._files import ChunkBuffer, NewFile, write_parts
from blosc2._frames.changeable import FileHandle, MemoryHandle
from blosc2._frames.checksums import Running, check_chunks, parts_with_checksums
from blosc2._frames.handle import FrameHandle, HandleOptions, open_frame
from blosc2._frames.header_fields import is_directory_frame
from blosc2._frames.update import AnyChunk, Fields, FrameUpdate, all_chunks, lay_out, write_chunks, write_frame
from blosc2._options import Encoding, check_locking, check_new_modes, tell_of_mapping
from blosc2.exceptions import ExistingFileError
from blosc2.storage import MAX_OVERHEAD, Storage


class FrameContent(NamedTuple):
    """What a new frame holds.

    Attributes
    ----------
    chunks : iterable
        Stored chunks, or negative offsets that stand for special ones.
    nchunks : int
        How many chunks these are.
    nbytes : int
        Uncompressed bytes of all.
    chunksize : int
        Uncompressed bytes of a chunk; 0 where they differ, -1 where the first one will decide.
    metalayers : dict
        Fixed metadata, packed.
    vlmeta : dict, optional
        Variable metadata, as it is stored.
    variable : bool
        Whether chunks differ in size.
    """

    chunks: Iterable[AnyChunk]
    nchunks: int
    nbytes: int
    chunksize: int
    metalayers: dict[str, bytes]
    vlmeta: dict[str, bytes] | None = None
    variable: bool = False


def check_target(storage: Storage, what: str) -> None:
    """Refuse a path or mode with which nothing can be created, before any work is done."""
    path = storage.urlpath
    check_new_modes(
        storage.mode, storage.mmap_mode, path=path, contiguous=bool(storage.contiguous), locking=storage.locking,
        what=what,
    )  # fmt: skip
    if path is None:
        return
    replaceable = storage.mode == "w" and not storage.contiguous and is_directory_frame(path)
    if os.path.isdir(path) and not replaceable:
        if is_directory_frame(path) and storage.mode != "w":
            raise _exists(path, what)
        raise IsADirectoryError(errno.EISDIR, f"a directory is where the new {what} is to be", path)
    if storage.mode != "w" and os.path.exists(path):
        raise _exists(path, what)


def _exists(path: str, what: str) -> ExistingFileError:
    text = f"Could not create the {what}: the file exists; mode='w' replaces it, blosc2.open opens it"
    return ExistingFileError(errno.EEXIST, text, path)


def new_handle(storage: Storage, encoding: Encoding, content: FrameContent, options: HandleOptions) -> FrameHandle:
    """Write a new frame where its storage parameters say."""
    if storage.locking:
        check_locking(storage.urlpath, storage.mmap_mode)
    chunks, count, nbytes, chunksize, metalayers, vlmeta, variable = content
    fields = Fields(encoding, chunksize, variable=variable)
    entries = {} if vlmeta is None else vlmeta
    if storage.urlpath is None:
        frame = _in_memory(fields, chunks, count, nbytes, metalayers, entries)
        return _handle_in_memory(frame, storage, options)
    if not storage.contiguous:
        _frames.write_directory(
            storage.urlpath, fields, metalayers, entries, chunks, count, nbytes, replace=storage.mode == "w"
        )
        return _opened_again(storage, options)
    with NewFile(storage.urlpath, replace=storage.mode == "w", durable=storage.durable) as file:
        file.seek(header_length(metalayers))
        header = lay_out(file.write, fields, metalayers, entries, chunks, count, nbytes, Running())
        file.seek(0)
        file.write(header)
    return _opened_again(storage, options)


def _handle_in_memory(frame: Frame, storage: Storage, options: HandleOptions) -> MemoryHandle:
    return MemoryHandle(frame, options._replace(mode=storage.mode), contiguous=storage.contiguous)


def _in_memory(
    fields: Fields, chunks: Iterable[AnyChunk], count: int, nbytes: int, metalayers: dict[str, bytes],
    vlmeta: dict[str, bytes],
) -> Frame:  # fmt: skip
    buffer = ChunkBuffer(nbytes + MAX_OVERHEAD * count)
    offsets, _ = write_chunks(buffer.write, chunks)
    entries: Any = offsets[0] if len(offsets) == 1 and offsets[0] < 0 else np.array(offsets, np.int64)
    source = Source.of_buffer(buffer.stored())
    return Frame.assemble(source, entries, count, nbytes, fields.chunksize, fields, metalayers, vlmeta)


def copy_frame(frame: Frame, storage: Storage, options: HandleOptions) -> FrameHandle:
    """Copy a frame with its stored chunks. The copy is equal byte for byte unless the frame has holes."""
    if storage.locking:
        check_locking(storage.urlpath, storage.mmap_mode)
    if storage.urlpath is None:
        handle = _handle_in_memory(frame, storage, options)
        handle.detach()
        return handle
    if not storage.contiguous:
        update = FrameUpdate(frame)
        _frames.write_directory(
            storage.urlpath, update.fields(), update.metalayers, update.vlmeta, all_chunks(update), int(frame.nchunks),
            int(frame.nbytes), replace=storage.mode == "w",
        )  # fmt: skip
        return _opened_again(storage, options)
    with NewFile(storage.urlpath, replace=storage.mode == "w", durable=storage.durable) as file:
        check_chunks(frame)
        if frame.serialised and frame.stored_nbytes == frame.cbytes:
            write_parts(file, parts_with_checksums(frame))
        else:
            write_frame(file, FrameUpdate(frame))
    return _opened_again(storage, options)


def _opened_again(storage: Storage, options: HandleOptions) -> FrameHandle:
    """The handle of a frame that was just written."""
    path = str(storage.urlpath)
    options = options._replace(mode="a", mmap_mode=storage.mmap_mode, locking=storage.locking, durable=storage.durable)
    if storage.locking:
        return _frames.shared_handle(path, options, new=True)
    if not storage.contiguous:
        return _frames.directory_handle(path, options)
    frame = open_frame(path, storage.mmap_mode)
    tell_of_mapping(path, storage.mmap_mode, storage.initial_mapping_size, frame.source.size)
    return FileHandle(frame, options, path)
