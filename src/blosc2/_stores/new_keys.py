"""Whether new keys can have a leaf: each is checked against the keys of the store, and against other new ones.

The leaf of a key may become a file, so two keys may not differ in case only, and a group may not be named like the file
of a leaf. Whether a key is legal by itself is decided by `_backends.key_rules`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from blosc2._arrays import raw_kinds
from blosc2._backends import KEY_RULES, LEAF_SUFFIXES, RESERVED, new_key, suffixed_folders
from blosc2._core.keys.key_admission import (
    KeyAdmission,
    KeySet,
    KnownNames,
    same_folded,
)
from blosc2._stores.contents import Contents

if TYPE_CHECKING:
    from blosc2._backends import LeafStream
    from blosc2._core.leaves.leaf_stream import SmallLeaves
    from blosc2._stores.leaf_table import LeafTable
    from blosc2.dict_store import DictStore

# The most keys of one call that are noted. Further keys are not compared with each other.
_MOST_KEYS: Final = 1 << 22


class KeyClashes(KnownNames):
    """Compares each new key with the keys of the store.

    It keeps hashes of the keys without regard to case, and the groups that are named like the file of a leaf. Both are
    made when the first key is checked.
    """

    __slots__ = ("_some_removed",)

    def __init__(self) -> None:
        # Whether hashes of removed keys are still there: they cost time, and give no wrong answer.
        self._some_removed = False

    def check_new(self, key: str, contents: Contents, *, is_new: bool) -> None:
        """Raise `ValueError` for a key that no leaf can have; `is_new` says whether no leaf has it yet."""
        if key[: len(RESERVED) + 1].casefold() == "/" + RESERVED:
            raise ValueError(f"Key {key!r}: what begins with {RESERVED!r} is reserved for the store itself")
        if is_new and not self.unchecked:
            self.check(key, contents)

    def check(self, key: str, contents: Contents) -> None:
        """Raise `ValueError` for a new key whose file could not lie beside the existing ones, and note it otherwise."""
        if self.folded is None:
            self.collect(contents)
        assert self.folded is not None
        self._check_folders(key, contents)
        if not self.take(key):
            self.removed.clear()
            for batch in contents.key_batches():
                for other in same_folded(batch, key):
                    if other != key:
                        raise differs_in_case(key, repr(other))
        self.suffixed.update(suffixed_folders(key))

    def hashes(self, contents: Contents) -> KeySet | None:
        """Hashes of all keys without regard to case; None if these alone do not tell which new key is possible."""
        if self.folded is None:
            self.collect(contents)
        return None if self.unchecked or self.suffixed else self.folded

    def collect(self, contents: Contents) -> None:
        """Collect the names of the keys of a store: all, or it knows none."""
        folded, suffixed = KeySet(), set[str]()
        tables = contents.listing().tables
        for table in tables or ():  # of these keys no strings are made
            for key in folded.add_table(table):
                suffixed.update(suffixed_folders(key))
        for batch in contents.key_batches() if tables is None else ():
            for key in batch:
                folded.add_folded(key)
                if ".b2" in key:
                    suffixed.update(suffixed_folders(key))
        self.folded, self.suffixed, self._some_removed = folded, suffixed, False

    def _check_folders(self, key: str, contents: Contents) -> None:
        """Refuse "/x.b2nd/y" beside "/x"."""
        clashes = [folder for folder in suffixed_folders(key) if contents.has(os.path.splitext(folder)[0])]
        if self.suffixed:
            groups = [key + suffix for suffix in LEAF_SUFFIXES if key + suffix in self.suffixed]
            clashes += [group for group in groups if contents.listing().count(group)]
        if clashes:
            raise folder_clash(key, clashes[0])

    def forget_removed(self) -> None:
        """Collect the keys again if some were removed."""
        if self._some_removed:
            self.folded = None

    def forget(self) -> None:
        """Collect the keys again."""
        self.folded = None

    # ------------------------------------------------------------------ as a follower of the keys: see `KeyFollower`
    def key_changed(self, key: str, change: int) -> None:
        if change < 0:
            self._some_removed = True
            if self.folded is not None:
                self.removed.add(key)

    def keys_removed(self, keys: list[str]) -> None:
        self._some_removed = True
        if self.folded is not None:
            self.removed.update(keys)

    def recount(self) -> None:
        """Some of the noted keys may not exist."""
        self._some_removed = True
        self.removed = set()

    def begin_version(self) -> None:
        """Another version of the store is shown: all of its keys were checked."""
        self.removed = set()


class NewKeys:
    """Admits the keys of many new values one by one, and keeps only their hashes.

    The store has no pending changes. `grouped` says whether a key is either a leaf or a group; None, as in the store.
    """

    def __init__(self, table: LeafTable, names: KeyClashes, *, grouped: bool | None = None) -> None:
        self._table = table
        self._names = names
        self._grouped = table.hidden_name is not None if grouped is None else grouped
        # Whether there may be objects of other packages.
        self._foreign = table.foreign is not None and table.foreign.are_possible()
        # In an empty store only keys that came before can exclude a key.
        self._is_empty = len(table.contents.listing()) == 0
        self.admission = KeyAdmission(_MOST_KEYS, self._grouped)
        if self._is_empty and not self._foreign:
            self.admission.show(None, {}, None)
        self._leaves = self.admission.leaves
        self._groups = self.admission.groups

    def __contains__(self, key: str) -> bool:
        return key in self._leaves

    def may_have(self, key: str) -> bool:
        """Whether a key came, or may have come after noting stopped."""
        return key in self._leaves or len(self._leaves) >= _MOST_KEYS

    def note(self, key: str) -> None:
        """Take note of a key that the store has admitted."""
        self._leaves.add(key)
        self.admission.add_folded(key)
        self._note_groups(key)

    def _note_groups(self, key: str) -> None:
        self.admission.suffixed |= ".b2" in key
        if self._grouped or ".b2" in key:
            self._groups.add_groups(key)

    def __call__(self, key: object) -> str:
        """The canonical form of a key; `ValueError` if it cannot have a value."""
        return self.settle(key, self.admission.admit(key))

    def settle(self, key: object, admitted: bool) -> str:
        """The canonical form of a key, of which `KeyAdmission` has said whether it admits it."""
        return cast("str", key) if admitted else self._admit(new_key(key))

    def small_leaves(self, store: DictStore, stream: LeafStream, progress: Callable[[int, int], Any]) -> SmallLeaves:
        """What writes most small leaves to a stream that has begun."""
        kinds = None if store._asked else raw_kinds(store._encoding())
        backend = self._table.backend
        embedded, members = backend.embedded, backend.members
        if not (self._is_empty or self._foreign or embedded is None or members is None or backend.replaces):
            folded = self._names.hashes(self._table.contents)
            if folded is not None:
                self.admission.show(members.table(), embedded.entries, backend.listing(), folded)
        return stream.small_leaves(self.admission, kinds, progress)

    def _admit(self, key: str) -> str:
        """Look closer at a key: compare it with the store, and its groups with the keys that came before."""
        if not (self._is_empty and key[: key.rfind("/")] in self._groups) or ".b2" in key or "/_" in key:
            self._check(key)
        if self._leaves.add(key):
            return key
        if self._is_empty or not self._table.contents.has(key):
            if not self._is_empty:
                self._names.check(key, self._table.contents)
            if self.admission.add_folded(key):
                raise differs_in_case(key, "another new key")
        if len(self._groups):
            self._check_not_group(key)
        return key

    def _check(self, key: str) -> None:
        self._table.check_assignable(key)
        for folder in suffixed_folders(key):
            if folder.rpartition(".")[0] in self._leaves:
                raise folder_clash(key, folder)
        if self._grouped:
            check_not_below(key, self._leaves.__contains__)
        self._note_groups(key)

    def _check_not_group(self, key: str) -> None:
        if self._grouped and key in self._groups:
            raise ValueError(
                f"Cannot assign array to structural path {key!r} that already has children: use a key below it, or "
                "delete the group first"
            )
        for suffix in LEAF_SUFFIXES if self.admission.suffixed else ():
            if key + suffix in self._groups:
                raise folder_clash(key, key + suffix)


def check_not_below(key: str, has: Callable[[str], bool]) -> None:
    """Refuse a key below that of a leaf; `has` says of a key whether it has one."""
    end = key.find("/", 1)
    while end > 0:
        if has(key[:end]):
            raise ValueError(
                f"Cannot add child {key!r} to path {key[:end]!r} that already contains data: use a key that is not "
                "below it, or delete it first"
            )
        end = key.find("/", end + 1)


def differs_in_case(key: str, other: str) -> ValueError:
    """The error for a key whose file some systems would not tell apart from another."""
    return ValueError(
        f"Key {key!r} differs from {other} in case only, or in how its accents are written, which not every file "
        f"system allows {KEY_RULES}"
    )


def folder_clash(key: str, folder: str) -> ValueError:
    """The error for a key that makes a group and a file of one name."""
    return ValueError(f"Key {key!r}: the group {folder!r} would have the name of the file of a leaf")
