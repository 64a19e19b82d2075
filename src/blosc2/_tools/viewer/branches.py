"""The tree of a store, some of a group at a time, and searching its keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from blosc2._display import Node
from blosc2._stores import Store, outline, walking
from blosc2.tree_store import TreeStore

#: So many groups and leaves of a group are listed at a time.
AT_ONCE = 500
#: A search gives up after so many hits, or keys.
MOST_HITS, MOST_KEYS = 200, 1_000_000


def children(store: Store, group: str, shown: int) -> tuple[list[Node], str]:
    """The next nodes of a group, of which so many are shown, and what is left in words."""
    node = outline(store, group, 1, shown + AT_ONCE)
    return list(node.children), node.more.replace("...", "…")


class Hits(NamedTuple):
    """What a search found.

    Attributes
    ----------
    keys : list of str
    note : str
        What was not looked at; "" if all was.
    """

    keys: list[str]
    note: str


def search(store: Store, group: str, text: str, stopped: Callable[[], bool] = lambda: False) -> Hits:
    """The keys below a group that contain a text; capital letters make no difference."""
    wanted = text.casefold()
    found: list[str] = []
    seen = 0
    for batch in _batches(store, group):
        if stopped():
            break
        for key in batch:
            if wanted in key[len(group) :].casefold():
                if len(found) == MOST_HITS:
                    return Hits(found, f"the first {MOST_HITS} are shown")
                found.append(key)
        seen += len(batch)
        if seen >= MOST_KEYS:
            return Hits(found, f"the first {seen:,} keys were searched")
    return Hits(found, "")


def _batches(store: Store, group: str) -> Iterator[list[str]]:
    if isinstance(store, TreeStore):
        yield from walking.descendants(store, group)
        return
    below = group + "/"
    for batch in store._contents.key_batches():
        yield [key for key in batch if key.startswith(below)] if group else batch
