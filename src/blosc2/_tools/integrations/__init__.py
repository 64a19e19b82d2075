"""What joins other libraries to arrays, stores and their files, each an extra.

Modules that import such a library are imported when they are used, or by plug-ins of the library.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.integrations.references import zarr_references
else:
    __getattr__ = on_demand(__name__, {"references": "zarr_references"})

__all__ = ["zarr_references"]
