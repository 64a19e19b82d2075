"""The codec of zarr 3."""

from __future__ import annotations

import asyncio
from typing import Any, Self

import numpy as np
from zarr.abc.codec import BytesBytesCodec

from blosc2._tools.integrations.references import NAME, ChunkCodec


class Blosc2Chunk(BytesBytesCodec):  # type: ignore[misc]
    """Chunks of arrays of this package, behind zarr's codec "bytes"; see `ChunkCodec` for the arguments."""

    is_fixed_size = False

    def __init__(self, **configuration: Any) -> None:
        self._codec = ChunkCodec(**configuration)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        return cls(**data.get("configuration", {}))

    def to_dict(self) -> dict[str, Any]:
        return {"name": NAME, "configuration": self._codec.configuration()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blosc2Chunk) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))

    def __repr__(self) -> str:
        return f"Blosc2Chunk({', '.join(f'{name}={value!r}' for name, value in self._codec.configuration().items())})"

    def _check(self, chunk_spec: Any) -> ChunkCodec:
        """The codec, if the chunks of the array are those that it was made for."""
        codec, shape, itemsize = self._codec, tuple(chunk_spec.shape), chunk_spec.dtype.to_native_dtype().itemsize
        if (codec.chunks, codec.itemsize) != (shape, itemsize):
            raise ValueError(
                f"{NAME} is for chunks of {codec.chunks} items of {codec.itemsize} bytes, and those of the array are "
                f"{shape} items of {itemsize} bytes"
            )
        return codec

    def _decode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        items = self._check(chunk_spec).decode(chunk_bytes.as_numpy_array())
        return chunk_spec.prototype.buffer.from_array_like(items)

    async def _decode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._decode_sync, chunk_bytes, chunk_spec)

    def _encode_sync(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        stored = self._check(chunk_spec).encode(np.ascontiguousarray(chunk_bytes.as_numpy_array()))
        return chunk_spec.prototype.buffer.from_bytes(stored)

    async def _encode_single(self, chunk_bytes: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._encode_sync, chunk_bytes, chunk_spec)

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Not known before."""
        raise NotImplementedError
