"""Setting many keys in one call.

To a `.b2z`, very many leaves are written as they come, so that memory is bounded whatever their number. To other
stores, and in transactions, they are set one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import chain, islice
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, cast

from blosc2 import _backends, _stores
from blosc2._backends import MEMORY_LIMIT, ByteRange, filed_as
from blosc2._core.io.sharing import Block
from blosc2._core.leaves.store_state import Change
from blosc2._stores.leaf_table import group_of, table_of, table_to_change, whole_of
from blosc2._stores.pending import is_in_memory
from blosc2._stores.publish import Publication, flush, load, load_if_behind
from blosc2.exceptions import UnsupportedValueError, name_file

if TYPE_CHECKING:
    from blosc2._backends import LeafStream
    from blosc2._core.leaves.leaf_stream import SmallLeaves
    from blosc2._stores.leaf_table import LeafTable
    from blosc2._stores.leaves.many_frames import Filed
    from blosc2._stores.store import Store
    from blosc2.dict_store import DictStore

#: Key, uncompressed bytes, and the frame of a leaf with its suffix and description.
Framed: TypeAlias = "tuple[str, int, Filed]"


#: Keys and values, as `update` of a dict takes them.
Items: TypeAlias = "Mapping[str, Any] | Iterable[tuple[str, Any]]"

Progress = Callable[[int, int], Any]

# Progress is reported each time that so many leaves were written.
_PROGRESS_EACH: Final = 1024


def update_store(store: Store, items: Items, more: Mapping[str, Any]) -> None:
    """Set many keys, or none; see `Store.update`."""
    table = table_of(store)
    session = table.session
    if session.sharing is not None:
        session.check_writable("set items")
        with table.lock, _stores.AllOrNone(table):
            _set_each(store, _absolute(store, _pairs(items, more)))
        return
    with _stores.AllOrNone(table):
        values = _absolute(store, _pairs(items, more))
        if (
            session.mode == "r"
            or session.transaction is not None
            or table.has_changes  # their publication must not depend on whether all of these can be set
            or _stream_of(store) is None
        ):
            _set_each(store, values)
            return
        if not _are_many(values):
            # The first ones are pending like other changes: for a few, a stream would take longer.
            _set_each(store, islice(values, _backends.CATALOG_LEAST - 1))
        for item in values:
            with table.lock:
                _stream_update(cast("DictStore", store), chain((item,), values))


def write_many(self: Store, items: Items, *, progress: Callable[[int, int], Any] | None = None) -> int:
    """Set many keys at once: values are taken one by one, compressed in several threads, and published together.

    Changes made before the call are published first. The values become visible in one step, after the last one is
    written; if anything raises, none of them is stored. Inside a transaction, they are published with it.

    A `.b2z` is written as the values come, and memory is bounded, whatever their number: the records of the
    directory are sorted in files when they exceed 96 MiB. (To notice keys that exclude each other, hashes of 24 to
    60 bytes are kept for up to 4 million leaves; further keys are not compared with each other.) The other stores
    keep some hundred bytes for each leaf until the end.

    Parameters
    ----------
    items : mapping, or iterable of (str, array_like)
        Keys and values. If a key comes twice, the last value counts. An array may be used again for the next value.
    progress : callable, optional
        Called from time to time, and at the end, with the number of leaves written and their uncompressed bytes.

    Returns
    -------
    int
        The number of values written.

    Raises
    ------
    ValueError, TypeError
        A key or value cannot be stored, as for ``store[key] = value``.
    RuntimeError
        The iterable changes, flushes or closes the `.b2z` meanwhile; reading it in the same thread is allowed.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> path = os.path.join(tempfile.mkdtemp(), "tiles.b2z")
    >>> with blosc2.TreeStore(path, mode="w") as store:
    ...     store.write_many((f"/{n % 3}/{n}", np.full((8, 8), n)) for n in range(12))
    12
    """
    table = self._table
    session = table.session
    session.check_writable("write many items")
    values, progress = _absolute(self, _pairs(items)), progress or _no_progress
    with table.lock:
        if session.streaming:  # begun while this waited for the lock
            session.check_writable("write many items")
        if session.transaction is not None:
            with _stores.AllOrNone(table):
                return _set_many(self, values, progress)
        with Change(session):
            table.leaves.collect(table.pending)
            if table.pending.frames or table.pending.removed_groups:
                flush(table, durable=True)
        stream = _stream_of(self)
        if stream is not None:
            count = _write_as_they_come(cast("DictStore", self), stream, values, progress)
        else:
            with self.transaction():
                count = _set_many(self, values, progress)
    session.check_own()  # a child that `items` has forked has stored nothing
    return count


def _pairs(items: Items, more: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Any]]:
    """Keys and values of the arguments that `update` of a dict takes."""
    if type(items) is dict:
        found: Iterator[tuple[str, Any]] = iter(items.items())  # which tells how many there are
    elif hasattr(items, "keys"):
        values: Any = items
        found = ((key, values[key]) for key in values.keys())  # noqa: SIM118 - as dict does
    else:
        found = iter(items)
    return chain(found, more.items()) if more else found


def _absolute(store: Store, items: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The items with keys of the whole store, if `store` is a view of a group."""
    return ((store._absolute(key), value) for key, value in items) if group_of(store) else items


def _expected(items: Iterator[tuple[str, Any]]) -> int:
    """How many items are to come, as far as they say."""
    try:
        return length_hint(items)
    except Exception:  # noqa: BLE001 - what does not know may say anything
        return 0


def _are_many(items: Iterator[tuple[str, Any]]) -> bool:
    """Whether so many items are to come that a stream is worth while."""
    return _expected(items) >= _backends.CATALOG_LEAST


def _no_progress(count: int, nbytes: int) -> None:
    pass


def _set_each(store: Store, items: Iterable[tuple[str, Any]]) -> None:
    """Set keys of the whole store one by one."""
    whole, kind = whole_of(store), _stores.Store
    for key, value in items:
        if isinstance(value, kind):  # iterating a tree gives its groups, and then what is in them
            raise UnsupportedValueError("a group is copied alone, by store[key] = group", path=whole._path, key=key)
        whole[key] = value


def _set_many(store: Store, items: Iterator[tuple[str, Any]], progress: Progress) -> int:
    """Set keys of the whole store: small values in native steps, others with frames that several threads make."""
    whole = whole_of(store)
    count = nbytes = 0
    pair: tuple[str, Any] | None
    while True:
        setter = _stores.ready_setter(table_of(whole), whole)
        if setter is None:
            pair = next(items, None)
        else:
            count, nbytes, pair = setter.set_many(items, progress, _stores.LEAST, count, nbytes)
        if pair is None:
            break
        with closing(_stores.with_frames(chain((pair,), items), table_of(store).path, store._encoding())) as framed:
            for key, value in framed:
                whole[key] = value
                count += 1
                nbytes += _stores.nbytes_of(value)
                if count % _PROGRESS_EACH == 0:
                    progress(count, nbytes)
                if isinstance(value, _stores.FramedValue):
                    continue
                break  # nothing was taken that comes behind it
    progress(count, nbytes)
    return count


def _stream_of(store: Store) -> LeafStream | None:
    """What writes leaves as they come; None if the store cannot do that."""
    return table_of(store).backend.streaming if store._threshold == 0 else None


def _stream_update(store: DictStore, items: Iterator[tuple[str, Any]]) -> None:
    """Write the pending changes and further items as they come, and publish all."""
    table = table_of(store)
    table.session.check_writable("set items")
    stream, pending = table.backend.streaming, table.pending
    if (
        stream is None
        or table.leaves.edited
        or pending.removed_groups
        or any(byte_range is None or not is_in_memory(byte_range) for byte_range in pending.frames.values())
    ):
        _set_each(store, items)
        flush(table, durable=True)
        return
    with Change(table.session):
        first = _framed(pending.frames)
        before = pending.frames, pending.tiers
        pending.frames, pending.tiers = {}, {}
        table.recount()
    try:
        with _Many(store, items) as many:
            for key, *_ in first:
                many.admit.note(key)
            _write_stream(store, stream, many, first, _no_progress)
    except BaseException:
        if not table.backend.behind:  # nothing is published: the changes of other threads stay pending
            with Change(table.session):
                # A finalizer may have set others meanwhile.
                pending.frames, pending.tiers = before[0] | pending.frames, before[1] | pending.tiers
                table.recount()
        raise


def _framed(frames: dict[str, ByteRange | None]) -> list[Framed]:
    return [(key, 0, (*filed_as(frame), frame)) for key, frame in frames.items() if frame is not None]


def _write_as_they_come(
    store: DictStore, stream: LeafStream, items: Iterator[tuple[str, Any]], progress: Progress
) -> int:
    """Write leaves as they come, and publish them; returns their number. Nothing is pending."""
    are_many = _are_many(items)
    with _Many(store, items) as many:
        first, is_all = ([], False) if are_many else _first_of(many)
        if is_all:
            table_of(store).session.streaming = False
            return _write_few(store, first, progress)
        return _write_stream(store, stream, many, first, progress)


def _first_of(many: _Many) -> tuple[list[Framed], bool]:
    """The first values, too few for a stream or just enough; whether these are all.

    They are kept as frames: the caller may fill the same array again for the next one.
    """
    first: list[Framed] = []
    nbytes = 0
    while len(first) < _backends.CATALOG_LEAST and nbytes <= MEMORY_LIMIT:
        found = many.next()
        if found is None:
            return first, True
        first.append(found)
        frame = found[2][2]
        nbytes += len(frame) if isinstance(frame, bytes) else frame[2]
    return first, False


class _Many(Block):
    """The values of one call: their keys are admitted and their frames made as they are asked for.

    Within the block nothing else may change the store.
    """

    __slots__ = ("_frames", "_is_over", "_items", "_table", "admit")

    def __init__(self, store: DictStore, items: Iterator[tuple[str, Any]]) -> None:
        self._table = table = table_of(store)
        self._is_over = True
        table.names.forget_removed()  # a removed key does not count as another new one
        self.admit = admit = _stores.NewKeys(table, table.names)
        self._items = items
        self._frames = _stores.FrameMaker(((admit(key), value) for key, value in items), table.path, store._encoding())

    def next(self, small: SmallLeaves | None = None) -> Framed | None:
        """The next value with its frame; `small` writes those before that it can. None at the end."""
        while True:
            found = self._frames.take()
            if found is not None:
                return found
            if small is None:
                pair = next(self._items, None)
                if pair is None:
                    return None
                key, value = pair
                self._frames.begin(self.admit(key), value)
            else:
                rest = small.write(self._items)
                if rest is None:
                    return None
                admitted, key, value = rest
                self._frames.begin(self.admit.settle(key, admitted), value)

    def expected(self) -> int:
        """How many more values are to come, as far as they say."""
        return _expected(self._items)

    def __enter__(self) -> Self:
        self._is_over = False
        self._table.session.streaming = True
        return self

    def _leave(self, failed: bool) -> None:
        """End the threads, and let the store be changed again."""
        if self._is_over:
            return
        self._frames.close()
        if failed:
            # Keys were noted that are not stored.
            self._table.forget_published_keys()
        self._table.session.streaming = False
        self._is_over = True

    def __del__(self) -> None:
        if not getattr(self, "_is_over", True):
            self._leave(failed=True)  # which an interrupt left out


def _write_few(store: DictStore, leaves: list[Framed], progress: Progress) -> int:
    """Publish leaves in a transaction."""
    with store.transaction():
        table = table_to_change(store)
        for key, _, filed in leaves:
            _stores.changes.put(table, key, _stores.as_range(filed))
        progress(len(leaves), sum(nbytes for _, nbytes, _ in leaves))
    return len(leaves)


def _write_stream(store: DictStore, stream: LeafStream, many: _Many, first: list[Framed], progress: Progress) -> int:
    """Write leaves as they come, and publish them; returns their number. `first` are those that were taken already."""
    table, admit = table_of(store), many.admit
    pending, session = table.pending, table.session
    load_if_behind(table)
    try:
        stream.begin()
        small = admit.small_leaves(store, stream, progress)
        small.expect(many.expected())
        _add_all(stream, small, chain(_drained(first), iter(partial(many.next, small), None)), progress)
        with Change(session), Publication(table):
            stream.end(_replaced(table, admit), pending.registry)
            pending.unwritten = False
            pending.registry = None
            pending.forget_undo()
            pending.count_memory()
            pending.revision += 1
            table.names.forget()
            for key in filter(admit.may_have, table.leaves.all_keys()):
                table.leaves.forget(key)
            load(table)
    except BaseException as error:
        table.backend.discard()
        name_file(error, table.backend.named)
        raise
    return small.count


def _add_all(stream: LeafStream, small: SmallLeaves, leaves: Iterable[Framed], progress: Progress) -> None:
    for key, nbytes, filed in leaves:
        stream.add(key, *filed)
        small.count += 1
        small.nbytes += nbytes
        if small.count % _PROGRESS_EACH == 0:
            progress(small.count, small.nbytes)
    progress(small.count, small.nbytes)


def _replaced(table: LeafTable, admit: _stores.NewKeys) -> dict[str, None]:
    """The embedded values whose keys were written."""
    embedded = table.backend.embedded
    return {} if embedded is None else {key: None for key in embedded.entries if key in admit}


def _drained(leaves: list[Framed]) -> Iterator[Framed]:
    """The items of a list, which is emptied meanwhile to free their memory."""
    leaves.reverse()
    while leaves:
        yield leaves.pop()
