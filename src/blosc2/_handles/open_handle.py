"""The handle of what is at a path."""

from __future__ import annotations

import os

from blosc2 import _files, _handles
from blosc2._frames import is_directory_frame
from blosc2._handles.handle import FrameHandle
from blosc2._handles.open_frame import open_frame
from blosc2._handles.options import HandleOptions
from blosc2._handles.recent_frames import open_recent_frame
from blosc2._options import absolute_path, check_directory_mapping


def open_handle(
    path: str, options: HandleOptions, offset: int = 0, *, directory: bool | None = None, advice: str | None = None,
    status: os.stat_result | None = None,
) -> FrameHandle:  # fmt: skip
    """Open the frame in a file, at an offset, or the directory frame at a path.

    Parameters
    ----------
    path : str
    options : HandleOptions
        Checked, except that a directory cannot be mapped for changes.
    offset : int
        Where the frame starts in the file, in bytes.
    directory : bool, optional
        Whether a directory frame is at the path; by default, this is looked up.
    advice : str, optional
        What the system is told before the file is read.
    status : os.stat_result, optional
        What the system says of the file now.
    """
    if directory is None:
        directory = not offset and is_directory_frame(path)
    if directory:
        check_directory_mapping(path, options.mmap_mode)
        options = options._replace(mmap_mode=None)
    if options.locking:
        return _handles.shared_handle(path, options)
    if directory:
        return _handles.directory_handle(path, options)
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
        return _handles.MemoryHandle(frame, options, path)
    if options.mode == "r" or offset:
        return FrameHandle(frame, options, path)
    _files.check_permission(full_path)
    return _handles.FileHandle(frame, options, path)
