"""Readers beside writers: some points of each operation; `run.py` plays all of them for each way to read."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from store_makers import KINDS

from sweeps import readers

#: How many points of each operation.
SOME = 2


@pytest.mark.parametrize("write", readers.WRITES)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_reader_sees(kind: str, write: str, tmp_path: Path) -> None:
    drawn = random.Random(f"{kind} {write}")
    case = f"{kind}{drawn.choice(list(readers.WAYS))}, {write}, {drawn.choice(readers.HANDLES)}"
    points = len(readers.count(case, tmp_path))
    for at in sorted(drawn.sample(range(points), min(SOME, points))):
        readers.play(case, at, tmp_path)
