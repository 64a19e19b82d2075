"""Frame handles: where a frame lives, which version is current, and how a change of it is published.

Every array, super-chunk and list has a frame handle. This package has those for memory, for files, for directories and
for files that several processes change; the base class of the public array classes; and changes of single chunks.
Nothing here knows axes.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand
from blosc2._handles.chunks import ChangeableChunks, chunk_range, chunks_as_items, existing_chunk, read_bytes, read_into
from blosc2._handles.handle import FrameHandle, HandleOptions, Stored, StoredFrame, array_of, make_plugin, vlmeta_chunk
from blosc2._handles.opening import forget_recent_frames, open_handle, recent_frame, set_file_cache

if TYPE_CHECKING:
    from blosc2._handles.changeable import FileHandle, MemoryHandle
    from blosc2._handles.chunk_updates import (
        DEFAULT_CHUNK,
        INDEXES,
        append_special,
        bytes_of,
        checked_chunk,
        chunk_nbytes,
        compressed,
        compressed_pieces,
        mark_indexes_stale,
        overwrite,
        position_for_chunk,
        reorder,
        splice,
        update_special,
    )
    from blosc2._handles.chunks import lazy_chunk
    from blosc2._handles.directory import DirectoryHandle, ReadOnlyDirectoryHandle, directory_handle
    from blosc2._handles.new_frame import FrameContent, check_target, copy_frame, new_handle
    from blosc2._handles.pickled import (
        LOST_ERRORS,
        FrameVersion,
        LostHandle,
        path_of_any_version,
        path_to_pickle,
        remote_version,
        version_of,
    )
    from blosc2._handles.shared import FollowingHandle, shared_handle
else:
    __getattr__ = on_demand(__name__, {
        "changeable": "FileHandle MemoryHandle",
        "chunk_updates": (
            "DEFAULT_CHUNK INDEXES append_special bytes_of checked_chunk chunk_nbytes compressed compressed_pieces "
            "mark_indexes_stale overwrite position_for_chunk reorder splice update_special"
        ),
        "chunks": "lazy_chunk",
        "directory": "DirectoryHandle ReadOnlyDirectoryHandle directory_handle",
        "new_frame": "FrameContent check_target copy_frame new_handle",
        "pickled": "LOST_ERRORS FrameVersion LostHandle path_of_any_version path_to_pickle remote_version version_of",
        "shared": "FollowingHandle shared_handle",
    })  # fmt: skip
