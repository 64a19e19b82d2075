"""What the tests of `compress2` and its family share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import Codec

CODECS = [Codec.BLOSCLZ, Codec.LZ4, Codec.LZ4HC, Codec.ZLIB, Codec.ZSTD]
DECODERS: list[Callable[..., Any]] = [blosc2.decompress, blosc2.decompress2]
BOTH = pytest.mark.parametrize("decode", DECODERS)


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that compress a little."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 40, size) * rng.integers(0, 2, size)).astype(np.uint8).tobytes()
