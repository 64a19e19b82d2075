"""Describing a leaf of a store, without opening it if there is a catalog."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import item_of
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyListing
from blosc2._core.ndim import geometry
from blosc2._core.zip.catalog import Catalog
from blosc2._frames import parse_dtype
from blosc2._options import needed
from blosc2._stores.leaf_table import table_of
from blosc2.exceptions import FormatError, StoreKeyError
from blosc2.info import dtype_text
from blosc2.storage import Codec

if TYPE_CHECKING:
    from blosc2._backends import ByteRange
    from blosc2._stores.leaf_table import LeafTable
    from blosc2._stores.store import Store
    from blosc2.dict_store import DictStore


#: The kinds of leaves by their numbers in descriptions; "attributes" are those of a group.
KINDS: Final = ("unknown", "array", "schunk", "objects", "batches", "other", "attributes")
_START: Final = struct.Struct("<BBBxIQQ")
_NO_SHAPE: Final = 255


class LeafInfo(NamedTuple):
    """The description of a leaf.

    Attributes
    ----------
    kind : str
        "array", "schunk", "objects", "batches" or "other"; of an object of another package its kind, such as "ctable".
    shape : tuple of int or None
        Of an array.
    dtype : numpy.dtype or None
        Of an array.
    codec : str
        The name of the codec.
    nbytes : int
        Uncompressed bytes.
    cbytes : int
        Compressed bytes of its chunks.
    key : str
        Its key in the store.
    stored : int
        The bytes that it takes in the file, including headers, metadata, its name, and up to 63 bytes of alignment.
    """

    kind: str
    shape: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    codec: str
    nbytes: int
    cbytes: int
    key: str = ""
    stored: int = 0

    def __str__(self) -> str:
        if self.shape is None or self.dtype is None:
            return self.kind
        return f"{self.shape} {dtype_text(self.dtype)}"


def codec_name(number: int) -> str:
    """The name of a codec by its number."""
    try:
        return Codec(number).name
    except ValueError:
        return str(number)


def _spelled(text: str) -> str | None:
    """The dtype of a catalog as NumPy prints it; None if there is none."""
    try:
        return str(parse_dtype(text)) if text else None
    except ValueError:  # who opens the leaf learns what is wrong with it
        return text


def kind_name(number: int) -> str:
    """The kind of a leaf by its number in a description."""
    return KINDS[number] if number < len(KINDS) else KINDS[0]


def leaf_info(description: bytes) -> LeafInfo:
    """Read a description, as `_core.ndim.geometry.describe` makes it."""
    what, codec, ndim, length, nbytes, cbytes = _START.unpack_from(description)
    shape = None
    at = _START.size
    if ndim != _NO_SHAPE:
        shape = struct.unpack_from(f"<{ndim}Q", description, at)
        at += 8 * ndim
    text = description[at : at + length].decode("utf-8", "replace")
    dtype = None
    if text and what == 1:
        try:
            dtype = parse_dtype(text)
        except ValueError as error:
            raise FormatError(f"the description of a leaf has a dtype that is none: {error}") from error
    return LeafInfo(kind_name(what), shape, dtype, codec_name(codec), nbytes, cbytes)


#: What rows can be separated by, besides the group.
PARTS: Final = ("kind", "dtype", "codec")

#: What a table of leaves has of each, besides key and ratio of compression.
COLUMNS: Final = ("kind", "shape", "dtype", "codec", "nbytes", "cbytes", "stored")

#: Stands for a leaf that cannot be read.
UNKNOWN: Final = LeafInfo(kind_name(0), None, None, "", 0, 0)
# Stands for a leaf that only carries the attributes of a group.
_ATTRIBUTES: Final = LeafInfo(kind_name(6), None, None, codec_name(0), 0, 0)

_Part = tuple[str | None, str | None, str | None]
_Totals = list[int]


class GroupStats(NamedTuple):
    """What is in a group and all groups below it; a row of `DictStore.stats`.

    Attributes
    ----------
    group : str
        The key of the group; "/" is the root.
    depth : int
        How many levels it is below the first group.
    kind, dtype, codec : str or None
        What the leaves of this row have in common; None if rows are not separated by it.
    leaves : int
        The number of leaves.
    nbytes, cbytes : int
        Their uncompressed bytes, and the compressed bytes of their chunks.
    cratio : float
        `nbytes` divided by `cbytes`; 0 if nothing is stored.
    file_bytes : int or None
        The bytes of the store's files, in the row of the whole store; None in other rows. Files have some 300 to 500
        more bytes for each leaf (header, metadata, name, checksums), and replaced data until it is compacted.
    """

    group: str
    depth: int
    kind: str | None
    dtype: str | None
    codec: str | None
    leaves: int
    nbytes: int
    cbytes: int
    cratio: float
    file_bytes: int | None = None


def parts_of(by: str | Iterable[str] | None) -> tuple[bool, ...]:
    """For each of `PARTS`, whether rows are separated by it."""
    names = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    for name in names:
        if name not in PARTS:
            raise ValueError(f"by must be among {', '.join(PARTS)}, not {name!r}")
    return tuple(part in names for part in PARTS)


class Counter:
    """Adds up leaves and bytes by group, and by what the leaves are.

    Parameters
    ----------
    parts : tuple of bool
        For each of `PARTS`, whether rows are separated by it.
    hidden : bool
        Whether leaves that carry attributes of groups are left out.
    """

    def __init__(self, parts: tuple[bool, ...], *, hidden: bool) -> None:
        self._parts = parts
        self._hidden = hidden
        self._rows: dict[str, tuple[int, dict[_Part, _Totals]]] = {}

    def add_catalog(self, catalog: Catalog, listing: KeyListing, group: str, depth: int) -> bool:
        """Count all leaves of a catalog below a group. Returns False, and counts nothing, if the catalog is wrong."""
        groups = listing.groups_below(group, depth)
        # A listing that found the catalog wrong goes by the ZIP directory, which may have other leaves.
        if len(listing.table) != catalog.count:
            return False
        try:
            self._add_groups(catalog, groups)
        except FormatError:
            self._rows.clear()
            return False
        return True

    def _add_groups(self, catalog: Catalog, groups: list[tuple[str, int, int, int]]) -> None:
        by_dtype = self._parts[PARTS.index("dtype")]
        kinds = [
            (kind_name(what), _spelled(dtype) if by_dtype else None, codec_name(codec))
            if what else (UNKNOWN.kind, None, UNKNOWN.codec)
            for what, codec, dtype in catalog.kinds()
        ]  # fmt: skip
        attributes = kind_name(6)
        for path, level, start, stop in groups:
            row = self._row(path, level)
            if not any(self._parts):
                hidden, nbytes, cbytes = catalog.totals(start, stop)
                leaves = stop - start - (hidden if self._hidden else 0)
                if leaves:
                    self._add(row, (None, None, None), leaves, nbytes, cbytes)
                continue
            for number, sums in catalog.tally(start, stop).items():
                if not (self._hidden and kinds[number][0] == attributes):
                    self._add(row, kinds[number], *sums)

    def add_leaves(self, leaves: Iterable[tuple[str, LeafInfo]], group: str, depth: int) -> None:
        """Count leaves one by one; all of them are below a group."""
        base = "" if group == "/" else group
        self._row(group, 0)
        for key, info in leaves:
            if key.endswith("/__vlmeta__"):
                if self._hidden:
                    continue
                info = _ATTRIBUTES
            part = (info.kind, None if info.dtype is None else str(info.dtype), info.codec)
            path, level = base, 0
            while True:
                self._add(self._row(path or "/", level), part, 1, info.nbytes, info.cbytes)
                end = key.find("/", len(path) + 1)
                if end < 0 or level == depth:
                    break
                path, level = key[:end], level + 1

    def _row(self, path: str, level: int) -> dict[_Part, _Totals]:
        return self._rows.setdefault(path, (level, {}))[1]

    def _add(self, row: dict[_Part, _Totals], part: _Part, leaves: int, nbytes: int, cbytes: int) -> None:
        shown: Any = tuple(value if counts else None for value, counts in zip(part, self._parts, strict=True))
        sums = row.setdefault(shown, [0, 0, 0])
        sums[0] += leaves
        sums[1] += nbytes
        sums[2] += cbytes

    def rows(self) -> list[GroupStats]:
        """The rows, a group before those in it."""
        result = []
        for path in sorted(self._rows, key=lambda path: path.split("/")):
            level, parts = self._rows[path]
            if not any(self._parts) and not parts:
                parts = {(None, None, None): [0, 0, 0]}
            for part, (leaves, nbytes, cbytes) in sorted(parts.items(), key=lambda item: tuple(map(str, item[0]))):
                result.append(
                    GroupStats(path, level, *part, leaves, nbytes, cbytes, nbytes / cbytes if cbytes else 0.0)
                )
        return result


def readable(keys: Iterable[str], describe: Callable[[str], LeafInfo]) -> Iterator[tuple[str, LeafInfo]]:
    """Describe leaves. One that cannot be read counts without bytes.

    So does one that is listed and not found: a catalog may be wrong, and other programs delete files of a directory.
    """
    for key in keys:
        try:
            yield key, describe(key)
        except (FormatError, NotImplementedError, StoreKeyError):
            yield key, UNKNOWN


def describe_leaf(store: Store, key: str) -> LeafInfo:
    """Describe an existing leaf of a store, by its catalog if there is one, or an object of another package."""
    table = table_of(store)
    foreign = table.foreign
    description = foreign.at(key) if foreign is not None and foreign.are_possible() else None
    return describe(table, key) if description is None else _object_info(table, key, description)


def _object_info(table: LeafTable, key: str, description: Mapping[str, Any]) -> LeafInfo:
    """An object by its kind, with the bytes of all its leaves."""
    inner = [describe(table, leaf) for leaf in table.contents.listing().below(key)]
    codec = ", ".join(sorted({info.codec for info in inner}))
    nbytes, cbytes, stored = (sum(getattr(info, name) for info in inner) for name in ("nbytes", "cbytes", "stored"))
    kind = str(description.get("kind", "object"))
    return LeafInfo(kind, None, None, codec, nbytes, cbytes, key=key, stored=stored)


def describe(table: LeafTable, key: str) -> LeafInfo:
    """Describe an existing leaf of a table."""
    if not table.leaves.has_edits(key) and key not in table.pending.frames:
        members = table.backend.members
        catalog = None if members is None else members.catalog()
        if catalog is not None:
            position = table.published_listing().position(key)
            if 0 <= position < catalog.count:
                with suppress(FormatError):  # of a wrong catalog: then the leaf itself is opened
                    description = catalog.description(position)
                    if description:
                        return leaf_info(description)._replace(key=key, stored=table.backend.stored_bytes(key))
    with table.lock:  # no other thread makes edits a pending change meanwhile
        edited = item_of(table.leaves.edited, key)
        pending = edited is not None or key in table.pending.frames
        byte_range = table.contents.byte_range(key) if edited is None else edited.byte_range()
    if byte_range is None:
        raise table.missing_key(key)
    frame = Frame.open(*byte_range, key)
    description = geometry.describe(frame, parse_dtype)
    if description:
        info = leaf_info(description)
    else:
        info = LeafInfo("other", None, None, codec_name(frame.codec), frame.nbytes, frame.cbytes)
    return info._replace(key=key, stored=int(frame.frame_len) if pending else table.backend.stored_bytes(key))


def leaves_table(store: DictStore, group: str) -> Any:
    """Describe the leaves below a group of a store in a table of pandas; see `DictStore.to_pandas`."""
    pd = needed("pandas", "pandas", "to_pandas")
    below = "/" + group.strip("/")
    below = below if below == "/" else below + "/"
    is_leaf = table_of(store).contents.has  # the keys of a tree are those of its groups, too
    keys = (key for key in store if key.startswith(below) and is_leaf(store._absolute(key)))
    rows = dict(readable(keys, store.describe))
    columns: dict[str, list[Any]] = {name: [getattr(info, name) for info in rows.values()] for name in COLUMNS}
    columns["dtype"] = [None if dtype is None else str(dtype) for dtype in columns["dtype"]]
    columns["cratio"] = [info.nbytes / info.cbytes if info.cbytes else 0.0 for info in rows.values()]
    return pd.DataFrame(columns, index=pd.Index(list(rows), name="key", dtype=object))


def store_stats(table: LeafTable, path: str, depth: int, by: str | Iterable[str] | None) -> list[GroupStats]:
    """Count the leaves below a group of a store and their bytes; see `DictStore.stats`."""
    if isinstance(depth, bool) or not hasattr(depth, "__index__") or depth < 0:
        raise ValueError(f"depth must be a number that is not negative, not {depth!r}")
    counter = Counter(parts_of(by), hidden=table.hidden_name is not None)
    backend = table.backend
    listing, embedded = table.published_listing(), backend.embedded
    catalog = None if backend.members is None else backend.members.described()
    if backend.replaces:
        listing = KeyListing(KeyTable.of_keys(()))
    elif catalog is not None and not counter.add_catalog(
        catalog, KeyListing(listing.table, path=table.path), path, depth
    ):
        catalog = None
    if catalog is None:
        keys: list[str] = listing.below(path)
    else:
        below = "/" if path == "/" else path + "/"
        entries = () if embedded is None else embedded.entries
        keys = [key for key in entries if key.startswith(below) and listing.table.find(key) < 0]

    def published(key: str) -> LeafInfo:
        byte_range: ByteRange | None = backend.locate(key)
        if byte_range is None:
            raise table.missing_key(key)
        return leaf_info(geometry.describe(Frame.open(*byte_range, key), parse_dtype) or bytes(24))

    counter.add_leaves(readable(keys, published), path, depth)
    rows = counter.rows()
    if path == "/" and by is None:
        try:
            rows[0] = rows[0]._replace(file_bytes=backend.size())
        except FileNotFoundError:  # nothing is published yet
            rows[0] = rows[0]._replace(file_bytes=0)
    return rows
