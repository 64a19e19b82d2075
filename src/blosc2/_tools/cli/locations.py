"""What is typed: locations and URLs, with the options that servers need, and NumPy indices as text."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import click

from blosc2._opening import open as open_path
from blosc2._options import RemotePath, local_path, remote_path, scheme_of
from blosc2._stores import Store, children_of, close_keys, has_leaf, has_object, table_of
from blosc2._tools.stores import STORES, attributes_of, group_path, in_order, opened
from blosc2.tree_store import TreeStore

_INDEX = re.compile(r"-?\d+|\.\.\.|(-?\d+)?:(-?\d+)?(:(-?\d+)?)?")


def parsed_selection(text: str) -> tuple[Any, ...]:
    """A NumPy index from its text, in brackets or not; only integers, slices and `...`."""
    text = text.strip()
    in_brackets = text[:1] == "[" and text[-1:] == "]"
    parts = [part.strip() for part in (text[1:-1] if in_brackets else text).split(",")]
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    keys: list[Any] = []
    for part in parts:
        if not _INDEX.fullmatch(part):
            why = f"{part!r} is no integer, slice or '...'; lists and names of fields are not taken"
            raise click.BadParameter(why, param_hint="SELECTION")
        if part == "...":
            keys.append(...)
        elif ":" in part:
            keys.append(slice(*(int(number) if number else None for number in part.split(":"))))
        else:
            keys.append(int(part))
    if in_brackets and all(isinstance(key, int) for key in keys):
        raise click.BadParameter(f"{text!r} is a list in NumPy, and lists are not taken", param_hint="SELECTION")
    return tuple(keys)


@contextmanager
def one_leaf(where: Location) -> Iterator[Any]:
    """The single array or list that a location names."""
    with leaf_with_attributes(where) as (leaf, _):
        yield leaf


@contextmanager
def leaf_with_attributes(where: Location) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The single array or list that a location names, and the attributes of the groups around it."""
    with opened(where.path) as found:
        if not isinstance(found, Store):
            if where.key:
                need_store(found, where)
            yield found, {}
            return
        key = one_key(found, where) if where.key else ""
        if not has_leaf(found, key):
            raise LocationError(f"{where} is a group or store: name one of its arrays, as 'blosc2 ls' shows them")
        yield found[key], _attributes_around(found, key)


def _attributes_around(store: Store, key: str) -> dict[str, Any]:
    """The attributes of the groups around a leaf, of which those of the inner ones count."""
    names, around = key.split("/")[1:-1], dict[str, Any]()
    for depth in range(1, len(names) + 1):
        with suppress(OSError, ValueError):  # the items may be whole
            around |= attributes_of(store, "/" + "/".join(names[:depth]))
    return around


_MAGIC = re.compile(r"[*?\[]")


class LocationError(ValueError):
    """A path that names nothing, or something that the command cannot use."""


class Location(NamedTuple):
    """A path of the file system or on a server, and the key behind it; "" for the whole file or store."""

    path: str
    key: str

    def __str__(self) -> str:
        return self.path + self.key


_STORAGE = "blosc2.storage"


def _note_storage(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> None:
    """Keep the storage options of a command for the URLs that it is given."""
    options: dict[str, Any] = {}
    context.meta[_STORAGE] = options
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value


#: For commands that take URLs.
STORAGE = click.option(
    "--storage-option", multiple=True, metavar="NAME=VALUE", expose_value=False, callback=_note_storage,
    help="For URLs: what the server needs, such as anon=true; may be repeated.",
)  # fmt: skip


def path_of(text: str) -> str:
    """What is on a server, for a URL of one; else a path, of which "file://" URLs are taken apart.

    Messages show this, and never the text, which may have a signature or a password.
    """
    scheme = scheme_of(text)
    if scheme is None:
        return text
    if scheme == "file":
        return local_path(text)
    context = click.get_current_context(silent=True)
    return remote_path(text, context.meta.get(_STORAGE) if context else None)


def path_here(text: str, instead: str = "name a file here") -> str:
    """A path of the file system; what is on a server is refused."""
    path = path_of(text)
    if isinstance(path, RemotePath):
        raise LocationError(f"{path} is on a server, where nothing is written: {instead}")
    return path


# Where an object on a server ends and its key begins: behind the first name that ends like one of ours. A signature
# comes last, as in all URLs; it has a "=", by which it is told from a "?" of a pattern.
_ON_SERVER = re.compile(r"([^?#]*?\.(?:b2z|b2d|b2e|b2nd|b2frame))/(.*?)(\?[\w.~%-]+=.*)?", re.DOTALL)


def with_slashes(text: str) -> str:
    """A path with "/" between its parts, as keys have it; on Windows it may be written with backslashes."""
    return text.replace(os.sep, os.altsep) if os.altsep else text


def located(text: str) -> Location:
    """Split a path at the first file, directory that is a store, or, where nothing is, name with a store's suffix."""
    whole = path_of(text)
    if isinstance(whole, RemotePath):
        found = _ON_SERVER.fullmatch(text)
        path, key, query = (text, "", "") if found is None else found.groups("")
        return Location(path_of(path + query), group_path(key))
    text = whole
    if os.path.isfile(text):
        return Location(text, "")
    text = with_slashes(text)
    parts = text.split("/")
    for end in range(1, len(parts)):
        path = "/".join(parts[:end])
        if path and (os.path.isfile(path) or may_be_store(path)):
            return Location(path, group_path("/".join(parts[end:])))
    return Location(text.rstrip("/") or text, "")


def whole(text: str) -> str:
    """What `path_of` gives, for commands that take whole files: a key in a store is refused."""
    where = located(text)
    if where.key:
        raise LocationError(f"{path_of(text)} is in a store, and this takes all of it: name {where.path}")
    return path_of(text)


def file_name(path: str) -> str:
    """The last name of a path or a URL."""
    return path.file_name if isinstance(path, RemotePath) else os.path.basename(path.rstrip("/"))


def may_be_store(path: str) -> bool:
    if os.path.isdir(path):
        return os.path.isfile(os.path.join(path, "embed.b2e"))
    return path.endswith(STORES) and not os.path.exists(path)


def need_store(found: Any, where: Location) -> Store:
    if not isinstance(found, Store):
        raise LocationError(f"{where.path} is one {type(found).__name__}, not a store with keys")
    return found


#: For commands that change stores, and what opens one for them.
WAIT = click.option("--timeout", type=click.FloatRange(0), default=0.0, help="Seconds to wait for another writer.")


def opened_to_change(path: str, timeout: float) -> Any:
    how: dict[str, Any] = {"timeout": timeout} if timeout else {}
    return open_path(path, mode="a", **how)


def is_leaf(store: Store, key: str) -> bool:
    """Whether there is a leaf at a key, or an object of another package, which is one thing to copy or remove."""
    return has_leaf(store, key) or has_object(store, key)


def is_group(store: Store, key: str) -> bool:
    """Whether there are leaves below a key, "" for the root."""
    if not key:
        return True
    if has_object(store, key):
        return False
    if isinstance(store, TreeStore):
        return table_of(store).has_group(key)  # those without leaves, too
    return any(children_of(store, key, 1))


def has_pattern(key: str) -> bool:
    """Whether a key stands for several."""
    return _MAGIC.search(key) is not None


def matches(store: Store, where: Location) -> Iterator[str]:
    """The keys of leaves and groups that a location names; several if its key has ``*``, ``?``, ``[...]`` or ``**``.

    `LocationError` where there are none.
    """
    if is_group(store, where.key) or is_leaf(store, where.key):
        yield where.key  # before it is taken for a pattern: names may have brackets
        return
    found = False
    for key in _expanded(store, "", tuple(where.key.split("/")[1:]), set()):
        if key:  # no pattern stands for the whole store
            found = True
            yield key
    if not found:
        raise LocationError(f"{where.path}: nothing is at {where.key!r}{close_keys(table_of(store), where.key)}")


def _expanded(store: Store, base: str, segments: tuple[str, ...], seen: set[tuple[str, int]]) -> Iterator[str]:
    """The keys that segments of a pattern stand for below a group."""
    if (base, len(segments)) in seen:
        return
    seen.add((base, len(segments)))
    if not segments:
        yield base
        return
    first, rest = segments[0], segments[1:]
    if first == "**":
        yield from _expanded(store, base, rest, seen)
    groups, leaves = children_of(store, base)
    inner = set(groups)
    for name in dict.fromkeys(sorted(groups + leaves)):
        here = f"{base}/{name}"
        if first == "**" and name in inner:
            yield from _expanded(store, here, segments, seen)
        elif first in ("**", name) or (has_pattern(first) and fnmatchcase(name, first)):
            if name in inner or not rest:
                yield from _expanded(store, here, rest if first != "**" else (), seen)
            elif all(segment == "**" for segment in rest):
                yield from _expanded(store, here, (), seen)


def one_key(store: Store, where: Location) -> str:
    keys = list(matches(store, where))
    if len(keys) != 1:
        raise LocationError(f"{where}: this names {len(keys)} keys, and one is needed")
    return keys[0]


def leaves_below(store: Store, key: str) -> Iterator[str]:
    if is_leaf(store, key):
        yield key
    yield from (leaf for leaf, is_group in in_order(store, key) if not is_group)
