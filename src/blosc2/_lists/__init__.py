"""Lists of values: what `ObjectArray` and `BatchArray` share, and how their values and batches are stored.

Values are packed as msgpack or Arrow, one chunk for each element of the list. Nothing is ever unpickled here.
"""

from blosc2._lists.batch_blocks import Block, serializer_of
from blosc2._lists.batch_layout import (
    BUDGETS,
    LENGTHS,
    BatchMetadata,
    Layout,
    NewBatch,
    compressed_batch,
    layout_of,
    packed_lengths,
    stored_lengths,
)
from blosc2._lists.batch_views import Batch, BatchArrayItems
from blosc2._lists.lists import Chunk, ValueList
from blosc2._lists.packed_values import packed_value, readable, unreadable

__all__ = [
    "BUDGETS",
    "LENGTHS",
    "Batch",
    "BatchArrayItems",
    "BatchMetadata",
    "Block",
    "Chunk",
    "Layout",
    "NewBatch",
    "ValueList",
    "compressed_batch",
    "layout_of",
    "packed_lengths",
    "packed_value",
    "readable",
    "serializer_of",
    "stored_lengths",
    "unreadable",
]  # fmt: skip
