"""A `.b2z` store: one ZIP file in which each leaf is a stored member.

Its versions are opened, its members found, and new ones appended here. What a member means to a store is not known
here; `_core.zip` reads and writes the records of ZIP files.
"""

__all__ = [
    "backend",
    "compaction",
    "directory_records",
    "member_frames",
    "members",
    "publishing",
    "streaming",
    "unfinished_append",
    "version",
]
