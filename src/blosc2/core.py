"""The library as a whole: versions, threads, small tools."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any, Final

import msgpack
import numpy as np

from blosc2._arrays import forget_templates
from blosc2._core.codec.codec import compressor_names, free_idle, library_info, library_version
from blosc2._core.codec.shared_blocks import clear as clear_blocks
from blosc2._files import Owner
from blosc2._frames import forget_encoders, forget_recent_frames, publish_waiting
from blosc2._options import detect_number_of_cores, get_nthreads
from blosc2.version import __version__

# Names of other modules, which programs for the published package look for here.
_ELSEWHERE: Final = (
    "BlockCacheStats", "Metrics", "block_cache_stats", "clib_info", "compress", "compress2", "compressor_list",
    "compute_chunks_blocks", "decompress", "decompress2", "from_cframe", "get_blocksize", "get_cbuffer_sizes",
    "get_clib", "get_compressor", "get_cpu_info", "load_array", "load_tensor", "metrics", "ndarray_from_cframe",
    "pack", "pack_array", "pack_array2", "pack_tensor", "save_array", "save_tensor", "schunk_from_cframe",
    "set_block_cache", "set_blocksize", "set_compressor", "set_file_cache", "set_nthreads", "set_releasegil",
    "unpack", "unpack_array", "unpack_array2", "unpack_tensor",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        return getattr(sys.modules["blosc2"], name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def print_versions() -> None:
    """Print the versions of this package and of its dependencies.

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
    """Release memory that only makes later calls faster, and files that were kept open.

    That is unused memory of compression and decompression, the blocks of the cache of `set_block_cache`, whose limit
    and counts stay, and what `set_file_cache` keeps.
    """
    forget_recent_frames()
    free_idle()
    clear_blocks()
    forget_encoders()
    forget_templates()


def remove_urlpath(path: str | bytes | os.PathLike[str] | None) -> None:
    """Remove the file or directory of an array or store; None, or a path that does not exist, is ignored."""
    if path is None:
        return
    name = os.fsdecode(path)
    if os.path.isfile(name + ".b2lock"):
        os.unlink(name + ".b2lock")  # which locking=True puts there
    if os.path.isdir(name) and not os.path.islink(name):
        Owner().remove_tree(name, strict=True)
    elif os.path.lexists(name):
        publish_waiting(name)  # otherwise a handle would find its changes lost
        os.unlink(name)
