"""`NDArray`: an n-dimensional array of compressed chunks."""

from __future__ import annotations

import operator
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Never

import numpy as np

from blosc2._arrays import (
    Snapshot,
    ViewCarrier,
    copied,
    mark_indexes_stale,
    matrix_axes,
    permuted,
    plan_like,
    reshaped,
    resize_draft,
    resized_geometry,
    selected,
    shape_for,
    squeezed_axes,
    taken,
)
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import read_at_once
from blosc2._core.ndim.grid_write import Write
from blosc2._frames import Draft
from blosc2._handles import Carrier, Stored
from blosc2._indexing import (
    Chunks,
    FieldViews,
    OrthogonalIndex,
    Version,
    as_items,
    basic_selection,
    chunks_with,
    read,
    read_many,
    read_whole,
    short_text,
    view_items,
)
from blosc2._indexing import NDField as NDField  # other packages look for it here
from blosc2._options import PARALLEL_WORK, Absent, compressed, explain_absent
from blosc2.exceptions import FormatError
from blosc2.info import InfoReporter, size_text
from blosc2.schunk import SChunk, chunk_description, repeated_item

ChunkInfo = namedtuple(  # noqa: PYI024
    "ChunkInfo", ("nchunk", "coords", "cratio", "special", "repeated_value", "lazychunk")
)


#: The device of the DLPack protocol where all items are.
_CPU = (1, 0)


@explain_absent
class NDArray(Stored):
    """An n-dimensional array of compressed chunks, in memory or in a file.

    `blosc2.asarray`, `blosc2.zeros` and similar functions make arrays, and `blosc2.open` opens them. Indexing gives a
    NumPy array with the items; any number of threads may read one array.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> array = blosc2.asarray(np.arange(12).reshape(3, 4), chunks=(2, 4), blocks=(1, 4))
    >>> array[1, ::2]
    array([4, 6])
    >>> array[0] = 7
    >>> array[:, 0]
    array([7, 4, 8])
    """

    __slots__ = ("_schunk_",)

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("make arrays with blosc2.asarray, blosc2.zeros, blosc2.open and their like")

    @classmethod
    def _of(cls, carrier: Carrier) -> NDArray:
        self = cls.__new__(cls)
        self._carrier = carrier
        if carrier.array is None:
            carrier.read_as_array()
        return self

    # ------------------------------------------------------------ description
    @property
    def _geometry(self) -> Geometry:
        return self._carrier.described[0]  # type: ignore[index]  # set by `_of`

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the items."""
        return self._carrier.described[1]  # type: ignore[index]

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._geometry.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._geometry.ndim

    @property
    def size(self) -> int:
        """Number of items."""
        return self._geometry.size

    @property
    def chunks(self) -> tuple[int, ...]:
        """The length of a chunk on each axis."""
        return self._geometry.chunks

    @property
    def blocks(self) -> tuple[int, ...]:
        """The length of a block on each axis."""
        return self._geometry.blocks

    @property
    def ext_shape(self) -> tuple[int, ...]:
        """The shape, padded to whole chunks."""
        return tuple(c and -(-n // c) * c for n, c in zip(self.shape, self.chunks, strict=True))

    @property
    def ext_chunks(self) -> tuple[int, ...]:
        """The chunk shape, padded to whole blocks."""
        return tuple(b and -(-c // b) * b for c, b in zip(self.chunks, self.blocks, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the items, without padding."""
        return self.size * self.dtype.itemsize

    @property
    def cbytes(self) -> int:
        """Compressed bytes."""
        return int(self._carrier.frame.cbytes)

    @property
    def cratio(self) -> float:
        """Bytes of the super-chunk divided by compressed bytes; 0 if nothing is stored."""
        return self.schunk.cratio

    @property
    def chunksize(self) -> int:
        """Uncompressed bytes of a chunk, padding included."""
        return self.schunk.chunksize

    @property
    def blocksize(self) -> int:
        """Uncompressed bytes of a block."""
        return int(self._geometry.block_nbytes)

    @property
    def schunk(self) -> SChunk:
        """The super-chunk below the array; the same object at every access."""
        try:
            return self._schunk_
        except AttributeError:
            self._schunk_: SChunk = SChunk._of(self._carrier)
            return self._schunk_

    @property
    def _schunk(self) -> SChunk:
        return self.schunk

    @property
    def device(self) -> str:
        """Where the items are: always "cpu"."""
        return "cpu"

    @property
    def fields(self) -> Mapping[str, NDField]:
        """A view of each field of a structured array, by name; empty for other arrays."""
        return FieldViews({name: NDField(self, name) for name in self.dtype.names or ()})

    @property
    def oindex(self) -> OrthogonalIndex:
        """Orthogonal indexing, to read and to assign: a key for each axis, and all their combinations."""
        return OrthogonalIndex(self)

    @property
    def keep_last_read(self) -> bool:
        """Always True: each thread caches the blocks that it read last."""
        return True

    @keep_last_read.setter
    def keep_last_read(self, value: bool) -> None:
        """Taken and ignored: keeping them costs nothing that would be worth a choice."""

    @property
    def T(self) -> NDArray:
        """A copy of a 2-d array with its axes swapped; see `blosc2.permute_dims` for other arrays."""
        if self.ndim != 2:
            raise ValueError(f"T only works for 2-dimensional arrays, not for {self.ndim} axes; see permute_dims")
        return NDArray._of(permuted(self, (1, 0), {}))

    @property
    def mT(self) -> NDArray:
        """A copy with the last two axes swapped."""
        return NDArray._of(permuted(self, matrix_axes(self.ndim), {}))

    @property
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs."""
        return [
            ("type", type(self).__name__), ("shape", self.shape), ("chunks", self.chunks), ("blocks", self.blocks),
            ("dtype", self.dtype), ("nbytes", size_text(self.nbytes)), ("cbytes", size_text(self.cbytes)),
            ("cratio", f"{self.cratio:.2f}x"), ("cparams", self.cparams), ("dparams", self.dparams),
            *self._carrier.described_checks(),
        ]  # fmt: skip

    @property
    def info(self) -> InfoReporter:
        """A table of the most important properties."""
        return InfoReporter(self)

    def __repr__(self) -> str:
        where = f" in {self.urlpath}" if self.urlpath else ""
        return f"<NDArray {self.shape} {short_text(self.dtype)}, chunks {self.chunks}, blocks {self.blocks}{where}>"

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]

    # ------------------------------------------------------------ reading
    def __getitem__(self, key: Any) -> Any:
        carrier = self._carrier
        version: Version = carrier.array  # type: ignore[assignment]  # set by `_of`
        items = read_at_once(version, key, PARALLEL_WORK)
        if items is not None:
            return items
        if type(key) is str:
            return self._field(key)
        return read(version, key, carrier.nthreads)

    def read(self, key: Any = ..., out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Read the items that a key selects, into an existing array if `out` is given.

        Parameters
        ----------
        key : optional
            As between brackets; all items by default.
        out : ndarray, optional
            A writable array of the shape of the selection and the dtype of the array, with any strides. Where blocks
            are contiguous in it, they are decoded straight into it. Without it a new array is made.

        Returns
        -------
        ndarray
            `out` if it was given.

        Raises
        ------
        TypeError, ValueError
            `out` is not such an array.

        Examples
        --------
        >>> import numpy as np
        >>> import blosc2
        >>> array = blosc2.arange(12).reshape((3, 4))
        >>> batch = np.zeros((2, 4), array.dtype)
        >>> _ = array.read(slice(1, 3), out=batch)
        >>> batch[0]
        array([4, 5, 6, 7])
        """
        carrier = self._carrier
        if type(key) is str:
            found: np.ndarray[Any, Any] = self._field(key).read(out=out)
            return found
        return read(carrier.array, key, carrier.nthreads, out)  # type: ignore[arg-type]

    def read_many(
        self, selections: Iterable[Any], out: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any] | list[np.ndarray[Any, Any]]:
        """Read the items of many keys in one call, such as the batch of a data loader.

        Keys of integers, slices, `None` and `...` are read together, without the GIL and by several threads. One thread
        reads everything that the keys need of one chunk, so a block that several keys need is usually decoded only
        once. Keys with arrays or masks are allowed too; each of them is read by itself.

        Parameters
        ----------
        selections : iterable
            Keys, each as between brackets, without field names. The same items may be selected any number of times.
        out : ndarray, optional
            A writable array of shape ``(number of selections, *shape of each)`` and of the array's dtype, with any
            strides.

        Returns
        -------
        ndarray or list of ndarray
            `out` if it was given. Otherwise a new array with a row for each selection, or a list of arrays if their
            shapes differ. Without selections, an array of shape ``(0, *shape[1:])``.

        Raises
        ------
        IndexError, TypeError, ValueError
            A selection is wrong (the error gives its index in the batch); `out` does not fit, or is given for
            selections of different shapes (`ValueError`). Nothing was read then.
        FormatError
            A chunk cannot be decoded. Some items may have been read into `out` by then.

        Examples
        --------
        >>> import numpy as np
        >>> import blosc2
        >>> array = blosc2.arange(12).reshape((3, 4))
        >>> array.read_many([(0, slice(0, 2)), (2, slice(1, 3))])
        array([[ 0,  1],
               [ 9, 10]])
        >>> [items.shape for items in array.read_many([0, (slice(1, 3), [0, 2, 3])])]
        [(4,), (2, 3)]
        """
        keys = list(selections)
        carrier = self._carrier
        return read_many(carrier.array, keys, carrier.nthreads, out)  # type: ignore[arg-type]

    def _snapshot(self) -> Snapshot:
        return Snapshot.of(self._carrier)

    def _read_all(self) -> np.ndarray[Any, Any]:
        return read_whole(self._carrier.array, self._carrier.nthreads)  # type: ignore[arg-type]

    def to_device(self, device: str, /, *, stream: Any = None) -> NDArray:
        """Return the array itself, whose items are always in CPU memory; `ValueError` for other devices."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"items are read to memory of the CPU, not to {device!r}: hand on what was read")
        return self

    def view(self, key: Any = ...) -> np.ndarray[Any, Any]:
        """Return a read-only view of items in the mapped file or in memory, without a copy.

        The items must lie in one chunk that is stored uncompressed, as in arrays written with ``clevel=0``; in mapped
        files such chunks are aligned to 64 bytes. The view keeps the mapping alive, and later writes do not change what
        it shows.

        Parameters
        ----------
        key : optional
            Integers, slices, `None` and `...`; everything by default.

        Raises
        ------
        ValueError
            A view is not possible; the message gives the reason.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import blosc2
        >>> path = os.path.join(tempfile.mkdtemp(), "raw.b2nd")
        >>> _ = blosc2.asarray(np.arange(6.0), urlpath=path, cparams={"clevel": 0})
        >>> blosc2.open(path, mmap_mode="r").view(slice(2, 4))
        array([2., 3.])
        """
        return view_items(self._carrier.array, key)  # type: ignore[arg-type]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            if dtype is not None and np.dtype(dtype) != self.dtype:
                raise ValueError(f"items of {self.dtype} cannot be had as {np.dtype(dtype)} without a copy")
            return self.view()
        result = self._read_all()
        return result if dtype is None else result.astype(dtype, copy=False)

    def __dlpack__(self, *, copy: bool | None = None, **kwargs: Any) -> Any:
        if not copy:
            try:
                return self._memory().__dlpack__(**kwargs)
            except BufferError:  # also where the other side takes no memory that is only read
                if copy is False:
                    raise
        return self._read_all().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU

    def __buffer__(self, flags: int) -> memoryview:
        return memoryview(self._memory())  # type: ignore[arg-type]  # NumPy's stubs lag behind

    def _memory(self) -> np.ndarray[Any, Any]:
        try:
            return self.view()
        except ValueError as error:
            raise BufferError(str(error)) from None

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        # Chunk by chunk along axis 0, so that each is decoded once.
        step = max(self.chunks[0], 1)
        for start in range(0, len(self), step):
            part = self[start : start + step]
            if self.dtype.kind == "U":
                self._check_characters(part)
            yield from part

    def _check_characters(self, text: np.ndarray[Any, Any]) -> None:
        """Refuse numbers that are no characters, which a damaged file may have: NumPy raises a SystemError for some."""
        numbers = text.reshape(-1).view(text.dtype.str.replace(f"U{text.dtype.itemsize // 4}", "u4"))
        if len(numbers) and numbers.max() > 0x10FFFF:
            raise FormatError(
                f"text that holds {int(numbers.max()):#x}, which is no Unicode character", path=self.urlpath
            )

    def item(self, *index: Any) -> Any:
        """Return one item as a Python scalar; without an index, the only item of an array of size 1."""
        if index:
            key = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
            if len(key) == 1 and self.ndim != 1:
                key = np.unravel_index(operator.index(key[0]), self.shape)
            found = self[tuple(key)]
        else:
            found = self[...] if self.size == 1 else self._only_scalars("item()")
        if self.dtype.kind == "U":
            self._check_characters(found)
        return found.item()

    def _only_scalars(self, what: str) -> Any:
        raise ValueError(f"{what} needs an array of size 1, this one has {self.size} items")

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError("The truth value of an array with more than one element is ambiguous")
        return bool(self.item())

    def _no_operators(self, *_: Any) -> Never:
        raise TypeError("compressed arrays have no operators: use np.asarray(a) or a[:], which are NumPy arrays")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _no_operators
    __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _no_operators
    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _no_operators
    __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = __lshift__ = __rshift__ = _no_operators
    __neg__ = __pos__ = __abs__ = __invert__ = _no_operators
    __hash__ = None  # type: ignore[assignment]

    def tobytes(self) -> bytes:
        """The items as bytes in C order."""
        return self._read_all().tobytes()

    def get_chunk(self, nchunk: int) -> bytes:
        """A chunk as it is stored."""
        return self.schunk.get_chunk(nchunk)

    def iterchunks_info(self) -> Iterator[Any]:
        """For each chunk: nchunk, coords, cratio, special, repeated_value, lazychunk."""
        grid = self._geometry.grid
        for nchunk in range(self._geometry.nchunks):
            coords = tuple(int(i) for i in np.unravel_index(nchunk, grid))
            cratio, special, item, stored = chunk_description(self._carrier, nchunk)
            value = None if item is None else repeated_item(item, self.dtype)
            yield ChunkInfo(nchunk, coords, cratio, special, value, stored)

    # ------------------------------------------------------------ writing
    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is str:
            self._field(key)[...] = value
            return
        self._assign(lambda version: chunks_with(version, self._carrier, key, value))

    def _assign(self, changed: Callable[[Version], Chunks]) -> None:
        """Publish the chunks that a change gives for the current version."""
        carrier = self._carrier
        with carrier.editing():
            version: Version = carrier.array  # type: ignore[assignment]
            chunks = changed(version)
            if chunks:
                draft = Draft(version[2])
                for nchunk, stored in chunks.items():
                    draft.replace(nchunk, stored)
                mark_indexes_stale(self.vlmeta, draft)
                carrier.publish(draft)

    def resize(self, newshape: Any) -> None:
        """Change the lengths of the axes. New items are zeros; items outside the new shape are dropped.

        In a file, old chunks stay where they are, unless an axis other than the first gets more or fewer chunks: then
        the file is rewritten.

        Parameters
        ----------
        newshape : int, tuple or list
            As many axes as the array has.

        Raises
        ------
        ValueError
            The number of axes differs, or the array was made without items and without a chunk shape.

        Examples
        --------
        >>> import blosc2
        >>> array = blosc2.ones((2, 3))
        >>> array.resize((3, 2))
        >>> array[:]
        array([[1., 1.],
               [1., 1.],
               [0., 0.]])
        """
        carrier = self._carrier
        with carrier.editing():
            geometry, _, frame = carrier.array  # type: ignore[misc]
            new = resized_geometry(geometry, newshape)
            if new.shape == geometry.shape:
                return
            draft = Draft(frame)
            renumbered = resize_draft(carrier, draft, new)
            mark_indexes_stale(self.vlmeta, draft)
            carrier.publish(draft, fresh=renumbered)

    def append(self, values: Any) -> int:
        """Add items to the end of an array of one axis; returns the new number of items.

        Examples
        --------
        >>> import blosc2
        >>> array = blosc2.arange(3)
        >>> array.append([7, 8])
        5
        """
        carrier = self._carrier
        with carrier.editing():
            geometry, dtype, frame = carrier.array  # type: ignore[misc]
            if geometry.ndim != 1:
                raise ValueError(f"append is only supported for 1-D arrays, not for {geometry.ndim} axes; see resize")
            items = np.ravel(as_items(values, dtype, None))
            if items.size == 0:
                return self.size
            start = geometry.shape[0]
            new = resized_geometry(geometry, (start + items.size,))
            draft = Draft(frame)
            resize_draft(carrier, draft, new)
            operation = Write(
                frame, new, (start,), (1,), (items.size,), items, carrier.encoding(blocksize=int(new.block_nbytes)),
                carrier.plugin(),
            )  # fmt: skip
            keep, nthreads = carrier.spool().keep, carrier.cparams.nthreads
            for nchunk, stored in compressed(operation, new.chunk_nbytes, nthreads, keep).items():
                draft.replace(nchunk, stored)
            mark_indexes_stale(self.vlmeta, draft)
            carrier.publish(draft)
            return self.size

    # ------------------------------------------------------------ as a whole
    def squeeze(self, axis: Any = None) -> NDArray:
        """Return a view without axes of length 1: all of them, or the given ones. See `blosc2.squeeze`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.ones((1, 3, 1)).squeeze(0).shape
        (3, 1)
        """
        return NDArray._of(ViewCarrier(self, squeezed_axes(self.shape, axis)))

    def reshape(self, shape: Any, c_order: bool = True, **kwargs: Any) -> NDArray:
        """Make an array with the same items, in C order, and another shape. See `blosc2.reshape`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6).reshape((2, 3))[1]
        array([3, 4, 5])
        """
        return NDArray._of(reshaped(self, shape_for(self.shape, shape, c_order), kwargs))

    def take(self, indices: Any, /, *, axis: int | None = None) -> NDArray:
        """Take items along an axis, by their indices, as a new array. See `blosc2.take`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).take([-1, 0], axis=1)[:]
        array([[2, 0],
               [5, 3]])
        """
        return NDArray._of(taken(self, indices, axis, {}))

    def copy(self, dtype: Any = None, **kwargs: Any) -> NDArray:
        """Copy the array with its metadata.

        Chunks, blocks and compression parameters stay the same unless a keyword changes them. If all stay the same, the
        compressed chunks are copied unchanged.

        Parameters
        ----------
        dtype : dtype, optional
        **kwargs
            As for `blosc2.asarray`, without ``meta``.

        Raises
        ------
        ValueError
            ``meta`` is given; it is always copied.
        """
        if "meta" in kwargs:
            raise ValueError("meta should not be passed to copy: the metalayers are copied")
        return NDArray._of(copied(self, dtype, kwargs))

    def save(self, urlpath: Any, contiguous: bool = True, **kwargs: Any) -> None:
        """Copy the array into a file; ``mode="w"`` replaces an existing file. See `copy` for the keywords."""
        self.copy(urlpath=urlpath, contiguous=contiguous, **kwargs)

    def slice(self, key: Any, **kwargs: Any) -> NDArray:
        """Return the items that a key selects as a new `NDArray`; keywords as for `blosc2.asarray`.

        With slices and integers, the result is made chunk by chunk. With index arrays or masks, all of its items are in
        memory once.
        """
        selection = None if type(key) is str else basic_selection(key, self.shape)
        if selection is not None:
            return NDArray._of(selected(self, selection, kwargs))
        items = np.asarray(self[key])
        plan = plan_like(self, items.shape, items.dtype, kwargs)
        return NDArray._of(plan.write(plan.compressed(items)))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not isinstance(vars(NDArray).get(name), Absent)]

    # ------------------------------------------------------------ fields
    def _field(self, name: str) -> NDField:
        if self.dtype.names is None:
            if name.isidentifier():
                raise ValueError(f"the array is not structured: it has no field {name!r}")
            raise NotImplementedError(f"{name!r}: string expressions are not part of this package; use NumPy on a[:]")
        return NDField(self, name)
