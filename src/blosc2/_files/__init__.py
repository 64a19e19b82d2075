"""Files and folders: files that appear whole or not at all, locks, copies, and which process may change a file.

Bytes are only moved here; `_frames` and `_backends` know what they mean. Only this package takes locks of files, makes
names durable, and compares identities of files. Code that appends to an open file calls `sync_descriptor` itself.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._files.advice import *
    from blosc2._files.atomic_file import *
    from blosc2._files.blocks import *
    from blosc2._files.copies import *
    from blosc2._files.identity import *
    from blosc2._files.locks import *
    from blosc2._files.owner import *
    from blosc2._files.pool import *
    from blosc2._files.remote import *
    from blosc2._files.sync import *
else:
    __getattr__ = on_demand(__name__, {
        "advice": "LASTING advise_byte_ranges advise_frame check_advice lasting",
        "atomic_file": (
            "FileMoves Lock NewFile has_names_or_attributes is_replaceable remove_leftovers temporary_name through_link"
        ),
        "blocks": "as_block to_the_end",
        "copies": (
            "BUDGET ByteRange ChunkBuffer Compaction DrawnChunk Part Progress Spool Spooled TemporaryFile "
            "check_unchanged checked_parts checked_pieces held pieces_of told waiting_items write_parts"
        ),
        "identity": (
            "TICK begins_with changed_by_others check_permission check_same_file check_writable_file file_identity "
            "identity_of"
        ),
        "locks": "CreationLock LockedFile Sidecar Turn flock holder_of superseded unfinished_transaction",
        "owner": "Descriptor Owner refusal",
        "pool": "Pool no_thread",
        "remote": "RemoteFile remote_source renewed_source uploaded",
        "sync": "Retry SyncsBeside sync_descriptor sync_file sync_files sync_folder sync_names",
    })  # fmt: skip
