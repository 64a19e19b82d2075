"""What importing the package sets up: hooks between modules. No other module registers any.

A module that needs a function of a higher layer, which it may not import, has an attribute for it; it is set here. A
hook imports what it needs when it is called, except for `open_value`.
"""

from __future__ import annotations

import atexit
import sys
from typing import Any

from blosc2._core.io.sharing import item_of
from blosc2._frames import FrameHandle, Stored
from blosc2._opening.open_path import open_value


def install() -> None:
    """Set the hooks; called once, by the package."""
    FrameHandle.open_cframe = staticmethod(open_value)  # values of metadata and lists that are frames
    Stored.checker = staticmethod(_check)
    Stored.touched = staticmethod(_touched)
    Stored.reducer = staticmethod(_reduce)
    Stored.tokenizer = staticmethod(_token)
    atexit.register(_end)


def _check(what: Any, progress: Any) -> Any:
    """Check what a handle shows, or the store at a path or in bytes."""
    from blosc2._integrity import check_opened, check_store

    return (check_opened if isinstance(what, FrameHandle) else check_store)(what, progress)


def _touched(*given: Any) -> Any:
    from blosc2._functions import touched_chunks

    return touched_chunks(*given)


def _reduce(stored: Stored) -> tuple[Any, ...]:
    from blosc2._opening.pickles import reduce_stored

    return reduce_stored(stored)


def _token(stored: Stored) -> tuple[Any, ...]:
    from blosc2._opening.pickles import token_of

    return token_of(stored)


def _end() -> None:
    """Close the stores that are still open for writing. Where there are any, their module was imported."""
    stores = item_of(sys.modules, "blosc2._stores.open_stores")
    if stores is not None:
        stores.end_all()
