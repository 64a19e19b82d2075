"""Commands that describe: ls, tree, info, stats, diff."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import Enum
from itertools import zip_longest
from typing import Any, NamedTuple

import click
import numpy as np

from blosc2._display import Node, as_text, human_size, number, printable, printed, ratio_text, sizes_text
from blosc2._files import Progress
from blosc2._stores import ForeignObject, Store, children_of, describe_leaf, file_sizes, group_of, outline
from blosc2._tools.cli import locations
from blosc2._tools.cli.locations import STORAGE, Location, LocationError
from blosc2._tools.cli.output import QUIET, VERBOSE, name_leaf, progress_bar, say, untold
from blosc2._tools.converting.conversion import boxes_of
from blosc2._tools.stores import attributes_of, equal_items, opened, same_value
from blosc2.exceptions import FormatError
from blosc2.info import cut_text
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.tree_store import TreeStore

# So many leaves and groups are in the description of a store.
_MOST_LEAVES = 1000
#: So many bytes of an attribute are shown.
_FEW_BYTES = 40

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def print_json(value: Any) -> None:
    say(_json_text(value))


def _json_text(value: Any) -> str:
    return json.dumps(_plain(value), default=str, allow_nan=False)


def _print_one_document(texts: list[str]) -> None:
    """Texts of JSON as one document: an object as it is, several as a list."""
    say(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _plain(value: Any) -> Any:
    """A value as JSON can have it: NaN becomes null, arrays become lists, other keys become text."""
    if isinstance(value, dict):
        return {name if isinstance(name, str) else str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf":
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Enum):
        return value.name
    return value


def columns(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Rows as lines with aligned columns; numbers and sizes to the right."""
    if not rows:
        return
    encoding = sys.stdout.encoding or "utf-8"
    rows = [[printed(cell, encoding).decode(encoding) for cell in row] for row in rows]  # as wide as they are printed
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        yield "  ".join([*cells, row[-1]]).rstrip()


# ------------------------------------------------------------------ ls
@click.command()
@click.argument("places", nargs=-1, required=True, metavar="LOCATION...")
@click.option("-l", "--long", is_flag=True, help="With shape, dtype, codec and sizes.")
@click.option("-r", "--recursive", is_flag=True, help="All leaves below a group, with their full keys.")
@_JSON
@STORAGE
def ls(places: tuple[str, ...], long: bool, recursive: bool, as_json: bool) -> None:
    """List the groups and leaves of stores."""
    every: list[dict[str, Any]] = []
    for text in places:
        rows: list[dict[str, Any]] = []
        where = locations.located(text)
        with opened(where.path) as found:
            if isinstance(found, Store):
                if len(places) > 1 and not as_json:
                    say(f"{printable(locations.path_of(text))}:")
                _list_store(found, where, rows, recursive=recursive, stream=not (long or as_json))
            else:
                if where.key:
                    locations.need_store(found, where)
                rows.append(_row_of_object(where.path, found))
        if as_json:
            every += [{"path": where.path, **row} for row in rows]
        elif long:
            _print_table(rows)
        else:
            for row in rows:
                say(printable(row["name"]))
    if as_json:
        print_json(every)


def _list_store(store: Store, where: Location, rows: list[dict[str, Any]], *, recursive: bool, stream: bool) -> None:
    keys = list(locations.matches(store, where))
    if locations.has_pattern(where.key) and keys != [where.key] and not recursive:
        _show(store, [(key, not locations.is_leaf(store, key)) for key in keys], "", rows, stream=stream)
        return
    for key in keys:
        _list(store, key, rows, recursive=recursive, stream=stream)


def _print_table(rows: list[dict[str, Any]]) -> None:
    cells = [
        (row.get("kind", ""), row.get("shape_text", ""), cut_text(row.get("dtype", "")), row.get("codec", ""),
         row.get("size", ""), printable(row["name"]))
        for row in rows
    ]  # fmt: skip
    for line in columns(cells):
        say(line)


def _list(store: Store, key: str, rows: list[dict[str, Any]], *, recursive: bool, stream: bool) -> None:
    """Show a leaf, what is right below a group, or all leaves below it."""
    if recursive:
        _show(store, ((leaf, False) for leaf in locations.leaves_below(store, key)), "", rows, stream=stream)
    elif locations.is_leaf(store, key):
        _show(store, [(key, False)], "", rows, stream=stream)
    else:
        groups, leaves = children_of(store, key)
        inner = set(groups)
        names = [(name, name in inner) for name in dict.fromkeys(sorted(groups + leaves))]
        _show(store, names, key + "/", rows, stream=stream)


def _show(
    store: Store, names: Iterable[tuple[str, bool]], base: str, rows: list[dict[str, Any]], *, stream: bool
) -> None:
    """Print names of groups and leaves at once, or describe them in rows."""
    for name, group in names:
        if stream:
            say(printable(name) + ("/" if group else ""))
        else:
            rows.append((_row_of_group if group else _row_of_leaf)(store, base + name, name))


def _row_of_group(store: Store, key: str, name: str) -> dict[str, Any]:
    node = outline(store, key, depth=0)
    size = ""
    if node.nbytes is not None and node.cbytes is not None:
        size = sizes_text(node.nbytes, node.cbytes)
    return {
        "name": name + "/", "key": key, "kind": "group", "leaves": node.leaves, "nbytes": node.nbytes,
        "cbytes": node.cbytes, "shape_text": number(node.leaves or 0, "leaf", "leaves"), "size": size,
    }  # fmt: skip


def _row_of_leaf(store: Store, key: str, name: str) -> dict[str, Any]:
    try:
        info = describe_leaf(store, key)
    except (OSError, FormatError, NotImplementedError) as error:
        return {"name": name, "key": key, "kind": "damaged", "size": type(error).__name__}
    return {"name": name, "key": key, **_description_of(info, info.kind, info.codec), "stored": info.stored}


def _row_of_object(path: str, found: Any) -> dict[str, Any]:
    return {"name": path, "key": None, **_description_of(found, type(found).__name__, found.cparams.codec.name)}


def _description_of(found: Any, kind: str, codec: str) -> dict[str, Any]:
    """What the rows of arrays and other leaves have in common."""
    shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
    return {
        "kind": kind, "shape": None if shape is None else list(shape),
        "shape_text": "" if shape is None else str(shape),
        "dtype": "" if dtype is None else str(dtype), "codec": codec, "nbytes": found.nbytes, "cbytes": found.cbytes,
        "size": sizes_text(found.nbytes, found.cbytes),
    }  # fmt: skip


# ------------------------------------------------------------------ tree
@click.command()
@click.argument("location")
@click.option("-d", "--depth", type=click.IntRange(0), help="How many levels.")
@click.option(
    "-n", "--lines", type=click.IntRange(1), default=1000, show_default=True, help="How many groups and leaves."
)
@_JSON
@STORAGE
def tree(location: str, depth: int | None, lines: int, as_json: bool) -> None:
    """Draw the groups and leaves of a store."""
    where = locations.located(location)
    with opened(where.path) as found:
        store = locations.need_store(found, where)
        keys = list(locations.matches(store, where))
        for key in keys:
            _need_group(store, key)
        roots = [outline(store, key, depth, lines) for key in keys]
    if as_json:
        _print_one_document([_json_text(_tree_of(root)) for root in roots])
        return
    for root in roots:
        say(as_text(root))


def _need_group(store: Store, key: str) -> None:
    if not locations.is_group(store, key):
        raise LocationError(f"{key!r} is a leaf; 'blosc2 info' describes it")


def _tree_of(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = {"name": node.name, "kind": "group" if node.is_group else "leaf"}
    if node.text:
        found["what"] = node.text
    found |= {name: value for name in ("leaves", "nbytes", "cbytes") if (value := getattr(node, name)) is not None}
    if node.children:
        found["children"] = [_tree_of(child) for child in node.children]
    if node.more:
        found["more"] = node.more
    elif node.leaves and not node.children:
        found["more"] = f"... {number(node.leaves, 'more leaf', 'more leaves')}"
    return found


# ------------------------------------------------------------------ info and stats
@click.command()
@click.argument("places", nargs=-1, required=True, metavar="LOCATION...")
@_JSON
@STORAGE
def info(places: tuple[str, ...], as_json: bool) -> None:
    """Describe arrays, stores and groups."""
    texts: list[str] = []
    for text in places:
        where = locations.located(text)
        with opened(where.path) as found:
            keys = locations.matches(locations.need_store(found, where), where) if where.key else [""]
            for key in keys:
                part = _part(found, key)
                if as_json:
                    texts.append(_description(part, found, key))
                else:
                    _describe(part)
    if as_json:
        _print_one_document(texts)


def _description(found: Any, store: Any, key: str) -> str:
    """All that is known of an array, of a store, or of what it has under a key, as JSON."""
    items = {name: _value_of(found, name, value) for name, value in getattr(found, "info_items", ())}
    if "contents" in items:
        items["contents"] = _tree_of(outline(store, key, None, _MOST_LEAVES))
    attributes = found.vlmeta if hasattr(found, "vlmeta") else {}
    return _json_text({**items, "attributes": dict(attributes[:]) if attributes else {}})


# As `info_items` writes sizes, for people: "800 (800 B)", and what of an array is decoded: "... for an item".
_SIZE = re.compile(r"(\d+) \([^)]*\) for (an item|\[.*?\])")


def _value_of(found: Any, name: str, value: Any) -> Any:
    """What a row of `info_items` says, as numbers, lists and objects."""
    if name in ("nbytes", "cbytes", "cratio", "cparams", "dparams"):
        value = getattr(found, name)
        return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    if name in ("on disk", "unused"):
        return int(value.partition(" ")[0])
    if name == "decoded":
        return {what: int(size) for size, what in _SIZE.findall(value)}
    return value


def _describe(found: Any) -> None:
    attributes = found.vlmeta if hasattr(found, "vlmeta") else {}
    for line in repr(found.info if hasattr(found, "info") else found).split("\n"):
        say(printable(line))
    for name, value in (attributes[:] if attributes else {}).items():
        shown = printable(_one_line(value))
        say(f"  {printable(name)}: {shown if len(shown) <= 200 else shown[:200] + ' ...'}")


def _one_line(value: Any) -> str:
    """The value of an attribute: arrays in one line, and of many bytes the first."""
    if isinstance(value, np.ndarray):
        return " ".join(repr(value).split())
    if isinstance(value, bytes) and len(value) > _FEW_BYTES:
        return f"{value[:_FEW_BYTES]!r} ... ({number(len(value), 'byte')})"
    return repr(value)


@click.command()
@click.argument("location")
@click.option(
    "-d", "--depth", type=click.IntRange(0), default=1, show_default=True, help="Levels of groups with a row."
)
@click.option("--by", multiple=True, type=click.Choice(["kind", "dtype", "codec"]), help="Separate rows by this, too.")
@_JSON
@STORAGE
def stats(location: str, depth: int, by: tuple[str, ...], as_json: bool) -> None:
    """Count leaves and bytes by group, kind, dtype and codec."""
    where = locations.located(location)
    with opened(where.path) as found:
        store = locations.need_store(found, where)
        if not hasattr(store, "stats"):
            raise LocationError(f"{where.path}: an EmbedStore has no groups to count; see 'blosc2 ls -l'")
        key = locations.one_key(store, where)
        _need_group(store, key)
        rows = store.stats(key or "/", depth, by=by or None)
        sizes = None if key else file_sizes(store)
    if as_json:
        print_json([row._asdict() for row in rows])
        return
    cells = [("group", *by, "leaves", "bytes", "compressed", "ratio")]
    for row in rows:
        parts = [cut_text(str(getattr(row, name))) for name in by]
        cells.append(
            (printable(row.group), *parts, f"{row.leaves:,}", human_size(row.nbytes), human_size(row.cbytes),
             ratio_text(row.nbytes, row.cbytes))
        )  # fmt: skip
    for line in columns(cells):
        say(line)
    if sizes is not None:
        size, unused = sizes
        more = f", of which {human_size(unused)} are unused" if unused and 100 * unused > size else ""
        say(f"on disk: {human_size(size)}{more}")


# ------------------------------------------------------------------ diff
@click.command()
@click.argument("first")
@click.argument("second")
@click.option("--keys", "keys_only", is_flag=True, help="Compare keys, shapes and dtypes, not the items.")
@_JSON
@STORAGE
@QUIET
@VERBOSE
def diff(first: str, second: str, keys_only: bool, as_json: bool) -> int:
    """Compare two arrays or stores: keys, metadata and values (exit code 1 if they differ)."""
    one, other = locations.located(first), locations.located(second)
    with opened(one.path) as a, opened(other.path) as b:
        parts = _part_at(a, one), _part_at(b, other)
        with progress_bar(f"{one} {other}") as progress:
            found = list(differences(*parts, values=not keys_only, progress=progress))
    if as_json:
        print_json([difference._asdict() for difference in found])
    else:
        for difference in found:
            say(printable(str(difference)))
    return 1 if found else 0


def _part_at(found: Any, where: Location) -> Any:
    """What a location names, of what is open at its path."""
    if not where.key:
        return found
    store = locations.need_store(found, where)
    return _part(store, locations.one_key(store, where))


def _part(store: Store, key: str) -> Any:
    if not key:
        return store
    if not locations.is_leaf(store, key) and not isinstance(store, TreeStore):
        raise LocationError(f"{key!r} is the start of other keys; only a TreeStore has groups")
    return store[key]


class Difference(NamedTuple):
    """One difference: the key, "" for arrays that are no leaves; what differs, such as "shape"; and how, in words."""

    key: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.key or 'the array'}: {self.what}{': ' if self.text else ''}{self.text}"


def differences(first: Any, second: Any, *, values: bool, progress: Progress) -> Iterator[Difference]:
    """The differences of two arrays, lists or stores; `progress` gets leaves done and in all, or items of an array."""
    if isinstance(first, Store) != isinstance(second, Store):
        yield Difference("", "kind", f"{type(first).__name__}, {type(second).__name__}")
        return
    if not isinstance(first, Store):
        yield from _of_leaves("", first, second, values=values, progress=progress)
        return
    one, other = _keys(first), _keys(second)
    for mine, theirs, what in ((one, other, "only in the first"), (other, one, "only in the second")):
        yield from (Difference(key, what, "") for key in mine if key not in theirs)
    trees = [store for store in (first, second) if isinstance(store, TreeStore)]
    for group in sorted({group for store in trees for group, _, _ in store.walk()}):
        yield from _of_attributes(group, attributes_of(first, group), attributes_of(second, group))
    for done, key in enumerate(one, 1):
        if key in other:
            name_leaf(key)
            yield from _of_leaves(key, first[key], second[key], values=values, progress=untold)
        progress(done, len(one))


def _keys(store: Any) -> dict[str, None]:
    """The keys of all leaves, relative to the group that a view shows."""
    cut = len(group_of(store))
    return dict.fromkeys(key[cut:] for key in locations.leaves_below(store, group_of(store)))


def _of_leaves(key: str, a: Any, b: Any, *, values: bool, progress: Progress) -> Iterator[Difference]:
    if type(a) is not type(b):
        yield Difference(key, "kind", f"{type(a).__name__}, {type(b).__name__}")
        return
    if isinstance(a, ForeignObject):
        yield from _of_objects(key, a, b, values=values)
        return
    yield from _of_attributes(key, a.vlmeta[:], b.vlmeta[:])
    names = ("shape", "dtype") if isinstance(a, NDArray) else ("nbytes", "typesize")
    for name in names if isinstance(a, (NDArray, SChunk)) else ():
        mine, theirs = getattr(a, name), getattr(b, name)
        if mine != theirs:
            yield Difference(key, name, f"{mine}, {theirs}")
            return
    if values:
        yield from _of_values(key, a, b, progress)


def _of_attributes(key: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    both = sorted({*mine, *theirs})
    names = [name for name in both if not same_value(mine.get(name, _NONE), theirs.get(name, _NONE))]
    if names:
        yield Difference(key, "attributes", ", ".join(names))


def _of_objects(key: str, a: ForeignObject, b: ForeignObject, *, values: bool) -> Iterator[Difference]:
    """Objects of other packages, whose values nobody here reads: what is stored is compared."""
    if a.kind != b.kind:
        yield Difference(key, "kind", f"{a.kind}, {b.kind}")
    elif values:
        none: tuple[str, Any] = "", None
        pairs = zip_longest(a.leaves(), b.leaves(), fillvalue=none)
        if not all(mine == theirs and one.to_cframe() == other.to_cframe() for (mine, one), (theirs, other) in pairs):
            yield Difference(key, "stored bytes", "")


_NONE = object()
# How many bytes are compared at a time.
_PIECE = 16 << 20


def _of_values(key: str, a: Any, b: Any, progress: Progress) -> Iterator[Difference]:
    if not isinstance(a, NDArray):
        if isinstance(a, SChunk):
            step = max(1, _PIECE // a.typesize)
            equal = all(a[at : at + step] == b[at : at + step] for at in range(0, len(a), step))
        else:
            equal = len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
        if not equal:
            yield Difference(key, "values", "")
        return
    done, count, first = 0, 0, None
    for box in boxes_of(a, in_order=True) if a.size else ():
        wrong = np.argwhere(~equal_items(np.asarray(a[box]), np.asarray(b[box])))
        if len(wrong):
            count += len(wrong)
            first = first or tuple(part.start + int(n) for part, n in zip(box, wrong[0], strict=True))
        done += math.prod(part.stop - part.start for part in box)
        progress(done, a.size)
    if count:
        where = "" if a.ndim == 0 else f", the first at {first}"
        yield Difference(key, "values", f"{count:,} of {a.size:,} items{where}")


COMMANDS = (ls, tree, info, stats, diff)
