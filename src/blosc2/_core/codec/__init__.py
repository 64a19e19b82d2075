"""Chunks and blocks: checks of their headers, compression and decompression, the cache of blocks, the pool of threads.

`codec` is the only module that links C-Blosc2. This package does not know what a chunk belongs to, or where it lies.
"""
