"""What all stores share: keys and leaves, pending changes, transactions, batches of leaves, statistics.

A store has a backend and asks it for bytes; this package turns them into leaves. The public classes (`DictStore`,
`TreeStore`, `EmbedStore`) lie at the top of the package.
"""

from blosc2._stores.all_or_none import AllOrNone
from blosc2._stores.attributes import ATTRIBUTES, GroupAttributes
from blosc2._stores.backed import KEYS_AT_ONCE, BackedStore
from blosc2._stores.foreign import ForeignObject
from blosc2._stores.leaf_publishing import LeafPublishing
from blosc2._stores.leaves.descriptions import LeafInfo
from blosc2._stores.leaves.leaf import metadata_frame
from blosc2._stores.statistics import GroupStats, describe_leaf, store_stats
from blosc2._stores.store import Store
from blosc2._stores.transaction import Transaction
from blosc2._stores.tree_text import FEW_LINES, Drawing, drawn, listed
from blosc2._stores.unclosed import end_all
from blosc2._stores.write_many import Items, pairs

__all__ = [
    "ATTRIBUTES",
    "FEW_LINES",
    "KEYS_AT_ONCE",
    "AllOrNone",
    "BackedStore",
    "Drawing",
    "ForeignObject",
    "GroupAttributes",
    "GroupStats",
    "Items",
    "LeafInfo",
    "LeafPublishing",
    "Store",
    "Transaction",
    "describe_leaf",
    "drawn",
    "end_all",
    "listed",
    "metadata_frame",
    "pairs",
    "store_stats",
]  # fmt: skip
