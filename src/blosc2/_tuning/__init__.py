"""Choosing how data are compressed: candidates are tried on a sample, and the best one for a goal is taken.

Nothing here looks at a clock, so the same data give the same answer on every machine. Sizes are those of the sample,
compressed; speeds of reading follow from counts in the compressed bytes (`costs`).
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tuning.choosing import *
    from blosc2._tuning.costs import *
    from blosc2._tuning.rounding import *
    from blosc2._tuning.samples import *
else:
    __getattr__ = on_demand(__name__, {
        "choosing": "Filters Table Trial choose chosen chosen_for_bytes",
        "costs": "read_time",
        "rounding": "is_rounded largest_error rounded sparing stated",
        "samples": "SAMPLE Sample array_sample bytes_sample",
    })  # fmt: skip
