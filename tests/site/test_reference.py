"""Every public name has a place on the pages of doc/reference."""

from __future__ import annotations

import importlib
import inspect
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import blosc2
import blosc2.exceptions

PAGES = sorted((Path(__file__).resolve().parents[2] / "doc" / "reference").glob("*.md"))
DIRECTIVE = re.compile(r"^\.\. (?:auto\w+|py:\w+):: blosc2\.([\w.]+)$", re.MULTILINE)
NAMED = [name for page in PAGES for name in DIRECTIVE.findall(page.read_text("utf-8"))]


def value_of(name: str) -> Any:
    """What a dotted name below the package leads to; it fails where that is nothing."""
    *modules, last = name.split(".")
    return getattr(importlib.import_module(".".join(["blosc2", *modules])), last)


def test_every_name_of_the_package() -> None:
    assert not set(blosc2.__all__) - set(NAMED)


def test_every_exception() -> None:
    own = {
        value
        for name, value in vars(blosc2.exceptions).items()
        if isinstance(value, type) and value.__module__ == "blosc2.exceptions" and not name.startswith("_")
    }
    assert own - {value_of(name) for name in NAMED if name[-5:] == "Error"} == set()


def test_every_name_that_the_extension_module_lists() -> None:
    module = importlib.import_module("blosc2.blosc2_ext")
    assert not {f"blosc2_ext.{name}" for name in module.__all__} - set(NAMED)


def test_names_lead_to_something() -> None:
    assert len(NAMED) == len(set(NAMED))
    for name in NAMED:
        if not name.startswith("torch.") or find_spec("torch"):
            value_of(name)


@pytest.mark.parametrize("name", ["NDArray", "SChunk", "ObjectArray", "BatchArray"])
def test_classes_show_no_hooks(name: str) -> None:
    kind = value_of(name)
    shown = {one for one in dir(kind) if not one.startswith("_")}
    assert not {one for one in shown if isinstance(inspect.getattr_static(kind, one), staticmethod)}
