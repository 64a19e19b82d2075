"""Where unpublished bytes of a store wait: a nameless file, or for a `.b2d` a folder beside it.

A file is renamed into a `.b2d`, so both must be on one file system. If the store is a mount point, the folder around
it is on another one; and that folder may not be writable although the store is. Then a hidden folder inside is used.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from blosc2 import _frames
from blosc2._backends.layout import RESERVED, ByteRange
from blosc2._files import Owner, remove_leftovers
from blosc2._options import absolute_path

if TYPE_CHECKING:
    from blosc2._files import TemporaryFile


#: Bytes of unpublished frames that may stay in memory.
MEMORY_LIMIT: Final = 64 << 20
# Smaller values are not worth a system call each.
_WORTH_MOVING: Final = 64 << 10
# The most files that are kept open for values in them.
_MOST_ELSEWHERE: Final = 64


def stage_values(changes: dict[str, ByteRange], waiting: TemporaryFile | None) -> dict[str, ByteRange]:
    """Move large frames to a temporary file, or all to memory without one. Returns where all frames are now."""
    if waiting is None:
        return {key: _frames.held_in_memory(byte_range) for key, byte_range in changes.items()}
    staged: dict[str, ByteRange] = {}
    for key, byte_range in changes.items():
        # A very large value in a file with checksums stays there. Each such value keeps its file open.
        stays = byte_range[2] <= _WORTH_MOVING or (
            byte_range[2] > MEMORY_LIMIT and bool(byte_range[0].checksums) and len(staged) < _MOST_ELSEWHERE
        )
        staged[key] = byte_range if stays else waiting.add(byte_range)
    return staged


# More bytes than the system's text about a descriptor.
_INFO = 4096


class TemporaryFolder:
    """The folder for the temporary files of one store."""

    def __init__(self, root: str, owner: Owner) -> None:
        self._root = absolute_path(root)
        self._owner = owner
        self._is_inside: bool | None = None

    @property
    def is_inside(self) -> bool:
        """Whether it is in the store."""
        if self._is_inside is None:
            if not os.path.isdir(self._root):
                return False
            parent = os.path.dirname(self._root)
            self._is_inside = is_mount_point(self._root) or not _may_write(parent)
        return self._is_inside

    @property
    def beside(self) -> str:
        """The path beside which temporary files are made; its folder exists."""
        if not self.is_inside:
            return self._root
        self._owner.makedirs(self._folder)
        return self._hidden

    def make(self, folder: str) -> None:
        """Make a folder for this user alone. The caller has chosen its name, so as to know what to remove."""
        self._owner.makedirs(os.path.dirname(folder))
        self._owner.mkdir(folder, 0o700)

    def tidy(self) -> None:
        """Leave no empty folder in the store."""
        if self._is_inside and self._owner.is_here:
            with suppress(OSError):
                self._owner.rmdir(self._folder)

    def remove_leftovers(self) -> None:
        """Remove what killed processes left, in both possible folders; the caller holds the store's lock."""
        for path in (self._root, self._hidden):
            with suppress(OSError):
                remove_leftovers(path, self._owner)
        with suppress(OSError):
            self._owner.rmdir(self._folder)

    @property
    def _folder(self) -> str:
        return os.path.join(self._root, RESERVED.rstrip("/"))

    @property
    def _hidden(self) -> str:
        return os.path.join(self._folder, os.path.basename(self._root))


def is_mount_point(path: str) -> bool:
    """Whether a path is a mount point, so that nothing beside it can replace it, as far as the system tells."""
    return _mount(os.path.dirname(absolute_path(path))) != _mount(path)


def _mount(path: str) -> tuple[int, str]:
    device = os.stat(path).st_dev
    if not hasattr(os, "O_PATH"):
        return device, ""
    # One file system may be mounted in two places.
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        # No file object: an interrupt would leave it to the garbage collector.
        info = os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            lines = os.read(info, _INFO).decode("ascii", "replace").splitlines()
        finally:
            os.close(info)
        return device, next((line for line in lines if line.startswith("mnt_id:")), "")
    except OSError:
        return device, ""
    finally:
        os.close(descriptor)


def _may_write(folder: str) -> bool:
    return os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)
