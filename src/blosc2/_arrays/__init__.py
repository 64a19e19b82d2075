"""Parts for making arrays: how they are read, chunk shapes, the specification of a new array, slabs written one by one.

`NDArray` and the functions that make arrays use this package, which knows neither of them. Arrays larger than memory
are made slab by slab; nothing here holds a whole array.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._arrays.axis_view import *
    from blosc2._arrays.chunk_shapes import *
    from blosc2._arrays.planes import *
    from blosc2._arrays.readable import *
    from blosc2._arrays.ready import *
    from blosc2._arrays.rearranging import *
    from blosc2._arrays.reductions import *
    from blosc2._arrays.resize import *
    from blosc2._arrays.shown import *
    from blosc2._arrays.slabs import *
    from blosc2._arrays.small_frames import *
    from blosc2._arrays.spec import *
    from blosc2._arrays.waiting_rows import *
else:
    __getattr__ = on_demand(__name__, {
        "axis_view": "Axes ViewHandle expanded_axes seen_through squeezed_axes",
        "chunk_shapes": (
            "CHUNK_NBYTES are_partitions_aligned are_partitions_behaved as_shape compute_chunks_blocks decoded_nbytes"
        ),
        "planes": (
            "DIMENSIONS LONGEST Axis Picture as_meant axes_of axis_names check_dtype decoded_bytes has_meaning "
            "index_of index_text middle_plane palette_of picture_axes pieces read_picture sample_of_planes shape_of"
        ),
        "readable": "ChunkInfo ReadableArray",
        "ready": "ready_in_children ready_to_change ready_to_read",
        "rearranging": (
            "chunks_from copied joined matrix_axes permuted reshaped retyped selected shape_for taken taken_along"
        ),
        "reductions": "reduced",
        "resize": "resize_update resized_geometry rows_to_append",
        "shown": "described_choice html one_line",
        "slabs": "Box Shape Snapshot compressed_box converted joined_rows made plan_like slab_height slabs_in slabs_of",
        "small_frames": "TINY cframe_of forget_templates raw_kinds settled template_of tiny_frame",
        "spec": "ArrayPlan plain_dtype",
        "waiting_rows": "append_rows few_rows frame_of items_of keep_items keep_length",
    })  # fmt: skip
