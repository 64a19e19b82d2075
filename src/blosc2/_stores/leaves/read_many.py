"""Reading many leaves of a store in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from blosc2 import _indexing, _stores
from blosc2._backends import canonical_key
from blosc2._core.frame.frame import Frame
from blosc2._core.leaves.leaf_batch import LeafBatch
from blosc2._handles import array_of
from blosc2._indexing import check_out
from blosc2._options import get_nthreads, reads_beside
from blosc2._stores.leaves.leaf import leaf_reader
from blosc2.ndarray import NDArray

if TYPE_CHECKING:
    from blosc2._indexing import Version
    from blosc2._stores.store import Store

Items = np.ndarray[Any, Any]


def read_leaf(store: Store, key: str) -> tuple[Items, Version]:
    """The items of one array, and its version: geometry, dtype and frame."""
    leaf = store[key]
    if not isinstance(leaf, NDArray):
        raise TypeError(f"Key {key!r} is a {type(leaf).__name__}, not an array")
    version: Version = leaf._handle.array  # type: ignore[assignment]  # set by `_of`
    return _indexing.read_whole(version, get_nthreads()), version


def read_and_learn(store: Store, key: str) -> Items:
    """Read an array, which is then what others are compared with when they are read."""
    items, (geometry, dtype, frame) = read_leaf(store, key)
    if store._session.mode == "r":
        shown = store._reader  # once: another thread may close the store
        if shown is not None:
            shown.learn(frame, geometry, dtype)
        return items
    if store._session.sharing is not None:
        return items
    with store._lock:
        session = store._session
        is_busy = session.closed or session.streaming or session.is_changing
        setter = None if is_busy else _stores.ready_setter(store)
        if setter is not None:
            reader = setter.reader
            members = store._backend.members
            if reader is None and members is not None and not store._verify and not store._backend.replaces:
                how = store._path, None, store._deserialize
                reader = leaf_reader(members.table(), store._hidden_name, *how, check=store._verify is None)
                setter.read_by(reader)
            if reader is not None and members is not None and frame.source is members.source:
                reader.learn(frame, geometry, dtype)
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
    session = self._session
    if session.asks:
        session.check_open()
        assert session.sharing is not None
        return session.sharing.of_one_version(read_named, self, names, out, get_nthreads())
    return read_named(self, names, out, get_nthreads())


def read_named(self: Store, names: list[Any], out: Items | None, nthreads: int) -> Items | list[Items]:
    """The same for a list of keys, or of pairs, of the version that is shown, in up to so many threads."""
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


def batch_of_members(store: Store, names: list[str], threads: int) -> LeafBatch | None:
    """The leaves of some keys if all are members of one archive; None otherwise."""
    members = store._backend.members
    if members is None or store._session.mode != "r" or store._verify:
        return None
    batch = LeafBatch(members.table(), names, threads, store._hidden_name, store._verify is None)
    # A missing key may be an embedded value; if not, the caller raises the error.
    return None if batch.missing >= 0 else batch


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
    _run([_reading(others[position], target[position, ...]) for position in left], target[0].nbytes, nthreads)
    if out is not None and target is not out:
        out[...] = target
        return out
    return target


def _version(batch: LeafBatch, names: list[str], position: int) -> Version | None:
    """Geometry, dtype and frame of a leaf; None if it is no array."""
    frame = Frame.of_member(batch.archive, batch.record_offset(position), canonical_key(names[position]), batch.check)
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
        readings = [_reading(v, a) for v, a in zip(versions, arrays, strict=True)]
        _run(readings, sum(a.nbytes for a in arrays) // len(names), nthreads)
        return arrays
    target = np.empty((len(names), *first[0].shape), first[1]) if out is None else out
    _run([_reading(v, target[i, ...]) for i, v in enumerate(versions)], target[0].nbytes, nthreads)
    return target


def _reading(version: Version, items: Items) -> Callable[[int], Items]:
    return lambda nthreads: _indexing.read_whole(version, nthreads, items)


def _run(readings: list[Callable[[int], Items]], nbytes: int, nthreads: int) -> None:
    """Read whole arrays, of `nbytes` on average; several at a time if that is faster."""
    if not reads_beside(len(readings), nbytes, nthreads):
        for reading in readings:
            reading(nthreads)
        return
    from blosc2._files import Pool

    with Pool(min(nthreads, len(readings)), thread_name_prefix="blosc2") as pool:
        for _ in pool.map(lambda reading: reading(1), readings):
            pass
