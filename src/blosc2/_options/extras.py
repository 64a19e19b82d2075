"""Packages that only some uses need: who lacks one is told what brings it."""

from __future__ import annotations

import importlib
from typing import Any


def lacking(what: str, package: str, extra: str, note: str = "") -> str:
    """The words of an error: something needs a package, which an extra of ours brings."""
    return f"{what} needs the package {package!r}: pip install 'python-blosc2[{extra}]'{note}"


def needed(package: str, extra: str, what: str) -> Any:
    """Import a package that is an extra.

    Raises
    ------
    ImportError
        It is not installed; the message says what to install.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(lacking(what, package, extra)) from error
