"""ZIP archives: records, directories, catalogs of leaves, and writing them.

Members are byte ranges here; `leaves` turns them into leaves.
"""

__all__ = [
    "archive", "archive_writer", "catalog", "catalog_pages", "catalog_patch", "catalog_writer", "descriptions",
    "external_sort", "leaf_kinds", "leaf_merge", "member_checksum", "path_slots", "slot_changes",
]  # fmt: skip
