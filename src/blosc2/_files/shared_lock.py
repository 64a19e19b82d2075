"""The lock shared by programs that change one file at the same time, and the number of their last change.

It is a small file beside the data, in the format of C-Blosc2: 8 bytes of zero and a count of 8 bytes, which increases
each time that a program gets the lock for changes. The lock itself is a lock of the operating system on that file; it
ends with its process.
"""

from __future__ import annotations

import _thread
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from typing import Final

from blosc2._core.io.forking import Lock
from blosc2._core.leaves.weak_cache import Block
from blosc2._files.blocks import as_block
from blosc2._files.file_lock import flock
from blosc2._files.owner import Descriptor, Owner, refusal

if sys.platform != "win32":
    import fcntl

#: The size of the file, and where the count is in it.
_NBYTES: Final = 16
_COUNT: Final = 8


def sidecar_path(path: str) -> str:
    """Where the lock of a file, or of a directory frame, is."""
    return os.path.join(path, ".b2lock") if os.path.isdir(path) else path + ".b2lock"


class Sidecar:
    """The lock of one handle. Other handles wait for it, also those of this process.

    Parameters
    ----------
    path : str
        Of the data.
    writable : bool
        Whether the data will be changed. If not, data in a folder that cannot be written are read without a lock.

    Attributes
    ----------
    seen : int
        The number of the change that the handle shows; it is for the handle to set.
    entered : list of context manager
        What the handle entered without ``with``.
    """

    __slots__ = ("_owner", "_path", "_thread", "_writable", "entered", "seen")

    def __init__(self, path: str, *, writable: bool) -> None:
        if sys.platform == "win32":
            raise NotImplementedError("locking=True needs advisory locks, which Windows does not have")
        # The lock of the file itself, whichever link leads to it.
        self._path = sidecar_path(os.path.realpath(path))
        self._writable = writable
        self._thread = Lock()
        self.seen = -1
        self.entered: list[AbstractContextManager[None]] = []
        self._owner: tuple[int, int] | None = None

    @property
    def held(self) -> bool:
        """Whether this thread has the lock for changes."""
        return self._owner == (os.getpid(), _thread.get_ident())

    def count(self) -> int:
        """The number of the last change."""
        try:
            with open(self._path, "rb", buffering=0) as file:
                return int.from_bytes(file.read(_NBYTES)[_COUNT:], "little")
        except FileNotFoundError:
            return 0

    @as_block
    def exclusive(self) -> Iterator[bool]:
        """Wait for the lock and hold it; gives whether it was not held before."""
        with self._thread:
            if self.held:
                yield False
                return
            with _Held(self._open(), self) as descriptor:
                self._check_own()
                if descriptor is not None:
                    flock(descriptor.fileno(), fcntl.LOCK_EX, self._path, shared=True)
                    self._count_up(descriptor.fileno())
                self._check_own()
                self._owner = (os.getpid(), _thread.get_ident())
                yield True

    def _check_own(self) -> None:
        """Refuse to continue what began before this process was forked: the parent may be waiting for it."""
        if self._thread.inherited:
            raise refusal(self._path, self._thread.holder)

    @as_block
    def shared(self) -> Iterator[None]:
        """Keep others from changes for a moment, but not from reading."""
        # In a child that is forked in a block, the parent has the lock and may wait for the child.
        if self.held or self._thread.inherited:
            yield
            return
        with _Held(self._open()) as descriptor:
            if descriptor is not None:
                flock(descriptor.fileno(), fcntl.LOCK_SH, self._path, shared=True)
            yield

    def _open(self) -> Descriptor | None:
        # Opened each time: a lock belongs to an open file, and a child process would share one that stays open.
        try:
            return Descriptor(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        except OSError:
            if self._writable:
                raise
        try:
            return Descriptor(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return None

    def _count_up(self, descriptor: int) -> None:
        if not self._writable:
            return
        count = int.from_bytes(os.pread(descriptor, _NBYTES, 0)[_COUNT:], "little")
        os.pwrite(descriptor, bytes(_COUNT) + (count + 1).to_bytes(_NBYTES - _COUNT, "little"), 0)


class _Held(Block):
    """Lets the lock of a descriptor go at its end. A child that was forked meanwhile leaves it to its parent."""

    __slots__ = ("_descriptor", "_owner", "_sidecar")

    def __init__(self, descriptor: Descriptor | None, sidecar: Sidecar | None = None) -> None:
        self._descriptor = descriptor
        self._sidecar = sidecar
        self._owner = Owner()

    def __enter__(self) -> Descriptor | None:
        return self._descriptor

    def _leave(self, failed: bool) -> None:  # noqa: ARG002
        if self._sidecar is not None:
            self._sidecar._owner = None
        if self._descriptor is None:
            return
        with self._descriptor:
            if self._owner.is_here:
                # Closing it gives the lock back too, and there may be no locks here.
                with suppress(OSError, ValueError):
                    fcntl.flock(self._descriptor.fileno(), fcntl.LOCK_UN)
