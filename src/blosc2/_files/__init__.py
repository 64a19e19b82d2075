"""Files and folders: files that appear whole or not at all, locks, copies, and which process may change a file.

Bytes are only moved here; `_frames` and `_backends` know what they mean. Only this package takes locks of files, makes
names durable, and compares identities of files. Code that appends to an open file calls `sync_descriptor` itself.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._files.advice import LASTING, advise_byte_ranges, advise_frame, check_advice, lasting
    from blosc2._files.atomic_file import Lock, NewFile, remove_leftovers, temporary_name, through_link
    from blosc2._files.blocks import as_block
    from blosc2._files.chunk_buffer import ChunkBuffer
    from blosc2._files.copies import (
        ByteRange,
        Compaction,
        Part,
        Progress,
        check_unchanged,
        checked_parts,
        checked_pieces,
        pieces_of,
        write_parts,
    )
    from blosc2._files.creation_lock import CreationLock
    from blosc2._files.file_lock import flock, locked
    from blosc2._files.identity import (
        begins_with,
        changed_by_others,
        check_permission,
        check_same_file,
        check_writable_file,
        file_identity,
        identity_of,
    )
    from blosc2._files.owner import Descriptor, Owner, refusal
    from blosc2._files.pool import Pool, no_thread
    from blosc2._files.remote import RemoteFile, remote_source, renewed_source
    from blosc2._files.renames import FileMoves
    from blosc2._files.retry import Retry
    from blosc2._files.shared_lock import Sidecar
    from blosc2._files.sync import SyncsBeside, sync_descriptor, sync_file, sync_files, sync_folder, sync_names
    from blosc2._files.temporary_bytes import BUDGET, Spool, Spooled, TemporaryFile, held, waiting_items
    from blosc2._files.turns import Turn
else:
    __getattr__ = on_demand(__name__, {
        "advice": "LASTING advise_byte_ranges advise_frame check_advice lasting",
        "atomic_file": "Lock NewFile remove_leftovers temporary_name through_link",
        "blocks": "as_block",
        "chunk_buffer": "ChunkBuffer",
        "copies": (
            "ByteRange Compaction Part Progress check_unchanged checked_parts checked_pieces pieces_of write_parts"
        ),
        "creation_lock": "CreationLock",
        "file_lock": "flock locked",
        "identity": (
            "begins_with changed_by_others check_permission check_same_file check_writable_file file_identity "
            "identity_of"
        ),
        "owner": "Descriptor Owner refusal",
        "pool": "Pool no_thread",
        "remote": "RemoteFile remote_source renewed_source",
        "renames": "FileMoves",
        "retry": "Retry",
        "shared_lock": "Sidecar",
        "sync": "SyncsBeside sync_descriptor sync_file sync_files sync_folder sync_names",
        "temporary_bytes": "BUDGET Spool Spooled TemporaryFile held waiting_items",
        "turns": "Turn",
    })  # fmt: skip

__all__ = [
    "BUDGET",
    "LASTING",
    "ByteRange",
    "ChunkBuffer",
    "Compaction",
    "CreationLock",
    "Descriptor",
    "FileMoves",
    "Lock",
    "NewFile",
    "Owner",
    "Part",
    "Pool",
    "Progress",
    "RemoteFile",
    "Retry",
    "Sidecar",
    "Spool",
    "Spooled",
    "SyncsBeside",
    "TemporaryFile",
    "Turn",
    "advise_byte_ranges",
    "advise_frame",
    "as_block",
    "begins_with",
    "changed_by_others",
    "check_advice",
    "check_permission",
    "check_same_file",
    "check_unchanged",
    "check_writable_file",
    "checked_parts",
    "checked_pieces",
    "file_identity",
    "flock",
    "held",
    "identity_of",
    "lasting",
    "locked",
    "no_thread",
    "pieces_of",
    "refusal",
    "remote_source",
    "remove_leftovers",
    "renewed_source",
    "sync_descriptor",
    "sync_file",
    "sync_files",
    "sync_folder",
    "sync_names",
    "temporary_name",
    "through_link",
    "waiting_items",
    "write_parts",
]  # fmt: skip
