"""How a store shows itself: one line, HTML, completions of keys, its outline, its tree as text; and keys that are close
to a missing one.

What is shown is bounded: it takes no longer for a million leaves than for a hundred, and opens none that a catalog
describes. The one line that `repr` gives never opens a leaf.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from blosc2 import _backends, _display
from blosc2._core.io.sharing import item_of
from blosc2._core.keys.listing import KeyCursor
from blosc2._display import Node, number
from blosc2._stores.leaf_table import group_of, table_of, whole_of
from blosc2._stores.leaves.statistics import describe
from blosc2._stores.tree import walking
from blosc2.exceptions import FormatError, StoreKeyError, UnsupportedKindError

if TYPE_CHECKING:
    from blosc2._stores.leaf_table import LeafTable
    from blosc2._stores.store import Store
    from blosc2.tree_store import TreeStore


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


def children_of(store: Store, path: str, most: int = -1) -> tuple[list[str], list[str]]:
    """The names of the groups and leaves right below an absolute path, "" for the root; the first `most` of them."""
    return _children(table_of(store), path, most)


def _children(table: LeafTable, path: str, most: int = -1) -> tuple[list[str], list[str]]:
    if table.hidden_name:
        return walking.children(table, path, most)
    groups, leaves = table.contents.listing().children(path or "/", most)
    return groups, leaves


def file_sizes(store: Store) -> tuple[int, int | None] | None:
    """The bytes of the files of a whole store, and about how many of them `compact` would free, if that is known.

    None for a view of a group, and for a store that is not in a file, or not yet.
    """
    backend = table_of(store).backend
    if group_of(store) or backend.named is None:
        return None
    try:
        size, used = backend.size(), backend.used_bytes()
    except (FileNotFoundError, FormatError):
        return None
    return size, None if used is None else max(0, size - used)


def has_object(store: Store, key: str) -> bool:
    """Whether a store has an object of another package at an absolute path."""
    foreign = table_of(store).foreign
    return bool(key) and foreign is not None and foreign.are_possible() and foreign.at(key) is not None


def totals(table: LeafTable, path: str, *, opening: bool = False) -> Totals:
    """Count the leaves and groups below an absolute path, "" for the root, and add up their bytes.

    An object of another package counts as one leaf. With `opening`, the leaves of a small archive without a catalog are
    opened once, for their sizes.
    """
    sums = _all_totals(table, path, opening=opening)
    if table.foreign is None or not table.foreign.are_possible():
        return sums
    listing, objects = table.contents.listing(), table.foreign.keys()
    for key in objects:
        if key.startswith(path + "/"):
            leaves, both = listing.count(key), listing.tree_count(key, "")
            sums = sums._replace(leaves=sums.leaves - leaves + 1, groups=sums.groups - (both - leaves) - 1)
    return sums


def _all_totals(table: LeafTable, path: str, *, opening: bool) -> Totals:
    """What is below a path, also inside of objects of other packages."""
    hidden = table.hidden_name
    listing = table.contents.listing()
    members = table.backend.members
    group = path or "/"
    if members is not None and listing.plain and not table.pending.frames:
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
    """The tree below a group, given by its absolute path ("" for the root): all levels, or `depth` of them.

    The levels are filled from the top, so what lies deep is left out first. There are at most so many nodes, and nodes
    of one group; 0 for as many as there may be in all. Leaves that no catalog describes are opened.
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
    return _node(table_of(store), group, group or "/", shown)


def _node(table: LeafTable, path: str, name: str, shown: dict[str, tuple[list[str], list[str]]]) -> Node:
    sums = totals(table, path, opening=True)
    groups, leaves = shown.get(path, ([], []))
    inner = {name: _node(table, f"{path}/{name}", name, shown) for name in groups}
    nodes = [*inner.values(), *(_leaf(table, f"{path}/{name}", name) for name in leaves)]
    nodes.sort(key=lambda node: (node.name, not node.is_group))
    rest = sums.leaves - len(leaves) - sum(node.leaves or 0 for node in inner.values())
    more = f"... {number(rest, 'more leaf', 'more leaves')}" if rest > 0 else ""
    if path not in shown:
        more = ""  # its number of leaves tells it
    return Node(name, True, "", sums.leaves, sums.nbytes, sums.cbytes, tuple(nodes), more)


def _leaf(table: LeafTable, key: str, name: str) -> Node:
    if table.hidden_name:
        description = table.foreign.at(key)
        if description is not None:
            return Node(name, False, str(description.get("kind", "object")))
    try:
        info = describe(table, key)
    except KeyError:  # it was removed since it was listed
        return Node(name, False, "not found")
    except (OSError, FormatError, NotImplementedError):
        return Node(name, False, "cannot be read")
    return Node(name, False, str(info), None, info.nbytes, info.cbytes)


# Of a large group only so many names are compared.
_MOST = 1000


def close_keys(table: LeafTable, key: str, *, may_be_made: bool = False) -> str:
    """The end of a message that names keys like a missing one, given as an absolute path; "" if there are none.

    If a group may be made, it says how, unless the store has leaves and no groups.
    """
    how = "; create_group(key) makes a group" if may_be_made else ""
    try:
        if table.session.closed or not lists_fast(table):
            return how
        groups, leaves = _children(table, "", _MOST)
        return _close_keys(table, key) or ("" if leaves and not groups else how)
    except (OSError, FormatError, RuntimeError):
        return how  # what is wrong with the store is not what the message is about


def _close_keys(table: LeafTable, key: str) -> str:
    base = ""
    *above, last = key.strip("/").split("/")
    for segment in above:
        here = f"{base}/{segment}"
        if not any(_children(table, here, 1)):
            groups, leaves = _children(table, base, _MOST)
            same = [name for name in groups if name.casefold() == segment.casefold()]
            if len(same) != 1:
                return _named(base, _like(segment, {*groups, *leaves} - {segment}))
            here = f"{base}/{same[0]}"
        base = here
    groups, leaves = _children(table, base, _MOST)
    names = {*groups, *leaves}
    if last in names and f"{base}/{last}" != f"/{key.strip('/')}":
        return _named(base, [last])
    return _named(base, _like(last, names - {last}))


def _named(base: str, names: list[str]) -> str:
    return f"; is it {' or '.join(repr(f'{base}/{name}') for name in names)}?" if names else ""


def _like(wanted: str, names: set[str]) -> list[str]:
    """Up to three names like the wanted one, sorted; capital letters make no difference."""
    folded: dict[str, list[str]] = {}
    for name in names:
        folded.setdefault(name.casefold(), []).append(name)
    wanted = wanted.casefold()
    # A file of one array keeps its suffix where it is put into a group.
    found = get_close_matches(wanted, folded, 3) or [name for name in folded if name.startswith(f"{wanted}.")]
    return sorted(name for close in found for name in folded[close])[:3]


# A directory with more files than this is not counted for one line of text.
_FEW_FILES = 2000


def one_line(store: Any) -> str:
    """Kind, path, mode, leaves and groups, sizes and ratio."""
    name = type(whole_of(store)).__name__
    path, group = _display.printable(str(table_of(store).path or "in memory")), group_of(store)
    where = f"group {_display.printable(group)!r} of {path}" if group else path
    if store.closed:
        return f"<{name} {where}, closed>"
    return f"<{name} {where}: {', '.join([*_state(store), *_counts(store)])}>"


def _state(store: Any) -> list[str]:
    state = [f"mode {store.mode!r}"]
    if store.mmap_mode:
        state.append("mapped")
    if table_of(store).session.sharing is not None:
        state.append("locking")
    return state


def _counts(store: Any) -> list[str]:
    """How many leaves and groups there are, and their bytes; only that something waits, where counting takes long."""
    table = table_of(store)
    waiting = ["unpublished changes"] if table.has_changes else []
    try:
        if not lists_fast(table):
            return waiting
        sums = totals(table, group_of(store))
    except (OSError, FormatError) as error:
        return [f"its keys cannot be listed: {type(error).__name__}", *waiting]
    found = _display.number(sums.leaves, "leaf", "leaves")
    if sums.groups and table.hidden_name:
        found += f" in {_display.number(sums.groups, 'group')}"
    return [found, *_sizes(store, sums), *waiting]


def _sizes(store: Any, sums: Totals) -> list[str]:
    if sums.nbytes is not None and sums.cbytes is not None:
        return [_display.sizes_text(sums.nbytes, sums.cbytes)]
    size = _file_size(store)
    return [] if size is None else [f"{_display.human_size(size)} on disk"]


def _file_size(store: Any) -> int | None:
    """The bytes of the file; None if there is none, or more than one, or only a group is shown."""
    path = table_of(store).path
    try:
        return os.path.getsize(path) if path and os.path.isfile(path) and not group_of(store) else None
    except OSError:
        return None


def lists_fast(table: LeafTable) -> bool:
    """Whether listing the keys takes a moment only."""
    return table.backend.lists_cheaply or _backends.has_few_names(str(table.path), _FEW_FILES)


def html(store: Store) -> str:
    """What a notebook shows: a table, a bar of where the bytes are, and the tree."""
    name, table, group = type(whole_of(store)).__name__, table_of(store), group_of(store)
    if store.closed:
        return _display.page(f"{name}, closed", _display.definition_table([("path", table.path)]))
    root = outline(store, group, most_in_group=MOST_IN_GROUP)
    rows: list[tuple[str, object]] = [("path", table.path or "in memory")]
    if group:
        rows.append(("group", group))
    rows.append(("mode", ", ".join(_state(store)).removeprefix("mode ")))
    rows += [("contents", text) for text in _counts(store)[:1]]
    size = _file_size(store)
    if root.nbytes is not None and root.cbytes is not None:
        rows.append(("leaves", _display.sizes_text(root.nbytes, root.cbytes)))
    if size is not None:
        rows.append(("on disk", _display.human_size(size)))
    if table.has_changes:
        rows.append(("not published yet", "changes since the last flush()"))
    bar = ""
    if root.cbytes:
        bar = _display.byte_bar(
            [(child.name, child.cbytes) for child in root.children if child.is_group and child.cbytes], root.cbytes
        )
    return _display.page(name, _display.definition_table(rows), bar, _display.as_html(root))


#: More keys than this are of no use to a person.
MOST_COMPLETED = 500

# What was typed of a string behind the last bracket.
_TYPED = re.compile(r"""\[\s*(?:"([^"\\]*)|'([^'\\]*))$""")


def completions(store: Any) -> list[str]:
    """Keys that go on from what was typed; from the root if that is not known.

    Groups are given too, and so is what is in them as long as that is not much, so that a path can be typed level by
    level.
    """
    if store.closed:
        return []
    typed = _typed() or ""
    group = typed.rpartition("/")[0]
    slash = "" if typed and not typed.startswith("/") else "/"
    found: list[str] = []
    try:
        groups = [f"/{group.strip('/')}" if group.strip("/") else ""]
        while groups and len(found) < MOST_COMPLETED:
            inner = []
            for path in groups:
                names, leaves = children_of(store, group_of(store) + path, MOST_COMPLETED - len(found))
                found += [f"{path}/{name}" for name in dict.fromkeys(sorted(names + leaves))]
                inner += [f"{path}/{name}" for name in names]
                if len(found) >= MOST_COMPLETED:
                    break
            groups = inner
    except (OSError, FormatError):
        return []  # the next access tells what is wrong
    return [key if slash else key[1:] for key in found[:MOST_COMPLETED]]


def _typed() -> str | None:
    """The half-typed key, as IPython knows it; None outside of IPython."""
    module = item_of(sys.modules, "IPython")
    shell = None if module is None else module.get_ipython()
    text = getattr(getattr(shell, "Completer", None), "text_until_cursor", None)
    match = _TYPED.search(text) if isinstance(text, str) else None
    return None if match is None else match[1] or match[2] or ""


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
    """Draw what is below a path, "" for the root, in up to so many lines; a last line "..." stands for more.

    `children` gives the names of the groups and of the leaves right below a group, `label` the text behind the name of
    a leaf.
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
        table = table_of(store)
        table.session.check_open()
        return walking.children(table, group_of(store) + path, lines + 1)

    return drawn("", children, lambda key: _label(store, key), depth, lines)


def draw_names(store: TreeStore) -> Drawing:
    """Draw the names of a store or a view of a group. No leaf is opened."""
    table = table_of(store)
    return drawn(
        group_of(store), lambda path: walking.children(table, path, FEW_LINES + 1), lambda _: "", lines=FEW_LINES
    )


def _label(store: TreeStore, key: str) -> str:
    """The text behind the name of a leaf."""
    description = table_of(store).foreign.at(group_of(store) + key)
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
