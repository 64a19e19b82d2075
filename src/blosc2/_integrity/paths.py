"""`check` and `salvage`: what is at a path, and who looks at it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any, Final

from blosc2._backends import EMBED, taken
from blosc2._core.io.source import Source
from blosc2._files import Owner
from blosc2._frames import FrameHandle, is_directory_frame
from blosc2._integrity.report import (
    ARCHIVE,
    DIRECTORY,
    EMBEDDED,
    FAULTS,
    FRAME,
    CheckReport,
    Finding,
    Findings,
    Report,
)
from blosc2._options import absolute_path, local_path
from blosc2.exceptions import MissingFileError, legible


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
        from blosc2._integrity.check_stores import check_directory_store

        check_directory_store(name, found)
    elif kind == ARCHIVE:
        from blosc2._integrity.check_archive import check_archive_file

        found.of_one_version(name, lambda: check_archive_file(name, found))
    elif kind == EMBEDDED:
        from blosc2._integrity.check_stores import check_embedded_file

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
    from blosc2._integrity.check_stores import check_embedded

    check_embedded((Source.of_buffer(store), 0, -1), found)
    return found.report()


def check_opened_handle(handle: FrameHandle, progress: Callable[[int, int], object] | None = None) -> CheckReport:
    from blosc2._integrity.check_frames import check_opened

    return check_opened(handle, progress)


def kind_of_path(path: str) -> str:
    """What is at a path, or should be by its name; `FileNotFoundError` where nothing is."""
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


_STORES: Final = (".b2z", ".b2d", ".b2e")


class SalvageReport(Report):
    """The result of `salvage`: what it recovered, and what it did not.

    Attributes
    ----------
    path, out : str
        The damaged file, and the new one.
    recovered : tuple of str
        The keys in `out`; "/" for a single array.
    lost : tuple of Finding
        What was not recovered, and why. It includes keys that were recovered in part.
    notes : tuple of Finding
        Facts about what was recovered, for instance that it is an older version.
    """

    __slots__ = ("lost", "notes", "out", "path", "recovered")

    def __init__(self, path: str, out: str, recovered: tuple[str, ...], found: list[Finding]) -> None:
        self.path = path
        self.out = out
        self.recovered = recovered
        self.lost = tuple(one for one in found if one.kind == "damage")
        self.notes = tuple(one for one in found if one.kind != "damage")

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be lost."""
        return not self.lost

    def _lines(self) -> list[str]:
        where = legible(f"{self.path} -> {self.out}")
        lines = [f"<SalvageReport {where}: {len(self.recovered)} recovered, {len(self.lost)} lost>"]
        lines += [str(one).replace("damage: ", "lost: ", 1) for one in self.lost]
        return [*lines, *map(str, self.notes)]


def salvage(
    path: str | bytes | os.PathLike[Any],
    out: str | bytes | os.PathLike[Any],
    *,
    fill: Any = None,
    progress: Callable[[int, int], object] | None = None,
) -> SalvageReport:
    """Copy what is whole of a damaged array or store to a new one.

    The damaged file is only read. If its directory or map is lost, it is searched for members and frames by their
    signatures. If the newest version is damaged, an older one is used. Nothing is invented: what
    cannot be recovered is listed with the reason. In a list of values, damaged entries are left out, and the entries
    behind them move up. A key that the new store cannot have is left out, too.

    Parameters
    ----------
    path : str, bytes or path
        A file or directory of any kind that `open` takes.
    out : str, bytes or path
        The new file or directory, which must not exist. A store needs the suffix ``.b2z``, ``.b2d`` or ``.b2e``, a
        single array any other one.
    fill : number, optional
        Recover arrays with damaged chunks too, with this value for the lost items.
    progress : callable, optional
        Called from time to time with the bytes done so far and the bytes in all. An exception that it raises ends the
        work.

    Returns
    -------
    SalvageReport
        The keys that were recovered, and what was not recovered.

    Raises
    ------
    FormatError
        Nothing could be recovered, with the reason. Nothing is written.
    FileExistsError
        `out` exists.
    ValueError
        `out` has the suffix of a store and `path` is a single array, or the other way round.
    MemoryError, OSError
        There is too little memory, or there are too many open files or threads. Nothing is written: what could not be
        read for that reason may be whole.

    See Also
    --------
    check : Report what is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> import blosc2
    >>> folder = tempfile.mkdtemp()
    >>> path = os.path.join(folder, "scans.b2z")
    >>> with blosc2.TreeStore(path, mode="w") as store:
    ...     store["/a"], store["/g/b"] = [1, 2], [3, 4]
    >>> with open(path, "r+b") as file:
    ...     _ = file.truncate(os.path.getsize(path) - 100)
    >>> report = blosc2.salvage(path, os.path.join(folder, "saved.b2z"))
    >>> sorted(report.recovered), report.lost
    (['/a', '/g/b'], ())
    """
    name, target = absolute_path(local_path(path)), absolute_path(local_path(out))
    kind = kind_of_path(name)
    if os.path.lexists(target):
        raise taken(target, "salvage only writes something new, and there is something already")
    is_store = os.path.splitext(target)[1] in _STORES
    if is_store != (kind in (ARCHIVE, DIRECTORY, EMBEDDED)):
        what = "a store: give it the suffix .b2z, .b2d or .b2e" if not is_store else "no store: give it another suffix"
        raise ValueError(f"{out!r} cannot hold what is recovered of {legible(name)}, which is {what}")
    lost = Findings(name, progress)
    owner = Owner()
    # Not with the package: most programs never come here.
    from blosc2._integrity.salvage_stores import recover_single, recover_store, write_frame_to, write_store_to

    if is_store:
        values = recover_store(name, kind, lost, fill)
        lost.finish()
        owner.check(target)  # who is told of progress may have forked
        recovered = write_store_to(target, values, lost)
    else:
        kept = recover_single(name, lost, fill)
        lost.finish()
        owner.check(target)
        write_frame_to(target, kept)
        recovered = ("/",)
    return SalvageReport(name, target, recovered, lost.found)
