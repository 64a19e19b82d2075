"""Leaves of a store that is only read: opening a frame as an array or super-chunk.

`live_leaf` opens what can be changed; `leaf_setting` is the other way.
"""

from __future__ import annotations

from typing import Any

from blosc2._arrays import ready_in_children
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import before_fork, remembered
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.leaves.leaf_reader import LeafReader
from blosc2._core.on_demand import import_now
from blosc2._frames import FrameHandle, HandleOptions, parse_dtype
from blosc2._functions import wrap
from blosc2.ndarray import NDArray


@remembered(1)
def _ready_to_read() -> None:
    """Import what reads batches, walks trees and verifies values, as `ready_to_read` does for arrays."""
    import_now("blosc2._stores", "ForeignObject", "read_parts", "walking")
    import_now("blosc2._frames", "check_reads")


# This module is imported by whoever opens a store. No forked child is to import anything.
ready_in_children()
before_fork(_ready_to_read)

# The options of the leaf that was opened last. Most leaves are opened like the one before; making options takes time.
_recent: tuple[str | None, str, HandleOptions] = (None, "safe", HandleOptions())


def read_only(
    frame: Frame, key: str, path: str | None, mmap_mode: str | None, deserialize: str, verify: bool | None = None
) -> Any:
    """The leaf of a frame, in a store that is read only; `verify=True` says that the frame was checked."""
    global _recent
    mapping, policy, options = _recent
    if mapping is not mmap_mode or policy is not deserialize:
        options = HandleOptions("r", mmap_mode, deserialize)
        _recent = (mmap_mode, deserialize, options)
    handle = FrameHandle(frame, options if verify is None else options._replace(verify=False), path, key)
    if verify:
        handle.verify = verify
    return NDArray._of(handle) if frame.only_array else wrap(handle)  # faster than `wrap`, which gives the same


def leaf_reader(
    table: KeyTable, hidden: str | None, path: str | None, mmap_mode: str | None, deserialize: str, *, check: bool
) -> LeafReader:
    """A reader that opens the members of an archive, like `read_only`, without Python code for arrays."""
    options = HandleOptions("r", mmap_mode, deserialize, verify=None if check else False)
    return LeafReader(table, hidden, NDArray, FrameHandle, parse_dtype, options, path, check)
