"""What works on whole files with the public classes.

The command line, the viewer and the demo that it runs, converting from and to other formats, merging stores, loaders
for training, and what joins other libraries to the public classes.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.cli import main
    from blosc2._tools.converting.conversion import convert as convert
    from blosc2._tools.converting.report import *
    from blosc2._tools.integrations.references import *
    from blosc2._tools.integrations.writing import *
    from blosc2._tools.loading.loader import *
    from blosc2._tools.loading.patches import *
    from blosc2._tools.loading.samples import *
    from blosc2._tools.merging import *
else:
    __getattr__ = on_demand(__name__, {
        "cli": "main",
        "converting.conversion": "convert",
        "converting.report": "ConversionReport LeftOut",
        "integrations.writing": "add_xarray_accessor to_store",
        "integrations.references": "zarr_references",
        "loading.loader": "Loader unstacked",
        "loading.patches": "PatchSampler foreground_index",
        "loading.samples": "UNSTACKED BatchList Permutation Samples in_epoch large_memory stacked",
        "merging": "merge",
    })  # fmt: skip
