"""`check`: whether a file or store is whole. It reads every byte and changes none."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from blosc2._backends import EMBED
from blosc2._core.io.source import Source
from blosc2._frames import FrameHandle, is_directory_frame
from blosc2._integrity.report import FAULTS, CheckReport, Findings
from blosc2._options import absolute_path, local_path
from blosc2.exceptions import MissingFileError

#: Kinds of things at a path, as `open` tells them apart.
ARCHIVE, DIRECTORY, EMBEDDED, FRAME = "archive", "directory", "embedded", "frame"


def check(path: str | bytes | os.PathLike[Any], *, progress: Callable[[int, int], object] | None = None) -> CheckReport:
    """Read all of an array or store, and report what is damaged.

    It checks the structure, the checksums, and that every chunk decodes to its size. In a file that this package wrote
    and no other program changed, a wrong bit anywhere is found. Files of other programs are checked as far as possible,
    and listed as unverified. Nothing is modified, and memory is bounded by the largest chunk.

    Parameters
    ----------
    path : str, bytes or path
        A file or directory of any kind that `open` takes, however damaged.
    progress : callable, optional
        Called from time to time with the bytes checked so far and the bytes in all. An exception that it raises ends
        the check.

    Returns
    -------
    CheckReport
        A sequence of findings, empty if nothing is wrong. Each names file, key, byte and problem. Its attributes
        `unverified` and `notes` list findings that are not damage.

    Raises
    ------
    FileNotFoundError
        There is nothing at this path.
    MemoryError, OSError
        There is too little memory, or there are too many open files or threads: this says nothing of the file.

    See Also
    --------
    salvage : Copy what is whole of a damaged file.

    Examples
    --------
    >>> import os, tempfile
    >>> import blosc2
    >>> path = os.path.join(tempfile.mkdtemp(), "ones.b2nd")
    >>> _ = blosc2.ones((2, 3), urlpath=path)
    >>> blosc2.check(path).ok
    True
    >>> with open(path, "r+b") as file:
    ...     _ = file.truncate(150)
    >>> for finding in blosc2.check(path):
    ...     print(finding.offset, finding.problem)
    16 the frame says it has ... bytes and there are 150: cut short or damaged; restore the file from a copy, or ...
    """
    name = absolute_path(local_path(path))
    found = Findings(name, progress)
    kind = kind_of_path(name)
    # What follows is not imported with the package: most programs never come here.
    if kind == DIRECTORY:
        from blosc2._integrity.check_directory import check_directory_store

        check_directory_store(name, found)
    elif kind == ARCHIVE:
        from blosc2._integrity.check_archive import check_archive_file

        found.of_one_version(name, lambda: check_archive_file(name, found))
    elif kind == EMBEDDED:
        from blosc2._integrity.check_embedded import check_embedded_file

        found.total = os.path.getsize(name)
        found.of_one_version(name, lambda: check_embedded_file(name, found))
    else:
        from blosc2._integrity.check_frames import check_path

        found.of_one_version(name, lambda: check_path(name, found))
    return found.report()


def check_store(store: str | bytes, progress: Callable[[int, int], object] | None = None) -> CheckReport:
    """Check a store: the file or directory at a path, or the bytes of the frame of a store in memory."""
    if isinstance(store, str):
        return check(store, progress=progress)
    found = Findings("in memory", progress)
    found.total = len(store)
    from blosc2._integrity.check_embedded import check_embedded

    check_embedded((Source.of_buffer(store), 0, -1), found)
    return found.report()


def check_opened_handle(handle: FrameHandle, progress: Callable[[int, int], object] | None = None) -> CheckReport:
    from blosc2._integrity.check_frames import check_opened

    return check_opened(handle, progress)


def kind_of_path(path: str) -> str:
    """What is at a path, or should be by its name.

    Raises
    ------
    FileNotFoundError
        Nothing is there.
    """
    if not os.path.exists(path):
        raise MissingFileError(errno.ENOENT, "No such file or directory: there is nothing to look at", path)
    suffix = os.path.splitext(path)[1]
    if os.path.isdir(path):
        store = suffix in (".b2d", ".b2z", ".b2e") or os.path.exists(os.path.join(path, EMBED))
        return FRAME if is_directory_frame(path) and not store else DIRECTORY
    if suffix in (".b2d", ".b2z"):
        return ARCHIVE
    if suffix == ".b2e":
        return EMBEDDED
    return _kind_of_file(path)


def _kind_of_file(path: str) -> str:
    """What the content of a file says that it is."""
    from blosc2._integrity.check_frames import open_regular

    try:
        source = open_regular(path)
        head = source.read(0, min(4, source.size))
        if head in (b"PK\3\4", b"PK\5\6"):
            return ARCHIVE
    except FAULTS:
        pass
    return FRAME
