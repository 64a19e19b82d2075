"""ZIP archives: records, directories, catalogs of leaves, and writing them.

Members are byte ranges here; `leaves` turns them into leaves.
"""

__all__ = [
    "archive", "archive_writer", "catalog", "catalog_writer", "central_record", "descriptions", "member_sum",
    "sorted_runs",
]  # fmt: skip
