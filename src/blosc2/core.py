"""The library as a whole: versions, threads, small tools."""

from __future__ import annotations

import os
import platform
import shutil
import sys

import msgpack
import numpy as np

from blosc2._core.codec import compressor_names, free_idle, library_info, library_version
from blosc2.encoders import forget_encoders
from blosc2.threads import detect_number_of_cores, get_nthreads
from blosc2.version import __version__


def print_versions() -> None:
    """Print the versions of this package and of all that it stands on.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.print_versions()  # doctest: +ELLIPSIS
    python-blosc2: ...
    """
    codecs = []
    for name in compressor_names():
        found = library_info(name)
        codecs.append(f"{name} {found[1]}" if found and found[1] != "unknown" else name)
    lines = {
        "python-blosc2": __version__,
        "C-Blosc2": library_version,
        "codecs": ", ".join(codecs),
        "NumPy": np.__version__,
        "msgpack": ".".join(map(str, msgpack.version)),
        "Python": sys.version.replace("\n", " "),
        "platform": platform.platform(),
        "cores": str(detect_number_of_cores()),
        "threads": str(get_nthreads()),
    }
    for name, value in lines.items():
        print(f"{name}: {value}")


def free_resources() -> None:
    """Release the contexts and scratch memory of compression and decompression that nothing is using."""
    free_idle()
    forget_encoders()


def remove_urlpath(path: str | bytes | os.PathLike[str] | None) -> None:
    """Remove the file or directory of an array or store; None and what does not exist are silently passed over."""
    if path is None:
        return
    name = os.fsdecode(path)
    if os.path.isdir(name) and not os.path.islink(name):
        shutil.rmtree(name)
    elif os.path.lexists(name):
        os.unlink(name)
