"""Files whose compression was chosen are read by the reference package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest

import blosc2

pytestmark = pytest.mark.interop

RNG = np.random.default_rng(0)
WALK = RNG.integers(-3, 4, (64, 8000)).cumsum(axis=1).astype("i2")
DATA = {
    "walk": WALK,
    "colours": np.clip(RNG.normal(0, 2, (200, 300, 3)) + np.arange(300)[:, None] % 200, 0, 255).astype("u1"),
    "stereo": np.stack([WALK.ravel(), WALK.ravel() // 2], -1),
    "noise": RNG.integers(0, 256, 300_000, dtype="u1"),
    "noise, then repeated": np.concatenate(
        [RNG.integers(0, 256, 5 << 20, dtype="u1"), np.tile(np.arange(64, dtype="u1"), 80_000)]
    ),
    "mask": RNG.random((300, 1000)) > 0.9,
    "table": np.array(
        list(zip(range(20_000), WALK.ravel()[:20_000].tolist(), strict=True)), dtype=[("id", "i8"), ("x", "f4")]
    ),
    "text": np.array(["a few", "words"] * 5000),
}  # fmt: skip


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("how", ["auto", "smallest", "fastest", "write", {"goal": "size", "precision": 0.5}], ids=str)
def test_chosen_arrays_are_read_by_upstream(name: str, how: Any, tmp_path: Path, upstream: Any) -> None:
    path = str(tmp_path / "x.b2nd")
    decoded = blosc2.asarray(DATA[name], cparams=how, urlpath=path)[...]
    if "precision" not in how:
        assert decoded.tobytes() == DATA[name].tobytes()
    found = upstream.describe(path=path)
    assert (found["shape"], found["dtype"]) == (list(decoded.shape), repr(decoded.dtype))
    assert found["sha256"] == manifest.sha256(decoded.tobytes())
