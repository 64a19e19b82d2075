"""Opening a path, bytes or a pickle: `open`, `load`, `from_cframe`, tensors, pickles.

The kind of object is recognised, and the request checked against it, before a class is called. `hooks` has what
importing the package sets up.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand
from blosc2._opening.hooks import install
from blosc2._opening.open_path import (
    estore_from_cframe,
    from_cframe,
    load,
    ndarray_from_cframe,
    objectarray_from_cframe,
    open,
    schunk_from_cframe,
)

if TYPE_CHECKING:
    from blosc2._opening.open_store import *
    from blosc2._opening.tensors import *
else:
    __getattr__ = on_demand(__name__, {
        "open_store": "opened_remote opened_store store_in_frame store_in_memory",
        "tensors": "load_array load_tensor pack_array2 pack_tensor save_array save_tensor unpack_array2 unpack_tensor",
    })  # fmt: skip
