"""Permutations that are computed, and the order of batches."""

from __future__ import annotations

import itertools
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blosc2 import Permutation
from blosc2._tools.loading.samples import Order


@settings(max_examples=60, deadline=None)
@given(length=st.integers(0, 20_000), seed=st.integers(-(2**70), 2**70))
def test_each_number_comes_once(length: int, seed: int) -> None:
    order = Permutation(length, seed)
    found = order[:]
    assert np.array_equal(np.sort(found), np.arange(length))
    assert len(order) == length
    for position in {0, length // 2, length - 1} if length else ():
        assert order[position] == found[position] == order[position - length]


def test_edges_of_the_network() -> None:
    for length in (4095, 4096, 4097, 8191, 8192, 8193, 2**17 + 1):
        assert np.array_equal(np.sort(Permutation(length, 5)[:]), np.arange(length))


@pytest.mark.parametrize("length", [3, 5])
def test_orders_of_few_are_equally_likely(length: int) -> None:
    orders = list(itertools.permutations(range(length)))
    count = 100 * len(orders)
    found = Counter(tuple(Permutation(length, seed)[:].tolist()) for seed in range(count))
    assert set(found) == set(orders)
    squares = sum((found[order] - 100) ** 2 / 100 for order in orders)
    # Chi-square with so many degrees of freedom: five standard deviations.
    assert squares < len(orders) + 5 * (2 * len(orders)) ** 0.5


@pytest.mark.parametrize("length", [5000, 1_000_003, 2**40 + 7])
def test_large_orders_look_random(length: int) -> None:
    order = Permutation(length, 1)
    positions = np.linspace(0, length - 1, 5000).astype(np.int64)
    places = order[positions] / length
    counts = np.histogram(places, 20, (0, 1))[0]
    assert ((counts - 250) ** 2 / 250).sum() < 60
    neighbours = order[np.arange(4000)] / length
    assert abs(np.corrcoef(neighbours[:-1], neighbours[1:])[0, 1]) < 0.08
    assert abs(np.corrcoef(places, Permutation(length, 2)[positions] / length)[0, 1]) < 0.08


def test_a_large_one_takes_no_memory() -> None:
    tracemalloc.start()
    order = Permutation(10**12, 3)
    numbers = {order[n] for n in range(100)}
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(numbers) == 100
    assert peak < 1 << 20


def test_the_order_stays_as_it_is() -> None:
    """A training may be resumed by another version: these were computed by hand-written integers of Python."""
    mask = 2**64 - 1

    def mixed(value: int) -> int:
        value = (value + 0x9E3779B97F4A7C15) & mask
        value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & mask
        value = ((value ^ value >> 27) * 0x94D049BB133111EB) & mask
        return value ^ value >> 31

    def mixed_all(*values: int) -> int:
        state = 0
        for value in values:
            state = mixed(state ^ mixed(value & mask))
        return state

    length, bits = 100_000, 17
    low_bits, high_bits = 8, 9
    key = mixed_all(7, 2)

    def network(value: int) -> int:
        low, high = value & (1 << low_bits) - 1, value >> low_bits
        for number in range(8):
            if number % 2:
                high ^= mixed(low ^ mixed_all(key, number)) & (1 << high_bits) - 1
            else:
                low ^= mixed(high ^ mixed_all(key, number)) & (1 << low_bits) - 1
        return high << low_bits | low

    assert low_bits + high_bits == bits
    wanted = []
    for number in range(50):
        value = network(number)
        while value >= length:
            value = network(value)
        wanted.append(value)
    assert Permutation(length, 7, 2)[:50].tolist() == wanted
    few = sorted(range(100), key=lambda i: mixed(i ^ key))
    assert Permutation(100, 7, 2)[:].tolist() == few


def test_what_is_no_position() -> None:
    for length in (10, 10_000):
        order = Permutation(length)
        for wrong in (length, -length - 1):
            with pytest.raises(IndexError, match=f"of {length} numbers"):
                order[wrong]
        with pytest.raises(IndexError, match="between 0"):
            order[np.array([0, length])]
    with pytest.raises(ValueError, match="length must be"):
        Permutation(-1)


@settings(max_examples=100, deadline=None)
@given(
    length=st.integers(1, 50),
    size=st.integers(1, 12),
    replicas=st.integers(1, 5),
    shuffle=st.booleans(),
    drop=st.booleans(),
)
def test_an_epoch_is_shared_out(length: int, size: int, replicas: int, shuffle: bool, drop: bool) -> None:
    found: Counter[int] = Counter()
    counts = set()
    for rank in range(replicas):
        order = Order(length, size, shuffle=shuffle, seed=3, drop_last=drop, rank=rank, replicas=replicas)
        batches = [order.numbers(4, batch).tolist() for batch in range(order.batches)]
        assert all(len(batch) == size for batch in (batches if drop else batches[:-1]))
        found.update(itertools.chain(*batches))
        counts.add((len(batches), sum(map(len, batches))))
    assert len(counts) == 1
    if drop:
        assert set(found.values()) <= {1}
        assert sum(found.values()) == length // replicas // size * size * replicas
    else:
        assert set(found) == set(range(length))
        assert sum(found.values()) == -(-length // replicas) * replicas
    if not shuffle and replicas == 1:
        assert list(itertools.chain(*batches)) == list(range(len(list(itertools.chain(*batches)))))


def test_epochs_differ() -> None:
    order = Order(1000, 10, shuffle=True)
    assert not np.array_equal(order.numbers(0, 0), order.numbers(1, 0))
    assert np.array_equal(order.numbers(1, 0), Order(1000, 10, shuffle=True).numbers(1, 0))


@pytest.mark.parametrize(
    ("arguments", "text"), [((0, 1), "no samples"), ((5, 0), "batch_size must be"), ((5, 1), "rank must be")]
)
def test_wrong_orders(arguments: tuple[int, int], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Order(*arguments, rank=2, replicas=2 if "rank" in text else 3)
    with pytest.raises(IndexError):
        Order(5, 2).numbers(0, 3)
