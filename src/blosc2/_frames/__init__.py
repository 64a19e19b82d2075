"""One frame as bytes: its header fields, metadata, values, checksums, and the bytes of its next version.

Reading and writing the parts of a frame meet here, above the readers of `_core`. `_handles` knows where a frame lives
(in memory, in a file, in a directory); `_indexing` and `_arrays` handle the items in its chunks.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand
from blosc2._frames.dtypes import dtype_from_description, format_dtype, is_masked, parse_dtype, refuse_unstorable
from blosc2._frames.header_fields import (
    CBYTES_AT,
    CHUNK_HEADER,
    CHUNK_SIZES,
    FLAGS_AT,
    FRAME_HEADER,
    HEADER_FILE,
    HEADER_SIZE_AT,
    chunk_encoding,
    frame_chunksize,
    frame_nbytes,
    has_vl_blocks,
    header_size,
    is_directory_frame,
    set_frame_fields,
    special_kind,
)

if TYPE_CHECKING:
    from blosc2._frames.append import TRAILER_START, TRAILER_TAIL, Growth, end_of_versions, trailers
    from blosc2._frames.checksums import (
        MARK,
        MARK_AT,
        Running,
        as_table,
        buffers_with_checksums,
        carried,
        check_body,
        check_chunks,
        check_reads,
        from_table,
        is_verifiable,
        parts_with_checksums,
        stated_at,
        stored_numbers,
        verify_frame,
    )
    from blosc2._frames.directory import (
        ChunkNumbers,
        Directory,
        Integers,
        chunk_file,
        chunk_number,
        first_free,
        frame_of_head,
        from_file,
        head_identity,
        locked_directory,
        pack_head,
        publish_head,
        read_directory,
        read_head,
        take_back,
        write_chunk,
        write_directory,
    )
    from blosc2._frames.edited import EditedChunks
    from blosc2._frames.keywords import (
        ConstructorKeywords,
        array_keywords,
        cparams_keywords,
        dparams_keywords,
        schunk_keywords,
    )
    from blosc2._frames.metadata import (
        MAX_ENTRIES,
        Meta,
        VLMeta,
        pack_metalayers,
        set_strict_compatibility,
        strict_compatibility,
        text_name,
        which_has,
    )
    from blosc2._frames.msgpack_values import FEW_BYTES, Together, check_stored_readable, pack, pack_checked, unpack
    from blosc2._frames.parameters import (
        LOSSY_CODECS,
        check_declared,
        check_for_bytes,
        check_lossy_codec,
        encode,
        forget_encoders,
    )
    from blosc2._frames.payload_alignment import ALIGNMENT, PADDING, hole_before, with_padding
    from blosc2._frames.update import (
        NAN_OFFSET,
        SMALL_FRAME,
        UNINIT_OFFSET,
        ZERO_OFFSET,
        AnyChunk,
        Fields,
        FrameUpdate,
        all_chunks,
        check_table,
        frame_byte_range,
        frame_bytes,
        held_in_memory,
        lay_out,
        numbered,
        plain_byte_range,
        write_chunks,
        write_frame,
    )
else:
    __getattr__ = on_demand(__name__, {
        "append": "TRAILER_START TRAILER_TAIL Growth end_of_versions trailers",
        "checksums": (
            "MARK MARK_AT Running as_table buffers_with_checksums carried check_body check_chunks check_reads "
            "from_table is_verifiable parts_with_checksums stated_at stored_numbers verify_frame"
        ),
        "directory": (
            "ChunkNumbers Directory Integers chunk_file chunk_number first_free frame_of_head from_file head_identity "
            "locked_directory pack_head publish_head read_directory read_head take_back write_chunk write_directory"
        ),
        "edited": "EditedChunks",
        "keywords": "ConstructorKeywords array_keywords cparams_keywords dparams_keywords schunk_keywords",
        "metadata": (
            "MAX_ENTRIES Meta VLMeta pack_metalayers set_strict_compatibility strict_compatibility text_name "
            "which_has"
        ),
        "msgpack_values": "FEW_BYTES Together check_stored_readable pack pack_checked unpack",
        "parameters": "LOSSY_CODECS check_declared check_for_bytes check_lossy_codec encode forget_encoders",
        "payload_alignment": "ALIGNMENT PADDING hole_before with_padding",
        "update": (
            "NAN_OFFSET SMALL_FRAME UNINIT_OFFSET ZERO_OFFSET AnyChunk Fields FrameUpdate all_chunks check_table "
            "frame_byte_range frame_bytes held_in_memory lay_out numbered plain_byte_range write_chunks write_frame"
        ),
    })  # fmt: skip
