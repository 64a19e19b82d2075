"""The codec of numcodecs, which zarr 2 files name as their compressor."""

from __future__ import annotations

from typing import Any

import numcodecs.abc
from numcodecs.compat import ensure_contiguous_ndarray, ndarray_copy

from blosc2._tools.integrations.references import NAME, ChunkCodec


class Blosc2Chunk(numcodecs.abc.Codec):  # type: ignore[misc]
    """Chunks of arrays of this package, for numcodecs; see `ChunkCodec` for the arguments."""

    codec_id = NAME

    def __init__(self, **configuration: Any) -> None:
        self._codec = ChunkCodec(**configuration)

    def encode(self, buf: Any) -> bytes:
        return self._codec.encode(ensure_contiguous_ndarray(buf))

    def decode(self, buf: Any, out: Any = None) -> Any:
        return ndarray_copy(self._codec.decode(ensure_contiguous_ndarray(buf)), out)

    def get_config(self) -> dict[str, Any]:
        return {"id": NAME, **self._codec.configuration()}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self._codec.configuration().items())
        return f"Blosc2Chunk({given})"
