"""Refuse to run from a directory that holds the files of two distributions.

This distribution (``python-blosc2``) and the one published as ``blosc2`` both install a package named ``blosc2``. pip
does not notice: the second overwrites some files of the first and leaves the others, and the result behaves
unpredictably.
"""

from collections.abc import Iterable
from importlib.machinery import EXTENSION_SUFFIXES
from os.path import exists, join

# What only the other distribution installs: its extension module, under each name that this interpreter
# could load it by (and would prefer to a Python file), and one module that is of no use here.
_FOREIGN = (*(f"blosc2_ext{suffix}" for suffix in EXTENSION_SUFFIXES), "c2array.py")


def refuse_mixed_install(directories: Iterable[str]) -> None:
    """Raise `ImportError` when a directory of the package (its ``__path__``) holds files of another package."""
    for directory in directories:
        for name in _FOREIGN:
            if exists(join(directory, name)):
                raise ImportError(
                    f"the files of two distributions are mixed in {directory}: 'python-blosc2' and 'blosc2' both "
                    f"install a package named 'blosc2' ({name} belongs to the second). Keep one of them in an "
                    "environment: run 'pip uninstall -y blosc2 python-blosc2', then install the one that you want. If "
                    "it is python-blosc2, and another program asks pip for 'blosc2', install 'packaging/blosc2' of its "
                    "source with it: it has this name and no files"
                )
