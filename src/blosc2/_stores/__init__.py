"""What all stores share: keys and leaves, pending changes, transactions, batches of leaves, statistics.

A store has a backend, which finds and publishes bytes, and objects of this package, which turn bytes into leaves and
collect changes. The public classes (`DictStore`, `TreeStore`, `EmbedStore`) lie at the top of the package.
"""

from blosc2._stores import changes, publish
from blosc2._stores.copy_store import to_b2d, to_b2z
from blosc2._stores.followers import recount
from blosc2._stores.leaf_publishing import NOTHING, LeafPublishing, gets_file
from blosc2._stores.leaves.advice import advise_all
from blosc2._stores.leaves.descriptions import LeafInfo
from blosc2._stores.leaves.leaf import leaf_reader, live_leaf
from blosc2._stores.leaves.statistics import GroupStats, describe_leaf, store_stats
from blosc2._stores.new_keys import NewNames
from blosc2._stores.open_stores import end_all
from blosc2._stores.paced_publishing import PacedPublishing
from blosc2._stores.store import Store
from blosc2._stores.tiered_backends import backend_of, file_names, open_or_begin
from blosc2._stores.tree import tree_changes, walking
from blosc2._stores.tree.attributes import GroupAttributes
from blosc2._stores.tree.drawing import FEW_LINES, Drawing, draw_store, listed
from blosc2._stores.tree.foreign_object import ForeignObject
from blosc2._stores.tree.foreign_objects import ForeignObjects
from blosc2._stores.tree.groups import Groups, has_group
from blosc2._stores.tree.names import ATTRIBUTES, HIDDEN

__all__ = [
    "ATTRIBUTES",
    "FEW_LINES",
    "HIDDEN",
    "NOTHING",
    "Drawing",
    "ForeignObject",
    "ForeignObjects",
    "GroupAttributes",
    "GroupStats",
    "Groups",
    "LeafInfo",
    "LeafPublishing",
    "NewNames",
    "PacedPublishing",
    "Store",
    "advise_all",
    "backend_of",
    "changes",
    "describe_leaf",
    "draw_store",
    "end_all",
    "file_names",
    "gets_file",
    "has_group",
    "leaf_reader",
    "listed",
    "live_leaf",
    "open_or_begin",
    "publish",
    "recount",
    "store_stats",
    "to_b2d",
    "to_b2z",
    "tree_changes",
    "walking",
]  # fmt: skip
