"""Setting a leaf: what bytes a value becomes, and who gives them to a key.

That is done step by step here, and by `LeafSetter` in one native step where it is simple. `leaf` is the other way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from blosc2 import _stores
from blosc2._arrays import TINY, ArrayPlan, cframe_of, raw_kinds, tiny_frame
from blosc2._backends import MAP_BYTES, NewFrame, suffix_of_frame
from blosc2._core.frame.frame_writer import header_length
from blosc2._core.io.source import Source
from blosc2._core.leaves.leaf_access import LeafSetter
from blosc2._core.leaves.store_state import Change
from blosc2._files import TemporaryFile
from blosc2._frames import AnyChunk, Running, Stored, held_in_memory
from blosc2._indexing import lossless
from blosc2._options import absolute_path
from blosc2._stores import pending
from blosc2._stores.changes import put
from blosc2._stores.leaf_table import table_to_change
from blosc2._stores.leaves import leaf_setting
from blosc2._stores.transaction import AllOrNone
from blosc2.exceptions import UnsupportedValueError
from blosc2.schunk import SChunk

if TYPE_CHECKING:
    from blosc2._backends import LeafStream
    from blosc2._stores.leaf_table import LeafTable
    from blosc2._stores.store import Store


#: Arrays of more uncompressed bytes get their frame in a file, not in memory.
LARGE: Final = 64 << 20


class FramedValue(NamedTuple):
    """A value whose frame is made already, and its uncompressed bytes."""

    byte_range: Any
    nbytes: int


def new_frame(frame: bytes, suffix: str, description: bytes | None = None) -> NewFrame:
    """A frame that was made in memory."""
    return NewFrame((Source.of_buffer(frame), 0, len(frame)), suffix, description)


def frame_of(
    value: Any, key: str, path: str | None, encoding: dict[str, Any], *, asked: bool | None = None
) -> NewFrame:
    """The frame of a value that is to be stored; arrays of this package keep their bytes. For `asked` see `tiny_frame`.

    Raises
    ------
    TypeError, AttributeError
        The value cannot be made an array (`UnsupportedValueError`).
    """
    if type(value) is np.ndarray and not value.dtype.hasobject:  # most values
        return compressed(value, path, encoding, asked=asked)
    if type(value) is FramedValue:
        made: NewFrame = value.byte_range
        return made
    if isinstance(value, Stored):
        byte_range = value._handle.byte_range()
        return NewFrame(byte_range, suffix_of_frame(value._handle.frame))
    if isinstance(value, _stores.ForeignObject):
        raise _unsupported(value, key, path, "it has several leaves, which only store[key] = ... of a TreeStore copies")
    if isinstance(value, (Mapping, AbstractSet)):
        if hasattr(value, "get_subtree"):
            raise _unsupported(value, key, path, "store[key] = group of a TreeStore copies it")
        if type(value).__module__.partition(".")[0] == "xarray":
            raise _unsupported(value, key, path, "blosc2.to_store writes its variables", "give one of them")
        raise _unsupported(value, key, path, "its values are stored one by one; to_b2z and to_b2d copy whole stores")
    try:
        array = lossless(value)
    except (TypeError, ValueError) as error:
        raise _unsupported(value, key, path, str(error)) from None
    if array.dtype == object and isinstance(next(array.flat, None), bytes):  # as h5py has texts
        raise _unsupported(value, key, path, "its items are bytes", _BYTES)
    if array.dtype.hasobject and array.ndim:
        instead = _TABLE if array.ndim > 1 or array.dtype.names else _OBJECTS
        raise _unsupported(value, key, path, "its items are Python objects", instead)
    if array.dtype.hasobject or hasattr(value, "to_cframe"):
        raise _unsupported(value, key, path, "it is no array of numbers, strings or dates")
    return compressed(array, path, encoding, asked=asked)


def compressed(
    items: np.ndarray[Any, Any], path: str | None, encoding: dict[str, Any], *, asked: bool | None = None
) -> NewFrame:
    """The frame of an array. The frame of a large array is made in a temporary file."""
    tiny = tiny_frame(items, encoding, asked=asked) if items.nbytes <= TINY else None
    if tiny is not None:
        return new_frame(tiny[0], ".b2nd", tiny[1])
    if path is None or items.nbytes <= LARGE:
        return new_frame(cframe_of(items, encoding), ".b2nd")
    waiting = TemporaryFile(absolute_path(path))
    plan = ArrayPlan(items.shape, items.dtype, encoding)
    header = plan.lay_out(plan.compressed(items), waiting.add)
    parts = (Source.of_buffer(header), 0, len(header)), waiting.byte_range(0)
    source = Source.joined(parts, parts[1][0].path, False)
    return NewFrame((source, 0, source.size), ".b2nd")


# What to give instead of Python objects.
_OBJECTS: Final = (
    "give np.array(list(x), 'U') for texts (fill what is missing, or it becomes 'nan' or 'None'), "
    "np.array(x, 'M8[us]') for dates, or a blosc2.ObjectArray with any objects"
)
_BYTES: Final = "give np.array(x, 'S') if they end in no zeros; of texts of h5py np.array(x.asstr()[()], 'U')"
_TABLE: Final = (
    "give each column for itself, or a table of pandas as table.to_records(index=False, column_dtypes={'name': 'U20'})"
)


def _unsupported(
    value: Any, key: str, path: str | None, why: str, instead: str = "give an array, an array-like or a super-chunk"
) -> UnsupportedValueError:
    kind = type(value).__name__
    article = "an" if kind[0] in "aeioAEIO" else "a"
    return UnsupportedValueError(f"{article} {kind} cannot be stored: {why}; {instead}", path=path, key=key)


def metadata_frame(values: Mapping[str, Any]) -> NewFrame:
    """The frame of a super-chunk that holds only metadata."""
    schunk = SChunk(chunksize=1 << 14, cparams={"typesize": 1})
    schunk.vlmeta.update(values)
    return new_frame(schunk.to_cframe(), ".b2f")


def takes_chunks(table: LeafTable) -> bool:
    """Whether `lay_out` can write to a store."""
    return table.session.sharing is None and table.backend.streaming is not None


def lay_out(table: LeafTable, key: str, plan: ArrayPlan, chunks: Iterable[AnyChunk]) -> NewFrame:
    """The frame of an array, written where it stays; the store's lock is held.

    What would refuse the key later is asked before the first chunk is made.
    """
    stream: LeafStream | None = table.backend.streaming
    assert stream is not None
    with Change(table.session):
        table.session.check_thread("change keys")
        if table.names is not None:
            table.names.check_new(key, table.contents, is_new=not table.contents.has(key))
        plan.summed = True
        chunks = plan.begun(chunks)
        return stream.lay_out(
            key, ".b2nd", plan.most_nbytes(), header_length(plan.metalayers),
            lambda write: plan.lay_out(chunks, write, Running()),
        )  # fmt: skip


def set_small(table: LeafTable, store: Store, key: object, value: Any) -> bool:
    """Give a key a small array in one native call; False, and nothing is done, where `set_leaf` has to look closer."""
    if type(value) is not np.ndarray or table.session.sharing is not None:
        return False
    with table.lock:
        setter = ready_setter(table, store)
        return setter is not None and setter.set(key, value)


def remove_small(table: LeafTable, store: Store, key: object) -> bool:
    """Remove a leaf in one native call; False, and nothing is done, where that takes more."""
    if table.session.sharing is not None:
        return False
    with table.lock:
        setter = ready_setter(table, store)
        return setter is not None and setter.remove(key)


def set_leaf(store: Store, key: str, value: Any) -> None:
    """Give a key that is legal by itself a leaf, with the store's lock held."""
    table = table_to_change(store)
    session, pending = table.session, table.pending
    begun = session.begun + 1
    table.check_assignable(key)
    is_large = type(value) is np.ndarray and value.nbytes > leaf_setting.LARGE and not value.dtype.hasobject
    if is_large and takes_chunks(table):
        plan = ArrayPlan(value.shape, value.dtype, store._encoding())
        value = FramedValue(lay_out(table, key, plan, plan.compressed(value)), value.nbytes)
        begun += 1
    byte_range = frame_of(value, key, table.path, store._encoding(), asked=store._asked)
    with Change(session):
        if session.begun != begun:  # the value, a finalizer or a signal handler has changed the store meanwhile
            table.check_assignable(key)
        if table.publishing.put(table, key, byte_range, value):
            return
        if pending.fits(byte_range[2]) and not table.publishing.is_due(table, byte_range[2], None):
            put(table, key, held_in_memory(byte_range), value)
        else:  # something is to be written, which may fail
            with AllOrNone(table):
                put(table, key, byte_range, value)


def ready_setter(table: LeafTable, store: Store) -> LeafSetter | None:
    """What sets and removes leaves in one native call, with all that it has to know of the version that is shown.

    None for stores that need more steps, and where nothing may be changed now. With the store's lock held.
    """
    session = table.session
    if session.closed or session.mode == "r" or session.streaming or session.unsure or session.is_changing:
        return None
    with Change(session):  # no finalizer shows another version meanwhile
        setter = store._setter
        if setter is None:
            # One for all handles: what it knows of keys, it learns as it sets them.
            encoding = store._cparams, store._asked, store._threshold
            setter = table.setter or (_new_setter(table) if encoding[2] == 0 else None)
            if setter is None:
                return None
            if table.setter is None:
                table.setter, table.setter_for = setter, encoding
                table.followers.append(setter)
            elif table.setter_for != encoding:
                return None
            store._setter = setter
        if not setter.is_ready:
            _show_version(table, setter)
        if setter.wants_kinds:
            _tell_kinds(table, store, setter)
        if table.foreign is not None:
            table.foreign.are_possible()
        setter.be_quiet(*table.publishing.quiet_time(table))
        return setter


def _new_setter(table: LeafTable) -> LeafSetter | None:
    """What sets leaves of a store in one native call; None for stores whose leaves may get files of their own.

    Nor for stores that others change, too.
    """
    backend, session = table.backend, table.session
    is_archive = backend.suffix == ".b2z"
    if session.sharing is not None:
        return None
    if not (is_archive or backend.suffix == ".b2e"):
        return None
    owner = None if session.writer_lock is None else session.writer_lock.owner
    process = -1 if owner is None else owner.pid
    setter = LeafSetter(session, table.pending, table.contents, table.leaves, table.lock, NewFrame, process)
    setter.keep(
        table.names,
        table.groups,
        table.foreign,
        tiered=is_archive,
        memory_limit=pending.MEMORY_LIMIT,
        map_bytes=MAP_BYTES,
    )
    return setter


def _show_version(table: LeafTable, setter: LeafSetter) -> None:
    """Tell a setter what is published."""
    backend = table.backend
    embedded = backend.embedded
    if embedded is None or backend.replaces:
        setter.show(None, {}, None)
    else:
        keys = None if backend.members is None else backend.members.table()
        setter.show(keys, embedded.entries, backend.listing() if keys is not None else None)


def _tell_kinds(table: LeafTable, store: Store, setter: LeafSetter) -> None:
    """Tell a setter how values are compressed."""
    encoding, path, asked = store._encoding(), table.path, store._asked

    def frame_of_items(items: Any) -> NewFrame:
        return compressed(items, path, encoding, asked=asked)

    setter.use_kinds(None if asked else raw_kinds(encoding), frame_of_items)
