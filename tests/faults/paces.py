"""When a store or array publishes by itself: always, never, by turns. By the clock it would depend on the machine."""

from __future__ import annotations

from blosc2._backends import Pace
from blosc2._frames import Costs

#: How many changes in a row find that publishing is cheap, and how many then that it is not.
PACES = {"quick": (1, 0), "slow": (0, 1), "changing": (3, 2)}


class ForcedCosts(Costs):
    """What the changes of an array cost on a disk that is as quick as is said, whatever the time."""

    __slots__ = ("_asked", "_cheap", "_dear")

    def __init__(self, pace: str) -> None:
        super().__init__()
        self._asked, (self._cheap, self._dear) = 0, PACES[pace]

    @property
    def since(self) -> float:
        return 0.0

    def is_cheap(self, allowance: float) -> bool:
        self._asked += 1
        return (self._asked - 1) % (self._cheap + self._dear) < self._cheap


class ForcedPace(Pace):
    """The pace of a store on a disk that is as quick as is said, whatever the time."""

    __slots__ = ("_asked", "_cheap", "_dear")

    def __init__(self, pace: str) -> None:
        super().__init__()
        self._asked, (self._cheap, self._dear) = 0, PACES[pace]

    def is_due(self, waiting: int, values: int) -> bool:
        return self.is_cheap(0.0)

    def quiet_time(self, values: int) -> tuple[int, float]:
        return 0, 0.0  # each change asks

    def is_cheap(self, allowance: float) -> bool:
        self._asked += 1
        return (self._asked - 1) % (self._cheap + self._dear) < self._cheap
