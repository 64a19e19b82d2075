# Checksums of members, for other modules of Cython: see member_sum.pxd. Python sees nothing of it.
