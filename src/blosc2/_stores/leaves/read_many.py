"""Asking the system for leaves before they are opened, so that the disk has many requests to serve and not one."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from blosc2 import _indexing, _stores
from blosc2._backends import canonical_key
from blosc2._core.frame.frame import Frame
from blosc2._core.leaves.leaf_reader import LeafBatch
from blosc2._core.leaves.store_state import KeyIteration
from blosc2._core.ndim.grid_read import ReadMany, ReadTogether
from blosc2._frames import array_of
from blosc2._indexing import Items, Reader, Selection, Version, basic_selection, check_out, planned, reading
from blosc2._options import get_nthreads, reads_beside, run, worth_threads
from blosc2._stores.leaf_table import table_of
from blosc2.ndarray import NDArray

if TYPE_CHECKING:
    from blosc2._stores.store import Store


# Stands for a leaf that was deleted.
_GONE: Final = object()
#: Leaves that are asked for at a time while a store is iterated over, and ahead of those that are opened, at most.
ASKED: Final = 64
MOST_AHEAD: Final = 256


def ask_for_leaves(store: Store, names: list[str], *, heads: bool = False) -> bool:
    """Ask for leaves of an archive that are opened next: for small ones as a whole, for both ends of others.

    With `heads` for both ends of all. Returns False, and asks for nothing, where the last bytes that were needed were
    in memory, or where the leaves are not all members.
    """
    members = table_of(store).backend.members
    if members is None or len(names) < 2 or not members.source.awaits_leaves():
        return False
    batch = store._batch(names, 1)
    if batch is None:
        return False
    batch.ask(heads)
    return True


def ask_for_heads(store: Store, items: list[Any]) -> None:
    """Ask for what is needed to open the leaves of pairs of key and selection."""
    held = table_of(store).leaves.held
    try:
        names = [name for name in {item[0]: None for item in items} if isinstance(name, str) and name not in held]
    except (TypeError, LookupError):  # what is wrong with an item is told where it is read
        return
    ask_for_leaves(store, names, heads=True)


def _asked(store: Store) -> Iterator[list[str]]:
    """The keys, some at a time, whose leaves are opened next. As many more are asked for as were opened so far."""
    opened = 0
    for names in store._key_batches():
        asked = 0
        for start in range(0, len(names), ASKED):
            asked = max(asked, start)
            last = min(start + min(opened, MOST_AHEAD), len(names) - 1)
            while asked <= last and ask_for_leaves(store, names[asked : asked + ASKED]):
                asked += ASKED
            opened += ASKED
            yield names[start : start + ASKED]


def _keys(store: Store) -> Iterator[str]:
    table = table_of(store)
    table.session.check_open()
    return KeyIteration(table.pending, table.pending.revision, _asked(store))


class Keys(KeysView[str]):
    """The keys of a store."""

    _mapping: Store

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping)


class Values(ValuesView[Any]):
    """The leaves of a store."""

    _mapping: Store

    def __iter__(self) -> Iterator[Any]:
        return (leaf for _, leaf in _pairs(self._mapping))


class LeafItems(ItemsView[str, Any]):
    """The keys and leaves of a store."""

    _mapping: Store

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return _pairs(self._mapping)


def _pairs(store: Store) -> Iterator[tuple[str, Any]]:
    """Keys and leaves. Leaves that others delete before it is their turn are left out."""
    table = table_of(store)
    may_go = table.session.sharing is not None or not table.backend.lists_cheaply
    for key in _keys(store):
        leaf = store.get(key, _GONE) if may_go else store[key]
        if leaf is not _GONE:
            yield key, leaf


class _Leaf:
    """The selections of one array in a batch; `positions` are the numbers of its items, by which `shapes` is kept."""

    def __init__(self, key: str, version: Version, positions: list[int], selections: list[Any], nthreads: int) -> None:
        self.key, self.version, self.positions = key, version, positions
        geometry, _, frame = version
        self.operation = ReadMany(frame, geometry, selections, self._selection)
        left_out = set(self.operation.others)
        self.shapes = {
            position: self.operation.shape_of(i) for i, position in enumerate(positions) if i not in left_out
        }
        self.readers: dict[int, Reader] = {
            positions[i]: reading(version, selections[i], nthreads) for i in self.operation.large
        }
        for i in left_out:
            shape, reader = named(positions[i], key, planned, version, selections[i], nthreads)
            self.shapes[positions[i]], self.readers[positions[i]] = shape, reader

    def _selection(self, number: int, key: Any) -> Selection | None:
        found: Selection | None = named(self.positions[number], self.key, basic_selection, key, self.version[0].shape)
        return found


def named(number: int, key: str, function: Any, *arguments: Any) -> Any:
    """Call a function. Its errors name the item of the batch and its key."""
    try:
        return function(*arguments)
    except (IndexError, TypeError, ValueError) as error:
        where = f"item {number} of the batch, a selection of {key!r}"
        if type(error) not in (IndexError, TypeError, ValueError):  # its constructor may take other arguments
            error.add_note(where)
            raise
        raise type(error)(f"{where}: {error}") from error


def read_selections(
    store: Store, items: list[Any], out: Items | None, nthreads: int | None = None
) -> Items | list[Items]:
    """The items of pairs of key and selection; see `Store.read_many`."""
    nthreads = get_nthreads() if nthreads is None else nthreads
    leaves = _leaves(store, items, nthreads)
    shapes: dict[int, tuple[int, ...]] = {}
    dtypes: dict[int, np.dtype[Any]] = {}
    for leaf in leaves:
        shapes.update(leaf.shapes)
        dtypes.update(dict.fromkeys(leaf.positions, leaf.version[1]))
    unlike = [i for i in range(len(items)) if shapes[i] != shapes[0] or dtypes[i] != dtypes[0]]
    if out is not None:
        if unlike:
            i = unlike[0]
            raise ValueError(
                f"item {i} of the batch, of {items[i][0]!r}, has shape {shapes[i]} and dtype {dtypes[i]}, and item 0, "
                f"of {items[0][0]!r}, {shapes[0]} and {dtypes[0]}: they do not fit into one array"
            )
        check_out(out, (len(items), *shapes[0]), dtypes[0])
    elif not unlike:
        out = np.empty((len(items), *shapes[0]), dtypes[0])
    rows = [np.empty(shapes[i], dtypes[i]) if out is None else out[i, ...] for i in range(len(items))]
    _read(leaves, rows, nthreads)
    return rows if out is None else out


def _leaves(store: Store, items: list[Any], nthreads: int) -> list[_Leaf]:
    """The selections of each array, in the order of their first items. Nothing is decoded yet."""
    wanted: dict[int, tuple[str, NDArray, list[int]]] = {}
    ask_for_heads(store, items)
    for number, item in enumerate(items):
        if not isinstance(item, (tuple, list)) or len(item) != 2 or not isinstance(item[0], str):
            raise TypeError(f"item {number} of the batch is no pair of a key and a selection")
        key = item[0]
        try:
            leaf = store[key]
        except Exception as error:
            error.add_note(f"item {number} of the batch")
            raise
        if not isinstance(leaf, NDArray):
            raise TypeError(f"item {number} of the batch: {key!r} is a {type(leaf).__name__}, not an array")
        # While a leaf is held, all its keys give the same object; `wanted` holds it.
        wanted.setdefault(id(leaf), (key, leaf, []))[2].append(number)
    found = []
    for key, leaf, positions in wanted.values():
        version: Version = leaf._handle.array  # type: ignore[assignment]  # set by `_of`
        found.append(_Leaf(key, version, positions, [items[position][1] for position in positions], nthreads))
    return found


def read_parts(parts: list[tuple[str, Version, Any]], rows: list[Items], nthreads: int) -> None:
    """Read selections of many arrays, each into an array of its own, of any strides.

    A part is a name for errors, the version of an array (geometry, dtype, frame), and what is selected.
    """
    wanted: dict[int, tuple[str, Version, list[int]]] = {}
    for position, (name, version, _) in enumerate(parts):
        wanted.setdefault(id(version[2]), (name, version, []))[2].append(position)
    leaves = [
        _Leaf(name, version, positions, [parts[position][2] for position in positions], nthreads)
        for name, version, positions in wanted.values()
    ]
    _read(leaves, rows, nthreads)


def _read(leaves: list[_Leaf], rows: list[Items], nthreads: int) -> None:
    """Read: all threads share an array that is most of the work; others are read side by side."""
    prepared: list[tuple[int, _Leaf]] = []
    for leaf in leaves:
        operation, count = leaf.operation, len(leaf.positions)
        operation.into_rows([rows[position] for position in leaf.positions])
        first = operation.prepare(0)
        while first < count:  # more than fits into memory at a time
            run(operation, operation.cost, nthreads)
            first = operation.prepare(first)
        prepared.append((operation.cost, leaf))
    total = sum(work for work, _ in prepared)
    threads = nthreads if worth_threads(total) else 1
    alone = [leaf for work, leaf in prepared if threads > 1 and work * threads > total]
    for leaf in alone:
        leaf.operation.run(threads)
        leaf.operation.finish()
    # The largest first, so that no thread begins a large one when the others end.
    prepared.sort(key=lambda pair: -pair[0])
    together = ReadTogether([leaf.operation for _, leaf in prepared if leaf not in alone])
    together.run(threads)
    together.finish()
    for leaf in leaves:
        for position, reader in leaf.readers.items():
            reader(rows[position][...])


def read_leaf(store: Store, key: str) -> tuple[Items, Version]:
    """The items of one array, and its version: geometry, dtype and frame."""
    leaf = store[key]
    if not isinstance(leaf, NDArray):
        raise TypeError(f"Key {key!r} is a {type(leaf).__name__}, not an array")
    version: Version = leaf._handle.array  # type: ignore[assignment]  # set by `_of`
    return _indexing.read(version, ..., get_nthreads()), version


def read_and_learn(store: Store, key: str) -> Items:
    """Read an array, which is then what others are compared with when they are read."""
    items, (geometry, dtype, frame) = read_leaf(store, key)
    shown = store._reader  # once: another thread may close the store
    if shown is not None:
        shown.learn(frame, geometry, dtype)
    return items


def read_many(
    self: Store, keys: Iterable[str | tuple[str, Any]], out: np.ndarray[Any, Any] | None = None
) -> np.ndarray[Any, Any] | list[np.ndarray[Any, Any]]:
    """Read the items of many arrays in one call, in several threads, such as the batch of a data loader.

    Parameters
    ----------
    keys : iterable of str, or of (str, selection)
        Keys may be repeated. A selection is what you would write between the brackets of an array, for instance a
        patch of a volume. Selections of one array are read together, and a block that several need is usually
        decoded only once.
    out : ndarray, optional
        An array to read into, of shape ``(len(keys), *shape)`` and the dtype of the arrays, with any strides.

    Returns
    -------
    ndarray or list of ndarray
        `out` if it was given. Otherwise the arrays stacked, if they have one shape and dtype, or a list of them.
        Without keys, an empty list.

    Raises
    ------
    KeyError
        A key does not exist. Nothing has been read then.
    ValueError
        `out` does not fit the arrays, or their shapes differ. Nothing has been written to `out` then.
    IndexError
        A selection is outside its array; the error says which one.
    TypeError
        A key is that of a group or of something else that is not an array; or some items are keys and others pairs.
    FormatError
        An array is damaged. The contents of `out` are undefined then.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> path = os.path.join(tempfile.mkdtemp(), "tiles.b2z")
    >>> with blosc2.DictStore(path, mode="w") as store:
    ...     store.write_many((f"/tile/{n}", np.full(3, n)) for n in range(5))
    5
    >>> with blosc2.DictStore(path, mode="r", mmap_mode="r") as store:
    ...     store.read_many(["/tile/4", "/tile/1"])
    array([[4, 4, 4],
           [1, 1, 1]])
    >>> with blosc2.DictStore(path, mode="r", mmap_mode="r") as store:
    ...     store.read_many([("/tile/4", slice(0, 2)), ("/tile/1", slice(1, 3))])
    array([[4, 4],
           [1, 1]])
    """
    if isinstance(keys, (str, bytes)):
        raise TypeError("keys must be an iterable of keys, not one key")
    names = list(keys)
    session = self._table.session
    if session.asks:
        session.check_open()
        assert session.sharing is not None
        return session.sharing.of_one_version(read_named, self, names, out, get_nthreads())
    return read_named(self, names, out, get_nthreads())


def read_named(self: Store, names: list[Any], out: Items | None, nthreads: int) -> Items | list[Items]:
    """Read a list of keys, or of pairs, of the version that is shown, in up to so many threads."""
    if not names:
        return [] if out is None else _without_rows(out)
    if not isinstance(names[0], str):
        return _stores.read_selections(self, names, out, nthreads)
    plain: list[Any] = names
    batch = self._batch(plain, nthreads)
    if batch is not None:
        found = _read_batch(plain, batch, out, nthreads)
        if found is not None:
            return found
    plain = [key if type(key) is str and key[:1] == "/" else canonical_key(key) for key in names]
    return _read_any(self, plain, out, nthreads)


def _without_rows(out: Any) -> Items:
    if not isinstance(out, np.ndarray) or out.ndim == 0 or len(out):
        raise ValueError("no key is given, and out is no array without rows")
    return out


def _read_batch(names: list[str], batch: LeafBatch, out: Items | None, nthreads: int) -> Items | None:
    """Read arrays of an archive that have one shape and dtype; None if they do not, or are not all arrays."""
    archive = batch.archive
    mapped = archive.source.mapped
    first = _version(batch, names, 0)
    if first is None:
        return None
    geometry, dtype, _ = first
    shape = (len(names), *geometry.shape)
    if out is not None:
        check_out(out, shape, dtype)
    # Mapped headers are compared before anything is read, others when they are read.
    others: dict[int, Version] = {}
    if not batch.compare(first[2], geometry, dtype) and mapped:
        for position in batch.unlike():
            version = _version(batch, names, position)
            if version is None or not _is_like(version, first):
                return None
            others[position] = version
    target = np.empty(shape, dtype)
    if out is not None and mapped and out[0].flags.c_contiguous:
        target = out
    batch.decode(target)
    left = batch.left()
    for position in left:
        if position not in others:
            version = _version(batch, names, position)
            if version is None or not _is_like(version, first):
                return None
            others[position] = version
    if left:
        rows = [target[position, ...] for position in left]
        _read_wholes([names[position] for position in left], [others[position] for position in left], rows, nthreads)
    if out is not None and target is not out:
        out[...] = target
        return out
    return target


def _version(batch: LeafBatch, names: list[str], position: int) -> Version | None:
    """Geometry, dtype and frame of a leaf; None if it is no array."""
    frame = Frame.of_member(batch.archive, batch.record_offset(position), canonical_key(names[position]), batch.check)
    if batch.check and frame.checksums_len:
        frame.check_wholes()
    return array_of(frame) if frame.only_array else None


def _is_like(one: Version, other: Version) -> bool:
    return bool(one[0].shape == other[0].shape and one[1] == other[1])


def _read_any(store: Store, names: list[str], out: Items | None, nthreads: int) -> Items | list[Items]:
    """Read arrays of any store, or of different shapes."""
    leaves = [store[name] for name in names]
    for name, leaf in zip(names, leaves, strict=True):
        if not isinstance(leaf, NDArray):
            raise TypeError(f"Key {name!r} is a {type(leaf).__name__}, not an array")
    versions: list[Version] = [leaf._handle.array for leaf in leaves]
    first = versions[0]
    alike = all(_is_like(version, first) for version in versions)
    if out is not None:
        for name, version in zip(names, versions, strict=True):
            if not _is_like(version, first):
                raise ValueError(
                    f"Key {name!r} has shape {version[0].shape} and dtype {version[1]}, and {names[0]!r} has "
                    f"{first[0].shape} and {first[1]}: they do not fit into one array"
                )
        check_out(out, (len(names), *first[0].shape), first[1])
    if not alike:
        arrays = [np.empty(geometry.shape, dtype) for geometry, dtype, _ in versions]
        _read_wholes(names, versions, arrays, nthreads)
        return arrays
    target = np.empty((len(names), *first[0].shape), first[1]) if out is None else out
    _read_wholes(names, versions, [target[i, ...] for i in range(len(names))], nthreads)
    return target


def _read_wholes(names: list[str], versions: list[Version], rows: list[Items], nthreads: int) -> None:
    """Read whole arrays, each into an array of its own; several at a time if that is faster."""
    if len(rows) > 1 and reads_beside(len(rows), sum(row.nbytes for row in rows) // len(rows), nthreads):
        parts = [(name, version, ...) for name, version in zip(names, versions, strict=True)]
        read_parts(parts, rows, nthreads)
        return
    for version, row in zip(versions, rows, strict=True):
        _indexing.read(version, ..., nthreads, row)
