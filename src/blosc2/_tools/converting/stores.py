"""Stores and arrays of this package, as sources and as targets."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np

from blosc2 import _tuning
from blosc2._arrays import ArrayPlan, made
from blosc2._backends import KEY_RULES
from blosc2._opening import open as open_path
from blosc2._options import absolute_path
from blosc2._stores import Store, has_leaf
from blosc2._tools.converting import conversion
from blosc2._tools.converting.conversion import ArrayItem, GroupItem, Item, ObjectItem, Source, Target
from blosc2._tools.converting.kept_chunks import Chunks, KeptChunks
from blosc2._tools.converting.report import WHOLE, LeftOut
from blosc2._tools.stores import STORES, attributes_of, in_order, new_store, opened, partial_name, remove
from blosc2.exceptions import ConversionError, FormatError, legible
from blosc2.ndarray import NDArray
from blosc2.objectarray import ObjectArray
from blosc2.tree_store import TreeStore

# Chunks of a source are kept if they have as many bytes.
_LEAST_CHUNK, _MOST_CHUNK = 64 << 10, 32 << 20
# Larger arrays are made in a file beside the target.
_LARGE = 64 << 20
# Changes are published when as many bytes wait, or after so many seconds.
_PUBLISH_BYTES, _PUBLISH_SECONDS = 256 << 20, 5.0
# The attribute of an unfinished store that says what it is made of.
_MADE_OF = "blosc2.convert"
# And the one that lists what could not be kept of the arrays in it.
_LEFT_OUT = "blosc2.convert: left out"


# ------------------------------------------------------------------ source
class Opened(Source):
    """A store, or a single array or list."""

    def __init__(self, path: str, key: str = "") -> None:
        self._path, self._key, self._open = path, key, ExitStack()
        self._found = self._open.enter_context(opened(path))
        is_leaf = bool(key) and isinstance(self._found, Store) and has_leaf(self._found, key)
        self.is_one = is_leaf or not isinstance(self._found, Store)
        if key and not is_leaf and (self.is_one or not any(in_order(self._found, key))):
            self._open.close()
            raise ConversionError(f"{path}: nothing is at {key!r}")

    def close(self) -> None:
        self._open.close()

    def items(self) -> Iterator[Item]:
        if self.is_one and self._key:
            name = self._key.rpartition("/")[2]
            yield _item_of(f"/{name}", self._found[self._key], self._around())
        elif isinstance(self._found, Store):
            yield from self._below(self._found)
        else:
            name = os.path.splitext(os.path.basename(self._path))[0]
            yield _item_of(f"/{name}", self._found)

    def _around(self) -> dict[str, Any]:
        """What the groups around a leaf say of all arrays in them, as these groups are left behind."""
        found: dict[str, Any] = {}
        parts = self._key.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            attributes = attributes_of(self._found, "/".join(parts[:end]))
            found |= {name: attributes[name] for name in conversion.OF_GROUPS if name in attributes}
        return found

    def _below(self, store: Any) -> Iterator[Item]:
        yield GroupItem("/", attributes_of(store, self._key))
        for stored, is_group in in_order(store, self._key):
            key = stored[len(self._key) :]
            if is_group:
                yield GroupItem(key, attributes_of(store, stored))
                continue
            try:
                yield _item_of(key, store[stored])
            except (NotImplementedError, FormatError) as error:
                yield LeftOut(key, WHOLE, str(error))


def _item_of(key: str, leaf: Any, around: Mapping[str, Any] = MappingProxyType({})) -> Item:
    if isinstance(leaf, NDArray):
        attributes = {**around, **leaf.vlmeta[:]}
        return ArrayItem(key, leaf.shape, leaf.dtype, leaf.__getitem__, leaf.chunks, attributes, array=leaf)
    if isinstance(leaf, ObjectArray):
        return ObjectItem(key, list(leaf), leaf.vlmeta[:])
    return LeftOut(key, WHOLE, f"a {type(leaf).__name__} is no array with a shape and a dtype")


# ------------------------------------------------------------------ target
def new_target(path: str, *, sources: list[str], chunks: str, cparams: Any, made_of: Any) -> Target:
    """A store or array. A later run with the same options, `made_of`, goes on where this one stops; None: none does."""
    keywords = {} if cparams is None else {"cparams": cparams}
    path = path.rstrip("/")
    if not path.endswith((*STORES, ".b2nd")) and path.lower().endswith((*STORES, ".b2nd")):
        raise ConversionError(f"{path}: the suffixes of stores and arrays have small letters only")
    kept = None
    if not path.endswith((".b2z", ".b2d", ".b2nd")):
        made_of = None
    if made_of is not None:
        made_of = _made_of(sources, made_of)
        kept = KeptChunks(f"{partial_name(path, unique=False)}.chunks", made_of)
    if not path.endswith(STORES):
        return _ArrayTarget(path, chunks, keywords, kept)
    partial = partial_name(path, unique=kept is None)
    for source in sources if os.path.exists(partial) else ():
        if os.path.exists(source) and os.path.samefile(partial, source):
            raise ConversionError(f"{source} has the name under which {path} would be written: rename it first")
    return _StoreTarget(partial, chunks, keywords, made_of, kept)


def _made_of(sources: list[str], options: Any) -> dict[str, Any]:
    """What tells whether an unfinished store has the same source and options."""
    files = [*sources]
    for source in sources:  # of a file there is nothing below
        files += [os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names]
    sums = hashlib.sha256()
    for path in sorted(files):
        link = os.lstat(path)
        found = [link, os.stat(path)] if os.path.islink(path) and os.path.exists(path) else [link]
        numbers = [(one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for one in found]
        sums.update(repr((path, numbers)).encode())
    return {
        "source": [legible(absolute_path(source)) for source in sources],
        "files": sums.hexdigest(),
        "options": repr(options),
    }


def _spared(item: ArrayItem, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords for an array, whose coordinates, codes and missing values no precision changes."""
    if "cparams" not in keywords:
        return {**keywords}
    name = item.key.rpartition("/")[2]
    return {**keywords, "cparams": _tuning.sparing(keywords["cparams"], item.attributes, name)}


class _OurTarget(Target):
    """A target of this package, with keywords for its arrays."""

    lists_have_axes = False
    _keywords: Mapping[str, Any]

    def as_written(self, item: Item) -> Item:
        if not isinstance(item, ArrayItem):
            return item
        precision: Any = getattr(_spared(item, self._keywords).get("cparams"), "precision", None)
        if not _tuning.is_rounded(precision, item.dtype):
            return item
        return replace(item, read=lambda box: _tuning.rounded(item.read(box), precision))


def new_array(
    item: ArrayItem, chunks: str, keywords: Mapping[str, Any], path: str | None = None, kept: KeptChunks | None = None
) -> NDArray:
    where: dict[str, Any] = {} if path is None else {"urlpath": path, "mode": "w"}
    taken = item.taken if chunks != "new" and "cparams" not in keywords else None
    new = _same_chunks(item, chunks) if taken is None else taken.keywords
    plan = ArrayPlan(item.shape, item.dtype, {**_spared(item, keywords), **where, **new})

    def chunks_from(number: int) -> Chunks:
        if taken is not None:
            yield from islice(taken.chunks(plan), number, None)
        else:  # no axes: an item
            yield from made(plan, lambda box: np.asarray(item.read(box)), start=number)

    stored = chunks_from(0) if kept is None else kept.and_others(item.key, plan, chunks_from)
    return NDArray._of(plan.write(stored))


def _unstorable(item: ArrayItem) -> str | None:
    """Why there can be no array of this shape and dtype."""
    try:
        ArrayPlan(item.shape, item.dtype, {})
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def _refused(key: str, error: Exception) -> LeftOut:
    """A leaf whose key a store cannot have, or that is a group's."""
    why = str(error).removesuffix(f" {KEY_RULES}")
    return LeftOut(key, WHOLE, f"{why}; {conversion.TO_RENAME}")


def _set_attributes(key: str, target: Any, attributes: Mapping[str, Any]) -> Iterator[LeftOut]:
    """Set attributes; what cannot be one is given back."""
    try:
        if attributes:
            target.update(attributes)
    except (TypeError, ValueError, OverflowError):
        for name, value in attributes.items():
            try:
                target[name] = value
            except (TypeError, ValueError, OverflowError) as error:
                yield LeftOut(key, f"attribute {name!r}", str(error))


def _same_chunks(item: ArrayItem, chunks: str) -> dict[str, Any]:
    if chunks == "new" or not item.chunks or 0 in item.chunks:
        return {}
    nbytes = int(np.prod(item.chunks, dtype=object)) * item.dtype.itemsize
    if chunks == "auto" and not _LEAST_CHUNK <= nbytes <= _MOST_CHUNK:
        return {}
    return {"chunks": tuple(min(c, n) or c for c, n in zip(item.chunks, item.shape, strict=True))}  # axes may grow


class _StoreTarget(_OurTarget):
    """A store that is written under another name until it is complete."""

    def __init__(
        self, partial: str, chunks: str, keywords: Mapping[str, Any], made_of: Any, kept: KeptChunks | None
    ) -> None:
        super().__init__("", partial, kept)
        self._beside = f"{partial}.array"
        self._chunks, self._keywords = chunks, keywords
        self._made_of, self._noted = made_of, 0
        self._store = self._resumed()
        self._there: frozenset[str] = frozenset(self._store or ())
        if self._store is None:
            remove(self.partial)
            remove(self._beside)
            self._store = new_store(self.partial, "w")
            if self._made_of is not None:
                self._store.attrs[_MADE_OF] = self._made_of
                self._store.flush(durable=False)
        self._waiting, self._published = 0, time.monotonic()

    def _resumed(self) -> Any:
        """What an interrupted run has left, if it is of the same source and options."""
        if self._made_of is None or not os.path.exists(self.partial):
            return None
        try:
            store: Any = open_path(self.partial, mode="a")
        except (FormatError, FileNotFoundError):
            return None  # it was killed before anything was published
        if isinstance(store, TreeStore) and store.attrs.get(_MADE_OF) == self._made_of:
            self.left_out = [LeftOut(*each) for each in store.attrs.get(_LEFT_OUT, [])]
            self._noted = len(self.left_out)
            return store
        store.close()
        return None

    def has(self, key: str) -> bool:
        return key in self._there

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        for each in self._add(item):
            self.left_out.append(each)
            yield each
        if time.monotonic() - self._published > _PUBLISH_SECONDS or self._waiting > _PUBLISH_BYTES:
            self._publish()

    def _add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        if isinstance(item, GroupItem):
            yield from self._add_group(item)
        elif isinstance(item, ObjectItem):
            value = ObjectArray()
            value.extend(item.values)
            yield from self._set(item, value)
        elif (why := _unstorable(item)) is not None:
            yield LeftOut(item.key, WHOLE, why)
        elif item.array is not None and self._chunks != "new" and not self._keywords:
            yield from self._set(item, item.array)  # with its compressed chunks
        elif item.nbytes <= _LARGE:
            yield from self._set(item, new_array(item, self._chunks, self._keywords))
        else:
            try:
                yield from self._set(item, new_array(item, self._chunks, self._keywords, self._beside, self.kept))
                self._publish()
            finally:
                remove(self._beside)

    def _set(self, item: ArrayItem | ObjectItem, value: Any) -> Iterator[LeftOut]:
        is_copy = isinstance(item, ArrayItem) and value is item.array
        left_out = [] if is_copy else list(_set_attributes(item.key, value.vlmeta, item.attributes))
        try:
            self._store[item.key] = value
        except (KeyError, ValueError) as error:  # a key that a store cannot have, or that is a group's
            yield _refused(item.key, error)
            return
        yield from left_out
        self._waiting += value.cbytes

    def _add_group(self, item: GroupItem) -> Iterator[LeftOut]:
        if not isinstance(self._store, TreeStore):
            if item.attributes:
                yield LeftOut(item.key, "attributes of the group", "an EmbedStore has none; a .b2z has them")
            return
        try:
            if item.key != "/" and item.key not in self._store:
                self._store.create_group(item.key)
        except (KeyError, ValueError) as error:
            what = "the attributes of the group" if item.attributes else "the group"  # it may be there without them
            yield _refused(item.key, error)._replace(what=what)
            return
        attributes = dict(item.attributes)
        for name in (_MADE_OF, _LEFT_OUT) if item.key == "/" else ():
            if attributes.pop(name, None) is not None:
                yield LeftOut("/", f"attribute {name!r}", "the conversion needs this name for itself")
        yield from _set_attributes(item.key, self._store.get_subtree(item.key).attrs, attributes)

    def take_back(self, key: str) -> bool:
        """Arrays come into the store when they are complete, so there is nothing to remove."""
        return key not in self._store

    def _publish(self) -> None:
        if self._made_of is not None and len(self.left_out) > self._noted:
            self._store.attrs[_LEFT_OUT] = [list(each) for each in self.left_out]
            self._noted = len(self.left_out)
        self._store.flush(durable=False)
        self._waiting, self._published = 0, time.monotonic()

    def finish(self) -> None:
        self._publish()
        self._store.close()

    def seal(self) -> None:
        if self._made_of is not None:
            with TreeStore(self.partial, mode="a") as store:
                for name in (_MADE_OF, _LEFT_OUT):
                    store.attrs.pop(name, None)

    def abandon(self, *, keep: bool) -> None:
        keep = keep and self._made_of is not None
        if keep:
            with suppress(OSError):  # a full disk: what was published before it was full stays
                self._store.close()
        if not self._store.closed:
            self._store.discard()
            self._store.close()
        if not keep:
            remove(self.partial)  # else a later run goes on from here


class _ArrayTarget(_OurTarget):
    """A file of one array."""

    takes_one = True

    def __init__(self, path: str, chunks: str, keywords: Mapping[str, Any], kept: KeptChunks | None) -> None:
        super().__init__(path, kept=kept)
        self._path = path
        self._chunks, self._keywords = chunks, keywords

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        if isinstance(item, GroupItem):
            if item.attributes:
                yield LeftOut(item.key, "attributes of the group", "a file of one array has no groups")
            return
        if self.only is not None:
            raise ConversionError(
                f"{self._path} holds one array, and there are several: {self.only}, {item.key}, ...; name a .b2z"
            )
        if isinstance(item, ObjectItem):
            raise ConversionError(f"{item.key} is a list of objects, and no array: name a .b2z")
        self.only = item.key
        array = new_array(item, self._chunks, self._keywords, self.partial, self.kept)
        yield from _set_attributes(item.key, array.vlmeta, item.attributes)

    def finish(self) -> None:
        if self.only is None:
            raise ConversionError(f"{self._path}: the source has no array")
