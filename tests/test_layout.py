"""The layout of the package: what `doc/design/architecture.md` says and the import contract cannot see."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "blosc2"
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)
PRIVATE = [path for path in PACKAGES if path.relative_to(SOURCE).parts[0].startswith("_")]
MODULES = sorted(path for path in SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(name: str) -> str:
    """The package right below `blosc2` that a module belongs to; itself at the top."""
    return ".".join(name.split(".")[:2])


def imports(path: Path) -> Iterator[tuple[str, list[str]]]:
    """What a module imports from others of the package when it runs: their names, and what of them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        # In a package, these are the names that it imports on demand.
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) and path.name != "__init__.py":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "blosc2":
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names if alias.name.startswith("blosc2."))


def test_the_top_is_small() -> None:
    assert len([path for path in SOURCE.iterdir() if path.name not in ("__pycache__", "py.typed")]) <= 32


@pytest.mark.parametrize("package", PRIVATE, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_package_says_what_it_is(package: Path) -> None:
    name = name_of(package / "__init__.py")
    module = importlib.import_module(name)
    assert module.__doc__ is not None
    if package == SOURCE / "_core":
        return
    assert len(module.__doc__.strip().split("\n\n")) >= 2
    for public in getattr(module, "__all__", ()):  # modules that are imported by their names, some by nobody yet
        assert hasattr(module, public) or importlib.util.find_spec(f"{name}.{public}")
    assert len([path for path in package.glob("*.py*") if path.suffix in (".py", ".pyx")]) - 1 <= 16


def test_others_import_what_a_package_lists() -> None:
    for path in MODULES:
        own = package_of(name_of(path))
        for module, names in imports(path):
            package = package_of(module)
            if package == own or not package.split(".")[-1].startswith("_") or package == "blosc2._core":
                continue
            assert module == package, f"{path}: {module} is a module of {package}: import what that lists"
            listed = importlib.import_module(package)
            assert all(hasattr(listed, name) for name in names if name != "*"), path  # of type checkers


def test_the_page_names_every_package() -> None:
    page = (ROOT / "doc" / "design" / "architecture.md").read_text(encoding="utf-8")
    for package in PACKAGES:
        parts = package.relative_to(SOURCE).parts
        assert f"`{parts[0]}`" in page if len(parts) == 1 else f"`{parts[-1]}`" in page or parts[0] != "_core", package


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """The functions of a module, Cython's included, and how many lines of code each has after its signature."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        found = re.match(r"( *)(?:async )?(?:def|cdef|cpdef) (?!class|enum|struct|extern)[^=]*?(\w+)\(", line)
        if not found:
            continue
        body = number
        while body < len(lines) and not re.search(r":\s*(#.*)?$", lines[body]):
            body += 1
        indent = len(found[1])
        end = body + 1
        while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
            end += 1
        text = re.sub(r'"""[\s\S]*?"""', "", "\n".join(lines[body + 1 : end]), count=1)
        yield found[2], sum(bool(code.strip()) for code in text.splitlines())


def test_no_function_becomes_long() -> None:
    """At most a screen and a half."""
    paths = [path for path in SOURCE.rglob("*.py*") if path.suffix in (".py", ".pyx")] + [*SOURCE.rglob("*.pxd")]
    found = {
        path.relative_to(SOURCE).as_posix() + "::" + name: code for path in paths for name, code in functions(path)
    }
    assert len(found) > 2000
    assert not {name: code for name, code in found.items() if code > 80}


def test_tests_lie_in_folders() -> None:
    """Each beside those of its package; this file is for the tree as a whole."""
    assert [path.name for path in (ROOT / "tests").glob("test_*.py")] == ["test_layout.py"]


@pytest.mark.parametrize("name", ["contract.txt", "slow.txt", "skips.txt"])
def test_lists_of_tests_name_what_is_there(name: str) -> None:
    for line in (ROOT / "tests" / name).read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        path, _, test = line.split(" | ")[0].partition("::")
        if name == "contract.txt" and (ROOT / path).is_dir():
            continue
        text = (ROOT / path.rstrip("*")).read_text(encoding="utf-8")
        wanted = test.rpartition("::")[2].rstrip("*")
        assert f"def {wanted}" in text if test.endswith("*") else not test or f"def {wanted}(" in text, line


def _module_level(tree: ast.Module, kinds: tuple[type[ast.expr], ...], called: set[str]) -> set[str]:
    """Names that a module gives values of some kinds, or what some calls return."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            value = node.value
            if isinstance(value, kinds) or (isinstance(value, ast.Call) and ast.unparse(value.func) in called):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_what_all_threads_ask_has_no_lock() -> None:
    """Without a GIL these wait for a lock that a forked child may find taken: `get` of a dictionary, `in` of a set, and
    functions whose results functools keeps. See threads.md."""
    asked = []
    for path in MODULES:
        if path.relative_to(SOURCE).parts[0] in ("_tools", "_integrity"):  # they run in one thread
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tables = _module_level(tree, (ast.Dict, ast.DictComp), {"dict"})
        sets = _module_level(tree, (ast.Set, ast.SetComp), {"set", "frozenset"})
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "functools":
                asked += [
                    f"{path}:{node.lineno}: {name.name}" for name in node.names if name.name in ("cache", "lru_cache")
                ]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                if ast.unparse(node.func.value) in {*tables, "sys.modules"}:
                    asked.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                there = node.comparators[0]
                if isinstance(there, ast.Set) or ast.unparse(there) in sets:
                    asked.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    assert not asked, (
        "use item_of and remembered of blosc2._core.io.sharing, and tuples or dictionaries:\n" + "\n".join(asked)
    )


_LOOPS = ast.ListComp | ast.SetComp | ast.DictComp | ast.For | ast.AsyncFor | ast.While


def _catches_all(kind: ast.expr | None) -> bool:
    return kind is None or not {"BaseException", "KeyboardInterrupt"}.isdisjoint(
        ast.unparse(kind).strip("()").split(", ")
    )


def _loops_in_blocks(node: ast.AST, block: bool = False) -> Iterator[_LOOPS]:
    """Loops in the same function as a block around them that has something to do at its end."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        block = False
    elif isinstance(node, ast.GeneratorExp):  # a function of its own
        return
    elif isinstance(node, _LOOPS) and block:
        yield node
    inner = [(child, block) for child in ast.iter_child_nodes(node)]
    if isinstance(node, ast.With | ast.AsyncWith):
        if any(not ast.unparse(item.context_expr).startswith("suppress(") for item in node.items):
            inner = [(child, True) for child, _ in inner]
    elif isinstance(node, ast.Try | ast.TryStar):
        ends = block or bool(node.finalbody)
        tried = ends or any(_catches_all(handler.type) for handler in node.handlers)
        inner = [(child, tried) for child in (*node.body, *node.orelse)]
        inner += [(child, ends) for child in node.handlers] + [(child, block) for child in node.finalbody]
    for child, within in inner:
        yield from _loops_in_blocks(child, within)


def _ends_with_condition(body: list[ast.stmt]) -> bool:
    last = body[-1]
    if isinstance(last, ast.If) and last.orelse:
        return _ends_with_condition(last.orelse)
    if isinstance(last, ast.For | ast.AsyncFor | ast.While) and last.orelse:
        return _ends_with_condition(last.orelse)
    return isinstance(last, ast.If | ast.Assert | ast.Match)


def _jumps_back_bare(loop: _LOOPS) -> bool:
    """Whether the jump back to the beginning is behind a condition, where CPython 3.13 looks for no handler."""
    if isinstance(loop, ast.ListComp | ast.SetComp | ast.DictComp):
        return any(generator.ifs for generator in loop.generators)
    if isinstance(loop, ast.While) and not isinstance(loop.test, ast.Constant):
        return True
    return _ends_with_condition(loop.body)


def test_an_interrupt_of_a_loop_ends_the_blocks_around_it() -> None:
    """CPython 3.13 does not call `__exit__`, nor come to `finally`, if a signal comes at the end of some loops
    (python/cpython#130279): a lock would stay taken, and a change half done. The loops have functions of their own, or
    end with another statement than a condition."""
    bare = [
        f"{path.relative_to(ROOT)}:{loop.lineno}"
        for path in MODULES
        for loop in _loops_in_blocks(ast.parse(path.read_text(encoding="utf-8")))
        if _jumps_back_bare(loop)
    ]
    assert not bare, bare
    seen = [
        _jumps_back_bare(loop)
        for text in (
            "with a:\n  for b in c:\n    if b:\n      d()",
            "with a:\n  while b:\n    d()",
            "try:\n  b = [c for c in d if c]\nfinally:\n  e()",
            "try:\n  for b in c:\n    if not b:\n      continue\n    d()\nexcept BaseException:\n  e()",
            "try:\n  b()\nexcept E:\n  for c in d:\n    if c:\n      e()\nfinally:\n  f()",
        )
        for loop in _loops_in_blocks(ast.parse(text))
    ]
    assert seen == [True, True, True, False, True]
