"""The changes of a store that wait to be published."""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING, Any

from blosc2._backends import MEMORY_LIMIT as MEMORY_LIMIT
from blosc2._backends import ByteRange, Renamed
from blosc2._core.io.sharing import item_of
from blosc2._core.leaves.store_state import PendingFrames

if TYPE_CHECKING:
    from blosc2._backends import Backend
    from blosc2._stores.transaction import AllOrNone


class PendingChanges(PendingFrames):
    """New frames by key, and other unpublished changes.

    Attributes
    ----------
    frames : dict
        The new frame of each key that changes; None for a key that is removed.
    tiers : dict
        For keys in `frames`, whether they get a file of their own. A key that is not named stays where it is.
    registry : dict or None
        The objects of other kinds that the store is to declare; None if they do not change.
    unwritten : bool
        Whether the store itself has to be written, even if no key changes.
    in_memory : int
        The bytes of new frames that lie in memory.
    revision : int
        A count that grows when a key is added or removed. Iterators compare it.
    removed_groups : tuple
        Groups of which all that is published is removed; new frames may lie below them. The backend shows that.
    blocks : dict
        The innermost `AllOrNone` block of each thread that has one.
    """

    __slots__ = ()

    frames: dict[str, ByteRange | None]
    blocks: dict[int, AllOrNone]
    registry: dict[str, Any] | None
    removed_groups: tuple[str, ...]

    def clear(self) -> None:
        """Forget all changes: they are published, or dropped."""
        self.frames, self.tiers, self.registry = {}, {}, None
        self.unwritten = False
        self.removed_groups = ()
        self.in_memory = 0

    def check_revision(self, revision: int) -> None:
        """Raise an error if a key was added or removed since the revision."""
        if self.revision != revision:
            raise RuntimeError("keys of the store were added or deleted during iteration")

    def block(self) -> AllOrNone | None:
        """The block that changes of this thread belong to."""
        return item_of(self.blocks, _thread.get_ident()) if self.blocks else None

    def forget_undo(self) -> None:
        """Everything that blocks have changed so far is published: they do not take it back."""
        for block in list(self.blocks.values()):
            block.forget()

    # ------------------------------------------------------------------ memory
    def fits(self, nbytes: int) -> bool:
        """Whether so many more bytes may wait in memory."""
        return self.in_memory + nbytes <= MEMORY_LIMIT

    def count_memory(self) -> None:
        """Count the bytes in memory again, after changes were replaced."""
        self.in_memory = sum(
            byte_range[2] for byte_range in self.frames.values() if byte_range and is_in_memory(byte_range)
        )

    def stage(self, backend: Backend) -> None:
        """Let the backend move frames out of memory, if they are more than fit."""
        if self.in_memory <= MEMORY_LIMIT:
            return
        before = {key: byte_range for key, byte_range in self.frames.items() if byte_range and is_in_memory(byte_range)}
        staged = backend.stage(before, self.tiers)
        self.frames.update(staged)
        for block in list(self.blocks.values()):
            block.staged(before, staged)
        self.in_memory = 0

    # ------------------------------------------------------------------ undoing
    def restore_key(self, key: str, byte_range: Any, tier: bool | None) -> None:
        """Bring back the change of one key; `...` stands for none. It may be called again if it was interrupted."""
        if tier is None:
            self.tiers.pop(key, None)
        else:
            self.tiers[key] = tier
        if byte_range is ...:
            self.frames.pop(key, None)
        else:
            self.frames[key] = byte_range  # last: by it a second call sees that the first one did all

    def without_keys(self) -> tuple[bool, dict[str, Any] | None, tuple[str, ...]]:
        """Pending changes other than those of single keys, for `restore_without_keys`."""
        return self.unwritten, self.registry, self.removed_groups

    def restore_without_keys(self, before: tuple[bool, dict[str, Any] | None, tuple[str, ...]]) -> None:
        """Bring back the pending changes other than those of single keys."""
        self.unwritten, self.registry, self.removed_groups = before

    def remove_group(self, group: str) -> None:
        """Remove all that is published below a group."""
        inside = group + "/"
        self.revision += 1
        others = (one for one in self.removed_groups if not (one + "/").startswith(inside))
        self.removed_groups = (*others, group)
        self.unwritten = True


def is_in_memory(byte_range: ByteRange) -> bool:
    """Whether the bytes of a pending change are in memory alone."""
    return not isinstance(byte_range, Renamed) and byte_range[0].path is None
