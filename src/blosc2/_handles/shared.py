"""Carriers of frames that several processes change at the same time: ``locking=True``.

Every change waits for the lock, loads the last published version, and is published before the lock is released. A read
loads the last version first. Properties of an array, such as its shape, change with the next read, change or `refresh`,
not between two of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.ndim.geometry import Geometry
from blosc2._files import Sidecar
from blosc2._frames import is_directory_frame
from blosc2._handles.directory import DirectoryCarrier, ReadOnlyDirectoryCarrier
from blosc2._handles.handle import Carrier, FileCarrier, open_frame
from blosc2.exceptions import MissingFileError

Array = tuple[Geometry, np.dtype[Any], Frame]


class _Shared(Carrier):
    """What the kinds have in common: the lock, and following the versions of others."""

    __slots__ = ()
    _sidecar: Sidecar

    def __init__(self, *args: Any, sidecar: Sidecar, **how: Any) -> None:
        self._sidecar = sidecar  # type: ignore[misc]  # each kind has a slot for it
        sidecar.seen = sidecar.count()
        super().__init__(*args, **how)

    @property
    def locking(self) -> bool:  # type: ignore[override]  # a constant of other kinds
        return True

    @property
    def frame(self) -> Frame:
        self._follow()
        frame: Frame = _FRAME.__get__(self)
        return frame

    @frame.setter
    def frame(self, value: Frame) -> None:
        _FRAME.__set__(self, value)

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
        if not self._sidecar.held and self._sidecar.count() != self._sidecar.seen:
            self.refresh()

    def refresh(self) -> bool:
        """Take up the version that is on disk now; True when it is another one."""
        with self._sidecar.shared():
            self._sidecar.seen = self._sidecar.count()
            try:
                return super().refresh()
            except BaseException:
                self._sidecar.seen = -1  # to be tried again
                raise

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Keep all other handles from changes, and start from the last version."""
        with self._sidecar.exclusive() as fresh:
            if fresh:
                self.refresh()
            yield

    def lock(self) -> None:
        """Enter `holding`; `unlock` leaves it."""
        held = self.holding()
        held.__enter__()
        self._sidecar.entered.append(held)

    def unlock(self) -> None:
        """Leave what `lock` entered."""
        if not self._sidecar.entered:
            raise RuntimeError("unlock() without lock()")
        self._sidecar.entered.pop().__exit__(None, None, None)

    def editing(self) -> AbstractContextManager[Any]:
        """Keep everybody else from changes, in any process, and start from the last version."""
        self.require_writable()
        return self._editing()

    @contextmanager
    def _editing(self) -> Iterator[None]:
        with self.holding(), self._lock:
            yield


# The places of what is followed, below the properties of that name.
_FRAME: Any = Carrier.__dict__["frame"]
_ARRAY: Any = Carrier.__dict__["array"]


class _SharedReader(_Shared):
    __slots__ = ("_sidecar",)


class _SharedFile(_Shared, FileCarrier):
    __slots__ = ("_sidecar",)


class _SharedDirectoryReader(_Shared, ReadOnlyDirectoryCarrier):
    __slots__ = ("_sidecar",)


class _SharedDirectory(_Shared, DirectoryCarrier):
    __slots__ = ("_sidecar",)


def check_locking(locking: bool, path: str | None, mmap_mode: str | None) -> None:
    """Refuse a lock where there is no file, or where a mapping would show what others change meanwhile."""
    if not locking:
        return
    if path is None:
        raise ValueError("locking=True is for files: urlpath must be set")
    if mmap_mode is not None:
        raise ValueError(f"locking=True and mmap_mode={mmap_mode!r} do not go together: leave one of them out")


def shared_carrier(path: str, mode: str, *, new: bool = False, **how: Any) -> Carrier:
    """The carrier of a file or directory frame for programs that change it together.

    `new` says that it was just put there, which handles of what was there before are to notice.
    """
    if not os.path.exists(path):
        raise MissingFileError(errno.ENOENT, "No such file or directory", path)
    sidecar = Sidecar(path, writable=mode != "r")
    how = {"mode": mode, "sidecar": sidecar, **how}
    with sidecar.exclusive() if new else sidecar.shared():
        if is_directory_frame(path):
            directory = _SharedDirectoryReader if mode == "r" else _SharedDirectory
            return directory(path, **how)
        kind = _SharedReader if mode == "r" else _SharedFile
        return kind(open_frame(os.path.abspath(path), None), urlpath=path, **how)
