"""``dataset.b2.to_store(...)``: the accessor of datasets, arrays and trees of xarray."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

import xarray

from blosc2._tools import integrations

NAME: Final = "b2"


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


def register() -> None:
    """Register the accessor where nobody else has one of the name, or will: `xarray-blosc2` has one, too."""
    taken = find_spec("xarray_blosc2") is not None
    if not (taken or hasattr(xarray.Dataset, NAME)):
        xarray.register_dataset_accessor(NAME)(XarrayAccessor)
    if not (taken or hasattr(xarray.DataArray, NAME)):
        xarray.register_dataarray_accessor(NAME)(XarrayAccessor)
    if not hasattr(xarray.DataTree, NAME):
        xarray.register_datatree_accessor(NAME)(XarrayAccessor)


register()
