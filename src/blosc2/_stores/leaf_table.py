"""The leaf table of a store: its keys and leaves, what was changed and not published yet, and who is told of changes.

A store of the public interface is a handle on a table: it makes keys absolute, turns values into frames, and says how
leaves are opened. All else takes the table alone. Handles of one process that have a store open for writing share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

from blosc2 import _stores
from blosc2._backends import ByteRange
from blosc2._core.io.sharing import item_of
from blosc2.exceptions import StoreKeyError

if TYPE_CHECKING:
    from blosc2._core.io.sharing import Lock
    from blosc2._core.io.source import Source
    from blosc2._core.keys.listing import KeyListing
    from blosc2._core.leaves.leaf_access import LeafSetter
    from blosc2._stores.contents import Contents, KeyFollower
    from blosc2._stores.leaves.open_leaves import OpenLeaves
    from blosc2._stores.pending import PendingChanges
    from blosc2._stores.session import Session
    from blosc2._stores.store import Store


class LeafTable:
    """What all handles of one open store share; keys are canonical.

    It has no constructor, so that opening a store takes few calls: `Store` fills it in.

    Attributes
    ----------
    path : str or None
        The path as the user gave it, for errors; None for a store in memory.
    backend : Backend
        Finds and publishes bytes.
    session : Session
        How the store was opened, and whether it may be changed now.
    lock : Lock
        Held by a thread that changes the store.
    pending : PendingChanges
        New frames by key, which `flush` publishes together.
    contents : Contents
        What is published, with the pending changes.
    leaves : OpenLeaves
        The leaves that somebody holds. Every access to a key returns the same object.
    publishing : Publishing
        When changes are published without `flush`.
    followers : list of KeyFollower
        What is told when keys change: the contents, and the next three.
    names, groups, foreign
        The names, the groups and the foreign objects that new keys are compared with; None for what there is not.
    hidden_name : str or None
        The last segment of keys that are not shown, in a store that has groups.
    threshold : int or None
        Values of fewer bytes are embedded: that of the store that changes it, see `table_to_change`.
    counted : tuple or None
        The listing whose groups and leaves were counted last, all of them, and their number.
    handles : list of weakref
        The stores that show it.
    setter : LeafSetter or None
        What sets simple leaves for all handles that compress as `setter_for` says.
    """

    path: str | None
    backend: Any
    session: Session
    lock: Lock
    pending: PendingChanges
    contents: Contents
    leaves: OpenLeaves
    publishing: Any
    followers: list[KeyFollower]
    names: Any = None
    groups: Any = None
    foreign: Any = None
    hidden_name: str | None = None
    threshold: int | None = 0
    counted: tuple[KeyListing, int] | None = None
    handles: list[ref[Store]]
    setter: LeafSetter | None = None
    setter_for: tuple[Any, ...] = ()

    @property
    def has_changes(self) -> bool:
        """Whether there are pending changes, or edited leaves, that can be published."""
        waiting = self.leaves.has_any_edits() or self.pending.frames or self.pending.removed_groups
        return bool(waiting) and self.path is not None

    def needs_closing(self) -> bool:
        """Whether there is anything to publish, or to make durable, when the store ends."""
        return self.has_changes or self.publishing.is_unsettled(self)

    @property
    def source(self) -> Source | None:
        """What the version that is shown is read from: of a `.b2d`, the embedded values."""
        embedded = self.backend.embedded
        return None if embedded is None else embedded.frame.source

    def begin_child(self) -> None:
        """In a forked child: another thread of the parent may have been changing the store."""
        self.session.begin_child()
        self.leaves.begin_child()
        if self.lock.renew():
            self.forget_published_keys()

    # ------------------------------------------------------------------ keys
    def check_assignable(self, key: str) -> None:
        """Refuse a key that no value can have in this kind of store."""
        if self.hidden_name is not None:
            _stores.tree_changes.check_assignable(self, key)

    def admit(self, key: str, byte_range: ByteRange, value: Any, *, is_new: bool) -> bool | None:
        """Refuse a new key that excludes others. Returns whether its leaf gets a file; None if all are alike."""
        if self.names is None:
            return None
        self.names.check_new(key, self.contents, is_new=is_new)
        self.publishing.note_pending(self, key, byte_range, is_new=is_new)
        return _stores.gets_file(self, value, byte_range)

    def missing_key(self, key: str) -> StoreKeyError:
        """The error for a key that has no leaf."""
        members = self.backend.members
        why = None if members is None else members.explain_missing(key)
        error = StoreKeyError(why or f"Key {key!r} not found in the store", path=self.path, key=key)
        if why is None:
            may_be_made = bool(self.hidden_name) and self.session.mode != "r"
            me = ref(self)  # an error that somebody keeps does not keep the store open
            error.ending = lambda: (
                "" if (table := me()) is None else _stores.close_keys(table, key, may_be_made=may_be_made)
            )
        return self.session.if_open(error)

    def has_group(self, path: str) -> bool:
        """Whether there is a leaf below a path."""
        backend = self.backend
        added: int = 0 if self.groups is None else item_of(self.groups.added, path, 0)
        if backend.embedded is None or backend.replaces:
            return added > 0
        published: KeyListing = backend.listing()
        try:
            return published.count(path) + added > 0 if added else published.has_group(path)
        except UnicodeEncodeError:  # such a path cannot be a file name
            return False

    def published_listing(self) -> KeyListing:
        """The keys of all published leaves."""
        if self.contents.placed:
            self.recount()
        listing: KeyListing = self.backend.listing()
        return listing

    # ------------------------------------------------------------------ handles
    def handles_beside(self, store: Store) -> list[Store]:
        """The other stores that show it, and are not closed."""
        found = [one() for one in self.handles] if len(self.handles) > 1 else ()
        return [other for other in found if other is not None and other is not store and other._table is self]

    def forget_leaves(self) -> None:
        """Forget all open leaves: keys get other ones."""
        self.leaves.forget_all()
        for one in self.handles:
            if (handle := one()) is not None:
                handle._find_open_leaves()

    def forget_answers(self) -> None:
        """Nobody answers any more by what is known of the keys."""
        self.counted = None
        for one in self.handles:
            if (handle := one()) is not None:
                handle._forget_answers()

    # ------------------------------------------------------------------ telling who follows the keys
    def key_changed(self, key: str, change: int) -> None:
        """A leaf was replaced (0), added (1) or removed (-1)."""
        for follower in self.followers:
            follower.key_changed(key, change)

    def recount(self) -> None:
        """Pending changes were replaced."""
        if self._show_removed_groups():
            self._begin_version()
        for follower in self.followers:
            follower.recount()

    def begin_version(self) -> None:
        """Another version of the store is shown."""
        self._show_removed_groups()
        self._begin_version()

    def forget_published_keys(self) -> None:
        """The published keys may differ from those listed."""
        self.backend.forget_shown_keys()
        self.begin_version()
        self.recount()

    def list_placed(self) -> None:
        """Let the backend list its keys again, with those published one by one."""
        self.contents.list_placed()
        if self.groups is not None:
            self.groups.recount()

    def _begin_version(self) -> None:
        self.forget_answers()
        for follower in self.followers:
            follower.begin_version()

    def _show_removed_groups(self) -> bool:
        """Let the backend show all but the groups that pending changes remove; whether other keys were shown before."""
        if not self.backend.remove_groups(self.pending.removed_groups):
            return False
        if self.names is not None:
            self.names.forget()
        return True


def table_of(store: Store) -> LeafTable:
    """The table that a store shows."""
    return store._table


def table_to_change(store: Store) -> LeafTable:
    """The table that a store changes now: values are placed as this store was told. With the lock of the table held."""
    table = store._table
    table.threshold = store._threshold
    return table


def whole_of(store: Store) -> Any:
    """The store itself, or the one of which a view shows a group."""
    return store._owner


def group_of(store: Store) -> str:
    """The absolute path of the group that a store shows; "" for all of it."""
    return store._prefix


def has_leaf(store: Store, key: str) -> bool:
    """Whether a store has a leaf at an absolute path."""
    return bool(key) and table_of(store).contents.has(key)
