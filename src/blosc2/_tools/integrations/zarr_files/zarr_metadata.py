"""What zarr's metadata say of an array of this package: formats 2 and 3, written without zarr."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._tools.converting.items import DIMENSIONS
from blosc2._tools.integrations.zarr_files.chunk_codec import NAME
from blosc2.ndarray import NDArray

_NUMBERS: Final = "biufc"


class DataType(NamedTuple):
    """How zarr 3 calls a dtype, and a new item.

    Attributes
    ----------
    name : str or dict
    fill_value : object
        Zero, as metadata say it.
    endian : str or None
        The order of bytes; None if the dtype has none.
    """

    name: Any
    fill_value: Any
    endian: str | None


def data_type(dtype: np.dtype[Any]) -> DataType:
    """The name of a dtype in zarr 3. `ValueError` if zarr 3 has no such items."""
    kind, endian = dtype.kind, None
    if dtype.itemsize > 1 and kind not in "SV":
        endian = "big" if dtype.newbyteorder("=") != dtype else "little"
    if kind in _NUMBERS and dtype.itemsize <= 16 and dtype.name not in ("float128", "longdouble"):
        fill: Any = {"b": False, "f": 0.0, "c": [0.0, 0.0]}.get(kind, 0)
        return DataType(dtype.name, fill, endian)
    if kind in "mM":
        unit, step = np.datetime_data(dtype)
        name = "numpy.datetime64" if kind == "M" else "numpy.timedelta64"
        return DataType({"name": name, "configuration": {"unit": unit, "scale_factor": step}}, 0, endian)
    configuration: dict[str, Any] = {"length_bytes": dtype.itemsize}
    if kind == "U":
        return DataType({"name": "fixed_length_utf32", "configuration": configuration}, "", endian)
    if kind == "S":
        return DataType({"name": "null_terminated_bytes", "configuration": configuration}, "", None)
    zeros = base64.b64encode(bytes(dtype.itemsize)).decode()
    if dtype.names is None and dtype.kind == "V":
        return DataType({"name": "raw_bytes", "configuration": configuration}, zeros, None)
    fields = [[name, _field(dtype, name)] for name in dtype.names or ()]
    if not fields or np.dtype([(name, dtype[name]) for name in dtype.names or ()]) != dtype:
        raise ValueError(f"zarr has no items of the dtype {dtype}, with gaps between fields")
    return DataType({"name": "structured", "configuration": {"fields": fields}}, zeros, None)


def _field(dtype: np.dtype[Any], name: str) -> Any:
    field = dtype[name]
    if field.subdtype is not None:
        raise ValueError(f"zarr has no items with fields of several values, as {name!r} of {dtype}")
    found = data_type(field)
    if found.endian == "big":
        raise ValueError(f"zarr 3 has no fields of big-endian numbers, as {name!r} of {dtype}: zarr_format=2 has")
    return found.name


def old_dtype(dtype: np.dtype[Any]) -> Any:
    """A dtype as zarr 2 writes it. `ValueError` if zarr has no such items."""
    if dtype.names is None:
        return dtype.str
    if any(dtype[name].subdtype is not None or dtype[name].names is not None for name in dtype.names):
        raise ValueError(
            f"zarr 2 has no items with fields of several values or fields of their own, as some of {dtype}"
        )
    if np.dtype([(name, dtype[name]) for name in dtype.names]) != dtype:
        raise ValueError(f"zarr has no items of the dtype {dtype}, with gaps between fields")
    return [[name, old_dtype(dtype[name])] for name in dtype.names]


def array_documents(array: NDArray, attributes: dict[str, Any], zarr_format: int) -> Iterator[tuple[str, str]]:
    """Name and text of each metadata document of an array. `ValueError` if zarr cannot describe it."""
    # Zarr has no chunks of no items; an array without items has nothing to decode.
    chunks = [max(1, n) for n in array.chunks]
    codec: dict[str, Any] = {
        "chunks": chunks, "blocks": [max(1, n) for n in array.blocks], "itemsize": array.dtype.itemsize,
    }  # fmt: skip
    if zarr_format == 2:
        # With a value for missing chunks, xarray takes all items that are equal to it as missing.
        described: dict[str, Any] = {
            "zarr_format": 2, "shape": list(array.shape), "chunks": chunks, "dtype": old_dtype(array.dtype),
            # As a filter, which VirtualiZarr takes, too.
            "compressor": None, "fill_value": None, "order": "C", "filters": [{"id": NAME, **codec}],
            "dimension_separator": ".",
        }  # fmt: skip
        yield ".zarray", text_of(described)
        yield ".zattrs", text_of(attributes)
        return
    found = data_type(array.dtype)
    endian = {} if found.endian is None else {"configuration": {"endian": found.endian}}
    described = {
        "zarr_format": 3, "node_type": "array", "shape": list(array.shape), "data_type": found.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": found.fill_value,
        "codecs": [{"name": "bytes", **endian}, {"name": NAME, "configuration": codec}],
    }  # fmt: skip
    names = attributes.get(DIMENSIONS)
    if isinstance(names, list) and len(names) == array.ndim and all(isinstance(name, str) for name in names):
        described["dimension_names"] = names
        attributes = {name: value for name, value in attributes.items() if name != DIMENSIONS}
    yield "zarr.json", text_of({**described, "attributes": attributes})


def group_documents(attributes: Mapping[str, Any], zarr_format: int) -> Iterator[tuple[str, str]]:
    """The same for a group."""
    if zarr_format == 2:
        yield ".zgroup", text_of({"zarr_format": 2})
        yield ".zattrs", text_of(attributes)
    else:
        yield "zarr.json", text_of({"zarr_format": 3, "node_type": "group", "attributes": attributes})


def text_of(value: Any) -> str:
    """JSON without two braces in a row, by which readers of references know what they have to fill in."""
    # They are in strings only: between two braces of JSON itself lies a name.
    return json.dumps(value).replace("{{", "{\\u007b")


def chunk_name(index: tuple[int, ...], zarr_format: int) -> str:
    """The name of a chunk below its array."""
    if zarr_format == 2:
        return ".".join(map(str, index)) or "0"
    return "/".join(("c", *map(str, index)))
