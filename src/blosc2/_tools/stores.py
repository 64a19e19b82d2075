"""What tools do with whole stores: walk through them, make them, put them in place, and compare what is in them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from blosc2._files import Owner, remove_leftovers, sync_file, sync_folder
from blosc2._opening import open as open_path
from blosc2._options import is_remote, shortened
from blosc2._stores import children_of, close_replaced
from blosc2.embed_store import EmbedStore
from blosc2.exceptions import name_target
from blosc2.tree_store import TreeStore

#: Suffixes of stores.
STORES = (".b2z", ".b2d", ".b2e")


@contextmanager
def opened(path: Any, mode: str = "r", *, mapped: bool = True) -> Iterator[Any]:
    """What is at a path, here or on a server; closed in the end. Only what is here can be mapped, in mode "r"."""
    mapped = mapped and mode == "r" and not is_remote(path)
    found = open_path(path, mode=mode, mmap_mode="r" if mapped else None)
    try:
        yield found
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()


def walk(store: Any, group: str = "") -> Iterator[tuple[str, list[str]]]:
    """A group of any store and all groups below it, by their absolute paths, "" for the root, with their leaves."""
    waiting = [group]
    while waiting:
        group = waiting.pop()
        groups, leaves = children_of(store, group)
        yield group, leaves
        waiting += [f"{group}/{name}" for name in reversed(groups)]


def in_order(store: Any, group: str = "") -> Iterator[tuple[str, bool]]:
    """The keys of all leaves and groups below a group of any store, in the order of their names, and which are groups.

    A name may be both: then the leaf comes first.
    """
    waiting = [(group, True)]
    while waiting:
        key, is_group = waiting.pop()
        if key != group:
            yield key, is_group
        if is_group:
            groups, leaves = children_of(store, key)
            names = sorted([*((name, False) for name in leaves), *((name, True) for name in groups)], reverse=True)
            waiting += [(f"{key}/{name}", below) for name, below in names]


def group_path(group: str | None) -> str:
    """The path of a group as stores know it: "" for the root, "/a/b" for another group."""
    return "".join(f"/{name}" for name in (group or "").split("/") if name)


def attributes_of(store: Any, group: str) -> dict[str, Any]:
    """The attributes of a group, "" for the root; only a `TreeStore` has any."""
    return store.get_subtree(group or "/").attrs[:] if isinstance(store, TreeStore) else {}


def new_store(path: str, mode: str, **how: Any) -> Any:
    """A store that does not exist yet, or is to be emptied, by its suffix."""
    return (EmbedStore if path.endswith(".b2e") else TreeStore)(path, mode=mode, **how)


# ------------------------------------------------------------------ beside its place
@contextmanager
def beside(path: str, *, overwrite: bool) -> Iterator[str]:
    """The path of something new, which gets its place at the end; of an error nothing is left."""
    partial = partial_name(path, unique=True)
    try:
        yield partial
        put_in_place(partial, path, overwrite=overwrite)
    except BaseException as error:
        name_target(error, partial, path)
        remove(partial)
        raise


def partial_name(path: str, *, unique: bool) -> str:
    """Beside a path, with the same suffix: ``study.partial.b2z``; a `unique` one is that of no other program."""
    folder, name = os.path.split(path.rstrip("/"))
    stem, suffix = os.path.splitext(name)
    stem = os.path.join(folder, shortened(stem, len(os.fsencode(suffix)) + 17))
    return f"{stem}.partial{f'-{os.urandom(4).hex()}' if unique else ''}{suffix}"


def put_in_place(partial: str, path: str, *, overwrite: bool) -> None:
    """Give a complete target its name; `FileExistsError` where somebody made a file of this name meanwhile."""
    path, owner = path.rstrip("/"), Owner()
    if os.path.isfile(partial):
        sync_file(partial)
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(f"{path} was made by somebody else meanwhile: call it again")
    close_replaced(path)  # as mode="w" does
    if os.path.isdir(path) or os.path.isdir(partial):
        folder, name = os.path.split(path)
        aside = os.path.join(folder, f"{shortened(name)}.replaced-{os.urandom(4).hex()}")
        is_there = os.path.lexists(path)
        if is_there:
            owner.keep_access(partial, path)
            owner.rename(path, aside)
        try:
            owner.rename(partial, path)
        except BaseException:
            if is_there:
                owner.rename(aside, path)
            raise
        remove(aside)
    else:
        owner.replace(partial, path)
    remove_leftovers(partial, owner)  # of runs that were killed
    sync_folder(path)


def remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        Owner().remove_tree(path, strict=True)
    elif os.path.lexists(path):
        Owner().unlink(path)


def remove_folder(folder: str) -> None:
    """Remove a folder, although a task that is not wanted any more may be writing to it just now."""
    for pause in (0, 0.01, 0.1, 0.5, 1):
        time.sleep(pause)
        Owner().remove_tree(folder, strict=False)
        if not os.path.lexists(folder):
            return


# ------------------------------------------------------------------ comparing
def same_value(a: Any, b: Any) -> bool:
    """Whether two values of attributes or lists are the same: of one type, and NaN is NaN."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and bool(np.all(equal_items(a, b)))
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_value(value, b[name]) for name, value in a.items())
    if not isinstance(a, (str, bytes)) and hasattr(a, "__len__") and hasattr(a, "__getitem__"):  # lists, batches
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b) or bool(a != a and b != b)


def equal_items(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which items of two arrays of one shape and dtype are equal. NaN is NaN, and NaT is NaT."""
    if a.size == 0:
        return np.ones(a.shape, bool)
    if a.dtype.names is not None:
        same = np.ones(a.shape, bool)
        for name in a.dtype.names:
            field = equal_items(a[name], b[name])
            same &= field.reshape(*a.shape, -1).all(axis=-1)  # a field may have axes of its own
        return same
    same = np.asarray(a == b)
    if a.dtype.kind in "fc":
        same = same | (np.isnan(a) & np.isnan(b))
    elif a.dtype.kind in "mM":
        same = same | (np.isnat(a) & np.isnat(b))
    return same
