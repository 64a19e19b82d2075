"""Readers beside a writer that cuts off what a dead one left; `sweeps` has readers beside all else that writers do."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import blosc2


@pytest.mark.parametrize("tail", [b"x", b"PK\3\4" + bytes(20_000), b"PK\5\6" + bytes(18)])
def test_a_tail_may_go_under_a_mapped_store(tail: bytes, tmp_path: Path) -> None:
    path = str(tmp_path / "store.b2z")
    with blosc2.DictStore(path, mode="w") as store:
        store["/a"] = np.arange(5000)
    end = os.path.getsize(path)
    with open(path, "ab") as file:
        file.write(tail)
    with blosc2.DictStore(path, mode="r", mmap_mode="r") as reader:
        # Bytes of a mapping that the file no longer has would end this process.
        assert reader._table.backend.members.source.size == end
        with blosc2.DictStore(path, mode="a") as writer:
            assert os.path.getsize(path) == end
            writer["/b"] = np.arange(3)
        assert list(reader) == ["/a"]
        np.testing.assert_array_equal(reader["/a"][:], np.arange(5000))
        assert reader.refresh()
        assert sorted(reader) == ["/a", "/b"]
