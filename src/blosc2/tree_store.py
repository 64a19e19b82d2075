"""`TreeStore`: a `DictStore` whose keys form groups."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from blosc2._backends import REGISTRY, TieredBackend, Window, canonical_key, new_key, plain_key
from blosc2._core.keys.listing import KeyCursor
from blosc2._core.leaves.leaf_batch import LeafBatch
from blosc2._files import LASTING, Compaction, Progress
from blosc2._options import StoreOptions
from blosc2._stores import (
    ATTRIBUTES,
    FEW_LINES,
    KEYS_AT_ONCE,
    AllOrNone,
    Drawing,
    ForeignObject,
    GroupAttributes,
    GroupStats,
    Items,
    LeafInfo,
    Transaction,
    drawn,
    metadata_frame,
    pairs,
)
from blosc2.dict_store import KINDS, DictStore
from blosc2.exceptions import FormatError, StoreKeyError, UnsafeDeserializationError, UnsupportedKindError

# The leaf that describes an object of another kind.
_DESCRIPTION = "_meta"
# How the keys of leaves end that hold the attributes of a group.
_HIDDEN = "/" + ATTRIBUTES
# A default that nobody gives.
_MISSING: Any = object()


class TreeStore(DictStore):
    """A tree of groups and arrays: a `.b2d` directory or a `.b2z` file, like a `DictStore`.

    It takes the arguments of `DictStore`, whose notes on publishing and mapping hold here too. If keys begin with
    ``"/a/"``, then ``"/a"`` is a group: ``store["/a"]`` is a view of it, a `TreeStore` with keys relative to the group.
    Keys without a leading "/" get one. Groups have attributes; a group appears with its first leaf or attribute, and
    disappears with its last.

    Parameters
    ----------
    localpath, mode, tmpdir, cparams, dparams, storage, threshold, mmap_mode, locking, deserialize
        As for `DictStore`. In particular, ``mmap_mode="r"`` with ``mode="r"`` maps a `.b2z` once for all its leaves,
        and each leaf of a `.b2d` when it is opened.

    Notes
    -----
    Keys, iteration and `len` cover groups and leaves, in order. Groups contain groups and leaves; leaves contain
    nothing. So an array cannot be set at the key of a group, or below a leaf. The name ``__vlmeta__`` is reserved for
    attributes, and ``/_meta`` for objects of other packages. Each of these objects is one key: its inner leaves are not
    listed and cannot be changed, but are copied with the store.

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
    _has_groups = True
    _hidden_name = ATTRIBUTES

    _registry_cache: dict[str, Any] | None = None
    _objects_possible: bool | None = None
    # What is known of objects; and leaves below each group that were added to the published ones, or taken away.
    _described: dict[str, dict[str, Any] | None]
    _more: dict[str, int]

    def __init__(self, *args: Any, _from_parent_store: Any = None, **kwargs: Any) -> None:
        self._described, self._more = {}, {}
        super().__init__(*args, **kwargs)

    @classmethod
    def _of_backend(cls, path: str, options: StoreOptions, backend: TieredBackend, given: Mapping[str, Any]) -> Self:
        self = super()._of_backend(path, options, backend, given)
        self._described, self._more = {}, {}
        if backend.embedded is not None and backend.embedded.frame.vlmeta(REGISTRY) is None:
            self._registry_cache = {}
        return self

    # ------------------------------------------------------------------ groups and objects
    @property
    def subtree_path(self) -> str:
        """The group that this store shows; "/" is the root."""
        return "/"

    def _start(self) -> None:
        super()._start()
        self._registry_cache = None
        self._described = {}
        self._objects_possible = None
        self._more = {}

    def _look_again_at_keys(self) -> None:
        self._registry_cache = None
        super()._look_again_at_keys()

    def _recount(self) -> None:
        super()._recount()
        self._described = {}
        self._objects_possible = None
        self._count_groups()

    def _count_groups(self) -> None:
        self._more = {}
        for key, window in self._changes.items():
            change = (window is not None) - self._is_published(key)
            if change:
                self._count(key, change)

    def _drop_unpublished(self) -> None:
        super()._drop_unpublished()
        self._registry_cache = None
        self._described = {}
        self._objects_possible = None
        self._more = {}

    @property
    def _registry(self) -> dict[str, Any]:
        """Objects of other kinds that the store declares."""
        if self._new_registry is not None:
            return self._new_registry
        if self._registry_cache is None:
            self._registry_cache = {} if self._embedded is None else self._embedded.registry()
        return self._registry_cache

    def _has_objects(self) -> bool:
        """Whether there may be objects of other kinds; cheap, and mostly False."""
        if self._objects_possible is None:
            possible = bool(self._registry) or not self._backend.lists_cheaply
            if not possible:  # listing is not cheap elsewhere
                listing = self._backend.listing() if self._mode == "r" else self._listing()
                possible = bool(listing.named(_DESCRIPTION))
            self._objects_possible = possible
        return self._objects_possible

    def _object_at(self, path: str) -> dict[str, Any] | None:
        """What is known of an object of another kind at a path, None where there is none."""
        found = self._described.get(path, ...)
        if found is ...:
            found = self._describe(path)
            self._described[path] = found
        return found

    def _describe(self, path: str) -> dict[str, Any] | None:
        entry = self._registry.get(path)
        if entry is not None:
            return dict(entry) if isinstance(entry, Mapping) else {"kind": str(entry)}
        # Old tables are not declared: their description alone tells what they are.
        description = f"{path}/{_DESCRIPTION}"
        if self._has(description) if path or self._changes else self._backend.contains_now(description):
            try:
                leaf = super()._open(description)  # not by `self`, which hides it
                kind = leaf.vlmeta.get("kind")
            except (FormatError, UnsupportedKindError, UnsafeDeserializationError):
                return None  # what is not read describes nothing
            if isinstance(kind, bytes):
                kind = kind.decode("utf-8", "replace")
            if kind == "ctable":
                return {"kind": "ctable"}
        return None

    def _object_above(self, key: str) -> str | None:
        """The object of another kind that a key is part of, other than itself."""
        if not self._has_objects():
            return None
        end = key.find("/", 1)
        while end > 0:
            if self._object_at(key[:end]) is not None:
                return key[:end]
            end = key.find("/", end + 1)
        return None

    def is_table(self) -> bool:
        """Whether the whole store is one object of another package."""
        return self._object_at("") is not None

    def _objects(self) -> list[str]:
        """The keys of all objects of other kinds, in order."""
        named = [key[: -len(_DESCRIPTION) - 1] for key in self._listing().named(_DESCRIPTION)]
        return sorted({key for key in [*self._registry, *named] if key and self._object_at(key) is not None})

    def _is_group(self, path: str) -> bool:
        """Whether there is a leaf below a path, hidden ones included."""
        if self._embedded is not None and not self._backend.replaces:
            more = self._more.get(path, 0)
            published = self._backend.listing()
            try:
                return bool(published.count(path) + more > 0 if more else published.has_group(path))
            except UnicodeEncodeError:  # no name of a file could be that
                return False
        return self._more.get(path, 0) > 0

    def _count(self, key: str, change: int) -> None:
        end = key.find("/", 1)
        while end > 0:
            path = key[:end]
            self._more[path] = self._more.get(path, 0) + change
            end = key.find("/", end + 1)

    def _count_key(self, key: str, change: int) -> None:
        if change:
            self._count(key, change)
        self._look_again(key)

    def _list_placed(self) -> None:
        super()._list_placed()
        self._count_groups()

    def _put(self, key: str, window: Window, value: Any = None) -> None:
        new = not self._has(key)
        try:
            super()._put(key, window, value)
            if new:
                self._count(key, 1)
        except BaseException:
            if self._changes.get(key) is window:  # an interrupt came before it was counted, or right behind
                self._recount()
            raise
        self._look_again(key)

    def _look_again(self, key: str) -> None:
        """A description that comes or goes may make a group an object of another kind, or the reverse."""
        if key.endswith("/" + _DESCRIPTION):
            self._described = {}
            self._objects_possible = None

    def _remove(self, key: str) -> None:
        try:
            super()._remove(key)
            self._count(key, -1)
        except BaseException:
            self._recount()
            raise
        self._look_again(key)

    # ------------------------------------------------------------------ reading
    def _batch(self, names: list[str], threads: int) -> LeafBatch | None:
        if self._has_objects():
            return None
        return super()._batch(names, threads)

    def _open(self, key: str) -> Any:
        if self._closed:
            raise self._closed_error()
        if type(key) is not str:
            return self[plain_key(key)]
        if key == "/":
            return self
        if self._objects_possible is None:
            self._has_objects()
        if not key.endswith(_HIDDEN) and (not self._objects_possible or not self._object_above(key)):
            leaf = self._leaf(key)
            if leaf is not None:
                return leaf
        elif self._has(key):
            raise StoreKeyError(f"Key {key!r} not found: it is internal to the store", path=self._path)
        path = canonical_key(key)
        if path != key:
            return self[path]
        if not self._object_above(path):
            if self._object_at(path) is not None:
                return ForeignObject(self._path, path, self._object_at(path) or {})
            if self._is_group(path):
                return self.get_subtree(path)
        raise self._missing_key(key)

    def _missing_key(self, key: str) -> StoreKeyError:
        error = super()._missing_key(key)
        if self._mode == "r" or "not found" not in error.reason:
            return error
        return StoreKeyError(f"Key {key!r} not found in the store; create_group(key) makes a group", path=self._path)

    def _shows_at_once(self) -> bool:
        possible = self._objects_possible
        return not (self._has_objects() if possible is None else possible) and super()._shows_at_once()

    def _contains(self, key: object) -> bool:
        if self._mode == "r" and not self._looks_up and not self._closed and self._shows_at_once():
            self._look_up_in(self._published_listing())
            return key in self
        if self._closed:
            raise self._closed_error()
        if not isinstance(key, str) or not key or (key.endswith("/") and key != "/"):
            return False
        if not key.startswith("/"):
            key = "/" + key
        if key == "/":
            return True
        if not self._has(key) and not self._is_group(key):
            return False
        return not key.endswith(_HIDDEN) and not self._object_above(key)

    def _keys(self) -> list[str]:
        return self.get_descendants("/")

    def _key_batches(self) -> Iterator[list[str]]:
        return self._descendants("")

    def __len__(self) -> int:
        return self._count_below("")

    def _count_below(self, path: str) -> int:
        """How many groups and leaves are listed below a group."""
        self._check_open()
        if self._has_objects():
            return len(self.get_descendants(path or "/"))
        count: int = self._listing().tree_count(path or "/", ATTRIBUTES)
        return count

    def get_descendants(self, path: str) -> list[str]:
        """List all groups and leaves below a group, in order; nothing if there is no such group.

        Parameters
        ----------
        path : str
            The group, "/" for all.
        """
        self._check_open()
        return [key for batch in self._descendants(_group_path(path)) for key in batch]

    def _descendants(self, path: str) -> Iterator[list[str]]:
        """The same, some at a time."""
        if path and self._object_above(path + "/") is not None:
            return
        objects = set(self._objects()) if self._has_objects() else ()
        cursor = KeyCursor(self._listing(), path or "/", ATTRIBUTES, True)
        while batch := cursor.take(KEYS_AT_ONCE):
            yield [key for key in batch if not _is_below(key, objects)] if objects else batch

    def get_children(self, path: str) -> list[str]:
        """List the groups and leaves directly below a group, as full keys, in order."""
        path = _group_path(path)
        groups, leaves = self._children(path)
        # Both are in order, which sorting notices; a leaf may be named like a group.
        return [f"{path}/{name}" for name in dict.fromkeys(sorted(groups + leaves))]

    def _children(self, path: str) -> tuple[list[str], list[str]]:
        """Names of the groups and of the leaves right below a group; objects of other kinds count as leaves."""
        self._check_open()
        if path and self._object_above(path + "/") is not None:
            return [], []
        groups, leaves = self._listing().children(path or "/")
        leaves = [name for name in leaves if name != ATTRIBUTES]
        if self._has_objects():
            foreign = {name for name in groups if self._object_at(f"{path}/{name}") is not None}
            if foreign:
                groups = [name for name in groups if name not in foreign]
                leaves = sorted({*leaves, *foreign})
        return groups, leaves

    def walk(self, path: str = "/", topdown: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
        """Iterate over a group and all groups below it, like `os.walk`.

        Parameters
        ----------
        path : str
            The group to start from.
        topdown : bool
            Whether a group comes before the groups in it.

        Yields
        ------
        tuple
            The key of a group, the names of its groups, and the names of its leaves.
        """
        self._check_open()
        return self._walk(_group_path(path), topdown)

    def _walk(self, path: str, topdown: bool) -> Iterator[tuple[str, list[str], list[str]]]:
        if not self._has_objects():
            for group, groups, leaves in self._listing().walk(path or "/", topdown, ATTRIBUTES):
                yield group or "/", groups, leaves
            return
        # Groups to visit; in the order from the bottom up, each comes back when all in it were visited.
        waiting: list[tuple[str, tuple[str, list[str], list[str]] | None]] = [(path, None)]
        while waiting:
            group, done = waiting.pop()
            if done is not None:
                yield done
                continue
            groups, leaves = self._children(group)
            here = (group or "/", groups, leaves)
            if topdown:
                yield here
            else:
                waiting.append((group, here))
            waiting += [(f"{group}/{name}", None) for name in reversed(groups)]

    def get_subtree(self, path: str) -> TreeStore:
        """Return a view of a group, which need not exist yet: it appears with its first leaf or attribute."""
        self._check_open()
        path = _group_path(path)
        return self if not path else SubtreeView(self, path)

    # ------------------------------------------------------------------ writing
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
        path = _group_path(key)
        self._check_writable("make groups", path or "/")
        if path:
            with self._lock:
                self._check_new_group(path)
                if self._object_at(path) is not None:
                    raise ValueError(f"Key {path!r} is an object of another kind; delete it first")
                if not self._is_group(path):
                    with AllOrNone(self):
                        self._put(path + _HIDDEN, metadata_frame({}))
        return self.get_subtree(path)

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "/":
            raise ValueError("Cannot assign array to structural path '/', the root of the tree")
        super().__setitem__(key, value)

    def _check_place(self, key: str) -> None:
        if ATTRIBUTES in key.split("/"):
            raise ValueError(f"Key {key!r}: the name {ATTRIBUTES} is reserved for attributes; use .vlmeta of the group")
        if key == "/" + _DESCRIPTION:
            raise ValueError(f"Key {key!r} is reserved for the description of a table")
        self._check_not_inside(key)
        if self._has_objects() and self._object_at(key) is not None:
            raise ValueError(f"Key {key!r} is an object of another kind; delete it first")
        if self._is_group(key):
            held = self.get_children(key) or "none that is listed, but attributes; delete it first"
            raise ValueError(f"Cannot assign array to structural path {key!r} that already has children: {held}")
        self._check_above(key)

    def _check_above(self, key: str) -> None:
        """Refuse a key below a leaf."""
        end = key.find("/", 1)
        while end > 0:
            if self._has(key[:end]):
                raise ValueError(f"Cannot add child {key!r} to path {key[:end]!r} that already contains data")
            end = key.find("/", end + 1)

    def rename(self, old: str, new: str) -> None:
        """Give a leaf, or a group with everything below it, another key; see `DictStore.rename`.

        Raises
        ------
        KeyError
            There is no such leaf or group.
        ValueError
            The new key exists, lies inside the group, or is not allowed in a store.
        """
        old, new = canonical_key(old), new_key(new)
        self._check_writable("rename", old)
        with self._lock:
            self._check_not_inside(old)
            is_leaf = self._has(old) and not old.endswith(_HIDDEN)
            if not is_leaf and not self._is_group(old) and self._object_at(old) is None:
                raise self._missing_key(old)
            if old == new:
                return
            if new.startswith(old + "/"):
                raise ValueError(f"Key {new!r} is inside of {old!r}, which cannot become a part of itself")
            self._check_free(new)
            self._check_place(new)
            below = [old] if is_leaf else []
            below += self._listing().below(old)
            names = {key: new_key(new + key[len(old) :]) for key in below}
            with AllOrNone(self):
                self._move(names)
                self._rename_objects(old, new)

    def _rename_objects(self, old: str, new: str) -> None:
        """Objects of other kinds go by their keys."""
        renamed = {
            new + name[len(old) :] if name == old or name.startswith(old + "/") else name: entry
            for name, entry in self._registry.items()
        }
        if list(renamed) != list(self._registry):
            self._new_registry = renamed
            self._unwritten = True
            self._objects_possible = None
        self._described = {}

    def clear(self) -> None:
        """Delete all groups, leaves and attributes."""
        with suppress(StoreKeyError):
            del self["/"]

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Remove a leaf and return it; it stays readable. For a missing key, return the default if given.

        Raises
        ------
        KeyError
            There is no such key, and no default is given.
        TypeError
            The key is that of a group, or of an object of another package; ``del`` removes these and all below them.
        """
        with self._lock:
            try:
                leaf = self[key]
            except KeyError:
                if default is _MISSING:
                    raise
                return default
            if isinstance(leaf, (TreeStore, ForeignObject)):
                raise TypeError(
                    f"Key {key!r} is no leaf: pop() takes out leaves alone; del removes it with all below it"
                )
            self._take_out(key)
            return leaf

    def popitem(self) -> tuple[str, Any]:
        """Remove the first leaf, in the order of the keys, and return its key and the leaf.

        A group that loses its last leaf disappears, unless it has attributes. Groups are not returned.

        Raises
        ------
        KeyError
            There is no leaf.
        """
        with self._lock:
            for batch in self._key_batches():
                for key in batch:
                    leaf = self[key]
                    if not isinstance(leaf, (TreeStore, ForeignObject)):
                        self._take_out(key)
                        return key, leaf
        raise StoreKeyError("popitem(): there is no leaf", path=self._path)

    def _take_out(self, key: str) -> None:
        """Remove a leaf, and never what may be below it."""
        self._check_writable("delete items", key)
        self._remove_one(canonical_key(key))

    def _check_not_inside(self, key: str) -> None:
        owner = self._object_above(key)
        if owner is not None:
            raise ValueError(f"Key {key!r} is an internal component of {owner!r}, an object of another kind")

    def __delitem__(self, key: str) -> None:
        path = "" if key == "/" else canonical_key(key)
        self._check_writable("delete items", key)
        with self._lock:
            if path:
                self._check_not_inside(path)
            if path and self._has(path) and not self._is_group(path) and not path.endswith("/" + ATTRIBUTES):
                self._remove_one(path)
                return
            found = self._object_at(path) is not None if path else True
            below = self._listing().below(path or "/")
            if path and not path.endswith("/" + ATTRIBUTES) and self._has(path):
                found = True
                below.append(path)
            if not below and not found:
                raise StoreKeyError(f"Key {key!r} not found", path=self._path)
            with AllOrNone(self):
                self._remove_all(below)
                self._remove_objects(path)

    def _remove_objects(self, path: str) -> None:
        """Forget the objects of other kinds that are a group, or below it."""
        kept = {
            name: entry for name, entry in self._registry.items() if name != path and not name.startswith(path + "/")
        }
        if len(kept) != len(self._registry):
            self._new_registry = kept
            self._unwritten = True
            self._objects_possible = None
        self._described = {}

    # ------------------------------------------------------------------ attributes
    @property
    def vlmeta(self) -> GroupAttributes:
        """The attributes of the group that this store or view shows."""
        self._check_open()
        return GroupAttributes(self, "")

    @property
    def attrs(self) -> GroupAttributes:
        """The same as `vlmeta`."""
        return self.vlmeta

    def _hidden_leaf(self, key: str) -> Any:
        """The leaf that carries the attributes of a group, None where it has none."""
        self._check_open()
        leaf = self._leaves.find(key)
        return super()._open(key) if leaf is None and self._has(key) else leaf

    def _check_new_group(self, group: str) -> None:
        """Refuse a group that cannot be, beside what is there."""
        new_key(group)
        self._check_not_inside(group)
        if self._has(group):
            raise ValueError(f"{group!r} is a leaf: its attributes are those of the array")
        if ATTRIBUTES in group.split("/"):
            raise ValueError(f"Group {group!r}: the name {ATTRIBUTES} is reserved for attributes")
        self._check_above(group)

    # ------------------------------------------------------------------ description
    def describe(self, key: str) -> LeafInfo:
        """What a leaf is; see `DictStore.describe`."""
        key = plain_key(key)
        path = key if key.startswith("/") else "/" + key
        if path.endswith(_HIDDEN) or self._object_above(path):
            self._check_open()
            raise self._missing_key(key)
        return super().describe(key)

    def _contents(self) -> tuple[str, Any]:
        inner = self._drawn(None, FEW_LINES, opening=False)
        return "contents", Drawing(self.subtree_path + inner.removeprefix("/"))

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
        self._check_open()
        return self.get_subtree(group)._drawn(depth, lines, opening=True)

    def _drawn(self, depth: int | None, lines: int, *, opening: bool) -> Drawing:
        def label(key: str) -> str:
            return self._label(key, opening=opening)

        return drawn("", self._children, label, depth, lines)

    def _label(self, key: str, *, opening: bool) -> str:
        """What is written behind a leaf; nothing where it would have to be opened for that and is not to be."""
        if self._object_at(key) is not None:
            return str((self._object_at(key) or {}).get("kind", "object"))
        if not opening and (self._backend.members is None or self._backend.members.catalog() is None):
            return ""
        try:
            return str(self.describe(key))
        except StoreKeyError:  # somebody has removed it since it was listed, or a catalog lies
            return "not found"
        except (FormatError, UnsupportedKindError):
            return "damaged"


class SubtreeView(TreeStore):
    """A group of a `TreeStore` as a tree of its own: its keys are those below the group.

    It has no state: what is done to it is done to the tree. Closing it does nothing.
    """

    def __init__(self, root: TreeStore, path: str) -> None:
        # Not that of a store: everything is the root's.
        self._root = root
        self._prefix = path

    def __getattr__(self, name: str) -> Any:
        if name in ("_root", "_prefix"):
            raise AttributeError(name)
        return getattr(self._root, name)

    @property
    def _lost(self) -> tuple[Exception, tuple[Any, ...]] | None:  # type: ignore[override]  # is never assigned here
        return self._root._lost

    @property
    def subtree_path(self) -> str:
        """The group that this view shows."""
        return self._prefix

    def _full(self, key: object) -> str:
        return self._prefix if key == "/" else self._prefix + canonical_key(key)

    def __getitem__(self, key: str) -> Any:
        return self if key == "/" else self._root[self._full(key)]

    def __setitem__(self, key: str, value: Any) -> None:
        self._root[self._full(key)] = value

    def __delitem__(self, key: str) -> None:
        del self._root[self._full(key)]

    def _take_out(self, key: str) -> None:
        self._root._take_out(self._full(key))

    def _contains(self, key: object) -> bool:
        if not isinstance(key, str) or not key or (key.endswith("/") and key != "/"):
            return False
        return self._prefix + ("" if key == "/" else key if key.startswith("/") else "/" + key) in self._root

    def _keys(self) -> list[str]:
        return self.get_descendants("/")

    def _descendants(self, path: str) -> Iterator[list[str]]:
        cut = len(self._prefix)
        for batch in self._root._descendants(self._prefix + path):
            yield [key[cut:] for key in batch]

    def _count_below(self, path: str) -> int:
        return self._root._count_below(self._prefix + path)

    def _walk(self, path: str, topdown: bool) -> Iterator[tuple[str, list[str], list[str]]]:
        cut = len(self._prefix)
        for group, groups, leaves in self._root._walk(self._prefix + path, topdown):
            yield group[cut:] or "/", groups, leaves

    def get_descendants(self, path: str) -> list[str]:
        """All groups and leaves below a group of the view, in order."""
        self._root._check_open()
        return [key for batch in self._descendants(_group_path(path)) for key in batch]

    def _children(self, path: str) -> tuple[list[str], list[str]]:
        return self._root._children(self._prefix + path)

    def create_group(self, key: str) -> TreeStore:
        """Make a group of the view; see `TreeStore.create_group`."""
        return self._root.create_group(self._prefix + _group_path(key))

    def get_subtree(self, path: str) -> TreeStore:
        """A view of a group of the view."""
        return self._root.get_subtree(self._prefix + _group_path(path))

    def to_b2z(self, overwrite: Any = False, filename: Any = None) -> str:  # noqa: ARG002 - whatever it is
        """Not possible for a part of a tree."""
        raise self._no_file()

    def to_b2d(self, dirname: Any = None, *, overwrite: bool = False) -> str:  # noqa: ARG002 - whatever it is
        """Not possible for a part of a tree."""
        raise self._no_file()

    def _no_file(self) -> ValueError:
        self._root._check_open()
        return ValueError(f"{self!r} has no file of its own; copy the whole tree, or its leaves one by one")

    def member_window(self, key: str) -> tuple[int, int] | None:
        """Where the published frame of a leaf lies; see `DictStore.member_window`."""
        return self._root.member_window(self._full(key))

    @property
    def map_tree(self) -> Mapping[str, str]:
        """The file or member of each published leaf of the group that has one."""
        cut = len(self._prefix)
        names = self._root.map_tree
        return MappingProxyType({key[cut:]: name for key, name in names.items() if key.startswith(self._prefix + "/")})

    def is_table(self) -> bool:
        """Whether the group is one object of another package."""
        return self._root._object_at(self._prefix) is not None

    @property
    def vlmeta(self) -> GroupAttributes:
        """The attributes of the group."""
        self._root._check_open()
        return GroupAttributes(self._root, self._prefix)

    def rename(self, old: str, new: str) -> None:
        """Give a leaf or group of the view another key."""
        self._root.rename(self._full(old), self._full(new))

    def read(self, key: str) -> np.ndarray[Any, Any]:
        """All items of an array of the view."""
        return self._root.read(self._full(key))

    def _batch(self, names: list[str], threads: int) -> LeafBatch | None:
        if not all(type(name) is str and name[:1] == "/" for name in names):
            return None
        return self._root._batch([self._prefix + name for name in names], threads)

    def describe(self, key: str) -> LeafInfo:
        """What a leaf of the view is; see `DictStore.describe`."""
        info = self._root.describe(self._full(key))
        return info._replace(key=info.key[len(self._prefix) :])

    def stats(self, group: str = "/", depth: int = 0, *, by: str | Iterable[str] | None = None) -> list[GroupStats]:
        """How much there is below a group of the view; see `DictStore.stats`."""
        cut = len(self._prefix)
        rows = self._root.stats(self._prefix + _group_path(group), depth, by=by)
        return [row._replace(group=row.group[cut:] or "/") for row in rows]

    def _label(self, key: str, *, opening: bool) -> str:
        return self._root._label(self._prefix + key, opening=opening)

    def update(self, other: Items = (), /, **more: Any) -> None:  # type: ignore[override]  # as in Store
        """Set many keys of the view; see `DictStore.update`."""
        self._root.update((self._full(key), value) for key, value in pairs(other, more))

    def write_many(self, items: Items, *, progress: Callable[[int, int], Any] | None = None) -> int:
        """Set many keys of the view at once; see `DictStore.write_many`."""
        return self._root.write_many(((self._full(key), value) for key, value in pairs(items)), progress=progress)

    def transaction(self) -> Transaction:
        """A transaction of the whole tree."""
        return self._root.transaction()

    def advise(self, advice: str, *, keys: Iterable[str] | None = None, prefix: str | None = None) -> None:
        """Give advice about leaves of the group, or about all of the tree where it is about files; see `TreeStore`."""
        if keys is None and prefix is None and advice not in LASTING:
            prefix = "/"
        if isinstance(keys, str):
            keys = [keys]
        full = None if keys is None else [self._full(key) for key in keys]
        self._root.advise(advice, keys=full, prefix=None if prefix is None else self._prefix + _group_path(prefix))

    def compact(self, progress: Progress | None = None) -> Compaction:
        """Write the whole tree anew without dead bytes."""
        return self._root.compact(progress)

    def refresh(self) -> bool:
        """Show the newest version of the whole tree."""
        return self._root.refresh()

    def flush(self, durable: bool = True) -> None:
        """Publish the changes of the whole tree."""
        self._root.flush(durable)

    def discard(self) -> None:
        """Drop the unpublished changes of the whole tree."""
        self._root.discard()

    def close(self, durable: bool = True) -> None:
        """Nothing: close the tree itself."""

    def __enter__(self) -> Self:
        self._root._check_open()
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __del__(self) -> None:
        pass

    def __reduce__(self) -> tuple[Any, ...]:
        return SubtreeView, (self._root, self._prefix)

    def __repr__(self) -> str:
        return f"<TreeStore view of {self._prefix!r} in {self._root!r}>"


def _is_below(key: str, paths: Container[str]) -> bool:
    """Whether a key is below one of some paths."""
    end = key.find("/", 1)
    while end > 0:
        if key[:end] in paths:
            return True
        end = key.find("/", end + 1)
    return False


def _group_path(path: str) -> str:
    """A group in the form that keys begin with: "" for the root."""
    if path in ("", "/"):
        return ""
    return canonical_key(path)


KINDS[TreeStore._metalayer] = TreeStore
