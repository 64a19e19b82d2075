"""``dataset.b2.to_store(...)``: the accessor of datasets, arrays and trees of xarray."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from blosc2 import _tools


class XarrayAccessor:
    """What this package adds to objects of xarray."""

    def __init__(self, shown: Any) -> None:
        self._shown = shown

    def to_store(self, target: Any, key: str = "/", **options: Any) -> None:
        """Write to a group of a store: `blosc2.to_store` with this object."""
        _tools.to_store(self._shown, target, key, **options)


def add_xarray_accessor() -> None:
    """Give datasets, arrays and trees of xarray the accessor ``b2``, where nobody else has one of the name, or will.

    The package `xarray-blosc2` has one, too.
    """
    import xarray

    taken = find_spec("xarray_blosc2") is not None
    if not (taken or hasattr(xarray.Dataset, "b2")):
        xarray.register_dataset_accessor("b2")(XarrayAccessor)
    if not (taken or hasattr(xarray.DataArray, "b2")):
        xarray.register_dataarray_accessor("b2")(XarrayAccessor)
    if not hasattr(xarray.DataTree, "b2"):
        xarray.register_datatree_accessor("b2")(XarrayAccessor)
