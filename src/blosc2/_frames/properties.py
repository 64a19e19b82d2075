"""Properties of arrays, super-chunks, lists and their metadata that describe the file that they were opened from."""

from __future__ import annotations

from typing import Any


class HandleProperties:
    """Properties of an object that reads through a carrier."""

    __slots__ = ()
    _carrier: Any

    @property
    def urlpath(self) -> str | None:
        """The path of the file; None in memory."""
        path: str | None = self._carrier.urlpath
        return path

    @property
    def mode(self) -> str:
        """The mode that it was opened with."""
        mode: str = self._carrier.mode
        return mode

    @property
    def mmap_mode(self) -> str | None:
        """How the file is mapped; None if it is not mapped."""
        how: str | None = self._carrier.mmap_mode
        return how
