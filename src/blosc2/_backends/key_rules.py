"""The rules for keys of stores."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final, cast

from blosc2._backends.layout import EMBED, LEAF_SUFFIXES, LOCK, RESERVED
from blosc2._core.io.sharing import remembered
from blosc2._core.keys.key_admission import is_plain

# What a new key may not have: an empty, "." or ".." segment, control characters, and what the names of files on
# some system cannot have or would misread, so that every key is the name of one file below its store
# everywhere: the separators of other systems, wildcards, an end in a dot or blank, and devices.
_UNSOUND: Final = (
    r"(?i)[\x00-\x1f\x7f\\:<>\"|?*]|/\.{0,2}(?:/|$)|[. ](?:/|$)"
    r"|/(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\xb9\xb2\xb3]) *(?=[./]|$)"
)
# What a key that is read from a file may not have either.
_UNSAFE: Final = r"\x00|/\.{0,2}(?:/|$)"


_SUFFIXED: Final = rf"[^/](?:{'|'.join(map(re.escape, LEAF_SUFFIXES))})(?=/)"
_UNSAFE_LINES: Final = re.compile(r"\x00|^(?!/)|/\.{0,2}(?:/|$)", re.MULTILINE)


# Some file systems take no longer names than these, with a suffix after the last segment.
_MAX_SEGMENT_BYTES: Final = 240
_MAX_BYTES: Final = 4000
# Names right below the root that the store itself uses. Many disks of macOS and Windows ignore case.
_OWN: Final = (EMBED, LOCK, RESERVED.rstrip("/"))

#: A key with one more would not be listed in a directory.
MAX_SEGMENTS: Final = 257

#: What each error for a refused key says besides the reason.
KEY_RULES: Final = (
    f"(a key has 1 to {MAX_SEGMENTS} segments behind '/' each, of up to {_MAX_SEGMENT_BYTES} bytes of UTF-8, "
    f"{_MAX_BYTES} in all; no segment is empty, '.' or '..', has a control character or one of \\ : < > \" | ? *, ends "
    "in a dot or a blank, or is a device on Windows such as con, nul, com1; keys of files differ in more than case and "
    "accents)"
)


@remembered(8)
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern that few keys need: it is compiled for the first of them."""
    return re.compile(text)


class KeyKindError(TypeError, ValueError):
    """A key that is not a string."""


def plain_key(key: object) -> str:
    """A key as an exact `str`, also for subclasses such as NumPy's; `KeyKindError` for anything else."""
    if not isinstance(key, str):
        raise KeyKindError(f"Key must be a string such as '/group/name', not {type(key).__name__}")
    return str.__str__(key)


def canonical_key(key: object) -> str:
    """A key in the form in which stores know it, with "/" in front; `ValueError` for one that can be none."""
    key = plain_key(key)
    if not key.startswith("/"):
        key = "/" + key
    if key.endswith("/"):
        raise ValueError(f"Key cannot end with '/': {key!r} names no leaf")
    if "//" in key:
        raise ValueError(f"Key cannot contain empty path segments '//': {key!r}")
    return key


def new_key(key: object) -> str:
    """The canonical form of a key to be written, which must be the name of one file on every system."""
    if is_plain(key):
        return cast("str", key)
    key = canonical_key(key)
    unsound = _pattern(_UNSOUND).search(key)
    if unsound:
        raise ValueError(
            f"Key {_shown(key)} could not be the name of a file everywhere, as each key must: it has "
            f"{_what_is_unsound(unsound[0])} {KEY_RULES}"
        )
    if key.count("/") > MAX_SEGMENTS:
        raise ValueError(f"Key {_shown(key)} has more than {MAX_SEGMENTS} segments {KEY_RULES}")
    if not is_text(key):
        raise ValueError(f"Key {_shown(key)} has a character that UTF-8 cannot express {KEY_RULES}")
    if _is_long(key.encode()):
        raise ValueError(f"Key {_shown(key)} or a segment of it is too long {KEY_RULES}")
    own = key.split("/", 2)[1]
    if is_own(own):
        raise ValueError(f"Key {_shown(key)}: the name {own!r} is reserved for the store itself {KEY_RULES}")
    return key


def is_own(name: str) -> bool:
    """Whether the store itself uses a name right below its root, or a file system may take it for one of those."""
    return name.casefold() in _OWN


def _shown(key: str) -> str:
    return repr(key) if len(key) <= _MAX_SEGMENT_BYTES else f"{key[:60]!r}..."


def _what_is_unsound(text: str) -> str:
    """Describe the part of a key that `_UNSOUND` matched."""
    if len(text) == 1 and text not in ". ":
        return f"the character {text!r}"
    if text.strip("/") in ("", ".", ".."):
        if text[0] == "/":
            return f"the segment {text.strip('/')!r}"
        return "a segment that ends in a dot"
    if not text.strip(" /"):
        return "a segment that ends in a blank"
    return f"the segment {text[1:]!r}, which is a device on Windows"


def suffixed_folders(key: str) -> list[str]:
    """The groups of a key that are named like the file of a leaf."""
    if ".b2" not in key:
        return []
    return [key[: match.end()] for match in _pattern(_SUFFIXED).finditer(key)]


def is_path(key: str) -> bool:
    """Whether a key, put behind the path of a directory, names a file below that directory on this system."""
    return is_safe(key) and is_text(key) and (os.name != "nt" or not _pattern(_UNSOUND).search(key))


def is_text(key: str) -> bool:
    """Whether UTF-8 can express a key: it has no lone surrogate, as names of files that are not UTF-8 get."""
    if key.isascii():
        return True
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_long(name: bytes) -> bool:
    return len(name) > _MAX_BYTES or (
        len(name) > _MAX_SEGMENT_BYTES and max(map(len, name.split(b"/"))) > _MAX_SEGMENT_BYTES
    )


def is_safe(key: object) -> bool:
    """Whether a key that was read from a file stays below its store."""
    if not isinstance(key, str) or not key.startswith("/"):
        return False
    # Most keys need no closer look.
    if "/." in key or "//" in key or "\0" in key or key[-1] == "/":
        return not _pattern(_UNSAFE).search(key)
    return True


def all_safe(keys: Iterable[object]) -> bool:
    """Whether `is_safe` is true for all keys."""
    try:
        text = "\n".join(keys)  # type: ignore[arg-type]  # what is no string raises
    except TypeError:
        return False
    # A newline inside a key looks like the start of another key, so after a hit each key is checked.
    return not _UNSAFE_LINES.search(text) or all(map(is_safe, keys))
