"""Public functions that make arrays, rearrange them, and compress single buffers.

Code that a class shares with its methods lies with the class; this package has what exists only as a function. Nothing
here knows stores, or opens a path.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._functions.buffers import *
    from blosc2._functions.creation import *
    from blosc2._functions.from_frame import *
    from blosc2._functions.manipulation import *
    from blosc2._functions.slice_chunks import *
    from blosc2._functions.tuning import *
else:
    __getattr__ = on_demand(__name__, {
        "buffers": (
            "clib_info compress compress2 compressor_list decompress decompress2 get_blocksize get_cbuffer_sizes "
            "get_clib get_compressor get_cpu_info pack pack_array set_blocksize set_compressor set_releasegil unpack "
            "unpack_array"
        ),
        "creation": (
            "arange array asarray copy empty empty_like eye frombuffer fromiter full full_like linspace nans ones "
            "ones_like save uninit zeros zeros_like"
        ),
        "from_frame": "OpaqueArray OpaqueSChunk wrap",
        "manipulation": (
            "astype concat expand_dims matrix_transpose permute_dims reshape squeeze stack take take_along_axis "
            "transpose"
        ),
        "slice_chunks": "get_slice_nchunks touched_chunks",
        "tuning": "tune",
    })  # fmt: skip
