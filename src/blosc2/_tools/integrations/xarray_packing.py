"""Numbers and times that are stored as integers: what does not fit is refused, where xarray would wrap it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray
from xarray.coding.times import CFDatetimeCoder, CFTimedeltaCoder
from xarray.coding.variables import CFScaleOffsetCoder

_CODED = ("units", "calendar", "scale_factor", "add_offset", "dtype", "_FillValue", "missing_value")


def is_of_dask(variable: Any) -> bool:
    """Whether an array of dask holds the values of a variable."""
    return variable.chunks is not None and type(variable.data).__module__.partition(".")[0] == "dask"


def checked_to_fit(name: str, variable: Any) -> Any:
    """A variable whose values fit the integers that its encoding names. Those of dask are checked when computed.

    Raises
    ------
    ValueError
        A value is out of range, or NaN or NaT without a ``_FillValue``.
    """
    dtype = variable.encoding.get("dtype")
    if dtype is None or dtype is str or variable.dtype.kind not in "iufmM" or np.dtype(dtype).kind not in "iu":
        return variable
    if variable.dtype.kind in "mM" and np.dtype(dtype) == np.int64:
        return variable  # holds all of them, and NaT
    encoding = {key: variable.encoding[key] for key in _CODED if variable.encoding.get(key) is not None}
    limits = np.iinfo(_meant(np.dtype(dtype), variable.encoding.get("_Unsigned")))
    if not is_of_dask(variable):
        _check(variable.values, name, encoding, limits)
        return variable
    data = variable.data
    checked = data.map_blocks(_check, name, encoding, limits, dtype=data.dtype, meta=data._meta)
    found = variable.copy(deep=False, data=checked)
    found.encoding = variable.encoding
    return found


def _meant(dtype: np.dtype[Any], unsigned: Any) -> np.dtype[Any]:
    """The integers that CF takes those of a dtype for."""
    kind = {"true": "u", "false": "i"}.get(str(unsigned).lower(), dtype.kind)
    return np.dtype(f"{kind}{dtype.itemsize}")


def _check(values: Any, name: str, encoding: dict[str, Any], limits: Any) -> Any:
    """The same values, if they fit."""
    if not values.size:
        return values
    what = f"variable {name!r}"
    # What xarray stores for NaN. It checks itself that it fits.
    fill = encoding.get("_FillValue", encoding.get("missing_value"))
    if (fill is None or pd.isnull(fill)) and values.dtype.kind in "fmM" and pd.isnull(values).any():
        missing, other = ("NaN", "a floating dtype") if values.dtype.kind == "f" else ("NaT", "int64")
        raise ValueError(
            f"{what} has {missing}, which {limits.dtype} cannot hold: give an encoding with a _FillValue, or {other}"
        )
    numbers = _counted(values, name, encoding) if values.dtype.kind in "mM" else values
    if not numbers.size:
        return values
    ends = np.array([np.fmin.reduce(numbers, axis=None), np.fmax.reduce(numbers, axis=None)], numbers.dtype)
    if numbers.dtype.kind == "f" and np.isnan(ends).any():
        return values  # nothing else
    stored = np.round(_scaled(ends, encoding))
    if not all(_is_within(end, limits) for end in stored):
        raise ValueError(
            f"{what}: its values, from {ends[0]} to {ends[1]}, would be stored as {stored[0]} to {stored[1]}, and "
            f"{limits.dtype} has {limits.min} to {limits.max}: give an encoding that can hold them, with another "
            "dtype, scale_factor or add_offset (what was read from a file keeps its own until drop_encoding())"
        )
    return values


def _counted(times: Any, name: str, encoding: dict[str, Any]) -> Any:
    """The times but for NaT as xarray counts them, before it cuts these numbers to the dtype."""
    coder = CFDatetimeCoder() if times.dtype.kind == "M" else CFTimedeltaCoder()
    how: dict[str, Any] = {key: encoding[key] for key in ("units", "calendar") if key in encoding}
    how["dtype"] = np.dtype("i8")
    known = xarray.Variable(("time",), times[~np.isnat(times)], {}, how)
    return coder.encode(known, name=name).values if known.size else known.values


def _scaled(ends: Any, encoding: dict[str, Any]) -> Any:
    """Numbers as xarray scales them: in the same precision, as it may round up to what does not fit."""
    is_filled = "_FillValue" in encoding or "missing_value" in encoding
    encoding = {key: value for key, value in encoding.items() if key not in ("units", "calendar")}
    if ends.dtype.kind in "iu" and is_filled and ("scale_factor" in encoding or "add_offset" in encoding):
        ends = ends.astype("f8")
    return CFScaleOffsetCoder().encode(xarray.Variable(("end",), ends, {}, encoding)).values


def _is_within(number: Any, limits: Any) -> bool:
    return bool(np.isfinite(number)) and limits.min <= int(number) <= limits.max


def of_its_dtype(name: str, variable: Any) -> Any:
    """A variable of dask whose blocks have the dtype that it states: dates that xarray counts stay int64 in them."""
    if variable.dtype.kind not in "iu" or not is_of_dask(variable):
        return variable
    data = variable.data
    cast = data.map_blocks(_cast, name, data.dtype, dtype=data.dtype, meta=data._meta)
    return variable.copy(deep=False, data=cast)


def _cast(block: Any, name: str, dtype: np.dtype[Any]) -> Any:
    if block.dtype == dtype:
        return block
    cast = block.astype(dtype)
    if not np.array_equal(cast, block):
        raise ValueError(f"variable {name!r} has values that {dtype} cannot hold: give an encoding with another dtype")
    return cast
