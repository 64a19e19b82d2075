"""Where values of a dataset go in variables that exist: regions, and what has to be the same."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from xarray import conventions

# Attributes that say how numbers are meant: values that are added must have the same.
_MEANINGS: Final = ("units", "calendar", "scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")


def checked_region(
    dataset: Any,
    region: Any,
    coordinates: Mapping[str, Any],
    lengths: Mapping[str, int],
    append_dim: Hashable | None,
    where: str,
) -> dict[Any, slice]:
    """The slices of a region, with start and stop.

    Parameters
    ----------
    dataset : Dataset
        What is written there.
    region : mapping or "auto"
        Slices by dimension; "auto" finds where the coordinates of the dataset are among those of the store.
    coordinates : mapping
        The stored variables that have the names of dimensions.
    lengths : mapping
        Of all stored dimensions.
    append_dim : optional
    where : str
        For errors.
    """
    if region == "auto":
        region = dict.fromkeys(dataset.dims, "auto")
    if not isinstance(region, Mapping):
        raise TypeError(f"region must be 'auto' or a dict of slices by dimension, not {type(region).__name__}")
    found: dict[Any, slice] = {}
    for dim, part in region.items():
        if dim not in dataset.dims:
            raise ValueError(f"region names {dim!r}, which is no dimension of the dataset: {list(dataset.dims)}")
        if dim == append_dim:
            raise ValueError(f"{dim!r} is named by region and by append_dim: one of both")
        length = dataset.sizes[dim]
        if isinstance(part, str) and part == "auto":
            part = _found_region(dim, dataset, coordinates.get(dim), lengths.get(dim, length), where)
        if not isinstance(part, slice):
            raise TypeError(f"region must have slices, or 'auto', not {part!r} for {dim!r}")
        if part.step not in (None, 1):
            raise ValueError(f"region: slices have a step of 1, not {part.step} for {dim!r}")
        start = 0 if part.start is None else part.start
        stop = start + length if part.stop is None else part.stop
        if start < 0 or stop < 0:
            raise ValueError(f"region: positions count from the start, unlike {part} for {dim!r}")
        if stop - start != length:
            raise ValueError(f"region: {dim!r} has {length} items in the dataset, and {max(stop - start, 0)} in {part}")
        found[dim] = slice(start, stop)
    beside = [name for name, variable in dataset.variables.items() if found and not set(found) & set(variable.dims)]
    if beside:
        raise ValueError(
            f"{beside} have none of the dimensions of the region, {list(found)}, so they would be written as a whole: "
            f"write dataset.drop_vars({beside!r})"
        )
    return found


def _found_region(dim: str, dataset: Any, stored: Any, whole: int, where: str) -> slice:
    """Where the coordinates of a dataset are among those of the store. Without any, only a whole dimension is found."""
    if dim not in dataset.variables or stored is None:
        if dataset.sizes[dim] != whole:
            what = "the dataset" if stored is not None else "the store"
            raise ValueError(
                f"{where}: {what} has no coordinate {dim!r} to find, and {dataset.sizes[dim]} of {whole} items would "
                "be written: name a slice for it in region"
            )
        return slice(0, whole)
    index = conventions.decode_cf_variable(dim, stored).to_index()
    if not index.is_unique:
        raise ValueError(
            f"{where}: the coordinate {dim!r} has equal values, among which none can be found: name a slice for it in "
            "region"
        )
    positions = index.get_indexer(dataset.variables[dim].to_index())
    if len(positions) and (positions < 0).any():
        raise KeyError(f"{where}: not all values of the coordinate {dim!r} are there")
    if (np.diff(positions) != 1).any():
        raise ValueError(
            f"{where}: the values of the coordinate {dim!r} are there, but not beside each other in this order"
        )
    start = int(positions[0]) if len(positions) else 0
    return slice(start, start + len(positions))


def fit_to_existing(
    name: str,
    variable: Any,
    stored: Any,
    box: Mapping[Any, slice],
    append_dim: Hashable | None,
    where: str,
    encode: Any,
) -> Any:
    """A variable with the encoding and the order of dimensions of the one that exists.

    Raises
    ------
    ValueError
        Dimensions, lengths, types or attributes differ, so that the values would mean something else.
    """
    what = f"{where}: {name!r}"
    if set(variable.dims) != set(stored.dims):
        raise ValueError(f"{what} has the dimensions {stored.dims}, not {variable.dims}")
    variable = variable.transpose(*stored.dims)
    for dim, length in variable.sizes.items():
        stop = box[dim].stop if dim in box else length
        is_whole = dim in box or length == stored.sizes[dim]
        if dim != append_dim and (stop > stored.sizes[dim] or not is_whole):
            raise ValueError(
                f"{what} has {stored.sizes[dim]} items along {dim!r}, and {stop} would be written; append_dim makes it "
                "longer, region names a part, mode='w' replaces it"
            )
    decoded = conventions.decode_cf_variable(name, stored)
    _check_kind(variable, decoded, what)
    variable = variable.copy(deep=False)
    variable.encoding = {
        key: value for key, value in decoded.encoding.items() if key not in ("chunks", "blocks", "cparams")
    }
    packed = "scale_factor" in decoded.encoding or "add_offset" in decoded.encoding
    if variable.dtype.kind in "iu" and stored.dtype.kind in "iu" and not packed and not _holds(variable, stored.dtype):
        raise ValueError(f"{what} is stored as {stored.dtype}, which cannot hold all values to write")
    if stored.dtype.kind in "US":
        variable.encoding.pop("dtype", None)  # it would cut texts
    encoded = encode(name, variable)
    for meaning in _MEANINGS:
        new, old = encoded.attrs.get(meaning), stored.attrs.get(meaning)
        if new is not None and not _same(new, old):
            raise ValueError(
                f"{what} has {meaning}={old!r}, and the values to write have {new!r}: convert them, or use mode='w'"
            )
    if not _holds(encoded, stored.dtype):
        raise ValueError(
            f"{what} is stored as {stored.dtype}, which cannot hold the values to write, of {encoded.dtype}"
        )
    return encoded


def check_unchanged(name: str, encoded: Any, stored: Any, append_dim: Hashable, where: str) -> None:
    """Refuse another coordinate along a dimension that does not grow: it would name older values anew.

    Parameters
    ----------
    encoded, stored : Variable
        What would be written, as it is stored, and what there is, of the same shape.
    """
    new, old = encoded.values, stored.values
    if not np.array_equal(new, old, equal_nan=new.dtype.kind in "fc" and old.dtype.kind in "fc"):
        raise ValueError(
            f"{where}: the coordinate {name!r} does not have the dimension append_dim={append_dim!r}, and differs from "
            "the stored one, which names older values, too: make both the same, or leave it out with drop_vars"
        )


def _check_kind(variable: Any, decoded: Any, what: str) -> None:
    """Refuse numbers that an encoding would round, such as fractions where there are integers."""
    new, old = variable.dtype, decoded.dtype
    numbers = new.kind in "?biufc" and old.kind in "?biufc"
    if numbers and not np.can_cast(new, old, "same_kind"):
        raise ValueError(f"{what} has values of {old}, and those to write are of {new}: convert them with astype")
    if not numbers and new.kind != old.kind and not (new.kind in "OUST" and old.kind in "OUST"):
        raise ValueError(f"{what} has values of {old}, and those to write are of {new}")


def _same(one: Any, other: Any) -> bool:
    if other is None:
        return False
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _same_epoch(one, other)
    return bool(np.array_equal(np.asarray(one), np.asarray(other))) or bool(one != one and other != other)


def _same_epoch(one: str, other: str) -> bool:
    """Whether two units count the same time from the same moment, however that is written."""
    try:
        (unit, start), (other_unit, other_start) = one.split(" since "), other.split(" since ")
        return unit == other_unit and bool(pd.Timestamp(start) == pd.Timestamp(other_start))
    except (ValueError, TypeError):
        return False


def _holds(encoded: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a dtype can hold encoded values."""
    if np.can_cast(encoded.dtype, dtype, "safe"):
        return True
    if encoded.dtype.kind not in "iu" or dtype.kind not in "iu":
        return encoded.dtype.kind in "fc" and np.can_cast(encoded.dtype, dtype, "same_kind")
    if not encoded.size:
        return True
    low, high = int(encoded.min()), int(encoded.max())
    limits = np.iinfo(dtype)
    return low >= limits.min and high <= limits.max
