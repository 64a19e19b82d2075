"""ZIP archives: records, directories, catalogs of leaves, and writing them.

Members are windows of bytes here; leaves are for `leaves`.
"""

__all__ = [
    "archive", "archive_writer", "catalog", "catalog_writer", "descriptions", "leaf_merge", "member_sum", "sorted_runs",
]  # fmt: skip
