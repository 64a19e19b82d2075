"""What joins other libraries to arrays, stores and their files, each an extra.

Modules that import such a library are imported when they are used, or by plug-ins of the library; `_options.needed`
says what to install where it is missing.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.integrations.writing import to_store
    from blosc2._tools.integrations.xarray_accessor import add_xarray_accessor
    from blosc2._tools.integrations.zarr_files import zarr_references
else:
    __getattr__ = on_demand(__name__, {
        "writing": "to_store",
        "xarray_accessor": "add_xarray_accessor",
        "zarr_files": "zarr_references",
    })  # fmt: skip

__all__ = ["add_xarray_accessor", "to_store", "zarr_references"]
