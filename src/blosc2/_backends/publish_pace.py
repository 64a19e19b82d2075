"""How often a store publishes assignments by itself.

A publication packs and writes the whole map of values and waits for the disk. So small stores publish each
assignment, and large ones when the pending changes are twice as large as the map. Then n assignments write a constant
times the bytes that they hold, and packing maps takes about as long as assigning. The time for publishing is bounded
too, however slow the disk is.
"""

from __future__ import annotations

import time
from typing import Final

#: Bytes of the map for each value, about.
MAP_BYTES: Final = 64
# Pending changes are published when they are so many times as large as the map.
_MAPS: Final = 2
# A map of up to this many values is small.
_FEW: Final = 64
# Seconds. A change that waits longer is published with the next assignment, however small.
_LONGEST_WAIT: Final = 1.0
# Publications may take `_ALLOWANCE` seconds in total, and beyond that 1/`_PART` of the time.
_ALLOWANCE: Final = 0.1
_PART: Final = 20


class Pace:
    """The publications that one handle makes by itself. As a context manager it measures one.

    Attributes
    ----------
    count : int
        How many there were.
    """

    __slots__ = ("_began", "_ended", "_spent", "_took", "count")

    def __init__(self) -> None:
        self._ended = time.monotonic()
        self._began = self._spent = self._took = 0.0
        self.count = 0

    def is_due(self, waiting: int, values: int) -> bool:
        """Whether to publish this many waiting bytes now, in a store of this many values."""
        since = time.monotonic() - self._ended
        if waiting < _MAPS * MAP_BYTES * values and values > _FEW and since < _LONGEST_WAIT:
            return False
        return self.is_cheap(_ALLOWANCE)

    def quiet_time(self, values: int) -> tuple[int, float]:
        """How many bytes may wait, and until when, while `is_due` says no."""
        if self._spent >= _ALLOWANCE:
            until = self._ended + _PART * self._took
            if time.monotonic() < until:
                return 1 << 62, until
        return (_MAPS * MAP_BYTES * values if values > _FEW else 0), self._ended + _LONGEST_WAIT

    def is_cheap(self, allowance: float) -> bool:
        """Whether publications took few seconds in all, or only a small part of the time since the last one."""
        return self._spent < allowance or time.monotonic() - self._ended >= _PART * self._took

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._ended = time.monotonic()
        self._took = self._ended - self._began
        self._spent += self._took
        self.count += 1
