"""Extras: a missing package is named with what installs it."""

from __future__ import annotations

import importlib
from typing import Any


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
        raise ImportError(f"{what} needs the package {package!r}: pip install 'python-blosc2[{extra}]'") from error
