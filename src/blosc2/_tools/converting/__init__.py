"""Converting between stores and other formats.

A format is a module with `open_source` and, if it can be written, `new_target`; `items` says what both give and take,
and `formats` lists them. Each imports its library when it is used.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.converting.formats import FORMATS
    from blosc2._tools.converting.items import LeftOut
    from blosc2._tools.converting.run import ConversionReport, convert
else:
    __getattr__ = on_demand(__name__, {
        "formats": "FORMATS",
        "items": "LeftOut",
        "run": "ConversionReport convert",
    })  # fmt: skip

__all__ = ["FORMATS", "ConversionReport", "LeftOut", "convert"]
