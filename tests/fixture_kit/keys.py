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


def array_key(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """A key with arrays side by side, without integers and new axes, which every package takes like NumPy."""
    kind = int(rng.integers(0, 5))
    if kind == 0 and np.prod(shape):
        return rng.random(shape) < 0.2
    if kind == 1:
        return rng.random(shape[0]) < 0.4
    points = (int(rng.integers(1, 9)),) if rng.random() < 0.7 else (2, 3)
    first = int(rng.integers(0, len(shape)))
    stop = int(rng.integers(first + 1, len(shape) + 1))
    parts: list[Any] = [slice(_bound(rng, n), _bound(rng, n), 1) for n in shape[:first]]
    parts += [rng.integers(-n, n, points) for n in shape[first:stop]]
    if rng.random() < 0.5:
        parts += [slice(_bound(rng, n), _bound(rng, n), 1) for n in shape[stop:]]
    return tuple(parts)
