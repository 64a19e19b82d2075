"""Memory that runs out: the n-th allocation of this package and its C library, of NumPy, or of Python fails."""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import blosc2

_SOURCE = Path(__file__).with_suffix(".c")
#: Whether it works here.
AVAILABLE = sys.platform == "linux" and shutil.which("cc") is not None and sys.maxsize > 1 << 32
#: Parts of the paths of modules that call the system for memory.
_MODULES = (os.path.join(os.path.dirname(blosc2.__file__), "_core", ""), "/blosc2/_core/", "numpy/_core/_multiarray")
FOREVER = 1 << 62


@cache
def build() -> str:
    """Compile it, which forked children need not do again."""
    folder = tempfile.mkdtemp(prefix="blosc2-allocator-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = os.path.join(folder, "failing_allocator.so")
    flags = ["-O1", "-g", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, "-o", library, str(_SOURCE), "-ldl"], check=True)
    return library


@cache
def _library(python: bool) -> ctypes.PyDLL:
    """The library, which watches the modules that are loaded by now: import all that are to be watched before."""
    library = ctypes.PyDLL(build())
    library.disarm.restype = library.count_denied.restype = ctypes.c_long
    library.arm.argtypes = (ctypes.c_long, ctypes.c_long)
    found = [library.watch_modules(os.fsencode(part)) for part in dict.fromkeys(_MODULES)]
    assert any(found), "no module calls for memory"
    if python:
        api = ctypes.pythonapi
        library.watch_python(api.PyMem_GetAllocator, api.PyMem_SetAllocator)
    return library


class Lack:
    """What became of a lack of memory.

    Attributes
    ----------
    allocations : int
        How many there were until it ended.
    denied : int
        How many failed.
    """

    def __init__(self, library: ctypes.PyDLL) -> None:
        self._library = library
        self.allocations = self.denied = 0

    def end(self) -> bool:
        """Give memory again; whether there was none at some time."""
        self.allocations += self._library.disarm()
        self.denied = self._library.count_denied()
        return bool(self.denied)


@contextmanager
def lack(at: int, many: int = 1, *, python: bool = False) -> Iterator[Lack]:
    """Have so many allocations fail, from a number on; -1 counts them. Those of Python, too, once it was asked for."""
    library = _library(python)
    found = Lack(library)
    library.arm(FOREVER if at < 0 else at, many)
    try:
        yield found
    finally:
        found.end()
