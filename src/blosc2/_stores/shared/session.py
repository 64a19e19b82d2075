"""What a store with ``locking=True`` has in place of what others have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from blosc2._core.on_demand import import_now
from blosc2._stores.pending import PendingChanges
from blosc2._stores.session import Session
from blosc2._stores.shared.following import Following, SharedFollowing
from blosc2._stores.shared.writing import SharedWriting

if TYPE_CHECKING:
    from blosc2._stores.store import Store


class SharedSession(Session):
    """The state of a store with ``locking=True``, which follows what others publish.

    Attributes
    ----------
    sharing : Following
    writing : SharedWriting or None
        What lets the store be changed in turns; None in mode "r".
    """

    sharing: Following
    writing: SharedWriting | None = None

    def share(self, store: Store, timeout: float | None) -> None:
        """Begin to share a store that was just made."""
        lock = self.writer_lock
        if lock is None:
            self.sharing = following = Following(store)
            changing: Any = following
        else:
            import_now("blosc2._stores", "SharedLeaf")
            self.sharing = following = SharedFollowing(store, lock)
            self.writing = changing = SharedWriting(store, following, timeout)
        reading: Any = following
        self.lock, store._lock = reading, changing
        self.asks = True

    def settle(self) -> None:
        """Nothing: `sharing` and `writing` look at the file."""

    def check_open(self) -> None:
        """Raise an error if the store is closed; else show its newest version."""
        super().check_open()
        self.sharing.follow()


class SharedPending(PendingChanges):
    """The pending changes of a store with ``locking=True``."""

    __slots__ = ()

    def check_revision(self, revision: int) -> None:
        """Do nothing: iterators give the keys of the version at their beginning."""
