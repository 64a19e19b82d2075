"""Other keys for the items of a source: what a dict or function says, or a rule for names that stores refuse."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from unicodedata import normalize

from blosc2._backends import new_key

#: What `convert` takes: "escape", new keys by the old ones, or a function that makes them.
Rename = str | Mapping[str, str] | Callable[[str], str]


def new_keys(rename: Rename) -> Callable[[str, bool], str]:
    """What gives the new key of an old one, which is that of a group or not."""
    if callable(rename):
        return partial(_of_function, rename)
    if not isinstance(rename, str):
        return partial(_of_dict, {"/" + old.strip("/"): "/" + new.strip("/") for old, new in rename.items()})
    if rename != "escape":
        raise ValueError(f"rename must be 'escape', a dict or a function, not {rename!r}")
    return _Escaped().key


def _of_function(rename: Callable[[str], str], key: str, is_group: bool) -> str:  # noqa: ARG001 - of all
    new = rename(key)
    if not isinstance(new, str):
        raise TypeError(f"rename must give a str for {key!r}, not a {type(new).__name__}")
    return "/" + new.removeprefix("/")


def _of_dict(names: Mapping[str, str], key: str, is_group: bool) -> str:  # noqa: ARG001 - of all
    """The new key, of a group for all below it."""
    head = key
    while head and head not in names:
        head = head.rpartition("/")[0]
    return names[head] + key[len(head) :] if head else key


# ------------------------------------------------------------------ the rule
_LONGEST: Final = 200
#: What the rule itself means something by.
_OWN: Final = re.compile(r"%|~(?=\d+$)")


class _Escaped:
    """Keys that stores take. What they refuse in a name is percent-encoded, and so is "%" itself; an empty name is "%".

    A name that differs from another one in its group in case or accents only, or that means a leaf and a group, ends
    in "~2". So `urllib.parse.unquote` gives the old name, but for this end, and for names that are too long, which are
    cut, and get a sum of the whole name.
    """

    def __init__(self) -> None:
        # By the new key of a group and a name in it without case: the old keys that have it, in the order they came.
        self._owners: dict[tuple[str, str], list[tuple[str, bool]]] = {}

    def key(self, old: str, is_group: bool) -> str:
        new, names = "", old.split("/")[1:]
        for number, name in enumerate(names, 1):
            inside = is_group or number < len(names)
            escaped = _escaped(name, "/x/" if new else "/")
            folded = normalize("NFC", normalize("NFD", escaped).casefold())
            owners = self._owners.setdefault((new, folded), [])
            owner = ("/".join(names[:number]), inside)
            if owner not in owners:
                owners.append(owner)
            place = owners.index(owner)
            new += f"/{escaped}" if place == 0 else f"/{escaped}~{place + 1}"
        return new


def _escaped(name: str, group: str) -> str:
    """A name that a store takes in a group."""
    if not name:
        return "%"
    new = _OWN.sub(lambda found: _encoded(found[0]), name)
    new = "".join(one if _is_sound(f"/x/x{one}x") else _encoded(one) for one in new)
    if not _is_sound(group + new):
        new = new[:-1] + _encoded(new[-1])  # a blank or dot
    if not _is_sound(group + new):
        new = _encoded(new[0]) + new[1:]  # a device, or a name of the store's own
    if not _is_sound(f"{group}{new}~99"):
        cut = new.encode()[:_LONGEST].decode(errors="ignore")
        new = f"{re.sub('%.?$', '', cut)}~{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return new


def _encoded(one: str) -> str:
    try:
        stored = one.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        stored = one.encode(errors="surrogatepass")
    return "".join(f"%{byte:02X}" for byte in stored)


def _is_sound(key: str) -> bool:
    try:
        new_key(key)
    except ValueError:
        return False
    return True
