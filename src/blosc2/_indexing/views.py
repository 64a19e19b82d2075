"""Views of an array that are indexed themselves: its fields, and each axis by a key of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from blosc2 import _indexing
from blosc2._core.ndim.grid_read import check_out
from blosc2._indexing.reducible import Reducible
from blosc2.exceptions import some_of
from blosc2.info import dtype_text
from blosc2.schunk import SChunk


class FieldViews(Mapping[str, "NDField"]):
    """Field name -> view; assign through a view."""

    def __init__(self, views: dict[str, NDField]) -> None:
        self._views = MappingProxyType(views)

    def __getitem__(self, name: str) -> NDField:
        _check_field(name, self._views)
        return self._views[name]

    def __repr__(self) -> str:
        return repr(dict(self._views))

    def __setitem__(self, name: str, value: Any) -> None:
        raise TypeError(
            f'fields cannot be replaced: assign through the field view, e.g. array.fields["{name}"][:] = values'
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)


def _check_field(name: str, names: Collection[str]) -> None:
    if name not in names:
        raise KeyError(f"no field {name!r}; there are {some_of(names) or 'none'}")


def _names_fields(key: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a key is the name of a field that items have, or a list of names."""
    if type(key) is str:
        _check_field(key, dtype.base.names or ())
        return True
    return type(key) is list and _indexing.is_names(key)


class NDField(Reducible):
    """A live view of one field of a structured array.

    The names of fields that this one has are keys. They give NumPy arrays, which are copies and cannot be changed:
    assign by the name, as in ``array["place"]["x"] = values``.
    """

    def __init__(self, array: Any, name: str) -> None:
        _check_field(name, array.dtype.names or ())
        self._array = array
        self.field = name
        self.dtype = array.dtype[name]

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis of the array."""
        shape: tuple[int, ...] = self._array.shape
        return shape

    @property
    def ndim(self) -> int:
        """Number of axes of the array."""
        ndim: int = self._array.ndim
        return ndim

    @property
    def schunk(self) -> SChunk:
        """The super-chunk of the array."""
        schunk: SChunk = self._array.schunk
        return schunk

    def __getitem__(self, key: Any) -> Any:
        found = np.asarray(self._items(key), order="C")
        if _names_fields(key, self.dtype):  # it looks like a view, and what is assigned to a copy would be lost
            found.flags.writeable = False
        return found

    def _items(self, key: Any) -> np.ndarray[Any, Any]:
        if _names_fields(key, self.dtype):
            return self._items(...)[key]  # type: ignore[no-any-return]
        return np.asarray(self._array[key])[self.field]  # which has no axes where one item is read

    def read(self, key: Any = ..., out: np.ndarray[Any, Any] | None = None) -> Any:
        """Read the items that a key selects, into `out` (of their shape and dtype) if given. All fields are decoded."""
        if out is None:
            return self[key]
        found = self._items(key)
        check_out(out, found.shape, found.dtype)
        out[...] = found
        return out

    def __setitem__(self, key: Any, value: Any) -> None:
        with self._array._handle.editing():
            if _names_fields(key, self.dtype):
                items = self[...]
                items[key] = value
                key, value = ..., items
            items = self._array[key]
            items[self.field] = value
            self._array[key] = items

    def _reduced(self, name: str, axis: Any, keepdims: bool, absent: dict[str, Any], **options: Any) -> Any:
        return self._array._reduced(name, axis, keepdims, absent, field=self.field, **options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("the items are compressed and cannot be had without a copy")
        result: np.ndarray[Any, Any] = self[...]
        return result if dtype is None else result.astype(dtype)

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        return (item[self.field] for item in self._array)

    def __repr__(self) -> str:
        return f"<NDField {self.field!r} {dtype_text(self.dtype)} of {self._array!r}>"


class OrthogonalIndex:
    """The result of `NDArray.oindex`: ``array.oindex[[0, 2], 1:3]`` selects rows 0 and 2 of columns 1 and 2.

    A key has a list, integer array, boolean array, slice or integer for each axis; an integer drops its axis. Axes that
    have none, at the end or where ``...`` stands, are taken whole. A list of such keys means a tuple of them.
    """

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        """The items that a key selects, as a NumPy array."""
        handle = self._array._handle
        try:
            return _indexing.read_orthogonal(handle.array, key, handle.nthreads)
        except IndexError:
            return handle.once_grown(_indexing.read_orthogonal, key)  # type: ignore[no-any-return]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Assign a value, or an array that fits, to the items that a key selects."""
        self._array._assign(_indexing.orthogonal_chunks, key, value)
