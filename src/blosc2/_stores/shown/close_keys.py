"""The keys that somebody may have meant who asked for one that is not there."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from blosc2._stores.shown.outline import children_of
from blosc2._stores.shown.summary import lists_fast
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2._stores.store import Store

# Of a large group only so many names are compared.
_MOST = 1000


def close_keys(store: Store, key: str) -> str:
    """The end of a message that names keys like a missing one, given as an absolute path; "" if there are none."""
    try:
        if store.closed or not lists_fast(store):
            return ""
        return _close_keys(store, key)
    except (OSError, FormatError, RuntimeError):
        return ""  # what is wrong with the store is not what the message is about


def _close_keys(store: Store, key: str) -> str:
    base = ""
    for segment in key.strip("/").split("/"):
        here = f"{base}/{segment}"
        if any(children_of(store, here, 1)):
            base = here
            continue
        groups, leaves = children_of(store, base, _MOST)
        names = _like(segment, {*groups, *leaves} - {segment})
        return f"; is it {' or '.join(repr(f'{base}/{name}') for name in names)}?" if names else ""
    return ""


def _like(wanted: str, names: set[str]) -> list[str]:
    """Up to three names like the wanted one, sorted; capital letters make no difference."""
    folded: dict[str, list[str]] = {}
    for name in names:
        folded.setdefault(name.casefold(), []).append(name)
    found = get_close_matches(wanted.casefold(), folded, 3)
    return sorted(name for close in found for name in folded[close])[:3]
