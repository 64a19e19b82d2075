"""The library as a whole: versions, threads, small tools.

Programs for the published package look here for functions that live in other modules of this one: they are offered too.
"""

from __future__ import annotations

import os
import platform
import sys

import msgpack
import numpy as np

from blosc2._arrays import compute_chunks_blocks as compute_chunks_blocks
from blosc2._arrays import forget_templates
from blosc2._core.codec.codec import compressor_names, free_idle, library_info, library_version
from blosc2._core.codec.shared_blocks import clear as clear_blocks
from blosc2._files import Owner
from blosc2._frames import forget_encoders, forget_recent_frames, publish_waiting
from blosc2._frames import set_file_cache as set_file_cache
from blosc2._functions import clib_info as clib_info
from blosc2._functions import compress as compress
from blosc2._functions import compress2 as compress2
from blosc2._functions import compressor_list as compressor_list
from blosc2._functions import decompress as decompress
from blosc2._functions import decompress2 as decompress2
from blosc2._functions import get_blocksize as get_blocksize
from blosc2._functions import get_cbuffer_sizes as get_cbuffer_sizes
from blosc2._functions import get_clib as get_clib
from blosc2._functions import get_compressor as get_compressor
from blosc2._functions import get_cpu_info as get_cpu_info
from blosc2._functions import pack as pack
from blosc2._functions import pack_array as pack_array
from blosc2._functions import set_blocksize as set_blocksize
from blosc2._functions import set_compressor as set_compressor
from blosc2._functions import set_releasegil as set_releasegil
from blosc2._functions import unpack as unpack
from blosc2._functions import unpack_array as unpack_array
from blosc2._opening import from_cframe as from_cframe
from blosc2._opening import load_array as load_array
from blosc2._opening import load_tensor as load_tensor
from blosc2._opening import ndarray_from_cframe as ndarray_from_cframe
from blosc2._opening import pack_array2 as pack_array2
from blosc2._opening import pack_tensor as pack_tensor
from blosc2._opening import save_array as save_array
from blosc2._opening import save_tensor as save_tensor
from blosc2._opening import schunk_from_cframe as schunk_from_cframe
from blosc2._opening import unpack_array2 as unpack_array2
from blosc2._opening import unpack_tensor as unpack_tensor
from blosc2._options import BlockCacheStats as BlockCacheStats
from blosc2._options import Metrics as Metrics
from blosc2._options import block_cache_stats as block_cache_stats
from blosc2._options import detect_number_of_cores, get_nthreads
from blosc2._options import metrics as metrics
from blosc2._options import set_block_cache as set_block_cache
from blosc2._options import set_nthreads as set_nthreads
from blosc2.version import __version__


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
