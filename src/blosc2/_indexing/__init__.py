"""NumPy keys: what a key selects, and reading and writing the selected items.

A key is parsed once, into a selection; a selection is read into an array, or becomes new chunks. `_core` finds the
chunks and blocks that it touches; `_arrays` makes arrays.
"""

from typing import TYPE_CHECKING

from blosc2._core.ndim.grid_read import check_out
from blosc2._core.on_demand import on_demand
from blosc2._indexing.reducible import Reducible
from blosc2._indexing.views import FieldViews, NDField, OrthogonalIndex

if TYPE_CHECKING:
    from blosc2._indexing.keys import *
    from blosc2._indexing.read_items import *
    from blosc2._indexing.reducible import *
    from blosc2._indexing.write_items import *
else:
    __getattr__ = on_demand(__name__, {
        "keys": "Selection as_items basic_selection in_bounds list_index lossless plain",
        "read_items": (
            "Items Reader Version is_names planned read read_many read_orthogonal read_other reading view_items"
        ),
        "reducible": "all any argmax argmin max mean min prod std sum var",
        "write_items": "Chunks chunks_with orthogonal_chunks write_box",
    })  # fmt: skip
