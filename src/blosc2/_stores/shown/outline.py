"""A bounded part of the groups and leaves of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from blosc2._core.keys.listing import KeyCursor
from blosc2._display import Node, number
from blosc2._stores.leaves.statistics import describe_leaf
from blosc2._stores.tree import walking
from blosc2.exceptions import FormatError

if TYPE_CHECKING:
    from blosc2._stores.store import Store

#: How many lines are shown of a store, and of one of its groups.
MOST, MOST_IN_GROUP = 100, 20
# So few leaves without a catalog are opened once to learn their sizes.
_FEW_LEAVES = 1000


class Totals(NamedTuple):
    """What is below a group. The bytes are None where no catalog knows them."""

    leaves: int
    groups: int
    nbytes: int | None = None
    cbytes: int | None = None


def children_of(store: Any, path: str, most: int = -1) -> tuple[list[str], list[str]]:
    """The names of the groups and leaves right below an absolute path, "" for the root; the first `most` of them."""
    if store._hidden_name:
        return walking.children(store, path, most)
    groups, leaves = store._contents.listing().children(path or "/", most)
    return groups, leaves


def totals(store: Any, path: str, *, opening: bool = False) -> Totals:
    """Count the leaves and groups below an absolute path, "" for the root, and add up their bytes.

    With `opening`, the leaves of a small archive without a catalog are opened once, for their sizes.
    """
    hidden = store._hidden_name
    listing = store._contents.listing()
    members = store._backend.members
    group = path or "/"
    if members is not None and listing.plain and not store._pending.frames:
        few = opening and len(listing.table) <= _FEW_LEAVES
        catalog = members.described() if few else members.catalog()
        if catalog is not None and catalog.undescribed == 0 and len(listing.table) == catalog.count:
            try:
                start, stop = listing.positions(group)
                attributes, nbytes, cbytes = catalog.totals(start, stop)
                leaves = stop - start - (attributes if hidden else 0)
                both = listing.tree_count(group, hidden or "")
            except FormatError:
                pass  # the catalog is wrong: the keys are counted one by one
            else:
                return Totals(leaves, max(0, both - leaves), nbytes, cbytes)
    leaves = KeyCursor(listing, group, hidden, False).count_rest()
    both = KeyCursor(listing, group, hidden, True).count_rest()
    return Totals(leaves, both - leaves)


def outline(store: Store, group: str = "", depth: int | None = None, most: int = MOST, most_in_group: int = 0) -> Node:
    """The tree below a group, given by its absolute path.

    The levels are filled from the top, so what lies deep is left out first. Leaves that no catalog describes are
    opened.

    Parameters
    ----------
    store : Store
    group : str
        "" for the root.
    depth : int, optional
        How many levels to show.
    most, most_in_group : int
        The largest number of nodes, and of those of one group; 0 for as many as there may be in all.
    """
    shown: dict[str, tuple[list[str], list[str]]] = {}
    left, level, paths = most, 0, [group]
    while paths and left > 0 and level != depth:
        inner = []
        for path in paths:
            here = min(left, (most if level == 0 else most_in_group) or most)
            if here <= 0:
                break
            groups, leaves = children_of(store, path, here)
            groups, leaves = groups[:here], leaves[: here - len(groups[:here])]
            shown[path] = groups, leaves
            left -= len(groups) + len(leaves)
            inner += [f"{path}/{name}" for name in groups]
        paths, level = inner, level + 1
    return _node(store, group, group or "/", shown)


def _node(store: Any, path: str, name: str, shown: dict[str, tuple[list[str], list[str]]]) -> Node:
    sums = totals(store, path, opening=True)
    groups, leaves = shown.get(path, ([], []))
    inner = {name: _node(store, f"{path}/{name}", name, shown) for name in groups}
    nodes = [*inner.values(), *(_leaf(store, f"{path}/{name}", name) for name in leaves)]
    nodes.sort(key=lambda node: (node.name, not node.is_group))
    rest = sums.leaves - len(leaves) - sum(node.leaves or 0 for node in inner.values())
    more = f"... {number(rest, 'more leaf', 'more leaves')}" if rest > 0 else ""
    if path not in shown:
        more = ""  # its number of leaves tells it
    return Node(name, True, "", sums.leaves, sums.nbytes, sums.cbytes, tuple(nodes), more)


def _leaf(store: Any, key: str, name: str) -> Node:
    if store._hidden_name:
        description = store._foreign.at(key, store)
        if description is not None:
            return Node(name, False, str(description.get("kind", "object")))
    try:
        info = describe_leaf(store, key)
    except KeyError:  # it was removed since it was listed
        return Node(name, False, "not found")
    except (OSError, FormatError, NotImplementedError):
        return Node(name, False, "cannot be read")
    return Node(name, False, str(info), None, info.nbytes, info.stored or info.cbytes)
