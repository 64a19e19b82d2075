"""Which keys of a damaged store can be used in a new one.

They are more than the keys that are allowed for new values, so that nothing is lost that can be read and written.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from blosc2._backends import MAX_SEGMENTS, RESERVED, is_own, is_path, is_safe

# What the name of a member may have.
_MOST_IN_ARCHIVE: Final = 0xFFFF
# What names and paths of files may have where the system does not tell, and what a new directory has besides.
_MOST_IN_NAME: Final = 255
_MOST_IN_PATH: Final = 4095
_BESIDE: Final = 64


def why_not(path: str, key: str, suffix: str) -> str | None:
    """Why a new store cannot have a key; None where it can.

    Parameters
    ----------
    path : str
        The store, whose suffix says what it is.
    key : str
    suffix : str
        That of the file of the leaf, or of its member.
    """
    if not is_safe(key):
        return "no store can have its key, which has an empty segment, '.' or '..', or a NUL"
    try:
        name = (key + suffix).encode()
    except UnicodeEncodeError:
        return "its key has a character that UTF-8 cannot express"
    if path.endswith(".b2e"):
        return None
    if key.startswith("/" + RESERVED):
        return f"its key begins with {RESERVED!r}, which is reserved for the store itself; recover it into a .b2e"
    if path.endswith(".b2z"):
        return "its key is too long for an archive; recover it into a .b2e" if len(name) > _MOST_IN_ARCHIVE else None
    return _why_no_file(path, key, name)


def _why_no_file(root: str, key: str, name: bytes) -> str | None:
    """The same for a `.b2d`, where a key is the name of a file."""
    other = "recover it into a .b2z or .b2e"
    if not is_path(key):
        return f"no file can be named like its key on this system; {other}"
    first, slash, _ = key[1:].partition("/")
    if slash and is_own(first):
        return f"its key begins with the name of a file of the store itself; {other}"
    if key.count("/") > MAX_SEGMENTS:
        return f"its key has more than {MAX_SEGMENTS} segments; {other}"
    most = _longest_name(root)
    if max(map(len, name.split(b"/"))) > most or len(os.fsencode(root)) + _BESIDE + len(name) > _MOST_IN_PATH:
        return f"its key is too long for the name of a file; {other}"
    return None


def _longest_name(path: str) -> int:
    """Bytes that the name of a file may have beside a path."""
    folder = os.path.dirname(path)
    if hasattr(os, "pathconf"):
        with suppress(OSError, ValueError):
            most = os.pathconf(folder, "PC_NAME_MAX")
            return most if most > 0 else _MOST_IN_NAME
    return _MOST_IN_NAME
