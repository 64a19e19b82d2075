"""Put a new frame where its storage parameters say: in memory, or in a file of its own."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from blosc2._core.codec import Encoding
from blosc2._core.frame import Frame
from blosc2._core.frame_writer import header_length
from blosc2._core.source import Source
from blosc2.carrier import Carrier, FileCarrier, MemoryCarrier, open_frame
from blosc2.draft import Draft, Fields, Stored, lay_out, write_chunks, write_frame
from blosc2.exceptions import ExistingFileError
from blosc2.new_file import NewFile
from blosc2.storage import CParams, DParams, Storage


def check_target(storage: Storage, what: str) -> None:
    """Refuse a path or mode that nothing new can be created with, before any work is done."""
    path = storage.urlpath
    if path is None:
        return
    if storage.mode == "r":
        raise ValueError(f"mode 'r' creates nothing: the {what} must already exist ({path})")
    if not storage.contiguous:
        raise NotImplementedError(f"{path}: only contiguous frames can be written; leave out contiguous=False")
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, f"a directory is in the place of the new {what}", path)
    if storage.mode != "w" and os.path.exists(path):
        raise ExistingFileError(
            errno.EEXIST, f"Could not create the {what}: the file exists; mode='w' replaces it, blosc2.open opens it",
            path)  # fmt: skip


def new_carrier(
    storage: Storage,
    encoding: Encoding,
    *,
    chunks: Iterable[Stored],
    count: int,
    nbytes: int,
    chunksize: int,
    metalayers: dict[str, bytes],
    vlmeta: dict[str, bytes] | None = None,
    variable: bool = False,
    cparams: CParams | None = None,
    dparams: DParams | None = None,
    deserialize: str = "full",
) -> Carrier:
    """Write a frame of these chunks; see `blosc2.draft.lay_out` for the parameters."""
    fields = Fields(encoding, chunksize, variable=variable)
    entries = {} if vlmeta is None else vlmeta
    how: dict[str, Any] = {"cparams": cparams, "dparams": dparams, "deserialize": deserialize}
    if storage.urlpath is None:
        return MemoryCarrier(_in_memory(fields, chunks, count, nbytes, metalayers, entries), mode=storage.mode, **how)
    with NewFile(storage.urlpath, replace=storage.mode == "w") as file:
        file.seek(header_length(metalayers))
        header = lay_out(file.write, fields, metalayers, entries, chunks, count, nbytes)
        file.seek(0)
        file.write(header)
    return file_carrier(storage, **how)


def _in_memory(
    fields: Fields, chunks: Iterable[Stored], count: int, nbytes: int, metalayers: dict[str, bytes],
    vlmeta: dict[str, bytes],
) -> Frame:  # fmt: skip
    parts: list[bytes] = []
    offsets, _ = write_chunks(parts.append, chunks)
    entries: Any = offsets[0] if len(offsets) == 1 and offsets[0] < 0 else np.array(offsets, np.int64)
    source = Source.of_buffer(parts[0] if len(parts) == 1 else b"".join(parts))
    return Frame.assemble(source, entries, count, nbytes, fields.chunksize, fields, metalayers, vlmeta)


def copy_frame(frame: Frame, storage: Storage, **how: Any) -> Carrier:
    """A frame with the same chunks, as they are, in another place; byte for byte unless it has holes."""
    if storage.urlpath is None:
        carrier = MemoryCarrier(frame, mode=storage.mode, **how)
        carrier.detach()
        return carrier
    with NewFile(storage.urlpath, replace=storage.mode == "w") as file:
        if frame.serialised and frame.stored_nbytes == frame.cbytes:
            file.write(frame.stored_bytes())
        else:
            write_frame(file, Draft(frame))
    return file_carrier(storage, **how)


def file_carrier(storage: Storage, **how: Any) -> FileCarrier:
    """The carrier of a frame that was just written."""
    path = str(storage.urlpath)
    frame = open_frame(path, storage.mmap_mode)
    return FileCarrier(frame, mode="a", urlpath=path, mmap_mode=storage.mmap_mode, **how)
