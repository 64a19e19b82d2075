"""Put a new frame where its storage parameters say: in memory, in a file of its own, or in a directory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from typing import Any

import numpy as np

from blosc2 import _frames
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._files import ChunkBuffer, NewFile, remote_source, uploaded, write_parts
from blosc2._frames.changeable import FileHandle, MemoryHandle
from blosc2._frames.checksums import check_chunks, parts_with_checksums
from blosc2._frames.handle import FrameHandle, HandleOptions, open_frame, publish_waiting
from blosc2._frames.header_fields import is_directory_frame
from blosc2._frames.update import (
    Copies,
    FrameContent,
    FrameUpdate,
    all_chunks,
    write_chunks,
    write_content,
    write_frame,
)
from blosc2._options import RemotePath, absolute_path, check_locking, check_new_modes, check_new_name, tell_of_mapping
from blosc2.exceptions import ExistingFileError
from blosc2.storage import MAX_OVERHEAD, Storage


def check_target(storage: Storage, what: str) -> None:
    """Refuse a path or mode with which nothing can be created, before any work is done."""
    path = storage.urlpath
    if isinstance(path, RemotePath) and (storage.locking or storage.mmap_mode or not storage.contiguous):
        raise ValueError(f"{path}: on a server it is written once, as one file, without locking and mapping")
    check_new_modes(
        storage.mode, storage.mmap_mode, path=path, contiguous=bool(storage.contiguous), locking=storage.locking,
        what=what,
    )  # fmt: skip
    if path is None:
        return
    suffixes = (".b2nd", ".b2frame") if what == "NDArray" else (".b2frame", ".b2nd", ".b2e")
    if isinstance(path, RemotePath):
        check_new_name(path.file_name, suffixes)
        return  # its server is asked when it is written
    if storage.mode == "w" or not os.path.lexists(path):
        check_new_name(path, suffixes)
    replaceable = storage.mode == "w" and not storage.contiguous and is_directory_frame(path)
    if os.path.isdir(path) and not replaceable:
        if is_directory_frame(path) and storage.mode != "w":
            raise _exists(path, what)
        advice = ": blosc2.remove_urlpath() removes it" if is_directory_frame(path) else ""
        raise IsADirectoryError(errno.EISDIR, f"a directory is where the new {what} is to be{advice}", path)
    if storage.mode != "w" and os.path.exists(path):
        raise _exists(path, what)


def _exists(path: str, what: str) -> ExistingFileError:
    text = f"Could not create the {what}: the file exists; mode='w' replaces it, blosc2.open opens it"
    return ExistingFileError(errno.EEXIST, text, path)


def new_handle(storage: Storage, content: FrameContent, options: HandleOptions) -> FrameHandle:
    """Write a new frame where its storage parameters say."""
    if storage.locking:
        check_locking(storage.urlpath, storage.mmap_mode)
    if storage.urlpath is None:
        return _handle_in_memory(_in_memory(content), storage, options)
    if isinstance(storage.urlpath, RemotePath):
        return _put(storage, options, lambda local: new_handle(local, content, options))
    publish_waiting(storage.urlpath)  # for the file that is replaced: who has it open goes on to read it
    if not storage.contiguous:
        _frames.write_directory(storage.urlpath, content, replace=storage.mode == "w")
    else:
        with NewFile(storage.urlpath, replace=storage.mode == "w", durable=storage.durable) as file:
            write_content(file, content)
    return _opened_again(storage, options)


def _handle_in_memory(frame: Frame, storage: Storage, options: HandleOptions) -> MemoryHandle:
    return MemoryHandle(frame, options._replace(mode=storage.mode), contiguous=storage.contiguous)


def _in_memory(content: FrameContent) -> Frame:
    fields, metalayers, vlmeta, chunks, count, nbytes = content
    entries: Any
    if isinstance(chunks, repeat):  # one chunk, again and again
        chunk = next(chunks)
        entries = np.arange(count, dtype=np.int64) * len(chunk)
        stored = chunk * count
    elif isinstance(chunks, Copies):
        stored, entries = chunks.in_memory()
    else:
        buffer = ChunkBuffer(nbytes + MAX_OVERHEAD * count)
        entries = np.array(write_chunks(buffer.write, chunks)[0], np.int64)
        stored = buffer.stored()
    if len(entries) == 1 and entries[0] < 0:
        entries = int(entries[0])
    source = Source.of_buffer(stored)
    return Frame.assemble(source, entries, count, nbytes, fields.chunksize, fields, metalayers, vlmeta)


def copy_frame(frame: Frame, storage: Storage, options: HandleOptions) -> FrameHandle:
    """Copy a frame with its stored chunks. The copy is equal byte for byte unless the frame has holes."""
    if storage.locking:
        check_locking(storage.urlpath, storage.mmap_mode)
    if storage.urlpath is None:
        if not (frame.serialised or frame.variable or frame.vlblocks):
            return _handle_in_memory(_in_memory(FrameUpdate(frame).content()), storage, options)
        handle = _handle_in_memory(frame, storage, options)
        handle.detach()
        return handle
    if isinstance(storage.urlpath, RemotePath):
        return _put(storage, options, lambda local: copy_frame(frame, local, options))
    publish_waiting(storage.urlpath)
    if not storage.contiguous:
        update = FrameUpdate(frame)
        content = update.content()._replace(chunks=all_chunks(update))
        _frames.write_directory(storage.urlpath, content, replace=storage.mode == "w")
        return _opened_again(storage, options)
    with NewFile(storage.urlpath, replace=storage.mode == "w", durable=storage.durable) as file:
        check_chunks(frame)
        if frame.serialised and frame.stored_nbytes == frame.cbytes:
            write_parts(file, parts_with_checksums(frame))
        else:
            write_frame(file, FrameUpdate(frame))
    return _opened_again(storage, options)


def _put(storage: Storage, options: HandleOptions, write: Callable[[Storage], object]) -> FrameHandle:
    """Write a local file, put it on a server as a whole, and open it there."""
    assert isinstance(storage.urlpath, RemotePath)
    with uploaded(storage.urlpath, replace=storage.mode == "w") as local:
        write(replace(storage, urlpath=local, durable=False))
    path = storage.urlpath.anew()
    return FrameHandle(Frame.open(remote_source(path)), options._replace(mode="r"), path)


def _opened_again(storage: Storage, options: HandleOptions) -> FrameHandle:
    """The handle of a frame that was just written."""
    path = str(storage.urlpath)
    options = options._replace(mode="a", mmap_mode=storage.mmap_mode, locking=storage.locking, durable=storage.durable)
    if storage.locking:
        return _frames.shared_handle(path, options, new=True)
    if not storage.contiguous:
        return _frames.directory_handle(path, options)
    frame = open_frame(absolute_path(path), storage.mmap_mode)
    tell_of_mapping(path, storage.mmap_mode, storage.initial_mapping_size, frame.source.size)
    return FileHandle(frame, options, path, new=True)
