"""A pseudo-random permutation that is computed: the order of any number of samples takes no memory."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any, overload

import numpy as np

Integers = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]

_MASK = (1 << 64) - 1
# Up to so many numbers are sorted by random keys: all permutations are then equally likely, which a network of so few
# bits does not reach.
_SORTED = 1 << 12
_ROUNDS = 8
# Up to so many bits of a half, what each round makes of it is looked up, in tables of 128 KB at most.
_TABLE_BITS = 11


def mixed(value: int) -> int:
    """64 well mixed bits of an integer: the finalizer of SplitMix64."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def mixed_words(values: Words) -> Words:
    """64 well mixed bits of each integer of an array, which it overwrites."""
    values += np.uint64(0x9E3779B97F4A7C15)
    values ^= values >> np.uint64(30)
    values *= np.uint64(0xBF58476D1CE4E5B9)
    values ^= values >> np.uint64(27)
    values *= np.uint64(0x94D049BB133111EB)
    values ^= values >> np.uint64(31)
    return values


def mixed_all(*values: int) -> int:
    """64 bits that depend on several integers, and on their order."""
    state = 0
    for value in values:
        state = mixed(state ^ mixed(operator.index(value) & _MASK))
    return state


class Permutation:
    """The numbers ``0 .. length - 1`` in a pseudo-random order, each once. It takes no memory, however long it is.

    A Feistel network permutes the next larger power of two; numbers that fall outside are sent through it again. The
    order is the same on all machines and for all versions of NumPy.

    Parameters
    ----------
    length : int
        How many numbers, less than 2**62.
    *seed : int
        One or more integers that choose the order.

    Examples
    --------
    >>> from blosc2 import Permutation
    >>> order = Permutation(10**9, 3)
    >>> len(order), order[0] != order[1]
    (1000000000, True)
    >>> sorted(Permutation(5, 3))
    [0, 1, 2, 3, 4]
    >>> bool((order[4:6] == [order[4], order[5]]).all())
    True
    """

    def __init__(self, length: int, *seed: int) -> None:
        self.length = operator.index(length)
        if not 0 <= self.length < 1 << 62:
            raise ValueError(f"length must be between 0 and 2**62 - 1, not {length}")
        self.seed = tuple(map(operator.index, seed)) or (0,)
        key = mixed_all(*self.seed)
        self._table: Integers | None = None
        if self.length <= _SORTED:
            keys = mixed_words(np.arange(self.length, dtype=np.uint64) ^ np.uint64(key))
            self._table = np.argsort(keys, kind="stable").astype(np.int64)
            return
        bits = (self.length - 1).bit_length()
        self._low_bits = bits // 2
        self._high_bits = bits - self._low_bits
        self._keys = [np.uint64(mixed_all(key, number)) for number in range(_ROUNDS)]
        self._tables: list[Integers] | None = None
        if self._high_bits <= _TABLE_BITS:
            halves = np.arange(1 << self._high_bits, dtype=np.uint64)
            self._tables = [self._round(number, halves).astype(np.int64) for number in range(_ROUNDS)]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: slice | Integers) -> Integers: ...
    def __getitem__(self, position: Any) -> Any:
        """The number at a position, or those at the positions of a slice or an integer array."""
        if isinstance(position, slice):
            return self._at(np.arange(*position.indices(self.length), dtype=np.int64))
        if isinstance(position, np.ndarray):
            if position.size and not (position.min() >= 0 and position.max() < self.length):
                raise IndexError(f"positions must be between 0 and {self.length - 1}")
            return self._at(position.astype(np.int64))
        number = operator.index(position)
        number += self.length if number < 0 else 0
        if not 0 <= number < self.length:
            raise IndexError(f"position {position} of a permutation of {self.length} numbers")
        return int(self._at(np.array([number], np.int64))[0])

    def _at(self, positions: Integers) -> Integers:
        if self._table is not None:
            return self._table[positions]
        found = self._network(positions)
        outside = np.flatnonzero(found >= self.length)
        while len(outside):
            again = self._network(found[outside])
            found[outside] = again
            outside = outside[again >= self.length]
        return found

    def _round(self, number: int, given: Words) -> Words:
        """What a round changes one half by, of the other half."""
        bits = self._high_bits if number % 2 else self._low_bits
        return mixed_words(given ^ self._keys[number]) & np.uint64((1 << bits) - 1)

    def _network(self, values: Integers) -> Integers:
        """The network for numbers below the power of two."""
        low, high = values & ((1 << self._low_bits) - 1), values >> self._low_bits
        for number in range(_ROUNDS):
            # Halves of different lengths are changed in turn.
            given, changed = (low, high) if number % 2 else (high, low)
            if self._tables is None:
                changed ^= self._round(number, given.view(np.uint64)).view(np.int64)
            else:
                changed ^= self._tables[number].take(given)
        return high << self._low_bits | low


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

    Replicas are processes that train together: each takes every `replicas`-th sample, from its rank on. All have the
    same number of samples: with `drop_last` the rest is left out, as are samples that do not fill a batch, else some
    come twice.
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
