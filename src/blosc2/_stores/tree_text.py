"""Drawing the tree of a store as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

#: Lines of a description at most.
FEW_LINES = 100

Children = Callable[[str], tuple[list[str], list[str]]]


class Drawing(str):
    """A drawn tree: text that shows itself as it is, in notebooks too."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        import html  # of notebooks alone, and slow to import

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
        What is written behind the name of a leaf.
    depth : int, optional
        How many levels are drawn.
    lines : int
        How many lines at most; more are left out, and the drawing says so.
    """
    found = [path or "/"]
    for line in _lines(path, children, label, depth, ""):
        if len(found) > lines:
            found[lines:] = ["..."]
            break
        found.append(line)
    return Drawing("\n".join(found))


def listed(keys: Iterable[str], lines: int = FEW_LINES) -> Drawing:
    """One key a line, up to so many."""
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
