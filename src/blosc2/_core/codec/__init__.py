"""Chunks and blocks: checks of their headers, compression and decompression, the cache of blocks, the pool of threads.

`codec` is the only module that links C-Blosc2. What a chunk belongs to, and where it lies, is not known here.
"""

__all__ = [
    "codec", "thread_pool",
]  # fmt: skip
