"""One buffer for the chunks of a new array in memory.

From the start it is as large as the chunks can become, so no chunk is moved; parts that are not written take no memory.
NumPy allocates it, because NumPy asks the system for large pages: with small ones, the page faults would take as long
as all the copying.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

#: Fewer bytes than this are simply joined.
_SMALL: Final = 1 << 20
#: At most this much memory is taken at first.
_LARGE: Final = 1 << 30


class ChunkBuffer:
    """Takes pieces one after the other; `stored` gives all of them as one buffer.

    Parameters
    ----------
    expected : int
        The largest number of bytes that may come.

    Examples
    --------
    >>> buffer = ChunkBuffer(100)
    >>> buffer.write(b"abc")
    >>> buffer.write(b"def")
    >>> bytes(buffer.stored())
    b'abcdef'
    """

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._pieces: list[bytes] = []  # until there are too many bytes for that
        self._buffer: np.ndarray[Any, np.dtype[np.uint8]] | None = None
        self._used = 0

    def write(self, data: Any) -> None:
        """Copy one more piece."""
        stop = self._used + len(data)
        if self._buffer is None:
            if stop <= _SMALL:
                self._pieces.append(bytes(data))  # the memory that it lies in will be used again
                self._used = stop
                return
            self._buffer = self._larger(max(stop, min(self._expected, _LARGE)), b"".join(self._pieces))
            self._pieces.clear()
        elif stop > len(self._buffer):
            self._buffer = self._larger(max(stop, 2 * len(self._buffer)), self._buffer[: self._used])
        self._buffer[self._used : stop] = np.frombuffer(data, np.uint8)
        self._used = stop

    def stored(self) -> Any:
        """All that was written."""
        if self._buffer is None:
            return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        used = self._buffer[: self._used]
        # Address space may be scarcer than memory.
        return used if 2 * self._used > len(self._buffer) else used.copy()

    @staticmethod
    def _larger(size: int, begin: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
        buffer = np.empty(size, np.uint8)
        buffer[: len(begin)] = np.frombuffer(begin, np.uint8)
        return buffer
