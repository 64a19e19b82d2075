"""What samples are read from: rows of arrays, or leaves of a store.

A source shows one version as long as it lives. Where it cannot, it raises `StaleHandleError`, which names the file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from blosc2 import _stores
from blosc2._backends import EMBED
from blosc2._files import file_identity
from blosc2._frames import remote_version
from blosc2._indexing import Items, Version, read_many
from blosc2._opening import open
from blosc2._options import scheme_of
from blosc2._stores import Store
from blosc2.exceptions import StaleHandleError, StoreKeyError
from blosc2.ndarray import NDArray

#: What a caller may name fields by: names below the key of a sample, or patterns by name.
FieldNames: TypeAlias = "Sequence[str] | Mapping[str, str] | None"


# Seconds by which the times of files may be behind. Whoever replaces a leaf so shortly after the samples were listed
# does it before the first of them is read.
_TICK: Final = 0.02


def _moved(status: os.stat_result) -> int:
    """When a file was last moved, linked or given other permissions; 0 where the system does not tell."""
    return 0 if os.name == "nt" else status.st_ctime_ns


class ArrayRows:
    """Samples that are rows of arrays of one length: a field for each array.

    Parameters
    ----------
    arrays : dict
        Arrays by the name of their field; None names the only one.
    """

    def __init__(self, arrays: dict[str | None, NDArray]) -> None:
        self.arrays = arrays
        self.names = tuple(arrays)
        lengths = {}
        for name, array in arrays.items():
            if not isinstance(array, NDArray):
                raise TypeError(f"{field_label(name)}an NDArray is needed, not {type(array).__name__}")
            if array.ndim == 0:
                raise ValueError(f"{field_label(name)}a 0-d array has no rows")
            lengths[name] = len(array)
        self.length = next(iter(lengths.values()), 0)
        for name, length in lengths.items():
            if length != self.length:
                raise ValueError(f"{field_label(name)}{length} rows, and field {self.names[0]!r} has {self.length}")
        self._versions: dict[str | None, Version] = {}
        self._changed: set[str | None] = set()
        for name in arrays:
            self._version(name)

    def _version(self, name: str | None) -> Version:
        """The version that all rows are read of: immutable, whatever is written to the array."""
        version = self._versions.get(name)
        if version is None:
            if name in self._changed:
                raise StaleHandleError(
                    f"{field_label(name)}the array was changed or refreshed since the dataset was made, which shows "
                    "its former version, and another process cannot: make the dataset and its loader anew",
                    path=self.arrays[name].urlpath,
                )
            # Raises what an array says that could not be opened again.
            self._versions[name] = version = self.arrays[name]._handle.array  # type: ignore[assignment]
        assert version is not None
        return version

    def __getstate__(self) -> dict[str, Any]:
        changed = set(self._changed)
        for name, version in self._versions.items():
            handle = self.arrays[name]._handle
            if handle.locking:
                raise ValueError(
                    f"{field_label(name)}an array with locking=True may change while another process reads samples: "
                    "open it without locking=True"
                )
            # What is pickled of an array is its newest version.
            if handle.array is not version:
                changed.add(name)
        return {**self.__dict__, "_versions": {}, "_changed": changed}

    def label(self, number: int, name: str | None = None) -> str:
        """A sample, for errors."""
        array = self.arrays[name if name in self.arrays else self.names[0]]
        where = array.urlpath
        return f"row {number}" if where is None else f"row {number} of {where}"

    def like(self, name: str | None) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape and dtype of each row."""
        geometry, dtype, _ = self._version(name)
        return tuple(geometry.shape[1:]), dtype

    def part(self, number: int, name: str | None) -> tuple[str, Version, tuple[Any, ...]]:
        """Label, version and leading key of a sample, for what reads a part of it."""
        return self.label(number, name), self._version(name), (number,)

    def read(self, numbers: list[int], name: str | None, out: Items | None, nthreads: int) -> Any:
        """The rows: in `out`, or stacked."""
        return read_many(self._version(name), numbers, nthreads, out)


class StoreLeaves:
    """Samples that are leaves of a store, or groups of leaves.

    Parameters
    ----------
    store : Store or path
        Open for reading, without ``locking=True``.
    fields : sequence of str, dict of str, or None
        Names of leaves below the key of a sample, or patterns with ``{}`` for the key. None: each leaf is a sample.
    keys : iterable of str, optional
        The keys of the samples. Otherwise all that have the first field.
    """

    def __init__(self, store: Any, fields: FieldNames, keys: Iterable[str] | None) -> None:
        if isinstance(store, (str, os.PathLike)):
            on_server = scheme_of(str(store)) not in (None, "file")
            store = open(store, mode="r", mmap_mode=None if on_server else "r")
        if not isinstance(store, Store):
            raise TypeError(f"samples are read from a store, or from arrays, not from {type(store).__name__}")
        if store.mode != "r" or store._owner._session.sharing is not None:
            raise ValueError(
                f"{store!r} may change while samples are read: open it with mode='r', without locking=True"
            )
        self.store = store
        self._shown = self._stamp()
        self._in_files = store._owner._backend.suffix == ".b2d"
        # Of the time when the store was opened: it shows embedded values of then.
        self._folder = store._owner._backend._seen[:2] if self._in_files else None  # type: ignore[attr-defined]
        self._made = time.time_ns()
        if self._in_files:
            time.sleep(_TICK)
        self._changed = False
        self.patterns = _patterns(fields)
        self.names = tuple(self.patterns)
        first = self.patterns[self.names[0]]
        self.keys = _found(store, first) if keys is None else _given(keys, self.patterns)
        self.length = len(self.keys)
        for name in self.names if keys is not None else self.names[1:]:
            for key in self.keys:
                leaf = self.patterns[name].replace("{}", key)
                if leaf not in store:
                    raise StoreKeyError(f"sample {key!r} has no {leaf!r} in the store", path=store._owner._file)
        if not self.keys:
            raise ValueError(f"{store!r} has no leaf {first.replace('{}', '...')!r}: there are no samples")

    # ------------------------------------------------------------------ one version
    def _stamp(self) -> Any:
        source = self.store._source
        there = None if source is None else remote_version(source)
        # type: each backend has it
        return self.store._owner._backend._identity if there is None else there  # type: ignore[attr-defined]

    def _folder_now(self) -> tuple[int, ...] | None:
        """Device and inode of the folder of a `.b2d`: its leaves are opened by their paths, whatever lies there."""
        root = self.store._owner._backend.root
        identity = None if root is None or not self._in_files else file_identity(root)
        return identity and identity[:2]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A pickle must not raise; what is wrong is told when a sample is read.
        lost = self.store._session.lost is not None
        self._changed = self._changed or (not lost and self._stamp() != self._shown)

    def check(self) -> None:
        """Refuse to read of another version than the one that was there when the samples were listed."""
        if self._changed or (not self.store._session.closed and self._is_another()):
            raise StaleHandleError(
                "the store was changed or refreshed since its samples were listed: make the dataset and its loader "
                "anew, which then show the newest version",
                path=self.store._owner._file,
            )

    def _is_another(self) -> bool:
        return bool(self._stamp() != self._shown) or (self._in_files and self._folder_now() != self._folder)

    def _leaf(self, number: int, name: str | None) -> tuple[str, NDArray]:
        key = self.key(number, name)
        leaf = self.store[key]
        if not isinstance(leaf, NDArray):
            raise TypeError(f"sample {number}: {key!r} is a {type(leaf).__name__}, not an array")
        if self._in_files:
            self._check_file(key, str(leaf._handle.published.source.path))
        return key, leaf

    def _check_file(self, key: str, path: str) -> None:
        """Refuse a leaf whose file was written after the samples were listed: it is of another version."""
        if os.path.basename(path) == EMBED:  # whose versions are told apart by `_stamp`
            return
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        # A file that was written before, and moved here since, tells that by its second time alone.
        if max(status.st_mtime_ns, _moved(status)) > self._made:
            raise StaleHandleError(
                "the leaf was replaced, or its file linked or given other permissions, since the samples were listed: "
                "make the dataset anew",
                path=self.store._owner._file,
                key=key,
            )

    # ------------------------------------------------------------------ reading
    def key(self, number: int, name: str | None) -> str:
        """The key of a leaf."""
        return self.patterns[name].replace("{}", self.keys[number])

    def label(self, number: int, name: str | None = None) -> str:
        """A sample, for errors."""
        return f"key {(self.key(number, name) if name in self.patterns else self.keys[number])!r}"

    def like(self, name: str | None) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape and dtype of the first sample, which others are compared with."""
        _, leaf = self._leaf(0, name)
        return leaf.shape, leaf.dtype

    def leaf(self, number: int, name: str | None) -> NDArray:
        """The array of a sample."""
        self.check()
        return self._leaf(number, name)[1]

    def part(self, number: int, name: str | None) -> tuple[str, Version, tuple[Any, ...]]:
        """Key, version and leading key of a sample, for what reads a part of it."""
        key, leaf = self._leaf(number, name)
        return key, leaf._handle.array, ()  # type: ignore[return-value]  # set by `_of`

    def read(self, numbers: list[int], name: str | None, out: Items | None, nthreads: int) -> Any:
        """The leaves: in `out`, stacked, or in a list where they are not alike."""
        self.check()
        found = _stores.read_named(self.store, [self.key(number, name) for number in numbers], out, nthreads)
        # What was read is of no use if another version was shown meanwhile, or if one of the files is a new one.
        self.check()
        if self._in_files:
            for number in numbers:
                self._leaf(number, name)
        return found


Source: TypeAlias = ArrayRows | StoreLeaves


def source_of(source: Any, fields: FieldNames, keys: Iterable[str] | None) -> Source:
    """What samples are read from, of what a caller gives."""
    arrays: dict[str | None, NDArray]
    if isinstance(source, NDArray):
        arrays = {None: source}
    elif isinstance(source, Mapping) and not isinstance(source, Store):
        arrays = dict(source)
        if not arrays:
            raise ValueError("no arrays are given")
    else:
        return StoreLeaves(source, fields, keys)
    if fields is not None or keys is not None:
        raise ValueError("fields and keys are for stores; arrays are given by the names of their fields")
    return ArrayRows(arrays)


def field_label(name: str | None) -> str:
    return "" if name is None else f"field {name!r}: "


def _patterns(fields: FieldNames) -> dict[str | None, str]:
    if fields is None:
        return {None: "{}"}
    if isinstance(fields, str):
        raise TypeError(f"fields must be a sequence of names or a dict of patterns, not the string {fields!r}")
    given: dict[Any, str] = (
        dict(fields) if isinstance(fields, Mapping) else {_name(pattern): pattern for pattern in fields}
    )
    if not given:
        raise ValueError("fields is empty")
    patterns: dict[str | None, str] = {}
    for name, pattern in given.items():
        if pattern.count("{}") > 1:
            raise ValueError(f"field {name!r}: {pattern!r} is a pattern with more than one {{}} for the key")
        patterns[name] = pattern if "{}" in pattern else "{}/" + pattern.strip("/")
    return patterns


def _name(pattern: str) -> str:
    return pattern if "{}" in pattern else pattern.strip("/")


def _given(keys: Iterable[str], patterns: dict[str | None, str]) -> list[str]:
    """Keys of samples that a caller names, without slashes that patterns have, too."""
    if isinstance(keys, str):
        raise TypeError(f"keys must be a sequence of keys, not the string {keys!r}")
    given = [str(key).rstrip("/") for key in keys]
    return [key.lstrip("/") for key in given] if any("/{" in pattern for pattern in patterns.values()) else given


def _found(store: Store, pattern: str) -> list[str]:
    """The keys for which a pattern gives a leaf: a `TreeStore` lists its groups, too."""
    head, _, tail = pattern.partition("{}")
    shortest = len(head) + len(tail)
    return [
        key[len(head) : len(key) - len(tail)]
        for key in store
        if len(key) > shortest
        and key.startswith(head)
        and key.endswith(tail)
        and store._contents.has(store._absolute(key))
    ]
