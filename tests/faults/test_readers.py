"""Readers beside a writer that cuts off what a dead one left."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2._core.source import Source
from blosc2.exceptions import FormatError


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
        assert reader._backend._version.source.size == end
        with blosc2.DictStore(path, mode="a") as writer:
            assert os.path.getsize(path) == end
            writer["/b"] = np.arange(3)
        assert list(reader) == ["/a"]
        np.testing.assert_array_equal(reader["/a"][:], np.arange(5000))
        assert reader.refresh()
        assert sorted(reader) == ["/a", "/b"]


def test_a_part_of_an_open_file_is_mapped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(200)))
    source = Source.open(str(path))
    part = source.mapped_to(50)
    assert (part.size, part.mapped, part.path, part.identity) == (50, True, str(path), source.identity)
    assert source.mapped_to(0).size == 0
    os.truncate(path, 60)
    assert part.read(0, 50) == bytes(range(50))
    with pytest.raises(FormatError, match="cut just now"):
        source.mapped_to(61)
