"""Telling the objects that know something of the keys of a store when these change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from blosc2._stores.store import Store


class KeyFollower(Protocol):
    """An object that knows something of the keys of a store, and is told when they change."""

    def key_changed(self, key: str, change: int) -> None:
        """The leaf of a key was replaced (0), added (1) or removed (-1)."""

    def recount(self) -> None:
        """Pending changes were replaced, or published keys may be others than those listed."""

    def begin_version(self) -> None:
        """Another version of the store is shown."""


def recount(store: Store) -> None:
    """Tell all followers that the pending changes are others than before."""
    for follower in store._followers:
        follower.recount()


def list_again(store: Store) -> None:
    """Forget which keys are published: others may be than were listed."""
    store._backend.look_again()
    begin_version(store)
    recount(store)


def begin_version(store: Store) -> None:
    """Forget what was made of the keys of the version that was shown before."""
    store._forget_answers()
    for follower in store._followers:
        follower.begin_version()


def key_changed(store: Store, key: str, change: int) -> None:
    """Tell all followers that a leaf was replaced (0), added (1) or removed (-1)."""
    for follower in store._followers:
        follower.key_changed(key, change)
