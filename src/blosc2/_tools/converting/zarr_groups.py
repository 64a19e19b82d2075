"""zarr 2 and 3, in directories and ZIP files."""

from __future__ import annotations

import base64
import os
import struct
import warnings
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import numpy as np
import zarr
from zarr.core.sync import sync

from blosc2._arrays import DIMENSIONS
from blosc2._core.ndim.gaps import as_dtype
from blosc2._tools.converting import conversion
from blosc2._tools.converting.conversion import (
    DEFINED,
    FILL,
    MISSING,
    UNLIMITED,
    ArrayItem,
    GroupItem,
    Item,
    ObjectItem,
    Target,
)
from blosc2._tools.converting.report import WHOLE, Changed, LeftOut
from blosc2._tools.stores import equal_items, remove_folder

# Files of a group that are none of its members.
_METADATA = {"zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"}
# Those that each array or group has one of.
_OF_ROOT = {"zarr.json", ".zgroup", ".zarray"}


class Zarr(conversion.Source):
    """A zarr array or group."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._store = zarr.storage.ZipStore(path, mode="r") if os.path.isfile(path) else None
        with _without_warnings():
            self._found = self._opened()
        self.is_one = isinstance(self._found, zarr.Array)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _opened(self) -> Any:
        where: dict[str, Any] = {"store": self._store or self._path, "mode": "r", "path": self._inner()}
        try:
            return zarr.open(**where)
        except Exception as error:  # noqa: BLE001 - for metadata of all arrays with one that is unknown, or damaged
            try:
                return zarr.open_group(**where, use_consolidated=False)
            except Exception:  # noqa: BLE001 - the first one says why
                raise error from None

    def _inner(self) -> str:
        """Where the root lies: in ZIP files that were made of a folder, and not in it, this is in them."""
        if self._store is None:
            return ""
        with zipfile.ZipFile(self._path) as archive:
            names = archive.namelist()
        folders = {os.path.dirname(name) for name in names if os.path.basename(name) in _OF_ROOT}
        root = min(folders, key=len, default="")
        return root if all(name.startswith(f"{root}/") for name in folders - {root}) else ""

    def items(self) -> Iterator[Item]:
        if self.is_one:
            name = os.path.basename(self._path.rstrip("/")).partition(".")[0]
            yield from _array(f"/{name}", self._found)
        else:
            yield from conversion.walk_groups("", self._found, _names, _member)


def _names(key: str, group: Any) -> Generator[Item, None, list[str]]:
    """A group; all names in it are returned."""
    yield GroupItem(key, dict(group.attrs))

    async def names() -> list[str]:
        return [name async for name in group.store.list_dir(group.path) if name not in _METADATA]

    consolidated = group.metadata.consolidated_metadata
    return sorted({*sync(names()), *(consolidated.metadata if consolidated is not None else ())})


def _member(key: str, name: str, group: Any) -> Generator[Item, None, Any]:
    """An array; a group is returned."""
    with _without_warnings():
        found = group[name]
    if not isinstance(found, zarr.Array):
        return found
    yield from _array(key, found)
    return None


def _array(key: str, found: Any) -> Iterator[Item]:
    dtype = np.dtype(found.dtype)
    attributes = dict(found.attrs)
    names = getattr(found.metadata, "dimension_names", None)
    if names and any(names):
        attributes[DIMENSIONS] = list(names)
    if dtype.hasobject or dtype.kind == "T":
        item = ObjectItem.of(key, np.asarray(found[...], object).reshape(found.shape), attributes)
        if all(isinstance(value, str) for value in item.values):
            yield item
        else:
            yield LeftOut(key, WHOLE, "it has items of variable length, which no array of numbers can hold")
        return
    fill = None if found.fill_value is None else np.asarray(found.fill_value, dtype)
    if MISSING in attributes:
        attributes[MISSING] = _decoded_fill(attributes[MISSING], dtype)
    elif DIMENSIONS in attributes and found.metadata.zarr_format == _ZARR_2 and fill is not None:
        attributes[MISSING] = fill  # so has xarray it in zarr 2
    missing = conversion.taken_item(dict(attributes), MISSING, dtype)
    if fill is not None and fill.tobytes() != bytes(dtype.itemsize) and not _are_same(fill, missing):
        attributes[FILL] = conversion.storable(fill)
    yield ArrayItem(key, found.shape, dtype, lambda box: np.asarray(found[box]), found.chunks, attributes)


_ZARR_2: Final = 2


def _are_same(fill: Any, missing: Any) -> bool:
    """Whether one attribute tells the fill value and what stands for missing items: `NewZarr` gives both back."""
    return missing is not None and bool(equal_items(np.asarray(fill), np.asarray(missing)))


def _decoded_fill(stored: Any, dtype: np.dtype[Any]) -> Any:
    """What `encode_missing` has encoded, in the dtype of the array; anything else as it is."""
    try:
        if dtype.kind == "c" and isinstance(stored, list):
            value: Any = complex(*[_decoded_fill(part, np.dtype("f8")) for part in stored])
        elif dtype.kind == "f" and isinstance(stored, str):
            (value,) = struct.unpack("<d", base64.standard_b64decode(stored))
        else:
            value = stored
        return conversion.storable(np.asarray(value, dtype).reshape(()))
    except (ValueError, TypeError, OverflowError, struct.error, AttributeError):
        return stored


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Without those of codecs, types and files that are no part of a specification: what is lost is listed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield


class NewZarr(Target):
    """A group of zarr 3 that is written under another name until it is complete."""

    def __init__(self, path: str, **_: Any) -> None:
        super().__init__(path)
        is_zip = path.endswith(".zip")
        self._store = zarr.storage.ZipStore(self.partial, mode="w") if is_zip else None
        self._root: Any = None

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        attributes = dict(item.attributes)
        new = missing = None
        if isinstance(item, ArrayItem):
            new = conversion.taken_fill(attributes, item.dtype)
            missing = conversion.taken_item(dict(attributes), MISSING, item.dtype)
            yield from conversion.encode_missing(item.key, attributes, item.dtype)
        unlimited = conversion.taken_names(attributes, UNLIMITED) if isinstance(item, GroupItem) else []
        defined = conversion.taken_names(attributes, DEFINED) if isinstance(item, GroupItem) else []
        attributes, left_out = conversion.as_json(item.key, attributes)
        yield from left_out
        if unlimited:
            yield Changed(item.key, f"attribute {UNLIMITED!r}", "all dimensions of zarr can grow")
        if defined:
            yield LeftOut(item.key, f"attribute {DEFINED!r}", "dimensions of zarr belong to no group")
        if isinstance(item, GroupItem):
            self._new_group(item.key, attributes)
            return
        if self._root is None:
            self._new_group("/", {})
        if isinstance(item, ObjectItem):
            if not all(isinstance(value, str) for value in item.values):
                yield LeftOut(item.key, WHOLE, "only lists of texts have a counterpart in zarr 3")
                return
            item = ArrayItem.of(item.key, conversion.shaped_values(item.values, attributes))
        how: dict[str, Any] = {} if missing is None else {"fill_value": missing}
        if new is not None:
            how["fill_value"] = new
            yield from conversion.retyped(item.key, FILL, item.attributes, new)
            if _are_same(new, missing):
                yield Changed(item.key, f"attribute {FILL!r}", f"{MISSING!r} tells it, too")
        if item.kept_chunks:
            how["chunks"] = item.kept_chunks
        native: Any = str if item.dtype.hasobject else item.dtype.newbyteorder("=")
        try:
            names = attributes.get(DIMENSIONS)
            if conversion.are_names(names, len(item.shape)):
                how["dimension_names"] = attributes.pop(DIMENSIONS)
            with _without_warnings():
                found = self._root.create_array(
                    item.key.strip("/"), shape=item.shape, dtype=native, attributes=attributes, **how
                )
        except (TypeError, ValueError, OSError, zarr.errors.BaseZarrError) as error:
            yield LeftOut(item.key, WHOLE, f"zarr 3 takes no {item.dtype} here: {error}")
            return
        if item.dtype.hasobject:
            found[...] = item.whole()
            return
        if native.names is not None and found.dtype != native:
            yield Changed(item.key, "the gaps between fields", "zarr has none")
        if item.dtype != native:
            yield Changed(item.key, f"the byte order of {item.dtype}", "zarr 3 gives items in that of the machine")
        if not item.shape:
            found[()] = as_dtype(item.whole(), native)[()]
        else:
            for box in conversion.boxes_of(item, found.chunks):
                found[box] = as_dtype(item.read(box), native)

    def take_back(self, key: str) -> bool:
        """Remove an array; nothing can be removed from a ZIP file."""
        if self._store is not None:
            return False
        if key.strip("/") in self._root:
            del self._root[key.strip("/")]
        return True

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
            return
        with _without_warnings():
            zarr.consolidate_metadata(self.partial)  # all in one file, as xarray writes it

    def abandon(self, *, keep: bool) -> None:
        if self._store is not None:
            with suppress(OSError):  # what remains to be written finds no place on a full disk
                self._store.close()
        else:
            remove_folder(self.partial)  # threads of zarr that were interrupted may still write chunks
        super().abandon(keep=keep)
