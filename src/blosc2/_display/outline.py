"""The outline of a store: a bounded part of its tree, as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from blosc2._display.drawing import escaped, human_size, number, printable, sizes_text


class Node(NamedTuple):
    """A group or a leaf, by the last part of its key; "/" is the root.

    `text` is what a leaf is: its shape and dtype, or its kind. `leaves` are those below a group; the bytes are theirs,
    uncompressed and compressed, but `cbytes` of a single leaf is what it takes in the file. `children` are those that
    are shown, and `more` says in words what else the group contains.
    """

    name: str
    is_group: bool
    text: str = ""
    leaves: int | None = None
    nbytes: int | None = None
    cbytes: int | None = None
    children: tuple[Node, ...] = ()
    more: str = ""

    def summary(self) -> str:
        """What is shown behind the name."""
        parts = [self.text] if self.text else []
        if self.leaves is not None:
            parts.append(number(self.leaves, "leaf", "leaves"))
        if self.nbytes is not None and self.cbytes is not None:
            both = f"{human_size(self.nbytes)} in {human_size(self.cbytes)}"
            parts.append(sizes_text(self.nbytes, self.cbytes) if self.is_group else both)
        return ", ".join(parts)


def as_text(root: Node) -> str:
    """The tree as lines."""
    summary = root.summary()
    return "\n".join([printable(root.name) + (f"  {summary}" if summary else ""), *_lines(root, "")])


def _lines(node: Node, indent: str) -> Iterator[str]:
    last = len(node.children) - (not node.more)
    for at, child in enumerate(node.children):
        end = at == last
        summary = child.summary()
        name = printable(child.name) + ("/" if child.is_group else "")
        yield f"{indent}{'└── ' if end else '├── '}{name}{'  ' if summary else ''}{summary}"
        yield from _lines(child, indent + ("    " if end else "│   "))
    if node.more:
        yield f"{indent}└── {node.more}"


def as_html(root: Node) -> str:
    """The tree as nested lists that can be folded; only the first level is open."""
    return f'<div class="tree">{html_list(root)}</div>'


def html_list(node: Node, path: str = "", links: Mapping[str, str] = MappingProxyType({})) -> str:
    """What is below a group of this path; `links` has the addresses of leaves, by their paths."""
    items = "".join(f"<li>{_item(child, f'{path}/{child.name}', links)}</li>" for child in node.children)
    if node.more:
        items += f'<li class="note">{escaped(node.more)}</li>'
    return f"<ul>{items}</ul>" if items else ""


def _item(node: Node, path: str, links: Mapping[str, str]) -> str:
    name = f"<code>{escaped(node.name)}{'/' if node.is_group else ''}</code>"
    if path in links and not node.is_group:
        name = f'<a href="{links[path]}">{name}</a>'
    summary = node.summary()
    head = name + (f' <span class="note">{escaped(summary)}</span>' if summary else "")
    inner = html_list(node, path, links)
    return f"<details><summary>{head}</summary>{inner}</details>" if inner else head
