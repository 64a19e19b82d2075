"""Loaders for training: samples, patches, their order, and batches read ahead by threads.

Nothing here needs another library than NumPy; `blosc2.torch` makes tensors of the same batches. What is drawn at random
depends on a seed, the epoch and the number of a sample alone, so that all kinds and numbers of workers give the same.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._tools.loading.loader import Loader
    from blosc2._tools.loading.order import Order, Permutation
    from blosc2._tools.loading.patches import PatchSampler, foreground_index
    from blosc2._tools.loading.samples import BatchList, Samples, large_memory, stacked
else:
    __getattr__ = on_demand(__name__, {
        "loader": "Loader",
        "order": "Order Permutation",
        "patches": "PatchSampler foreground_index",
        "samples": "BatchList Samples large_memory stacked",
    })  # fmt: skip

__all__ = [
    "BatchList", "Loader", "Order", "PatchSampler", "Permutation", "Samples", "foreground_index", "large_memory",
    "stacked",
]  # fmt: skip
