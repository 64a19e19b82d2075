"""``dataset.b2.to_store(...)``: the accessor of datasets, arrays and trees of xarray."""

from __future__ import annotations

from typing import Any

import xarray

from blosc2._tools import integrations


@xarray.register_dataset_accessor("b2")
@xarray.register_dataarray_accessor("b2")
@xarray.register_datatree_accessor("b2")
class XarrayAccessor:
    """What this package adds to objects of xarray.

    Parameters
    ----------
    shown : Dataset, DataArray or DataTree
    """

    def __init__(self, shown: Any) -> None:
        self._shown = shown

    def to_store(self, target: Any, key: str = "/", **options: Any) -> None:
        """Write to a group of a store: `blosc2.to_store` with this object."""
        integrations.to_store(self._shown, target, key, **options)
