"""One frame: its header, the table of its chunks, its checksums, and the parts of one that is written.

Everything that a frame claims is checked here, once, before it is used. Axes are for `ndim`, members of archives for
`zip`.
"""

__all__ = [
    "block_check", "chunk_table", "frame", "frame_checksums", "frame_writer", "header", "packed", "small_frame",
]  # fmt: skip
