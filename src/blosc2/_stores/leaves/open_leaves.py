"""The leaves of one store that somebody holds, and those that were edited."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from blosc2._backends import ByteRange
from blosc2._core.io.sharing import sweep
from blosc2._core.leaves.store_state import HeldLeaves
from blosc2.exceptions import FormatError, UnsupportedKindError

if TYPE_CHECKING:
    from blosc2._stores.leaves.live_leaf import LiveHandle
    from blosc2._stores.pending import PendingChanges

#: How many references to leaves there may be before dead ones are removed.
LEAST_SWEPT: Final = 1024


class OpenLeaves(HeldLeaves):
    """The open leaves of one store by key. It does not refer to the store.

    Attributes
    ----------
    held : dict
        Weak references to leaves. Dead ones are removed by a sweep now and then, which costs less than a callback for
        each leaf.
    handles : dict
        Weak references to the handles of live leaves that were edited, or that not only the leaf has: its super-chunk
        and its metadata share its handle, or an edit would get lost.
    edited : dict
        The handles of leaves that were edited since they were published.
    collecting : dict
        The key whose edits become a pending change just now: `edited` no longer has it, the changes not yet.
    """

    __slots__ = ()

    held: dict[str, weakref.ref[Any]]
    handles: dict[str, weakref.ref[LiveHandle]]
    edited: dict[str, LiveHandle]

    def has_edits(self, key: str) -> bool:
        """Whether a leaf has edits that are no pending change yet. Ask before looking for that change."""
        return key in self.edited or key in self.collecting

    def has_any_edits(self) -> bool:
        """Whether any leaf has."""
        return bool(self.edited or self.collecting)

    def _live_handles(self) -> list[tuple[str, LiveHandle]]:
        found = {key: handle for key, one in self.handles.copy().items() if (handle := one()) is not None}
        for key, one in self.held.copy().items():
            leaf = one()
            if leaf is not None:
                if not leaf._handle.writable:  # nor that of any other leaf: the store is only read
                    break
                found[key] = leaf._handle
        return list(found.items())

    def find_all(self, keys: Iterable[str]) -> Iterator[Any]:
        """The leaves of some keys that somebody holds."""
        for key in keys:
            leaf = self.find(key)
            if leaf is not None:
                yield leaf

    def sweep(self) -> int:
        """Remove dead references. Returns how many references there may be before the next sweep.

        The dead ones never exceed 1024, or the number of leaves that were held at the last sweep.
        """
        held = self.held
        sweep(held)
        sweep(self.handles)
        return max(LEAST_SWEPT, 2 * len(held))

    def all_keys(self) -> set[str]:
        """The keys of all open leaves."""
        return {*self.held.copy(), *(key for key, _ in self._live_handles()), *self.edited.copy()}

    def forget(self, key: str) -> LiveHandle | None:
        """The key gets another leaf, or is removed. Its open leaf can still be read. It may be called again.

        Returns its handle if it has edits that `collect` has not taken.
        """
        handle = self.handle(key)
        if handle is not None:
            handle.had_edits = self.refuse_edits(handle)
        self.held.pop(key, None)  # last: a second call finds it
        self.handles.pop(key, None)
        return handle if handle is not None and handle.had_edits else None

    def forget_all(self) -> None:
        """All keys get other leaves. `held` is another dictionary afterwards."""
        handles = self._live_handles() if self.held or self.handles else []
        self.held = {}
        for _, handle in handles:
            self.refuse_edits(handle)
        self.handles = {}
        self.edited = {}
        self.collecting.clear()  # an interrupt may have left a key, here and below

    def collect(self, pending: PendingChanges) -> None:
        """Make the frames of edited leaves pending changes."""
        edited = self.edited
        block = pending.block() if edited else None
        self.collecting.clear()
        for key, handle in list(edited.items()):
            pending.note(key, block)
            try:
                self.collecting[key] = None
                del edited[key]  # first: an edit made meanwhile is noted again
                pending.frames[key] = byte_range = handle.byte_range()
                if block is not None:
                    block.changes[key] = byte_range
            except BaseException:
                edited.setdefault(key, handle)
                raise
            finally:
                self.collecting.pop(key, None)

    def reload(self, keys: Iterable[str], byte_range_of: Callable[[str], ByteRange | None]) -> None:
        """The changes of some keys were dropped: their open leaves show what the store has now, if it has the key."""
        for key in keys:
            self.edited.pop(key, None)
            handle = self.handle(key)
            if handle is not None:
                with suppress(OSError, FormatError, UnsupportedKindError):  # a damaged leaf is not shown
                    byte_range = byte_range_of(key)
                    if byte_range is not None and handle.reload(byte_range):
                        continue
            self.forget(key)

    def reload_edited(self, keys: Iterable[str], byte_range_of: Callable[[str], ByteRange | None]) -> None:
        """The changes of some keys were dropped, and all edits, also those that other threads made meanwhile."""
        self.collecting.clear()
        self.reload({*keys, *self.take_edited()}, byte_range_of)

    def follow(self, byte_range_of: Callable[[str], ByteRange | None]) -> None:
        """Another version of the store is shown: open leaves show what it has, as in `reload`."""
        shared: list[tuple[str, Any]] = self._live_handles()
        for key, handle in shared:
            with suppress(OSError, FormatError, UnsupportedKindError):  # a damaged leaf is not shown
                byte_range = byte_range_of(key)
                if byte_range is not None and handle.take_up(byte_range):
                    continue
            self.forget(key)

    def restore(self, key: str, session: Any, handle: LiveHandle | None, leaf: Any, *, edited: bool) -> None:
        """The key gets back a leaf that was open before; `edited` says whether it had edits then."""
        if handle is not None:
            handle.reattach(session)
            self.handles[key] = weakref.ref(handle)
            if edited or handle.had_edits:  # perhaps by another thread, later
                self.edited[key] = handle
        if leaf is not None:
            self.held[key] = weakref.ref(leaf)
