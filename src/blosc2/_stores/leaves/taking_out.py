"""Methods of a dictionary that find leaves and remove or set them, and nobody else comes between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blosc2 import _stores
from blosc2._core.leaves.store_state import Change
from blosc2.exceptions import StoreKeyError

if TYPE_CHECKING:
    from blosc2._stores.store import Store

# Marks an argument that was not given.
_MISSING: Any = object()


def delete(self: Store, key: str) -> None:
    """Delete a leaf that `LeafSetter` has not removed: it may not know this version of the store yet."""
    if _stores.remove_small(self, key):
        return
    key = self._absolute(key)
    self._session.check_writable("delete items", key)
    with self._lock, Change(self._session):
        if not self._contents.has(key):
            raise self._missing_key(key)
        _stores.changes.remove_at_once(self, key)


def clear(self: Store) -> None:
    """Delete all keys."""
    self._session.check_writable("delete items")
    with self._lock, Change(self._session), _stores.AllOrNone(self):
        _stores.changes.remove_group(self, "")
        for key in self._contents.keys():  # noqa: SIM118 - no mapping
            _stores.changes.remove(self, key)


def pop(self: Store, key: str, default: Any = _MISSING) -> Any:
    """Remove a leaf and return it; it stays readable. For a missing key, return the default if given.

    Raises
    ------
    KeyError
        There is no such key, and no default is given.
    TypeError
        The key is that of a group, or of an object of another package; ``del`` removes these and all below them.
    """
    with self._lock:
        try:
            leaf = self[key]
        except KeyError:
            if default is _MISSING:
                raise
            return default
        self._remove_taken(key, leaf)
        return leaf


def remove_taken(self: Store, key: str, _: Any) -> None:
    """Remove a leaf that is taken out; a `TreeStore` refuses what is none."""
    del self[key]


def popitem(self: Store) -> tuple[str, Any]:
    """Remove the first leaf, in the order of the keys, and return its key and the leaf.

    Raises
    ------
    KeyError
        There is no leaf.
    """
    with self._lock:
        for key in self:
            leaf = self[key]
            del self[key]
            return key, leaf
    raise StoreKeyError("popitem(): there is no leaf", path=self._path)


def setdefault(self: Store, key: str, default: Any = None) -> Any:
    """Return the leaf of a key; if there is none, set it to the default first."""
    with self._lock:
        try:
            return self[key]
        except KeyError:
            self[key] = default
        return default
