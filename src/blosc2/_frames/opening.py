"""The handle of what is at a path; frames of files that were opened before are kept."""

from __future__ import annotations

import operator
import os
import sys
import time
from collections import OrderedDict
from typing import Final, TypeAlias

from blosc2 import _files, _frames
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import Lock, in_child, item_of
from blosc2._frames.handle import FrameHandle, HandleOptions, open_frame, publish_waiting
from blosc2._frames.header_fields import is_directory_frame
from blosc2._options import absolute_path, check_directory_mapping

# Two seconds are the resolution of the coarsest clock of a file system, FAT's.
SETTLED: Final = 2.0
# What was not asked for in this many seconds is let go when the next file is opened.
UNUSED: Final = 30.0
# Each file that is not mapped costs a descriptor, of which a process has some hundred.
MOST_DESCRIPTORS: Final = 16
# A parsed table of chunks takes 8 bytes for each.
MOST_CHUNKS: Final = 1 << 16

# The path, and whether what is read as a whole is checked.
_Name: TypeAlias = tuple[str, bool]


class _Recent:
    __slots__ = ("changed", "frame", "identity", "used")

    def __init__(self, frame: Frame, status: os.stat_result, now: float) -> None:
        self.frame = frame
        self.identity = _identity(status)
        self.changed = status.st_ctime_ns
        self.used = now


class RecentFrames:
    """The frames that were opened last in one way, of at most `limit` files."""

    def __init__(self, mmap_mode: str | None) -> None:
        self.limit = 0
        self._mmap_mode = mmap_mode
        self._frames: OrderedDict[_Name, _Recent] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._frames)

    def open(self, path: str, verify: bool | None, advice: str | None, status: os.stat_result | None) -> Frame:
        """The frame at the beginning of a file; see `open_recent_frame`."""
        found = self.find(path, verify, advice, status)
        if found is not None:
            return found
        now = time.monotonic()
        frame = open_frame(path, self._mmap_mode, advice=advice)
        if self.limit:
            self._keep((path, verify is None), _recent(frame, path, now))
        return frame

    def find(
        self, path: str, verify: bool | None, advice: str | None = None, status: os.stat_result | None = None
    ) -> Frame | None:
        """The frame at the beginning of a file, if it is one of these, and the file is unchanged."""
        name = path, verify is None
        known = item_of(self._frames, name)
        if known is None or not _is_unchanged(known, path, advice, status):
            return None
        known.used = time.monotonic()
        self._keep(name, known)
        return known.frame

    def forget(self) -> None:
        """Let go of all."""
        with self._lock:
            # Not cleared: files are unmapped without the GIL; a child forked meanwhile would have half a dictionary.
            old, self._frames = self._frames, OrderedDict()
        del old

    def renew(self) -> None:
        """In a forked child, which has the mappings too; anew if another thread was in the middle of a change."""
        if self._lock.renew() or not _has_gil():
            self._frames = OrderedDict()

    def _keep(self, name: _Name, recent: _Recent | None) -> None:
        """Make a frame the one that was used last, or none of these; and let go of those beyond the limits."""
        with self._lock:
            frames = self._frames
            frames.pop(name, None)
            if recent is None:
                return
            frames[name] = recent
            self._keep_limits(recent.used)

    def _keep_limits(self, now: float) -> None:
        frames = self._frames
        while frames and (len(frames) > self.limit or now - next(iter(frames.values())).used > UNUSED):
            frames.popitem(last=False)


def _is_unchanged(known: _Recent, path: str, advice: str | None, status: os.stat_result | None) -> bool:
    """Whether the file is what it was when it was opened; by what the system has just said of it, if it was asked."""
    source = known.frame.source
    try:
        status = status or os.stat(path)
        if (
            _identity(status) == known.identity
            and status.st_ctime_ns == known.changed
            and source.advice == (advice or "normal")
        ):
            header = known.frame.header_bytes()
            return source.read(0, len(header)) == header
    except (OSError, ValueError):  # opening it says what is wrong
        pass
    return False


def _recent(frame: Frame, path: str, now: float) -> _Recent | None:
    """What is kept of a frame; None if its file was changed just now, or if the frame takes much memory."""
    # Its number of chunks would have to be read; that of chunks of different sizes is not known without.
    if frame.nbytes > MOST_CHUNKS * frame.chunksize:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    if _identity(status) != frame.source.identity:
        return None
    if max(status.st_mtime_ns, status.st_ctime_ns) > time.time_ns() - int(SETTLED * 1e9):
        return None
    return _Recent(frame, status, now)


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    """What a source knows its file by."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _has_gil() -> bool:
    """Whether no other thread can be in the middle of a change of a dictionary when this one forks."""
    return not hasattr(sys, "_is_gil_enabled") or bool(sys._is_gil_enabled())


_mapped, _not_mapped = RecentFrames("r"), RecentFrames(None)
in_child(_mapped.renew)
in_child(_not_mapped.renew)


def open_recent_frame(
    path: str, mmap_mode: str | None, verify: bool | None, advice: str | None, status: os.stat_result | None = None
) -> Frame:
    """The frame at the beginning of a file, to be read only, whose reads are checked as `verify` says: not all.

    `status` is what the system has just said of the file.
    """
    return (_not_mapped if mmap_mode is None else _mapped).open(path, verify, advice, status)


def recent_frame(path: str, mmap_mode: str | None, verify: bool | None) -> Frame | None:
    """The frame of a file that is still open and unchanged, by its full path; None for others."""
    publish_waiting(path)
    return (_not_mapped if mmap_mode is None else _mapped).find(path, verify)


def forget_recent_frames() -> None:
    """Let go of all frames that nobody else holds."""
    _mapped.forget()
    _not_mapped.forget()


def set_file_cache(files: int) -> int:
    """Set how many of the files of arrays that were opened last stay open after their arrays are gone.

    Whoever opens a file again then gets the mapping and the header that are there already, if the file is unchanged:
    its inode, size, times and header are compared. This counts for arrays and super-chunks in files of their own that
    are opened to be read. At most 16 of the files are not mapped. A file that was not opened for 30 seconds is let go
    when the next one is opened. As long as it is kept, a file that was removed takes its space on the disk;
    `free_resources` lets go of all; a forked child has its own, and begins with those of its parent.

    Parameters
    ----------
    files : int
        0 keeps none. The default is 128; on Windows, where files that are open cannot be removed, it is 0.

    Returns
    -------
    int
        The previous number.

    Examples
    --------
    >>> old = set_file_cache(0)
    >>> set_file_cache(old)
    0
    """
    number = operator.index(files)
    if number < 0:
        raise ValueError(f"a number of files is needed, not {number}")
    old, _mapped.limit = _mapped.limit, number
    _not_mapped.limit = min(number, MOST_DESCRIPTORS)
    forget_recent_frames()
    return old


# Where a file that is open cannot be removed, nobody may be surprised by one that is kept open.
set_file_cache(0 if os.name == "nt" else 128)


def open_handle(
    path: str, options: HandleOptions, offset: int = 0, *, directory: bool | None = None, advice: str | None = None,
    status: os.stat_result | None = None,
) -> FrameHandle:  # fmt: skip
    """Open the frame in a file, at an offset, or the directory frame at a path; `directory` says which, if it is known.

    The options are checked, except that a directory cannot be mapped for changes. The system is told `advice` before
    the file is read.
    """
    if publish_waiting(path):
        status = None
    if directory is None:
        directory = not offset and is_directory_frame(path)
    if directory:
        check_directory_mapping(path, options.mmap_mode)
        options = options._replace(mmap_mode=None)
    if options.locking:
        return _frames.shared_handle(path, options)
    if directory:
        return _frames.directory_handle(path, options)
    return _file_handle(path, options, offset, advice=advice, status=status)


def _file_handle(
    path: str, options: HandleOptions, offset: int, *, advice: str | None, status: os.stat_result | None
) -> FrameHandle:
    """The handle of a frame in a file. It can be changed if the file is nothing but the frame."""
    # The full path stays right when the process changes its working directory.
    full_path = absolute_path(path)
    if options.mode == "r" and not offset and not options.verify:
        frame = open_recent_frame(full_path, options.mmap_mode, options.verify, advice, status)
        return FrameHandle(frame, options, path)
    frame = open_frame(full_path, options.mmap_mode, offset, advice=advice)
    if options.mmap_mode == "c":
        return _frames.MemoryHandle(frame, options, path)
    if options.mode == "r" or offset:
        return FrameHandle(frame, options, path)
    _files.check_permission(full_path)
    return _frames.FileHandle(frame, options, path)
