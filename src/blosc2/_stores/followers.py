"""Followers: objects that keep something about a store's keys, and are told of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from blosc2._stores.store import Store


class KeyFollower(Protocol):
    """An object that keeps something about a store's keys, and is told when keys change."""

    def key_changed(self, key: str, change: int) -> None:
        """The leaf of a key was replaced (0), added (1) or removed (-1)."""

    def keys_removed(self, keys: list[str]) -> None:
        """The leaves of many keys were removed."""

    def recount(self) -> None:
        """Pending changes were replaced, or the published keys may differ from those listed."""

    def begin_version(self) -> None:
        """Another version of the store is shown."""


def show_removed_groups(store: Store) -> bool:
    """Let the backend show all but the groups that pending changes remove; whether other keys were shown before."""
    if not store._backend.remove_groups(store._pending.removed_groups):
        return False
    if store._names is not None:
        store._names.forget()
    return True


def recount(store: Store) -> None:
    """Tell all followers that the pending changes were replaced."""
    if show_removed_groups(store):
        store._forget_answers()
        for follower in store._followers:
            follower.begin_version()
    for follower in store._followers:
        follower.recount()


def forget_published_keys(store: Store) -> None:
    """Forget which keys are published: they may differ from those listed."""
    store._backend.forget_shown_keys()
    begin_version(store)
    recount(store)


def begin_version(store: Store) -> None:
    """Forget what was derived from the keys of the version shown before."""
    show_removed_groups(store)
    store._forget_answers()
    for follower in store._followers:
        follower.begin_version()


def key_changed(store: Store, key: str, change: int) -> None:
    """Tell all followers that a leaf was replaced (0), added (1) or removed (-1)."""
    for follower in store._followers:
        follower.key_changed(key, change)
