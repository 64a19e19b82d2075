"""Where the leaves of a store lie: a ZIP file, a directory, or a frame of embedded values.

A backend finds leaves by their keys, publishes changes, and rewrites files to free unused bytes. It knows bytes and
their positions, not arrays: `_stores` turns leaves into arrays, and values into frames.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._backends.directory.backend import *
    from blosc2._backends.directory.leaf_files import *
    from blosc2._backends.embedded.backend import *
    from blosc2._backends.embedded.file import *
    from blosc2._backends.embedded.frame_layout import *
    from blosc2._backends.embedded_map import *
    from blosc2._backends.key_rules import *
    from blosc2._backends.layout import *
    from blosc2._backends.protocol import *
    from blosc2._backends.publish_pace import *
    from blosc2._backends.temporary import *
    from blosc2._backends.tiers import *
    from blosc2._backends.writer_lock import *
    from blosc2._backends.zip.backend import *
    from blosc2._backends.zip.members import *
    from blosc2._backends.zip.publishing import *
    from blosc2._backends.zip.unfinished_append import *
else:
    __getattr__ = on_demand(__name__, {
        "directory.backend": "DirectoryBackend",
        "directory.leaf_files": "has_few_names",
        "embedded.backend": "EmbeddedBackend",
        "embedded.file": "EmbeddedFile",
        "embedded.frame_layout": "EmbeddedChanges stored_value",
        "embedded_map": "MAP REGISTRY Embedded STORE_KINDS chunks_of_value joined_value open_embedded read_embedded",
        "key_rules": "KEY_RULES MAX_SEGMENTS canonical_key is_own is_path is_safe new_key plain_key suffixed_folders",
        "layout": (
            "APPLE_DOUBLE EMBED FRAME_MAGIC LEAF_SUFFIXES LOCK NOT_REPLACED RESERVED ByteRange NewFrame NewVersion "
            "Renamed filed_as is_archive may_be_attributes missing shared_lock_path suffix_of suffix_of_frame taken"
        ),
        "protocol": "Backend",
        "publish_pace": "MAP_BYTES Pace",
        "temporary": "MEMORY_LIMIT",
        "tiers": "TieredBackend",
        "writer_lock": "WriterLock",
        "zip.backend": "RemoteZipBackend ZipBackend",
        "zip.members": "END END_WITH_CHECKSUM",
        "zip.publishing": "CATALOG_LEAST LeafStream",
        "zip.unfinished_append": "DIGITS FEW_BITS end_with_checksum is_half_written lost_end wrong_bits",
    })  # fmt: skip
