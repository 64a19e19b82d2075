"""Reading arrays: their properties, their items, and the protocols through which other libraries read them."""

from __future__ import annotations

import math
import operator
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from blosc2 import _arrays, _indexing
from blosc2._core.io.sharing import never_freed
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import read_basic, read_basic_into
from blosc2._frames import Stored
from blosc2._indexing import FieldViews, NDField, Reducible
from blosc2.exceptions import FormatError
from blosc2.info import size_text
from blosc2.schunk import SChunk, chunk_description, repeated_item

if TYPE_CHECKING:
    from blosc2._arrays.slabs import Snapshot
    from blosc2._indexing import Version

ChunkInfo = namedtuple(  # noqa: PYI024
    "ChunkInfo",
    ("nchunk", "coords", "cratio", "special", "repeated_value", "lazychunk"),
    module="blosc2.ndarray",  # where pickles look for it
)


#: The device of the DLPack protocol where all items are.
_CPU = (1, 0)
_NO_FIELDS = FieldViews({})


never_freed(read_basic)


@never_freed
class ReadableArray(Reducible, Stored):
    """Base of `NDArray`: everything that neither changes the array nor makes another."""

    __slots__ = ("_schunk_",)

    # ------------------------------------------------------------ description
    @property
    def _geometry(self) -> Geometry:
        geometry: Geometry = self._handle.layout[0]
        return geometry

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the items."""
        dtype: np.dtype[Any] = self._handle.layout[1]
        return dtype

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
        return self._geometry.ext_shape

    @property
    def ext_chunks(self) -> tuple[int, ...]:
        """The chunk shape, padded to whole blocks."""
        return self._geometry.ext_chunks

    @property
    def nbytes(self) -> int:
        """Bytes of the items, without padding."""
        return self.size * self.dtype.itemsize

    @property
    def cbytes(self) -> int:
        """Compressed bytes. Of a file that is only read, those that changes have left behind are counted, too."""
        return self._handle.cbytes

    @property
    def cratio(self) -> float:
        """Bytes of the super-chunk divided by compressed bytes; 0 if nothing is stored.

        They include the padding of chunks and blocks, so that it may be larger than ``nbytes / cbytes``, the ratio of
        the items.
        """
        return self.schunk.cratio

    @property
    def chunksize(self) -> int:
        """Uncompressed bytes of a chunk. `SChunk.chunksize` is larger where blocks do not fit into chunks."""
        geometry = self._geometry
        return math.prod(geometry.chunks) * int(geometry.itemsize)

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
            self._schunk_: SChunk = SChunk._of(self._handle.shared())
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
        names = self.dtype.names
        return FieldViews({name: NDField(self, name) for name in names}) if names else _NO_FIELDS

    @property
    def keep_last_read(self) -> bool:
        """Always True: each thread caches the blocks that it read last."""
        return True

    @keep_last_read.setter
    def keep_last_read(self, value: bool) -> None:
        """Accepted and ignored: caching costs too little to switch it off."""

    @property
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs; "decoded" are the bytes of the blocks that an item, or an index, lies in."""
        decoded = []
        if self.size:
            sizes = self.shape, self.chunks, self.blocks, self.dtype.itemsize
            axes = {"an item": None, "[i]": 0, "[..., i]": self.ndim - 1} if self.ndim > 1 else {"an item": None}
            costs = [
                f"{size_text(_arrays.decoded_nbytes(*sizes, axis=axis))} for {what}" for what, axis in axes.items()
            ]
            decoded.append(("decoded", ", ".join(costs)))
        cratio, items = f"{self.cratio:.2f}x", f"{self.nbytes / (self.cbytes or 1):.2f}x"
        return [
            ("type", type(self).__name__), ("shape", self.shape), ("chunks", self.chunks), ("blocks", self.blocks),
            ("dtype", self.dtype), ("nbytes", size_text(self.nbytes)), ("cbytes", size_text(self.cbytes)),
            ("cratio", cratio if cratio == items else f"{cratio} with padding, {items} without"),
            *self._handle.described_file(),
            *decoded, ("cparams", self.cparams), *_arrays.described_choice(self), ("dparams", self.dparams),
            *self._handle.described_checks(),
        ]  # fmt: skip

    def __repr__(self) -> str:
        return _arrays.one_line(self)

    def _repr_html_(self) -> str:
        return _arrays.html(self)

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise TypeError("len() of unsized object")
        return shape[0]

    # ------------------------------------------------------------ reading
    def __getitem__(self, key: Any) -> Any:
        """Items as a NumPy array, by any key that NumPy takes; the name of a field gives an `NDField`.

        Examples
        --------
        >>> import numpy as np
        >>> import blosc2
        >>> array = blosc2.asarray(np.arange(12).reshape(3, 4))
        >>> array[1, 2:], array[[0, 2], -1]
        (array([6, 7]), array([ 3, 11]))
        """
        handle = self._handle
        version: Version = handle.array  # type: ignore[assignment]  # set by `_of`
        try:
            items = read_basic(version, key, handle)
            if items is not None:
                return items
            if type(key) is str:
                return self._field(key)
            return _indexing.read_other(version, key, handle.nthreads)
        except IndexError:
            return handle.once_grown(_indexing.read_other, key)
        except FormatError as error:
            handle.explain(error)
            raise

    def read(self, key: Any = ..., out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Read the items of a key into an existing array.

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
        handle = self._handle
        if type(key) is str:
            found: np.ndarray[Any, Any] = self._field(key).read(out=out)
            return found
        try:
            version: Version = handle.array  # type: ignore[assignment]
            items = read_basic_into(version, key, handle.nthreads, out)
            return _indexing.read_other(version, key, handle.nthreads, out) if items is None else items
        except IndexError:
            return handle.once_grown(_indexing.read, key, out)
        except FormatError as error:
            handle.explain(error)
            raise

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
        handle = self._handle
        try:
            return _indexing.read_many(handle.array, keys, handle.nthreads, out)  # type: ignore[arg-type]
        except IndexError:
            return handle.once_grown(_indexing.read_many, keys, out)

    def _snapshot(self) -> Snapshot:
        return _arrays.Snapshot.of(self._handle)

    def _reduced(self, name: str, axis: Any, keepdims: bool, absent: dict[str, Any], *, field: str | None = None,
                 **options: Any) -> Any:  # fmt: skip
        if "mean" in absent:
            raise TypeError(f"{name} has no keyword 'mean': it finds the mean in one pass, and so saves nothing by it")
        if absent:
            raise TypeError(
                f"{name} has no keyword {next(iter(absent))!r}: it gives an array of NumPy, which "
                f"blosc2.asarray(a.{name}(...), urlpath=...) compresses"
            )
        return _arrays.reduced(self._handle, name, field, axis, keepdims, options)

    def _read_all(self) -> np.ndarray[Any, Any]:
        return _indexing.read(self._handle.array, ..., self._handle.nthreads)  # type: ignore[arg-type]

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
        return _indexing.view_items(self._handle.array, key)  # type: ignore[arg-type]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            if dtype is not None and np.dtype(dtype) != self.dtype:
                raise ValueError(f"items of {self.dtype} cannot be had as {np.dtype(dtype)} without a copy")
            return self.view()
        result = self._read_all()
        return result if dtype is None else result.astype(dtype, copy=False)

    def __arrow_array__(self, type: Any = None) -> Any:
        """What ``pyarrow.array`` and ``pyarrow.table`` ask for; numbers are not copied once they are decoded."""
        from blosc2._options import needed

        pa = needed("pyarrow", "arrow", "an array of Arrow")
        if self.ndim != 1:
            raise ValueError(f"an array of Arrow has one axis, not {self.ndim}: pyarrow.array(array[...].ravel())")
        try:
            items = self._memory()
        except BufferError:
            items = self._read_all()
        if self.dtype.kind == "U":
            self._check_characters(items)
        elif self.dtype.kind in "mM":
            unit, step = np.datetime_data(self.dtype)
            if step != 1:  # pyarrow takes the unit alone
                items = items.astype(f"{self.dtype.kind}8[{unit}]")
        # pyarrow has numbers in the byte order of the machine only.
        return pa.array(items.astype(items.dtype.newbyteorder("="), copy=False), type=type)

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
        """Refuse numbers that are not characters, as in a damaged file: NumPy raises a SystemError for some."""
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
            if self.size != 1:
                raise ValueError(f"item() needs an array of size 1, this one has {self.size} items")
            found = self[...]
        if self.dtype.kind == "U":
            self._check_characters(found)
        return found.item()

    def tolist(self) -> Any:
        """Return all items as nested lists of Python values.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(4, shape=(2, 2)).tolist()
        [[0, 1], [2, 3]]
        """
        return self[...].tolist()

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError("only an array of one integer without axes is an index")
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError("The truth value of an array with more than one element is ambiguous")
        return bool(self.item())

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
            cratio, special, item, stored = chunk_description(self._handle, nchunk)
            value = None if item is None else repeated_item(item, self.dtype)
            yield ChunkInfo(nchunk, coords, cratio, special, value, stored)

    def _field(self, name: str) -> NDField:
        if self.dtype.names is None:
            if name.isidentifier():
                raise ValueError(f"the array is not structured: it has no field {name!r}")
            raise NotImplementedError(f"{name!r}: string expressions are not part of this package; use NumPy on a[:]")
        return NDField(self, name)
