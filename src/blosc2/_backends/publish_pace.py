"""How often a store publishes assignments by itself.

A publication packs and writes the whole map of values and waits for the disk. So small stores publish each
assignment, and large ones when the pending changes are twice as large as the map. Then n assignments write a constant
times the bytes that they hold, and packing maps takes about as long as assigning. The time for publishing is bounded
too, however slow the disk is.
"""

from __future__ import annotations

import time
from typing import Final

from blosc2._frames import LONGEST_WAIT as _LONGEST_WAIT
from blosc2._frames import Costs

#: Bytes of the map for each value, about.
MAP_BYTES: Final = 64
# Pending changes are published when they are so many times as large as the map.
_MAPS: Final = 2
# A map of up to this many values is small.
_FEW: Final = 64
# Seconds that publications may take in total; beyond that they may take a part of the time.
_ALLOWANCE: Final = 0.1


class Pace(Costs):
    """When a store publishes by itself: see `Costs`."""

    __slots__ = ()

    def is_due(self, waiting: int, values: int) -> bool:
        """Whether to publish this many waiting bytes now, in a store of this many values."""
        since = time.monotonic() - self._ended
        if waiting < _MAPS * MAP_BYTES * values and values > _FEW and since < _LONGEST_WAIT:
            return False
        return self.is_cheap(_ALLOWANCE)

    def quiet_time(self, values: int) -> tuple[int, float]:
        """How many bytes may wait, and until when, while `is_due` says no."""
        if self._spent >= _ALLOWANCE:
            until = self._ended + self.part * self._took
            if time.monotonic() < until:
                return 1 << 62, until
        return (_MAPS * MAP_BYTES * values if values > _FEW else 0), self._ended + _LONGEST_WAIT
