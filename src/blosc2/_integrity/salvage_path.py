"""`salvage`: copying what is whole of a damaged file or store to a new one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from blosc2._backends import taken
from blosc2._files import Owner
from blosc2._integrity.check_path import ARCHIVE, DIRECTORY, EMBEDDED, kind_of_path
from blosc2._integrity.report import Finding, Findings, first_lines
from blosc2._options import absolute_path, local_path
from blosc2.exceptions import legible

_STORES: Final = (".b2z", ".b2d", ".b2e")


class SalvageReport:
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

    def __repr__(self) -> str:
        return "\n  ".join(first_lines(self._lines()))

    def __str__(self) -> str:
        return "\n  ".join(self._lines())

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
