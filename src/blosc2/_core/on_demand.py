"""Names of a package whose modules are imported when such a name is first used.

See "What is imported when" in doc/design/architecture.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from blosc2._core.io.sharing import remembered


def on_demand(package: str, places: Mapping[str, str], modules: Iterable[str] = ()) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package.

    Parameters
    ----------
    places : dict
        The names that each module has, separated by spaces, by the module's path below the package.
    modules : iterable of str
        Modules below the package that are wanted themselves, under the last part of their path.
    """
    wanted = {name: module for module, names in places.items() for name in names.split()}
    paths = {module.rpartition(".")[2]: module for module in modules}

    def find(name: str) -> Any:
        if name in wanted:
            module = import_module(f"{package}.{wanted[name]}")
            # From now on the package has the names of this module itself: at exit, nothing can be imported any more.
            for other in places[wanted[name]].split():
                setattr(sys.modules[package], other, getattr(module, other))
            return getattr(module, name)
        if name in paths:
            module = import_module(f"{package}.{paths[name]}")
            setattr(sys.modules[package], name, module)
            return module
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


@remembered(256)
def import_now(package: str, *names: str) -> None:
    """Import the modules of some names of a package, or of all that it lists, so that none is imported later."""
    module = import_module(package)
    for name in names or module.__all__:
        getattr(module, name)
