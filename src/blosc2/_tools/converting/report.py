"""What a conversion tells: what is in the target, what is lost, and what only has another form."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from blosc2 import _display
from blosc2.exceptions import legible

#: What is left out if that is all of an array.
WHOLE = "all of it"


class LeftOut(NamedTuple):
    """Something of the source that the target cannot hold.

    Attributes
    ----------
    key : str
        Where; "/" for the whole source.
    what : str
        What was left out: "attribute 'units'", "soft link".
    why : str
    """

    key: str
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.key}: {self.what}: {self.why}"


class Changed(LeftOut):
    """Something of the source that has another form in the target, or that can be found there in another way.

    Nobody needs the source for it, so a conversion with such changes is complete.
    """


@dataclass
class ConversionReport:
    """What `convert` did.

    Attributes
    ----------
    source, target : str
    arrays : int
        How many arrays the target holds of the source.
    objects : int
        How many lists of objects.
    nbytes : int
        Uncompressed bytes of the arrays.
    resumed : int
        How many of both were there already, from a run that was interrupted.
    went_on : str or None
        The key of a large array in whose middle that run had stopped: it went on from there.
    verified : bool
        Whether all was read back and compared.
    left_out : list of LeftOut
        What is lost: nobody can get it back from the target.
    changed : list of Changed
        What only has another form in the target, or can be found there in another way.
    renamed : dict
        New keys by the old ones, of what has another key in the target.
    notes : list of str
        What else whoever reads the target has to know, such as a package that it needs.
    """

    source: str
    target: str
    arrays: int = 0
    objects: int = 0
    nbytes: int = 0
    resumed: int = 0
    went_on: str | None = field(default=None, init=False)
    verified: bool = False
    left_out: list[LeftOut] = field(default_factory=list)
    changed: list[Changed] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict, init=False)
    notes: list[str] = field(default_factory=list, init=False)

    @property
    def complete(self) -> bool:
        """Whether nothing of the source is lost."""
        return not self.left_out

    def __str__(self) -> str:
        found = f"{legible(f'{self.source} -> {self.target}')}: {_display.number(self.arrays, 'array')}"
        found += f", {_display.human_size(self.nbytes)}"
        if self.objects:
            found += f", {_display.number(self.objects, 'list')} of objects"
        if self.resumed:
            found += f", {self.resumed} of them from an interrupted run"
        if self.went_on is not None:
            found += f", {legible(self.went_on)} from its middle"
        if self.verified:
            found += ", read back and equal"
        lines = [_display.printable(found)]
        lines += _listed("left out", self.left_out, "left_out")
        lines += _listed("in another form", self.changed, "changed")
        if self.renamed:
            lines.append(f"renamed: {_display.number(len(self.renamed), 'key')}")
            some = itertools.islice(self.renamed.items(), _MOST_RENAMED)
            lines += [f"  {_display.printable(f'{old} -> {new}')}" for old, new in some]
            if len(self.renamed) > _MOST_RENAMED:
                lines.append(f"  ... {len(self.renamed) - _MOST_RENAMED} more, in `renamed`")
        return "\n".join([*lines, *(f"note: {each}" for each in self.notes)])


def note(report: ConversionReport, each: LeftOut) -> None:
    """Put something into the list of a report to which it belongs."""
    if isinstance(each, Changed):
        report.changed.append(each)
    else:
        report.left_out.append(each)


_MOST_LINES, _MOST_KEYS, _MOST_RENAMED = 50, 3, 10


def _listed(title: str, found: Sequence[LeftOut], name: str) -> Iterator[str]:
    """A list as lines: what is equal but for the key is one line."""
    if not found:
        return
    keys: dict[tuple[str, str], list[str]] = {}
    for each in found:
        keys.setdefault((each.what, each.why), []).append(each.key)
    yield f"{title}: {_display.number(len(found), 'thing')}"
    for (what, why), where in itertools.islice(keys.items(), _MOST_LINES):
        some = ", ".join(where[:_MOST_KEYS])
        if len(where) > _MOST_KEYS:
            some += f", ... ({len(where)} keys)"
        yield f"  {_display.printable(f'{some}: {what}: {why}')}"
    if len(keys) > _MOST_LINES:
        yield f"  ... {len(keys) - _MOST_LINES} more, in `{name}`"
