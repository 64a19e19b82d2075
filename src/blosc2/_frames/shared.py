"""Handles of frames that several processes change at the same time: ``locking=True``.

Every change waits for the lock, loads the last published version, and is published before the lock is released. A read
loads the last version first, and so does whoever asks for a property, such as the shape of an array. What is shown of
an object (its `repr`) is the version that was read last, so that showing it never fails.
"""

from __future__ import annotations

import errno
import os
import time
from _thread import get_ident
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from blosc2 import _files
from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.geometry import Geometry
from blosc2._files import TICK, Sidecar, begins_with, file_identity
from blosc2._frames.changeable import FileHandle
from blosc2._frames.directory import DirectoryHandle, ReadOnlyDirectoryHandle
from blosc2._frames.handle import FrameHandle, HandleOptions, open_frame, publish_waiting
from blosc2._frames.header_fields import HEADER_FILE, is_directory_frame
from blosc2._options import absolute_path
from blosc2.exceptions import MissingFileError

Array = tuple[Geometry, np.dtype[Any], Frame]


class FollowingHandle(FrameHandle):
    """A handle that looks for a newer version before each read."""

    __slots__ = ()

    @property
    def locking(self) -> bool:  # type: ignore[override]  # a constant of other kinds
        return True

    @property
    def frame(self) -> Frame:
        self._follow()
        return self.shown

    @frame.setter
    def frame(self, value: Frame) -> None:
        _FRAME.__set__(self, value)

    @property
    def shown(self) -> Frame:
        """The frame as of the last read or change. Nothing is looked up."""
        frame: Frame = _FRAME.__get__(self)
        return frame

    @property
    def array(self) -> Array | None:
        self._follow()
        return self.described

    @array.setter
    def array(self, value: Array | None) -> None:
        _ARRAY.__set__(self, value)

    @property
    def described(self) -> Array | None:
        array: Array | None = _ARRAY.__get__(self)
        return array

    def _follow(self) -> None:
        """Show the newest version."""
        raise NotImplementedError


class _Shared(FollowingHandle):
    """What the kinds share: the lock, and following the versions that others publish."""

    __slots__ = ()
    _sidecar: Sidecar

    def __init__(self, sidecar: Sidecar, *given: Any) -> None:
        self._sidecar = sidecar  # type: ignore[misc]  # each kind has a slot for it
        sidecar.seen = sidecar.count()
        super().__init__(*given)

    def _follow(self) -> None:
        sidecar = self._sidecar
        if sidecar.held or (sidecar.count() == sidecar.seen and self._is_newest()):
            return
        if (os.getpid(), get_ident()) not in sidecar.refreshing:
            self.refresh()

    def _is_newest(self) -> bool:
        """Whether no writer without `locking`, which does not count its changes, has published another version.

        What is gone is shown as it was.
        """
        sidecar = self._sidecar
        now = file_identity(sidecar.watched)
        if now is None or now == sidecar.settled:
            return True
        try:
            if not self._is_there(now):
                return False
        except FileNotFoundError:
            return True
        if time.time_ns() - now[3] > TICK:  # otherwise another change may still come that leaves no trace
            sidecar.settled = now
        return True

    def _is_there(self, identity: tuple[int, ...]) -> bool:
        """Whether the version that is shown is in the file of this identity."""
        shown = self.shown
        return identity == shown.source.identity and begins_with(self._sidecar.watched, shown.header_bytes())

    def refresh(self) -> bool:
        sidecar, thread = self._sidecar, (os.getpid(), get_ident())
        with sidecar.shared():
            sidecar.seen = sidecar.count()
            sidecar.refreshing.add(thread)
            try:
                return super().refresh()
            except BaseException:
                sidecar.seen = -1  # to be tried again
                raise
            finally:
                sidecar.refreshing.discard(thread)

    @_files.as_block
    def holding(self) -> Iterator[None]:
        """Block changes by all other handles, and start from the last version."""
        if not self._sidecar.held:  # later it would be a change that this one does not know of
            publish_waiting(str(self.shown.source.path))
        with self._sidecar.exclusive() as fresh:
            if fresh:
                self.refresh()
            yield

    def lock(self) -> None:
        held = self.holding()
        held.__enter__()
        self._sidecar.entered.append(held)

    def unlock(self) -> None:
        if not self._sidecar.entered:
            raise RuntimeError("unlock() without lock()")
        self._sidecar.entered.pop().__exit__(None, None, None)

    def editing(self) -> AbstractContextManager[Any]:
        """Block changes by everybody else, in any process, and start from the last version."""
        self.require_writable()
        return self._editing()

    @_files.as_block
    def _editing(self) -> Iterator[None]:
        with self.holding(), self._lock:
            yield


# The slots that lie below the properties of the same names.
_FRAME: Any = FrameHandle.__dict__["frame"]
_ARRAY: Any = FrameHandle.__dict__["array"]


class _SharedReader(_Shared):
    __slots__ = ("_sidecar",)


class _SharedFile(_Shared, FileHandle):
    __slots__ = ("_sidecar",)


class _OfDirectory(_Shared):
    __slots__ = ()

    def _is_there(self, identity: tuple[int, ...]) -> bool:  # noqa: ARG002
        return self._is_current()  # type: ignore[attr-defined,no-any-return]  # of both kinds of directories


class _SharedDirectoryReader(_OfDirectory, ReadOnlyDirectoryHandle):
    __slots__ = ("_sidecar",)


class _SharedDirectory(_OfDirectory, DirectoryHandle):
    __slots__ = ("_sidecar",)


def shared_handle(path: str, options: HandleOptions, *, new: bool = False) -> FrameHandle:
    """The handle of a file or directory frame for programs that change it together.

    `new` says that it was just put there, which handles of what was there before are to notice.
    """
    if not os.path.exists(path):
        raise MissingFileError(errno.ENOENT, "No such file or directory", path)
    reading = options.mode == "r"
    sidecar = Sidecar(path, writable=not reading, timeout=options.timeout)
    with sidecar.exclusive() if new else sidecar.shared():
        sidecar.watched = absolute_path(path)
        if is_directory_frame(path):
            sidecar.watched = os.path.join(sidecar.watched, HEADER_FILE)
            return (_SharedDirectoryReader if reading else _SharedDirectory)(sidecar, path, options)
        frame = open_frame(absolute_path(path), None)
        return (_SharedReader if reading else _SharedFile)(sidecar, frame, options, path)
