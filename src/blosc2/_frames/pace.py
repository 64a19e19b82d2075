"""What publishing costs, so that what changes often is published when that is cheap."""

from __future__ import annotations

import time
from typing import ClassVar, Final

#: Seconds. A change that waits longer is published with the next one, however small.
LONGEST_WAIT: Final = 1.0


class Costs:
    """The publications that one handle makes by itself. As a context manager it measures one.

    Attributes
    ----------
    count : int
        How many there were.
    """

    __slots__ = ("_began", "_ended", "_spent", "_took", "count")
    #: Beyond an allowance, publications may take one in so many seconds.
    part: ClassVar[float] = 20

    def __init__(self) -> None:
        self._ended = time.monotonic()
        self._began = self._spent = self._took = 0.0
        self.count = 0

    @property
    def since(self) -> float:
        """Seconds since the last one ended."""
        return time.monotonic() - self._ended

    def is_cheap(self, allowance: float) -> bool:
        """Whether publications took few seconds in all, or only a small part of the time since the last one."""
        return self._spent < allowance or self.since >= self.part * self._took

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._ended = time.monotonic()
        self._took = self._ended - self._began
        self._spent += self._took
        self.count += 1
