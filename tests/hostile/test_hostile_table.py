"""The page of hostile files says what is: the functions, tests and fixtures that it names are there."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from fixture_kit import manifest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "design" / "hostile-files.md"
SOURCES = ROOT / "src" / "blosc2"
FIXTURES = [Path(entry["path"]).name for entry in manifest.HOSTILE]
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
NAMED = sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", row.partition(" | ")[2])})
FUNCTIONS = [name for name in NAMED if re.fullmatch(r"\w+(\.\w+)+", name) and name.rpartition(".")[2] not in (
    "py", "b2frame", "b2nd", "b2e", "b2z", "b2d", "b2f", "b2b")]  # fmt: skip
TESTS = [name for name in NAMED if name.startswith("test_")]
PATTERNS = [name for name in NAMED if name.endswith((".b2frame", ".b2nd", ".b2e", ".b2z", ".b2d", ".b2f", ".b2b"))]


def text_of(module: str) -> str:
    """The source of a module, Cython and its declarations included."""
    paths = [SOURCES / f"{module.replace('.', '/')}.{end}" for end in ("py", "pyx", "pxd")]
    found = [path.read_text(encoding="utf-8") for path in paths if path.exists()]
    assert found, f"there is no module {module}"
    return "\n".join(found)


def test_functions_are_there() -> None:
    for name in FUNCTIONS:
        module, _, function = name.rpartition(".")
        wanted = rf"^\s*(def|cdef|cpdef|class|cdef class)\b[^\n=]*\b{function}\b"
        assert re.search(wanted, text_of(module), re.MULTILINE), name


@pytest.mark.parametrize("name", TESTS)
def test_a_test_is_there(name: str) -> None:
    module, _, function = name.partition("::")
    text = next(ROOT.joinpath("tests").rglob(module)).read_text(encoding="utf-8")
    assert f"def {function}(" in text or not function


def test_every_fixture_shows_something() -> None:
    assert len(FUNCTIONS) > 50
    assert not [pattern for pattern in PATTERNS if not any(fnmatch(name, pattern) for name in FIXTURES)]
    assert not [name for name in FIXTURES if not any(fnmatch(name, pattern) for pattern in PATTERNS)]
