"""The rules for keys of stores."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

# What a key of ours may not have: an empty, "." or ".." segment, control characters, and the separators of
# other systems, so that every key is the name of one file below its store everywhere.
_UNSOUND: Final = re.compile(r"[\x00-\x1f\x7f\\:]|/\.{0,2}(?:/|$)")
# The part of it that a key read from a file must obey too.
_UNSAFE: Final = re.compile(r"\x00|/\.{0,2}(?:/|$)")


_UNSAFE_LINES: Final = re.compile(r"\x00|^(?!/)|/\.{0,2}(?:/|$)", re.MULTILINE)


# A key with one more would not be listed.
_MAX_SEGMENTS: Final = 257


class KeyKindError(TypeError, ValueError):
    """A key that is not a string."""


def canonical_key(key: object) -> str:
    """A key in the form in which stores know it, with "/" in front.

    Raises
    ------
    ValueError
        For a key that ends with "/", has empty segments, or is not a string (`KeyKindError`).
    """
    if not isinstance(key, str):
        raise KeyKindError(f"Key must be a string, not {type(key).__name__}")
    if not key.startswith("/"):
        key = "/" + key
    if key.endswith("/"):
        raise ValueError(f"Key cannot end with '/': {key!r} names no leaf")
    if "//" in key:
        raise ValueError(f"Key cannot contain empty path segments '//': {key!r}")
    return key


def new_key(key: object) -> str:
    """The canonical form of a key to be written, which must be the name of one file on every system."""
    key = canonical_key(key)
    if _UNSOUND.search(key):
        raise ValueError(
            f"Key {key!r} has a '.' or '..' segment, a control character, a backslash or a colon, "
            "which no key of a store may have"
        )
    if key.count("/") > _MAX_SEGMENTS:
        raise ValueError(f"Key {key[:60]!r}... has more than {_MAX_SEGMENTS} segments")
    return key


def is_path(key: str) -> bool:
    """Whether a key, put behind the path of a directory, names a file below that directory on this system."""
    return is_safe(key) and (os.name != "nt" or not _UNSOUND.search(key))


def is_safe(key: object) -> bool:
    """Whether a key that was read from a file stays below its store."""
    if not isinstance(key, str) or not key.startswith("/"):
        return False
    # Most keys have nothing that could be wrong with them.
    if "/." in key or "//" in key or "\0" in key or key[-1] == "/":
        return not _UNSAFE.search(key)
    return True


def all_safe(keys: Iterable[object]) -> bool:
    """The same for many keys, faster."""
    try:
        text = "\n".join(keys)  # type: ignore[arg-type]  # what is no string raises
    except TypeError:
        return False
    # A newline inside of a key may look like the start of another one, so a hit is looked at closely.
    return not _UNSAFE_LINES.search(text) or all(map(is_safe, keys))
