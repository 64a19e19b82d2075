"""One chunk of an array, without its frame: from stored bytes to items in C order, and back.

A chunk is stored block by block, and filled up to whole blocks, so its bytes do not say which item is where.
`ChunkCodec` holds the shapes that do. Others wrote bytes and shapes: both are checked as those of files are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import read_basic_into
from blosc2._frames import array_of, chunk_encoding
from blosc2._functions import asarray
from blosc2._options import FIELDS, Encoding, fields_of, get_nthreads
from blosc2.exceptions import FormatError
from blosc2.storage import EXTENDED_HEADER_LENGTH, Codec

#: Under this name the codecs of zarr and numcodecs are registered.
NAME: Final = "blosc2_chunk"
#: Items that are larger are bytes to codecs and filters.
LARGEST_TYPESIZE: Final = 255


class ChunkCodec:
    """Decodes and encodes the chunks of arrays that have one chunk shape and one block shape.

    Parameters
    ----------
    chunks, blocks : sequence of int
        Items of a chunk and of a block along each axis.
    itemsize : int
        Bytes of an item.
    codec : str
        The codec of new chunks.
    clevel : int
        Their level, 0 to 9.

    Raises
    ------
    ValueError
        There are no such chunks, or no such codec.
    """

    def __init__(
        self, chunks: Sequence[int], blocks: Sequence[int], itemsize: Any, codec: Any = "ZSTD", clevel: Any = 5
    ) -> None:
        self.chunks, self.blocks = _shape(chunks, "chunks"), _shape(blocks, "blocks")
        if isinstance(itemsize, bool) or not isinstance(itemsize, int):
            raise ValueError(f"itemsize must be an integer, not {itemsize!r}")
        if isinstance(clevel, bool) or not isinstance(clevel, int) or not 0 <= clevel <= 9:
            raise ValueError(f"clevel must be an integer from 0 to 9, not {clevel!r}")
        if not isinstance(codec, str) or codec not in _CODECS:
            raise ValueError(f"codec must be one of {', '.join(_CODECS)}, not {codec!r}")
        self.itemsize, self.codec, self.clevel = itemsize, codec, clevel
        self._geometry = Geometry(self.chunks, self.chunks, self.blocks, itemsize)
        self._dtype = np.dtype(f"V{itemsize}")
        self._metalayer = self._geometry.metalayer(self._dtype.str)

    @property
    def nbytes(self) -> int:
        """Bytes of all items of a chunk."""
        return self._geometry.size * self.itemsize

    def configuration(self) -> dict[str, Any]:
        """The arguments that make the same codec, as JSON has them."""
        return {
            "chunks": list(self.chunks), "blocks": list(self.blocks), "itemsize": self.itemsize, "codec": self.codec,
            "clevel": self.clevel,
        }  # fmt: skip

    def decode(self, stored: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of all items of a chunk, in C order.

        Raises
        ------
        FormatError
            The bytes are damaged, or no chunk of this shape.
        """
        chunk = memoryview(stored).cast("B")
        if len(chunk) < EXTENDED_HEADER_LENGTH:
            raise FormatError(f"a chunk of an array has at least {EXTENDED_HEADER_LENGTH} bytes, not {len(chunk)}")
        geometry = self._geometry
        size = int(geometry.chunk_nbytes)
        typesize = self.itemsize if self.itemsize <= LARGEST_TYPESIZE else 1
        fields = dict(zip(FIELDS, fields_of(chunk_encoding(chunk)), strict=True))
        encoding = Encoding(**{**fields, "typesize": typesize, "blocksize": int(geometry.block_nbytes)})
        metalayers = {"b2nd": self._metalayer}
        frame = Frame.assemble(Source.of_buffer(chunk), _AT_START, 1, size, size, encoding, metalayers, {})
        out = np.empty(self.chunks, self._dtype)
        read_basic_into(array_of(frame), ..., get_nthreads(), out)
        return out.reshape(-1).view(np.uint8)

    def encode(self, items: Any) -> bytes:
        """The stored form of all items of a chunk, given as bytes in C order."""
        given = memoryview(items)
        if given.nbytes != self.nbytes:
            raise ValueError(f"a chunk of {self.chunks} items has {self.nbytes} bytes, not {given.nbytes}")
        values = np.frombuffer(given, np.uint8).view(self._dtype).reshape(self.chunks)
        how = {"codec": Codec[self.codec], "clevel": self.clevel}
        array = asarray(values, chunks=self.chunks, blocks=self.blocks, cparams=how)
        found: bytes = array.schunk.get_chunk(0)
        return found


def _shape(lengths: Any, name: str) -> tuple[int, ...]:
    if not isinstance(lengths, (list, tuple)):
        raise ValueError(f"{name} must be a list of integers, not {lengths!r}")
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in lengths):
        raise ValueError(f"{name} must be integers of 1 or more, not {lengths!r}")
    return tuple(lengths)


_AT_START: Final = np.zeros(1, np.int64)
_CODECS: Final = ("BLOSCLZ", "LZ4", "LZ4HC", "ZLIB", "ZSTD")
