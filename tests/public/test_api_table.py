"""The table of names in doc/reference/api.md says what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import blosc2

PAGE = Path(__file__).resolve().parents[2] / "doc" / "reference" / "api.md"


def rows() -> Iterator[tuple[str, str, str]]:
    """Dotted name below the package, yes or no, and the remark of every name of the page."""
    owner = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line == "<!-- differences -->":  # whose table has no names
            break
        if found := re.fullmatch(r"<!-- names of: (\S+) -->", line):
            owner = "" if found[1] == "blosc2" else found[1] + "."
        elif line.startswith("| `"):
            names, here, remark = (cell.strip() for cell in line.strip("|").split(" | "))
            for name in names.split(", "):
                yield owner + name.strip("`"), here, remark.strip(" |")


ROWS = list(rows())


def there(name: str) -> bool:
    """Whether a dotted name leads to something."""
    value: Any = blosc2
    for part in name.split("."):
        if not hasattr(value, part) and value is blosc2.NDField:
            value = blosc2.zeros(3, "i4,f8").fields["f0"]  # some of its attributes are set by its constructor
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def test_the_page_is_right() -> None:
    for name, here, remark in ROWS:
        assert here == ("yes" if there(name) else "no"), name
        assert remark or here == "yes", name


def test_the_page_is_complete() -> None:
    named = {part for name, here, _ in ROWS if here == "yes" for part in (name, name.split(".")[0])}
    assert not set(blosc2.__all__) - named
    assert len(ROWS) == len({name for name, _, _ in ROWS})
