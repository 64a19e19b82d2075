"""Selections as they are typed: NumPy indices as text, and the one array that a location names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from blosc2._stores import Store
from blosc2._tools.cli.locations import Location, LocationError, has_leaf, need_store, one_key, opened

_INDEX = re.compile(r"-?\d+|\.\.\.|(-?\d+)?:(-?\d+)?(:(-?\d+)?)?")


def parsed_selection(text: str) -> tuple[Any, ...]:
    """A NumPy index from its text; only integers, slices and `...`."""
    text = text.strip()
    parts = [part.strip() for part in (text[1:-1] if text[:1] == "[" and text[-1:] == "]" else text).split(",")]
    if len(parts) > 1 and not parts[-1]:
        parts.pop()
    keys: list[Any] = []
    for part in parts:
        if not _INDEX.fullmatch(part):
            raise click.BadParameter(f"{part!r} is no integer, slice or '...'", param_hint="SELECTION")
        if part == "...":
            keys.append(...)
        elif ":" in part:
            keys.append(slice(*(int(number) if number else None for number in part.split(":"))))
        else:
            keys.append(int(part))
    return tuple(keys)


@contextmanager
def one_leaf(where: Location) -> Iterator[Any]:
    """The single array or list that a location names."""
    with opened(where.path) as found:
        if not isinstance(found, Store):
            if where.key:
                need_store(found, where)
            yield found
            return
        key = one_key(found, where) if where.key else ""
        if not has_leaf(found, key):
            raise LocationError(f"{where} is a group or store: name one of its arrays, as 'blosc2 ls' shows them")
        yield found[key]
