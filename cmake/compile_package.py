"""Compile the modules of a sub-package of `blosc2._core` from Cython to C, all in one process.

    python compile_package.py SOURCE PACKAGE OUTPUT SHARED MODULE...

`SOURCE` is the directory with the package `blosc2`, `PACKAGE` one of `_core`, and `OUTPUT` a directory. `SHARED` is the
name of the module that has what Cython otherwise puts into each one, or "". The command `cython` takes one file at a
time, and then most of the time goes into starting it.
"""

import sys
from pathlib import Path

from Cython.Compiler.Main import compile as compile_module


def main(source: str, package: str, output: str, shared: str, *modules: str) -> int:
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
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
