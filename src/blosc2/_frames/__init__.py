"""One frame as an object: its bytes, its metadata, where it lives, and how a change of it is published.

Reading and writing the parts of a frame meet here, above the readers of `_core`. Every array, super-chunk and list has
a frame handle: for memory, for a file, for a directory, or for a file that several processes change. Nothing here
knows axes: `_indexing` and `_arrays` handle the items in chunks.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand
from blosc2._frames.chunks import (
    ChangeableChunks,
    chunk_range,
    chunks_as_items,
    existing_chunk,
    lazy_chunk,
    read_bytes,
    read_into,
)
from blosc2._frames.dtypes import dtype_from_description, format_dtype, is_masked, parse_dtype, refuse_unstorable
from blosc2._frames.handle import (
    SECTOR,
    FrameHandle,
    HandleOptions,
    Stored,
    StoredFrame,
    array_of,
    make_plugin,
    publish_waiting,
    vlmeta_chunk,
)
from blosc2._frames.header_fields import (
    CBYTES_AT,
    CHOICE,
    CHUNK_HEADER,
    CHUNK_SIZES,
    FLAGS_AT,
    FRAME_HEADER,
    HEADER_FILE,
    HEADER_SIZE_AT,
    PADDING,
    chunk_encoding,
    frame_chunksize,
    frame_nbytes,
    has_vl_blocks,
    header_size,
    is_directory_frame,
    set_frame_fields,
    special_kind,
)
from blosc2._frames.opening import forget_recent_frames, open_handle, recent_frame, set_file_cache

if TYPE_CHECKING:
    from blosc2._frames.append import *
    from blosc2._frames.changeable import *
    from blosc2._frames.checksums import *
    from blosc2._frames.chunk_updates import *
    from blosc2._frames.directory import *
    from blosc2._frames.metadata import *
    from blosc2._frames.new_frame import *
    from blosc2._frames.parameters import *
    from blosc2._frames.pickled import *
    from blosc2._frames.shared import *
    from blosc2._frames.update import *
else:
    __getattr__ = on_demand(__name__, {
        "append": "TRAILER_START TRAILER_TAIL Growth NextVersion end_of_versions trailers",
        "changeable": "LONGEST_WAIT Costs FileHandle MemoryHandle Waiting",
        "checksums": (
            "MARK MARK_AT Running carried check_body check_chunks check_reads "
            "is_verifiable parts_with_checksums stated_at stored_numbers verify_frame"
        ),
        "chunk_updates": (
            "DEFAULT_CHUNK INDEXES append_special bytes_of checked_chunk chunk_nbytes compressed compressed_pieces "
            "integer mark_indexes_stale overwrite position_for_chunk reorder splice update_special"
        ),
        "directory": (
            "DirectoryHandle Integers ReadOnlyDirectoryHandle chunk_file chunk_number directory_handle "
            "frame_of_head write_directory"
        ),
        "metadata": (
            "FEW_BYTES MAX_ENTRIES Meta Together VLMeta check_stored_readable pack pack_checked pack_metalayers "
            "set_strict_compatibility strict_compatibility text_name unpack which_has with_choice"
        ),
        "new_frame": "check_target copy_frame new_handle",
        "parameters": (
            "LOSSY_CODECS ConstructorKeywords array_keywords check_declared check_for_bytes check_lossy_codec "
            "cparams_keywords dparams_keywords encode forget_encoders schunk_keywords"
        ),
        "pickled": "LOST_ERRORS FrameVersion LostHandle path_of_any_version path_to_pickle remote_version version_of",
        "shared": "FollowingHandle shared_handle",
        "update": (
            "ALIGNMENT NAN_OFFSET SMALL_FRAME UNINIT_OFFSET ZERO_OFFSET AnyChunk Copies Fields FrameContent "
            "FrameUpdate StoredChunks check_table frame_byte_range frame_bytes held_in_memory lay_out most_live "
            "plain_byte_range with_padding write_content write_frame"
        ),
    })  # fmt: skip
