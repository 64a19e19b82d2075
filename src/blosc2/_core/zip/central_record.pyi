# The records of a central directory, for other modules of Cython: see central_record.pxd. Python sees nothing of it.
