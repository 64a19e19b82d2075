"""A plugin of pytest: names that are out of scope stand in for themselves while test files are imported.

Some files of tests use such names where they define things (fields of a table, parameters of a test). Without this
their other tests could not be collected. While tests run, the names are missing as they are for everybody.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import pkgutil
import sys
import types
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

import pytest

_made: list[str] = []


class Absent:
    """Takes part in definitions, and does nothing."""

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __call__(self, *given: Any, **named: Any) -> Any:
        # As a decorator it leaves the function as it is.
        return given[0] if len(given) == 1 and callable(given[0]) and not named else Absent()

    def __getattr__(self, name: str) -> Any:
        return _stand_in(name)

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        return (object,)

    def __or__(self, other: object) -> Absent:
        return Absent()

    __ror__ = __or__

    def __getitem__(self, key: object) -> Absent:
        return Absent()

    # Else indexing it with 0, 1, 2, ... would never end.
    __iter__ = None


def _stand_in(name: str) -> Absent:
    if name.startswith("__"):
        raise AttributeError(name)
    return Absent()


def _or_stand_in(own: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that has `own`, which imports names when they are first used."""

    def find(name: str) -> Any:
        if own is not None:
            with suppress(AttributeError):
                return own(name)
        return _stand_in(name)

    return find


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of the package that there are not."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if name.startswith("blosc2.") else None

    def create_module(self, spec: Any) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = _stand_in  # type: ignore[method-assign]
        _made.append(spec.name)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        pass


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: Any) -> Generator[None, Any, Any]:
    """Stand-ins are there as long as a file is imported."""
    import blosc2

    if not isinstance(collector, pytest.Module):
        return (yield)
    for found in pkgutil.iter_modules(blosc2.__path__):
        if not found.name.startswith("__"):
            with suppress(ImportError):  # an extra, such as torch, is not installed
                importlib.import_module(f"blosc2.{found.name}")
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "blosc2"]
    before = [(module, module.__dict__.get("__getattr__")) for module in modules]
    finder = _Finder()
    for module, own in before:
        if own is None and hasattr(type(module), "__getattr__"):
            own = module.__getattr__  # the package itself is of a class of its own, whose method finds its names
        module.__getattr__ = _or_stand_in(own)  # type: ignore[method-assign]
    sys.meta_path.append(finder)
    try:
        return (yield)
    finally:
        sys.meta_path.remove(finder)
        for module, found in before:
            if found is None:
                del module.__getattr__
            else:
                module.__getattr__ = found  # type: ignore[method-assign]
        for name in _made:
            sys.modules.pop(name, None)
            blosc2.__dict__.pop(name.split(".")[1], None)
        _made.clear()
