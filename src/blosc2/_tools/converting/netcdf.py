"""netCDF files, of version 4 and 3, by the library of netCDF.

Dimensions, attributes and texts are those of netCDF, as ncdump and xarray show them: how a file keeps them (as HDF5
objects and their attributes, with lengths that must be counted) does not show.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import h5py
import netCDF4
import numpy as np

from blosc2._arrays import DIMENSIONS
from blosc2._tools.converting import conversion
from blosc2._tools.converting.conversion import DEFINED, UNLIMITED, ArrayItem, GroupItem, Item, ObjectItem, Target
from blosc2._tools.converting.hdf5 import Dimensions
from blosc2._tools.converting.report import WHOLE, Changed, LeftOut
from blosc2._tools.stores import same_value
from blosc2.exceptions import ConversionError


class NetCDF(conversion.Source):
    def __init__(self, path: str) -> None:
        _check_whole(path)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            self._file = netCDF4.Dataset(path, "r")
        # Variables of types that the library of Python does not know: it leaves them out.
        self._unknown = [" ".join(str(one.message).split()).removeprefix("WARNING: ") for one in found]
        self._file.set_auto_maskandscale(False)
        self._file.set_auto_chartostring(False)
        self._path = path
        self._hdf5: Any = None

    def close(self) -> None:
        if self._file.isopen():
            self._file.close()
        if self._hdf5 is not None:
            self._hdf5.close()

    def _dataset_of(self, key: str, found: Any) -> Any:
        """The HDF5 dataset of a variable of which the netCDF library gives old memory for what was never written."""
        grows = sum(dimension.isunlimited() for dimension in found.get_dims())
        if not self._file.disk_format.startswith("HDF5") or (found.get_fill_value() is not None and grows < 2):
            return None
        try:
            self._hdf5 = self._hdf5 or h5py.File(self._path, "r")
            dataset = self._hdf5.get(key)
        except (OSError, RuntimeError, TypeError):  # it cannot be opened twice, or is damaged there
            return None
        is_it = isinstance(dataset, h5py.Dataset) and dataset.dtype.newbyteorder("=") == found.dtype.newbyteorder("=")
        return dataset if is_it and dataset.ndim == len(found.shape) else None

    def items(self) -> Iterator[Item]:
        for each in self._unknown:
            yield LeftOut("/", "a variable or type", each)
        used = {
            (dimension.group().path, dimension.name)
            for group in _groups(self._file) for found in group.variables.values() for dimension in found.get_dims()
        }  # fmt: skip
        for group in _groups(self._file):
            path = group.path.rstrip("/")
            attributes: dict[str, Any] = {}
            yield from _attributes(path or "/", group, attributes)
            for name, dimension in group.dimensions.items():
                if (group.path, name) not in used and not dimension.isunlimited():
                    yield LeftOut(path or "/", f"dimension {name!r}", "no variable has it")
            unlimited = [name for name, dimension in group.dimensions.items() if dimension.isunlimited()]
            if unlimited:
                attributes[UNLIMITED] = unlimited
            defined = [name for name in group.dimensions if (group.path, name) in used and _is_listed(group, name)]
            if defined:
                attributes[DEFINED] = defined
            yield GroupItem(path or "/", attributes)
            # Those of axes first, so that where two names differ in case only, the axis keeps its own.
            for name in sorted(group.variables, key=lambda name: (name not in group.dimensions, name)):
                key, found = f"{path}/{name}", group.variables[name]
                yield from _variable(key, found, partial(self._dataset_of, key, found))


def _groups(group: Any) -> Iterator[Any]:
    yield group
    for name in sorted(group.groups):
        yield from _groups(group.groups[name])


def _is_listed(group: Any, name: str) -> bool:
    """Whether the variables of a group would not tell that a dimension is that of the group."""
    if group.dimensions[name].isunlimited() or (name in group.variables and name in group.variables[name].dimensions):
        return False
    others, above = [], group.parent
    while above is not None:
        others.append(above)
        above = above.parent
    has_own = any(name in found.dimensions for found in group.variables.values())
    return not has_own or any(name in one.dimensions for one in others)


# The formats before version 4: https://docs.unidata.ucar.edu/nug/current/file_format_specifications.html
_SIZES: Final = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
_STREAMED: Final = 0xFFFFFFFF
# No variable has more dimensions, and no file more bytes.
_MOST_AXES, _MOST_BYTES = 1024, (1 << 63) - 1


class _ClassicHeader:
    """The header of a file of version 3: how many bytes it must have, as the library gives zeros for missing ones."""

    def __init__(self, file: Any, version: int) -> None:
        self._file = file
        self._count = 8 if version == 5 else 4  # numbers of 64 bits
        records = self._number(self._count)
        dimensions = [self._number(self._count) for _ in self._list()]
        self._skip_attributes()
        fixed, of_records = [0], []
        for _ in self._list():
            rank = _at_most(_MOST_AXES, self._number(self._count), "dimensions of a variable")
            axes = [dimensions[self._number(self._count)] for _ in range(rank)]
            self._skip_attributes()
            size = _SIZES[self._number(4)] * math.prod(axes[1:] if axes[:1] == [0] else axes)
            _at_most(_MOST_BYTES, size, "bytes of a variable")
            self._number(self._count)  # the same, but for large variables
            begin = self._number(4 if version == 1 else 8)
            if axes[:1] == [0]:
                of_records.append((begin, size))
            else:
                fixed.append(begin + size)
        step = of_records[0][1] if len(of_records) == 1 else sum(size + -size % 4 for _, size in of_records)
        known = records if records != _STREAMED else 0
        end = max(fixed + [begin + (known - 1) * step + size for begin, size in of_records if known])
        #: Where the last item ends.
        self.end = _at_most(_MOST_BYTES, end, "bytes of all items")

    def _number(self, size: int) -> int:
        found = self._file.read(size)
        if len(found) < size:
            raise ValueError("it ends too early")
        return int.from_bytes(found, "big")

    def _skip(self, size: int) -> None:
        self._file.seek(_at_most(_MOST_BYTES, size + -size % 4, "bytes of a name or an attribute"), os.SEEK_CUR)

    def _list(self) -> Iterator[None]:
        """As many times as a list has entries, behind the name of each."""
        self._number(4)
        for _ in range(self._number(self._count)):
            self._skip(self._number(self._count))
            yield

    def _skip_attributes(self) -> None:
        for _ in self._list():
            size = _SIZES[self._number(4)]
            self._skip(size * self._number(self._count))


def _at_most(most: int, number: int, what: str) -> int:
    if number > most:
        raise ValueError(f"more than {most} {what}")
    return number


def _check_whole(path: str) -> None:
    """Refuse a file of version 3 that was cut."""
    with open(path, "rb") as file:
        begin = file.read(4)
        if begin[:3] != b"CDF" or begin[3] not in (1, 2, 5):
            return
        try:
            end = _ClassicHeader(file, begin[3]).end
        except (KeyError, IndexError, ValueError, OverflowError, OSError) as error:
            raise ConversionError(f"{path} is damaged: its header makes no sense: {error}") from None
        size = os.path.getsize(path)
        if size < end:
            raise ConversionError(f"{path} has {size} bytes, its header speaks of {end}: it was cut")


def _attributes(key: str, found: Any, kept: dict[str, Any]) -> Iterator[LeftOut]:
    for name in found.ncattrs():
        try:
            value = conversion.storable(found.getncattr(name))
        except (KeyError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            yield LeftOut(key, f"attribute {name!r}", " ".join(str(error).split()))
            continue
        if value is None:
            yield LeftOut(key, f"attribute {name!r}", "a value of its type has no counterpart")
        else:
            kept[name] = value


def _variable(key: str, found: Any, dataset_of: Callable[[], Any]) -> Iterator[Item]:
    attributes: dict[str, Any] = {}
    yield from _attributes(key, found, attributes)
    if found.dimensions:
        attributes[DIMENSIONS] = list(found.dimensions)
    kind = found.datatype
    is_ragged = isinstance(kind, netCDF4.VLType) and isinstance(found.dtype, np.dtype) and found.dtype.kind in "iuf"
    if found.dtype is str or is_ragged:
        item = ObjectItem.of(key, np.asarray(found[...], object).reshape(found.shape), attributes)
        yield item._replace(values=[np.asarray(one, found.dtype) for one in item.values]) if is_ragged else item
        return
    if isinstance(kind, netCDF4.VLType) or not isinstance(found.dtype, np.dtype):
        yield LeftOut(key, WHOLE, "it has items of variable length, which no array of numbers can hold")
        return
    dtype = np.dtype(found.dtype.str) if found.dtype.names is None else found.dtype
    if isinstance(kind, netCDF4.EnumType):
        yield LeftOut(key, "the names of an enumeration", f"its numbers are kept, {kind.name!r} is not")

    dataset = dataset_of() if dtype.names is None else None

    def read(box: conversion.Box) -> conversion.Items:
        if dataset is None:
            return np.asarray(found[box or ...], dtype)
        items = np.full([one.stop - one.start for one in box], dataset.fillvalue, dtype)
        there = tuple(slice(one.start, min(one.stop, n)) for one, n in zip(box, dataset.shape, strict=True))
        if all(one.start < one.stop for one in there):
            items[tuple(slice(0, one.stop - one.start) for one in there)] = dataset[there]
        return items

    chunks = found.chunking()
    yield ArrayItem(key, found.shape, dtype, read, tuple(chunks) if isinstance(chunks, list) else None, attributes)


# ------------------------------------------------------------------ target
class NewNetCDF(Target):
    surveys = True

    def __init__(self, path: str, **_: Any) -> None:
        super().__init__(path)
        self._file = netCDF4.Dataset(self.partial, "w", format="NETCDF4")
        # The dimensions without a limit, by their group.
        self._unlimited: dict[str, list[str]] = {}
        self._lengths: dict[tuple[str, str], int] = {}
        # The groups in or below which a variable has a dimension, by its name.
        self._users: dict[str, set[str]] = {}
        self._owners = Dimensions()

    def survey(self, items: Iterable[Item]) -> None:
        self._owners = Dimensions(items)

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        attributes = dict(item.attributes)
        if not all(map(_is_name, item.key.split("/")[1:] if item.key != "/" else ())):
            yield LeftOut(item.key, WHOLE, "netCDF does not take its name")
            return
        if isinstance(item, GroupItem):
            group = self._file if item.key == "/" else self._file.createGroup(item.key)
            self._unlimited[item.key.rstrip("/")] = conversion.taken_names(attributes, UNLIMITED)
            conversion.taken_names(attributes, DEFINED)
            yield from _set_attributes(item.key, group, attributes)
            return
        path, _, name = item.key.rpartition("/")
        group = self._file.createGroup(path) if path else self._file
        if name in group.groups:
            yield LeftOut(item.key, WHOLE, "netCDF has no group and variable of the same name")
            return
        if isinstance(item, ObjectItem):
            if not all(isinstance(value, str) and "\0" not in value for value in item.values):
                yield LeftOut(item.key, WHOLE, "only lists of texts without zero characters have a counterpart")
                return
            item = ArrayItem.of(item.key, conversion.shaped_values(item.values, attributes), attributes)
        yield from self._add_array(item, group, name, attributes)

    def _add_array(self, item: ArrayItem, group: Any, name: str, attributes: dict[str, Any]) -> Iterator[LeftOut]:
        kind, shape, dtype = item.dtype.kind, item.shape, item.dtype
        stored: Any = dtype.newbyteorder("=")
        if kind in "OU":
            stored = str
            if kind == "U" and conversion.has_no_text(item):
                yield LeftOut(item.key, WHOLE, conversion.NO_TEXT)
                return
            if kind == "U":
                yield Changed(item.key, f"the type {dtype}", conversion.OF_TEXTS)
        elif kind == "S":
            stored, shape = np.dtype("S1"), shape if dtype.itemsize == 1 else (*shape, dtype.itemsize)
        elif kind == "b":
            yield Changed(item.key, "the type bool", "netCDF has none: it became int8")
            stored = np.dtype("i1")
        elif kind not in "iuf" or dtype.itemsize not in (1, 2, 4, 8) or dtype == np.dtype("f2"):
            what = "arrays with fields are not written to netCDF" if dtype.names else f"netCDF has no {dtype}"
            yield LeftOut(item.key, WHOLE, what + conversion.of_dates(dtype))
            return
        has_names = conversion.are_names(attributes.get(DIMENSIONS), len(item.shape))
        given = attributes.pop(DIMENSIONS) if has_names else [None] * len(item.shape)
        names = self._dimensions(group, name, given, shape)
        if any(a not in (None, b) for a, b in zip(given, names, strict=False)):
            why = f"the axes are {names[: len(given)]}: the other names are taken, or netCDF does not take them"
            yield Changed(item.key, f"attribute {DIMENSIONS!r}", why)
        how: dict[str, Any] = {}
        if item.kept_chunks and 0 not in shape and stored is not str:
            chunks = [*item.kept_chunks, *shape[len(item.shape) :]]
            how = {"chunksizes": chunks, "zlib": True, "complevel": 4, "shuffle": True}
        if stored is not str and (fill := conversion.taken_item(attributes, "_FillValue", stored)) is not None:
            how["fill_value"] = fill
            yield from conversion.retyped(item.key, "_FillValue", item.attributes, fill)
        found = group.createVariable(name, stored, names, **how)
        found.set_auto_maskandscale(False)
        found.set_auto_chartostring(False)
        yield from _set_attributes(item.key, found, attributes)
        if kind in "iuf" and dtype != stored:
            yield Changed(item.key, f"the byte order of {dtype}", "items are written in that of the machine")
        for box in conversion.boxes_of(item):
            items = np.asarray(item.read(box))  # no axes: a text
            if kind == "S" and dtype.itemsize > 1:
                items = np.ascontiguousarray(items)[..., None].view("S1")
            items = items.astype(object if stored is str else stored)
            found[box or ...] = items if box else items.item()

    def _dimensions(self, group: Any, name: str, given: list[str | None], shape: tuple[int, ...]) -> list[str]:
        """The names of dimensions of these lengths: those that the group sees; others are made where they belong."""
        names = [name if _is_name(name) else None for name in given]
        names += [f"string{length}" for length in shape[len(given) :]]
        stem = name if len(name.encode()) <= _LONGEST // 3 else name[: _LONGEST // 12]
        found: list[str] = []
        for axis, (wanted, length) in enumerate(zip(names, shape, strict=True)):
            one = wanted or f"{stem}_{axis}"
            here = group.path.rstrip("/")
            hides = bool(wanted) and self._may_hide(here, one, length)
            while not hides and (self._length_of(group, one) not in (None, length) or (not wanted and one in found)):
                one = f"{stem}_{one}"
            if hides or self._length_of(group, one) is None:
                path = here if hides else self._owners.group_of(here, one, length)
                self._lengths[path, one] = length
                unlimited = one in self._unlimited.get(path, ())
                (self._file[path] if path else self._file).createDimension(one, None if unlimited else length)
            self._note_user(here, one)
            found.append(one)
        return found

    def _may_hide(self, path: str, dimension: str, length: int) -> bool:
        """Whether a group can have a dimension of its own that hides one of another length in a group around it.

        Not where a variable in it has the other one, which readers would then take for the new one.
        """
        around = self._length_of(self._file[path] if path else self._file, dimension)
        if around in (None, length) or (path, dimension) in self._lengths:
            return False
        return path not in self._users.get(dimension, ())

    def _note_user(self, path: str, dimension: str) -> None:
        users = self._users.setdefault(dimension, set())
        while path not in users:
            users.add(path)
            path = path.rpartition("/")[0]

    def _length_of(self, group: Any, dimension: str) -> int | None:
        """How long a dimension is that a group sees; None if there is none of this name."""
        while group is not None:
            length = self._lengths.get((group.path.rstrip("/"), dimension))
            if length is not None:
                return length
            group = group.parent
        return None

    def finish(self) -> None:
        for path, names in self._unlimited.items():  # those that no variable has
            for name in names:
                if (path, name) not in self._lengths and _is_name(name):
                    group = self._file[path] if path else self._file
                    group.createDimension(name, None)
        self._file.close()

    def abandon(self, *, keep: bool) -> None:
        with suppress(Exception):  # what remains to be written finds no place on a full disk
            self._file.close()
        super().abandon(keep=keep)


# The longest name, in bytes.
_LONGEST = 256


def _is_name(name: str | None) -> bool:
    """Whether netCDF takes a name: https://docs.unidata.ucar.edu/nug/current/file_format_specifications.html."""
    return (
        name is not None
        and (name[:1].isalnum() or name[:1] == "_" or name[:1] > "\x7f")
        and not name.endswith(" ")
        and not any(character < " " or character in "/\x7f" for character in name)
        and len(name.encode(errors="surrogatepass")) <= _LONGEST
    )


def _set_attributes(key: str, found: Any, attributes: Mapping[str, Any]) -> Iterator[LeftOut]:
    for name, value in attributes.items():
        plain = conversion.without_tuples(value)
        why, numbers = None, conversion.numbers_of(plain)
        stored = plain if numbers is None else numbers
        if isinstance(stored, (bool, np.bool_)) or not isinstance(stored, (str, int, float, list, np.ndarray)):
            why = f"netCDF has no {type(stored).__name__}"
        elif (
            "\0" in stored
            if isinstance(stored, str)
            else isinstance(stored, list) and "\0" in "".join(map(str, stored))
        ):
            why = "netCDF ends texts at a zero character"
        elif isinstance(stored, list) and not all(isinstance(one, str) for one in stored):
            why = "only lists of texts or of numbers have a counterpart"
        elif isinstance(stored, np.ndarray) and (stored.ndim > 1 or stored.dtype.kind == "b"):
            why = f"netCDF has no {'axes' if stored.ndim > 1 else 'bool'} in attributes"
        else:
            try:
                found.setncattr(name, stored)
            except (TypeError, ValueError, RuntimeError, OSError, AttributeError) as error:
                why = " ".join(str(error).split())
        if why is not None:
            yield LeftOut(key, f"attribute {name!r}", why)
        elif not same_value(back := conversion.storable(found.getncattr(name)), value):
            yield Changed(key, f"the type of attribute {name!r}", f"it became a {type(back).__name__}")
