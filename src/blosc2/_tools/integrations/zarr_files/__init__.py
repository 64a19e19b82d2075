"""How zarr reads arrays and stores where they are: a codec for their chunks, and references to these.

The codec's classes for zarr and numcodecs are found by entry points; nothing else imports them.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.integrations.zarr_files.references import zarr_references
else:
    __getattr__ = on_demand(__name__, {"references": "zarr_references"})

__all__ = ["zarr_references"]
