"""Finding leaves of a `.b2d` while a writer moves them between files and the embedded values.

The writer ensures that a leaf is always in one of these tiers, usually in the new one before it leaves the old
(`doc/durability.md`). A reader looks into one after the other, and so may miss the leaf in both. The leaf does not
exist if it was missed although the embedded values did not change meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from blosc2._backends.directory import DirectoryBackend
from blosc2._backends.embedded.frame_map import Embedded, read_embedded
from blosc2._backends.layout import Window
from blosc2._core.keys.keytable import KeyTable

if TYPE_CHECKING:
    from blosc2._stores.backed import BackedStore

# How often a writer may be faster; each time it has waited for a disk.
_TRIES: Final = 50


def find_again(store: BackedStore, key: str) -> Window | None:
    """Where a leaf is that was in no tier when these were looked through; None where there is none.

    After keys were listed, others that came later are none of the store's until its `refresh`.
    """
    backend = store._backend
    listed = store._published_cache
    if not isinstance(backend, DirectoryBackend) or (listed is not None and key not in listed):
        return None
    for _ in range(_TRIES):
        # Mostly there is none, which is seen sooner than by opening it.
        window = backend.locate_now(key) if backend.path_now(key) is not None else None
        if window is not None:
            return window
        newer = _newer(backend, store._verify)
        if newer is None:
            return None if store._newer_embedded is None else store._newer_embedded.locate(key)
        # Only for leaves that were missed: the others stay as they were when the store was opened.
        store._newer_embedded = newer
        window = newer.locate(key)
        if window is not None:
            return window
    return None


def list_tiers(backend: DirectoryBackend, embedded: Embedded) -> tuple[KeyTable, Embedded]:
    """The keys of all files and the embedded values, of which neither lacks a leaf because it was in the other."""
    files = backend.table()
    for _ in range(_TRIES):
        newer = _newer(backend, embedded.verify)
        if newer is None:
            break
        embedded = newer
        files = backend.table(again=True)
    return files, embedded


def _newer(backend: DirectoryBackend, verify: bool | None) -> Embedded | None:
    """The embedded values, if they are not those that were read last."""
    return read_embedded(backend.embed_now, verify) if backend.embed_has_changed() else None
