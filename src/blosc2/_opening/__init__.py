"""Opening a path, bytes or a pickle: `open`, `load`, `from_cframe`, tensors, pickles.

The kind of object is recognised, and the request checked against it, before a class is called.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from blosc2._core.io.sharing import item_of
from blosc2._core.on_demand import on_demand
from blosc2._frames import FrameHandle, Stored
from blosc2._opening.open_path import (
    estore_from_cframe,
    from_cframe,
    load,
    ndarray_from_cframe,
    objectarray_from_cframe,
    open,
    open_value,
    schunk_from_cframe,
)

if TYPE_CHECKING:
    from blosc2._opening.open_store import *
    from blosc2._opening.tensors import *
else:
    __getattr__ = on_demand(__name__, {
        "open_store": "opened_remote opened_store store_in_frame store_in_memory",
        "tensors": "load_array load_tensor pack_array2 pack_tensor save_array save_tensor unpack_array2 unpack_tensor",
    })  # fmt: skip


# ------------------------------------------------------------------ hooks between modules, which importing sets up
# A module that needs a function of a higher layer, which it may not import, has an attribute for it; it is set here. A
# hook imports what it needs when it is called, except for `open_value`. No other module registers any.
def install() -> None:
    """Set the hooks; called once, by the package."""
    FrameHandle.open_cframe = staticmethod(open_value)  # values of metadata and lists that are frames
    Stored._checker = staticmethod(_check)
    Stored._touched = staticmethod(_imported("blosc2._functions", "touched_chunks"))
    Stored._reducer = staticmethod(_imported("blosc2._opening.pickles", "reduce_stored"))
    Stored._tokenizer = staticmethod(_imported("blosc2._opening.pickles", "token_of"))
    atexit.register(_end)


def _check(what: Any, progress: Any) -> Any:
    """Check what a handle shows, or the store at a path or in bytes."""
    from blosc2._integrity import check_opened, check_store

    return (check_opened if isinstance(what, FrameHandle) else check_store)(what, progress)


def _imported(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported when it is called."""
    return lambda *given: getattr(import_module(module), name)(*given)


def _end() -> None:
    """Close the stores that are still open for writing, and end what has changed files of its own.

    Where there are any, their module was imported.
    """
    files = item_of(sys.modules, "blosc2._frames.changeable")
    if files is not None:
        files.end_all()
    stores = item_of(sys.modules, "blosc2._stores.open_stores")
    if stores is not None:
        stores.end_all()
