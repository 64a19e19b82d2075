"""Drawing the tree of a store as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from blosc2._stores.tree import walking
from blosc2.exceptions import FormatError, StoreKeyError, UnsupportedKindError

if TYPE_CHECKING:
    from blosc2.tree_store import TreeStore

#: The largest number of lines of a description.
FEW_LINES = 20

Children = Callable[[str], tuple[list[str], list[str]]]


class Drawing(str):
    """A drawn tree: a string whose `repr` is the text itself, also in notebooks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        import html  # only notebooks need it, and it is slow to import

        return f"<pre>{html.escape(self)}</pre>"


def drawn(
    path: str, children: Children, label: Callable[[str], str], depth: int | None = None, lines: int = 100
) -> Drawing:
    """Draw groups and leaves.

    Parameters
    ----------
    path : str
        The group at the top, "" for the root.
    children : callable
        Names of the groups and of the leaves right below a group.
    label : callable
        The text behind the name of a leaf.
    depth : int, optional
        How many levels to draw.
    lines : int
        The largest number of lines. A last line "..." says that more were left out.
    """
    found = [path or "/"]
    for line in _lines(path, children, label, depth, ""):
        if len(found) > lines:
            found[lines:] = ["..."]
            break
        found.append(line)
    return Drawing("\n".join(found))


def draw_store(store: TreeStore, depth: int | None, lines: int) -> Drawing:
    """Draw the groups and leaves of a store or a view of a group."""

    def children(path: str) -> tuple[list[str], list[str]]:
        store._session.check_open()
        return walking.children(store, store._prefix + path, lines + 1)

    return drawn("", children, lambda key: _label(store, key), depth, lines)


def draw_names(store: TreeStore) -> Drawing:
    """Draw the names of a store or a view of a group. No leaf is opened."""
    return drawn(
        store._prefix, lambda path: walking.children(store, path, FEW_LINES + 1), lambda _: "", lines=FEW_LINES
    )


def _label(store: TreeStore, key: str) -> str:
    """The text behind the name of a leaf."""
    description = store._foreign.at(store._prefix + key, store)
    if description is not None:
        return str(description.get("kind", "object"))
    try:
        return str(store.describe(key))
    except StoreKeyError:  # it was removed since it was listed, or the catalog is wrong
        return "not found"
    except (FormatError, UnsupportedKindError):
        return "damaged"


def listed(keys: Iterable[str], lines: int = FEW_LINES) -> Drawing:
    """One key per line, up to `lines` lines."""
    found = list(islice(keys, lines + 1))
    return Drawing("\n".join(found if len(found) <= lines else [*found[:lines], "..."]))


def _lines(path: str, children: Children, label: Callable[[str], str], depth: int | None, indent: str) -> Iterator[str]:
    if depth == 0:
        return
    groups, leaves = children(path)
    inner = set(groups)
    names = sorted({*groups, *leaves})
    for name in names:
        last = name is names[-1]
        here = f"{path}/{name}"
        text = "" if name in inner else label(here)
        yield f"{indent}{'└── ' if last else '├── '}{name}{' ' if text else ''}{text}"
        if name in inner:
            below = None if depth is None else depth - 1
            yield from _lines(here, children, label, below, indent + ("    " if last else "│   "))
