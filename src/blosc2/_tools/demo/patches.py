"""Random patches of the stored images: what a training loop reads."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from blosc2._tools.demo.progress import Progress

# Edges of a patch along the spatial axes, by their number; the other axes are read in full.
EDGES = {2: (64, 64), 3: (16, 16, 16)}

Box = tuple[slice, ...]


class Level(NamedTuple):
    """What a leaf of the store has to contain, computed from the source image."""

    data: np.ndarray[Any, Any]
    spatial: int


def choose(levels: Mapping[str, Level], count: int, seed: int) -> list[tuple[str, Box]]:
    """Choose patches: each leaf is as likely as any other, each position in it too."""
    rng = np.random.default_rng(seed)
    keys = list(levels)
    chosen = []
    for number in rng.integers(len(keys), size=count):
        level = levels[keys[number]]
        edges = EDGES[level.spatial]
        starts = (int(rng.integers(max(1, length - edge + 1))) for length, edge in zip(level.data.shape, edges))
        chosen.append((keys[number], tuple(slice(start, start + edge) for start, edge in zip(starts, edges))))
    return chosen


def differences(store: Any, levels: Mapping[str, Level], chosen: list[tuple[str, Box]]) -> list[str]:
    """Read patches, compare each with its source bit for bit, and name those that differ; keys too."""
    stored = {f"{path.rstrip('/')}/{name}" for path, _, names in store.walk("/") for name in names}
    wrong = [f"{key}: missing or unexpected" for key in sorted(stored ^ levels.keys())]
    with Progress("checking patches", len(chosen)) as progress:
        for key, box in chosen:
            truth = levels[key].data[box]
            patch = store[key][box] if key in stored else None
            if (
                patch is None
                or patch.dtype != truth.dtype
                or patch.shape != truth.shape
                or patch.tobytes() != truth.tobytes()
            ):
                wrong.append(f"{key}[{', '.join(f'{edge.start}:{edge.stop}' for edge in box)}]")
            progress.step(key)
    return wrong
