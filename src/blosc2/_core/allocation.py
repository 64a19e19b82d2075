"""The rule for memory: how much one operation on a file may allocate (doc/design/hostile-files.md).

An operation may hold `FREE` bytes, `PER_BYTE` for each byte of the file, and what its caller asked for. If a number in
a file claims more, it is refused before anything is allocated. Writers apply the same rule, so that nothing is written
that could not be read.
"""

from __future__ import annotations

from typing import Final

from blosc2.exceptions import FormatError

#: Bytes that any file may make us hold, and those for each of its own.
FREE: Final = 64 << 20
PER_BYTE: Final = 4


def allowed(file_size: int, asked: int = 0) -> int:
    """Bytes that one operation may hold.

    Parameters
    ----------
    file_size : int
        Bytes of the file, or of what stands for it in memory.
    asked : int
        Bytes of the result as its caller can foresee it, and of the blocks that hold it.
    """
    return FREE + PER_BYTE * file_size + asked


def table_limit(file_size: int) -> int:
    """Bytes that a table of chunks may have, 8 for each: who uses it holds a copy of it now and then."""
    return allowed(file_size) // 2


class Allowance:
    """What one operation may still hold, where it holds several things together."""

    __slots__ = ("left",)

    def __init__(self, file_size: int) -> None:
        self.left = allowed(file_size)

    def take(self, nbytes: int, passing: int = 0, what: str = "it") -> None:
        """Hold so many bytes until the operation ends, and others for a moment.

        Raises
        ------
        FormatError
            That is more than the rule allows.
        """
        if nbytes + passing > self.left:
            raise FormatError(too_much(nbytes + passing, what, self.left))
        self.left -= nbytes


def too_much(nbytes: int, what: str, most: int) -> str:
    """Say that something in a file claims more than the rule allows."""
    return (
        f"{what} would take {nbytes} bytes of memory, of {most} that a file of this size may still take: it is "
        "damaged, or too large for its file"
    )
