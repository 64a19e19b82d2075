"""The drawings of imports in doc/design/architecture.md are those of the code, and no arrow goes up."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "blosc2"
PAGE = ROOT / "doc" / "design" / "architecture.md"

Edges = set[tuple[str, str]]


def python_imports(path: Path) -> Iterator[str]:
    """The dotted names below `blosc2` that a Python module imports when it runs; "__init__" for the package."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        # In a package, these are the names that it imports on demand.
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and path.name != "__init__.py":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "blosc2":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("blosc2."):
            yield node.module.removeprefix("blosc2.")
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            yield from (name.partition(".")[2] or "__init__" for name in names if name.split(".")[0] == "blosc2")


def packages() -> tuple[set[str], Edges]:
    """The packages and modules right below `blosc2`, and which imports which."""
    nodes, edges = set(), set()
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).with_suffix("").parts[0]
        nodes.add(own)
        edges |= {(own, name.split(".")[0]) for name in python_imports(path)}
    return nodes, {(own, other) for own, other in edges if own != other and other in nodes}


def core_packages() -> tuple[set[str], Edges]:
    """The packages of `_core`, and which of them imports, or cimports from, which."""
    core = SOURCE / "_core"
    nodes = {path.parent.name for path in core.glob("*/__init__.py")}
    edges = set()
    for path in [*core.rglob("*.pyx"), *core.rglob("*.pxd"), *core.rglob("*.py")]:
        found = re.findall(
            r"^\s*(?:from|c?import) blosc2\._core\.(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        edges |= {(path.relative_to(core).parts[0], name) for name in found}
    return nodes, {(own, other) for own, other in edges if own != other and {own, other} <= nodes}


def drawn(number: int) -> tuple[dict[str, frozenset[str]], Edges]:
    """The boxes of a drawing, from top to bottom: the names in each; and its arrows."""
    text = re.findall(r"^```mermaid\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[number]
    boxes = {
        box: frozenset(names.split(", ")) for box, names in re.findall(r'^ +(\w+)\["([^"]+)"\]$', text, re.MULTILINE)
    }
    arrows = set()
    for box, others in re.findall(r"^ +(\w+) --> ([\w &]+)$", text, re.MULTILINE):
        arrows |= {(box, other) for other in others.split(" & ")}
    assert len(re.findall(r"\S.*", text)) == 1 + len(boxes) + len({box for box, _ in arrows}), "a line that is not read"
    return boxes, arrows


def below(box: str, arrows: Edges) -> set[str]:
    """The boxes that arrows lead to from a box."""
    found: set[str] = set()
    new = {box}
    while new := {other for own, other in arrows if own in new} - found:
        found |= new
    return found


@pytest.mark.parametrize("number", [0, 1], ids=["packages", "core"])
def test_a_drawing_is_that_of_the_code(number: int) -> None:
    nodes, edges = core_packages() if number else packages()
    boxes, arrows = drawn(number)
    order = list(boxes)
    assert all(order.index(own) < order.index(other) for own, other in arrows), "an arrow goes up"
    assert sorted(name for names in boxes.values() for name in names) == sorted(nodes)
    of = {name: box for box, names in boxes.items() for name in names}
    real = {(of[own], of[other]) for own, other in edges if of[own] != of[other]}
    assert not arrows - real, "drawn, but nothing imports so"
    assert not {(own, other) for own, other in real if other not in below(own, arrows)}, "imported, but not drawn"
    assert not {(own, other) for own, other in arrows if any(other in below(box, arrows) for box in below(own, arrows))}


def test_imports_are_found() -> None:
    nodes, edges = packages()
    assert {("__init__", "_tools"), ("__main__", "_tools"), ("ndarray", "_arrays"), ("_options", "_core")} <= edges
    assert {"_core", "ndarray", "__init__"} <= nodes
    assert {("codec", "io"), ("leaves", "keys"), ("ndim", "frame")} <= core_packages()[1]
