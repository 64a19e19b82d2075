"""The attributes of a group of a `TreeStore`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from blosc2._core.leaves.store_state import Change
from blosc2._frames import text_name, which_has
from blosc2._stores.changes import put, remove
from blosc2._stores.leaf_table import table_of, table_to_change
from blosc2._stores.leaves.leaf_setting import metadata_frame
from blosc2._stores.transaction import AllOrNone
from blosc2._stores.tree.foreign_objects import ATTRIBUTES
from blosc2._stores.tree.tree_changes import check_new_group, check_not_inside
from blosc2.exceptions import MissingMetadataError

if TYPE_CHECKING:
    from blosc2.tree_store import TreeStore


class GroupAttributes(MutableMapping[str, Any]):
    """Small values that belong to a group: a mapping that is stored in a hidden leaf of the group.

    ``attributes[:]`` reads all as a dictionary; assigning a dictionary to ``attributes[:]`` merges it.
    """

    __slots__ = ("_key", "_store")

    def __init__(self, store: TreeStore, group: str) -> None:
        self._store = store
        self._key = f"{group}/{ATTRIBUTES}"

    def _values(self) -> Any:
        """The metadata of the hidden leaf; empty if there is no such leaf."""
        leaf = self._store._hidden_leaf(self._key)
        return {} if leaf is None else leaf.vlmeta

    def __getitem__(self, name: Any) -> Any:
        values = self._values()
        if isinstance(name, slice):
            _check_all(name)
            return dict(values[:]) if values else {}
        try:
            return values[name]
        except KeyError:
            raise self._missing(name) from None

    def __setitem__(self, name: Any, value: Any) -> None:
        table_of(self._store).session.check_writable("set attributes", self._key)
        if isinstance(name, slice):
            _check_all(name)
            if not isinstance(value, Mapping):
                raise TypeError(f"[:] takes a mapping of attributes, not {type(value).__name__}")
            if value:
                self._set(value)
        else:
            self._set({name: value})

    def _set(self, values: Mapping[str, Any]) -> None:
        """Set entries of the hidden leaf, and make the leaf if there is none."""
        table, key = table_of(self._store), self._key
        with table.lock:
            table_to_change(self._store)
            check_not_inside(table, key)
            with Change(table.session):
                if not table.contents.has(key):
                    group = key[: -len(ATTRIBUTES) - 1]
                    if group:
                        check_new_group(table, group)
                    with AllOrNone(table):  # pending changes may be written to a file, which may fail
                        put(table, key, metadata_frame(values))
                    return
            self._values().update(values)

    def __delitem__(self, name: str) -> None:
        table, key = table_of(self._store), self._key
        table.session.check_writable("delete attributes", key)
        name = text_name(name)
        with table.lock:
            values = self._values()
            if name not in values:
                raise self._missing(name)
            check_not_inside(table, key)
            if list(values) == [name]:
                remove(table, key)  # the leaf is removed with its last entry
            else:
                del values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values()))

    def __len__(self) -> int:
        return len(self._values())

    def __contains__(self, name: object) -> bool:
        return name in self._values()  # without reading the value

    def update(self, other: Any = (), /, **attributes: Any) -> None:
        """Merge a mapping, or pairs, in one change."""
        self[:] = dict(other, **attributes)

    def clear(self) -> None:
        """Delete all attributes."""
        table, key = table_of(self._store), self._key
        table.session.check_writable("delete attributes", key)
        with table.lock:
            check_not_inside(table, key)
            if table.contents.has(key):
                remove(table, key)  # it holds all of them

    def getall(self) -> dict[str, Any]:
        """All attributes as a dictionary."""
        return dict(self[:])

    def to_dict(self) -> dict[bytes, Any]:
        """All attributes as a dictionary whose keys are bytes."""
        return {name.encode(): value for name, value in self.getall().items()}

    def get_names(self) -> list[str]:
        """The names, in the order in which they are stored."""
        return list(self)

    def nvlmetalayers(self) -> int:
        """The number of attributes."""
        return len(self)

    def _missing(self, name: object) -> MissingMetadataError:
        why = f"attribute {name!r} not found in the group, {which_has(self)}"
        return MissingMetadataError(why, path=self._store.localpath, key=self._key[: -len(ATTRIBUTES) - 1] or "/")

    def __repr__(self) -> str:
        return repr(self._values())


def _check_all(name: slice) -> None:
    if name != slice(None):
        raise NotImplementedError("attributes have names, not positions: no slice unless [:]")
