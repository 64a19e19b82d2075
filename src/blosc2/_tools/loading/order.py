"""Which samples the batches of an epoch have, computed from the number of the batch alone."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

import numpy as np

from blosc2._tools.loading.permutation import Integers, Permutation

# Numbers that are computed together: one by one they would take as long as reading small samples.
_TOGETHER = 1 << 12


@lru_cache(maxsize=8)
def _permutation(length: int, seed: int, epoch: int) -> Permutation:
    return Permutation(length, seed, epoch)


@lru_cache(maxsize=8)
def _part(length: int, seed: int, epoch: int, rank: int, replicas: int, part: int) -> Integers:
    """Some of the numbers that a replica takes, in its order."""
    positions = np.arange(part * _TOGETHER, (part + 1) * _TOGETHER, dtype=np.int64) * replicas + rank
    numbers = _permutation(length, seed, epoch)[positions % length]
    numbers.flags.writeable = False
    return numbers


class Order:
    """The order of samples: epoch after epoch, batch after batch, for one of several replicas.

    Parameters
    ----------
    length : int
        Samples in an epoch.
    batch_size : int
    shuffle : bool
    seed : int
    drop_last : bool
        Whether samples are left out that do not fill a batch.
    rank, replicas : int
        Which of how many processes this is that train together. Each takes every `replicas`-th sample. All have the
        same number: with `drop_last` the rest is left out, else some samples come twice.
    """

    def __init__(
        self, length: int, batch_size: int, *, shuffle: bool = False, seed: int = 0, drop_last: bool = False,
        rank: int = 0, replicas: int = 1,
    ) -> None:  # fmt: skip
        self.length, self.batch_size = operator.index(length), operator.index(batch_size)
        self.shuffle, self.seed, self.drop_last = bool(shuffle), operator.index(seed), bool(drop_last)
        self.rank, self.replicas = operator.index(rank), operator.index(replicas)
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        if not 0 <= self.rank < self.replicas:
            raise ValueError(f"rank must be between 0 and replicas - 1 = {self.replicas - 1}, not {rank}")
        if self.length < 1:
            raise ValueError("there are no samples")
        rest = 0 if self.drop_last else self.replicas - 1
        #: Samples of this replica in an epoch.
        self.own = (self.length + rest) // self.replicas
        #: Batches of this replica in an epoch.
        self.batches = (self.own + (0 if self.drop_last else self.batch_size - 1)) // self.batch_size

    def numbers(self, epoch: int, batch: int) -> Integers:
        """The samples of a batch."""
        if not 0 <= batch < self.batches:
            raise IndexError(f"batch {batch} of an epoch of {self.batches}")
        first = batch * self.batch_size
        stop = min(first + self.batch_size, self.own)
        if not self.shuffle:
            return (np.arange(first, stop, dtype=np.int64) * self.replicas + self.rank) % self.length
        parts = []
        while first < stop:
            part, start = divmod(first, _TOGETHER)
            numbers = _part(self.length, self.seed, epoch, self.rank, self.replicas, part)
            parts.append(numbers[start : start + stop - first])
            first += len(parts[-1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def state(self) -> dict[str, Any]:
        """What two orders that go on from each other have in common."""
        names = ("length", "batch_size", "shuffle", "seed", "drop_last", "replicas")
        return {name: getattr(self, name) for name in names}
