"""Time the reading of patches, mapped and not."""

import itertools
import statistics
import time
from pathlib import Path
from typing import Any

from blosc2._opening import open as open_path
from blosc2._tools.demo.patches import Box
from blosc2._tools.demo.progress import Progress

# Rounds alternate between mapped and not, so that both meet the same conditions.
ROUNDS = 7
SECONDS_A_ROUND = 0.25


def _rate(store: Any, chosen: list[tuple[str, Box]]) -> float:
    """Return how many patches a second are read, the look-up of their keys included."""
    start = time.perf_counter()
    for count, (key, box) in enumerate(itertools.cycle(chosen), 1):
        store[key][box]
        if (spent := time.perf_counter() - start) >= SECONDS_A_ROUND:
            return count / spent
    raise ValueError("no patches to read")


def print_rates(output: Path, chosen: list[tuple[str, Box]]) -> None:
    """Read the same patches through a mapping and through a file descriptor; print the medians and the spread."""
    mapped, unmapped = [], []
    with (
        open_path(output, mode="r", mmap_mode="r") as mapped_store,
        open_path(output, mode="r") as unmapped_store,
        Progress("timing", ROUNDS) as progress,
    ):
        for _ in range(ROUNDS):
            mapped.append(_rate(mapped_store, chosen))
            unmapped.append(_rate(unmapped_store, chosen))
            progress.step()
    for mmap_mode, rates in (("'r'", mapped), ("None", unmapped)):
        print(
            f"mmap_mode={mmap_mode:4} {statistics.median(rates):9,.0f} patches a second "
            f"({min(rates):,.0f} to {max(rates):,.0f} in {ROUNDS} rounds)"
        )
