"""`merge`: several stores as one; leaves are copied as bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

from blosc2._opening import open as open_path
from blosc2._options import check_target_mode, local_path
from blosc2._stores import Store, group_of, has_object, table_of
from blosc2._tools.stores import (
    STORES,
    attributes_of,
    beside,
    group_path,
    in_order,
    new_store,
    opened,
    same_value,
    walk,
)
from blosc2.exceptions import legible, some_of
from blosc2.tree_store import TreeStore

_CLASHES: Final = ("error", "first", "last")


def merge(
    sources: Iterable[Any] | Mapping[str, Any], target: Any, *, mode: str = "w-", on_clash: str = "error",
    progress: Callable[[int, int], Any] | None = None,
) -> int:  # fmt: skip
    """Copy the leaves of several stores to one store, as bytes: nothing is decoded.

    The target is published when all is copied. If anything fails, it stays as it was.

    Parameters
    ----------
    sources : iterable of stores, or mapping
        Paths or URLs of stores, open stores, or groups of open stores. A mapping names a group for each: the keys of
        that source are put below it.
    target : path or TreeStore
        A ``.b2z``, ``.b2d`` or ``.b2e``, or a store that is open for writing.
    mode : {"w-", "w", "a"}
        Of a path: make a new store, replace one that exists, or add to it. To an open store, leaves are added; "w" is
        refused.
    on_clash : {"error", "first", "last"}
        What to do if two sources have the same key, or the target has it already (which counts as the first): refuse,
        or take the leaf of the first or the last one. The same holds for attributes of groups that differ.
    progress : callable, optional
        Called from time to time with the number of leaves copied and their uncompressed bytes.

    Returns
    -------
    int
        The number of leaves copied.

    Raises
    ------
    ValueError
        Two stores have the same key, or one has a leaf where another has a group; the message names them.
    FileExistsError
        The target exists, and the mode is "w-".
    TypeError
        A source is no store, or a group is no string; or a source has an object of another package, such as a table,
        which only a `TreeStore` takes, and the target is none.

    Notes
    -----
    Memory is some hundred bytes for each key. Leaves keep their attributes, checksums and compression; groups keep
    their attributes, also without leaves.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):  # by three programs, perhaps on three machines
    ...     with blosc2.TreeStore(os.path.join(folder, f"part-{part}.b2z"), mode="w") as store:
    ...         store[f"/scans/{part}"] = np.arange(part + 1)
    >>> parts = [os.path.join(folder, f"part-{part}.b2z") for part in range(3)]
    >>> blosc2.merge(parts, os.path.join(folder, "whole.b2z"))
    3
    >>> sorted(blosc2.open(os.path.join(folder, "whole.b2z"))["/scans"])
    ['/0', '/1', '/2']
    """
    check_target_mode(mode, ("w-", "w", "a"))
    if on_clash not in _CLASHES:
        raise ValueError(f"on_clash must be 'error', 'first' or 'last', not {on_clash!r}")
    with ExitStack() as stack:
        parts = [_Part(stack, group, source) for group, source in _pairs(sources)]
        if isinstance(target, Store):
            if mode == "w":
                raise ValueError("mode='w' replaces a store by its path: an open one is added to, or cleared first")
            return _add(target, parts, on_clash, progress)
        path = local_path(target).rstrip("/")
        if not path.endswith(STORES):
            raise ValueError(f"{legible(path)}: the target is a store in .b2z, .b2d or .b2e")
        exists = os.path.lexists(path)
        if exists and mode == "w-":
            raise FileExistsError(f"{legible(path)} exists; mode='w' replaces it, mode='a' adds to it")
        if exists and mode == "a":
            with open_path(path, mode="a") as store:
                return _add(store, parts, on_clash, progress)
        merged = _Merged(parts, None, on_clash)
        with beside(path, overwrite=mode == "w") as partial, new_store(partial, "w") as store:
            return merged.write(store, progress)


def _pairs(sources: Any) -> Iterator[tuple[str, Any]]:
    """Groups of the target, "" for the root, and what is put there."""
    if isinstance(sources, (str, bytes, os.PathLike, Store)):
        raise TypeError("merge takes several sources: a list, or a mapping of groups to sources")
    if isinstance(sources, Mapping):
        for group, source in sources.items():
            if not isinstance(group, str):
                raise TypeError(f"a mapping of sources has groups as its keys, which are strings, not {group!r}")
            yield group_path(group), source
    else:
        for source in sources:
            yield "", source


class _Part:
    """A source: its leaves and groups, by their keys below a group of the target. `stack` closes what it opens."""

    def __init__(self, stack: ExitStack, group: str, source: Any) -> None:
        store = source
        if not isinstance(source, Store):
            store = stack.enter_context(opened(source))
            if not isinstance(store, Store):
                raise TypeError(f"{legible(os.fspath(source))} is a {type(store).__name__}, and no store")
        self.store: Any = store._owner
        self.name = str(table_of(store).path or "a store in memory")
        self._group, self._prefix = group, group_of(store)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The keys of all leaves, in the target and here."""
        for group, leaves in walk(self.store, self._prefix):
            for name in leaves:
                yield self._there(f"{group}/{name}"), f"{group}/{name}"

    def groups(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The groups in the target, "" for the root, with their attributes."""
        for group, _ in walk(self.store, self._prefix):
            yield self._there(group), attributes_of(self.store, group)

    def has_object(self, key: str) -> bool:
        """Whether this is an object of another package, which has several leaves."""
        return has_object(self.store, key)

    def _there(self, key: str) -> str:
        return self._group + key[len(self._prefix) :]


class _Merged:
    """What the target will have, checked before it is copied: part and key of each leaf, attributes of each group."""

    def __init__(self, parts: list[_Part], target: _Part | None, on_clash: str) -> None:
        self.leaves: dict[str, tuple[_Part, str]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self._on_clash = on_clash
        clashes: list[str] = []
        for part in parts if target is None else [target, *parts]:
            clashes += self._add_groups(part)
            clashes += self._add_leaves(part)
        mixed = sorted(self.leaves.keys() & self.groups.keys())
        if mixed:
            first = self.leaves[mixed[0]][0].name
            raise ValueError(f"{some_of(mixed)}: a leaf in one store ({first}), and a group in another")
        if clashes and on_clash == "error":
            more = ", ..." if len(clashes) > 8 else ""
            count = "1 key or attribute is" if len(clashes) == 1 else f"{len(clashes)} keys or attributes are"
            raise ValueError(
                f"{count} in several stores: {', '.join(clashes[:8])}{more}; "
                "on_clash='first' or 'last' takes one of them, a mapping of groups to sources keeps both"
            )
        if target is not None:  # what is there already
            self.leaves = {key: where for key, where in self.leaves.items() if where[0] is not target}

    def _add_leaves(self, part: _Part) -> Iterator[str]:
        for there, here in part:
            other = self.leaves.get(there)
            if other is not None:
                yield f"{there!r} (in {other[0].name} and {part.name})"
                if self._on_clash == "first":
                    continue
            self.leaves[there] = part, here

    def _add_groups(self, part: _Part) -> Iterator[str]:
        for group, attributes in part.groups():
            merged = self.groups.setdefault(group, {})
            for name, value in attributes.items():
                if name in merged and not same_value(merged[name], value):
                    yield f"attribute {name!r} of {group or '/'!r} (in {part.name} and one before)"
                    if self._on_clash == "first":
                        continue
                merged[name] = value

    def write(self, store: Any, progress: Any = None) -> int:
        """Copy everything to a store that has none of the keys, or is to lose what it has there; the leaves counted."""
        self._set_groups(store)
        objects = {there: where for there, where in self.leaves.items() if where[0].has_object(where[1])}
        for there, (part, here) in objects.items():
            if has_object(store, there):
                del store[there]  # on_clash="last" takes the other one
            store[there] = part.store[here]
        rest = ((there, part.store[here]) for there, (part, here) in self.leaves.items() if there not in objects)
        count: int = store.write_many(rest, progress=progress)
        return count + len(objects)

    def _set_groups(self, store: Any) -> None:
        if not isinstance(store, TreeStore):
            having = [group or "/" for group, attributes in self.groups.items() if attributes]
            if having:
                why = f"the group {having[0]!r} has attributes, which only a TreeStore can have"
                raise ValueError(f"{legible(table_of(store).path)}: {why}")
            return
        parents = {key.rpartition("/")[0] for keys in (self.groups, self.leaves) for key in keys}
        for group, attributes in self.groups.items():
            if attributes:
                store.get_subtree(group or "/").attrs.update(attributes)
            elif group and group not in parents:  # nothing else makes it appear
                store.create_group(group)


def _add(store: Any, parts: list[_Part], on_clash: str, progress: Any) -> int:
    """Add to a store that is open for writing, or to a group of it."""
    table_of(store).session.check_writable("set items")
    for part in parts:
        one, other = part.store._table.backend.named, store._table.backend.named
        is_same_file = None not in (one, other) and os.path.realpath(one) == os.path.realpath(other)
        if table_of(part.store) is table_of(store) or is_same_file:
            raise ValueError(f"{legible(part.name)} is a source and the target: name another target")
    with ExitStack() as opened:
        merged = _Merged(parts, _Part(opened, "", store), on_clash)
        with store.transaction():
            return merged.write(store, progress)


def put_in_place_of(store: Any, keys: Iterable[str], path: str) -> None:
    """Copy the leaves of the store at a path, in place of what another one has at some keys, in one transaction."""
    with ExitStack() as opened:
        part = _Part(opened, "", path)
        with store.transaction():
            for key in keys:
                _remove(store, key)
            merged = _Merged([part], _Part(opened, "", store), "error")
            merged.write(store)


def _remove(store: Any, key: str) -> None:
    for leaf in [inner for inner, is_group in in_order(store, key) if not is_group]:
        del store[leaf]
    if key in store:
        del store[key]
