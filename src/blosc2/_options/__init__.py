"""What a caller may ask for, checked once: modes of files and stores, threads, how metadata is unpacked.

Nothing here knows frames, arrays or stores, and nothing is opened. A keyword of several functions is checked here, so
that it means the same everywhere.
"""

from blosc2._core.ndim.grid import worth_threads
from blosc2._options.deserialization import DeserializeMode, deserialize_mode
from blosc2._options.modes import check_modes, local_path, tell_of_mapping
from blosc2._options.out_of_scope import Absent, explain_absent, explain_name
from blosc2._options.parallel import PARALLEL_WORK, compress, compressed, run
from blosc2._options.store_modes import check_mmap_mode, check_mode, refuse_locking
from blosc2._options.store_options import StoreOptions, store_options
from blosc2._options.threads import (
    check_nthreads,
    detect_number_of_cores,
    get_nthreads,
    keep_in_step,
    ncores,
    set_nthreads,
)

__all__ = [
    "PARALLEL_WORK",
    "Absent",
    "DeserializeMode",
    "StoreOptions",
    "check_mmap_mode",
    "check_mode",
    "check_modes",
    "check_nthreads",
    "compress",
    "compressed",
    "deserialize_mode",
    "detect_number_of_cores",
    "explain_absent",
    "explain_name",
    "get_nthreads",
    "keep_in_step",
    "local_path",
    "ncores",
    "refuse_locking",
    "run",
    "set_nthreads",
    "store_options",
    "tell_of_mapping",
    "worth_threads",
]  # fmt: skip
