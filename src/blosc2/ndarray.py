"""`NDArray`: an n-dimensional array of compressed chunks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from blosc2 import _arrays, _frames, _indexing
from blosc2._arrays import ChunkInfo as ChunkInfo  # as in the published package
from blosc2._arrays import ReadableArray
from blosc2._core.io.sharing import never_freed
from blosc2._core.ndim.geometry import Geometry
from blosc2._frames import FrameHandle
from blosc2._indexing import NDField as NDField  # other packages look for it here
from blosc2._options import OF_ARRAYS, explain_absent, shown_names
from blosc2.storage import ArrayKeywords, takes

if TYPE_CHECKING:
    from blosc2._indexing import Chunks, OrthogonalIndex, Version


def _are_rows(values: Any, layout: Any) -> bool:
    """Whether values are an array of rows for another one."""
    if not isinstance(values, NDArray):
        return False
    geometry, dtype = layout[:2]
    return (
        values.ndim == geometry.ndim > 0
        and values.shape[1:] == geometry.shape[1:]
        and (dtype.names is None or values.dtype.names is not None)
    )


@never_freed
@explain_absent(OF_ARRAYS)
class NDArray(ReadableArray):
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

    __slots__ = ()

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError("make arrays with blosc2.asarray, blosc2.zeros, blosc2.open and their like")

    @classmethod
    def _of(cls, handle: FrameHandle) -> NDArray:
        self = cls.__new__(cls)
        self._handle = handle
        if handle.array is None:
            handle.read_as_array()
        return self

    # ------------------------------------------------------------ as it is read
    @property
    def oindex(self) -> OrthogonalIndex:
        """Orthogonal indexing, to read and to assign: a key for each axis, and all their combinations."""
        return _indexing.OrthogonalIndex(self)

    def to_device(self, device: str, /, *, stream: Any = None) -> NDArray:
        """Return the array itself, whose items are always in CPU memory; `ValueError` for other devices."""
        if device != "cpu" or stream is not None:
            raise ValueError(f"items are read to memory of the CPU, not to {device!r}: hand on what was read")
        return self

    @property
    def T(self) -> NDArray:
        """A copy of a 2-d array with its axes swapped; see `blosc2.permute_dims` for other arrays."""
        if self.ndim != 2:
            raise ValueError(f"T only works for 2-dimensional arrays, not for {self.ndim} axes; see permute_dims")
        return NDArray._of(_arrays.permuted(self, (1, 0), {}))

    @property
    def mT(self) -> NDArray:
        """A copy with the last two axes swapped."""
        return NDArray._of(_arrays.permuted(self, _arrays.matrix_axes(self.ndim), {}))

    # ------------------------------------------------------------ writing
    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign items, by any key that NumPy takes, or all items of a field by its name."""
        if type(key) is str:
            self._field(key)[...] = value
            return
        self._assign(_arrays.chunks_from if isinstance(value, NDArray) else _indexing.chunks_with, key, value)

    def _assign(self, chunks_with: Callable[[Version, FrameHandle, Any, Any], Chunks], key: Any, value: Any) -> None:
        """Publish the chunks that a function gives for the current version, its handle, a key and a value."""
        handle = self._handle
        few = _arrays.few_rows(handle, key, value) if chunks_with is _indexing.chunks_with and handle.may_wait else None
        with handle.editing():
            if few is not None and handle.may_wait and _arrays.keep_items(handle, *few):
                return
            version: Version = handle.array  # type: ignore[assignment]
            try:
                chunks = chunks_with(version, handle, key, value)
            except IndexError:
                if not handle.has_grown():
                    raise
                version = handle.array  # type: ignore[assignment]
                chunks = chunks_with(version, handle, key, value)
            if chunks:
                update = _frames.FrameUpdate(version[2])
                update.replace_all(chunks)
                if _frames.INDEXES in update.vlmeta:
                    _frames.mark_indexes_stale(self, update)
                handle.publish(update)

    def resize(self, newshape: Any, axis: int | None = None) -> None:
        """Change the lengths of the axes. New items are zeros; items outside the new shape are dropped.

        In a file, old chunks stay where they are, unless an axis other than the first gets more or fewer chunks: then
        the file is rewritten.

        Parameters
        ----------
        newshape : int, tuple or list
            As many axes as the array has.
        axis : int, optional
            Change this axis alone: `newshape` is its length.

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
        handle = self._handle
        with handle.editing():
            geometry = handle.layout[0]
            new = _arrays.resized_geometry(geometry, newshape, axis)
            if new.shape == geometry.shape or (handle.may_wait and _arrays.keep_length(handle, new)):
                return
            update = _frames.FrameUpdate(_arrays.frame_of(handle, geometry))
            renumbered = _arrays.resize_update(handle, update, new)
            if _frames.INDEXES in update.vlmeta:
                _frames.mark_indexes_stale(self, update)
            handle.publish(update, fresh=renumbered)

    def append(self, values: Any, axis: int = 0) -> int:
        """Add items to the end of an axis, in one change; returns its new length.

        Parameters
        ----------
        values : array_like
            For an array of one axis, any number of items; as by `numpy.append`, more axes are flattened. For other
            arrays rows, as an array with the same axes (of which the first says how many rows) or, for one row, without
            the first.
        axis : int, default: 0
            Along another axis than the first, `values` has all axes of the array.

        Raises
        ------
        ValueError
            The rows do not fit, or the array has no axes.
        TypeError
            The items of the array have fields, and `values` are plain numbers or a table of pandas: take its
            ``to_records(index=False)``.

        Examples
        --------
        >>> import blosc2
        >>> array = blosc2.arange(3)
        >>> array.append([7, 8])
        5
        >>> table = blosc2.zeros((0, 2), dtype="i4", chunks=(100, 2))
        >>> table.append([[1, 2], [3, 4]]), table.append([5, 6])
        (2, 3)
        """
        handle = self._handle
        handle.require_writable()
        if axis:
            return self._append_along(axis, values)
        if type(values) is not np.ndarray and not _are_rows(values, handle.layout):
            # Not with the lock: they may read an array whose lock a thread has that reads this one.
            values = _arrays.items_of(handle, values, handle.layout[1], None)
        with handle.editing():
            rows: Any
            geometry: Geometry = handle.layout[0]
            dtype = handle.layout[1]
            if _are_rows(values, handle.layout):
                rows, chunks_with = values, _arrays.chunks_from
            else:
                rows = _arrays.rows_to_append(_indexing.as_items(values, dtype, None), geometry.shape)
                chunks_with = _indexing.chunks_with
            start = geometry.shape[0]
            if not len(rows):
                return start
            new = _arrays.resized_geometry(geometry, (start + len(rows), *geometry.shape[1:]))
            if handle.may_wait and isinstance(rows, np.ndarray) and _arrays.append_rows(handle, geometry, new, rows):
                return new.shape[0]
            frame = _arrays.frame_of(handle, geometry)
            update = _frames.FrameUpdate(frame)
            _arrays.resize_update(handle, update, new, filled=True)
            if rows.size:
                update.replace_all(chunks_with((new, dtype, frame), handle, slice(start, None), rows))
            if _frames.INDEXES in update.vlmeta:
                _frames.mark_indexes_stale(self, update)
            handle.publish(update)
            return new.shape[0]

    def _append_along(self, axis: int, values: Any) -> int:
        axis = normalize_axis_index(axis, self.ndim)
        if axis == 0:
            return self.append(values)
        handle = self._handle
        items = _arrays.items_of(handle, values, self.dtype, None)
        # A leaf is published with its store, and what is in a transaction with all of that.
        with handle.editing(), nullcontext() if handle.key or handle.in_transaction() else self.transaction():
            start = self.shape[axis]
            if items.ndim != self.ndim or any(
                a != b for n, (a, b) in enumerate(zip(items.shape, self.shape)) if n != axis
            ):
                wanted = (*self.shape[:axis], "n", *self.shape[axis + 1 :])
                raise ValueError(f"items to append along axis {axis} need the shape {wanted}, not {items.shape}")
            try:
                self.resize(start + items.shape[axis], axis=axis)
                self[(slice(None),) * axis + (slice(start, None),)] = items
            except BaseException:
                self.resize(start, axis=axis)
                raise
            return self.shape[axis]

    # ------------------------------------------------------------ as a whole
    def squeeze(self, axis: Any = None) -> NDArray:
        """Return a view without axes of length 1: all of them, or the given ones. See `blosc2.squeeze`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.ones((1, 3, 1)).squeeze(0).shape
        (3, 1)
        """
        return NDArray._of(_arrays.ViewHandle(self, _arrays.squeezed_axes(self.shape, axis)))

    @takes(ArrayKeywords)
    def reshape(self, shape: Any, c_order: bool = True, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
        """Make an array with the same items, in C order, and another shape. See `blosc2.reshape`.

        Parameters
        ----------
        shape : int or tuple of int
        c_order : bool
            Accepted for compatibility: items are in C order.
        **kwargs
            As for `blosc2.asarray`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6).reshape((2, 3))[1]
        array([3, 4, 5])
        """
        return NDArray._of(_arrays.reshaped(self, _arrays.shape_for(self.shape, shape, c_order), kwargs))

    @takes(ArrayKeywords)
    def astype(
        self, dtype: Any, casting: Any = "unsafe", copy: bool = True, **kwargs: Unpack[ArrayKeywords]
    ) -> NDArray:
        """Make an array with the items converted to another type. See `blosc2.astype`.

        Parameters
        ----------
        dtype : dtype
        casting : {'no', 'equiv', 'safe', 'same_kind', 'unsafe'}
            What conversions are allowed, as in NumPy.
        copy : bool
            False returns this array if it has the type already.
        **kwargs
            As for `blosc2.asarray`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(3).astype("f4")[:]
        array([0., 1., 2.], dtype=float32)
        """
        handle = _arrays.retyped(self, dtype, casting, copy, kwargs)
        return self if handle is None else NDArray._of(handle)

    def take(self, indices: Any, /, *, axis: int | None = None) -> NDArray:
        """Take items along an axis, by their indices, as a new array. See `blosc2.take`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).take([-1, 0], axis=1)[:]
        array([[2, 0],
               [5, 3]])
        """
        return NDArray._of(_arrays.taken(self, indices, axis, {}))

    @takes(ArrayKeywords)
    def copy(self, dtype: Any = None, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
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
        return NDArray._of(_arrays.copied(self, dtype, kwargs))

    @takes(ArrayKeywords)
    def save(self, urlpath: Any, contiguous: bool = True, **kwargs: Any) -> None:
        """Copy the array into a file; ``mode="w"`` replaces an existing file.

        Parameters
        ----------
        urlpath : str, bytes or path
        contiguous : bool
            Whether it becomes one file, and not a directory of chunk files.
        **kwargs
            As for `blosc2.asarray`.
        """
        self.copy(urlpath=urlpath, contiguous=contiguous, **kwargs)

    @takes(ArrayKeywords)
    def slice(self, key: Any, **kwargs: Unpack[ArrayKeywords]) -> NDArray:
        """Return the items that a key selects as a new `NDArray`.

        With slices and integers, the result is made chunk by chunk. Where a key of slices begins and ends between
        chunks, or at an end of the array, these are copied as they are stored, and the result has the chunks and blocks
        of the array; `chunks`, `blocks`, `layout` and `cparams` ask for something else. With index arrays or masks, all
        of its items are in memory once.

        Parameters
        ----------
        key : int, slice, tuple, array or mask
            As for indexing.
        **kwargs
            As for `blosc2.asarray`.
        """
        selection = None if type(key) is str else _indexing.basic_selection(key, self.shape)
        if selection is not None:
            return NDArray._of(_arrays.selected(self, selection, kwargs))
        items = np.asarray(self[key])
        plan = _arrays.plan_like(self, items.shape, items.dtype, kwargs)
        return NDArray._of(plan.write(plan.compressed(items)))

    def __dir__(self) -> list[str]:
        return shown_names(type(self), super().__dir__())
