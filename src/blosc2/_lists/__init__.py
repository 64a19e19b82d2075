"""Lists of values: what `ObjectArray` and `BatchArray` share, and how their values and batches are stored.

Values are packed as msgpack or Arrow, one chunk for each element of the list. Nothing is ever unpickled here.
"""

from blosc2._lists.batches import (
    BUDGETS,
    LENGTHS,
    Batch,
    BatchArrayItems,
    BatchMetadata,
    Block,
    Layout,
    NewBatch,
    compressed_batch,
    layout_of,
    packed_lengths,
    serializer_of,
    stored_lengths,
)
from blosc2._lists.lists import ADVICE, Chunk, ValueList, packed_value, readable, unreadable
