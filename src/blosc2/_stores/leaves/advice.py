"""Telling the operating system how the leaves of a store will be read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from blosc2._backends import canonical_key, plain_key
from blosc2._files import LASTING, advise_byte_ranges, check_advice
from blosc2.exceptions import StoreKeyError

if TYPE_CHECKING:
    from blosc2._stores.leaf_table import LeafTable
    from blosc2._stores.store import Store


def advise(self: Store, advice: str, *, keys: Iterable[str] | None = None, prefix: str | None = None) -> None:
    """Tell the operating system how the stored bytes will be read, so that it can read ahead.

    Advice never changes a result. It has no effect if the system takes no advice.

    Parameters
    ----------
    advice : {"normal", "random", "sequential", "willneed", "dontneed"}
        "normal", "random" and "sequential" apply to the whole store until the next advice: read some ahead,
        nothing, or much. "willneed" starts to read, without waiting; give it all keys of a batch at once, since
        neighbours become one request. "dontneed" frees the memory that the bytes take in this process.
    keys : iterable of str, optional
        With "willneed" and "dontneed", the leaves to which the advice applies.
    prefix : str, optional
        The same, for all leaves of a group: those whose keys begin with this prefix and a "/".

    Raises
    ------
    ValueError
        The advice is unknown, or applies to the whole store and keys are given.
    KeyError
        There is no such leaf, or none with this prefix. No advice is given then.

    Examples
    --------
    >>> import os, tempfile
    >>> import blosc2
    >>> path = os.path.join(tempfile.mkdtemp(), "scans.b2z")
    >>> with blosc2.TreeStore(path, mode="w") as store:
    ...     store["/a/x"], store["/a/y"], store["/b"] = [1, 2], [3], [4]
    >>> store = blosc2.open(path, mmap_mode="r", advise="random")
    >>> store.advise("willneed", keys=["/a/x", "/b"])
    >>> store.advise("dontneed", prefix="/a")
    >>> store.close()
    """
    check_advice(advice, part=keys is not None or prefix is not None)
    self._table.session.check_open()
    if keys is None and prefix is None:
        if not self._prefix or advice in LASTING:
            advise_all(self._table, advice)
            return
        prefix = "/"  # for a view: all of its group, and nothing else
    wanted = [] if keys is None else [keys] if isinstance(keys, str) else list(keys)
    if self._prefix:
        wanted = [self._absolute(key) for key in wanted]
    if prefix is not None:
        group = self._prefix + ("" if prefix in ("", "/") else canonical_key(prefix))
        below = self._table.contents.leaf_keys(group)
        if not below and group:
            raise StoreKeyError(f"No key begins with {group!r}", path=self._path)
        wanted += below
    advise_leaves(self._table, advice, wanted)


def advise_all(table: LeafTable, advice: str) -> None:
    """Give advice for all leaves of a store."""
    if advice in LASTING:
        table.session.advice = advice
    if table.backend.advise(advice):
        return
    if advice in LASTING:
        for leaf in table.leaves.find_all(list(table.leaves.held)):
            leaf.advise(advice)
    else:
        advise_leaves(table, advice, table.contents.leaf_keys(""))


def advise_leaves(table: LeafTable, advice: str, keys: Iterable[str]) -> None:
    """Give advice for some leaves; none is given if a key is missing."""
    byte_ranges, known = [], []
    for key in keys:
        name = plain_key(key)
        byte_range = table.contents.location(name)
        if byte_range is None:
            name = canonical_key(key)
            byte_range = table.contents.location(name)
        if byte_range is None:
            raise table.missing_key(key)
        byte_ranges.append(byte_range)
        known.append(name)
    if advice == "dontneed":
        # The open leaf may be one of an older version, whose bytes lie elsewhere.
        for leaf in table.leaves.find_all(known):
            leaf.advise(advice)
    advise_byte_ranges(advice, byte_ranges)
