"""`TreeStore`: a `DictStore` whose keys form groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from blosc2 import _stores
from blosc2._backends import TieredBackend, canonical_key, new_key, plain_key
from blosc2._core.leaves.leaf_reader import LeafBatch
from blosc2._options import StoreOptions
from blosc2._stores import (
    ATTRIBUTES,
    HIDDEN,
    ForeignObjects,
    Groups,
    Store,
)
from blosc2.dict_store import DictStore
from blosc2.exceptions import StoreKeyError
from blosc2.storage import documented_as

if TYPE_CHECKING:
    from blosc2._stores import Drawing, GroupAttributes, LeafInfo
    from blosc2._stores.leaf_table import LeafTable


@documented_as(DictStore)
class TreeStore(DictStore):
    """A tree of groups and arrays: a `.b2d` directory or a `.b2z` file, like a `DictStore`.

    It takes the arguments of `DictStore`, whose notes on publishing and mapping hold here too. If keys begin with
    ``"/a/"``, then ``"/a"`` is a group: ``store["/a"]`` is a view of it, a `TreeStore` with keys relative to the group.
    Keys without a leading "/" get one. Groups have attributes; a group appears with its first leaf or attribute, and
    disappears with its last.

    Parameters
    ----------
    **kwargs
        As for `DictStore`.

    Notes
    -----
    Keys, iteration and `len` cover groups and leaves, in order. Groups contain groups and leaves; leaves contain
    nothing. So an array cannot be set at the key of a group, or below a leaf. The name ``__vlmeta__`` is reserved for
    attributes, and ``/_meta`` for objects of other packages. Each of these objects is one key: its inner leaves are not
    listed and cannot be changed, but are copied with the store.

    ``tree[key] = group`` copies a group, of this tree or of another one, with all leaves, groups and attributes in it.
    ``del tree[key]`` deletes a group with all of these, and ``del tree["/"]`` everything, like `clear`.

    Looking up a leaf takes no longer in a large tree, and listing a group costs what it lists.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> path = os.path.join(tempfile.mkdtemp(), "study.b2z")
    >>> with blosc2.TreeStore(path, mode="w") as tree:
    ...     tree["/mri/007/raw"] = np.arange(6)
    ...     tree["/mri/007"].vlmeta["age"] = 41
    >>> tree = blosc2.TreeStore(path, mode="r", mmap_mode="r")
    >>> list(tree.walk("/mri"))
    [('/mri', ['007'], []), ('/mri/007', [], ['raw'])]
    >>> tree["/mri"]["007/raw"][2:4]
    array([2, 3])
    >>> tree["/mri/007"].vlmeta[:]
    {'age': 41}
    >>> tree.close()
    """

    _metalayer: ClassVar[str] = "b2tree"
    _hidden_name = ATTRIBUTES
    # The tree that a view is of.
    _tree: TreeStore

    def _set_up(self, path: str, options: StoreOptions, backend: TieredBackend) -> None:
        if options.mode == "r":
            Store.__init__(self, path, options, backend)
        else:
            super()._set_up(path, options, backend)
        table = self._table
        if options.mode != "r":
            table.groups = groups = Groups(backend, table.pending)
            table.followers.append(groups)
        table.foreign = foreign = ForeignObjects(backend, table.pending, table.contents, verify=options.verify)
        table.followers.append(foreign)

    # ------------------------------------------------------------------ views
    @property
    def subtree_path(self) -> str:
        """The group that this store shows; "/" is the root."""
        return self._prefix or "/"

    @property
    def _owner(self) -> TreeStore:
        return self._tree if self._prefix else self

    def _absolute(self, key: object) -> str:
        """The key in the whole tree for a key of this group; "" for the root of the tree."""
        return self._prefix if key == "/" else self._prefix + canonical_key(key)

    def _absolute_group(self, path: str) -> str:
        """The key of a group in the whole tree; "" stands for "/"."""
        return self._absolute(path or "/")

    def _relative(self, batches: Iterable[list[str]]) -> Iterator[list[str]]:
        """Batches of keys of the whole tree as keys relative to this group."""
        cut = len(self._prefix)
        return ([key[cut:] for key in batch] for batch in batches) if cut else iter(batches)

    def get_subtree(self, path: str) -> TreeStore:
        """Return a view of a group, which need not exist yet: it appears with its first leaf or attribute."""
        self._table.session.check_open()
        group = self._absolute_group(path)
        if group == self._prefix:
            return self
        owner = self._owner
        return SubtreeView(owner, group) if group else owner

    # ------------------------------------------------------------------ reading
    def _batch(self, names: list[str], threads: int) -> LeafBatch | None:
        if self._table.foreign.are_possible():
            return None
        if self._prefix:
            if not all(type(name) is str and name[:1] == "/" for name in names):
                return None
            names = [self._prefix + name for name in names]
        return super()._batch(names, threads)

    def _open(self, key: str) -> Any:
        if self._prefix:
            return self if key == "/" else self._tree[self._absolute(key)]
        if self._table.session.asks:
            self._table.session.check_open()
        if type(key) is not str:
            return self[plain_key(key)]
        if key == "/":
            return self
        foreign = self._table.foreign
        possible = foreign.are_possible() if foreign.possible is None else foreign.possible
        if not key.endswith(HIDDEN) and not (possible and foreign.above(key)):
            leaf = self._leaf(key)
            if leaf is not None:
                return leaf
        elif self._table.contents.has(key):
            raise StoreKeyError(f"Key {key!r} not found: it is internal to the store", path=self._path, key=key)
        path = canonical_key(key)
        if path != key:
            return self[path]
        if not foreign.above(path):
            description = foreign.at(path)
            if description is not None:
                return _stores.ForeignObject(self._table, path, description)
            if self._table.has_group(path):
                return SubtreeView(self, path)
        raise self._table.missing_key(key)

    def _hidden_leaf(self, key: str) -> Any:
        """The leaf that carries the attributes of a group; None if it has none."""
        self._table.session.check_open()
        leaf = self._table.leaves.find(key)
        if leaf is None and self._table.contents.has(key):
            return Store._open(self._owner, key)  # which also opens what is not shown
        if leaf is None and self._table.backend.members is not None:
            self._table.backend.members.explain_missing(key)
        return leaf

    def _contains(self, key: object) -> bool:
        if self._table.session.asks:
            self._table.session.check_open()
        if not isinstance(key, str) or not key or (key.endswith("/") and key != "/"):
            return False
        if self._prefix:
            return self._prefix + ("" if key == "/" else key if key[0] == "/" else "/" + key) in self._tree
        if self._answers_by_listing():
            return key in self
        key = key if key[0] == "/" else "/" + key
        if key == "/":
            return True
        if not self._table.contents.has(key) and not self._table.has_group(key):
            return False
        return not key.endswith(HIDDEN) and not self._table.foreign.above(key)

    def _key_batches(self) -> Iterable[list[str]]:
        return self._relative(_stores.walking.descendants(self._table, self._prefix))

    def __len__(self) -> int:
        self._table.session.check_open()
        return _stores.walking.count_below(self._table, self._prefix)

    def get_descendants(self, path: str) -> list[str]:
        """List all groups and leaves below a group, in order; nothing if there is no such group.

        Parameters
        ----------
        path : str
            The group, "/" for all.
        """
        self._table.session.check_open()
        batches = _stores.walking.descendants(self._table, self._absolute_group(path))
        return [key for batch in self._relative(batches) for key in batch]

    def get_children(self, path: str = "/") -> list[str]:
        """List the groups and leaves directly below a group, as full keys, in order; nothing if there is none."""
        self._table.session.check_open()
        group = self._absolute_group(path)
        groups, leaves = _stores.walking.children(self._table, group)
        shown = group[len(self._prefix) :]
        # Sorting two sorted lists is fast. A leaf may have the name of a group.
        return [f"{shown}/{name}" for name in dict.fromkeys(sorted(groups + leaves))]

    def walk(self, path: str = "/", topdown: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
        """Iterate over a group and all groups below it, like `os.walk`.

        Parameters
        ----------
        path : str
            The group to start from; one that there is not has nothing in it.
        topdown : bool
            Whether a group comes before the groups in it.

        Yields
        ------
        tuple
            The key of a group, the names of its groups, and the names of its leaves.
        """
        self._table.session.check_open()
        return self._walk(self._absolute_group(path), topdown=topdown)

    def _walk(self, path: str, *, topdown: bool) -> Iterator[tuple[str, list[str], list[str]]]:
        cut = len(self._prefix)
        for group, groups, leaves in _stores.walking.walk(self._table, path, topdown=topdown):
            yield group[cut:] or "/", groups, leaves

    # ------------------------------------------------------------------ changing
    def create_group(self, key: str) -> TreeStore:
        """Make a group without leaves, and return its view; an existing group stays as it is.

        The group stays until it, or the last of its attributes, is deleted. Groups above it are made too.

        Raises
        ------
        ValueError
            There is a leaf at this key or above it, or the key is not allowed in a store.

        Examples
        --------
        >>> import os, tempfile
        >>> import blosc2
        >>> with blosc2.TreeStore(os.path.join(tempfile.mkdtemp(), "study.b2z"), mode="w") as tree:
        ...     tree.create_group("/mri/007").attrs["age"] = 41
        ...     list(tree)
        ['/mri', '/mri/007']
        """
        path = self._absolute_group(key)
        self._table.session.check_writable("make groups", path or "/")
        if path:
            with self._table.lock:
                _stores.tree_changes.create_group(_stores.table_to_change(self._owner), path)
        return SubtreeView(self._owner, path) if path else self

    def _set(self, key: str, value: Any) -> None:
        if key == "/" and not self._prefix:
            raise ValueError("Cannot assign array to structural path '/', the root of the tree")
        if isinstance(value, TreeStore):
            self._copy_group(key, value)
            return
        if not isinstance(value, _stores.ForeignObject):
            super()._set(key, value)
            return
        path = new_key(self._absolute(key))
        self._table.session.check_writable("set items", path)
        with self._table.lock:
            _stores.tree_changes.put_object(_stores.table_to_change(self._owner), path, value)

    def _copy_group(self, key: str, group: TreeStore) -> None:
        """Make a group with the leaves, groups and attributes of another one, all or none of them."""
        with group._table.lock:  # and not with that of this store: another thread may copy the other way
            values, attributes, of_group = _all_of(group)
        with self._table.lock, _stores.AllOrNone(_stores.table_to_change(self._owner)):
            if key in self:
                raise ValueError(f"Key {self._absolute(key)!r} exists; delete it first, or copy what is in the group")
            made = self.create_group(key)
            made.attrs.update(of_group)
            for name, value in values:
                if name in attributes:
                    made.create_group(name).attrs.update(attributes[name])
                else:
                    made[name] = value

    def rename(self, old: str, new: str) -> None:
        """Give a leaf, or a group with everything below it, another key; see `DictStore.rename`.

        Raises
        ------
        KeyError
            There is no such leaf or group.
        ValueError
            The new key exists, lies inside the group, or is not allowed in a store.
        """
        old, new = self._absolute(old) or canonical_key(old), new_key(self._absolute(new) or new)
        self._table.session.check_writable("rename", old)
        with self._table.lock:
            _stores.tree_changes.rename(_stores.table_to_change(self._owner), old, new)

    def _delete(self, key: str) -> None:
        if not self._prefix and _stores.remove_small(self._table, self, key):
            return
        path = self._absolute(key)
        self._table.session.check_writable("delete items", path or key)
        with self._table.lock:
            _stores.tree_changes.delete(self._table, path, path if self._prefix else key)

    def clear(self) -> None:
        """Delete all groups, leaves and attributes."""
        with suppress(StoreKeyError):
            del self["/"]

    def _remove_taken(self, key: str, leaf: Any) -> None:
        if isinstance(leaf, (TreeStore, _stores.ForeignObject)):
            raise TypeError(f"Key {key!r} is no leaf: pop() takes out leaves alone; del removes it with all below it")
        self._remove_leaf(key)

    def popitem(self) -> tuple[str, Any]:
        """Remove the first leaf, in the order of the keys, and return its key and the leaf.

        A group that loses its last leaf disappears, unless it has attributes. Groups are not returned.

        Raises
        ------
        KeyError
            There is no leaf.
        """
        with self._table.lock:
            for batch in self._key_batches():
                for key in batch:
                    leaf = self[key]
                    if isinstance(leaf, (TreeStore, _stores.ForeignObject)):
                        continue
                    self._remove_leaf(key)
                    return key, leaf
        raise StoreKeyError("popitem(): there is no leaf", path=self._path)

    def _remove_leaf(self, key: str) -> None:
        """Remove a leaf, and nothing below its key."""
        path = self._absolute(key)
        self._table.session.check_writable("delete items", path)
        _stores.changes.remove_at_once(self._table, path)

    # ------------------------------------------------------------------ attributes
    @property
    def vlmeta(self) -> GroupAttributes:
        """The attributes of the group that this store or view shows."""
        self._table.session.check_open()
        return _stores.GroupAttributes(self._owner, self._prefix)

    @property
    def attrs(self) -> GroupAttributes:
        """The attributes, under the name of h5py and zarr; see `vlmeta`."""
        return self.vlmeta

    # ------------------------------------------------------------------ description
    def is_table(self) -> bool:
        """Whether the store, or the group that a view shows, is one object of another package."""
        return self._table.foreign.at(self._prefix) is not None

    def describe(self, key: str) -> LeafInfo:
        """Describe a leaf; see `DictStore.describe`."""
        key = plain_key(key)
        path = self._prefix + (key if key.startswith("/") else "/" + key)
        if path.endswith(HIDDEN) or self._table.foreign.above(path):
            self._table.session.check_open()
            raise self._table.missing_key(path if self._prefix else key)
        info = super().describe(key)
        return info._replace(key=info.key[len(self._prefix) :]) if self._prefix else info

    def _contents_shown(self) -> tuple[str, Any]:
        return "contents", _stores.draw_names(self)

    def tree(self, group: str = "/", depth: int | None = None, *, lines: int = 1000) -> Drawing:
        """Draw the groups and leaves below a group, with shapes and dtypes.

        Parameters
        ----------
        group : str
            "/" for all.
        depth : int, optional
            The number of levels to draw; all by default.
        lines : int
            The largest number of lines. Without a catalog, the leaves that are drawn are opened.

        Raises
        ------
        KeyError
            There is no such group.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import blosc2
        >>> with blosc2.TreeStore(os.path.join(tempfile.mkdtemp(), "study.b2z"), mode="w") as tree:
        ...     tree["/mri/raw"], tree["/age"] = np.zeros((4, 4), "i2"), np.arange(3.0)
        ...     tree.tree()
        /
        ├── age (3,) float64
        └── mri
            └── raw (4, 4) int16
        """
        self._existing_group(group)
        return _stores.draw_store(self.get_subtree(group), depth, lines)


def _all_of(group: TreeStore) -> tuple[list[tuple[str, Any]], dict[str, Any], dict[str, Any]]:
    """The leaves and groups in a group, the attributes of these groups, and those of the group itself."""
    values = [(name, group[name]) for name in list(group)]
    return values, {name: value.attrs[:] for name, value in values if isinstance(value, TreeStore)}, group.attrs[:]


class SubtreeView(TreeStore):
    """A group of a `TreeStore` as a tree of its own: its keys are those below the group.

    It has the objects of its tree, and so its leaves and its pending changes; only the prefix of its keys is its own.
    Methods that publish, drop or rewrite act on the whole tree. Closing a view does nothing.
    """

    def __init__(self, tree: TreeStore, path: str) -> None:
        self._tree = tree._owner
        self.__dict__.update(self._tree.__dict__)
        self._prefix = path

    @property
    def _table(self) -> LeafTable:  # type: ignore[override]  # the tree has another one when it is closed
        return self._tree._table

    def to_b2z(self, *how: Any, **more: Any) -> str:  # noqa: ARG002 - whatever it is
        """Not possible for a part of a tree."""
        self._table.session.check_open()
        raise ValueError(f"{self!r} has no file of its own; other_tree[key] = group copies it")

    to_b2d = to_b2z

    def refresh(self) -> bool:
        """Show the newest version of the whole tree."""
        return self._tree.refresh()

    def close(self, durable: bool = True) -> None:
        """Nothing: close the tree itself."""

    def __exit__(self, *error: object) -> None:
        pass

    def __del__(self) -> None:
        pass

    def __reduce__(self) -> tuple[Any, ...]:
        return SubtreeView, (self._tree, self._prefix)
