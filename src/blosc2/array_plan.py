"""What a new array will be: its geometry, its compression, its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from blosc2._core.codec import Encoding, Plugin
from blosc2._core.geometry import Geometry
from blosc2._core.grid import Write
from blosc2.carrier import Carrier, encoding_of
from blosc2.draft import Stored
from blosc2.dtypes import format_dtype
from blosc2.executor import run
from blosc2.keywords import ConstructorKeywords, array_keywords
from blosc2.new_frame import check_target, new_carrier
from blosc2.partitions import as_shape, geometry_of, padded_chunk_nbytes
from blosc2.storage import MAX_TYPESIZE, Codec, CParams, Filter, cparams_from
from blosc2.vlmeta import pack_metalayers

#: Uncompressed bytes that are compressed before they are written: what a large array on disk needs in memory.
_BATCH_NBYTES = 64 << 20


class ArrayLike(Protocol):
    """What a new array may take over from another."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def chunks(self) -> tuple[int, ...]: ...
    @property
    def blocks(self) -> tuple[int, ...]: ...
    @property
    def cparams(self) -> CParams: ...


_LOSSY_CODECS = (Codec.ZFP_ACC, Codec.ZFP_PREC, Codec.ZFP_RATE)


def _check_lossy_codec(cparams: CParams, dtype: np.dtype[Any]) -> None:
    """Refuse to have ZFP take for floating-point numbers what is none: it would give back noise."""
    if cparams.codec not in _LOSSY_CODECS:
        return
    if dtype not in (np.dtype("f4"), np.dtype("f8")):
        raise ValueError(f"{cparams.codec.name} compresses float32 and float64 of native byte order only, not {dtype}")
    if any(item is not Filter.NOFILTER for item in cparams.filters):
        raise ValueError(f"{cparams.codec.name} works on the numbers themselves: pass filters=[] with it")


class ArrayPlan:
    """Where a new array goes and how it is cut and compressed: everything but its items.

    Parameters
    ----------
    shape, dtype
    kwargs : dict
        Keywords of a constructor.
    like : optional
        An array whose chunks, blocks and compression parameters are taken where no keyword says otherwise.
    """

    def __init__(self, shape: Any, dtype: Any, kwargs: dict[str, Any], like: ArrayLike | None = None) -> None:
        self.keywords: ConstructorKeywords = array_keywords(kwargs)
        self.dtype = np.dtype(dtype)
        self.text = format_dtype(self.dtype)
        if self.dtype.itemsize > MAX_TYPESIZE:
            raise ValueError(f"items of {self.dtype.itemsize} bytes are too large: {MAX_TYPESIZE} at most")
        self.shape = as_shape(shape, "shape")
        check_target(self.keywords.storage, "NDArray")
        chunks, blocks = self.keywords.chunks, self.keywords.blocks
        if (
            like is not None
            and like.shape == self.shape
            and like.dtype.itemsize == self.dtype.itemsize
            and (chunks is None and blocks is None)
        ):
            chunks, blocks = like.chunks, like.blocks
        self.geometry: Geometry = geometry_of(self.shape, chunks, blocks, self.dtype)
        cparams = self.keywords.cparams
        if cparams is None and like is not None:
            cparams = like.cparams
        # An array without items may grow later, into blocks of this size.
        blocksize = padded_chunk_nbytes(self.geometry.blocks, self.geometry.blocks, self.dtype.itemsize)
        self.cparams: CParams = cparams_from(cparams, typesize=self.dtype.itemsize, blocksize=blocksize)
        _check_lossy_codec(self.cparams, self.dtype)
        self.encoding: Encoding = encoding_of(self.cparams, self.cparams.typesize, self.cparams.blocksize)
        self.metalayers = {
            "b2nd": self.geometry.metalayer(self.text), **pack_metalayers(self.keywords.storage.meta, ("b2nd",)),
        }  # fmt: skip

    def write(self, chunks: Any, *, vlmeta: dict[str, bytes] | None = None) -> Carrier:
        """Make the array of its stored chunks."""
        geometry = self.geometry
        chunksize = padded_chunk_nbytes(geometry.chunks, geometry.blocks, geometry.itemsize)
        return new_carrier(
            self.keywords.storage, self.encoding, chunks=chunks if geometry.size else (), count=int(geometry.nchunks),
            nbytes=int(geometry.nchunks * geometry.chunk_nbytes), chunksize=chunksize,
            metalayers=self.metalayers, vlmeta=vlmeta, variable=chunksize == 0, cparams=self.cparams,
            dparams=self.keywords.dparams,
        )  # fmt: skip

    def plugin(self) -> Plugin | None:
        if not self.encoding.needs_geometry or self.geometry.size == 0:
            return None
        return Plugin(self.encoding, self.metalayers["b2nd"], int(self.geometry.chunk_nbytes))

    def compressed(self, source: np.ndarray[Any, Any]) -> Iterator[Stored]:
        """The chunks of these items, compressed in parallel, a batch at a time."""
        geometry = self.geometry
        if geometry.size == 0:
            return
        ndim = geometry.ndim
        operation = Write(None, geometry, (0,) * ndim, (1,) * ndim, geometry.shape, source, self.encoding,
                          self.plugin())  # fmt: skip
        nchunks = int(geometry.nchunks)
        batch = nchunks if self.keywords.storage.urlpath is None else max(_BATCH_NBYTES // geometry.chunk_nbytes, 2)
        for first in range(0, nchunks, batch):
            stop = min(first + batch, nchunks)
            operation.limit(first, stop)
            run(operation, (stop - first) * int(geometry.chunk_nbytes), self.cparams.nthreads)
            chunks = operation.take_chunks()
            for nchunk in range(first, stop):
                yield chunks[nchunk]
