"""Dropping bits of numbers that a caller can do without: TRUNC_PREC for floats, INT_TRUNC for integers.

Both cut bits off, so an error is less than the last bit that stays. Floats of 2 bytes, of other byte orders and complex
numbers stay exact, which every precision allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._options import Encoding, Filter, Precision, with_metas
from blosc2._tuning.samples import Items

#: Bits of the fraction of floats, by their size.
_FRACTION: Final = {4: 23, 8: 52}
#: Items that are looked at together.
_TOGETHER: Final = 1 << 18


class Rounding(NamedTuple):
    """How many bits of each number stay, and the largest error of the items that were looked at."""

    precision: Precision
    bits: int  # of the fraction of a float; of an integer, all
    error: float  # absolute, or relative to an item

    @property
    def text(self) -> str:
        """What is stated of it."""
        kind, most = self.precision
        return f"rounded: {kind} errors are at most {most:.3g}, the largest is {self.error:.3g}"


def rounding_for(precision: Precision, items: Items) -> Rounding | None:
    """The rounding that keeps these items as exact as is asked for; None where all bits have to stay."""
    dtype = items.dtype
    if not dtype.isnative or ((dtype.kind, dtype.itemsize) not in (("f", 4), ("f", 8)) and dtype.kind not in "iu"):
        return None
    bits = max((_bits(precision, part) for part in _parts(items)), default=1)
    if bits >= _all_bits(dtype):
        return None
    error = 0.0
    for part in _parts(items):
        found = _error(precision.kind, part, _cut(part, bits))
        if not found <= precision.error:  # also where a NaN is none any more
            return None
        error = max(error, found)
    return Rounding(precision, bits, error)


def finer(encoding: Encoding, rounding: Rounding, items: Items) -> Encoding:
    """An encoding with a rounding, or with more bits where these items, which come later, need more."""
    found = rounding_for(rounding.precision, items)
    needed = _all_bits(items.dtype) if found is None else found.bits
    if needed <= rounding.bits:
        return encoding
    slot = encoding.filters.index(filter_for(items.dtype).value)
    metas = encoding.filters_meta
    return with_metas(encoding, (*metas[:slot], needed, *metas[slot + 1 :]))


def filter_for(dtype: np.dtype[Any]) -> Filter:
    """The filter that drops bits of such numbers."""
    return Filter.TRUNC_PREC if dtype.kind == "f" else Filter.INT_TRUNC


def _all_bits(dtype: np.dtype[Any]) -> int:
    return _FRACTION[dtype.itemsize] if dtype.kind == "f" else 8 * dtype.itemsize


def _parts(items: Items) -> Iterator[Items]:
    """The items, some at a time."""
    flat = items.reshape(-1) if items.flags.c_contiguous else items.ravel()
    for start in range(0, flat.size, _TOGETHER):
        yield flat[start : start + _TOGETHER]


def _bits(precision: Precision, items: Items) -> int:
    """Bits that have to stay."""
    if items.dtype.kind != "f":
        if precision.kind == "relative":
            return _all_bits(items.dtype)
        return max(_all_bits(items.dtype) - int(math.log2(min(precision.error, 2.0**52) + 1)), 1)
    if precision.kind == "relative":
        return max(math.ceil(-math.log2(precision.error)), 1)
    largest = np.abs(items[np.isfinite(items)]).max(initial=0)
    if not largest:
        return 1
    # A number from 2**e on is cut by less than 2**(e - bits).
    return max(math.frexp(float(largest))[1] - 1 - math.floor(math.log2(precision.error)), 1)


def _cut(items: Items, bits: int) -> Items:
    """The items as they are decoded."""
    raw = items.view(f"u{items.dtype.itemsize}")
    dropped = _all_bits(items.dtype) - bits
    mask = (1 << 8 * items.dtype.itemsize) - (1 << dropped)
    kept: Items = (raw & raw.dtype.type(mask)).view(items.dtype)
    return kept


def _error(kind: str, items: Items, cut: Items) -> float:
    """The largest error; infinite where a number became infinite, or a NaN a number."""
    if items.dtype.kind != "f":
        return float((items - cut).max(initial=0))
    finite = np.isfinite(items)
    if not np.array_equal(finite, np.isfinite(cut)) or not np.array_equal(np.isnan(items), np.isnan(cut)):
        return math.inf
    values = items[finite].astype("f8")
    errors = np.abs(values - cut[finite])
    if kind == "relative":
        given = values != 0
        errors = errors[given] / np.abs(values[given])
    return float(errors.max(initial=0))
