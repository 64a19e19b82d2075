"""Importing what arrays need: what changes them before there is one, what reads them by any key before a fork.

See "What is imported when" in doc/design/architecture.md.
"""

from __future__ import annotations

from blosc2._core.io.sharing import before_fork, remembered
from blosc2._core.on_demand import import_now


@remembered(1)
def ready_to_read() -> None:
    """Import what reads items by any key, metadata, and chunks of a super-chunk."""
    import_now("blosc2._indexing", "read", "read_many", "view_items")
    import_now("blosc2._frames", "VLMeta")
    import_now("blosc2._files", "Retry", "advise_frame")


@remembered(1)
def ready_in_children() -> None:
    """Have a forked child read what this process has opened, by any key, without importing anything."""
    before_fork(ready_to_read)


@remembered(1)
def ready_to_change() -> None:
    """Import what assigns, appends and resizes, and what publishes that; and what reads."""
    ready_to_read()
    import_now("blosc2._frames", "MemoryHandle")  # and all that changes of any handle need
    import_now("blosc2._indexing", "as_items", "chunks_with")
    import_now("blosc2._arrays", "resize_update")
    import_now("blosc2._arrays", "append_rows")
