"""What joins other libraries to arrays and stores: xarray and dask, each an extra.

Modules that import such a library are imported when they are used; `needed` says what to install where it is missing.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.integrations.writing import add_xarray_accessor, to_store
else:
    __getattr__ = on_demand(__name__, {"writing": "add_xarray_accessor to_store"})

__all__ = ["add_xarray_accessor", "to_store"]
