"""A small file, read at once by Python's own calls: where the system's are not those of POSIX."""

from __future__ import annotations

import os
import stat
from errno import ENAMETOOLONG


def read_small(path: str, limit: int, flags: int) -> bytes | None:
    """The first `limit` bytes of a regular file; None where there is none. See `Source.of_small_file`."""
    try:
        descriptor = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        # Windows opens no directory, and says that one may not.
        if error.errno == ENAMETOOLONG or (isinstance(error, PermissionError) and os.path.isdir(path)):
            return None
        raise
    try:
        data = os.read(descriptor, limit)
        if len(data) in (0, limit) and not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return data
    except (IsADirectoryError, BlockingIOError):
        return None
    finally:
        os.close(descriptor)
