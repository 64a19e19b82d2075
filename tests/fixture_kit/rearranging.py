"""What the tests of arrays made of others share."""

from __future__ import annotations

from typing import Any

import numpy as np

import blosc2
from blosc2 import Codec, NDArray
from fixture_kit.cases import assert_same


def check(got: Any, want: np.ndarray[Any, Any], more: dict[str, Any] | None = None) -> None:
    """The result is an array of its own with these items, also when it is opened again."""
    more = more or {}
    assert type(got) is NDArray
    assert_same(got[...], want)
    assert got.urlpath == more.get("urlpath")
    for name in ("chunks", "blocks"):
        assert name not in more or getattr(got, name) == more[name]
    if "urlpath" in more:
        assert_same(blosc2.open(more["urlpath"])[...], want)
    if "cparams" in more:
        assert (got.cparams.codec, got.cparams.clevel) == (Codec.LZ4, 3)
        for info in got.iterchunks_info():
            if info.special is blosc2.SpecialValue.NOT_SPECIAL and not info.lazychunk[2] & 2:  # not stored as it is
                assert info.lazychunk[2] >> 5 == 1  # LZ4, in the chunk's own header
