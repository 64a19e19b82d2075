"""What xarray reads: dimensions, variables, groups, and the engines ``"blosc2"`` and ``"python-blosc2"``."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd
import xarray
from xarray import backends
from xarray.coding.times import CFDatetimeCoder, CFTimedeltaCoder
from xarray.coding.variables import CFScaleOffsetCoder
from xarray.core import indexing

from blosc2 import _tools
from blosc2._arrays import DIMENSIONS
from blosc2._backends import EMBED
from blosc2._opening import open as open_path
from blosc2._stores import Store, children_of
from blosc2._tools.converting import conversion
from blosc2._tools.converting.conversion import DEFINED, ENUM, FILL, PLAIN, TEXT_SHAPE, UNLIMITED, USER_BLOCK
from blosc2._tools.stores import attributes_of, group_path, walk
from blosc2.exceptions import FormatError, StoreKeyError, UnsupportedValueError
from blosc2.ndarray import NDArray
from blosc2.objectarray import ObjectArray

# ------------------------------------------------------------------ dimensions and attributes
# Names of dimensions are kept as zarr 2 keeps them, in an attribute of the array.

# How netCDF 4 keeps dimensions in HDF5.
_OF_NETCDF: Final = ("_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict", "_NCProperties")
# Attributes of CF that are one number.
_SINGLE: Final = ("_FillValue", "missing_value", "scale_factor", "add_offset", "valid_min", "valid_max")


def names_of(key: str, shape: tuple[int, ...], attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the axes of an array, for its key, shape and attributes.

    An array without names gets some of its own, so that no axis is taken for that of another array. Several axes of one
    length may have one name, such as those of a covariance.
    """
    name = key.rpartition("/")[2]
    own = tuple(f"{name}_{axis}" for axis in range(len(shape)))
    given: Any = attributes.get(DIMENSIONS)
    if not conversion.are_names(given, len(shape)):
        return own
    found = tuple(mine if theirs is None else theirs for theirs, mine in zip(given, own, strict=True))
    # One name has one length, and none of our own is that of another axis.
    lengths = set(zip(found, given, shape, strict=True))
    return found if len(lengths) == len(set(found)) else own


def stored_attributes(attributes: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Attributes as they are stored: single NumPy values as 0-d arrays, so that their dtype comes back."""
    kept: dict[str, Any] = {}
    for name, value in attributes.items():
        if not isinstance(name, str):
            raise UnsupportedValueError(f"attribute {name!r} of {where}: names of attributes are strings")
        if isinstance(value, np.generic):
            value = np.asarray(value)
        if isinstance(value, np.ndarray):
            if value.dtype == object:
                value = value.tolist()
            elif (not value.shape and value.dtype in PLAIN) or (not value.shape and value.dtype.kind in "US"):
                value = value.item()
        if not _is_storable(value):
            what = f"a {type(value).__name__}"
            if isinstance(value, np.ndarray):
                what = f"{'an array' if value.shape else 'a value'} of {value.dtype}"
            raise UnsupportedValueError(
                f"attribute {name!r} of {where}: {what} cannot be stored; give numbers, texts, bytes, or lists, "
                "tuples, dicts by texts, and arrays of these"
            )
        kept[name] = value
    return kept


def _is_storable(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_storable, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_storable(inner) for name, inner in value.items())
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "?bBiufcUS"
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic))


#: The attribute that xarray has in the encoding where a variable is in a netCDF file.
DIGITS: Final = "least_significant_digit"
# The attributes by which `convert` keeps what only other formats have.
_OF_CONVERSION = {DEFINED, DIMENSIONS, ENUM, FILL, TEXT_SHAPE, UNLIMITED, USER_BLOCK}


def shown_attributes(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that were stored: 0-d arrays as single values again, and nothing that netCDF added."""
    kind = stored.get("CLASS")
    scale = isinstance(kind, (str, bytes)) and kind in ("DIMENSION_SCALE", b"DIMENSION_SCALE")
    hidden = {*_OF_CONVERSION, *_OF_NETCDF, *(("CLASS", "NAME") if scale else ())}
    return {name: _shown(name, value) for name, value in stored.items() if name not in hidden}


def _shown(name: str, value: Any) -> Any:
    # netCDF files have arrays of one item where CF means that item.
    single = isinstance(value, np.ndarray) and (not value.shape or (value.shape == (1,) and name in _SINGLE))
    return value.reshape(())[()] if single else value


# ------------------------------------------------------------------ numbers and times as integers
# What does not fit is refused, where xarray would wrap it.
_CODED = ("units", "calendar", "scale_factor", "add_offset", "dtype", "_FillValue", "missing_value")


def is_of_dask(variable: Any) -> bool:
    return variable.chunks is not None and type(variable.data).__module__.partition(".")[0] == "dask"


def checked_to_fit(name: str, variable: Any, *, exists: bool = False) -> Any:
    """A variable whose values fit the integers that its encoding names. Those of dask are checked when computed.

    That of a variable that `exists` cannot be changed.
    """
    dtype = variable.encoding.get("dtype")
    if dtype is None or dtype is str or variable.dtype.kind not in "iufmM" or np.dtype(dtype).kind not in "iu":
        return variable
    if variable.dtype.kind in "mM" and np.dtype(dtype) == np.int64:
        return variable  # holds all of them, and NaT
    encoding = {key: variable.encoding[key] for key in _CODED if variable.encoding.get(key) is not None}
    if "_Unsigned" in variable.encoding and not encoding.keys() & {"_FillValue", "missing_value"}:
        variable = variable.copy(deep=False)
        variable.attrs["_Unsigned"] = variable.encoding["_Unsigned"]  # which xarray keeps beside a _FillValue only
    limits = np.iinfo(meant_dtype(np.dtype(dtype), variable.encoding.get("_Unsigned")))
    if not is_of_dask(variable):
        _check(variable.values, name, encoding, limits, exists)
        return variable
    data = variable.data
    checked = data.map_blocks(_check, name, encoding, limits, exists, dtype=data.dtype, meta=data._meta)
    found = variable.copy(deep=False, data=checked)
    found.encoding = variable.encoding
    return found


# For variables that exist.
_ANEW: Final = "write values that fit, or everything anew with mode='w', and then "


def meant_dtype(dtype: np.dtype[Any], unsigned: Any) -> np.dtype[Any]:
    """The integers that CF takes those of a dtype for."""
    kind = {"true": "u", "false": "i"}.get(str(unsigned).lower(), dtype.kind)
    return np.dtype(f"{kind}{dtype.itemsize}")


def _check(values: Any, name: str, encoding: dict[str, Any], limits: Any, exists: bool) -> Any:
    """The values as they are, if they fit what is stored; else an error."""
    if not values.size:
        return values
    what = f"variable {name!r}"
    # What xarray stores for NaN. It checks itself that it fits.
    fill = encoding.get("_FillValue", encoding.get("missing_value"))
    if (fill is None or pd.isnull(fill)) and values.dtype.kind in "fmM" and pd.isnull(values).any():
        missing, other = ("NaN", "a floating dtype") if values.dtype.kind == "f" else ("NaT", "int64")
        how = f"{_ANEW if exists else ''}give an encoding with a _FillValue, or {other}"
        raise ValueError(f"{what} has {missing}, which {limits.dtype} cannot hold: {how}")
    numbers = _counted(values, name, encoding) if values.dtype.kind in "mM" else values
    if not numbers.size:
        return values
    ends = np.array([np.fmin.reduce(numbers, axis=None), np.fmax.reduce(numbers, axis=None)], numbers.dtype)
    if numbers.dtype.kind == "f" and np.isnan(ends).any():
        return values  # nothing else
    stored = np.round(_scaled(ends, encoding))
    if not all(np.isfinite(end) and limits.min <= int(end) <= limits.max for end in stored):
        raise ValueError(
            f"{what}: its values, from {ends[0]} to {ends[1]}, would be stored as {stored[0]} to {stored[1]}, and "
            f"{limits.dtype} has {limits.min} to {limits.max}: {_ANEW if exists else ''}give an encoding that can hold "
            "them, with another dtype, scale_factor or add_offset (what was read from a file keeps its own until "
            "drop_encoding())"
        )
    return values


def _counted(times: Any, name: str, encoding: dict[str, Any]) -> Any:
    """The times but for NaT as xarray counts them, before it cuts these numbers to the dtype."""
    coder = CFDatetimeCoder() if times.dtype.kind == "M" else CFTimedeltaCoder()
    how: dict[str, Any] = {key: encoding[key] for key in ("units", "calendar") if key in encoding}
    how["dtype"] = np.dtype("i8")
    known = xarray.Variable(("time",), times[~np.isnat(times)], {}, how)
    return coder.encode(known, name=name).values if known.size else known.values


def _scaled(ends: Any, encoding: dict[str, Any]) -> Any:
    """Numbers as xarray scales them: in the same precision, as it may round up to what does not fit."""
    is_filled = "_FillValue" in encoding or "missing_value" in encoding
    encoding = {key: value for key, value in encoding.items() if key not in ("units", "calendar")}
    if ends.dtype.kind in "iu" and is_filled and ("scale_factor" in encoding or "add_offset" in encoding):
        ends = ends.astype("f8")
    return CFScaleOffsetCoder().encode(xarray.Variable(("end",), ends, {}, encoding)).values


def of_its_dtype(name: str, variable: Any) -> Any:
    """A variable of dask whose blocks have the dtype that it states: dates that xarray counts stay int64 in them."""
    if variable.dtype.kind not in "iuf" or not is_of_dask(variable):
        return variable
    data = variable.data
    cast = data.map_blocks(_cast, name, data.dtype, dtype=data.dtype, meta=data._meta)
    return variable.copy(deep=False, data=cast)


def _cast(block: Any, name: str, dtype: np.dtype[Any]) -> Any:
    if block.dtype == dtype:
        return block
    with np.errstate(over="ignore"):
        cast = block.astype(dtype)
    if (
        block.dtype.kind == dtype.kind == "f"
    ):  # dask states float32 where blocks are computed in float64: they are rounded
        fits = np.array_equal(np.isfinite(cast), np.isfinite(block))
    else:
        fits = np.array_equal(cast, block, equal_nan=block.dtype.kind in "fc")
    if not fits:
        raise ValueError(f"variable {name!r} has values that {dtype} cannot hold: give an encoding with another dtype")
    return cast


# ------------------------------------------------------------------ groups and variables
SUFFIXES = (".b2z", ".b2d", ".b2e", ".b2nd")
#: The key of a variable whose name is None; xarray's other engines have the same.
UNNAMED = "__values__"


class LazyArray(backends.BackendArray):
    """An array that is read where it is indexed. It pickles as the array does, by path and key."""

    def __init__(self, leaf: NDArray) -> None:
        self._leaf = leaf
        self.shape, self.dtype = leaf.shape, leaf.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        """Read in a thread, for `load_async`: reads do not hold the GIL."""
        return await asyncio.to_thread(self.__getitem__, key)

    def _read(self, key: tuple[Any, ...]) -> Any:
        if any(isinstance(part, np.ndarray) for part in key):
            return np.asarray(self._leaf.oindex[key])
        return np.asarray(self._leaf[key])


class StoredGroup(backends.AbstractDataStore):
    """A group of an open store, or an array with a name, that xarray decodes; `close` closes what is `owned`."""

    def __init__(self, opened: Any, group: str, name: str, *, owned: bool) -> None:
        self.opened, self.group = opened, group
        self._name, self._owned = name, owned

    def leaves(self) -> Iterator[tuple[str, Any]]:
        if not isinstance(self.opened, Store):
            yield self._name, self.opened
            return
        for name in children_of(self.opened, self.group)[1]:
            yield name, self.opened[f"{self.group}/{name}"]

    def get_variables(self) -> dict[Any, Any]:
        """Variables by name, not decoded. What is no array is left out, with a warning."""
        found: dict[Any, Any] = {}
        for name, leaf in self.leaves():
            variable = variable_of(f"{self.group}/{name}", leaf)
            if variable is None:
                warnings.warn(
                    f"{self.group}/{name} is a {type(leaf).__name__}, and no array: xarray is not given it",
                    stacklevel=2,
                )
            else:
                found[None if name == UNNAMED else name] = variable
        return found

    def get_attrs(self) -> dict[str, Any]:
        return shown_attributes(attributes_of(self.opened, self.group))

    def get_encoding(self) -> dict[str, Any]:
        """The dimensions without a limit, of a netCDF file that became a store."""
        unlimited = conversion.taken_names(dict(attributes_of(self.opened, self.group)), UNLIMITED)
        return {"unlimited_dims": set(unlimited)} if unlimited else {}

    def close(self) -> None:
        """Close the store. Arrays that somebody holds stay readable."""
        if self._owned and isinstance(self.opened, Store):
            self.opened.close()


def variable_of(key: str, leaf: Any) -> Any:
    """A leaf as a variable, not decoded; None for what is no array, and no list of texts."""
    if isinstance(leaf, ObjectArray):
        return _texts(key, leaf)
    if not isinstance(leaf, NDArray):
        return None
    attributes = leaf.vlmeta[:]
    names = names_of(key, leaf.shape, attributes)
    encoding = {"chunks": leaf.chunks, "blocks": leaf.blocks, "cparams": leaf.cparams}
    if leaf.size:
        encoding["preferred_chunks"] = dict(zip(names, leaf.chunks, strict=True))
    lazy = indexing.LazilyIndexedArray(LazyArray(leaf))
    shown = shown_attributes(attributes)
    if DIGITS in shown:
        encoding[DIGITS] = shown.pop(DIGITS)
    return xarray.Variable(names, lazy, shown, encoding)


def _texts(key: str, leaf: ObjectArray) -> Any:
    values = list(leaf)
    if not all(isinstance(value, str) for value in values):
        return None
    attributes = leaf.vlmeta[:]
    texts = conversion.shaped_values(values, attributes)
    return xarray.Variable(names_of(key, texts.shape, attributes), texts, shown_attributes(attributes))


def opened_group(
    found: Any, group: str | None, *, mmap: bool, storage_options: dict[str, Any] | None = None
) -> StoredGroup:
    """A group of a path, which is mapped or not, or of an open store or array; `KeyError` where there is none."""
    owned = not isinstance(found, (Store, NDArray))
    opened = _opened(os.fspath(found), mmap=mmap, storage_options=storage_options) if owned else found
    prefix = getattr(opened, "_prefix", "")
    name = os.path.splitext(os.path.basename(os.fspath(found)))[0] if owned else "values"
    path = prefix + group_path(group)
    try:
        if isinstance(opened, Store):
            opened = opened._owner
            if not has_group(opened, path):
                why = f"Key {path!r} not found in the store: there is no such group"
                raise StoreKeyError(why, path=opened._path, key=path)
        elif path or not isinstance(opened, NDArray):
            raise StoreKeyError(f"{path or '/'!r} is no group: the file holds one {type(opened).__name__}")
    except BaseException:
        if owned and isinstance(opened, Store):
            opened.close()
        raise
    return StoredGroup(opened, path, name, owned=owned)


def _opened(path: str, *, mmap: bool, storage_options: dict[str, Any] | None) -> Any:
    is_url = "://" in path
    how: dict[str, Any] = {} if storage_options is None else {"storage_options": storage_options}
    if mmap and not is_url:
        how["mmap_mode"] = "r"
    return open_path(path if is_url else os.path.expanduser(path), mode="r", **how)


def has_group(store: Any, path: str) -> bool:
    above, _, name = path.rpartition("/")
    return not path or name in children_of(store, above)[0]


def _has_suffix(path: str) -> bool:
    """Whether a path, or a URL without what is asked of the server, ends like one of ours."""
    if "://" in path:
        path = path.partition("#")[0].partition("?")[0]
    return path.rstrip("/").endswith(SUFFIXES)


# ------------------------------------------------------------------ the engine
class Blosc2BackendEntrypoint(backends.BackendEntrypoint):
    """What ``engine="blosc2"`` names: `.b2z`, `.b2d` and `.b2e` stores, and single arrays in `.b2nd`."""

    description: ClassVar[str] = "Open stores and arrays of Blosc2 (.b2z, .b2d, .b2e, .b2nd)"
    supports_groups: ClassVar[bool] = True
    # What xarray would read from the signature.
    open_dataset_parameters: ClassVar[tuple[str, ...]] = (
        "filename_or_obj", "mask_and_scale", "decode_times", "concat_characters", "decode_coords", "drop_variables",
        "use_cftime", "decode_timedelta", "group", "mmap", "storage_options",
    )  # fmt: skip

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether a path or URL has a suffix of this package, or an object is a store or array of it."""
        if isinstance(filename_or_obj, (str, os.PathLike)):
            return _has_suffix(os.fspath(filename_or_obj))
        return isinstance(filename_or_obj, (Store, NDArray))

    def open_dataset(
        self, filename_or_obj: Any, *, group: str | None = None, mmap: bool = True,
        storage_options: dict[str, Any] | None = None, **decoding: Any,
    ) -> Any:  # fmt: skip
        """Open one group as a dataset."""
        found = opened_group(filename_or_obj, group, mmap=mmap, storage_options=storage_options)
        try:
            return backends.StoreBackendEntrypoint().open_dataset(found, **decoding)
        except BaseException:
            found.close()
            raise

    def open_datatree(self, filename_or_obj: Any, **how: Any) -> Any:
        """Open a group and all groups below it as a tree."""
        groups = self.open_groups_as_dict(filename_or_obj, **how)
        try:
            tree = xarray.DataTree.from_dict(groups)
        except BaseException:
            for dataset in groups.values():
                dataset.close()
            raise
        for path, dataset in groups.items():
            tree[path].set_close(dataset._close)
        return tree

    def open_groups_as_dict(
        self, filename_or_obj: Any, *, group: str | None = None, mmap: bool = True,
        storage_options: dict[str, Any] | None = None, **decoding: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """The dataset of a group and of each group below it, by its path."""
        first = opened_group(filename_or_obj, group, mmap=mmap, storage_options=storage_options)
        datasets: dict[str, Any] = {}
        try:
            is_store = isinstance(first.opened, Store)
            paths = [path for path, _ in walk(first.opened, first.group)] if is_store else [""]
            for path in paths:
                # The store is closed with the dataset that was given first, the root of the tree.
                part = first if path == first.group else StoredGroup(first.opened, path, first._name, owned=False)
                shown = path[len(first.group) :] or "/"
                datasets[shown] = backends.StoreBackendEntrypoint().open_dataset(part, **decoding)
        except BaseException:
            first.close()
            raise
        return datasets


# ------------------------------------------------------------------ beside another engine "blosc2"
# The package `xarray-blosc2` claims this name, too, and xarray takes one engine of a name, by chance in each process.
# So each of the two gives the other what is the other's: this one by itself, and the other one because its methods are
# wrapped when xarray has taken it. Then it makes no difference which one was taken. The name "python-blosc2" is this
# package's alone.
NAME: Final = "blosc2"
#: What xarray passes on to engines by itself, if they take it.
_DECODERS: Final = (
    "mask_and_scale", "decode_times", "concat_characters", "decode_coords", "use_cftime", "decode_timedelta"
)  # fmt: skip
_METHODS: Final = ("open_dataset", "open_datatree", "open_groups_as_dict")
#: The entry of the variable metadata in which `xarray-blosc2` keeps the names of axes.
_THEIR_DIMENSIONS: Final = "dims"


@functools.cache
def other_entry() -> EntryPoint | None:
    """The entry point of another package that claims the name."""
    found = (
        entry for entry in entry_points(group="xarray.backends", name=NAME) if entry.module.split(".")[0] != "blosc2"
    )
    return next(found, None)


@functools.cache
def other_engine() -> Any:
    """The engine of that package, which hands over what is of this one; None where there is none."""
    entry = other_entry()
    try:
        engine = None if entry is None else entry.load()
    except Exception as error:  # noqa: BLE001 - of another package
        warnings.warn(f"the other engine {NAME!r} of xarray cannot be loaded: {error}", stacklevel=2)
        return None
    if engine is not None:
        _let_hand_over(engine)
    return engine


def _let_hand_over(engine: Any) -> None:
    """Wrap what opens files, so that files of this package come here."""
    own, takes = Blosc2BackendEntrypoint, engine.open_dataset_parameters or ()

    def wrapped(method: str) -> Callable[..., Any]:
        theirs = getattr(engine, method)

        @functools.wraps(theirs)
        def opened(self: Any, filename_or_obj: Any, **how: Any) -> Any:
            if is_own(filename_or_obj):
                return getattr(own(), method)(filename_or_obj, **how)
            known = {name: value for name, value in how.items() if name in takes or name not in _DECODERS}
            return theirs(self, filename_or_obj, **known)

        return opened

    for method in _METHODS:
        setattr(engine, method, wrapped(method))
    engine.open_dataset_parameters = tuple(dict.fromkeys([*takes, *own.open_dataset_parameters]))
    engine.supports_groups = True


def is_own(given: Any) -> bool:
    """Whether something to be opened is of this package's form: a store, or an array without names of the other's."""
    if not isinstance(given, (str, os.PathLike)):
        return isinstance(given, (Store, NDArray))
    path = os.path.expanduser(os.fspath(given))
    named = _has_suffix(path)
    if "://" in path:
        return named and "/api/datasets/" not in path  # of a server of the other package
    try:
        opened = open_path(path, mode="r")
    except (FormatError, OSError):
        return named and not _is_folder_of_arrays(path)
    if isinstance(opened, Store):
        opened.close()
    return not (isinstance(opened, NDArray) and _THEIR_DIMENSIONS in opened.vlmeta and DIMENSIONS not in opened.vlmeta)


def _is_folder_of_arrays(path: str) -> bool:
    """Whether a folder or archive can be listed, and is no store."""
    if os.path.isdir(path):
        return not os.path.lexists(os.path.join(path, EMBED))
    try:
        with zipfile.ZipFile(path) as archive:
            return EMBED not in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


class SharedEntrypoint(Blosc2BackendEntrypoint):
    """What ``engine="blosc2"`` names: the engine of this package, which hands over what is another one's."""

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether one of the two can open it."""
        other = other_engine()
        return super().guess_can_open(filename_or_obj) or bool(other and other().guess_can_open(filename_or_obj))

    def open_dataset(self, filename_or_obj: Any, **how: Any) -> Any:
        return self._opener(filename_or_obj).open_dataset(filename_or_obj, **how)

    def open_datatree(self, filename_or_obj: Any, **how: Any) -> Any:
        return self._opener(filename_or_obj).open_datatree(filename_or_obj, **how)

    def open_groups_as_dict(self, filename_or_obj: Any, **how: Any) -> Any:
        return self._opener(filename_or_obj).open_groups_as_dict(filename_or_obj, **how)

    def _opener(self, given: Any) -> Any:
        other = None if isinstance(given, (Store, NDArray)) else other_engine()
        return Blosc2BackendEntrypoint() if other is None else other()


class OwnEntrypoint(Blosc2BackendEntrypoint):
    def __init__(self) -> None:
        # xarray makes one of each engine when it has loaded all, and then the other one is there if it was taken.
        entry = other_entry()
        if entry is not None and entry.module in sys.modules:
            other_engine()


def _let_pass_urls(engine: Any) -> None:
    """Have xarray's engine for netCDF, which claims every URL and is the first to be given one, leave ours to us."""
    claims = engine.guess_can_open

    @functools.wraps(claims)
    def guess_can_open(self: Any, filename_or_obj: Any) -> bool:
        is_ours = isinstance(filename_or_obj, str) and "://" in filename_or_obj and _has_suffix(filename_or_obj)
        return not is_ours and bool(claims(self, filename_or_obj))

    engine.guess_can_open = guess_can_open


_let_pass_urls(backends.NetCDF4BackendEntrypoint)
_tools.add_xarray_accessor()
