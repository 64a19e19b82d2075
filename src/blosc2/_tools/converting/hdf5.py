"""HDF5 files as a source and as a target.

Chunks that the Blosc2 filter has compressed are taken over without decoding, and given back so. The filter has the
number 32026 (registered with The HDF Group). Each chunk of the file is a frame of one chunk: with a metalayer "b2nd"
if it is divided along several axes, without it else.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final

import h5py
import numpy as np

from blosc2._arrays import DIMENSIONS, ArrayPlan, compressed_box
from blosc2._frames import AnyChunk
from blosc2._opening import schunk_from_cframe
from blosc2._options import lacking
from blosc2._tools.converting import conversion
from blosc2._tools.converting.conversion import DEFINED, ENUM, FILL, UNLIMITED, ArrayItem, GroupItem, Item, ObjectItem
from blosc2._tools.converting.report import WHOLE, Changed, LeftOut
from blosc2._tools.stores import equal_items, same_value
from blosc2.exceptions import ConversionError, some_of
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.storage import Codec, CParams, Filter, cparams_from

_FILTER = 32026


def taken_chunks(found: Any, dtype: np.dtype[Any]) -> conversion.TakenChunks | None:
    """The compressed chunks of a dataset; None if they cannot be taken over."""
    if not found.chunks or not found.size or found.dtype.hasobject:
        return None
    pipeline = found.id.get_create_plist()
    if pipeline.get_nfilters() != 1 or pipeline.get_filter(0)[0] != _FILTER:
        return None
    if not found.id.get_num_chunks():
        return None
    first = _frame(found, found.id.get_chunk_info(0).chunk_offset)
    blocks = None if first is None else _blocks(first, found.chunks, dtype)
    if first is None or blocks is None:
        return None
    keywords = {"chunks": found.chunks, "blocks": blocks, "cparams": first.cparams}

    def chunks(plan: ArrayPlan) -> Iterator[AnyChunk]:
        """Each chunk as it is stored, or compressed anew where it is not like the first one."""
        expected = int(plan.geometry.chunk_nbytes)
        for index in np.ndindex(*plan.geometry.grid):
            start = tuple(i * c for i, c in zip(index, found.chunks, strict=True))
            frame = _frame(found, start)
            if frame is not None and frame.nbytes == expected and _blocks(frame, found.chunks, dtype) == blocks:
                yield frame.get_chunk(0)
                continue
            box = tuple(slice(s, min(s + c, n)) for s, c, n in zip(start, found.chunks, found.shape, strict=True))
            yield from compressed_box(plan, start, np.asarray(found[box]).view(dtype)).values()

    return conversion.TakenChunks(keywords, chunks)


def _frame(found: Any, start: tuple[int, ...]) -> SChunk | None:
    """The super-chunk that is stored for a chunk; None if there is none, or another filter made it."""
    try:
        mask, stored = found.id.read_direct_chunk(start)
        frame = schunk_from_cframe(stored) if mask == 0 else None
    except (ValueError, RuntimeError, OSError):  # a chunk that was never written, or is no frame
        return None
    return frame if frame is not None and frame.nchunks == 1 else None


def _blocks(frame: SChunk, chunks: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...] | None:
    """The block shape of an array with chunks like this one; None if it cannot have such."""
    if frame.typesize != dtype.itemsize:
        return None
    if "b2nd" in frame.meta:
        _, ndim, shape, chunk, block, *_ = frame.meta["b2nd"]
        fits = ndim == len(chunks) and tuple(shape) == tuple(chunk) == tuple(chunks)
        return tuple(block) if fits else None
    items = frame.blocksize // dtype.itemsize
    whole = len(chunks) == 1 and items and chunks[0] % items == 0 and frame.blocksize % dtype.itemsize == 0
    return (items,) if whole else None


# The codecs that the filter knows, and the filters before them.
_CODECS = {Codec.BLOSCLZ: "blosclz", Codec.LZ4: "lz4", Codec.LZ4HC: "lz4hc", Codec.ZLIB: "zlib", Codec.ZSTD: "zstd"}
_FILTERS = {Filter.NOFILTER, Filter.SHUFFLE, Filter.BITSHUFFLE, Filter.DELTA}


def can_give_chunks(array: NDArray) -> bool:
    parameters = array.cparams
    return (
        array.size > 0
        and array.ndim > 0
        and all(c <= n for c, n in zip(array.chunks, array.shape, strict=True))
        and parameters.codec in _CODECS
        and not parameters.use_dict
        and set(parameters.filters) <= _FILTERS
    )


def give_chunks(array: NDArray, found: Any) -> None:
    """Write the chunks of an array to a dataset as they are, each as a frame of one chunk."""
    keywords = {"chunks": array.chunks, "blocks": array.blocks, "cparams": array.cparams}
    plan = ArrayPlan(array.chunks, array.dtype, keywords)
    grid = (-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True))
    for number, index in enumerate(np.ndindex(*grid)):
        frame = NDArray._of(plan.write([array.schunk.get_chunk(number)])).to_cframe()
        found.id.write_direct_chunk(tuple(i * c for i, c in zip(index, array.chunks, strict=True)), frame)


try:
    import hdf5plugin  # registers more filters with the HDF5 library
except ImportError:
    hdf5plugin = None


# ------------------------------------------------------------------ source
# A user block of more bytes is not kept: it becomes an attribute.
_LARGEST_BLOCK = 1 << 20


class Hdf5(conversion.Source):
    def __init__(self, path: str) -> None:
        self._path = path
        # Chunks that several boxes need are kept: the cache holds some large ones.
        try:
            self._file = h5py.File(path, "r", rdcc_nbytes=64 << 20, rdcc_nslots=10_007)
        except OSError:
            if path.lower().endswith(".mat") and not h5py.is_hdf5(path):
                raise ConversionError(
                    f"{path} is no MATLAB file of version 7.3, which are HDF5: save it with -v7.3, or read it with "
                    "scipy.io.loadmat"
                ) from None
            raise

    def close(self) -> None:
        self._file.close()

    def items(self) -> Iterator[Item]:
        seen: dict[Any, str] = {}
        yield from conversion.walk_groups(
            "", self._file, lambda key, group: conversion.alone(key, self._names(key, group, seen)),
            lambda key, name, group: self._member(key, name, group, seen),
        )  # fmt: skip

    def _names(self, key: str, group: Any, seen: dict[Any, str]) -> Generator[Item, None, list[Any]]:
        seen[_identity(group)] = key
        kept: dict[str, Any] = {}
        yield from _attributes(key, group, kept)
        if key == "/" and self._file.userblock_size:
            yield from self._user_block(kept)
        yield GroupItem(key, kept)
        return sorted(group, key=str)

    def _user_block(self, kept: dict[str, Any]) -> Iterator[LeftOut]:
        if self._file.userblock_size > _LARGEST_BLOCK:
            yield LeftOut("/", "the user block", f"it has {self._file.userblock_size} bytes")
            return
        with open(self._path, "rb") as file:
            kept[conversion.USER_BLOCK] = file.read(self._file.userblock_size)

    def _member(self, key: str, name: Any, group: Any, seen: dict[Any, str]) -> Generator[Item, None, Any]:
        """What a name of a group stands for; if that is a group, it is returned."""
        if not isinstance(name, str):
            yield LeftOut(key, WHOLE, "its name is no text in UTF-8")
            return None
        link = group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            if isinstance(link, h5py.SoftLink) and self._is_here(group, name):
                first = seen.get(_identity(group[name]))
                where = "under one of its names" if first is None else f"as {first!r}"
                yield Changed(key, "soft link", f"it names {link.path!r}, which is converted {where}")
            elif isinstance(link, h5py.ExternalLink):
                yield LeftOut(
                    key, "external link", f"it names {link.path!r} in {link.filename}: convert that file, too"
                )
            else:
                yield LeftOut(key, "soft link", f"it names {link.path!r}, which is not in the file")
            return None
        found = group[name]
        first = seen.get(_identity(found))
        if first is not None:
            yield Changed(key, "hard link", f"it is the same object as {first!r}")
        elif isinstance(found, h5py.Group):
            return found
        elif isinstance(found, h5py.Dataset):
            seen[_identity(found)] = key
            yield from _dataset(key, found)
        else:
            yield LeftOut(key, "named datatype", "stores have none")
        return None

    def _is_here(self, group: Any, name: str) -> bool:
        """Whether a soft link leads to an object of this file."""
        try:
            return bool(_identity(group[name])[0] == _identity(self._file)[0])
        except (KeyError, OSError, RuntimeError):  # it leads nowhere
            return False


def _identity(found: Any) -> Any:
    info = h5py.h5o.get_info(found.id)
    return info.fileno, info.addr


def _dataset(key: str, found: Any) -> Iterator[Item]:
    if _only_names_axis(found):
        return
    attributes: dict[str, Any] = {}
    yield from _attributes(key, found, attributes)
    yield from _further_scales(key, found)
    names = _dimensions(key, found)
    stored: Any = attributes.get(DIMENSIONS)
    if not any(names) and conversion.are_names(stored, len(found.shape or ())):
        names = [name or None for name in stored]  # as `_as_texts` writes them
    if any(names):
        attributes[DIMENSIONS] = names
    dtype = found.dtype
    if found.shape is None:
        yield LeftOut(key, WHOLE, "it has no dataspace (h5py.Empty)")
        return
    text = h5py.check_string_dtype(dtype)
    if text is not None and text.length is None:
        try:
            values = np.asarray(found.asstr()[()], object)
        except UnicodeDecodeError as error:
            yield LeftOut(key, WHOLE, f"its texts are not in {text.encoding}: {error}")
            return
        yield from _fill_of_list(key, found, attributes)
        yield ObjectItem.of(key, values, attributes)
        return
    if dtype.hasobject:
        yield from _of_objects(key, found, attributes)
        return
    names = h5py.check_enum_dtype(dtype)
    if names is not None and dtype.kind != "b":
        attributes[ENUM] = {name: int(value) for name, value in names.items()}
    if text is not None and text.encoding == "utf-8":
        yield Changed(key, "the character set", "NumPy does not mark UTF-8 in texts of fixed length")
    if found.maxshape != found.shape:
        yield Changed(key, "maxshape", f"arrays can be resized to any shape, not only to {found.maxshape}")
    properties = found.id.get_create_plist()
    if properties.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
        fill = found.fillvalue
        if fill is not None and not equal_items(np.asarray(fill), np.zeros((), dtype)).all():
            attributes[FILL] = conversion.storable(fill)
    yield from _lost_enums(key, dtype)
    for each in _missing_sources(key, found) if found.is_virtual else ():
        yield each
        if each.what == WHOLE:
            return
    if dtype.subdtype is not None:
        yield from _of_arrays(key, found, attributes)
        return
    plain = conversion.without_metadata(dtype)

    def read(box: conversion.Box) -> conversion.Items:
        try:
            return np.asarray(found[box if found.shape else ()], found.dtype).view(plain)
        except OSError as error:
            if missing := list(_missing_filters(properties)):
                how = "; pip install 'python-blosc2[convert]' brings many" if hdf5plugin is None else ""
                raise OSError(f"the filter {some_of(missing)} of HDF5 is not installed{how}") from error
            raise

    yield ArrayItem(key, found.shape, plain, read, found.chunks, attributes, taken_chunks(found, plain))


def _missing_filters(properties: Any) -> Iterator[str]:
    for number in range(properties.get_nfilters()):
        code, _, _, name = properties.get_filter(number)
        if not h5py.h5z.filter_avail(code):
            yield f"{code} ({name.decode(errors='replace')})" if name else str(code)


def _lost_enums(key: str, dtype: np.dtype[Any]) -> Iterator[LeftOut]:
    enums = list(_enum_fields(dtype))
    if enums:
        yield LeftOut(key, f"the enum of {some_of(enums)}", "the numbers of a field are kept, not their names")
    elif _is_named(dtype) and dtype.hasobject:
        yield LeftOut(key, "the enum of its items", "the numbers are kept, not their names")


def _enum_fields(dtype: np.dtype[Any]) -> Iterator[str]:
    for name in dtype.names or ():
        inner = dtype[name].base
        if _is_named(inner):
            yield name
        yield from (f"{name}.{each}" for each in _enum_fields(inner))


def _is_named(dtype: np.dtype[Any]) -> bool:
    """Whether numbers have names, alone or as items of variable length."""
    inner = h5py.check_vlen_dtype(dtype)
    dtype = inner if isinstance(inner, np.dtype) else dtype
    return h5py.check_enum_dtype(dtype) is not None and dtype.kind != "b"


def _fill_of_list(key: str, found: Any, attributes: dict[str, Any]) -> Iterator[LeftOut]:
    """The value of new items of a list: that of texts is an attribute."""
    try:
        is_own = found.id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED
        fill = _plain_value(found.fillvalue) if is_own else ""
    except (RuntimeError, TypeError, ValueError):  # the library cannot read each one of variable length
        fill = None
    if not isinstance(fill, str):
        yield LeftOut(key, "the fill value", "lists of objects have none")
    elif fill:
        attributes[FILL] = fill


def _further_scales(key: str, found: Any) -> Iterator[LeftOut]:
    if not has_scales(found):
        return
    try:
        names = [axis[number].name for axis in found.dims for number in range(1, len(axis))]
    except (RuntimeError, ValueError, KeyError, AttributeError, TypeError):  # references that lead nowhere
        return
    if names:
        yield LeftOut(key, f"the dimension scales {', '.join(names)}", "an axis has one name, that of the first scale")


def _missing_sources(key: str, found: Any) -> Iterator[LeftOut]:
    """Sources of a virtual dataset that are not there: HDF5 gives fill values for them.

    If that is all of them, the dataset is left out: its size is only claimed.
    """
    sources = {(source.file_name, source.dset_name) for source in found.virtual_sources()}
    gone = [source for source in sources if not _is_source(found, *source)]
    if not gone:
        return
    names = some_of(sorted({dataset if name == "." else name for name, dataset in gone}))
    if len(gone) == len(sources):
        yield LeftOut(key, WHOLE, f"none of its items are there: they are in {names}")
    else:
        yield LeftOut(key, f"the items in {names}", "they are not there, fill values are stored")


def _is_source(found: Any, name: str, dataset: str) -> bool:
    """Whether a source is there; of names with a pattern nobody knows which ones are meant."""
    if "%b" in name or "%b" in dataset:
        return True
    folder = os.path.dirname(os.path.abspath(os.fsdecode(found.file.filename)))
    prefix = os.environ.get("HDF5_VDS_PREFIX", "").replace("${ORIGIN}", folder)
    paths = [os.path.join(place, name) for place in (prefix, folder, "")]  # where the library looks
    try:
        if name == ".":
            return found.file.get(dataset) is not None
        with h5py.File(next(filter(os.path.exists, paths)), "r") as file:
            return file.get(dataset) is not None
    except (StopIteration, KeyError, OSError, RuntimeError):  # a link that leads nowhere, a damaged file
        return False


def _of_objects(key: str, found: Any, attributes: dict[str, Any]) -> Iterator[Item]:
    """A dataset whose items are no numbers alone: lists of arrays, or of dictionaries of fields."""
    dtype = found.dtype
    fields = [dtype[name] for name in dtype.names or ()]
    if not all(_is_simple(one) for one in fields or [dtype]):
        kind = "references" if h5py.check_ref_dtype(dtype) else "items of variable length in others"
        yield LeftOut(key, WHOLE, f"it has {kind}, which neither arrays nor lists hold")
        return
    yield from _fill_of_list(key, found, attributes)
    yield from _lost_enums(key, dtype)
    item = ObjectItem.of(key, np.asarray(found[()], dtype), attributes)
    if fields:
        yield Changed(key, "the types of its fields", f"each of {dtype.names} is a dictionary of values now")
        named = [dict(zip(dtype.names, map(_plain_value, value), strict=True)) for value in item.values]
        item = item._replace(values=named)
    yield item


def _is_simple(dtype: np.dtype[Any]) -> bool:
    inner = h5py.check_vlen_dtype(dtype)
    if isinstance(inner, np.dtype):
        return not inner.hasobject and inner.names is None
    return h5py.check_string_dtype(dtype) is not None or (not dtype.hasobject and dtype.names is None)


def _plain_value(value: Any) -> Any:
    """Bytes as the text that they are in UTF-8; other bytes stay bytes, so that none is lost."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return bytes(value)


def has_scales(found: Any) -> bool:
    """Whether an attribute lists references to the scales of axes. Where it has other values, HDF5 ends the process."""
    if "DIMENSION_LIST" not in found.attrs:
        return False
    listed = found.attrs.get_id("DIMENSION_LIST")
    try:
        inner = h5py.check_vlen_dtype(listed.dtype)
    except TypeError:  # a type that NumPy has not
        return False
    is_references = isinstance(inner, np.dtype) and h5py.check_ref_dtype(inner) is h5py.Reference
    return is_references and listed.shape == (found.ndim,)


def _dimensions(key: str, found: Any) -> list[str | None]:
    """The names of axes that have a dimension scale, as netCDF 4 files have them."""
    if found.is_scale and found.ndim == 1:
        return [key.rpartition("/")[2]]
    if found.is_scale and _COORDINATES in found.attrs:
        return _numbered_dimensions(found)
    if not has_scales(found):
        return []
    try:
        return [axis[0].name.rpartition("/")[2] if len(axis) else None for axis in found.dims]
    except (RuntimeError, ValueError, KeyError, AttributeError, TypeError):  # references that lead nowhere
        return []


# HDF5 lets no scale have scales: where netCDF 4 has one of several axes, such as z(z, lat, lon), an attribute of it
# lists the numbers that another attribute gives the scales.
_COORDINATES: Final = "_Netcdf4Coordinates"
_NUMBER: Final = "_Netcdf4Dimid"


def _numbered_dimensions(found: Any) -> list[str | None]:
    """The names of the axes of a scale of several axes: those of scales in its group, or above it."""
    names: dict[int, str] = {}
    try:
        numbers = [int(number) for number in np.ravel(found.attrs[_COORDINATES])]
        group = found.parent
        while len(names) < len({*numbers}):
            for name, scale in group.items():
                if isinstance(scale, h5py.Dataset) and scale.is_scale and _NUMBER in scale.attrs:
                    names.setdefault(int(scale.attrs[_NUMBER]), name)
            if group.name == "/":
                break
            group = group.parent
    except (RuntimeError, ValueError, KeyError, TypeError, OSError):  # other values, or members that are damaged
        return []
    return [names.get(number) for number in numbers] if len(numbers) == found.ndim else []


# What netCDF 4, and h5netcdf, call a scale that has no values, and a length behind it.
_NO_VARIABLE: Final = "This is a netCDF dimension but not a netCDF variable. "


def _only_names_axis(found: Any) -> bool:
    """Whether a dataset is there for the name and length of an axis alone, as in netCDF 4."""
    name = found.attrs.get("NAME") if found.is_scale else b""
    return isinstance(name, bytes) and name.startswith(_NO_VARIABLE.encode())


def _of_arrays(key: str, found: Any, attributes: dict[str, Any]) -> Iterator[Item]:
    """A dataset whose items are arrays: their axes become the last ones."""
    base, inner = found.dtype.subdtype
    base, ndim = conversion.without_metadata(base), len(found.shape)

    def read(box: conversion.Box) -> conversion.Items:
        items: Any = np.asarray(found[box[:ndim]], base)
        return np.asarray(items[(*(slice(None),) * ndim, *box[ndim:])])

    yield Changed(key, "the type of an array for each item", f"its axes {inner} follow those of the dataset")
    yield ArrayItem(key, found.shape + inner, base, read, None, attributes)


# The attributes by which HDF5 marks a scale, and by which netCDF numbers them: their names are in `DIMENSIONS`.
_OF_SCALES: Final = {"CLASS", "NAME", "REFERENCE_LIST"}
_OF_NETCDF: Final = {_NUMBER, _COORDINATES}


def _of_scales(found: Any) -> set[str]:
    """The attributes of a dataset that scales of axes have made; elsewhere they are as any others."""
    if not isinstance(found, h5py.Dataset):
        return set()
    attached = {"DIMENSION_LIST"} if has_scales(found) else set()
    return _OF_NETCDF | attached | (_OF_SCALES if found.is_scale else set())


def _attributes(key: str, found: Any, kept: dict[str, Any]) -> Iterator[LeftOut]:
    for name in sorted(set(found.attrs) - _of_scales(found)):
        try:
            value, dtype = found.attrs[name], found.attrs.get_id(name).dtype
        except (OSError, TypeError) as error:
            yield LeftOut(key, f"attribute {name!r}", str(error))
            continue
        if _is_named(dtype) or any(_enum_fields(dtype)):
            yield LeftOut(key, f"the enum of attribute {name!r}", "the numbers are kept, not their names")
        if isinstance(value, np.generic):  # of the byte order of the machine, always
            value = np.array(value, dtype)
        as_bytes = _bytes_in(value, dtype)
        stored = conversion.storable(value) if as_bytes is None else as_bytes
        if stored is None:
            yield LeftOut(key, f"attribute {name!r}", f"a value of {type(value).__name__} has no counterpart")
            continue
        if isinstance(as_bytes, list) and (dtype.names is None or dtype["code"] != _CODED["code"]):
            yield Changed(key, f"the type of attribute {name!r}", "its numbers of one byte are read as bytes")
        kept[name] = stored


# ------------------------------------------------------------------ dimensions
# To which group a named axis belongs: that of the array, or one around it, as netCDF and scales have it.
def around(group: str) -> Iterator[str]:
    """A group, and those around it, from the inside: "" is the root."""
    while True:
        yield group
        if not group:
            return
        group = group.rpartition("/")[0]


class Dimensions:
    """The groups of dimensions, found out from all items before the first is written.

    A dimension belongs to the nearest group that lists it, or has a coordinate of its name; else to the outermost one
    with an array that has it; and never to one where arrays have it with another length.
    """

    def __init__(self, items: Iterable[Item] = ()) -> None:
        # Where dimensions are listed or have coordinates, and the lengths that they have in arrays of a group.
        self._claimed: set[tuple[str, str]] = set()
        self._lengths: dict[tuple[str, str], set[int]] = {}
        for item in items:
            if isinstance(item, GroupItem):
                attributes = dict(item.attributes)
                names = conversion.taken_names(attributes, UNLIMITED) + conversion.taken_names(attributes, DEFINED)
                self._claimed.update((item.key.rstrip("/"), name) for name in names)
            elif isinstance(item, (ArrayItem, ObjectItem)):
                self._note(item)

    def _note(self, item: ArrayItem | ObjectItem) -> None:
        if isinstance(item, ArrayItem):
            shape = item.shape
        else:
            shape = conversion.shaped_values(item.values, dict(item.attributes)).shape
        names: Any = item.attributes.get(DIMENSIONS)
        if not conversion.are_names(names, len(shape)):
            return
        group, _, own = item.key.rpartition("/")
        for name, length in zip(names, shape, strict=True):
            if name is not None:
                self._lengths.setdefault((group, name), set()).add(length)
        if own in names:
            self._claimed.add((group, own))

    def group_of(self, group: str, name: str, length: int) -> str:
        """The group of a dimension that an array in `group` has."""
        outermost = group
        for path in around(group):
            lengths = self._lengths.get((path, name), {length})
            if lengths != {length}:
                continue
            if (path, name) in self._claimed:
                return path
            if (path, name) in self._lengths:
                outermost = path
        return outermost


# ------------------------------------------------------------------ target
class NewHdf5(conversion.Target):
    surveys = True

    def __init__(self, path: str, *, cparams: Any = None, **_: Any) -> None:
        super().__init__(path)
        self._filter = None if cparams is None else _asked_filter(cparams)
        self._file = h5py.File(self.partial, "w")
        # The names of the axes of datasets with the groups that they belong to, and how long these axes are.
        self._named: dict[str, list[tuple[str, str | None]]] = {}
        self._lengths: dict[tuple[str, str], int] = {}
        # The axes without a limit, by their group.
        self._unlimited: dict[str, list[str]] = {}
        self._owners = Dimensions()

    def survey(self, items: Iterable[Item]) -> None:
        self._owners = Dimensions(items)

    def _group_of(self, group: str, name: str | None, length: int) -> str:
        return self._owners.group_of(group.rstrip("/"), name or "", length) or "/"

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        attributes = dict(item.attributes)
        if isinstance(item, GroupItem):
            group = self._file.require_group(item.key)
            self._unlimited[group.name] = conversion.taken_names(attributes, UNLIMITED)
            if self._unlimited[group.name]:
                yield Changed(item.key, f"attribute {UNLIMITED!r}", "maxshape of the arrays says so")
            if conversion.taken_names(attributes, DEFINED):
                yield Changed(item.key, f"attribute {DEFINED!r}", "the scales of axes say so")
            yield from _set_attributes(item.key, group, attributes)
            return
        if item.key in self._file or not self._has_room(item.key):
            yield LeftOut(item.key, WHOLE, "HDF5 has no group and dataset of the same name")
            return
        if isinstance(item, ObjectItem):
            kind = _kind_of(item.values)
            if kind is None:
                yield LeftOut(
                    item.key, WHOLE, "HDF5 has lists of texts without zero characters, and of arrays of numbers"
                )
                return
            values = conversion.shaped_values(item.values, attributes)
            is_fill = h5py.check_string_dtype(kind) is not None and _kind_of([attributes.get(FILL)]) == kind
            fill = attributes.pop(FILL) if is_fill else None
            found = self._file.create_dataset(item.key, data=values, dtype=kind, fillvalue=fill)
        else:
            found, why = self._new_dataset(item, attributes)
            if found is None:
                yield LeftOut(item.key, WHOLE, why)
                return
            if item.dtype.kind == "U":
                yield Changed(item.key, f"the type {item.dtype}", conversion.OF_TEXTS)
            if FILL in item.attributes and FILL not in attributes:
                yield from conversion.retyped(item.key, FILL, item.attributes, found.fillvalue)
        names: Any = attributes.get(DIMENSIONS)
        if self._takes_names(found, names):
            attributes.pop(DIMENSIONS)
        elif conversion.are_names(names, found.ndim):
            attributes[DIMENSIONS] = _as_texts(names)
        yield from _set_attributes(item.key, found, attributes)

    def _maxshape(self, group: str, names: Any, shape: tuple[int, ...]) -> tuple[int | None, ...]:
        if not conversion.are_names(names, len(shape)):
            return shape
        return tuple(
            None if name in self._unlimited.get(self._group_of(group, name, n), ()) else n
            for name, n in zip(names, shape, strict=True)
        )

    def _takes_names(self, found: Any, names: Any) -> bool:
        """Note the names of the axes of a dataset; False where one is that of an axis of another length."""
        if not conversion.are_names(names, found.ndim):
            return False
        if any(name is not None and (name == "." or "/" in name or "\0" in name) for name in names):
            return False
        lengths: dict[tuple[str, str], int] = {}
        owners = [self._group_of(found.parent.name, name, n) for name, n in zip(names, found.shape, strict=True)]
        for group, name, length in zip(owners, names, found.shape, strict=True):
            if name and {self._lengths.get((group, name), length), lengths.setdefault((group, name), length)} != {
                length
            }:
                return False
        self._lengths |= lengths
        if lengths:
            self._named[found.name] = list(zip(owners, names, strict=True))
        return True

    def _attach_scales(self) -> None:
        """Give each named axis a scale: the dataset of its name, or one without values, as in netCDF 4."""
        scales = {}
        for (group, name), length in self._lengths.items():
            found = self._file[group].get(name)
            if found is None:
                maxshape = self._maxshape(group, [name], (length,))
                found = self._file[group].create_dataset(name, (length,), ">f4", maxshape=maxshape)
                found.make_scale(f"{_NO_VARIABLE}{length:10d}")
            elif self._can_be_scale(found, name, length):
                found.make_scale(name)
            else:
                continue
            scales[group, name] = found
        for key, named in self._named.items():
            found, names = self._file[key], [name for _, name in named]
            its = [None if name is None else scales.get((group, name)) for group, name in named]
            if found.is_scale and found.ndim == 1:
                continue
            if any(name is not None and scale is None for name, scale in zip(names, its, strict=True)):
                found.attrs[DIMENSIONS] = _as_texts(names)
            elif found.is_scale:
                for number, scale in enumerate(scales.values()):
                    scale.attrs[_NUMBER] = np.int32(number)
                found.attrs[_COORDINATES] = np.array([scale.attrs[_NUMBER] for scale in its if scale], "i4")
            else:
                for axis, scale in zip(found.dims, its, strict=True):
                    if scale is not None:
                        axis.attach_scale(scale)

    def _can_be_scale(self, found: Any, name: str, length: int) -> bool:
        """Whether a dataset can stand for the axis of its name: it has that alone, or first, and no axis without."""
        if not isinstance(found, h5py.Dataset) or not _OF_SCALES.isdisjoint(found.attrs):
            return False
        named = self._named.get(found.name, [("", name)] if found.shape == (length,) else [])
        names = [one for _, one in named]
        return names[:1] == [name] and None not in names

    def _has_room(self, key: str) -> bool:
        parts = key.strip("/").split("/")[:-1]
        above = ("/".join(parts[: n + 1]) for n in range(len(parts)))
        return not any(isinstance(self._file.get(path), h5py.Dataset) for path in above)

    def _new_dataset(self, item: ArrayItem, attributes: dict[str, Any]) -> tuple[Any, str]:
        names = attributes.pop(ENUM) if _is_enum(attributes.get(ENUM), item.dtype) else None
        is_text = item.dtype.kind == "U"
        if is_text and conversion.has_no_text(item):
            return None, conversion.NO_TEXT
        dtype: Any = item.dtype if names is None else h5py.enum_dtype(names, basetype=item.dtype)
        dtype = h5py.string_dtype() if is_text else dtype
        how: dict[str, Any] = {}
        if (fill := conversion.taken_fill(attributes, item.dtype)) is not None:
            how["fillvalue"] = fill
        if item.kept_chunks and not is_text:
            how |= {
                "chunks": item.kept_chunks,
                **(_filter_like(item) if self._filter is None else self._filter),
                "maxshape": self._maxshape(item.key.rpartition("/")[0] or "/", attributes.get(DIMENSIONS), item.shape),
            }
        is_blosc2 = how.get("compression") == _FILTER
        if is_blosc2:
            self.notes = [_NEEDS_PLUGIN]
        try:
            found = self._file.create_dataset(item.key, item.shape, dtype, **how)
        except (TypeError, ValueError) as error:
            return None, f"{item.dtype} has no counterpart in HDF5: {error}{conversion.of_dates(item.dtype)}"
        if is_text:
            for box in conversion.boxes_of(item):
                found[box] = item.read(box).astype(object)
        elif not item.shape:
            found[()] = item.whole()
        elif is_blosc2 and self._filter is None and item.array is not None and can_give_chunks(item.array):
            give_chunks(item.array, found)
        else:
            for box in conversion.boxes_of(item, found.chunks):
                found[box] = item.read(box)
        return found, ""

    def take_back(self, key: str) -> bool:
        if key in self._file:
            del self._file[key]
        return True

    def finish(self) -> None:
        self._attach_scales()
        self._file.close()

    def abandon(self, *, keep: bool) -> None:
        with suppress(Exception):  # what remains to be written finds no place on a full disk
            self._file.close()
        super().abandon(keep=keep)


def _as_texts(names: list[str | None]) -> list[str]:
    """Names of axes as an attribute: "" for an axis without one."""
    return ["" if name is None else name for name in names]


def _kind_of(values: list[Any]) -> Any:
    """The type of items of variable length for the values of a list; None if HDF5 has none."""
    if all(isinstance(value, str) and "\0" not in value for value in values):
        return h5py.string_dtype()
    dtypes = {value.dtype if isinstance(value, np.ndarray) and value.ndim == 1 else None for value in values}
    dtype = dtypes.pop()
    return None if dtypes or dtype is None or dtype.kind not in "iuf" else h5py.vlen_dtype(dtype)


def _is_enum(names: Any, dtype: np.dtype[Any]) -> bool:
    if dtype.kind not in "iu" or not isinstance(names, dict):
        return False
    limits = np.iinfo(dtype)
    return all(isinstance(n, str) and type(v) is int and limits.min <= v <= limits.max for n, v in names.items())


_NEEDS_PLUGIN: Final = (
    "Blosc2 has compressed it: h5py reads it after `import hdf5plugin`, few other programs do; "
    "cparams={'codec': blosc2.Codec.ZLIB} (--codec zlib) makes it gzip, which all read"
)


def _asked_filter(cparams: Any) -> dict[str, Any]:
    """Keywords of the filter that compression parameters ask for; gzip and none need no plug-in."""
    asked = cparams_from(cparams)
    plain = cparams_from({name: getattr(asked, name) for name in ("codec", "clevel", "typesize", "nthreads")})
    more = [one.name for one in fields(CParams) if getattr(asked, one.name) != getattr(plain, one.name)]
    more += ["precision"] * (getattr(cparams, "precision", None) is not None)
    if more or type(asked) is not CParams or asked.codec not in _CODECS:
        what = ", ".join(more) or (f"the codec {asked.codec.name}" if type(asked) is CParams else "a goal")
        known = ", ".join(codec.name for codec in _CODECS)
        raise ConversionError(f"HDF5 takes codec ({known}) and clevel of cparams, and not {what}")
    if asked.clevel == 0:
        return {}
    if asked.codec == Codec.ZLIB:
        return {"compression": "gzip", "compression_opts": asked.clevel, "shuffle": True}
    if hdf5plugin is None:
        raise ConversionError(lacking(f"the codec {asked.codec.name} in HDF5", "hdf5plugin", "convert"))
    return _blosc2_filter(_CODECS[asked.codec], asked.clevel)


def _blosc2_filter(name: str, level: int) -> dict[str, Any]:
    return dict(hdf5plugin.Blosc2(cname=name, clevel=level, filters=hdf5plugin.Blosc2.SHUFFLE))


def _filter_like(item: ArrayItem) -> dict[str, Any]:
    """Keywords of the Blosc2 filter with the codec of an array; without hdf5plugin, of a filter that h5py has."""
    if hdf5plugin is None:
        return {"compression": "gzip", "shuffle": True}
    if item.array is None or item.array.cparams.codec not in _CODECS:
        return _blosc2_filter("zstd", 5)
    return _blosc2_filter(_CODECS[item.array.cparams.codec], item.array.cparams.clevel)


# Bytes are opaque, as in h5py, because a text ends at its last byte that is not zero; lists of them have any lengths.
_BYTES: Final = h5py.vlen_dtype("u1")
_NO_BYTES: Final = h5py.Empty(np.dtype("V1"))
_CODED: Final = np.dtype([("code", "i8"), ("content", _BYTES)])  # of `nifti_extensions`
# Those that mean items of an array of texts.
_ITEMS: Final = (FILL, "_FillValue", "missing_value")


def _as_bytes(value: Any) -> tuple[Any, np.dtype[Any]] | None:
    """Bytes, a list of bytes, or one of pairs of a code and bytes, as an attribute and its type; None for others."""
    if isinstance(value, bytes):
        return np.void(value) if value else _NO_BYTES, np.dtype((np.void, len(value) or 1))
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(one, bytes) for one in value):
        return _array_of(_BYTES, [np.frombuffer(one, "u1") for one in value]), _BYTES
    if all(isinstance(one, list) and [*map(type, one)] == [int, bytes] and one[0].bit_length() < 64 for one in value):
        return _array_of(_CODED, [(code, np.frombuffer(content, "u1")) for code, content in value]), _CODED
    return None


def _array_of(dtype: np.dtype[Any], values: list[Any]) -> conversion.Items:
    made = np.empty(len(values), dtype)
    for number, value in enumerate(values):
        made[number] = value
    return made


def _bytes_in(value: Any, dtype: np.dtype[Any]) -> Any:
    """What an attribute of such a type was written of; None for other types."""
    is_opaque = dtype.kind == "V" and dtype.names is None
    if is_opaque and isinstance(value, h5py.Empty):
        return b""
    if is_opaque and isinstance(value, (np.void, np.ndarray)) and value.shape == ():
        return value.tobytes()
    if not isinstance(value, np.ndarray) or value.ndim != 1:
        return None
    if h5py.check_vlen_dtype(dtype) == "u1":
        return [one.tobytes() for one in value]
    if dtype.names == _CODED.names and h5py.check_vlen_dtype(dtype["content"]) == "u1" and dtype["code"].kind == "i":
        return [[int(code), content.tobytes()] for code, content in value]
    return None


def _set_attributes(key: str, found: Any, attributes: Mapping[str, Any]) -> Iterator[LeftOut]:
    for name, given in attributes.items():
        value = conversion.without_tuples(given)
        if name in ("DIMENSION_LIST", "REFERENCE_LIST") or (name == "CLASS" and "DIMENSION_SCALE" in str(value)):
            yield LeftOut(key, f"attribute {name!r}", "HDF5 needs it for scales of axes")
            continue
        as_bytes = None if name in _ITEMS else _as_bytes(value)
        numbers = None if as_bytes else conversion.numbers_of(value)
        texts = isinstance(value, list) and all(isinstance(one, str) for one in value)
        single = isinstance(value, (str, bytes, bool, int, float, complex, np.ndarray))
        if not (as_bytes or numbers is not None or texts or single):
            yield LeftOut(key, f"attribute {name!r}", f"HDF5 has no counterpart of such a {type(given).__name__}")
            continue
        is_one = isinstance(value, np.ndarray) and not value.shape and value.dtype in conversion.PLAIN
        try:
            plain = value if numbers is None else numbers
            stored, dtype = as_bytes or (plain, h5py.string_dtype() if texts else None)
            found.attrs.create(name, np.bytes_(stored) if isinstance(stored, bytes) else stored, dtype=dtype)
        except (TypeError, ValueError, RuntimeError, OSError) as error:
            yield LeftOut(key, f"attribute {name!r}", str(error))
            continue
        if numbers is not None:
            yield Changed(key, f"the type of attribute {name!r}", "the list became an array")
        elif isinstance(value, bytes) and as_bytes is None:
            what, why = f"the type of attribute {name!r}", "bytes became a text of a fixed length"
            ends = value.endswith(b"\0")
            yield LeftOut(key, what, f"{why}, without zeros at its end") if ends else Changed(key, what, why)
        elif isinstance(value, np.ndarray) and value.dtype.kind == "V" and not (value.shape or value.dtype.names):
            yield Changed(key, f"the type of attribute {name!r}", "an opaque value comes back as bytes")
        elif (isinstance(value, (int, complex)) or is_one) and not same_value(
            conversion.storable(found.attrs[name]), value
        ):
            yield Changed(key, f"the type of attribute {name!r}", "it comes back as a number, or an array of one")
        elif value is not given:
            yield Changed(key, f"the type of attribute {name!r}", conversion.OF_TUPLES)
