"""What works on whole files with the public classes.

The command line, the viewer and the demo that it runs, converting from and to other formats, merging stores, loaders
for training, and what joins other libraries to the public classes.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.cli import main
    from blosc2._tools.converting import ConversionReport, LeftOut, convert
    from blosc2._tools.integrations import add_xarray_accessor, to_store, zarr_references
    from blosc2._tools.loading import (
        BatchList,
        Loader,
        PatchSampler,
        Permutation,
        Samples,
        foreground_index,
        large_memory,
        stacked,
    )  # fmt: skip
    from blosc2._tools.merging import merge
else:
    __getattr__ = on_demand(__name__, {
        "cli": "main",
        "converting": "ConversionReport LeftOut convert",
        "integrations": "add_xarray_accessor to_store zarr_references",
        "loading": "BatchList Loader PatchSampler Permutation Samples foreground_index large_memory stacked",
        "merging": "merge",
    })  # fmt: skip

__all__ = [
    "BatchList", "ConversionReport", "LeftOut", "Loader", "PatchSampler", "Permutation", "Samples",
    "add_xarray_accessor", "convert", "foreground_index", "large_memory", "main", "merge", "stacked", "to_store",
    "zarr_references",
]  # fmt: skip
