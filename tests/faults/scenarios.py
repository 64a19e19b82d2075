"""What a scenario is: the kind of file, its steps, and what may be seen of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import blosc2

Value = tuple[str, tuple[int, ...], bytes, str]
Version = dict[str, Value] | None
#: Nothing is there.
ABSENT = None
Step = Callable[["Play"], None]

_RNG = np.random.default_rng(20261121)
# Bytes that do not shrink, so that they fill sectors.
NOISE = _RNG.integers(0, 1 << 62, 40_000)


def noise(size: int, seed: int) -> np.ndarray[Any, Any]:
    """Numbers that no other seed has."""
    return NOISE[seed * 7 : seed * 7 + size] + seed


#: What is refused when it is read, by an error that names it.
REFUSED: Value = ("refused", (), b"", "")


class IllegalStateError(AssertionError):
    """Something else is there than any version that may be."""


def value_of(array: Any, metadata: dict[str, Any] | None = None) -> Value:
    """An array and its metadata as something to compare."""
    array = np.asarray(array)
    return str(array.dtype), array.shape, array.tobytes(), repr(sorted((metadata or {}).items()))


@dataclass
class Publication:
    """A version, and the numbers of changes before and after it was published."""

    version: Version
    before: int
    after: int | None = None
    durable: bool = True


@dataclass
class Kind:
    """How one kind of file or store is opened, changed and read.

    Attributes
    ----------
    name : str
        The last part of its path.
    atomic : bool
        Whether all values change at once.
    """

    name: str
    atomic: bool = True
    #: Whether mode "a" makes one where there is none.
    creates = False
    #: Whether it may publish changes before it is told to.
    at_once = False

    def open(self, path: str, mode: str) -> Any:
        raise NotImplementedError

    def read(self, handle: Any) -> dict[str, Value]:
        """All values that an open file or store shows."""
        raise NotImplementedError

    def close(self, handle: Any) -> None:
        """Publish and end."""

    def drop(self, handle: Any) -> None:
        """End without publishing anything."""

    def extend(self, handle: Any, version: dict[str, Value]) -> dict[str, Value]:
        """Make and publish a small change; the version that there must be then."""
        raise NotImplementedError

    def observe(self, folder: Path | str, mmap_mode: str | None = None) -> Version:
        """What there is, read anew."""
        path = os.path.join(folder, self.name)
        try:
            handle = self.reader(path, mmap_mode)
        except FileNotFoundError:
            if os.path.lexists(path):
                raise
            return ABSENT
        try:
            return self.read(handle)
        finally:
            self.drop(handle)

    def reader(self, path: str, mmap_mode: str | None) -> Any:
        return blosc2.open(path, mode="r", mmap_mode=mmap_mode)

    def check(self, seen: Version, versions: Iterable[Version]) -> None:
        """Raise unless what was seen is one of the versions or, where values change one by one, made of them."""
        allowed = list(versions)
        if seen in allowed:
            return
        if not self.atomic and seen is not None:
            keys = {key for version in allowed for key in version or {}} | set(seen)
            wrong = [
                key
                for key in keys
                if seen.get(key) not in [(version or {}).get(key) for version in allowed]
                # What was not there when all was durable last may be refused.
                and not (seen.get(key) == REFUSED and key not in (allowed[0] or {}))
            ]
            # What is there before and after, under another key perhaps, is there all the time.
            kept = set.intersection(*(set((version or {}).values()) for version in allowed))
            if not wrong and kept <= set(seen.values()):
                return
        raise IllegalStateError(f"{self.name}: found {show(seen)}, allowed are {' or '.join(map(show, allowed))}")


def show(version: Version) -> str:
    """A version in short."""
    if version is None:
        return "nothing"
    return "{" + ", ".join(f"{k}: {v[0]}{list(v[1])} {hash(v[2]) & 0xFFFF:x} {v[3]}" for k, v in version.items()) + "}"


class Play:
    """A story as it is played: a handle, the model of what it shows, and what was published when.

    Parameters
    ----------
    kind : Kind
    folder : path
        Where the file or store is.
    clock : callable
        Gives the number of changes made up to now.
    """

    def __init__(self, kind: Kind, folder: Path | str, clock: Callable[[], int] = lambda: 0) -> None:
        self.kind, self.folder, self.clock = kind, folder, clock
        self.path = os.path.join(folder, kind.name)
        self.handle: Any = None
        self.now: dict[str, Value] = {}
        self.publications = [Publication(ABSENT, 0, 0)]

    @property
    def published(self) -> Version:
        """The last version whose publication was over."""
        return next(p.version for p in reversed(self.publications) if p.after is not None)

    def publish(self, version: dict[str, Value], act: Callable[[], Any], *, durable: bool = True) -> None:
        """Do what publishes a version."""
        publication = Publication(dict(version), self.clock(), durable=durable)
        self.publications.append(publication)
        act()
        publication.after = self.clock()

    def legal(self, moment: int) -> list[Version]:
        """The versions of which one must be there after a crash when so many changes were made."""
        versions: list[Version] = []
        for publication in self.publications:
            if publication.after is not None and publication.after <= moment:
                if publication.durable:
                    versions = []
                versions.append(publication.version)
            elif publication.before < moment:
                versions.append(publication.version)
        return versions

    def settle(self, version: Version) -> None:
        """Nothing but this version may be there."""
        moment = self.clock()
        self.publications.append(Publication(version, moment, moment))
