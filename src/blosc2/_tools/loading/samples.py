"""The order of samples, what they are read from, a map-style dataset of them, and the memory of large batches."""

from __future__ import annotations

import math
import mmap
import operator
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final, TypeAlias, overload

import numpy as np

from blosc2 import _stores
from blosc2._backends import EMBED
from blosc2._core.io.sharing import in_child, item_of
from blosc2._core.ndim.gaps import as_dtype
from blosc2._files import file_identity
from blosc2._frames import remote_version
from blosc2._indexing import Items, Version, read_many
from blosc2._opening import open
from blosc2._options import get_nthreads, is_remote
from blosc2._stores import Store, has_leaf, table_of
from blosc2.exceptions import StaleHandleError, StoreKeyError
from blosc2.ndarray import NDArray

Integers = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]

_MASK = (1 << 64) - 1
# Up to so many numbers are sorted by random keys: all permutations are then equally likely, which a network of so few
# bits does not reach.
_SORTED = 1 << 12
_ROUNDS = 8
# Up to so many bits of a half, what each round makes of it is looked up, in tables of 128 KB at most.
_TABLE_BITS = 11


def mixed(value: int) -> int:
    """64 well mixed bits of an integer: the finalizer of SplitMix64."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def mixed_words(values: Words) -> Words:
    """64 well mixed bits of each integer of an array, which it overwrites."""
    values += np.uint64(0x9E3779B97F4A7C15)
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


def mixed_all(*values: int) -> int:
    """64 bits that depend on several integers, and on their order."""
    state = 0
    for value in values:
        state = mixed(state ^ mixed(operator.index(value) & _MASK))
    return state


class Permutation:
    """The numbers ``0 .. length - 1`` in a pseudo-random order, each once. It takes no memory, however long it is.

    A Feistel network permutes the next larger power of two; numbers that fall outside are sent through it again. The
    order is the same on all machines and for all versions of NumPy.

    Parameters
    ----------
    length : int
        How many numbers, less than 2**62.
    *seed : int
        One or more integers that choose the order.

    Examples
    --------
    >>> from blosc2 import Permutation
    >>> order = Permutation(10**9, 3)
    >>> len(order), order[0] != order[1]
    (1000000000, True)
    >>> sorted(Permutation(5, 3))
    [0, 1, 2, 3, 4]
    >>> bool((order[4:6] == [order[4], order[5]]).all())
    True
    """

    def __init__(self, length: int, *seed: int) -> None:
        self.length = operator.index(length)
        if not 0 <= self.length < 1 << 62:
            raise ValueError(f"length must be between 0 and 2**62 - 1, not {length}")
        self.seed = tuple(map(operator.index, seed)) or (0,)
        key = mixed_all(*self.seed)
        self._table: Integers | None = None
        if self.length <= _SORTED:
            keys = mixed_words(np.arange(self.length, dtype=np.uint64) ^ np.uint64(key))
            self._table = np.argsort(keys, kind="stable").astype(np.int64)
            return
        bits = (self.length - 1).bit_length()
        self._low_bits = bits // 2
        self._high_bits = bits - self._low_bits
        self._keys = [np.uint64(mixed_all(key, number)) for number in range(_ROUNDS)]
        self._tables: list[Integers] | None = None
        if self._high_bits <= _TABLE_BITS:
            halves = np.arange(1 << self._high_bits, dtype=np.uint64)
            self._tables = [self._round(number, halves).astype(np.int64) for number in range(_ROUNDS)]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: slice | Integers) -> Integers: ...
    def __getitem__(self, position: Any) -> Any:
        """The number at a position, or those at the positions of a slice or an integer array."""
        if isinstance(position, slice):
            return self._at(np.arange(*position.indices(self.length), dtype=np.int64))
        if isinstance(position, np.ndarray):
            if position.size and not (position.min() >= 0 and position.max() < self.length):
                raise IndexError(f"positions must be between 0 and {self.length - 1}")
            return self._at(position.astype(np.int64))
        number = operator.index(position)
        number += self.length if number < 0 else 0
        if not 0 <= number < self.length:
            raise IndexError(f"position {position} of a permutation of {self.length} numbers")
        return int(self._at(np.array([number], np.int64))[0])

    def _at(self, positions: Integers) -> Integers:
        if self._table is not None:
            return self._table[positions]
        found = self._network(positions)
        outside = np.flatnonzero(found >= self.length)
        while len(outside):
            again = self._network(found[outside])
            found[outside] = again
            outside = outside[again >= self.length]
        return found

    def _round(self, number: int, given: Words) -> Words:
        """What a round changes one half by, of the other half."""
        bits = self._high_bits if number % 2 else self._low_bits
        return mixed_words(given ^ self._keys[number]) & np.uint64((1 << bits) - 1)

    def _network(self, values: Integers) -> Integers:
        """The network for numbers below the power of two."""
        low, high = values & ((1 << self._low_bits) - 1), values >> self._low_bits
        for number in range(_ROUNDS):
            # Halves of different lengths are changed in turn.
            given, changed = (low, high) if number % 2 else (high, low)
            if self._tables is None:
                changed ^= self._round(number, given.view(np.uint64)).view(np.int64)
            else:
                changed ^= self._tables[number].take(given)
        return high << self._low_bits | low


# Numbers that are computed together: one by one they would take as long as reading small samples.
_TOGETHER = 1 << 12


@lru_cache(maxsize=8)
def _permutation(length: int, seed: int, epoch: int) -> Permutation:
    return Permutation(length, seed, epoch)


@lru_cache(maxsize=8)
def _part(length: int, seed: int, epoch: int, rank: int, replicas: int, part: int) -> Integers:
    """Some of the numbers that a replica takes, in its order."""
    positions = np.arange(part * _TOGETHER, (part + 1) * _TOGETHER, dtype=np.int64) * replicas + rank
    numbers = _permutation(length, seed, epoch)[positions % length]
    numbers.flags.writeable = False
    return numbers


class Order:
    """The order of samples: epoch after epoch, batch after batch, for one of several replicas.

    Replicas are processes that train together: each takes every `replicas`-th sample, from its rank on. All have the
    same number of samples: with `drop_last` the rest is left out, as are samples that do not fill a batch, else some
    come twice.
    """

    def __init__(
        self, length: int, batch_size: int, *, shuffle: bool = False, seed: int = 0, drop_last: bool = False,
        rank: int = 0, replicas: int = 1,
    ) -> None:  # fmt: skip
        self.length, self.batch_size = operator.index(length), operator.index(batch_size)
        self.shuffle, self.seed, self.drop_last = bool(shuffle), operator.index(seed), bool(drop_last)
        self.rank, self.replicas = operator.index(rank), operator.index(replicas)
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        if not 0 <= self.rank < self.replicas:
            raise ValueError(f"rank must be between 0 and replicas - 1 = {self.replicas - 1}, not {rank}")
        if self.length < 1:
            raise ValueError("there are no samples")
        rest = 0 if self.drop_last else self.replicas - 1
        #: Samples of this replica in an epoch.
        self.own = (self.length + rest) // self.replicas
        #: Batches of this replica in an epoch.
        self.batches = (self.own + (0 if self.drop_last else self.batch_size - 1)) // self.batch_size

    def numbers(self, epoch: int, batch: int) -> Integers:
        if not 0 <= batch < self.batches:
            raise IndexError(f"batch {batch} of an epoch of {self.batches}")
        first = batch * self.batch_size
        stop = min(first + self.batch_size, self.own)
        if not self.shuffle:
            return (np.arange(first, stop, dtype=np.int64) * self.replicas + self.rank) % self.length
        parts = []
        while first < stop:
            part, start = divmod(first, _TOGETHER)
            numbers = _part(self.length, self.seed, epoch, self.rank, self.replicas, part)
            parts.append(numbers[start : start + stop - first])
            first += len(parts[-1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def state(self) -> dict[str, Any]:
        """What two orders that go on from each other have in common."""
        names = ("length", "batch_size", "shuffle", "seed", "drop_last", "replicas")
        return {name: getattr(self, name) for name in names}


# ------------------------------------------------------------------ what samples are read from
# A source shows one version as long as it lives. Where it cannot, it raises `StaleHandleError`, which names the file.

#: What a caller may name fields by: names below the key of a sample, or by name a pattern, or values beside the store.
FieldNames: TypeAlias = "Sequence[str] | Mapping[str, Any] | None"


# Seconds by which the times of files may be behind. Whoever replaces a leaf so shortly after the samples were listed
# does it before the first of them is read.
_TICK: Final = 0.02


def _moved(status: os.stat_result) -> int:
    """When a file was last moved, linked or given other permissions; 0 where the system does not tell."""
    return 0 if os.name == "nt" else status.st_ctime_ns


class ArrayRows:
    """Samples that are rows of arrays of one length, by field, None for the only one; `given` are those in memory."""

    def __init__(self, arrays: dict[str | None, Any]) -> None:
        self.arrays: dict[str | None, NDArray] = {}
        self.given: dict[str | None, Items] = {}
        self.names = tuple(arrays)
        lengths = {}
        for name, array in arrays.items():
            rows = array if isinstance(array, NDArray) else _in_memory(name, array)
            if isinstance(rows, NDArray):
                self.arrays[name] = rows
            else:
                self.given[name] = rows
            if rows.ndim == 0:
                raise ValueError(f"{field_label(name)}a 0-d array has no rows")
            lengths[name] = len(rows)
        self.length = next(iter(lengths.values()), 0)
        for name, length in lengths.items():
            if length != self.length:
                raise ValueError(f"{field_label(name)}{length} rows, and field {self.names[0]!r} has {self.length}")
        self._versions: dict[str | None, Version] = {}
        self._changed: set[str | None] = set()
        for name in self.arrays:
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
        array = item_of(self.arrays, name if name in self.names else self.names[0])
        where = None if array is None else array.urlpath
        return f"row {number}" if where is None else f"row {number} of {where}"

    def is_beside(self, name: str | None) -> bool:
        """Whether a program gave the values of a field, in memory."""
        return name in self.given

    def like(self, name: str | None) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape and dtype of each row."""
        if name in self.given:
            return self.given[name].shape[1:], self.given[name].dtype
        geometry, dtype, _ = self._version(name)
        return tuple(geometry.shape[1:]), dtype

    def part(self, number: int, name: str | None) -> tuple[str, Version, tuple[Any, ...]]:
        """Label, version and leading key of a sample, for what reads a part of it."""
        if name in self.given:
            raise TypeError(
                f"{field_label(name)}patches are read of an NDArray, not of an array of NumPy: blosc2.asarray makes one"
            )
        return self.label(number, name), self._version(name), (number,)

    def read(self, numbers: list[int], name: str | None, out: Items | None, nthreads: int) -> Any:
        """The rows: in `out`, or stacked."""
        if name in self.given:
            return np.take(self.given[name], numbers, axis=0, out=out)
        return read_many(self._version(name), numbers, nthreads, out)


def _in_memory(name: str | None, values: Any) -> Items:
    """Rows that a program gives for a field: an array, a tensor, a column of a table, or a list."""
    if not isinstance(values, (list, tuple)) and not hasattr(values, "__array__"):
        raise TypeError(f"{field_label(name)}an NDArray or an array of NumPy is needed, not {type(values).__name__}")
    if hasattr(values, "filled"):
        raise TypeError(f"{field_label(name)}the array has a mask: values.filled(...) gives numbers without one")
    found: Items = as_dtype(values, None)
    if found.dtype.kind == "O":  # a column of texts
        found = np.array(found.tolist())
    if found.dtype.kind == "O":
        raise TypeError(f"{field_label(name)}numbers or texts are needed, not items of {found.dtype}")
    return found


def _by_key(name: str, values: Any, keys: Sequence[str], *, in_order: bool) -> dict[str, Any] | None:
    """Values of a field by the keys of samples: of a mapping, or of a series of pandas by its index.

    None for values in the order of the samples, which a series has if it is numbered from 0, or if its index has
    numbers and `in_order` says that the caller knows the order. Where these numbers are the keys, in another order,
    nobody can know what is meant.
    """
    if isinstance(values, Mapping):
        pairs = list(values.items())
    else:
        index: Any = getattr(values, "index", None)
        if not hasattr(values, "iloc"):
            return None
        missing = np.flatnonzero(np.asarray(values.isna()).reshape(len(values), -1).any(axis=1))  # a table has columns
        if len(missing):
            first = _text_of(index[missing[0]])
            raise ValueError(f"{field_label(name)}no value for {len(missing)} samples, as {first!r}")
        is_plain = (getattr(index, "start", None), getattr(index, "step", None)) == (0, 1)  # what pandas makes itself
        if is_plain or (in_order and not all(isinstance(key, str) for key in index)):
            named = [_text_of(key) for key in index]
            is_clear = in_order and is_plain  # columns of one table
            if not is_clear and named != list(keys) and set(named) >= set(keys):
                raise ValueError(
                    f"{field_label(name)}the numbers of the index are keys, in another order: give values.to_dict() if "
                    "they name the samples, values.to_numpy() if the values are in the order of the samples"
                )
            return None
        pairs = list(zip(index, np.asarray(values), strict=True))
    found = {_text_of(key).strip("/"): value for key, value in pairs if not _is_missing(value)}
    if len(found) < sum(not _is_missing(value) for _, value in pairs):
        raise ValueError(f"{field_label(name)}a key has more than one value")
    return found


def _is_missing(value: Any) -> bool:
    """Whether a label is NaN or None, as tables have it where there is none."""
    return value is None or (isinstance(value, float) and value != value)


def _text_of(key: Any) -> str:
    """A key of a table, whose texts may be bytes."""
    return key.decode() if isinstance(key, bytes) else str(key)


class StoreLeaves:
    """Samples that are leaves of a store, or groups of leaves.

    Fields are names of leaves below the key of a sample, or patterns with ``{}`` for the key; without any each leaf is
    a sample. Values that are given instead of a pattern lie beside the store: one for each sample. Without keys,
    samples are all that have the first field. The store is open for reading, without ``locking=True``.
    """

    def __init__(self, store: Any, fields: FieldNames, keys: Iterable[str] | None) -> None:
        if isinstance(store, (str, os.PathLike)):
            store = open(store, mode="r", mmap_mode=None if is_remote(str(store)) else "r")
        if not isinstance(store, Store):
            several = "; blosc2.merge makes one store of several" if isinstance(store, (list, tuple)) else ""
            raise TypeError(f"samples are read from a store, or from arrays, not from {type(store).__name__}{several}")
        if store.mode != "r" or table_of(store).session.sharing is not None:
            raise ValueError(
                f"{store!r} may change while samples are read: open it with mode='r', without locking=True"
            )
        self.store = store
        self._shown = self._stamp()
        self._in_files = table_of(store).backend.suffix == ".b2d"
        # Of the time when the store was opened: it shows embedded values of then.
        self._folder = table_of(store).backend.seen[:2] if self._in_files else None
        self._made = time.time_ns()
        if self._in_files:
            time.sleep(_TICK)
        self._changed = False
        self.patterns, beside = _patterns(fields)
        self.names = tuple(fields) if fields is not None and beside else tuple(self.patterns)
        first, *others = self.patterns
        pattern = self.patterns[first]
        self.keys = _found(store, pattern) if keys is None else _given(keys, self.patterns)
        self._has_order = keys is not None  # the caller's, and not the store's
        self.length = len(self.keys)
        for name in self.patterns if keys is not None else others:
            for key in self.keys:
                leaf = self.patterns[name].replace("{}", key)
                if leaf not in store:
                    why = f"sample {key!r} has no {leaf!r} in the store"
                    raise StoreKeyError(why, path=table_of(store).backend.named, key=leaf)
        if not self.keys:
            raise ValueError(f"{store!r} has no leaf {pattern.replace('{}', '...')!r}: there are no samples")
        self.beside = ArrayRows({name: self._of_samples(name, values) for name, values in beside.items()})
        if beside and self.beside.length != self.length:
            raise ValueError(
                f"{field_label(next(iter(beside)))}{self.beside.length} values, and there are {self.length} samples: "
                "give one for each, or a dict by their keys"
            )

    def _of_samples(self, name: str, values: Any) -> Any:
        """The values of a field in the order of the samples."""
        if isinstance(values, NDArray):
            return values
        wanted = [key.strip("/") for key in self.keys]
        by_key = _by_key(name, values, wanted, in_order=self._has_order)
        if by_key is None:
            return values
        missing = [key for key in wanted if key not in by_key]
        if missing:
            count = f"{len(missing)} of {self.length}"
            how = "" if isinstance(values, Mapping) else "; its index says the keys, and values.to_numpy() has none"
            raise ValueError(f"{field_label(name)}no value for {count} samples, as {missing[0]!r}{how}")
        return [by_key[key] for key in wanted]

    # ------------------------------------------------------------------ one version
    def _stamp(self) -> Any:
        source = table_of(self.store).source
        there = None if source is None else remote_version(source)
        return table_of(self.store).backend.identity if there is None else there

    def _folder_now(self) -> tuple[int, ...] | None:
        """Device and inode of the folder of a `.b2d`: its leaves are opened by their paths, whatever lies there."""
        root = table_of(self.store).backend.root
        identity = None if root is None or not self._in_files else file_identity(root)
        return identity and identity[:2]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # A pickle must not raise; what is wrong is told when a sample is read.
        lost = table_of(self.store).session.lost is not None
        self._changed = self._changed or (not lost and self._stamp() != self._shown)

    def check(self) -> None:
        """Refuse to read of another version than the one that was there when the samples were listed."""
        another = self._changed
        if not another and not self.store.closed:
            another = bool(self._stamp() != self._shown) or (self._in_files and self._folder_now() != self._folder)
        if another:
            raise StaleHandleError(
                "the store was changed or refreshed since its samples were listed: make the dataset and its loader "
                "anew, which then show the newest version",
                path=table_of(self.store).backend.named,
            )

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
                path=table_of(self.store).backend.named,
                key=key,
            )

    # ------------------------------------------------------------------ reading
    def key(self, number: int, name: str | None) -> str:
        return self.patterns[name].replace("{}", self.keys[number])

    def label(self, number: int, name: str | None = None) -> str:
        return f"key {(self.key(number, name) if name in self.patterns else self.keys[number])!r}"

    def is_beside(self, name: str | None) -> bool:
        """Whether the values of a field lie beside the store."""
        return name in self.beside.names

    def like(self, name: str | None) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """The shape and dtype of the first sample, which others are compared with."""
        if name in self.beside.names:
            return self.beside.like(name)
        _, leaf = self._leaf(0, name)
        return leaf.shape, leaf.dtype

    def leaf(self, number: int, name: str | None) -> NDArray:
        self.check()
        return self._leaf(number, name)[1]

    def part(self, number: int, name: str | None) -> tuple[str, Version, tuple[Any, ...]]:
        """Key, version and leading key of a sample, for what reads a part of it."""
        if name in self.beside.names:
            return self.beside.part(number, name)
        key, leaf = self._leaf(number, name)
        return key, leaf._handle.array, ()  # type: ignore[return-value]  # set by `_of`

    def read(self, numbers: list[int], name: str | None, out: Items | None, nthreads: int) -> Any:
        """The leaves: in `out`, stacked, or in a list where they are not alike."""
        if name in self.beside.names:
            return self.beside.read(numbers, name, out, nthreads)
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
    arrays: dict[str | None, Any]
    if isinstance(source, (NDArray, np.ndarray)):
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


def _patterns(fields: FieldNames) -> tuple[dict[str | None, str], dict[str, Any]]:
    """The patterns of fields by name, and the values of those that are not read of the store."""
    if fields is None:
        return {None: "{}"}, {}
    if isinstance(fields, str):
        raise TypeError(f"fields must be a sequence of names or a dict of patterns, not the string {fields!r}")
    given: dict[Any, Any] = (
        dict(fields) if isinstance(fields, Mapping) else {_name(pattern): pattern for pattern in fields}
    )
    if not given:
        raise ValueError("fields is empty")
    patterns: dict[str | None, str] = {}
    beside: dict[str, Any] = {}
    for name, pattern in given.items():
        if not isinstance(pattern, str):
            beside[name] = pattern
            continue
        if pattern.count("{}") > 1:
            raise ValueError(f"field {name!r}: {pattern!r} is a pattern with more than one {{}} for the key")
        if "{}" not in pattern:
            pattern = "{}/" + pattern.strip("/")
        patterns[name] = pattern if pattern.startswith(("/", "{}")) else f"/{pattern}"
    if not patterns:
        raise ValueError("no field is read of the store: one at least is a name or a pattern of its leaves")
    return patterns, beside


def _name(pattern: str) -> str:
    return pattern if "{}" in pattern else pattern.strip("/")


def _given(keys: Iterable[str], patterns: dict[str | None, str]) -> list[str]:
    """Keys of samples that a caller names, without slashes that patterns have, too."""
    if isinstance(keys, str):
        raise TypeError(f"keys must be a sequence of keys, not the string {keys!r}")
    given = [_text_of(key).rstrip("/") for key in keys]
    if not given:
        raise ValueError("keys is empty")
    return [key.lstrip("/") for key in given] if any("/{" in pattern for pattern in patterns.values()) else given


def _found(store: Store, pattern: str) -> list[str]:
    """The keys for which a pattern gives a leaf: a `TreeStore` lists its groups, too."""
    head, _, tail = pattern.partition("{}")
    shortest = len(head) + len(tail)
    return [
        key[len(head) : len(key) - len(tail)]
        for key in store
        if len(key) > shortest and key.startswith(head) and key.endswith(tail) and has_leaf(store, store._absolute(key))
    ]


# ------------------------------------------------------------------ memory of large batches
# It is used again, or goes back to the system. What one thread allocates and another one frees stays in the allocator
# of the C library, which has some memory for each thread: with loaders that read in threads, many times what all
# batches take.
#: Bytes above which memory is taken from the system. For less, the allocator keeps little.
LARGE: Final = 1 << 20
# Pieces that nobody has any more, which the next batches of the same size get: memory that was never touched costs as
# much as a fifth of reading a batch. Where a loop takes batches and lets go of them, some are enough.
_spare: deque[mmap.mmap] = deque(maxlen=8)
# What makes batches in threads now: only then there is such memory.
_loops: weakref.WeakSet[Any] = weakref.WeakSet()


def begin_loop(loop: object) -> None:
    """Have large batches get such memory, until the end of this loop."""
    _loops.add(loop)


def end_loop(loop: object) -> None:
    """It may be called again."""
    _loops.discard(loop)
    if not _loops:
        _spare.clear()


def _begin_child() -> None:
    """The threads of all loops stayed with the parent, and so did who ends them."""
    _loops.clear()
    _spare.clear()


in_child(_begin_child)


def large_memory(nbytes: int) -> np.ndarray[Any, Any] | None:
    """So many bytes for a batch as an array of bytes; None where the usual way is the better one."""
    if nbytes <= LARGE or not _loops or not hasattr(mmap, "MAP_PRIVATE"):
        return None
    try:
        pages = _spare_pages(nbytes) or _new_pages(nbytes)
    except OSError:  # the usual way raises MemoryError, if that has none either
        return None
    memory = np.frombuffer(pages, "u1")
    weakref.finalize(memory, _give_back, pages).atexit = False
    return memory


def _give_back(pages: mmap.mmap) -> None:
    """No array or tensor over it is left. The deque drops the oldest piece if it is full."""
    if _loops:
        _spare.append(pages)
        if not _loops:  # the last loop has ended meanwhile
            _spare.clear()


def _spare_pages(nbytes: int) -> mmap.mmap | None:
    for _ in range(len(_spare)):
        try:
            pages = _spare.popleft()
        except IndexError:  # another thread was faster
            return None
        if len(pages) == nbytes:
            return pages
        _spare.append(pages)
    return None


def _new_pages(nbytes: int) -> mmap.mmap:
    pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # where the system has none
            pages.madvise(mmap.MADV_HUGEPAGE)
    return pages


# ------------------------------------------------------------------ samples
#: The number of a sample, or an epoch and a number.
Number = int | tuple[int, int]
#: A shape and a dtype.
Like = tuple[tuple[int, ...], np.dtype[Any]]


class BatchList(Sequence[Any]):
    """A batch as a sequence of samples.

    `whole` is the batch that they are rows of, if there is one. `unlike` is an error that says why they do not fit into
    one, if that is known.
    """

    whole: Any = None
    unlike: ValueError | None = None

    def __reduce__(self) -> Any:  # a worker process may hand it over as it is
        return list, (list(self),)


class BatchRows(list[Any], BatchList):
    """The rows of one array, in a list: torch.stack takes no other sequence."""


class BatchFields(BatchList):
    """Dicts of the rows of several arrays. They are made when somebody takes them; a collate function may need none."""

    def __init__(self, fields: Mapping[str | None, Any], count: int) -> None:
        self._fields, self._positions = fields, range(count)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, position: Any) -> Any:
        found = self._positions[position]
        return [self[i] for i in found] if isinstance(found, range) else {n: a[found] for n, a in self._fields.items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"


# The epoch of a loop over a dataset of somebody else, which hands on numbers alone to those that it reads.
_loop = threading.local()


@contextmanager
def in_epoch(epoch: int) -> Iterator[None]:
    """Let numbers without an epoch mean samples of this one, for what the thread reads meanwhile."""
    before = getattr(_loop, "epoch", None)
    _loop.epoch = epoch
    try:
        yield
    finally:
        _loop.epoch = before


class Dataset:
    """What `Samples` and `PatchSampler` share: numbers, transforms, and how batches are put together.

    Subclasses read: `_read` gives the arrays of some samples by field.
    """

    _source: Source
    seed: int = 0

    def _prepare(self, source: Any, fields: FieldNames, keys: Any, transform: Any, rng: bool, seed: int) -> None:
        self._source = source_of(source, fields, keys)
        if not self._source.length:
            raise ValueError("there are no samples: the arrays have no rows")
        if transform is not None and not callable(transform):
            raise TypeError("transform must be callable")
        if rng and transform is None:
            raise ValueError("rng=True gives random numbers to a transform, and there is none")
        self.transform: Callable[..., Any] | None = transform
        self.rng, self.seed = bool(rng), operator.index(seed)
        self._epoch = self._new_counter()

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The keys of samples, or of the volumes that patches are drawn from; None where they are rows of arrays.

        They have no "/" at their ends, whether they were found or given; the store takes them with and without it.
        """
        return tuple(key.strip("/") for key in self._source.keys) if isinstance(self._source, StoreLeaves) else None

    def set_epoch(self, epoch: int) -> None:
        """Let numbers without an epoch mean samples of this one: other patches, and other numbers for a transform.

        A `Loader` does so by itself. Others need it before each loop, or read the same patches in all of them.
        """
        epoch = operator.index(epoch)
        if epoch < 0:
            raise ValueError(f"epoch must be at least 0, not {epoch}")
        self._epoch[0] = epoch

    # ------------------------------------------------------------------ what joins other libraries replaces
    def _new_counter(self) -> Any:
        """Memory for the epoch, which worker processes see when it is changed, where a library has such."""
        return [0]

    def _new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, Items]:
        """Memory for a batch: what callers get, and the same memory as a NumPy array."""
        memory = large_memory(math.prod(shape) * dtype.itemsize)
        items = np.empty(shape, dtype) if memory is None else memory.view(dtype).reshape(shape)
        return items, items

    def _new_fields(self, like: Mapping[str | None, Like]) -> dict[str | None, tuple[Any, Items]]:
        """An array for each field of a batch, of some shape and dtype."""
        return {name: self._new(shape, dtype) for name, (shape, dtype) in like.items()}

    def _filled(self, items: Items) -> None:
        """Called when a batch was read into the array that `_new` gave."""

    def _as_sample(self, items: Items) -> Any:
        """What a transform gets of an array that was read by itself."""
        return items

    def _stacked(self, samples: list[Any]) -> Any:
        return stacked(samples)

    def _fields_shown(self) -> str:
        named = [name for name in self._source.names if name is not None]
        return f", fields {', '.join(map(repr, named))}" if named else ""

    # ------------------------------------------------------------------ samples
    def __len__(self) -> int:
        raise NotImplementedError

    def _read(self, epochs: list[int], numbers: list[int], nthreads: int) -> dict[str | None, Any]:
        """The items of samples by their epochs and numbers: by field what callers get of a batch, or a list."""
        raise NotImplementedError

    def _label(self, epoch: int, number: int) -> str:  # noqa: ARG002 - patches of an epoch are of other volumes
        return self._source.label(number)

    def __getitem__(self, number: Any) -> Any:
        """A sample: an array, or a dict of arrays by field; or what the transform makes of it.

        Of a list, a range, an array or a tensor of numbers, as a sampler gives it, it is the batch of `read_batch`.
        """
        if isinstance(number, (list, range)) or getattr(number, "ndim", False):
            return self.read_batch(number)
        return self._samples(*self._split([number]), get_nthreads())[0]

    def __getitems__(self, numbers: Sequence[Number]) -> Sequence[Any]:
        """Several samples, read in one call for each field. They are rows of one batch, if there is no transform."""
        return self._samples(*self._split(numbers), get_nthreads())

    def read_batch(self, numbers: Sequence[Number] | Items, nthreads: int | None = None) -> Any:
        """A batch: an array, or a dict of arrays by field, with a first axis of the samples.

        Parameters
        ----------
        numbers : sequence of int, or of tuple of int
            Numbers of samples, or pairs of an epoch and a number.
        nthreads : int, optional
            Threads that may share the decoding.
        """
        return self._batch(*self._split(numbers), get_nthreads() if nthreads is None else nthreads)

    def _split(self, numbers: Sequence[Any] | Items) -> tuple[list[int], list[int]]:
        if not len(numbers):
            raise ValueError("a batch needs at least one sample")
        length = len(self)
        epochs, checked = [], []
        own = getattr(_loop, "epoch", None)
        own = int(self._epoch[0]) if own is None else own
        for number in numbers:
            epoch, given = number if isinstance(number, tuple) else (own, number)
            index = operator.index(given)
            index += length if index < 0 else 0
            if not 0 <= index < length:
                raise IndexError(f"sample {given} of a dataset of {length}")
            epochs.append(operator.index(epoch))
            checked.append(index)
        return epochs, checked

    def _batch(self, epochs: list[int], numbers: list[int], nthreads: int) -> Any:
        if self.transform is not None:
            return self._stacked(list(self._samples(epochs, numbers, nthreads)))
        found = self._read(epochs, numbers, nthreads)
        unlike = self._unlike(epochs, numbers, found)
        if unlike is not None:
            raise unlike
        return found.get(None, found)

    def _unlike(self, epochs: list[int], numbers: list[int], found: dict[str | None, Any]) -> ValueError | None:
        """An error about samples that do not fit into one batch; None if they do."""
        for name, rows in found.items():
            if type(rows) is list:
                return self._do_not_fit(epochs, numbers, name)
        return None

    def _do_not_fit(self, epochs: list[int], numbers: list[int], name: str | None) -> ValueError:
        """An error about samples of which a field differs in shape or dtype."""
        raise NotImplementedError

    def _samples(self, epochs: list[int], numbers: list[int], nthreads: int) -> Sequence[Any]:
        found = self._read(epochs, numbers, nthreads)
        samples = BatchRows(found[None]) if None in found else BatchFields(found, len(numbers))
        if self.transform is None:
            samples.unlike = self._unlike(epochs, numbers, found)
            samples.whole = found.get(None, found) if samples.unlike is None else None
            return samples
        made = []
        for epoch, number, sample in zip(epochs, numbers, samples, strict=True):
            with naming(f"sample {number}, {self._label(epoch, number)}"):
                made.append(self.transform(sample, *self._random(epoch, number)))
        return made

    def _random(self, epoch: int, number: int) -> tuple[Any, ...]:
        """The generator that a transform gets, which depends on the seed and the sample alone."""
        return (np.random.Generator(np.random.PCG64(mixed_all(self.seed, epoch, number, 1))),) if self.rng else ()


class Samples(Dataset):
    """Samples of a store, or rows of arrays: a map-style dataset, which needs no other library.

    A batch is read in one call for each field, in several threads, into new memory that nothing copies any more.

    Parameters
    ----------
    source : NDArray, dict of NDArray, store or path
        An array has a sample in each row; a dict has arrays of one length by field. Some of them may be arrays of
        NumPy, lists or columns of a table, such as labels. A store must be open with ``mode="r"``; a path is opened
        so, mapped.
    fields : sequence of str or dict, optional
        Of a store: names of the leaves below the key of a sample, such as ``("image", "mask")``, or patterns by field,
        such as ``{"image": "/images/{}", "mask": "/masks/{}"}``. By default each leaf is a sample. Values beside the
        store may stand for a pattern, such as ``{"image": "/images/{}", "label": labels}``: an array with a row for
        each sample, or a dict by their keys; a series of pandas whose index has texts is looked up by them, too.
    keys : iterable of str, optional
        The keys of the samples; by default all that have the first field that is read of the store, in its order.
    transform : callable, optional
        Called with each sample; what it returns is the sample then. Threads call it at the same time.
    rng : bool
        Give `transform` a second argument: a `numpy.random.Generator` that depends on the seed, the epoch and the
        number of the sample alone.
    seed : int
        For `rng`, and for the order of a `Loader`.

    Raises
    ------
    KeyError
        A sample lacks a field, or a key does not exist; the error says which.
    ValueError
        There are no samples, or not a value for each; or, when a batch is put together, a sample has another shape or
        dtype than the first one. The error names its key.
    StaleHandleError
        When a sample is read: the store was replaced, changed or refreshed since the dataset was made, so that a
        batch would mix versions.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> images = blosc2.asarray(np.arange(24, dtype="u1").reshape(6, 2, 2))
    >>> labels = blosc2.asarray(np.arange(6))
    >>> samples = blosc2.Samples({"image": images, "label": labels})
    >>> len(samples)
    6
    >>> int(samples[5]["label"])
    5
    >>> batch = samples.read_batch([4, 1])
    >>> batch["image"].shape, batch["label"]
    ((2, 2, 2), array([4, 1]))
    """

    def __init__(
        self, source: Any, fields: FieldNames = None, *, keys: Iterable[str] | None = None,
        transform: Callable[..., Any] | None = None, rng: bool = False, seed: int = 0,
    ) -> None:  # fmt: skip
        self._prepare(source, fields, keys, transform, rng, seed)
        self._like = {name: self._source.like(name) for name in self._source.names}

    def __len__(self) -> int:
        return self._source.length

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples{self._fields_shown()})"

    def _read(self, epochs: list[int], numbers: list[int], nthreads: int) -> dict[str | None, Any]:  # noqa: ARG002
        found: dict[str | None, Any] = {}
        count = len(numbers)
        new = self._new_fields({name: ((count, *shape), dtype) for name, (shape, dtype) in self._like.items()})
        for name, (given, out) in new.items():
            try:
                self._source.read(numbers, name, out, nthreads)
                self._filled(out)
            except ValueError:
                if self._is_like_first(numbers, name):
                    raise
                rows = self._source.read(numbers, name, None, nthreads)
                given = [self._as_sample(row) for row in rows] if isinstance(rows, list) else self._as_sample(rows)
            found[name] = given
        return found

    def _is_like_first(self, numbers: list[int], name: str | None) -> bool:
        """Whether the items of a field have the shape and dtype of the first sample of all."""
        source = self._source
        if not isinstance(source, StoreLeaves) or name not in source.patterns:
            return True
        leaves = [source.leaf(number, name) for number in numbers]
        return all((leaf.shape, leaf.dtype) == self._like[name] for leaf in leaves)

    def _do_not_fit(self, epochs: list[int], numbers: list[int], name: str | None) -> ValueError:  # noqa: ARG002
        source = self._source
        assert isinstance(source, StoreLeaves)
        leaves = [source.leaf(number, name) for number in numbers]
        names = [f"sample {number}: key {source.key(number, name)!r}" for number in numbers]
        names[0] = f"sample {numbers[0]}, {source.key(numbers[0], name)!r},"
        return unlike(names, [(leaf.shape, leaf.dtype) for leaf in leaves])


def unlike(names: list[str], kinds: list[Like]) -> ValueError:
    """The error about parts of a batch, by their names, that differ in shape or dtype."""
    at = next(i for i, kind in enumerate(kinds) if kind != kinds[0])
    return ValueError(
        f"{names[at]} has shape {kinds[at][0]} and dtype {kinds[at][1]}, and {names[0]} has {kinds[0][0]} and "
        f"{kinds[0][1]}: they do not fit into one batch without a transform that makes them alike; {UNSTACKED}"
    )


#: What a loader is told to do with samples that do not fit into one array.
UNSTACKED: Final = "batch_size=None of a loader gives samples one by one, and collate_fn=list gives lists of them"


@contextmanager
def naming(where: str) -> Any:
    try:
        yield
    except Exception as error:
        error.add_note(where)
        raise


def stacked(samples: list[Any]) -> Any:
    """A batch of samples: arrays and numbers are stacked, dicts and tuples field by field; other things stay a list."""
    first = samples[0]
    if isinstance(first, dict):
        return {name: stacked([sample[name] for sample in samples]) for name in first}
    if isinstance(first, tuple):
        parts = [stacked(list(part)) for part in zip(*samples, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if isinstance(first, (np.ndarray, np.generic, int, float)):
        arrays = [np.asarray(sample) for sample in samples]
        other = next((array.shape for array in arrays if array.shape != arrays[0].shape), None)
        if other is not None:
            shapes = f"{arrays[0].shape} and {other}"
            raise ValueError(f"samples of shapes {shapes} do not fit into one batch: make them alike; {UNSTACKED}")
        return np.stack(arrays)
    return samples
