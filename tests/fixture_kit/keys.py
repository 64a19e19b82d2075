"""Random NumPy keys of the basic kind: integers, slices of any step, an ellipsis, new axes."""

from __future__ import annotations

from typing import Any

import numpy as np


def _bound(rng: np.random.Generator, n: int) -> int | None:
    return None if rng.random() < 0.2 else int(rng.integers(-n - 2, n + 3))


def basic_key(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """A key that NumPy accepts for this shape."""
    axes = int(rng.integers(0, len(shape) + 1)) if rng.random() < 0.3 else len(shape)
    parts: list[Any] = []
    for n in shape[:axes]:
        if n and rng.random() < 0.25:
            parts.append(int(rng.integers(-n, n)))
            continue
        step = int(rng.choice([1, 1, 1, 1, 2, 3, -1, -2, -5, n + 1]))
        parts.append(slice(_bound(rng, n), _bound(rng, n), step))
    if rng.random() < 0.2:
        # missing axes may then be the middle ones
        parts[len(parts) // 2 :] = []
        parts.append(Ellipsis)
    if rng.random() < 0.15:
        parts.insert(int(rng.integers(0, len(parts) + 1)), None)
    return tuple(parts) if len(parts) != 1 or rng.random() < 0.5 else parts[0]
