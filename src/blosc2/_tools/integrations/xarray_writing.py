"""Where values of a dataset go in variables that exist: regions, and what has to be the same."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray
from xarray import conventions
from xarray.backends.common import ensure_dtype_not_object
from xarray.coding import strings

from blosc2 import _tuning
from blosc2._arrays import DIMENSIONS, ArrayPlan
from blosc2._backends import KEY_RULES, new_key
from blosc2._core.keys.key_admission import folded
from blosc2._indexing import lossless
from blosc2._options import check_target_mode, local_path
from blosc2._stores import children_of
from blosc2._tools.converting.conversion import TEXT_SHAPE, UNLIMITED
from blosc2._tools.integrations import xarray_engine
from blosc2._tools.integrations.array_writing import ScratchFolder, new_array, where_to, write_box
from blosc2._tools.integrations.xarray_engine import DIGITS, UNNAMED, meant_dtype
from blosc2._tools.stores import beside, group_path, opened
from blosc2.exceptions import legible
from blosc2.ndarray import NDArray
from blosc2.objectarray import ObjectArray
from blosc2.tree_store import TreeStore

# Attributes that say how numbers are meant: values that are added must have the same.
_OF_PACKING: Final = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned")
_MEANINGS: Final = ("units", "calendar", *_OF_PACKING)
# Names of one calendar, the last of which is another one before 1582.
_GREGORIAN: Final = ("standard", "gregorian", "proleptic_gregorian")


def checked_region(
    dataset: Any, region: Any, coordinates: Mapping[str, Any], lengths: Mapping[str, int], append_dim: Hashable | None,
    where: str,
) -> dict[Any, slice]:  # fmt: skip
    """The slices of a region, with start and stop.

    A region has slices by dimension; "auto" finds where the coordinates of the dataset are among `coordinates`, the
    stored variables that have the names of dimensions. `lengths` are those of all stored dimensions, `where` is for
    errors.
    """
    if region == "auto":
        region = dict.fromkeys(dataset.dims, "auto")
    if not isinstance(region, Mapping):
        raise TypeError(f"region must be 'auto' or a dict of slices by dimension, not {type(region).__name__}")
    found: dict[Any, slice] = {}
    for dim, part in region.items():
        if dim not in dataset.dims:
            raise ValueError(f"region names {dim!r}, which is no dimension of the dataset: {list(dataset.dims)}")
        if dim == append_dim:
            raise ValueError(f"{dim!r} is named by region and by append_dim: one of both")
        length = dataset.sizes[dim]
        if isinstance(part, str) and part == "auto":
            part = _found_region(dim, dataset, coordinates.get(dim), lengths.get(dim, length), where)
        if not isinstance(part, slice):
            raise TypeError(f"region must have slices, or 'auto', not {part!r} for {dim!r}")
        if part.step not in (None, 1):
            raise ValueError(f"region: slices have a step of 1, not {part.step} for {dim!r}")
        start = 0 if part.start is None else part.start
        stop = start + length if part.stop is None else part.stop
        if start < 0 or stop < 0:
            raise ValueError(f"region: positions count from the start, unlike {part} for {dim!r}")
        if stop - start != length:
            raise ValueError(f"region: {dim!r} has {length} items in the dataset, and {max(stop - start, 0)} in {part}")
        found[dim] = slice(start, stop)
    beside = [name for name, variable in dataset.variables.items() if found and not set(found) & set(variable.dims)]
    if beside:
        raise ValueError(
            f"{beside} have none of the dimensions of the region, {list(found)}, so they would be written as a whole: "
            f"write dataset.drop_vars({beside!r})"
        )
    return found


def _found_region(dim: str, dataset: Any, stored: Any, whole: int, where: str) -> slice:
    """Where the coordinates of a dataset are among those of the store. Without any, only a whole dimension is found."""
    if dim not in dataset.variables or stored is None:
        if dataset.sizes[dim] != whole:
            what = "the dataset" if stored is not None else "the store"
            raise ValueError(
                f"{where}: {what} has no coordinate {dim!r} to find, and {dataset.sizes[dim]} of {whole} items would "
                "be written: name a slice for it in region"
            )
        return slice(0, whole)
    index = conventions.decode_cf_variable(dim, stored).to_index()
    if not index.is_unique:
        raise ValueError(
            f"{where}: the coordinate {dim!r} has equal values, among which none can be found: name a slice for it in "
            "region"
        )
    positions = index.get_indexer(dataset.variables[dim].to_index())
    if len(positions) and (positions < 0).any():
        raise KeyError(f"{where}: not all values of the coordinate {dim!r} are there")
    if (np.diff(positions) != 1).any():
        raise ValueError(
            f"{where}: the values of the coordinate {dim!r} are there, but not beside each other in this order"
        )
    start = int(positions[0]) if len(positions) else 0
    return slice(start, start + len(positions))


def fit_to_existing(
    name: str, variable: Any, stored: Any, box: Mapping[Any, slice], append_dim: Hashable | None, where: str
) -> Any:
    """A variable with the encoding and the order of dimensions of the one that exists, if it means what that means."""
    what = f"{where}: {name!r}"
    decoded = _decoded(name, stored, variable, what)
    variable = _aligned(variable, decoded, box, append_dim, what)
    _check_kind(variable, decoded, what)
    variable = variable.copy(deep=False)
    variable.encoding = {
        key: value for key, value in decoded.encoding.items() if key not in ("chunks", "blocks", "cparams")
    }
    if decoded.dtype.kind in "MO" and " since " in str(stored.attrs.get("units")):
        variable.encoding.setdefault("calendar", _GREGORIAN[0])  # as CF has it where none is stated
    if "_FillValue" not in variable.attrs:
        variable.encoding.setdefault("_FillValue", None)  # xarray would give floats one that the stored ones lack
    packed = "scale_factor" in decoded.encoding or "add_offset" in decoded.encoding
    meant = meant_dtype(stored.dtype, decoded.encoding.get("_Unsigned"))
    if variable.dtype.kind in "iu" and stored.dtype.kind in "iu" and not packed and not _holds(variable, meant):
        raise ValueError(f"{what} is stored as {stored.dtype}, which cannot hold all values to write")
    if stored.dtype.kind in "US":
        variable.encoding.pop("dtype", None)  # it would cut texts
    if stored.dtype.kind == "S" and variable.dtype.kind in "OUT":
        variable.encoding["dtype"] = "S1"  # as xarray says that texts become bytes
    fitting = xarray_engine.checked_to_fit(name, variable, exists=True)
    encoded = _with_plain_texts(name, conventions.encode_cf_variable(fitting, name=name))
    if stored.dtype == "S1" and encoded.dtype.kind == "S":
        encoded = _in_characters(name, encoded, stored, what)
    for meaning in _MEANINGS:
        new, old = encoded.attrs.get(meaning), stored.attrs.get(meaning)
        old = _GREGORIAN[0] if old is None and meaning == "calendar" else old
        if new is not None and not _same(new, old):
            counted = variable.dtype.kind in "mM" and meaning == "units"
            how = f"round them to what {old!r} counts in {stored.dtype}" if counted else "convert them"
            raise ValueError(
                f"{what} has {meaning}={old!r}, and the values to write have {new!r}: {how}, or use mode='w'"
            )
    if not _holds(encoded, stored.dtype):
        raise ValueError(
            f"{what} is stored as {stored.dtype}, which cannot hold the values to write, of {encoded.dtype}"
        )
    return encoded


def _aligned(variable: Any, stored: Any, box: Mapping[Any, slice], append_dim: Hashable | None, what: str) -> Any:
    """A variable with the order of dimensions of the stored one, in which it must have room."""
    if set(variable.dims) != set(stored.dims):
        raise ValueError(f"{what} has the dimensions {stored.dims}, not {variable.dims}")
    variable = variable.transpose(*stored.dims)
    for dim, length in variable.sizes.items():
        stop = box[dim].stop if dim in box else length
        is_whole = dim in box or length == stored.sizes[dim]
        if dim != append_dim and (stop > stored.sizes[dim] or not is_whole):
            raise ValueError(
                f"{what} has {stored.sizes[dim]} items along {dim!r}, and {stop} would be written; append_dim makes it "
                "longer, region names a part, mode='w' replaces it"
            )
    return variable


def fit_texts_to_existing(
    name: str, variable: Any, stored: Any, box: Mapping[Any, slice], append_dim: Hashable | None, where: str
) -> Any:
    """A variable of texts as `fit_to_existing` has it, for a list of texts of any length."""
    what = f"{where}: {name!r}"
    variable = _aligned(variable, stored, box, append_dim, what)
    texts = np.asarray(variable.values, object)
    others = sorted({type(value).__name__ for value in texts.flat if not isinstance(value, str)})
    if others:
        raise ValueError(f"{what} has texts, and those to write are of {', '.join(others)}: give texts alone")
    return variable.copy(deep=False, data=texts)


def say_units_of_bounds(variables: Mapping[Any, Any], others: Mapping[Any, Any]) -> None:
    """Give variables that are bounds of times of `others` their units and calendar, which CF lets them leave out."""
    for other in others.values():
        bounds = other.attrs.get("bounds")
        if isinstance(bounds, str) and bounds in variables and " since " in str(other.attrs.get("units")):
            for name in ("units", "calendar"):
                if name in other.attrs:
                    variables[bounds].attrs.setdefault(name, other.attrs[name])


def _decoded(name: str, stored: Any, variable: Any, what: str) -> Any:
    """The stored variable, decoded as far as the one to write is, so that its encoding is what remains to be done.

    Single characters become texts. `ValueError` where numbers cannot be told to count the same times.
    """
    is_packed = any(attribute in variable.attrs for attribute in _OF_PACKING)
    missing = [key for key in _OF_PACKING if is_packed and key in stored.attrs and key not in variable.attrs]
    if missing:
        raise ValueError(f"{what} has {missing[0]}={stored.attrs[missing[0]]!r}, and the values to write have none")
    decoded = conventions.decode_cf_variable(name, stored, mask_and_scale=not is_packed)
    if decoded.dtype.kind not in "mMO" or stored.dtype.kind not in "iuf":
        return decoded
    units, calendar = stored.attrs.get("units"), stored.attrs.get("calendar", "standard")
    if variable.dtype.kind not in "iuf":
        _check_calendar(variable, calendar, what)
        return decoded
    if "units" not in variable.attrs:
        raise ValueError(
            f"{what} has times, which it counts in {units!r}, and those to write are numbers without units: write "
            f"dates, or give them the attributes units={units!r} and calendar={calendar!r}"
        )
    theirs = variable.attrs.get("calendar", "standard")
    if " since " in str(units) and theirs != calendar and not {theirs, calendar} <= set(_GREGORIAN[:2]):
        raise ValueError(f"{what} has the calendar {calendar!r}, and the values to write have {theirs!r}")
    return conventions.decode_cf_variable(name, stored, mask_and_scale=not is_packed, decode_times=False)


def _check_calendar(dates: Any, calendar: str, what: str) -> None:
    """Refuse dates of another calendar than the stored ones: some days of one are none of the other."""
    theirs = _calendar_of(dates)
    same = _GREGORIAN if dates.dtype.kind == "M" else _GREGORIAN[:2]  # NumPy's; xarray refuses those before 1582
    if theirs not in (None, calendar) and not {theirs, calendar} <= set(same):
        raise ValueError(
            f"{what} has times of the calendar {calendar!r}, and those to write are of {theirs!r}: convert them; "
            f"dataset.convert_calendar({calendar!r}) does so for the axis of time, and not for its bounds"
        )


def _calendar_of(dates: Any) -> str | None:
    """The calendar of dates; None for other values, and for no values."""
    try:
        return str(xarray.DataArray(dates).dt.calendar) if dates.size else None
    except (AttributeError, TypeError):
        return None


def _in_characters(name: str, encoded: Any, stored: Any, what: str) -> Any:
    """Texts as single characters along a last dimension, as they are stored."""
    if len(encoded.dims) == len(stored.dims):
        encoded = strings.CharacterArrayCoder().decode(encoded)
    length = stored.shape[-1]
    if encoded.dtype.itemsize > length:
        raise ValueError(f"{what} holds texts of {length} bytes, and those to write have {encoded.dtype.itemsize}")
    encoded = encoded.astype(f"S{length}")
    encoded.encoding = {"char_dim_name": stored.dims[-1]}
    return strings.CharacterArrayCoder().encode(encoded, name=name)


def check_unchanged(name: str, encoded: Any, stored: Any, append_dim: Hashable, where: str) -> None:
    """Refuse another coordinate along a dimension that does not grow: it would name older values anew."""
    old = stored.values
    new = encoded.values.astype(old.dtype) if old.dtype.kind in "iuf" else encoded.values  # as it would be stored
    if not np.array_equal(new, old, equal_nan=new.dtype.kind in "fc" and old.dtype.kind in "fc"):
        raise ValueError(
            f"{where}: the coordinate {name!r} does not have the dimension append_dim={append_dim!r}, and differs from "
            "the stored one, which names older values, too: make both the same, or leave it out with drop_vars"
        )


def _check_kind(variable: Any, decoded: Any, what: str) -> None:
    """Refuse numbers that an encoding would round, such as fractions where there are integers."""
    new, old = variable.dtype, decoded.dtype
    if {new.kind, old.kind} == {"M", "O"} and None not in (_calendar_of(variable), _calendar_of(decoded)):
        return  # dates of NumPy, and of cftime
    numbers = new.kind in "?biufc" and old.kind in "?biufc"
    if numbers and not np.can_cast(new, old, "same_kind"):
        raise ValueError(f"{what} has values of {old}, and those to write are of {new}: convert them with astype")
    if not numbers and new.kind != old.kind and not (new.kind in "OUST" and old.kind in "OUST"):
        raise ValueError(f"{what} has values of {old}, and those to write are of {new}")


def _same(one: Any, other: Any) -> bool:
    if other is None:
        return False
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _same_epoch(one, other)
    return bool(np.array_equal(np.asarray(one), np.asarray(other))) or bool(one != one and other != other)


def _same_epoch(one: str, other: str) -> bool:
    """Whether two units count the same time from the same moment, however that is written."""
    try:
        (unit, start), (other_unit, other_start) = one.split(" since "), other.split(" since ")
        return unit == other_unit and bool(pd.Timestamp(start) == pd.Timestamp(other_start))
    except (ValueError, TypeError):
        return False


def _holds(encoded: Any, dtype: np.dtype[Any]) -> bool:
    if np.can_cast(encoded.dtype, dtype, "safe"):
        return True
    if encoded.dtype.kind not in "iu" or dtype.kind not in "iu":
        return encoded.dtype.kind in "fc" and np.can_cast(encoded.dtype, dtype, "same_kind")
    if not encoded.size:
        return True
    low, high = int(encoded.min()), int(encoded.max())
    limits = np.iinfo(dtype)
    return low >= limits.min and high <= limits.max


#: What an encoding may say of an array of this package.
_ENCODINGS: Final = ("chunks", "blocks", "cparams")
# The names that xarray's netCDF files have for arrays without a name, or with that of a coordinate.
_UNNAMED: Final = "__xarray_dataarray_variable__"
_NAME: Final = "__xarray_dataarray_name__"


def write_xarray(
    data: Any, target: Any, group: str = "/", *, mode: str | None = None, append_dim: Hashable | None = None,
    region: Mapping[Any, Any] | str | None = None, encoding: Mapping[Any, Any] | None = None,
) -> None:  # fmt: skip
    if mode is None:
        mode = "r+" if region is not None else "a" if append_dim is not None else "w-"
    check_target_mode(mode, ("w", "w-", "a", "r+"))
    if (append_dim is not None or region is not None) and mode not in ("a", "r+"):
        raise ValueError(f"append_dim and region change what is there: they need mode 'a' or 'r+', not {mode!r}")
    if isinstance(data, xarray.DataTree):
        if append_dim is not None or region is not None:
            raise ValueError(
                "append_dim and region are for one dataset: write the nodes one by one, each without what it inherits: "
                "to_store(node.to_dataset(inherit=False), target, node.path, ...)"
            )
        nodes = _nodes(data, group_path(group), encoding or {})
    else:
        dataset = _dataset_of(data)
        nodes = [(group_path(group), dataset, dict(encoding or {}))]
    with _writable(target, group_path(group), mode) as (store, scratch, prefix):
        for path, dataset, how in nodes:
            _GroupWriter(store, prefix + path, scratch, mode, append_dim).write(dataset, region, how)


def _dataset_of(data: Any) -> Any:
    if isinstance(data, xarray.Dataset):
        return data
    if data.name is None:
        return data.to_dataset(name=_UNNAMED)
    if data.name in data.coords or data.name in data.dims:
        dataset = data.to_dataset(name=_UNNAMED)
        dataset.attrs[_NAME] = data.name
        return dataset
    return data.to_dataset()


def _nodes(tree: Any, group: str, encoding: Mapping[Any, Any]) -> list[tuple[str, Any, dict[Any, Any]]]:
    """The datasets of a tree with their groups, and their encodings, which are given by the paths of nodes."""
    paths = [node.path for node in tree.subtree]
    root = tree.path
    shown = {path: "/" + path[len(root) :].strip("/") for path in paths}
    unknown = sorted(set(encoding) - set(shown.values()))
    if unknown:
        raise ValueError(
            f"encoding names nodes that the tree does not have: {unknown}; it has {sorted(shown.values())}"
        )
    return [
        (group + group_path(shown[node.path]), node.to_dataset(inherit=False), dict(encoding.get(shown[node.path], {})))
        for node in tree.subtree
    ]


@contextmanager
def _writable(target: Any, group: str, mode: str) -> Iterator[tuple[TreeStore, ScratchFolder, str]]:
    """A store to write to, where arrays wait, and the prefix of a view: published at the end, or left as it was."""
    if isinstance(target, TreeStore):
        prefix = target._prefix
        store = target._owner
        with ScratchFolder(store.localpath) as scratch, store.transaction():
            _prepare(store, prefix + group, mode)
            yield store, scratch, prefix
        return
    if not isinstance(target, (str, os.PathLike)):
        raise TypeError(
            f"a {type(target).__name__} is no TreeStore and no path: datasets are written to groups of these"
        )
    path = local_path(target).rstrip("/")
    if not path.endswith((".b2z", ".b2d")):
        raise ValueError(f"{legible(path)}: groups with attributes need a store in .b2z or .b2d")
    exists = os.path.lexists(path)
    if exists and mode == "w-" and not group:
        raise FileExistsError(f"{legible(path)} exists; mode='w' replaces it, mode='a' adds to it")
    if not exists and mode == "r+":
        raise FileNotFoundError(f"{legible(path)} does not exist; mode='a' makes it")
    if exists and not (mode == "w" and not group):
        with opened(path, "a") as store:
            if not isinstance(store, TreeStore):
                what = type(store).__name__
                raise TypeError(f"{path} is a {what}, whose keys are no groups: datasets need a TreeStore")
            with ScratchFolder(path) as scratch, store.transaction():
                _prepare(store, group, mode)
                yield store, scratch, ""
        return
    with (
        beside(path, overwrite=mode == "w") as partial, ScratchFolder(path) as scratch,
        TreeStore(partial, mode="w") as store, store.transaction(),
    ):  # fmt: skip
        yield store, scratch, ""


def _prepare(store: TreeStore, group: str, mode: str) -> None:
    """Empty a group that is to be replaced, and refuse one that must be new or must exist."""
    is_there = xarray_engine.has_group(store, group) and (bool(group) or len(store) > 0 or len(store.attrs) > 0)
    if mode == "w-" and is_there:
        raise FileExistsError(
            f"{legible(store.localpath)}: the group {group or '/'!r} exists; mode='w' replaces it, 'a' adds to it"
        )
    if mode == "r+" and not xarray_engine.has_group(store, group):
        raise FileNotFoundError(f"{store.localpath}: there is no group {group!r}; mode='a' makes it")
    if mode == "w" and is_there:
        if group:
            del store[group]
        else:
            store.clear()


class _GroupWriter:
    """Writes datasets to one group, "" for the root, of a store in a transaction. Large arrays wait in `scratch`."""

    def __init__(
        self, store: TreeStore, group: str, scratch: ScratchFolder, mode: str, append_dim: Hashable | None
    ) -> None:
        self._store, self._group, self._scratch = store, group, scratch
        self._mode, self._append_dim = mode, append_dim
        self._where = f"{legible(store.localpath)}, group {group or '/'!r}"

    def write(self, dataset: Any, region: Any, encoding: dict[Any, Any]) -> None:
        if None in dataset.variables:
            dataset = dataset.rename({None: UNNAMED})
        for name in [*dataset.variables, *dataset.dims]:
            _check_name(name)
        _check_keys(dataset.variables, set(self._leaves()))
        for name, how in encoding.items():
            if name not in dataset.variables:
                raise KeyError(f"encoding names a variable that the dataset does not have: {name!r}")
            if not isinstance(how, Mapping):
                raise ValueError(f"encoding of variable {name!r}: it must be castable to a dict, unlike {how!r}")
        existing = self._existing(dataset)
        box: dict[Any, slice] = {}
        if region is not None:
            coordinates, lengths = self._variables(dataset.dims), self._lengths()
            box = checked_region(dataset, region, coordinates, lengths, self._append_dim, self._where)
            dataset = dataset.drop_vars(dataset.indexes)
            existing = self._existing(dataset)
        missing = sorted(set(dataset.variables) - set(existing))
        if self._mode == "r+" and missing:
            raise ValueError(f"{self._where}: there are no variables {missing}, and mode='r+' adds none; mode='a' does")
        self._check_append(dataset, existing)
        changed = {name for name in existing if name in encoding}
        if changed:
            raise ValueError(
                f"{self._where}: {sorted(changed)} exist with an encoding, which cannot be changed; see mode='w'"
            )
        encoded, attributes = _encoded(dataset, missing, encoding)
        self._add_all(encoded, encoding)
        given = {name: dataset.variables[name].copy(deep=False) for name in existing}
        say_units_of_bounds(given, dataset.variables)
        for name, (stored, leaf) in existing.items():
            if isinstance(leaf, ObjectArray):
                variable = fit_texts_to_existing(name, given[name], stored, box, self._append_dim, self._where)
            else:
                variable = fit_to_existing(name, given[name], stored, box, self._append_dim, self._where)
            if self._append_dim is not None and name in dataset.coords and self._append_dim not in variable.dims:
                part = stored[{dim: box[dim] for dim in stored.dims if dim in box}]
                check_unchanged(name, variable, part, self._append_dim, self._where)
            elif isinstance(leaf, ObjectArray):
                self._change_texts(leaf, stored, variable, box)
            else:
                self._change(leaf, variable, box)
        if self._mode != "r+":
            self._set_attributes(attributes, dataset.encoding.get("unlimited_dims", ()))
        self._lengths()  # checks them

    def _existing(self, dataset: Any) -> dict[str, tuple[Any, NDArray | ObjectArray]]:
        """Variables of a dataset that the group has, as they are stored, with their leaves."""
        found: dict[str, tuple[Any, Any]] = {}
        others: dict[str, Any] = {}
        for name in self._leaves():
            leaf: Any = self._store[f"{self._group}/{name}"]
            if name in dataset.variables:
                variable = xarray_engine.variable_of(f"{self._group}/{name}", leaf)
                if variable is None:
                    raise ValueError(
                        f"{self._where}: {name!r} is a {type(leaf).__name__}, and no array: it is not changed; write "
                        f"dataset.drop_vars({name!r})"
                    )
                found[name] = variable, leaf
            if isinstance(leaf, NDArray) and "bounds" in leaf.vlmeta:
                others[name] = found[name][0] if name in found else xarray_engine.variable_of(name, leaf)
        say_units_of_bounds({name: variable for name, (variable, _) in found.items()}, others)
        return {name: found[name] for name in dataset.variables if name in found}

    def _variables(self, names: Any) -> dict[str, Any]:
        """Stored variables by name, of those names that there are."""
        leaves = set(self._leaves())
        found = {
            name: xarray_engine.variable_of(name, self._store[f"{self._group}/{name}"])
            for name in names
            if name in leaves
        }
        return {name: variable for name, variable in found.items() if variable is not None}

    def _leaves(self) -> list[str]:
        return children_of(self._store, self._group)[1] if xarray_engine.has_group(self._store, self._group) else []

    def _check_append(self, dataset: Any, existing: dict[str, Any]) -> None:
        """Refuse to make some variables longer and not others."""
        dim = self._append_dim
        if dim is None or not existing:
            return
        if dim not in dataset.dims:
            raise ValueError(f"append_dim={dim!r} is no dimension of the dataset, which has {list(dataset.dims)}")
        grows = []
        for name in self._leaves():
            names = self._dims_of(name)
            if names.count(dim) > 1:
                raise ValueError(
                    f"{self._where}: {name!r} has append_dim={dim!r} on several axes, and cannot grow along it"
                )
            if dim in names:
                grows.append(name)
        if not grows:
            raise ValueError(f"{self._where}: no variable has the dimension append_dim={dim!r}")
        left = sorted(set(grows) - set(dataset.variables))
        if left:
            raise ValueError(
                f"{self._where}: {left} have the dimension {dim!r} too, and would stay shorter than the others: the "
                "dataset must have all variables along append_dim"
            )

    def _dims_of(self, name: str) -> tuple[str, ...]:
        """The dimensions of a leaf as a variable; none of what is no variable."""
        leaf = self._store[f"{self._group}/{name}"]
        if isinstance(leaf, NDArray):
            return xarray_engine.names_of(f"/{name}", leaf.shape, leaf.vlmeta)
        texts = (
            xarray_engine.variable_of(name, leaf)
            if isinstance(leaf, ObjectArray) and DIMENSIONS in leaf.vlmeta
            else None
        )
        return () if texts is None else texts.dims

    def _add_all(self, variables: Mapping[str, Any], encoding: Mapping[Any, Any]) -> None:
        """Write new variables. Those of dask are computed together, and compressed by its tasks."""
        staged = {}
        for name, variable in variables.items():
            where = f"variable {name!r}"
            digits = {DIGITS: variable.encoding[DIGITS]} if DIGITS in variable.encoding else {}
            stored = xarray_engine.stored_attributes({**digits, **variable.attrs}, where)
            # An attribute of this name was copied, and may say what the dimensions were before.
            attributes = {**stored, DIMENSIONS: list(variable.dims)}
            keywords = _keywords(variable, set(encoding.get(name, ())), where)
            if xarray_engine.is_of_dask(variable):
                staged[name] = self._staged(variable.data, keywords, where), attributes
            else:
                array = new_array(
                    variable.shape, variable.dtype, _reader(variable), keywords, self._scratch, attributes
                )
                self._store[f"{self._group}/{name}"] = array
        if staged:
            from blosc2._tools.integrations.dask_writing import compute_staged

            compute_staged([array for array, _ in staged.values()], {})
        for name, (array, attributes) in staged.items():
            variable = variables[name]
            where_to_wait = where_to(variable.shape, variable.dtype, self._scratch)
            self._store[f"{self._group}/{name}"] = array.assembled(where_to_wait, attributes)

    def _staged(self, array: Any, keywords: dict[str, Any], where: str) -> Any:
        """An array of dask that its tasks write to the scratch folder, in blocks that chunks fit."""
        from blosc2._tools.integrations.dask_writing import StagedArray, aligned_keywords, rechunked

        try:
            aligned = aligned_keywords(array, keywords, where)
        except ValueError:
            array = rechunked(array, keywords.get("chunks"))
            aligned = aligned_keywords(array, keywords, where)
        return StagedArray(array, aligned, self._scratch.new_folder())

    def _change(self, leaf: NDArray, variable: Any, box: dict[Any, slice]) -> None:
        """Write values to an existing variable, behind its end along the dimension that grows."""
        starts, shape = self._place_of(variable, leaf.shape, box)
        if shape != leaf.shape:
            leaf.resize(shape)
        write_box(leaf, starts, variable.shape, _reader(variable))

    def _change_texts(self, leaf: ObjectArray, stored: Any, variable: Any, box: dict[Any, slice]) -> None:
        """Write texts to an existing list of texts, in the order of a C array."""
        starts, shape = self._place_of(variable, stored.shape, box)
        texts = np.empty(shape, object)
        texts[tuple(map(slice, stored.shape))] = stored.values
        texts[tuple(slice(start, start + n) for start, n in zip(starts, variable.shape, strict=True))] = variable.values
        if np.array_equal(texts, stored.values):
            return
        leaf[:] = texts.reshape(-1).tolist()
        if TEXT_SHAPE in leaf.vlmeta:
            leaf.vlmeta[TEXT_SHAPE] = list(shape)

    def _place_of(
        self, variable: Any, shape: tuple[int, ...], box: dict[Any, slice]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where values go in a stored variable of a shape: at which item, and the shape that it gets."""
        starts, grown = [], list(shape)
        for axis, dim in enumerate(variable.dims):
            if dim == self._append_dim:
                starts.append(shape[axis])
                grown[axis] += variable.shape[axis]
            else:
                starts.append(box[dim].start if dim in box else 0)
        return tuple(starts), tuple(grown)

    def _set_attributes(self, attributes: Mapping[str, Any], unlimited: Iterable[Hashable]) -> None:
        view = self._store.create_group(self._group) if self._group else self._store
        kept = xarray_engine.stored_attributes(attributes, f"the dataset ({self._where})")
        if unlimited:
            kept[UNLIMITED] = sorted(map(str, unlimited))
        if kept:
            view.attrs.update(kept)

    def _lengths(self) -> dict[str, int]:
        """The lengths of dimensions. A group of which one has several could not be read as a dataset: `ValueError`."""
        lengths: dict[str, tuple[int, str]] = {}
        for name in self._leaves():
            leaf = self._store[f"{self._group}/{name}"]
            if not isinstance(leaf, NDArray):
                continue
            for dim, length in zip(
                xarray_engine.names_of(f"/{name}", leaf.shape, leaf.vlmeta), leaf.shape, strict=True
            ):
                first = lengths.setdefault(dim, (length, name))
                if first[0] != length:
                    raise ValueError(
                        f"{self._where}: the dimension {dim!r} would have the length {first[0]} in {first[1]!r} and "
                        f"{length} in {name!r}"
                    )
        return {dim: length for dim, (length, _) in lengths.items()}


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the name {name!r} of a variable or dimension is not a string or None")
    if not name:
        raise ValueError(f"the name {name!r} of a variable or dimension is empty: a string must be length 1 or longer")
    if "/" in name:
        raise ValueError(f"the name {name!r} of a variable or dimension has a '/', which separates groups")


def _check_keys(names: Iterable[str], there: set[str]) -> None:
    """Refuse names of variables that no keys of a store can have, beside each other and beside those that are there."""
    known = {folded(name): name for name in there}
    for name in names:
        why = _why_no_key(name)
        if why is None and known.setdefault(folded(name), name) != name and name not in there:
            other = known[folded(name)]
            why = f"it differs from {other!r} in case only, or in how its accents are written, as no two keys may"
        if why is None:
            continue
        plain = re.sub(r"\W+", "_", name).strip("_")[:_SHORT] or "other"
        while _why_no_key(plain) or folded(plain) in known or plain in names:
            plain += "_"
        raise ValueError(f"variable {name!r}: {why}; write dataset.rename({{{name!r}: {plain!r}}})")


# Characters of a name that is proposed.
_SHORT: Final = 40


def _why_no_key(name: str) -> str | None:
    try:
        new_key(f"/{name}")
    except ValueError as error:
        return str(error).removesuffix(f" {KEY_RULES}")
    return None


def _encoded(dataset: Any, names: list[str], encoding: dict[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    dataset = dataset.copy(deep=False)
    for name, how in encoding.items():
        dataset.variables[name].encoding = dict(how)
    variables, attributes = conventions.encode_dataset_coordinates(dataset)
    encoded, attributes = conventions.cf_encoder(
        {name: xarray_engine.checked_to_fit(name, variables[name]) for name in names}, attributes
    )
    return {name: _with_plain_texts(name, encoded[name]) for name in names}, attributes


def _with_plain_texts(name: str, variable: Any) -> Any:
    variable = ensure_dtype_not_object(xarray_engine.of_its_dtype(name, variable), name=name)
    variable = strings.EncodedStringCoder(allows_unicode=True).encode(variable, name=name)
    variable = _fixed_texts(name, variable) if variable.dtype.kind in "OT" else variable
    # xarray joins single characters along their last dimension when it reads: that must be one of their own.
    return strings.CharacterArrayCoder().encode(variable, name=name) if variable.dtype == "S1" else variable


def _fixed_texts(name: str, variable: Any) -> Any:
    """Texts, or bytes, of varying length as items of one length."""
    values = np.asarray(variable.values, object)
    flat = values.reshape(-1).tolist()
    if all(isinstance(value, str) for value in flat):
        fixed = np.array(flat or [""], "U")
    elif all(isinstance(value, bytes) for value in flat):
        fixed = np.array(flat or [b""], "S")
    else:
        kinds = sorted({type(value).__name__ for value in flat})
        raise TypeError(f"variable {name!r} has items of {', '.join(kinds)}: give numbers, dates, or texts alone")
    if any(value[-1:] in ("\0", b"\0") for value in flat):
        raise ValueError(f"variable {name!r} has texts that end in a zero character, which texts of fixed length lose")
    fixed = fixed[: len(flat)].reshape(values.shape)
    return xarray.Variable(variable.dims, fixed, variable.attrs, variable.encoding)


def _keywords(variable: Any, asked: set[str], where: str) -> dict[str, Any]:
    """The keywords of a new array that an encoding gives; those that somebody asked for must fit."""
    encoding = variable.encoding
    unknown = sorted(asked - {*_ENCODINGS, *_CODED, "preferred_chunks"})
    if unknown:
        raise ValueError(f"unexpected encoding of {where}: {unknown}; an array has {', '.join(_ENCODINGS)}")
    keywords = {name: encoding[name] for name in _ENCODINGS if encoding.get(name) is not None}
    if "chunks" not in asked and variable.chunks is not None:
        keywords.pop("chunks", None)  # those of dask are the ones that are written
        keywords.pop("blocks", None)
    for name in ("chunks", "blocks"):
        if name in keywords and name not in asked and not _fits(keywords[name], variable.shape):
            keywords.pop("chunks", None)
            keywords.pop("blocks", None)
    if "chunks" in keywords and "chunks" not in asked and variable.size:
        keywords["chunks"] = tuple(min(c, n) for c, n in zip(keywords["chunks"], variable.shape, strict=True))
    try:
        if "cparams" in keywords:
            keywords["cparams"] = _tuning.sparing(keywords["cparams"], variable.attrs)
        ArrayPlan(variable.shape, variable.dtype, dict(keywords))
    except (TypeError, ValueError) as error:
        if asked & set(_ENCODINGS):
            error.add_note(f"in the encoding of {where}")
            raise
        return {}
    return keywords


#: What encodings say that CF, not the array, takes.
_CODED: Final = (
    "dtype", "scale_factor", "add_offset", "_FillValue", "missing_value", "units", "calendar", "coordinates",
    "grid_mapping", "_Unsigned", "char_dim_name",
)  # fmt: skip


def _reader(variable: Any) -> Any:
    """What reads boxes of a variable, which may be in memory, in another file, or not yet computed."""
    if xarray_engine.is_of_dask(variable):
        return lambda box: lossless(variable[box].data.compute())
    return lambda box: variable[box].values


def _fits(lengths: Any, shape: tuple[int, ...]) -> bool:
    return isinstance(lengths, tuple) and len(lengths) == len(shape) and 0 not in lengths
