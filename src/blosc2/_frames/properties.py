"""What arrays, super-chunks, lists and their metadata say of the file that they were opened from."""

from __future__ import annotations

from typing import Any


class HandleProperties:
    """Properties of an object that reads through a handle."""

    __slots__ = ()
    _handle: Any

    @property
    def urlpath(self) -> str | None:
        """The file; None in memory."""
        path: str | None = self._handle.urlpath
        return path

    @property
    def mode(self) -> str:
        """The mode that it was opened with."""
        mode: str = self._handle.mode
        return mode

    @property
    def mmap_mode(self) -> str | None:
        """How the file is mapped; None when it is not."""
        how: str | None = self._handle.mmap_mode
        return how
