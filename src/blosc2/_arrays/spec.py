"""The specification of a new array: its geometry, its compression, and where it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from blosc2 import _arrays, _tuning
from blosc2._arrays.chunk_shapes import (
    Shape,
    as_shape,
    compute_chunks_blocks,
    geometry_of,
    padded_chunk_nbytes,
)
from blosc2._arrays.ready import ready_to_change
from blosc2._core.codec.codec import Plugin
from blosc2._core.io.sharing import free_in_child, free_lock, in_child, item_of, remembered
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_write import StoredChunk, Write
from blosc2._frames import (
    ALIGNMENT,
    LOSSY_CODECS,
    AnyChunk,
    ConstructorKeywords,
    Fields,
    FrameContent,
    FrameHandle,
    HandleOptions,
    Running,
    array_keywords,
    check_lossy_codec,
    check_target,
    encode,
    format_dtype,
    lay_out,
    new_handle,
    pack_metalayers,
    with_choice,
    with_padding,
)
from blosc2._options import FIELDS, Encoding, Precision, compress, encoding_of, fields_of
from blosc2.storage import (
    MAX_BLOCKSIZE,
    MAX_OVERHEAD,
    MAX_TYPESIZE,
    AutoCParams,
    CParams,
    Filter,
    TunedCParams,
    asked_for,
    cparams_dflts,
    cparams_from,
)

#: Sizes of items and blocks whose parameters are remembered.
_MOST_DEFAULTS = 256
#: The filters of a caller who chose none.
_SHUFFLE = CParams().filters


def plain_dtype(dtype: Any) -> tuple[np.dtype[Any], Shape]:
    """A dtype without a shape, and the axes that it had."""
    dtype = np.dtype(dtype)
    more: Shape = ()
    while dtype.subdtype is not None:
        dtype, axes = dtype.subdtype
        more += axes
    return dtype, more


def _with_axes(lengths: Shape, more: Shape, ndim: int) -> Shape:
    return lengths + more if len(lengths) + len(more) == ndim else lengths


_NO_FILTERS: dict[str, Any] = {"filters": [], "filters_meta": [0] * 6}


def _unless_given(cparams: CParams | dict[str, Any] | None, dtype: np.dtype[Any]) -> dict[str, Any]:
    """Better filters than the default ones for this codec or these items, if the caller names none."""
    given = cparams or {}
    if not isinstance(given, Mapping) or "filters" in given or "filters_meta" in given:
        return {}
    if given.get("codec", cparams_dflts["codec"]) in LOSSY_CODECS:
        return _NO_FILTERS
    if dtype.kind == "U" and cparams_dflts["filters"] == _SHUFFLE and not any(cparams_dflts["filters_meta"]):
        # Letters are numbers of 4 bytes. Shuffled as such, they compress far better than as items of the full width.
        return {"filters": _SHUFFLE, "filters_meta": [0] * 5 + [4]}
    return {}


class _Layout(NamedTuple):
    """How a new array is divided, and the metalayer that describes it."""

    geometry: Geometry
    metalayer: bytes
    chunksize: int  # in bytes, also of an array without items, which may grow later
    blocksize: int


def _layout_of(shape: Shape, chunks: Shape | None, blocks: Shape | None, dtype: np.dtype[Any]) -> _Layout:
    text = format_dtype(dtype)
    geometry = geometry_of(shape, chunks, blocks, dtype)
    return _Layout(
        geometry, geometry.metalayer(text), padded_chunk_nbytes(geometry.chunks, geometry.blocks, dtype.itemsize),
        padded_chunk_nbytes(geometry.blocks, geometry.blocks, dtype.itemsize),
    )  # fmt: skip


_layout = remembered(256)(_layout_of)


class _Defaults(NamedTuple):
    """The default parameters of arrays, for items and blocks of one size."""

    made_from: dict[str, Any]  # `cparams_dflts` as they were
    cparams: CParams
    encoding: Encoding


_defaults: dict[tuple[int, int], _Defaults] = free_in_child({})


def _begin_child() -> None:
    for known in _defaults.values():
        free_lock(known.made_from)
        free_lock(vars(known.cparams))


in_child(_begin_child)


def _default_parameters(itemsize: int, blocksize: int) -> tuple[CParams, Encoding]:
    """The results of `cparams_from` and `encoding_of` without keywords, checked once and remembered."""
    known = item_of(_defaults, (itemsize, blocksize))
    if known is None or known.made_from != cparams_dflts:
        cparams = cparams_from(None, typesize=itemsize, blocksize=blocksize)
        copied = {name: list(value) if isinstance(value, list) else value for name, value in cparams_dflts.items()}
        known = _Defaults(copied, cparams, encoding_of(cparams, cparams.typesize, cparams.blocksize))
        if len(_defaults) >= _MOST_DEFAULTS:
            _defaults.clear()
        _defaults[itemsize, blocksize] = known
    # Each array gets its own object, because users may change it.
    cparams = CParams.__new__(CParams)
    cparams.__dict__.update(known.cparams.__dict__)
    cparams.filters = known.cparams.filters.copy()
    cparams.filters_meta = known.cparams.filters_meta.copy()
    return cparams, known.encoding


#: Bytes of the first part of items that come one by one, from which compression is chosen.
_FIRST_NBYTES = 8 << 20
#: Bytes of a chunk that tell whether what was chosen suits it, and whether noise has ended.
_PART_NBYTES, _NOISE_NBYTES = 32 << 10, 4 << 10
#: The part of them that another way has to save.
_BETTER = 0.99


def _promises(usual: Encoding, encoding: Encoding, items: np.ndarray[Any, Any], blocks: Shape) -> bool:
    """Whether another encoding is better for some items in the middle."""
    box = tuple(slice(n // 2 // b * b, n // 2 // b * b + b) for n, b in zip(items.shape, blocks, strict=True))
    found = np.ascontiguousarray(items[box]).reshape(-1)
    count = max((_PART_NBYTES if encoding.clevel else _NOISE_NBYTES) // items.dtype.itemsize, 1)
    start = max(len(found) - count, 0) // 2
    part = found[start : start + count].tobytes()
    size = len(encode(_for_part(encoding, len(part)), part)) if encoding.clevel else len(part)
    return len(encode(_for_part(usual, len(part)), part)) < _BETTER * size


def _for_part(encoding: Encoding, nbytes: int, **other: int) -> Encoding:
    """Return the encoding with a block of so many bytes."""
    given = dict(zip(FIELDS, fields_of(encoding), strict=True))
    return Encoding(**{**given, "blocksize": nbytes, **other})


class ArrayPlan:
    """Everything about a new array except its items: where it is stored, how it is divided and compressed.

    A text dtype without a length stands for texts of one letter, as it does for NumPy. The axes of a dtype that has a
    shape follow those of the array; chunks and blocks may leave them out, and have them whole then.
    """

    #: The choice that is made when the first items come; None once it is made, and where there is none.
    asked: AutoCParams | None = None
    chosen: TunedCParams | None = None
    #: How chunks are compressed for which what was chosen turns out to be worse.
    usual: Encoding | None = None
    #: What tells quickly whether a part of a chunk is noise, where such chunks are stored as they are.
    _quick: Encoding | None = None
    #: How numbers are rounded, if that was asked for and they can be.
    precision: Precision | None = None

    def __init__(self, shape: Any, dtype: Any, kwargs: Mapping[str, Any]) -> None:
        self.keywords: ConstructorKeywords = array_keywords(kwargs)
        self.dtype, more = plain_dtype(dtype)
        if self.dtype.itemsize == 0 and self.dtype.kind in "SU":
            self.dtype = np.dtype((self.dtype.type, 1))
        if self.dtype.itemsize > MAX_TYPESIZE:
            raise ValueError(f"items of {self.dtype.itemsize} bytes are too large: {MAX_TYPESIZE} at most")
        self.shape = as_shape(shape, "shape") + more
        storage = self.keywords.storage
        if storage.urlpath is not None or storage.mmap_mode is not None:
            check_target(storage, "NDArray")
        chunks, blocks = self.keywords.chunks, self.keywords.blocks
        if self.keywords.layout is not None:
            chunks, blocks = compute_chunks_blocks(self.shape, chunks, blocks, self.dtype, layout=self.keywords.layout)
        chunks = None if chunks is None else _with_axes(as_shape(chunks, "chunks"), more, len(self.shape))
        blocks = None if blocks is None else _with_axes(as_shape(blocks, "blocks"), more, len(self.shape))
        # The names of a structured dtype can be assigned, so two that are equal now may differ later.
        lay_out = _layout if self.dtype.names is None else _layout_of
        layout = lay_out(self.shape, chunks, blocks, self.dtype)
        self.geometry: Geometry = layout.geometry
        self._chunksize = layout.chunksize
        given = self.keywords.cparams
        if given is not None:
            self.asked = asked_for(given)
        self.cparams, self.encoding = self._parameters(None if self.asked else given, layout.blocksize)
        #: Whether each compressed chunk comes with its checksum, as files carry them.
        self.summed = self.keywords.storage.urlpath is not None
        self.metalayers = {"b2nd": layout.metalayer}
        if self.keywords.storage.meta:
            self.metalayers.update(pack_metalayers(self.keywords.storage.meta, ("b2nd",)))
        if self.asked is not None:
            self.cparams.nthreads = self.asked.nthreads
        elif isinstance(given, TunedCParams):
            self._take(given, self._parameters(None, layout.blocksize)[1])
        elif self.cparams.clevel == 0:
            self._align()

    def _align(self) -> None:
        """Align zero-copy views, even if the array becomes part of a store later."""
        storage = self.keywords.storage
        if self.cparams.clevel == 0 and (storage.contiguous or storage.urlpath is None):
            self.metalayers = with_padding(self.metalayers)

    def settle(self, read: Callable[[tuple[slice, ...]], np.ndarray[Any, Any]], shape: Shape) -> None:
        """Choose the compression, if that was asked for and is not done; `read` gives boxes of items of this shape."""
        asked = self.asked
        if asked is None:
            return
        self.asked = None

        precision = asked.precision if _tuning.is_rounded(asked.precision, self.dtype) and 0 not in shape else None

        def sampled(limit: int) -> _tuning.Sample:
            kept = read if precision is None else lambda box: _tuning.rounded(read(box), precision)
            return _tuning.array_sample(shape, self.geometry.blocks, self.dtype, self.encoding, kept, limit)

        if precision is None:
            found = _tuning.chosen(asked, (self.dtype.str, self.shape, self.geometry.blocks), sampled)
        else:
            error = max(_tuning.largest_error(np.asarray(read(box)), precision) for _, box in self._pieces(shape))
            found = _tuning.choose(asked, sampled(_tuning.SAMPLE), _tuning.stated(precision, error))
            if found is not None:
                found.precision = precision
        if found is not None:
            self._take(found, self.encoding)

    def _take(self, found: TunedCParams, usual: Encoding) -> None:
        """Compress as was chosen, and chunks that this does not suit as usual."""
        self.chosen = found
        self.precision = found.precision if _tuning.is_rounded(found.precision, self.dtype) else None
        self.cparams, self.encoding = self._parameters(replace(found), usual.blocksize)
        is_checked = self.geometry.nchunks > 1 or not self.encoding.clevel
        differs = fields_of(usual) != fields_of(self.encoding) and not usual.needs_geometry
        if found.for_size and is_checked and differs:
            self.usual = usual
            if not self.encoding.clevel:
                self._quick = _for_part(usual, _NOISE_NBYTES, clevel=1)
        self.metalayers = with_choice(self.metalayers, found.why)
        self._align()

    def _parameters(self, cparams: CParams | dict[str, Any] | None, blocksize: int) -> tuple[CParams, Encoding]:
        itemsize = self.dtype.itemsize
        better = _unless_given(cparams, self.dtype)
        if cparams is None and not better:
            found, encoding = _default_parameters(itemsize, blocksize)
        else:
            if isinstance(cparams, CParams) and cparams.codec in LOSSY_CODECS and cparams.filters == _SHUFFLE:
                cparams = replace(cparams, filters=[])  # SHUFFLE is there only because nobody chose
            # Checked as given first, even values that have no effect.
            found = cparams_from(cparams, unless_given=better)
            if blocksize > MAX_BLOCKSIZE or (Filter.BYTEDELTA in found.filters and not isinstance(cparams, CParams)):
                # If a dictionary says nothing, the meta of BYTEDELTA follows from the items.
                found = cparams_from(cparams, unless_given=better, typesize=itemsize, blocksize=blocksize)
            else:
                found.typesize, found.blocksize = itemsize, blocksize
            encoding = encoding_of(found, found.typesize, found.blocksize)
        is_declared = isinstance(cparams, CParams) and cparams.is_declared
        check_lossy_codec(found, self.dtype, None if is_declared else self.geometry.ndim)
        return found, encoding

    def write(self, chunks: Iterable[AnyChunk], *, vlmeta: dict[str, bytes] | None = None) -> FrameHandle:
        """Make the array of its stored chunks."""
        ready_to_change()  # before anything is begun
        if self.asked is not None:
            chunks = self.begun(chunks)
        geometry = self.geometry
        count: int = geometry.nchunks
        fields = Fields(self.encoding, self._chunksize, variable=self._chunksize == 0)
        stored = chunks if geometry.size else ()
        content = FrameContent(fields, self.metalayers, vlmeta or {}, stored, count, count * geometry.chunk_nbytes)
        options = HandleOptions(deserialize="full", dparams=self.keywords.dparams, cparams=self.cparams)
        return new_handle(self.keywords.storage, content, options)

    def lay_out(
        self, chunks: Iterable[AnyChunk], write: Callable[[Any], Any], checksums: Running | None = None
    ) -> bytes:
        """Write the frame of these chunks but for its header, which is returned; with `checksums`, it carries them."""
        if self.asked is not None:
            chunks = self.begun(chunks)
        count: int = self.geometry.nchunks
        nbytes = count * self.geometry.chunk_nbytes
        return lay_out(write, FrameContent(self.fields, self.metalayers, {}, chunks, count, nbytes), checksums)

    @property
    def takes_chunks(self) -> bool:
        """Whether chunks of others may be what it would make: nothing is to be chosen, nor rounded."""
        return self.asked is None and self.precision is None

    @property
    def fields(self) -> Fields:
        """What the header of the frame says besides sizes."""
        return Fields(self.encoding, self._chunksize)

    def most_nbytes(self) -> int:
        """Bytes that the frame may have, if nothing can be compressed."""
        count: int = self.geometry.nchunks
        metadata = sum(len(name) + len(value) + 64 for name, value in self.metalayers.items())
        # of each chunk an offset and a checksum, too, and what aligns it
        return count * (int(self.geometry.chunk_nbytes) + MAX_OVERHEAD + 8 + 4 + ALIGNMENT) + metadata + 4096

    def plugin(self) -> Plugin | None:
        if not self.encoding.needs_geometry or self.geometry.size == 0:
            return None
        return Plugin(self.encoding, self.metalayers["b2nd"], int(self.geometry.chunk_nbytes))

    def compressed(self, source: np.ndarray[Any, Any], starts: Shape | None = None) -> Iterator[AnyChunk]:
        """The chunks of all items, or of a box of whole chunks, in their order; write or copy each before the next.

        They are compressed in parallel, a batch at a time.
        """
        if self.geometry.size == 0:
            return
        if starts is None:
            starts = (0,) * source.ndim
            self.settle(source.__getitem__, source.shape)
        for chunks in self.batches(starts, source):
            for nchunk in sorted(chunks):
                yield chunks.pop(nchunk)

    def begun(self, chunks: Iterable[AnyChunk]) -> Iterable[AnyChunk]:
        """Return the chunks; where the choice is still to be made, the first is compressed now, which makes it."""
        if self.asked is None:
            return chunks
        rest = iter(chunks)
        first = next(rest, None)
        return () if first is None else chain((first,), rest)

    def batches(
        self, starts: Shape, source: np.ndarray[Any, Any], *, summed: bool | None = None
    ) -> Iterator[dict[int, StoredChunk | int]]:
        """The chunks, by number, of a box of whole chunks with these items, compressed in parallel, some at a time."""
        if self.asked is not None:  # of what comes in parts, as much for any number of threads
            known = source[tuple(slice(n) for n in next(_arrays.slabs_in(self.geometry, _FIRST_NBYTES)).counts)]
            self.settle(known.__getitem__, known.shape)
        summed = self.summed if summed is None else summed
        if self.precision is None:
            yield from self._compressed(starts, source, summed)
            return
        for low, box in self._pieces(source.shape):
            items = _tuning.rounded(source[box], self.precision)
            yield from self._compressed(tuple(a + b for a, b in zip(starts, low, strict=True)), items, summed)

    def _pieces(self, shape: Shape) -> Iterator[tuple[Shape, tuple[slice, ...]]]:
        """Boxes of whole chunks that make up one of this shape, each with its first item."""
        geometry = Geometry(shape, self.geometry.chunks, self.geometry.blocks, self.geometry.itemsize)
        for slab in _arrays.slabs_in(geometry, _FIRST_NBYTES):
            yield slab.starts, tuple(slice(at, at + n) for at, n in zip(slab.starts, slab.counts, strict=True))

    def _compressed(
        self, starts: Shape, source: np.ndarray[Any, Any], summed: bool
    ) -> Iterator[dict[int, StoredChunk | int]]:
        operation = self._operation(starts, source, self.encoding, summed)
        for chunks in compress(operation, self.geometry.chunk_nbytes, self.cparams.nthreads):
            if self.usual is not None:
                for number in sorted(number for number, stored in chunks.items() if not self._is_noise(stored)):
                    chunks[number] = self._suited(chunks[number], number, starts, source, summed)
            yield chunks

    def _operation(self, starts: Shape, source: np.ndarray[Any, Any], encoding: Encoding, summed: bool) -> Write:
        operation = Write(
            None, self.geometry, starts, (1,) * source.ndim, source.shape, source, encoding, self.plugin()
        )  # fmt: skip
        operation.summed = summed
        return operation

    def _is_noise(self, stored: Any) -> bool:
        """Whether a chunk is stored as it is, without padding, and nothing else would make it smaller."""
        if self._quick is None or isinstance(stored, int):
            return False
        geometry = self.geometry
        if geometry.nchunks * geometry.chunk_nbytes != geometry.size * geometry.itemsize:
            return False
        part = bytes(memoryview(stored)[len(stored) // 2 :][:_NOISE_NBYTES])
        return len(encode(self._quick, part)) >= _BETTER * len(part)

    def _suited(self, stored: Any, number: int, starts: Shape, source: np.ndarray[Any, Any], summed: bool) -> Any:
        """A chunk, or the same compressed as usual where that is smaller.

        Data may change behind what the choice was made for. A small part of a chunk tells whether to try.
        """
        places = np.unravel_index(number, self.geometry.grid)
        first = tuple(int(n) * c for n, c in zip(places, self.geometry.chunks, strict=True))
        items = source[
            tuple(
                slice(at - start, min(at + length, end) - start)
                for at, start, length, end in zip(first, starts, self.geometry.chunks, self.geometry.shape, strict=True)
            )
        ]
        if isinstance(stored, int) or self.usual is None:
            return stored
        padded = not self.encoding.clevel and items.nbytes < self.geometry.chunk_nbytes  # with zeros, which take room
        if not padded and not _promises(self.usual, self.encoding, items, self.geometry.blocks):
            return stored
        other = self._compressed_alone(first, items, self.usual, summed)
        return other if isinstance(other, int) or len(other) < len(stored) else stored

    def _compressed_alone(
        self, first: Shape, items: np.ndarray[Any, Any], encoding: Encoding, summed: bool
    ) -> StoredChunk | int:
        """One chunk, whose first item is named."""
        operation = self._operation(first, items, encoding, summed)
        found = next(compress(operation, self.geometry.chunk_nbytes, self.cparams.nthreads))
        return next(iter(found.values()))
