"""How dimension names and attributes are kept: as zarr 2 keeps them, in an attribute of the array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from blosc2._tools.converting.items import DIMENSIONS, are_names
from blosc2.exceptions import UnsupportedValueError

# How netCDF 4 keeps dimensions in HDF5.
_OF_NETCDF: Final = ("_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_NCProperties")
# Attributes of CF that are one number.
_SINGLE: Final = ("_FillValue", "missing_value", "scale_factor", "add_offset", "valid_min", "valid_max")
# Single values of these dtypes become those of Python, and come back with the same dtype.
_PLAIN: Final = tuple(map(np.dtype, ("?", "i8", "f8")))


def names_of(key: str, ndim: int, attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the axes of an array, for a key and its attributes.

    An array without names gets some of its own, so that no axis is taken for that of another array.

    Examples
    --------
    >>> names_of("/t/pressure", 2, {"_ARRAY_DIMENSIONS": ["time", "x"]})
    ('time', 'x')
    >>> names_of("/t/pressure", 2, {})
    ('pressure_0', 'pressure_1')
    """
    name = key.rpartition("/")[2]
    own = tuple(f"{name}_{axis}" for axis in range(ndim))
    given: Any = attributes.get(DIMENSIONS)
    if not are_names(given, ndim):
        return own
    found = tuple(mine if theirs is None else theirs for theirs, mine in zip(given, own, strict=True))
    return found if len(set(found)) == ndim else own


def stored_attributes(attributes: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Attributes as they are stored: single NumPy values as 0-d arrays, so that their dtype comes back.

    Raises
    ------
    UnsupportedValueError
        An attribute that has no name, or a value that cannot be stored. A `TypeError`.
    """
    kept: dict[str, Any] = {}
    for name, value in attributes.items():
        if not isinstance(name, str):
            raise UnsupportedValueError(f"attribute {name!r} of {where}: names of attributes are strings")
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if isinstance(value, np.ndarray):
            if value.dtype == object:
                value = value.tolist()
            elif (not value.shape and value.dtype in _PLAIN) or (not value.shape and value.dtype.kind in "US"):
                value = value.item()
        if not _is_storable(value):
            raise UnsupportedValueError(
                f"attribute {name!r} of {where}: a {type(value).__name__} cannot be stored; give numbers, texts, "
                "bytes, or lists, tuples, dicts and arrays of these"
            )
        kept[name] = value
    return kept


def _is_storable(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_storable, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_storable(inner) for name, inner in value.items())
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "?bBiufcUS"
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic))


def shown_attributes(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that were stored: 0-d arrays as single values again, and nothing that netCDF added."""
    scale = stored.get("CLASS") in ("DIMENSION_SCALE", b"DIMENSION_SCALE")
    hidden = {DIMENSIONS, *_OF_NETCDF, *(("CLASS", "NAME") if scale else ())}
    return {name: _shown(name, value) for name, value in stored.items() if name not in hidden}


def _shown(name: str, value: Any) -> Any:
    # netCDF files have arrays of one item where CF means that item.
    single = isinstance(value, np.ndarray) and (not value.shape or (value.shape == (1,) and name in _SINGLE))
    return value.reshape(())[()] if single else value
