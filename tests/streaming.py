"""All copies as if everything were large: nothing is copied as a whole, and no memory is left for what waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from blosc2 import _frames
from blosc2._backends import embedded_map as embedded
from blosc2._backends import temporary
from blosc2._backends.embedded import frame_layout as embedded_writing
from blosc2._backends.zip import publishing as member_writing
from blosc2._files import copies
from blosc2._files import copies as byte_copies
from blosc2._frames import directory, update
from blosc2._indexing import write_items
from blosc2._stores import pending, write_many
from blosc2._stores.leaves import leaf_setting

#: Where a limit is, its name, and what it becomes.
LIMITS = (
    (byte_copies, "_PIECE", 1 << 12), (byte_copies, "_AT_ONCE", 1 << 14), (byte_copies, "_WORTH_ASKING", 1),
    (_frames, "SMALL_FRAME", 0), (update, "SMALL_FRAME", 0), (embedded, "_LONG", 0),
    (embedded_writing, "_IN_MEMORY", 0),
    (update, "BUDGET", 0), (update, "_SLACK", 1 << 14), (write_items, "BUDGET", 0), (copies, "BUDGET", 0),
    (directory, "SMALL_FRAME", 0),
    (member_writing, "_LARGE", 0),
    (pending, "MEMORY_LIMIT", 0), (temporary, "_WORTH_MOVING", 0), (temporary, "MEMORY_LIMIT", 0),
    (write_many, "MEMORY_LIMIT", 0), (leaf_setting, "LARGE", 0),
)  # fmt: skip


@contextmanager
def everything_large() -> Iterator[None]:
    """Make all values count as large."""
    with ExitStack() as stack:
        for limit in LIMITS:
            stack.enter_context(mock.patch.object(*limit))
        yield
