"""What `check` reports: findings, and what could not be verified, each with its position."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar, overload

from blosc2._files import file_identity
from blosc2.exceptions import FormatError, UnsafeDeserializationError, UnsupportedKindError, legible

_Result = TypeVar("_Result")

Kind = Literal["damage", "unverified", "note"]

#: Kinds of things at a path, as `open` tells them apart.
ARCHIVE, DIRECTORY, EMBEDDED, FRAME = "archive", "directory", "embedded", "frame"
#: How many findings of one frame are told; a file that is damaged all over does not need more.
MOST: Final = 100
# How often a file is looked at that is changed meanwhile.
_LOOKS: Final = 5
# Of findings, how many the `repr` of a report shows.
_MOST_SHOWN: Final = 10
# What to do about damage, where nothing else is said.
_ADVICE: Final = "restore the file from a copy, or recover what is whole with blosc2.salvage"
# The same of an array or a list that is cut short: chunks that are all zeros are not stored, and replaced ones are, so
# that nothing but the table at the end tells which item is where.
CUT_SHORT: Final = "cut short or damaged"
_WITHOUT_END: Final = (
    "restore the file from a copy: its end is missing, which says where the chunks belong, so that at most an earlier "
    "version can be recovered with blosc2.salvage"
)
_STORES: Final = (".b2e", ".b2z")
_ADVISED: Final = ("salvage", "restore", "remove it", "compact()")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of `check`.

    Attributes
    ----------
    path : str
        The file; for a `.b2d`, the file inside the directory.
    key : str or None
        The key in a store.
    offset : int or None
        The byte, counted from the start of the file.
    problem : str
        What is wrong, and what to do.
    kind : {"damage", "unverified", "note"}
        Something is wrong; something could not be verified, because another program wrote it or this package does not
        know it; or a fact that does no harm.
    """

    path: str
    key: str | None
    offset: int | None
    problem: str
    kind: Kind = "damage"

    def __str__(self) -> str:
        where = self.path
        if self.key is not None:
            where += f", key {self.key!r}"
        if self.offset is not None:
            where += f", byte {self.offset}"
        return legible(f"{self.kind}: {where}: {self.problem}")


class Report:
    """What `check` and `salvage` give: a head and the lines of findings, of which the `repr` shows the first."""

    __slots__ = ()

    def _lines(self) -> list[str]:
        raise NotImplementedError

    def __repr__(self) -> str:
        lines, advice = _once(self._lines())
        more = len(lines) - 1 - _MOST_SHOWN
        rest = [f"... and {more} more: print() shows all"] if more > 0 else []
        return "\n  ".join([*lines[: 1 + _MOST_SHOWN], *rest, *advice])

    def __str__(self) -> str:
        lines, advice = _once(self._lines())
        return "\n  ".join([*lines, *advice])


def _once(lines: list[str]) -> tuple[list[str], list[str]]:
    """The lines, and the advice at the ends of two or more of them, each advice once."""
    ends = [line.rpartition("; ")[2] for line in lines[1:] if "; " in line]
    repeated = [end for end in dict.fromkeys(ends) if ends.count(end) > 1]
    for end in repeated:
        lines = [line.removesuffix(f"; {end}") for line in lines]
    return lines, repeated


class CheckReport(Report, Sequence[Finding]):
    """The result of `check`: a sequence of findings, which is empty, and so false, if nothing is wrong.

    Attributes
    ----------
    path : str
        What was checked.
    findings : tuple of Finding
        What is wrong.
    unverified : tuple of Finding
        What could not be verified. It is not known to be wrong.
    notes : tuple of Finding
        Facts that do no harm, such as the remains of an interrupted write.
    """

    __slots__ = ("findings", "notes", "path", "unverified")

    def __init__(self, path: str, found: Sequence[Finding]) -> None:
        self.path = path
        self.findings = tuple(one for one in found if one.kind == "damage")
        self.unverified = tuple(one for one in found if one.kind == "unverified")
        self.notes = tuple(one for one in found if one.kind == "note")

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | Sequence[Finding]:
        return self.findings[index]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def _lines(self) -> list[str]:
        state = "ok" if self.ok else f"{len(self.findings)} finding{'' if len(self.findings) == 1 else 's'}"
        more = (self.unverified, "unverified"), (self.notes, "note" if len(self.notes) == 1 else "notes")
        counts = [f"{len(some)} {what}" for some, what in more if some]
        lines = [legible(f"<CheckReport {self.path}: {', '.join([state, *counts])}>")]
        return [*lines, *map(str, (*self.findings, *self.unverified, *self.notes))]


class Findings:
    """Where a check collects what it finds, in the file of this path; `progress` gets the bytes done and in all."""

    def __init__(self, path: str, progress: Callable[[int, int], object] | None = None) -> None:
        self.path = path
        self.found: list[Finding] = []
        self.done = self.total = 0
        self._progress = progress
        self._root = self
        self._file: str | None = None
        self._key: str | None = None

    def at(self, path: str | None, key: str | None = None) -> Findings:
        """The list of these, for what is found in a file, and for a key, where nothing else is said."""
        bound = Findings.__new__(Findings)
        bound.__dict__.update(self.__dict__)
        bound._file, bound._key = path or self._file, key
        return bound

    def apart(self) -> Findings:
        """A list of its own for the same place: of what may not be told."""
        bound = self.at(self._file, self._key)
        bound.found, bound._root, bound._progress = [], bound, None
        return bound

    @property
    def damage(self) -> list[Finding]:
        return [one for one in self.found if one.kind == "damage"]

    def add(
        self, problem: str, kind: Kind = "damage", *, key: str | None = None, offset: int | None = None,
        path: str | None = None,
    ) -> None:  # fmt: skip
        self.found.append(Finding(path or self._file or self.path, key or self._key, offset, problem, kind))

    def unverified(self, problem: str, **where: Any) -> None:
        """Note what nothing is known about; `where` is as for `add`."""
        self.add(problem, "unverified", **where)

    def note(self, problem: str, **where: Any) -> None:
        """Note what is no fault."""
        self.add(problem, "note", **where)

    def caught(self, error: BaseException, *, key: str | None = None, path: str | None = None) -> None:
        """Note what reading something raised."""
        if isinstance(error, FormatError):
            self.add(error.reason, key=error.key or key, offset=error.offset, path=path or self._file or error.path)
        elif isinstance(error, UnsupportedKindError):
            self.unverified(error.reason, key=error.key or key, path=path or self._file or error.path)
        elif isinstance(error, UnsafeDeserializationError):
            self.unverified(f"{error.kind}: what it stands for is not looked at", key=key, path=path)
        elif isinstance(error, OSError) and error.errno not in _NO_WORD:
            text = error.strerror or str(error)
            self.add(f"it cannot be read: {text}", key=key, path=path or self._file or _name(error.filename))
        else:
            raise error

    def of_one_version(self, path: str, look: Callable[[], _Result]) -> _Result:
        """What a look at a file gives; again if something was found, and a writer has changed the file meanwhile."""
        known, done = len(self.found), self.done
        for _ in range(_LOOKS):
            before = file_identity(path)
            result = look()
            if len(self.found) == known or file_identity(path) == before:
                return result
            del self.found[known:]
            self.done = done
        self.unverified("a writer changed it whenever it was looked at: check it again", path=path)
        return result

    def advance(self, nbytes: int) -> None:
        root = self._root
        root.done += nbytes
        if self._progress is not None:
            self._progress(min(root.done, root.total), root.total)

    def finish(self) -> None:
        if self._progress is not None:
            self._progress(self.total, self.total)

    def report(self) -> CheckReport:
        """What was found; the check is over."""
        self.finish()
        return CheckReport(self.path, [_advised(one) for one in self.found])


#: What reading damaged bytes may raise. A lack of memory or of permission is none of it: nothing is known of the bytes
#: then, and a check or salvage ends.
FAULTS: Final = (FormatError, UnsupportedKindError, UnsafeDeserializationError, OSError)
# Of the system, and no word about the bytes: no memory, too many open files, no more threads, no permission.
_NO_WORD: Final = (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EACCES, errno.EPERM)


def _advised(one: Finding) -> Finding:
    if one.kind != "damage" or any(word in one.problem for word in _ADVISED):
        return one
    is_array = one.key is None and not one.path.endswith(_STORES)
    advice = _WITHOUT_END if is_array and one.problem.endswith(CUT_SHORT) else _ADVICE
    return replace(one, problem=f"{one.problem}; {advice}")


def _name(value: object) -> str | None:
    return os.fsdecode(value) if isinstance(value, (str, bytes)) else None
