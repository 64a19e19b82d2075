# Checksums of members, for other modules of Cython: see member_checksum.pxd. Python sees nothing of it.
