"""Checking the keys of many new values: each against the keys of the store and those before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from blosc2._backends.key_rules import new_key, suffixed_folders
from blosc2._backends.layout import EMBED, LEAF_SUFFIXES
from blosc2._core.keys.folded_keys import AGAIN, GROUP, LIKE_ANOTHER, KeyAdmission

if TYPE_CHECKING:
    from blosc2._stores.backed import BackedStore


# Keys that are noted; nothing is known of further ones.
_MOST_KEYS: Final = 1 << 22


class NewKeys:
    """Admits keys one by one; nothing is kept of them but hashes.

    Parameters
    ----------
    store : BackedStore
        The store that they are for, without unpublished changes.
    """

    def __init__(self, store: BackedStore) -> None:
        self._store = store
        self._grouped = store._has_groups
        # In an empty store nothing can be in the way but what came before.
        self._empty = len(store._listing()) == 0
        self._admission = KeyAdmission(EMBED, _MOST_KEYS)
        self._leaves = self._admission.leaves
        self._groups = self._admission.groups
        # Groups that were looked at: nothing is wrong with them.
        self._parents = self._admission.parents
        # Whether one of them is named like the file of a leaf.
        self._suffixed = False

    def __contains__(self, key: str) -> bool:
        return key in self._leaves

    def may_have(self, key: str) -> bool:
        """Whether a key came, or might have come when there was no more room to note any."""
        return key in self._leaves or len(self._leaves) >= _MOST_KEYS

    def __call__(self, key: object) -> str:
        """The canonical form of a key; `ValueError` where a value cannot have it."""
        if self._empty and not self._suffixed:
            found = self._admission.admit(key)
            if found <= AGAIN:
                return cast("str", key)
            if found == LIKE_ANOTHER:
                raise self._store._differs_in_case(str(key), "another new key")
            if found == GROUP:
                self._check_not_group(str(key))
                return str(key)
        return self._look_closer(new_key(key))

    def _look_closer(self, key: str) -> str:
        parent = key[: key.rfind("/")]
        if not self._empty or ".b2" in key or "/_" in key or parent not in self._parents:
            self._look_at(key, parent)
        if self._leaves.add(key):
            return key
        if not self._empty:
            if not self._store._has(key):
                self._store._check_name(key)
        elif self._admission.folded.add_folded(key):
            raise self._store._differs_in_case(key, "another new key")
        if len(self._groups):
            self._check_not_group(key)
        return key

    def _look_at(self, key: str, parent: str) -> None:
        """Check a key against the store, and its groups against what came before."""
        store = self._store
        store._check_place(key)
        if ".b2" in key:
            self._suffixed = True
            for folder in suffixed_folders(key):
                if folder.rpartition(".")[0] in self._leaves:
                    raise store._folder_clash(key, folder)
        if self._grouped:
            end = key.find("/", 1)
            while end > 0:
                if key[:end] in self._leaves:
                    raise ValueError(f"Cannot add child {key!r} to path {key[:end]!r} that already contains data")
                end = key.find("/", end + 1)
        if self._grouped or ".b2" in key:
            self._groups.add_groups(key)
        self._parents.add(parent)

    def _check_not_group(self, key: str) -> None:
        if self._grouped and key in self._groups:
            raise ValueError(f"Cannot assign array to structural path {key!r} that already has children")
        for suffix in LEAF_SUFFIXES if self._suffixed else ():
            if key + suffix in self._groups:
                raise self._store._folder_clash(key, key + suffix)
