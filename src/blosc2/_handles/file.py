"""Frames that are files of their own, changed by "append, then publish" (FORMATS 8.1)."""

from __future__ import annotations

import os
from typing import BinaryIO

from blosc2._core.frame.frame import Frame
from blosc2._core.io.forking import Lock
from blosc2._files import (
    Compaction,
    LockedFile,
    NewFile,
    Owner,
    Spool,
    sync_file,
    sync_folder,
)
from blosc2._frames import FRAME_HEADER, FrameUpdate, Growth, write_frame
from blosc2._handles.handle import SECTOR, HandleOptions, open_frame
from blosc2._handles.memory import Draft, Drafting
from blosc2._options import absolute_path
from blosc2.exceptions import StaleHandleError


class FileHandle(Drafting):
    """A frame that is a file of its own, changed by "append, then publish" (FORMATS 8.1)."""

    __slots__ = ("_behind", "_draft", "_durable", "_exclusive", "_growth", "_lock", "_path")

    writable = True

    def __init__(self, frame: Frame, options: HandleOptions, path: str) -> None:
        super().__init__(frame, options, path)
        self._behind = False
        self._draft: Draft | None = None
        # Whether a change waits for the lock of the file. If not, nobody else may change the file.
        self._exclusive = options.exclusive
        self._durable = options.durable
        self._growth: Growth | None = None  # made for the first change
        self._lock = Lock()
        self._path = absolute_path(path)  # stays right when the process changes its working directory

    def spool(self) -> Spool:
        return Spool(self._path)

    def _publish(self, update: FrameUpdate, *, fresh: bool) -> None:
        # The trailer of a frame without data must follow the header: metadata alone cannot be appended,
        # nor can the last chunk go.
        fresh = fresh or update.nbytes == 0 or len(self.frame.header_bytes()) > SECTOR
        # The lock is taken for each change. It also excludes other handles of the file, in any process.
        owner = Owner()
        growth = self._growth = self._growth or Growth()
        file = owner.open(self._path, "r+b", buffered=False)
        # Closed by itself as well, which lets the lock go: an interrupt may keep the other from ending.
        with file, LockedFile(file, self._path, owner, exclusive=self._exclusive):
            self._check_unchanged(file)
            self._behind = True
            try:
                if fresh:
                    self._rewrite(update, owner)
                else:
                    growth.append_version(file, self._path, update, owner, durable=self._durable)
                frame = open_frame(self._path, self.options.mmap_mode, old=self.frame.source)
                if self.verify is None:
                    frame.check_wholes()
                if not self.verify and not fresh and owner.is_here:  # a forked child reads the old version
                    growth.published(frame)
                self._adopt(frame)
            except BaseException as error:
                self._look_again(error)
                raise
            self._behind = False

    def _version(self) -> bytes:
        header: bytes = self.frame.header_bytes()
        return header

    def flush(self) -> None:
        sync_file(self._path)
        sync_folder(os.path.realpath(self._path))

    def compact(self) -> Compaction:
        with self.editing():
            if self._in_transaction():
                raise RuntimeError("compact() is not possible in a transaction")
            before = self.frame.source.size
            self.publish(FrameUpdate(self.frame), fresh=True)
            return Compaction(before, self.frame.source.size)

    def _rewrite(self, update: FrameUpdate, owner: Owner) -> None:
        with NewFile(self._path, replace=True, owner=owner) as file:
            write_frame(file, update)

    def _check_unchanged(self, file: BinaryIO) -> None:
        """Refuse to write into a file that is no longer the one that was read."""
        status = os.fstat(file.fileno())
        identity = self.frame.source.identity
        fixed = self.frame.header_bytes()[:FRAME_HEADER]
        own = (status.st_dev, status.st_ino)
        now = os.stat(self._path)  # another file may have been renamed over it while the lock was waited for
        if (
            identity is None
            or own != identity[:2]
            or own != (now.st_dev, now.st_ino)
            or (file.read(len(fixed)) != fixed)
        ):
            raise StaleHandleError(
                "another handle or process changed this file since it was opened: open it again, "
                "or call refresh(), before writing; with locking=True handles wait for each other and follow",
                path=self.urlpath,
            )
