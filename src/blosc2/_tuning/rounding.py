"""Dropping bits of numbers that a caller can do without, before they are compressed.

A number becomes the nearest one with fewer bits, and of two that are as near the even one, so that errors have both
signs. Which one depends on nothing but the number. What is NaN or infinite, would become so, or counts as missing stays
as it is; so do floats of 2 bytes, of other byte orders and complex numbers, which every precision allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from blosc2._options import Precision
from blosc2._tuning.samples import Items
from blosc2.storage import AutoCParams, TunedCParams, asked_for

#: Bits of the fraction of floats, by their size.
_FRACTION: Final = {4: 23, 8: 52}
#: Attributes whose values stand for what is missing.
_OF_MISSING: Final = ("_FillValue", "missing_value", "hdf5_fillvalue")
#: Attributes of numbers that are counted in other units than the error is, or are no measured ones.
_OF_CODES: Final = {
    "scale_factor", "add_offset", "scl_slope", "flag_values", "flag_masks", "hdf5_enum", "ColorMap", "palette",
}  # fmt: skip
#: The attribute with the names of axes.
_DIMENSIONS: Final = "_ARRAY_DIMENSIONS"


def is_rounded(precision: Precision | None, dtype: np.dtype[Any]) -> bool:
    """Whether numbers of this type may lose bits."""
    if precision is None or not dtype.isnative:
        return False
    if dtype.kind == "f":
        return dtype.itemsize in _FRACTION
    return dtype.kind in "iu" and precision.kind == "absolute" and precision.error >= 1


def rounded(items: Items, precision: Precision) -> Items:
    """Numbers for which `is_rounded`, with the bits that they need."""
    items, exact = np.asarray(items), precision.exact
    if items.dtype.kind != "f":
        made, kept = _integers(items, precision.error), np.zeros(items.shape, bool)
        if items.dtype.kind == "i":  # what netCDF fills with where nothing was written: NC_FILL_SHORT and others
            exact = (*exact, np.iinfo(items.dtype).min + (2 if items.dtype.itemsize == 8 else 1))
    else:
        with np.errstate(all="ignore"):
            made = (_to_bits if precision.kind == "relative" else _to_steps)(items, precision.error)
            kept = ~np.isfinite(items) | ~np.isfinite(made)
            if precision.kind == "relative":  # numbers with fewer bits than others
                kept |= np.abs(items) < np.finfo(items.dtype).tiny
    with np.errstate(all="ignore"):
        for value in exact:
            kept |= (items == value) | (made == value)
    return np.where(kept, items, made)


def _to_bits(items: Items, error: float) -> Items:
    """Floats with so many bits of their fraction that the relative error is at most this one."""
    dropped = _FRACTION[items.dtype.itemsize] - max(math.ceil(-math.log2(error)) - 1, 1)
    if dropped <= 0:
        return items
    raw = items.view(f"u{items.dtype.itemsize}")
    number = raw.dtype.type
    half = number((1 << dropped - 1) - 1) + (raw >> number(dropped) & number(1))
    made: Items = (raw + half & ~number((1 << dropped) - 1)).view(items.dtype)
    return made


def _to_steps(items: Items, error: float) -> Items:
    """Floats as multiples of the largest power of 2 with which the error is at most this one."""
    limits = np.finfo(items.dtype)
    exponent = min(math.frexp(error)[1], int(limits.maxexp) - 2)
    if exponent < limits.minexp:
        return items
    step = items.dtype.type(2.0**exponent)
    made: Items = np.rint(items / step) * step
    return made


def _integers(items: Items, error: float) -> Items:
    """Integers as multiples of such a power of 2; the last ones, whose multiple does not fit, stay."""
    number = items.dtype.type
    bits = min(math.frexp(error)[1], 8 * items.dtype.itemsize - 2)
    step, half = number(1 << bits), number(1 << bits - 1)
    down = items & ~number((1 << bits) - 1)
    rest = items - down
    up = (rest > half) | ((rest == half) & ((items >> number(bits) & number(1)) == 1))
    fits = down <= np.iinfo(items.dtype).max - int(step)
    with np.errstate(over="ignore"):
        return np.where(up, np.where(fits, down + step, items), down)


def largest_error(items: Items, precision: Precision) -> float:
    """By how much the farthest of these items will be wrong."""
    if items.dtype.kind == "f":
        items = items[np.isfinite(items)]
    made = rounded(items, precision)
    if items.dtype.kind != "f":
        return float(np.where(made > items, made - items, items - made).max(initial=0))
    values = items.astype("f8")
    errors = np.abs(values - made)
    if precision.kind == "relative":
        errors = errors[values != 0] / np.abs(values[values != 0])
    return float(errors.max(initial=0))


def stated(precision: Precision, error: float) -> str:
    """What is said of rounding, and of the largest error of the items that were looked at."""
    return f"rounded: {precision.kind} errors are at most {precision.error:.3g}, the largest is {error:.3g}"


def sparing(cparams: Any, attributes: Mapping[str, Any], name: str | None = None) -> Any:
    """Compression parameters that round an array with these attributes where its numbers are measured ones alone.

    What stands for missing ones stays exact, and so do packed numbers and flags; with a name, also coordinates.
    """
    found: AutoCParams | TunedCParams | None = cparams if isinstance(cparams, TunedCParams) else asked_for(cparams)
    if found is None or found.precision is None:
        return cparams
    if not _OF_CODES.isdisjoint(attributes) or (name is not None and _is_coordinate(name, attributes)):
        return replace(found, precision=None)
    given = (np.asarray(attributes[each], object).reshape(-1) for each in _OF_MISSING if each in attributes)
    values = (value.item() if isinstance(value, np.generic) else value for each in given for value in each)
    exact = tuple(value for value in values if isinstance(value, (int, float)))
    return replace(found, precision=found.precision._replace(exact=exact))


def _is_coordinate(name: str, attributes: Mapping[str, Any]) -> bool:
    """Whether an array says where or when others are: as CF marks such variables, or by the name of its only axis."""
    units = attributes.get("units")
    is_place = isinstance(units, str) and (" since " in units or units.startswith(("degrees_", "degree_")))
    names = attributes.get(_DIMENSIONS)
    return (
        is_place or "axis" in attributes or "bounds" in attributes or name.endswith(("_bnds", "_bounds"))
        or (isinstance(names, (list, tuple)) and list(names) == [name])
    )  # fmt: skip
