"""Unpickled handles whose data no longer exist: every use of them raises an error."""

from __future__ import annotations

import copy
from typing import Any, Final, Never, TypeVar

from blosc2._handles.handle import FrameHandle

#: What may come of opening something where a pickle is read.
LOST_ERRORS: Final = (OSError, ValueError, LookupError, RuntimeError, TypeError, MemoryError)

_Kind = TypeVar("_Kind")


class LostHandle(FrameHandle):
    """What lies below such a handle: names and modes, and the error that each use raises.

    Attributes
    ----------
    error : Exception
        Why it could not be opened.
    recipe : tuple
        How the handle was to be made, as `__reduce__` says it: it may travel on, to where that succeeds.
    """

    __slots__ = ("error", "recipe")

    def __init__(
        self, error: Exception, recipe: tuple[Any, ...], path: str, key: str | None, how: dict[str, Any]
    ) -> None:
        self.error = error.with_traceback(None)
        self.recipe = recipe
        self.mode = how.get("mode", "r")
        self.mmap_mode = how.get("mmap_mode")
        self.urlpath, self.key = path, key

    def stand_in(self, kind: type[_Kind]) -> _Kind:
        """A handle of a class that does nothing but raise the error."""
        handle = kind.__new__(kind)
        handle._handle = self  # type: ignore[attr-defined]
        return handle

    def _raise(self, *_: object, **__: object) -> Never:
        raise copy.copy(self.error)  # each with a traceback of its own

    def __getattr__(self, name: str) -> Never:
        # Called for attributes that have no value here, such as `deserialize`.
        if name.startswith("__"):
            raise AttributeError(name)
        self._raise()

    frame = array = described = property(_raise)
    nthreads = cparams = dparams = property(_raise)
    require_writable = editing = holding = refresh = compact = to_cframe = _raise
