"""Compile the modules of a sub-package of `blosc2._core` from Cython to C, all in one process.

    python compile_package.py SOURCE PACKAGE OUTPUT SHARED MODULE...

`SOURCE` is the directory with the package `blosc2`, `PACKAGE` one of `_core`, and `OUTPUT` a directory. `SHARED` is the
name of the module that has what Cython otherwise puts into each one, or "". The command `cython` takes one file at a
time, and then most of the time goes into starting it.

The C files are the same for every interpreter. In the folder that the variable BLOSC2_CYTHON_CACHE names, they are kept
for further builds of the same sources.
"""

import hashlib
import os
import shutil
import sys
from importlib import metadata
from pathlib import Path

from Cython import __version__ as cython_version
from Cython.Compiler.Main import compile as compile_module

# Where there is no memory to append to a list comprehension, Cython 3.3.1 releases the item twice, and another object
# is freed under its users. The error path releases it.
RELEASED_TWICE = "    int result = PyList_Append(list, x);\n    Py_DECREF(x);\n"
RELEASED_ONCE = "    int result = PyList_Append(list, x);\n    if (result == 0) Py_DECREF(x);\n"


def kept_files(source: str, *arguments: str) -> Path | None:
    """The folder for C files of these sources and arguments; None if none are kept."""
    cache = os.environ.get("BLOSC2_CYTHON_CACHE")
    if not cache:
        return None
    digest = hashlib.sha256(repr((cython_version, metadata.version("numpy"), source, arguments)).encode())
    declarations, modules = Path(source).rglob("*.pxd"), Path(source).rglob("*.pyx")
    for path in [Path(__file__), *sorted([*declarations, *modules])]:
        digest.update(repr((str(path), path.read_bytes())).encode())
    return Path(cache, digest.hexdigest())


def main(source: str, package: str, output: str, shared: str, *modules: str) -> int:
    kept = kept_files(source, package, shared, *modules)
    if kept and kept.is_dir():
        shutil.copytree(kept, output, copy_function=shutil.copy, dirs_exist_ok=True)
        return 0
    for module in modules:
        result = compile_module(
            str(Path(source, "blosc2", "_core", package, f"{module}.pyx")),
            full_module_name=f"blosc2._core.{package}.{module}",
            include_path=[source],
            language_level=3,
            # No extension type can be pickled; with it, each would have code of its own that says so.
            compiler_directives={"auto_pickle": False},
            output_file=str(Path(output, f"{module}.c")),
            shared_utility_qualified_name=shared or None,
        )
        if result.num_errors:
            return 1
        made = Path(output, f"{module}.c")
        made.write_text(made.read_text(encoding="utf-8").replace(RELEASED_TWICE, RELEASED_ONCE), encoding="utf-8")
    if kept:
        partial = kept.with_suffix(".partial")
        partial.mkdir(parents=True, exist_ok=True)
        for module in modules:
            shutil.copy(Path(output, f"{module}.c"), partial)
        partial.rename(kept)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
