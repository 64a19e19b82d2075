"""Single chunks without a frame: checking the bytes of callers, and decoding a chunk into new memory or theirs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from blosc2._core.codec.codec import decode_bytes
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames import CHUNK_SIZES, chunk_encoding
from blosc2._functions.blosc1 import HEADER as OLD_HEADER
from blosc2._functions.blosc1 import has_old_header, with_new_header
from blosc2._handles import bytes_of, read_bytes, read_into
from blosc2.exceptions import ChunkSizeError, FormatError
from blosc2.storage import EXTENDED_HEADER_LENGTH, MAX_BUFFERSIZE

# Uncompressed bytes from which it pays to decode by threads, or into a buffer of the caller without a copy.
_LARGE: Final = 1 << 16


def source_bytes(src: Any) -> memoryview:
    """The bytes of what a caller gives; addresses of objects are none."""
    if isinstance(src, np.ndarray) and src.dtype.hasobject:
        raise TypeError(f"items of the dtype {src.dtype} are pointers into memory and cannot be compressed")
    try:
        return bytes_of(src)
    except TypeError:
        # Something that says that it is too large need not prove it.
        if hasattr(src, "__len__") and len(src) > MAX_BUFFERSIZE:
            raise ValueError(f"src cannot be larger than {MAX_BUFFERSIZE} bytes") from None
        raise


def _destination(dst: Any) -> memoryview:
    """The writable bytes of what a caller gives."""
    try:
        view = memoryview(dst)
    except ValueError:  # dtypes that the buffer protocol does not know
        if not (isinstance(dst, np.ndarray) and dst.flags.c_contiguous and not dst.dtype.hasobject):
            raise
        items: Any = dst.reshape(-1).view(np.uint8)
        view = memoryview(items)
    if view.nbytes == 0:
        raise ValueError("The dst length must be greater than 0")
    objects = isinstance(view.obj, np.ndarray) and view.obj.dtype.hasobject
    if view.readonly or not view.c_contiguous or objects:
        raise ValueError("dst must be writable and C-contiguous, and must not hold objects")
    return view.cast("B")


def _chunk(src: Any) -> bytes | memoryview:
    """Exactly the bytes of the chunk at the start of a buffer, with the header of today; nothing else is checked."""
    data = src if type(src) is bytes else source_bytes(src)
    if len(data) < OLD_HEADER:
        raise FormatError(f"src cannot be less than {OLD_HEADER} bytes, it has {len(data)}")
    if has_old_header(data):
        return with_new_header(data)
    cbytes: int = CHUNK_SIZES.unpack_from(data)[2]
    return memoryview(data)[:cbytes] if EXTENDED_HEADER_LENGTH <= cbytes < len(data) else data


# ---------------------------------------------------------------- decoding


def decode(src: Any, nthreads: int, what: str) -> bytes:
    """The bytes in the chunk at the start of a buffer; `what` begins the message of an error."""
    if type(src) is bytes and len(src) < _LARGE:
        try:
            return decode_bytes(src)
        except FormatError:  # it may be an older chunk, or bytes may follow it
            pass
    try:
        chunk = _chunk(src)
        frame = _one_chunk_frame(chunk)
        if frame is None:
            return decode_bytes(chunk)
        return read_bytes(frame, 0, frame.nbytes, nthreads)
    except FormatError as error:
        raise FormatError(f"{what}: {error.reason}") from None


def decode_into(src: Any, dst: Any, nthreads: int, what: str) -> None:
    """The same, written to the start of a destination."""
    view = _destination(dst)
    if type(src) is bytes and len(src) < _LARGE and len(view) < _LARGE:
        try:
            data = decode_bytes(src, len(view))
        except FormatError:  # see `decode`; or it does not fit
            pass
        else:
            view[: len(data)] = data
            return
    try:
        chunk = _chunk(src)
        nbytes = CHUNK_SIZES.unpack_from(chunk)[0]
        if nbytes > len(view):
            raise ChunkSizeError(f"{what}: dst has {len(view)} bytes and {nbytes} are needed")
        frame = _one_chunk_frame(chunk)
        # Memory that is read and written at once would be decoded from what was decoded.
        if frame is None or np.may_share_memory(np.frombuffer(chunk, np.uint8), np.frombuffer(view, np.uint8)):
            data = decode_bytes(chunk)
            view[: len(data)] = data
        else:
            read_into(frame, 0, nbytes, view[:nbytes], nthreads)
    except FormatError as error:
        raise FormatError(f"{what}: {error.reason}") from None


def _one_chunk_frame(chunk: bytes | memoryview) -> Frame | None:
    """A frame around a large chunk, which many threads can read; None where it is as well decoded at once."""
    if len(chunk) < EXTENDED_HEADER_LENGTH:
        return None
    nbytes: int = CHUNK_SIZES.unpack_from(chunk)[0]
    if not _LARGE <= nbytes <= MAX_BUFFERSIZE or chunk[30]:  # blocks of variable length
        return None
    encoding = chunk_encoding(chunk)
    return Frame.assemble(Source.of_buffer(chunk), np.zeros(1, np.int64), 1, nbytes, nbytes, encoding, {}, {})
