"""Where a command works: a file or store, and a key in it, written as one path: ``study.b2z/mri/007/raw``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import blosc2
from blosc2._stores import Store, children_of, close_keys

STORE_SUFFIXES = (".b2z", ".b2d", ".b2e")

_MAGIC = re.compile(r"[*?\[]")


class LocationError(ValueError):
    """A path that names nothing, or something that the command cannot use."""


class Location(NamedTuple):
    """A path of the file system, and the key behind it; "" for the whole file or store."""

    path: str
    key: str

    def __str__(self) -> str:
        return self.path + self.key


def located(text: str) -> Location:
    """Split a path where a store ends: at the first file, the first directory that is a store, or, where there is
    nothing yet, the first name with the suffix of a store."""
    if os.path.isfile(text):
        return Location(text, "")
    parts = text.split("/")
    for end in range(1, len(parts)):
        path, rest = "/".join(parts[:end]), [part for part in parts[end:] if part]
        if path and (os.path.isfile(path) or _may_be_store(path)):
            return Location(path, "/" + "/".join(rest) if rest else "")
    return Location(text.rstrip("/") or text, "")


def _may_be_store(path: str) -> bool:
    if os.path.isdir(path):
        return os.path.isfile(os.path.join(path, "embed.b2e"))
    return path.endswith(STORE_SUFFIXES) and not os.path.exists(path)


@contextmanager
def opened(path: str, mode: str = "r") -> Iterator[Any]:
    """What is at a path of the file system; closed in the end."""
    found = blosc2.open(path, mode=mode, mmap_mode="r" if mode == "r" else None)
    try:
        yield found
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()


def need_store(found: Any, where: Location) -> Store:
    """Refuse what is not a store."""
    if not isinstance(found, Store):
        raise LocationError(f"{where.path} is one {type(found).__name__}, not a store with keys")
    return found


def is_group(store: Store, key: str) -> bool:
    """Whether there are leaves below a key, "" for the root."""
    groups, leaves = children_of(store, key, 1)
    return not key or bool(groups or leaves)


def has_pattern(key: str) -> bool:
    """Whether a key stands for several."""
    return _MAGIC.search(key) is not None


def has_leaf(store: Store, key: str) -> bool:
    """Whether a key is that of a leaf."""
    return bool(key) and store._contents.has(key)


def matches(store: Store, where: Location) -> Iterator[str]:
    """The keys of leaves and groups that a location names; several if its key has ``*``, ``?``, ``[...]`` or ``**``.

    Raises
    ------
    LocationError
        There are none.
    """
    segments = where.key.split("/")[1:]
    found = False
    for key in dict.fromkeys(_expanded(store, "", segments)):
        found = True
        yield key
    if not found:
        raise LocationError(f"{where.path}: nothing is at {where.key!r}{close_keys(store, where.key)}")


def _expanded(store: Store, base: str, segments: list[str]) -> Iterator[str]:
    if not segments:
        if is_group(store, base) or has_leaf(store, base):
            yield base
        return
    first, *rest = segments
    if not _MAGIC.search(first):
        yield from _expanded(store, f"{base}/{first}", rest)
        return
    if first == "**":
        yield from _expanded(store, base, rest)
    groups, leaves = children_of(store, base)
    for name in dict.fromkeys(sorted(groups + leaves)):
        if first == "**":
            yield from _expanded(store, f"{base}/{name}", segments if name in groups else rest)
        elif fnmatchcase(name, first):
            yield from _expanded(store, f"{base}/{name}", rest)


def leaves_below(store: Store, key: str) -> Iterator[str]:
    """The keys of all leaves at or below a key, in order."""
    if has_leaf(store, key):
        yield key
    groups, leaves = children_of(store, key)
    for name in dict.fromkeys(sorted(groups + leaves)):
        if name in groups:
            yield from leaves_below(store, f"{key}/{name}")
        else:
            yield f"{key}/{name}"
