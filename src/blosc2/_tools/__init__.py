"""What works on whole files with the public classes.

The command line, the viewer and the demo that it runs, converting from and to other formats, and what joins other
libraries.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.cli import main
    from blosc2._tools.converting import ConversionReport, LeftOut, convert
    from blosc2._tools.integrations import add_xarray_accessor, to_store
    from blosc2._tools.merging import merge
else:
    __getattr__ = on_demand(__name__, {
        "cli": "main",
        "converting": "ConversionReport LeftOut convert",
        "integrations": "add_xarray_accessor to_store",
        "merging": "merge",
    })  # fmt: skip

__all__ = ["ConversionReport", "LeftOut", "add_xarray_accessor", "convert", "main", "merge", "to_store"]
