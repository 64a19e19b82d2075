"""What all stores share: keys and leaves, pending changes, transactions, batches of leaves, statistics.

A store has a backend, which finds and publishes bytes, and objects of this package, which turn bytes into leaves and
collect changes. The public classes (`DictStore`, `TreeStore`, `EmbedStore`) lie at the top of the package.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._stores import changes, publish
    from blosc2._stores.automatic_publishing import *
    from blosc2._stores.copy_store import *
    from blosc2._stores.leaf_table import *
    from blosc2._stores.leaves.advice import *
    from blosc2._stores.leaves.compressing_anew import *
    from blosc2._stores.leaves.leaf import *
    from blosc2._stores.leaves.leaf_setting import *
    from blosc2._stores.leaves.live_leaf import *
    from blosc2._stores.leaves.many_frames import *
    from blosc2._stores.leaves.read_many import *
    from blosc2._stores.leaves.statistics import *
    from blosc2._stores.new_keys import *
    from blosc2._stores.open_stores import *
    from blosc2._stores.publish import *
    from blosc2._stores.shared_session import *
    from blosc2._stores.showing import *
    from blosc2._stores.store import *
    from blosc2._stores.tiered_backends import *
    from blosc2._stores.transaction import *
    from blosc2._stores.tree import tree_changes, walking
    from blosc2._stores.tree.attributes import *
    from blosc2._stores.tree.foreign_objects import *
    from blosc2._stores.tree.groups import *
else:
    __getattr__ = on_demand(__name__, {
        "automatic_publishing": "LeafPublishing PacedPublishing gets_file",
        "copy_store": "to_b2d to_b2z",
        "leaf_table": "LeafTable table_to_change group_of has_leaf table_of whole_of",
        "leaves.advice": "advise_all",
        "leaves.compressing_anew": "Recompression recompress smaller",
        "leaves.leaf": "leaf_of maker_of reader_of",
        "leaves.leaf_setting": (
            "FramedValue metadata_frame ready_setter remove_small set_leaf set_small"
        ),
        "leaves.live_leaf": "live_leaf",
        "leaves.many_frames": "LEAST FrameMaker as_range nbytes_of with_frames",
        "leaves.read_many": "read_named read_parts read_selections",
        "leaves.statistics": "GroupStats LeafInfo describe_leaf leaves_table store_stats",
        "new_keys": "KeyClashes NewKeys",
        "open_stores": "close_replaced end_all end_forgotten note_writable open_already join_open",
        "publish": "NOTHING",
        "shared_session": "SharedLeaf SharedPending SharedSession",
        "showing": (
            "FEW_LINES Drawing children_of close_keys completions draw_names draw_store file_sizes has_object html "
            "listed one_line outline"
        ),
        "store": "Store",
        "tiered_backends": "backend_of file_names open_or_begin take_writer_lock",
        "transaction": "AllOrNone Transaction",
        "tree.attributes": "GroupAttributes",
        "tree.foreign_objects": "ATTRIBUTES HIDDEN ForeignObject ForeignObjects",
        "tree.groups": "Groups",
    }, ("changes", "publish", "tree.tree_changes", "tree.walking"))  # fmt: skip
