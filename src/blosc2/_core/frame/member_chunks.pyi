# For other modules of Cython: see member_chunks.pxd. Python sees nothing of it.
