"""Encoders that are reused: making one takes longer than compressing a small chunk.

An encoder has a compression context of the C library, which serves one thread at a time. So it is removed from the
table while it is used; both steps are atomic in the interpreter and need no lock.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from blosc2._core.codec.codec import Encoder
from blosc2._core.io.sharing import free_in_child
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_write import Write
from blosc2._options import Encoding, compressed, fields_of, shares_chunk

# A context keeps the memory of its codec, up to some MB, so only a few are kept.
_MOST: Final = 4

_idle: dict[tuple[Any, ...], Encoder] = free_in_child({})


def encode(encoding: Encoding, data: Any, nthreads: int = 1) -> bytes:
    """Compress a buffer into a chunk, whose bytes do not depend on `nthreads`.

    Parameters
    ----------
    encoding : Encoding
        How; one that needs no geometry.
    data : bytes-like
        Any C-contiguous buffer.
    nthreads : int
        How many threads share the blocks of the chunk, if that is faster.

    Examples
    --------
    >>> from blosc2._options import encoding_of
    >>> from blosc2.storage import CParams
    >>> chunk = encode(encoding_of(CParams(), typesize=1, blocksize=0), b"0" * 1000)
    >>> int.from_bytes(chunk[4:8], "little")
    1000
    """
    if nthreads > 1:
        view = memoryview(data).cast("B")
        if shares_chunk(encoding, len(view)):
            chunk = _encode_in_threads(encoding, view, nthreads)
            if chunk is not None:
                return chunk
    kind = fields_of(encoding)
    encoder = _idle.pop(kind, None) or Encoder(encoding)
    stored: bytes = encoder.encode_bytes(data)
    # An encoder that raised is not used again: its state is unknown.
    if encoder.may_wait:
        if len(_idle) >= _MOST:
            _idle.clear()
        _idle[kind] = encoder
    return stored


def _encode_in_threads(encoding: Encoding, view: memoryview, nthreads: int) -> bytes | None:
    """The chunk; None where it is all zeros, which an operation does not store."""
    source = np.frombuffer(view, np.uint8)
    geometry = Geometry(source.shape, source.shape, source.shape, 1)
    operation = Write(None, geometry, (0,), (1,), source.shape, source, encoding)
    chunks: dict[int, bytes | int] = compressed(operation, len(view), nthreads)
    return chunk if isinstance(chunk := chunks[0], bytes) else None


def check_for_bytes(encoding: Encoding) -> None:
    """Refuse parameters that work on arrays only, not on bytes."""
    if encoding.needs_geometry:
        raise ValueError("this codec or filter works on the blocks of arrays, not on bytes: use asarray with it")


def forget_encoders() -> None:
    """Free the idle encoders."""
    _idle.clear()
