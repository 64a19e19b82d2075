"""The modes of a store, and their valid combinations."""

from __future__ import annotations

from typing import Final, Never

_MODES: Final = ("r", "w", "a", "x")


def check_mode(mode: str) -> None:
    """Refuse what is not one of the modes of a store."""
    if mode not in _MODES:
        raise ValueError(f"mode must be 'r', 'w', or 'a', or 'x' to create only, not {mode!r}")


def refuse_locking(path: str | None, mmap_mode: str | None) -> Never:
    """Say why a store cannot be changed by several programs at a time."""
    if mmap_mode is not None:
        raise ValueError("locking=True and mmap_mode do not go together, and stores have no locking here")
    kind = "a zip store" if path is not None and path.endswith(".b2z") else "a store"
    raise ValueError(f"locking=True is not possible: {kind} has one writer at a time, and readers need no lock")


def check_mmap_mode(mmap_mode: str | None, mode: str) -> None:
    """Refuse a mapping mode that a store does not have, or not with this mode."""
    if mmap_mode not in (None, "r"):
        raise ValueError(f"mmap_mode must be None or 'r' for a store, not {mmap_mode!r}")
    if mmap_mode == "r" and mode != "r":
        raise ValueError(f"mmap_mode='r' requires mode='r', not {mode!r}: a mapped store is read-only")
