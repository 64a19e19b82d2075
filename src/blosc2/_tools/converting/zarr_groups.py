"""zarr 2 and 3, in directories and ZIP files."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import zarr

from blosc2._core.ndim.gaps import as_dtype
from blosc2._tools.converting.conversion import (
    DEEPEST,
    DIMENSIONS,
    WHOLE,
    ArrayItem,
    GroupItem,
    Item,
    LeftOut,
    ObjectItem,
    Source,
    Target,
    are_names,
    as_json,
    boxes_of,
)

# How often what is written is removed while others still write to it, and the seconds in between.
_MOST_TRIES, _BETWEEN = 20, 0.1


class Zarr(Source):
    """A zarr array or group."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._store = zarr.storage.ZipStore(path, mode="r") if os.path.isfile(path) else None
        self._found: Any = zarr.open(self._store or path, mode="r")

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def items(self) -> Iterator[Item]:
        if isinstance(self._found, zarr.Array):
            name = os.path.basename(self._path.rstrip("/")).partition(".")[0]
            yield from _array(f"/{name}", self._found)
        else:
            yield from self._group("", self._found)

    def _group(self, path: str, group: Any) -> Iterator[Item]:
        if path.count("/") > DEEPEST:
            yield LeftOut(path, "the group and all below it", f"it lies more than {DEEPEST} levels deep")
            return
        yield GroupItem(path or "/", dict(group.attrs))
        for name, found in sorted(group.members()):
            key = f"{path}/{name}"
            yield from _array(key, found) if isinstance(found, zarr.Array) else self._group(key, found)


def _array(key: str, found: Any) -> Iterator[Item]:
    dtype = np.dtype(found.dtype)
    if dtype.hasobject or dtype.kind == "T":
        values = found[:].tolist() if found.ndim == 1 else [None]
        if all(isinstance(value, str) for value in values):
            yield ObjectItem(key, values, dict(found.attrs))
        else:
            yield LeftOut(key, WHOLE, "it has items of variable length, which no array of numbers can hold")
        return
    attributes = dict(found.attrs)
    names = getattr(found.metadata, "dimension_names", None)
    if names and any(names):
        attributes[DIMENSIONS] = list(names)
    if dtype.names is None and found.fill_value is not None and np.any(found.fill_value != np.zeros((), dtype)):
        yield LeftOut(key, "fill_value", f"new items are zeros, {found.fill_value!r} is not kept")
    yield ArrayItem(key, found.shape, dtype, lambda box: np.asarray(found[box]), found.chunks, attributes)


class NewZarr(Target):
    """A group of zarr 3 that is written under another name until it is complete."""

    def __init__(self, path: str, **_: Any) -> None:
        super().__init__(path)
        is_zip = path.endswith(".zip")
        self._store = zarr.storage.ZipStore(self.partial, mode="w") if is_zip else None
        self._root: Any = None

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        attributes, left_out = as_json(item.key, item.attributes)
        yield from left_out
        if isinstance(item, GroupItem):
            self._new_group(item.key, attributes)
            return
        if self._root is None:
            self._new_group("/", {})
        if isinstance(item, ObjectItem):
            yield LeftOut(item.key, WHOLE, "lists of objects have no counterpart in zarr 3")
            return
        how: dict[str, Any] = {}
        if item.chunks and item.shape and 0 not in item.shape:
            how["chunks"] = tuple(min(c, n) for c, n in zip(item.chunks, item.shape, strict=True))
        native = item.dtype.newbyteorder("=")
        try:
            names = attributes.get(DIMENSIONS)
            if are_names(names, len(item.shape)):
                how["dimension_names"] = attributes.pop(DIMENSIONS)
            found = self._root.create_array(
                item.key.strip("/"), shape=item.shape, dtype=native, attributes=attributes, **how
            )
        except (TypeError, ValueError, OSError, zarr.errors.BaseZarrError) as error:
            yield LeftOut(item.key, WHOLE, f"zarr 3 takes no {item.dtype} here: {error}")
            return
        if item.dtype != native:
            yield LeftOut(item.key, f"the byte order of {item.dtype}", "zarr 3 gives items in that of the machine")
        if not item.shape:
            found[()] = as_dtype(item.whole(), native)[()]
        elif 0 not in item.shape:
            for box in boxes_of(item, found.chunks):
                found[box] = as_dtype(item.read(box), native)

    def _new_group(self, key: str, attributes: dict[str, Any]) -> None:
        """Make a group with its attributes in one step: a ZIP file cannot be changed."""
        if key == "/":
            self._root = zarr.create_group(self._store or self.partial, zarr_format=3, attributes=attributes)
        else:
            self._root.create_group(key.strip("/"), attributes=attributes)

    def finish(self) -> None:
        if self._root is None:
            self._new_group("/", {})
        if self._store is not None:
            self._store.close()

    def abandon(self, *, keep: bool) -> None:
        if self._store is not None:
            self._store.close()
        # Threads of zarr that were interrupted may still write chunks.
        for _ in range(_MOST_TRIES):
            with suppress(OSError):
                super().abandon(keep=keep)
                return
            time.sleep(_BETWEEN)
        super().abandon(keep=keep)
