"""What is known of a group or leaf without reading its items: properties and attributes, bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from blosc2._display import human_size, printable, ratio_text
from blosc2._stores import ForeignObject, Store
from blosc2._tools.error_text import one_line
from blosc2._tools.viewer.values import item_text
from blosc2.exceptions import FormatError

#: How many attributes are shown, and how much of each.
MOST_ATTRIBUTES = 200
_LONGEST = 500

Rows = list[tuple[str, str]]


def properties(thing: Any) -> Rows:
    """Names and values of what an array, a store or a group is."""
    if isinstance(thing, ForeignObject):
        return [("kind", f"{thing.kind}, an object of another package"), *_texts(thing.description.items())]
    if isinstance(thing, Store):
        return [("contents", printable(repr(thing)))]
    return _texts(_properties(thing))


def _properties(thing: Any) -> Iterator[tuple[str, Any]]:
    yield "kind", type(thing).__name__
    items = dict(thing.info_items)
    for name in ("shape", "dtype", "chunks", "blocks"):
        if name in items:
            yield name, items.pop(name)
    sizes = int(thing.nbytes), int(thing.cbytes)
    yield "bytes", human_size(sizes[0])
    yield "compressed", human_size(sizes[1])
    yield "ratio", ratio_text(*sizes) or "-"
    cparams = thing.cparams
    filters = [getattr(filter, "name", str(filter)).lower() for filter in cparams.filters]
    yield "codec", f"{getattr(cparams.codec, 'name', cparams.codec)}, level {cparams.clevel}"
    yield "filters", ", ".join(name for name in filters if name != "nofilter") or "none"
    left_out = {"type", "nbytes", "cbytes", "cratio", "cparams", "dparams", "urlpath"}
    yield from ((name.replace("_", " "), value) for name, value in items.items() if name not in left_out)


def attributes(thing: Any) -> Rows:
    """Names and values of attributes; one that cannot be read says why."""
    found: Any = getattr(thing, "vlmeta", None)
    if not isinstance(found, Mapping):
        return []
    names = list(found)
    rows = []
    for name in names[:MOST_ATTRIBUTES]:
        try:
            text = shortened(item_text(found[name], _LONGEST))
        except (OSError, ValueError, FormatError, KeyError) as error:
            text = f"cannot be read: {one_line(error)}"
        rows.append((shortened(printable(str(name))), text))
    left = len(names) - len(rows)
    return [*rows, ("...", f"{left:,} more")] if left > 0 else rows


def _texts(items: Any) -> Rows:
    return [(printable(str(name)), shortened(printable(str(value)))) for name, value in islice(items, MOST_ATTRIBUTES)]


def shortened(text: str) -> str:
    """A text of a file, cut if it is long."""
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
