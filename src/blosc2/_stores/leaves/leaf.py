"""What makes leaves of frames, as arrays or super-chunks, and what finds them in the version that is shown.

`live_leaf` opens what can be changed; `leaf_setting` is the other way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blosc2._arrays import ready_in_children
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import before_fork, remembered
from blosc2._core.leaves.leaf_reader import LeafMaker, LeafReader
from blosc2._core.on_demand import import_now
from blosc2._frames import FrameHandle, HandleOptions, parse_dtype
from blosc2._functions import wrap
from blosc2.ndarray import NDArray

if TYPE_CHECKING:
    from blosc2._stores.leaf_table import LeafTable


@remembered(1)
def _ready_to_read() -> None:
    """Import what reads batches, walks trees and verifies values, as `ready_to_read` does for arrays."""
    import_now("blosc2._stores", "ForeignObject", "read_parts", "walking")
    import_now("blosc2._frames", "check_reads")


# This module is imported by whoever opens a store. No forked child is to import anything.
ready_in_children()
before_fork(_ready_to_read)


def maker_of(path: str | None, mmap_mode: str | None, deserialize: str, verify: bool | None) -> LeafMaker:
    """What makes the leaves of a store that is only read, of frames that were checked if `verify` is True."""
    options = HandleOptions("r", mmap_mode, deserialize, verify=None if verify is None else False)
    return LeafMaker(NDArray, FrameHandle, parse_dtype, options, path)


def leaf_of(maker: LeafMaker, frame: Frame, key: str, *, verify: bool) -> Any:
    """The leaf of a frame; `verify` says that reads are checked, as the frame was."""
    leaf = maker.leaf_of(frame, key)
    if leaf is None:
        leaf = wrap(maker.handle_of(frame, key))
    if verify:
        leaf._handle.verify = True
    return leaf


def reader_of(table: LeafTable, maker: LeafMaker, verify: bool | None) -> LeafReader | None:
    """What finds leaves of the version that is shown, without Python code, in an archive or among embedded values.

    None where something has to be looked at for each leaf, and where nothing is shown.
    """
    backend, foreign = table.backend, table.foreign
    embedded, members = backend.embedded, backend.members
    if verify or table.session.sharing is not None or embedded is None or backend.replaces:
        return None
    if foreign is not None and foreign.possible is not False:
        return None
    if members is None:
        return LeafReader(maker, table.hidden_name, verify is None, None, embedded.frame, embedded.entries)
    return LeafReader(maker, table.hidden_name, verify is None, members.listed or members.table())
