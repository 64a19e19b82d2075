"""`convert`: what sources give and targets take, the formats, and how a target is written beside its place."""

from __future__ import annotations

import base64
import errno
import importlib
import itertools
import math
import os
import re
import struct
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from blosc2._arrays import DIMENSIONS, ArrayPlan
from blosc2._backends import EMBED, new_key
from blosc2._files import Progress, uploaded
from blosc2._frames import AnyChunk
from blosc2._opening import open as open_path
from blosc2._options import NOT_CONVERTED, RemotePath, is_remote, lacking, new_path, remote_path
from blosc2._stores import Store
from blosc2._tools.converting.kept_chunks import KeptChunks
from blosc2._tools.converting.renaming import Rename, new_keys
from blosc2._tools.converting.report import WHOLE, Changed, ConversionReport, LeftOut, note
from blosc2._tools.merging import put_in_place_of
from blosc2._tools.stores import (
    STORES,
    equal_items,
    group_path,
    in_order,
    opened,
    partial_name,
    put_in_place,
    remove,
    same_value,
)
from blosc2.exceptions import ConversionError, FormatError, StaleHandleError, legible, name_target
from blosc2.ndarray import NDArray

# Bytes of a box, unless a single chunk has more; rows of chunks may be so much larger where items must come in order.
_BOX, _ROWS = 8 << 20, 64 << 20


def boxes_of(
    item: ArrayItem | NDArray, chunks: tuple[int, ...] | None = None, *, in_order: bool = False
) -> Iterator[Box]:
    """All items in boxes of some MB, made of whole chunks: of these, or of those of the item. None if it has no items.

    With `in_order`, the items of all boxes, one after the other, are in C order; then boxes need not be of whole
    chunks.
    """
    if 0 in item.shape:
        return
    chunks = chunks or item.chunks or (1,) * len(item.shape)
    counts = [max(1, min(c, n)) for c, n in zip(chunks, item.shape, strict=True)]
    if in_order:
        whole_rows = counts[:1] + list(item.shape[1:])
        counts = whole_rows if math.prod(whole_rows) * item.dtype.itemsize <= _ROWS else [1] * len(counts)
    for axis in reversed(range(len(counts))):
        others = math.prod(counts[:axis] + counts[axis + 1 :]) * item.dtype.itemsize
        fits = max(1, _BOX // max(1, others) // counts[axis])
        counts[axis] = min(item.shape[axis], counts[axis] * fits)
        if counts[axis] < item.shape[axis]:
            break
    starts = (range(0, n, count) for n, count in zip(item.shape, counts, strict=True))
    for box in itertools.product(*starts):
        yield tuple(slice(at, min(at + count, n)) for at, count, n in zip(box, counts, item.shape, strict=True))


def bytes_of(items: Items) -> memoryview:
    return np.ascontiguousarray(items).reshape(-1).view("u1").data


#: A slice with start and stop for each axis.
Box = tuple[slice, ...]
Items = np.ndarray[Any, Any]
#: What to do for a leaf whose key a target cannot have.
TO_RENAME = "rename='escape' (--rename) keeps it under another one"
#: No store has keys with more segments.
DEEPEST = 256
#: That of a root with the bytes of other programs before an HDF5 file.
USER_BLOCK = "hdf5_userblock"
#: That of a group which lists the dimensions of a netCDF file that have no limit.
UNLIMITED = "netcdf_unlimited"
#: That of a group which lists further dimensions that are its own, where nothing else says so: only arrays in groups
#: below have them, or a group around it has others of these names.
DEFINED = "netcdf_dimensions"
#: Those that a group may have for all arrays in it: names of axes and sizes of voxels.
OF_GROUPS = ("axes", "voxel_sizes")
#: Those of a leaf that say what HDF5 has and NumPy has not: the shape of texts, the names of numbers, the new items.
TEXT_SHAPE, ENUM, FILL = "hdf5_shape", "hdf5_enum", "hdf5_fillvalue"
#: That of CF for the value that stands for what is missing.
MISSING = "_FillValue"
#: Single values of these dtypes become those of Python; each comes back with its dtype.
PLAIN = tuple(map(np.dtype, ("?", "i8", "f8")))


def are_names(found: Any, ndim: int) -> bool:
    """Whether a list can be the names of so many axes, of which each may have none."""
    return (
        isinstance(found, (list, tuple))
        and len(found) == ndim
        and all(name is None or isinstance(name, str) for name in found)
    )


def taken_names(attributes: dict[str, Any], attribute: str) -> list[str]:
    """Take a list of names of dimensions out of the attributes of a group; no other value is taken."""
    found = attributes.get(attribute)
    if not isinstance(found, (list, tuple)) or not found or not all(isinstance(name, str) for name in found):
        return []
    return list(attributes.pop(attribute))


def without_metadata(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype without what only the library of a format knows."""
    if dtype.names is not None and dtype.fields is not None:
        fields = [(name, without_metadata(dtype[name])) for name in dtype.names]
        offsets = [dtype.fields[name][1] for name in dtype.names]
        return np.dtype({
            "names": [name for name, _ in fields], "formats": [inner for _, inner in fields], "offsets": offsets,
            "itemsize": dtype.itemsize,
        })  # fmt: skip
    if dtype.subdtype is not None:
        return np.dtype((without_metadata(dtype.subdtype[0]), dtype.subdtype[1]))
    return np.dtype(dtype.str) if dtype.metadata else dtype


def storable(value: Any) -> Any:
    """The value of an attribute, so that its dtype comes back; None if there is no counterpart."""
    if isinstance(value, (str, bytes)) and not isinstance(value, np.generic):
        return value
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return value
    if isinstance(value, np.ndarray):
        if not value.shape and value.dtype in PLAIN:
            return value.item()
        if value.dtype.kind == "O":
            texts = value.tolist()
            return texts if all(isinstance(text, str) for text in value.reshape(-1)) else None
        return None if value.dtype.hasobject else value.view(without_metadata(value.dtype))
    return None


def taken_item(attributes: dict[str, Any], name: str, dtype: np.dtype[Any]) -> Any:
    """An item of the dtype that an attribute has, which is removed then; None if it has another value."""
    try:
        value = np.asarray(attributes[name])
        if value.size != 1 or (value.dtype.kind in "SU") != (dtype.kind in "SU"):
            return None
        value = value.reshape(())
        with np.errstate(all="ignore"):
            taken = value.astype(dtype)[()]
        if not np.can_cast(value.dtype, dtype, "same_kind") and not (value.dtype.kind in "iuf" and taken == value):
            return None
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    if value.dtype.kind in "SU" and np.asarray(taken).astype(value.dtype) != value:  # longer than items are
        return None
    del attributes[name]
    return taken


def of_dates(dtype: np.dtype[Any]) -> str:
    """What to do with dates and times where a format has none; "" for other types."""
    return "; store array[...].astype('i8') and its unit, or write them with xarray" if dtype.kind in "mM" else ""


def taken_fill(attributes: dict[str, Any], dtype: np.dtype[Any]) -> Any:
    """The value of new items, if an attribute says it; zeros are there without it."""
    rest = dict(attributes)
    found = None if dtype.kind == "U" else taken_item(rest, FILL, dtype)
    if found is None or equal_items(np.asarray(found), np.zeros((), dtype)).all():
        return None
    del attributes[FILL]
    return found


def retyped(key: str, name: str, attributes: Mapping[str, Any], taken: Any) -> Iterator[LeftOut]:
    """What is to be listed if an attribute that was taken comes back with the dtype of the items, and had another."""
    if taken.dtype.kind in "biufc" and not same_value(attributes[name], storable(taken)):
        yield Changed(key, f"the type of attribute {name!r}", f"it became {taken.dtype}, as the items are")


def encode_missing(key: str, attributes: dict[str, Any], dtype: np.dtype[Any]) -> Iterator[LeftOut]:
    """Write the attribute for what is missing as xarray has it in zarr 3, so that NaN is the same NaN.

    That is a number or, of floats, base64 of a little-endian double, two for complex numbers:
    https://docs.xarray.dev/en/stable/internals/zarr-encoding-spec.html
    """
    given = dict(attributes)
    fill = taken_item(attributes, MISSING, dtype)
    if MISSING in attributes:
        del attributes[MISSING]
        yield LeftOut(key, f"attribute {MISSING!r}", f"it is no item of {dtype}")
    elif fill is not None and dtype.kind not in "biufc":
        yield LeftOut(key, f"attribute {MISSING!r}", f"xarray has none for {dtype} in zarr")
    elif fill is not None:
        attributes[MISSING] = _of_doubles(fill.item())
        yield from retyped(key, MISSING, given, fill)


def _of_doubles(number: Any) -> Any:
    if isinstance(number, complex):
        return [_of_doubles(number.real), _of_doubles(number.imag)]
    return base64.b64encode(struct.pack("<d", number)).decode() if isinstance(number, float) else number


def shaped_values(values: list[Any], attributes: dict[str, Any]) -> Items:
    """The values of a list as an array of objects, in the shape that an attribute says, which is removed then."""
    items, shape = np.array([*values, None], object)[:-1], attributes.get(TEXT_SHAPE)
    if isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape) and math.prod(shape) == len(values):
        return items.reshape(attributes.pop(TEXT_SHAPE))
    return items


def as_json(key: str, attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[LeftOut]]:
    """The attributes that JSON can hold, and what it cannot. NumPy numbers and arrays become numbers and lists."""
    kept, left_out = {}, []
    for name, value in attributes.items():
        is_of_numpy = isinstance(value, (np.ndarray, np.generic))
        plain = value.tolist() if is_of_numpy else without_tuples(value)
        lacking = _lacking_in_json(plain)
        if lacking:
            left_out.append(LeftOut(key, f"attribute {name!r}", f"JSON has no {lacking}"))
            continue
        kept[name] = plain
        if is_of_numpy:
            why = f"JSON has no {value.dtype} of NumPy, only lists and numbers"
            left_out.append(Changed(key, f"the type of attribute {name!r}", why))
        elif plain is not value:
            left_out.append(Changed(key, f"the type of attribute {name!r}", OF_TUPLES))
    return kept, left_out


_NO_TEXT = re.compile("[\0\ud800-\udfff]")
NO_TEXT = "a text has a zero character, at which it would end, or one that UTF-8 has not"


def has_no_text(item: ArrayItem) -> bool:
    """Whether an array has texts that formats with texts of any length cannot hold: see `NO_TEXT`."""
    return any(_NO_TEXT.search(text) for box in boxes_of(item) for text in np.ravel(item.read(box)).tolist())


#: What is said of arrays of texts in these formats.
OF_TEXTS = "it became texts of any length, which come back as a list"
#: What is said of attributes with tuples in formats that have none.
OF_TUPLES = "tuples became lists"


def without_tuples(value: Any) -> Any:
    """A value with lists for its tuples; the value itself if it has none."""
    if isinstance(value, dict):
        names, values = [*value], [*value.values()]
        made = without_tuples(values)
        return value if made is values else dict(zip(names, made, strict=True))
    if not isinstance(value, (list, tuple)):
        return value
    made = [without_tuples(one) for one in value]
    unchanged = isinstance(value, list) and all(one is other for one, other in zip(made, value, strict=True))
    return value if unchanged else made


def _lacking_in_json(value: Any) -> str:
    """What of a value JSON cannot hold and give back as it is; "" if it holds all."""
    if isinstance(value, list):
        return next(filter(None, map(_lacking_in_json, value)), "")
    if isinstance(value, dict):
        are_texts = all(isinstance(name, str) for name in value)
        return _lacking_in_json([*value.values()]) if are_texts else "names that are no texts"
    return "" if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


class TakenChunks(NamedTuple):
    """Compressed chunks to be stored as they are: keywords of an array of such chunks, and what gives them in order."""

    keywords: dict[str, Any]
    chunks: Callable[[ArrayPlan], Iterator[AnyChunk]]


@dataclass
class ArrayItem:
    """An array of a source, which is read box by box.

    Its key is absolute, such as "/mri/raw"; `chunks` are those of the source. `taken` is there if chunks can be taken
    over without decoding, and `array` if it is one of this package.
    """

    key: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[Box], Items]
    chunks: tuple[int, ...] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    taken: TakenChunks | None = None
    array: NDArray | None = None

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    @property
    def kept_chunks(self) -> tuple[int, ...] | None:
        """The chunks, none of them longer than its axis; None where there are none, or no items."""
        if not self.chunks or 0 in self.shape:
            return None
        return tuple(max(1, min(c, n)) for c, n in zip(self.chunks, self.shape, strict=True))

    def whole(self) -> Items:
        return self.read(tuple(slice(0, n) for n in self.shape))

    @classmethod
    def of(cls, key: str, items: Items, attributes: Mapping[str, Any] | None = None) -> Self:
        return cls(key, items.shape, items.dtype, lambda box: items[box], attributes=attributes or {})


class ObjectItem(NamedTuple):
    """A list of texts, bytes or other small objects. Whether it had other axes than one in the source."""

    key: str
    values: list[Any]
    attributes: Mapping[str, Any]
    had_axes: bool = False

    @classmethod
    def of(cls, key: str, items: Items, attributes: dict[str, Any]) -> Self:
        """The items of an array of objects, whose shape becomes an attribute if it has not one axis."""
        if items.ndim != 1:
            attributes[TEXT_SHAPE] = list(items.shape)
        return cls(key, items.reshape(-1).tolist(), attributes, items.ndim != 1)


class GroupItem(NamedTuple):
    """A group, given before what is in it."""

    key: str
    attributes: Mapping[str, Any]


Item = ArrayItem | ObjectItem | GroupItem | LeftOut


class Source:
    """What is converted. If it `is_one` array, the first name in the key of that is only the name of its file."""

    is_one = False
    #: Whether items can be read as long as the source is open, and not only before the next one is drawn.
    reads_late = True
    #: Whether axes may have names; what has none, and is read in order to be listed, is listed once.
    has_dimensions = True

    def items(self) -> Iterator[Item]:
        raise NotImplementedError

    def files_of_set(self) -> frozenset[str]:
        """All files of a set, each of which gives the items of all; none of a file that stands alone."""
        return frozenset()

    def close(self) -> None:
        """Let the files go."""


class FileOfOne(Source):
    """A file that is one array, or few: whatever its library raises is one error."""

    is_one = True

    def __init__(self, path: str) -> None:
        self._path = path
        self._key = "/" + os.path.basename(path).partition(".")[0]

    def _items(self) -> Iterator[Item]:
        raise NotImplementedError

    def items(self) -> Iterator[Item]:
        try:
            yield from self._items()
        except (ConversionError, ImportError):
            raise
        except Exception as error:
            raise ConversionError(f"{self._path}: {why_unreadable(error)}") from error


# ------------------------------------------------------------------ damaged sources
class UnreadableError(ConversionError):
    """An array that its source cannot give to its end: nothing of it may stay in the target."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(f"{key}: {why}")
        self.key, self.why = key, why

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self.why)


# The machine or the way to the file failed: no fault of the item, and a later run may go on.
_OF_THE_MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ENODEV, errno.ESTALE,
    errno.ENOTCONN, errno.ETIMEDOUT,
)  # fmt: skip


_UNREADABLE = "it cannot be read"


def why_unreadable(error: Exception) -> str:
    """In one line, why a library cannot read an item. What is no fault of the item is raised."""
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        raise error
    text = " ".join(legible(error).split())
    says_it = text and isinstance(error, (OSError, ValueError, RuntimeError))
    return f"{_UNREADABLE}: {text if says_it else f'{type(error).__name__} {text}'.strip()}"


Result = TypeVar("Result")


def alone(key: str, items: Generator[Item, None, Result]) -> Generator[Item, None, Result | None]:
    """The items of one place in a source. If its library fails there, the place is listed, and others can follow."""
    try:
        return (yield from items)
    except Exception as error:  # noqa: BLE001 - libraries raise anything for damaged bytes
        yield LeftOut(key, WHOLE, why_unreadable(error))
        return None


def walk_groups(
    path: str, group: Any, names: Callable[[str, Any], Generator[Item, None, Any]],
    member: Callable[[str, str, Any], Generator[Item, None, Any]],
) -> Iterator[Item]:  # fmt: skip
    """The items of a group, "" for the root, and of all below it.

    `names` gives those of a group itself, and returns the names in it; `member` gives those of what a name stands for,
    and returns that if it is a group.
    """
    if path.count("/") > DEEPEST:
        yield LeftOut(path, "the group and all below it", f"it lies more than {DEEPEST} levels deep")
        return
    for name in (yield from names(path or "/", group)) or []:
        key = f"{path}/{name}"
        inner = yield from alone(key, member(key, name, group))
        if inner is not None:
            yield from walk_groups(key, inner, names, member)


def _watched(item: ArrayItem, report: ConversionReport, progress: Progress | None) -> ArrayItem:
    """An item whose errors can be told from those of the target, and which tells of each box that is read."""
    before, done = report.nbytes, 0

    def read(box: Box) -> Items:
        nonlocal done
        try:
            items = item.read(box)
        except Exception as error:
            raise UnreadableError(item.key, why_unreadable(error)) from error
        if progress is not None:
            done = min(done + items.nbytes, item.nbytes)
            progress(before + done, before + item.nbytes)
        return items

    def chunks(plan: ArrayPlan) -> Iterator[AnyChunk]:
        try:
            if item.taken is not None:
                yield from item.taken.chunks(plan)
        except Exception as error:
            raise UnreadableError(item.key, why_unreadable(error)) from error

    return replace(item, read=read, taken=item.taken and item.taken._replace(chunks=chunks))


def _kept(source: Source, left_out: list[LeftOut]) -> Iterator[Item]:
    """The items but for arrays and lists that are left out as a whole, and for second ones of a name."""
    seen = {each.key for each in left_out if each.what == WHOLE}
    for item in source.items():
        if isinstance(item, GroupItem) or _shown(item.key) not in seen:
            yield item
        if isinstance(item, (ArrayItem, ObjectItem)):
            seen.add(_shown(item.key))


class _Renamed(Source):
    """A source whose items have other keys; `names` has the new ones by the old ones."""

    def __init__(self, source: Source, rename: Rename) -> None:
        self._source, self._rename = source, rename
        self.is_one, self.reads_late = source.is_one and rename == "escape", source.reads_late
        self.has_dimensions = source.has_dimensions
        self.names: dict[str, str] = {}

    def close(self) -> None:
        self._source.close()

    def items(self) -> Iterator[Item]:
        named = new_keys(self._rename)
        for item in self._source.items():
            if isinstance(item, LeftOut) or (isinstance(item, GroupItem) and item.key == "/"):
                yield item
                continue
            key = named(item.key, isinstance(item, GroupItem))
            if key != item.key:
                self.names[_shown(item.key)] = key
            yield _with_key(item, key)

    def names_below(self, key: str) -> dict[str, str]:
        return {old: _joined(key, new, is_one=self.is_one) for old, new in self.names.items()}


def _shown(key: str) -> str:
    """A key as it is listed: names of files need not be text."""
    return key.encode(errors="backslashreplace").decode()


# ------------------------------------------------------------------ formats
class Format(NamedTuple):
    """A file format.

    `source` is a module of this package, and the class or function there that opens a path; `target` what makes a new
    file, in the same module if it names none, "" if it cannot be written; `needs` are the packages to import.
    """

    name: str
    suffixes: tuple[str, ...]
    source: str
    target: str = ""
    needs: tuple[str, ...] = ()

    def open(self, *where: str) -> Source:
        opened: Source = self.load(self.source)(*where)
        return opened

    def create(self, path: str, **options: Any) -> Target:
        if options.get("cparams") is not None and self.name not in ("blosc2", "hdf5"):
            raise ConversionError(f"{path}: cparams is for stores, arrays and HDF5, and not for {self.name}")
        created: Target = self.load(self.target)(path, **options)
        return created

    def load(self, what: str) -> Any:
        """The class or function, once all that it needs is there."""
        for package in self.needs:
            try:
                importlib.import_module(package)
            except ImportError:
                raise ConversionError(lacking(self.name, package, "convert")) from None
        module = (what if ":" in what else self.source).partition(":")[0]
        return getattr(importlib.import_module(f"blosc2._tools.converting.{module}"), what.partition(":")[2] or what)


_OF_NETCDF = ("netCDF4", "h5py")
_OF_NIFTI = (".nii", ".nii.gz", ".img", ".img.gz", ".hdr", ".hdr.gz")
#: By name. A format without a suffix is found by what is in a directory.
FORMATS = {
    found.name: found
    for found in (
        Format("blosc2", (".b2z", ".b2d", ".b2e", ".b2nd"), "stores:Opened", "new_target"),
        Format("hdf5", (".h5", ".hdf5", ".he5", ".h5ad"), "netcdf_or_hdf5:open_hdf5", "hdf5:NewHdf5", ("h5py",)),
        Format("matlab", (".mat",), "hdf5:Hdf5", needs=("h5py",)),
        Format("netcdf", (".nc", ".nc4", ".cdf"), "netcdf_or_hdf5:open_netcdf", "netcdf:NewNetCDF", _OF_NETCDF),
        Format("zarr", (".zarr", ".zarr.zip"), "zarr_groups:Zarr", "NewZarr", ("zarr",)),
        Format("npy", (".npy",), "files:open_numpy"),
        Format("npz", (".npz",), "files:open_numpy", "NewNpz"),
        Format("safetensors", (".safetensors",), "tensors:Tensors", "NewTensors"),
        Format("nifti", _OF_NIFTI, "volumes:Volume", "new_images:NewVolume", ("nibabel",)),
        Format("mgh", (".mgh", ".mgz"), "volumes:Volume", needs=("nibabel",)),
        Format("tiff", (".tif", ".tiff"), "images:Tiff", "new_images:NewTiff", ("tifffile",)),
        Format("picture", (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"), "images:Picture", needs=("PIL",)),
        Format("folder", (), "folders:Folder"),
        Format("lmdb", (".lmdb", ".mdb"), "files:open_records", needs=("lmdb",)),
        Format("webdataset", (".tar", ".tar.gz", ".tgz"), "files:open_records"),
        Format("parquet", (".parquet",), "parquet:Parquet", needs=("pyarrow",)),
    )
}
# The formats that are directories.
_FOLDERS = ("blosc2", "zarr", "lmdb")


def format_of(path: str, name: str | None, *, target: bool = False) -> Format:
    if name is not None:
        if name not in FORMATS:
            raise ConversionError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
        found = FORMATS[name]
    else:
        found = _by_suffix(path) or (None if target else _of_folder(path)) or _unknown(path, target=target)
    if target and not found.target:
        able = ", ".join(each.name for each in FORMATS.values() if each.target)
        instead = f"; blosc2 cat ARRAY -f npy -o {path} writes one array" if found.name == "npy" else ""
        raise ConversionError(f"{path}: {found.name} files cannot be written; these can: {able}{instead}")
    return found


def _by_suffix(path: str) -> Format | None:
    lower = os.path.basename(path.rstrip("/")).lower()
    fits = [(len(suffix), found) for found in FORMATS.values() for suffix in found.suffixes if lower.endswith(suffix)]
    return max(fits, key=lambda fit: fit[0])[1] if fits else None


def _by_contents(path: str) -> Format | None:
    if not os.path.isdir(path):
        return None
    with os.scandir(path) as entries:
        names = {entry.name.lower() for entry in entries}
    if names & {"zarr.json", ".zgroup", ".zarray"}:
        return FORMATS["zarr"]
    if "data.mdb" in names:
        return FORMATS["lmdb"]
    return None


def _of_folder(path: str) -> Format | None:
    """The format of a directory, which may be that of files of any formats."""
    found = _by_contents(path)
    if found is None and any(_by_suffix(name) for _, _, inside in os.walk(path) for name in inside):
        return FORMATS["folder"]
    return found


def format_within(path: str) -> Format | None:
    """The format of a file or directory in a directory of any; None if it has none of its own."""
    found = _by_suffix(path)
    if not os.path.isdir(path):
        return found
    return found if found is not None and found.name in _FOLDERS else _by_contents(path)


def _unknown(path: str, *, target: bool) -> Format:
    fits = [found for found in FORMATS.values() if found.target or not target]
    suffixes = ", ".join(suffix for found in fits for suffix in found.suffixes)
    what = "its format is not known by its name"
    if not target and os.path.isdir(path):
        what = "no file in this folder is known by its name"
    elif not target and path.lower().endswith(NOT_CONVERTED):
        what = "it is a table: pandas.read_csv(...).to_records(index=False) makes an array of it"
    raise ConversionError(f"{path}: {what}; known are {suffixes}; {'target' if target else 'source'}_format= names one")


def below(key: str, source: Source) -> Iterator[Item]:
    """The items of a source below a key, which is that of the array if the source is one."""
    for item in source.items():
        yield _with_key(item, _joined(key, item.key, is_one=source.is_one))


def _joined(key: str, inner: str, *, is_one: bool) -> str:
    if is_one:
        inner = inner[1:].partition("/")[2]
    return f"{key}/{inner.removeprefix('/')}" if inner.strip("/") else key or "/"


def _with_key(item: Item, key: str) -> Item:
    return replace(item, key=key) if isinstance(item, ArrayItem) else item._replace(key=key)


class _Below(Source):
    def __init__(self, key: str, source: Source) -> None:
        self._key, self._source, self.reads_late = key, source, source.reads_late

    def items(self) -> Iterator[Item]:
        yield from below(self._key, self._source)


# Where an object on a server ends and its key begins: behind the first name that ends like one of ours.
_ON_SERVER = re.compile(r"(.*?\.(?:b2z|b2d|b2e|b2nd|b2frame))(?:/(.*))?", re.DOTALL)


def within_store(path: str) -> tuple[str, str] | None:
    """A store, and the key in it that a path names; a whole store or array on a server has no key. None for files.

    `ConversionError` for another file on a server.
    """
    if isinstance(path, RemotePath):
        where = path
        url, mark, query = where.url.partition("?")  # which no key has
        found = _ON_SERVER.fullmatch(url)
        if found is None and where.suffix not in (".b2z", ".b2d", ".b2e", ".b2nd", ".b2frame"):
            raise ConversionError(f"{where} is on a server, where only stores and arrays are read: download it first")
        if found is None or not found[2]:
            return where, ""
        return RemotePath(found[1] + mark + query, where.storage_options, where.options), group_path(found[2])
    parts = [] if os.path.isfile(path) else path.rstrip("/").split("/")
    for end in range(1, len(parts)):
        store = "/".join(parts[:end])
        if store.endswith(STORES) and (os.path.isfile(store) or os.path.isfile(os.path.join(store, EMBED))):
            return store, group_path("/".join(parts[end:]))
    return None


def open_source(path: str, name: str | None) -> Source:
    place = within_store(path)
    if place is not None:
        return FORMATS["blosc2"].open(*place)
    _check_there(path)
    return format_of(path, name).open(path)


def _check_there(path: str) -> None:
    if not os.path.exists(path):
        raise FileNotFoundError(f"{legible(path)} does not exist")


# ------------------------------------------------------------------ targets
class Target:
    """Where items are written, at the path `partial`. What it cannot hold it gives back.

    Nothing is kept of a run that was interrupted, but by those that say so; `left_out` is what that could not keep. One
    that `waits` reads the items only when all are known.
    """

    waits = False
    #: Whether `survey` is to be given all items before the first one is added.
    surveys = False
    #: Whether it is a file of one array, and of nothing else.
    takes_one = False
    #: Whether a list gets the axes back that its texts have had.
    lists_have_axes = True

    def __init__(self, path: str, partial: str = "", kept: KeptChunks | None = None) -> None:
        self.partial, self.left_out = partial or partial_name(path, unique=True), list[LeftOut]()
        self.kept = kept
        #: What whoever reads the target has to know.
        self.notes: list[str] = []
        #: The key of the item that is there, of a file of one array: it holds no key.
        self.only: str | None = None

    def has(self, key: str) -> bool:  # noqa: ARG002 - of all targets
        """Whether an item was written already, by a run that was interrupted."""
        return False

    def survey(self, items: Iterable[Item]) -> None:
        """Look at what all items are, and read none."""

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        raise NotImplementedError

    def as_written(self, item: Item) -> Item:
        """An item as it is in the target: with numbers that were rounded, if that was asked for."""
        return item

    def take_back(self, key: str) -> bool:  # noqa: ARG002 - of all targets
        """Remove what is there of an array that the source could not give to its end. False where that cannot be."""
        return False

    def finish(self) -> None:
        """All items are there: close the file."""

    def seal(self) -> None:
        """All was read back, if that was asked for: nothing may remain that says that the target is not complete."""

    def abandon(self, *, keep: bool) -> None:  # noqa: ARG002 - of all targets
        """Something failed: remove what was written, or `keep` what can be resumed. May come after `finish`."""
        remove(self.partial)


# ------------------------------------------------------------------ converting
_MOST_SOURCES = 3  # are named in a report
_TO_ADD = "; into='/key' adds to a store"


def convert(
    source: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], target: str | os.PathLike[str], *,
    chunks: str = "auto", cparams: Any = None, into: str | None = None, overwrite: bool = False,
    rename: Rename | None = None, verify: bool = False, resume: bool = True, progress: Progress | None = None,
    source_format: str | None = None, target_format: str | None = None,
) -> ConversionReport:  # fmt: skip
    """Convert a file or directory, or several, to another format.

    One of both is usually a store or an array of this package. Arrays are read and written piece by piece, so memory
    holds some chunks, however large they are. The target gets its name when it is complete.

    Parameters
    ----------
    source : path, or iterable of paths
        Stores and arrays of this package, here or by their URLs, and a key in a store, such as ``scans.b2z/mri``; HDF5,
        netCDF, zarr 2 and 3, ``.npy``, ``.npz``, safetensors, NIfTI, ANALYZE, MGH,
        TIFF and other pictures, LMDB, tar files (WebDataset), Parquet, and directories of such files. Of several, and
        of a directory, each file is a group or an array under its own name, such as ``/scans.h5``.
    target : path
        A store (``.b2z``, ``.b2d``, ``.b2e``), a single array (``.b2nd``), HDF5, netCDF, zarr 3, ``.npz`` or
        safetensors, and for one array NIfTI or TIFF. The suffix says which. A URL is written in the end, as a whole.
    chunks : {"auto", "keep", "new"}
        "keep" takes the chunk shapes of the source, "new" chooses them; "auto" keeps those between 64 KiB and 32 MiB.
        Other formats than those of this package keep them always.
    cparams : CParams, dict or str, optional
        How arrays are compressed; "auto" and other goals of `blosc2.tune` choose it from the data of each. A precision
        rounds all but coordinates, packed numbers, flags and what counts as missing; `changed` lists it. Without it,
        chunks of an HDF5 file that Blosc2 has compressed are taken over without decoding, and given to one so; that
        file needs hdf5plugin. HDF5 takes codec and clevel: ``Codec.ZLIB`` is its own gzip, which all programs read,
        and 0 no compression. Other formats take no `cparams`.
    into : str, optional
        A key below which the source is put, in a store that may exist; an array takes the key itself. One that ends in
        "/" is a group that takes each source under its own name. A store that exists is changed in the end, at once.
    overwrite : bool
        Replace a target that exists, or with `into`, what it has under the key.
    rename : "escape", dict or callable, optional
        Other keys, such as for names that stores refuse (``kernel:0``), which are left out else. A dict has new keys by
        old ones, that of a group for all below it; a function is given each key. "escape" encodes what stores refuse in
        a name, and "%", as in URLs (``kernel%3A0``): `urllib.parse.unquote` gives the old name. A name that differs
        from another one in case only ends in ``~2``, a too long one is cut and ends in a sum, an empty one is ``%``.
    verify : bool
        Read all arrays, lists and attributes back, and compare them with the source.
    resume : bool
        Go on where an interrupted run with the same source and options stopped. Targets in ``.b2z``, ``.b2d`` and
        ``.b2nd`` can: they are written to ``name.partial.b2z``, and large arrays go on in their middle. With a function
        as `rename` each run begins anew, because nobody knows whether it is the same one.
    progress : callable, optional
        Called with the bytes done so far and the bytes known so far.
    source_format, target_format : str, optional
        The name of a format, if the path does not tell it.

    Returns
    -------
    ConversionReport
        With a list of what is lost, and one of what only has another form. Nothing is changed silently.

    Raises
    ------
    ConversionError
        A format that is not known, that cannot be written, whose package is not installed, or that cannot hold what
        the source has. A `ValueError`.
    FileExistsError
        The target exists, or with `into`, has the key.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> folder = tempfile.mkdtemp()
    >>> np.savez(os.path.join(folder, "scans.npz"), mri=np.zeros((4, 5)), age=np.arange(3))
    >>> report = blosc2.convert(os.path.join(folder, "scans.npz"), os.path.join(folder, "scans.b2z"))
    >>> report.arrays, report.left_out
    (2, [])
    >>> with blosc2.open(os.path.join(folder, "scans.b2z")) as store:
    ...     list(store), store["/mri"].shape
    (['/age', '/mri'], (4, 5))
    """
    how: dict[str, Any] = {
        "chunks": chunks, "cparams": cparams, "into": into, "rename": rename, "verify": verify, "progress": progress,
        "source_format": source_format, "target_format": target_format,
    }  # fmt: skip
    is_one = isinstance(source, (str, os.PathLike, Mapping)) or not isinstance(source, Iterable)
    given: Any = source
    paths: list[Any] = [given] if is_one else [*given]
    if not all(isinstance(path, (str, os.PathLike)) for path in paths):
        raise TypeError(
            "convert takes paths, such as 'study.b2z' or 'study.b2z/scan': close a store that was changed, and save() "
            "an array in memory, before it is converted"
        )
    place = new_path(target)
    if isinstance(place, RemotePath):
        if into is not None and overwrite:
            raise ConversionError(f"{place} is on a server, where nothing is added: leave out into, or take a new name")
        with uploaded(place, replace=overwrite) as local:
            report = convert(source if is_one else paths, local, resume=False, **how)
        report.target = str(place)
        return report
    if chunks not in ("auto", "keep", "new"):
        raise ValueError(f"chunks must be 'auto', 'keep' or 'new', not {chunks!r}")
    if rename is not None:
        new_keys(rename)  # raises for what is none
    target = os.fspath(target)
    paths = [remote_path(path) if is_remote(path) else path for path in map(os.fspath, paths)]
    for path in paths:
        within = within_store(path)
        _check_place(path if within is None else within[0], target)
        resume = resume and within is None
        if is_one and within is None and not isinstance(path, RemotePath):
            _check_there(path)
    if into is not None and os.path.lexists(target):
        with _added(paths, target, into, overwrite=overwrite) as partial:
            report = convert(paths[0] if is_one else paths, partial, resume=False, **how)
        report.target = target
        return report
    if os.path.lexists(target) and not overwrite:
        to_add = _TO_ADD if target.rstrip("/").endswith(STORES) else ""
        raise FileExistsError(f"{legible(target)} exists; overwrite=True replaces it{to_add}")
    with closing(_opened(paths, source_format, is_one=is_one and not (into or "").endswith("/"))) as found:
        named = None if rename is None else _Renamed(found, rename)
        items = named or found
        if into is not None:
            items = _Below(_place(into), items)
        made = format_of(target, target_format, target=True).create(
            target, sources=paths, chunks=chunks, cparams=cparams,
            made_of=(chunks, cparams, rename, into) if resume and not callable(rename) else None,
        )  # fmt: skip
        more = f", ... ({len(paths)} sources)" if len(paths) > _MOST_SOURCES else ""
        report = ConversionReport(", ".join(paths[:_MOST_SOURCES]) + more, target)
        name = format_of(target, target_format).name if verify else None
        _write(items, made, report, progress, name=name, overwrite=overwrite)
    if named is not None:
        names = named.names if into is None else named.names_below(_place(into))
        lost = {each.key for each in report.left_out if each.what == WHOLE}
        report.renamed = {old: new for old, new in names.items() if new not in lost}
    return report


def _check_place(source: str, target: str) -> None:
    if os.path.exists(source):
        one, other = os.path.realpath(source), os.path.realpath(target)
        if os.path.exists(target) and os.path.samefile(source, target):
            raise ConversionError(f"{target}: source and target are the same")
        if os.path.commonpath([one, other]) in (one, other):
            raise ConversionError(f"{target}: one of source and target lies in the other; name a target elsewhere")


def _opened(paths: list[str], name: str | None, *, is_one: bool) -> Source:
    if not is_one:
        several: Source = FORMATS["folder"].load("folders:Several")(paths, name)
        return several
    path = paths[0]
    try:
        return open_source(path, name)
    except Exception as error:
        of_the_system = isinstance(error, (MemoryError, ImportError, FileNotFoundError))
        of_the_system = of_the_system or (isinstance(error, OSError) and (error.errno or 0) > 0)
        if not of_the_system and not type(error).__module__.startswith("blosc2."):  # libraries raise anything
            raise ConversionError(f"{path}: {why_unreadable(error)}; is it whole, and what its name says?") from error
        if not isinstance(error.__context__, ImportError):  # then its package is missing
            _note(error, path, f"{path} cannot be opened: is it whole, and what its name says?")
        raise


def _write(
    source: Source, made: Target, report: ConversionReport, progress: Progress | None, *, name: str | None,
    overwrite: bool,
) -> None:  # fmt: skip
    """Write a target, and give it its name. With that of its format, all is read back and compared."""
    seen, key, has_attributes = set[str](), "", False
    try:
        if made.waits and not source.reads_late:
            raise ConversionError(f"{report.target} takes one file: make a store of several, and convert that")
        if made.surveys and source.has_dimensions:
            made.survey(source.items())
        for item in source.items():
            key = item.key
            has_attributes |= _take(item, made, report, seen, progress)
        key = ""
        _refuse_nothing(report, has_attributes=has_attributes and not made.takes_one)
        made.finish()
        if name is not None:
            with closing(open_source(made.partial, name)) as written:
                items = map(made.as_written, _kept(source, report.left_out))
                _verify(items, written, [*report.left_out, *report.changed], made.only)
            report.verified = True
        made.seal()
        report.notes += made.notes
        put_in_place(made.partial, report.target, overwrite=overwrite)
        if made.kept is not None:
            report.went_on = made.kept.went_on
            made.kept.remove()
    except BaseException as error:
        name_target(error, made.partial, report.target)
        keep, left = not isinstance(error, ConversionError), list[str]()
        try:
            made.abandon(keep=keep)
            if made.kept is not None and not keep:
                made.kept.remove()
            left = [made.partial] if made.kept is None else [made.partial, made.kept.path]
        except Exception as second:  # noqa: BLE001 - what went wrong first is raised
            error.add_note(f"{made.partial} could not be removed, and may be deleted: {second}")
        where = f", at or behind {key!r}" if key else ""
        _note(error, report.source, f"while {report.source} was converted{where}")
        for path in filter(os.path.lexists, left):
            error.add_note(f"the same conversion goes on from {legible(path)}, or delete that")
        raise


def _refuse_nothing(report: ConversionReport, *, has_attributes: bool) -> None:
    """Raise if something is left out, and no array or list is kept: unless groups keep attributes, and not all else
    is damaged.
    """
    if report.arrays + report.objects or not report.left_out:
        return
    whole = [each for each in report.left_out if each.what == WHOLE]
    if whole and all(each.why.startswith(_UNREADABLE) for each in whole):
        raise ConversionError(f"{report.source}: nothing of it can be read: {whole[0]}")
    if not has_attributes:
        raise ConversionError(f"{report.source}: nothing of it can be kept: {(whole or report.left_out)[0]}")


# ------------------------------------------------------------------ adding to a store
def _place(into: str) -> str:
    """The key below which a source is put, "" for the root."""
    key = into.strip("/")
    return new_key(key) if key else ""


@contextmanager
def _added(paths: list[str], target: str, into: str, *, overwrite: bool) -> Iterator[str]:
    if not target.rstrip("/").endswith(STORES):
        raise ConversionError(f"{target}: only stores take something under a key")
    place = _place(into)
    names = [os.path.basename(os.path.abspath(path)) for path in paths]
    keys = [f"{place}/{name}" for name in names] if into.endswith("/") else [place]
    with opened(target) as store:
        if not isinstance(store, Store):
            raise ConversionError(f"{target} is no store")
        _check_free(store, target, keys, overwrite=overwrite)
    partial = partial_name(target, unique=True)
    try:
        yield partial
        with open_path(target, mode="a") as store:
            _check_free(store, target, keys, overwrite=overwrite)
            put_in_place_of(store, keys, partial)
    except BaseException as error:
        name_target(error, partial, target)
        raise
    finally:
        remove(partial)


def _check_free(store: Any, target: str, keys: list[str], *, overwrite: bool) -> None:
    for key in () if overwrite else keys:
        if key in store or any(in_order(store, key)):
            raise FileExistsError(f"{legible(target)} has {key!r}; overwrite=True replaces it")


def _note(error: BaseException, path: str, what: str) -> None:
    """Have an error of a library, which often names no file, say where it happened."""
    if isinstance(error, Exception) and legible(path) not in legible(error):
        error.add_note(legible(what))


def _take(item: Item, made: Target, report: ConversionReport, seen: set[str], progress: Progress | None) -> bool:
    """Write one item, unless an interrupted run has, and count it. Whether it is a group that keeps attributes."""
    shown = _shown(item.key)
    if isinstance(item, LeftOut):
        note(report, item._replace(key=shown))
        return False
    if shown != item.key:
        report.left_out.append(LeftOut(shown, WHOLE, f"its name is no text in UTF-8; {TO_RENAME}"))
        return False
    if not isinstance(item, GroupItem):
        if item.key in seen:
            report.left_out.append(LeftOut(item.key, "a second item of this name", "the first one is kept"))
            return False
        seen.add(item.key)
    if isinstance(item, ArrayItem) and item.dtype.itemsize == 0:
        report.left_out.append(LeftOut(item.key, WHOLE, f"items of {item.dtype} have no bytes"))
        return False
    found: list[LeftOut] = []
    if made.has(item.key) and not isinstance(item, GroupItem):
        report.resumed += 1
        found = [each for each in made.left_out if each.key == item.key]
    else:
        try:
            found = list(made.add(_watched(item, report, progress) if isinstance(item, ArrayItem) else item))
        except (UnreadableError, FormatError) as error:
            is_damaged = isinstance(error, UnreadableError) or (
                isinstance(item, ArrayItem) and item.array is not None and not isinstance(error, StaleHandleError)
            )
            if not is_damaged or not made.take_back(item.key):
                raise
            why = error.why if isinstance(error, UnreadableError) else why_unreadable(error)
            report.left_out.append(LeftOut(item.key, WHOLE, why))
            return False
    for each in found:
        note(report, each)
    if any(each.what == WHOLE for each in found):
        return False
    report.objects += isinstance(item, ObjectItem)
    if isinstance(item, ObjectItem) and item.had_axes and not made.lists_have_axes:
        report.changed.append(Changed(item.key, "its axes", f"a list has one; {TEXT_SHAPE!r} has their lengths"))
    if isinstance(item, ArrayItem):
        report.arrays += 1
        report.nbytes += item.nbytes
        if progress is not None:
            progress(report.nbytes, report.nbytes)
        if made.as_written(item) is not item:
            report.changed.append(Changed(item.key, "its numbers", "they were rounded, as precision= asks"))
    lost = [each.what for each in found if not isinstance(each, Changed)]
    return isinstance(item, GroupItem) and not all(_is_lost(name, lost) for name in item.attributes)


def _verify(items: Iterator[Item], written: Source, known: list[LeftOut], only: str | None) -> None:
    """Compare what a source has with what was written, but for what is known to be left out or changed."""
    lost: dict[str, list[str]] = {}
    for each in known:
        lost.setdefault(each.key, []).append(each.what)
    found: dict[tuple[str, bool], Any] = {
        (item.key if only is None else only, isinstance(item, GroupItem)): item
        for item in written.items()
        if not isinstance(item, LeftOut)
    }
    more = {key for key, is_group in found if not is_group and WHOLE not in lost.get(key, [])}
    for item in items:
        if isinstance(item, LeftOut):
            continue
        is_group, what = isinstance(item, GroupItem), lost.get(item.key, [])
        if not is_group:
            more.discard(item.key)
        if WHOLE in what and not is_group:
            continue
        other = found.get((item.key, is_group))
        if other is None and is_group and (what or not item.attributes):
            continue  # a format without groups lists their attributes, and has nothing else of them
        if not (_same_attributes(item, other, what) and (is_group or _same(item, other, any_dtype=bool(what)))):
            raise ConversionError(f"what was read back at {item.key!r} is not what the source has")
    if more and only is None:
        raise ConversionError(f"what was written holds {min(more)!r}, which the source has not")


def numbers_of(value: Any) -> np.ndarray[Any, Any] | None:
    """A list of numbers, of whatever types and levels, as an array that has all of them; None for anything else."""
    try:
        array = np.asarray(value) if isinstance(value, list) else None
    except ValueError:  # of lists of unlike lengths
        return None
    if array is None or array.dtype.kind not in "biufc" or not array.size:
        return None
    kinds = {type(one) for one in np.asarray(value, object).flat}
    if kinds - {bool, int, float, complex} or (bool in kinds and len(kinds) > 1):
        return None
    return array if same_numbers(array.tolist(), value) else None


def same_numbers(a: Any, b: Any) -> bool:
    """Whether two numbers, or lists of them, are equal; NaN is NaN."""
    if isinstance(a, list):
        return all(itertools.starmap(same_numbers, zip(a, b, strict=True)))
    return bool(a == b or (a != a and b != b))


def _same_attributes(item: Any, other: Any, lost: list[str]) -> bool:
    """Whether the attributes are the same that are not known to be lost."""
    if other is None:
        return False
    for name, value in item.attributes.items():
        if name == DEFINED and isinstance(item, GroupItem):
            continue  # it says no more than the axes of arrays, if they have changed since
        there = other.attributes.get(name)
        if name == DIMENSIONS and isinstance(value, list) and isinstance(there or value[:0], list):
            # Formats whose axes all have names give some to the others, and to those of single characters.
            same = all(
                one is None or one == two for one, two in itertools.zip_longest(value, (there or [])[: len(value)])
            )
        else:
            same = name in other.attributes and same_value(value, there)
        if not (same or _is_lost(name, lost)):
            return False
    return True


def _is_lost(attribute: str, lost: list[str]) -> bool:
    return any("attribute" in what and (repr(attribute) in what or "of the group" in what) for what in lost)


def _same(item: Any, other: Any, *, any_dtype: bool) -> bool:
    if isinstance(item, ObjectItem) and isinstance(other, ObjectItem):
        return same_value(item.values, other.values)
    if isinstance(other, ObjectItem):
        texts = (item.read(box).reshape(-1).tolist() for box in boxes_of(item, in_order=True))
        return item.dtype.kind == "U" and [*itertools.chain.from_iterable(texts)] == other.values
    if isinstance(item, ObjectItem) or not isinstance(other, ArrayItem):
        return False
    if item.dtype.kind == "S" and other.dtype == "S1" and other.shape == (*item.shape, item.dtype.itemsize):
        other = _joined_characters(other)
    if other.shape != item.shape or (other.dtype != item.dtype and not any_dtype):
        return False
    return all(equal_items(item.read(box), other.read(box)).all() for box in boxes_of(item))


def _joined_characters(item: ArrayItem) -> ArrayItem:
    *shape, length = item.shape
    joined = np.dtype(("S", length))

    def read(box: Box) -> Items:
        characters = item.read((*box, slice(0, length)))
        return np.ascontiguousarray(characters).view(joined)[..., 0]

    return replace(item, shape=tuple(shape), dtype=joined, read=read, chunks=None)
