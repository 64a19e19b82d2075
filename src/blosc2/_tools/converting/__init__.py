"""Converting between stores and other formats.

A format is a `Source` and, if it can be written, a `Target`; `items` says what both give and take, and `run` lists
them. Each imports its library when it is used.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.converting.items import LeftOut
    from blosc2._tools.converting.run import FORMATS, ConversionReport, convert
else:
    __getattr__ = on_demand(__name__, {
        "items": "LeftOut",
        "run": "FORMATS ConversionReport convert",
    })  # fmt: skip

__all__ = ["FORMATS", "ConversionReport", "LeftOut", "convert"]
