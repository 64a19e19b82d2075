"""The leaves of one store that somebody holds, and those that were changed since they were handed out."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from blosc2._backends import Window
from blosc2._core.leaves.weak_cache import sweep
from blosc2._stores.leaves.leaf import LiveHandle
from blosc2.exceptions import FormatError, UnsupportedKindError

#: References to leaves that may be dead, before they are looked through.
LEAST_SWEPT: Final = 1024


class OpenLeaves:
    """What is open of one store, by key; it knows nothing of the store.

    Attributes
    ----------
    held : dict
        References to leaves. They do not remove themselves, which would cost each leaf more than a sweep now and then.
    handles : mapping
        What array, super-chunk and metadata views of a live leaf share: one each, or an edit would get lost.
    limit : int
        How many references there may be before they are looked through for the first time.
    edited : dict
        Those of leaves that were changed, and not published since.
    """

    __slots__ = ("edited", "handles", "held", "limit")

    def __init__(self) -> None:
        self.held: dict[str, weakref.ref[Any]] = {}
        self.limit = LEAST_SWEPT
        self.handles: weakref.WeakValueDictionary[str, LiveHandle] = weakref.WeakValueDictionary()
        self.edited: dict[str, LiveHandle] = {}

    def find(self, key: str) -> Any | None:
        """The leaf of a key that somebody holds; None where nobody does."""
        held = self.held.get(key)
        return None if held is None else held()

    def find_all(self, keys: Iterable[str]) -> Iterator[Any]:
        """The leaves of some keys that somebody holds."""
        for key in keys:
            leaf = self.find(key)
            if leaf is not None:
                yield leaf

    def sweep(self) -> int:
        """Forget references to leaves that are gone; how many there may be before the next sweep.

        There are never more dead ones than leaves that were held at the last sweep, or 1024.
        """
        held = self.held
        sweep(held)
        return max(LEAST_SWEPT, 2 * len(held))

    def all_keys(self) -> set[str]:
        """Keys of which something is open."""
        return {*self.held, *self.handles, *self.edited}

    def forget(self, key: str) -> None:
        """The key stands for something else, or nothing, from now on: its leaf can still be read."""
        self.held.pop(key, None)
        self.edited.pop(key, None)
        handle = self.handles.pop(key, None)
        if handle is not None:
            handle.cut_off()

    def forget_all(self) -> None:
        """All keys stand for something else. `held` is another one then."""
        self.held = {}
        for handle in list(self.handles.values()):
            handle.cut_off()
        self.handles = weakref.WeakValueDictionary()
        self.edited = {}

    def note_change(self, handle: LiveHandle) -> None:
        """A leaf was changed: keep it until it is published."""
        if handle.key is None:
            return
        edited = None
        # Another thread may be taking the notes over: then this one belongs to the next.
        while edited is not self.edited:
            edited = self.edited
            edited[handle.key] = handle

    def collect(self, changes: dict[str, Window | None]) -> None:
        """Make the frames of edited leaves pending changes."""
        edited = self.edited
        for key, handle in list(edited.items()):
            try:
                del edited[key]  # first: what is changed meanwhile is noted again
                changes[key] = handle.window()
            except BaseException:
                edited.setdefault(key, handle)
                raise

    def show_again(self, keys: Iterable[str], window_of: Callable[[str], Window | None]) -> None:
        """Leaves of keys whose changes were dropped show what there is now; where there is nothing, what they did."""
        self.edited = {}
        for key in keys:
            handle = self.handles.get(key)
            if handle is not None:
                with suppress(OSError, FormatError, UnsupportedKindError):  # what cannot be read is not shown
                    window = window_of(key)
                    if window is not None and handle.show_again(window):
                        continue
            self.forget(key)

    def bring_back(self, key: str, store: Any, handle: LiveHandle | None, leaf: Any, *, edited: bool) -> None:
        """The key stands for a leaf again that was open before."""
        if handle is not None:
            handle.go_on(store)
            self.handles[key] = handle
            if edited:
                self.edited[key] = handle
        if leaf is not None:
            self.held[key] = weakref.ref(leaf)
