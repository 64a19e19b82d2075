"""Which groups a `TreeStore` has: a group exists as long as there is a leaf below it.

The published leaves of a group are counted by the backend's listing, at no cost.
"""

from __future__ import annotations

from blosc2._backends import TieredBackend
from blosc2._core.leaves.store_state import GroupCounts
from blosc2._stores.pending import PendingChanges


class Groups(GroupCounts):
    """Counts how many leaves pending changes add below each group, or remove.

    Attributes
    ----------
    added : dict
        The number of leaves that are added below a group, by its path; negative if leaves are removed.
    """

    __slots__ = ("_added", "_backend", "_pending")

    def __init__(self, backend: TieredBackend, pending: PendingChanges) -> None:
        self._backend = backend
        self._pending = pending
        self._added: dict[str, int] = {}

    @property
    def added(self) -> dict[str, int]:
        self.take(self._added)
        return self._added

    # ------------------------------------------------------------------ as a follower of the keys: see `KeyFollower`
    def key_changed(self, key: str, change: int) -> None:
        if change:
            self.add(key, change)

    def keys_removed(self, keys: list[str]) -> None:
        for key in keys:
            self.add(key, -1)

    def recount(self) -> None:
        self.begin_version()
        for key, byte_range in self._pending.frames.items():
            self.key_changed(key, (byte_range is not None) - (key in self._backend))

    def begin_version(self) -> None:
        """Another version of the store is shown: it has the changes that were pending, or they were dropped."""
        self.forget()
        self._added = {}
