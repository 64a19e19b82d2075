"""What is known of the frame of a value that is assigned, without looking into its bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends import filed_as, suffix_of
from blosc2._core.io.source import Source
from blosc2._stores.leaves.value_to_frame import frame_of, metadata_frame


def array_in_a_file(folder: Path) -> Any:
    return blosc2.asarray(np.arange(3000), urlpath=str(folder / "x.b2nd"))


def batches(_: Path) -> Any:
    made = blosc2.BatchArray()
    made.append([1, "a"])
    return made


VALUES = {
    "number": (lambda _: 7, ".b2nd"),
    "tiny array": (lambda _: np.arange(5), ".b2nd"),
    "array": (lambda _: np.arange(50_000), ".b2nd"),
    "large array": (lambda _: np.zeros(9 << 17), ".b2nd"),
    "compressed array": (lambda _: blosc2.arange(3000), ".b2nd"),
    "array in a file": (array_in_a_file, ".b2nd"),
    "bytes": (lambda _: blosc2.SChunk(data=b"12345"), ".b2f"),
    "bytes of an array": (lambda _: blosc2.arange(3000).schunk, ".b2nd"),
    "values": (lambda _: blosc2.ObjectArray(), ".b2f"),
    "batches": (batches, ".b2b"),
}


@pytest.mark.parametrize("name", VALUES)
def test_suffix_and_description_are_those_of_the_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blosc2._stores.leaves.value_to_frame.LARGE", 8 << 20)  # from which on a file is used
    make, suffix = VALUES[name]
    frame = frame_of(make(tmp_path), "/x", str(tmp_path / "s.b2z"), {})
    data = frame[0].read(*frame[1:])
    plain = Source.of_buffer(data), 0, len(data)
    assert frame.suffix == suffix == suffix_of(plain)
    assert filed_as(frame) == filed_as(plain)


def test_metadata() -> None:
    assert metadata_frame({"a": 1}).suffix == ".b2f"


def test_a_flush_does_not_look_into_tiny_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "x.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/a"], store["/b"] = [1], [2]
        monkeypatch.delattr("blosc2._backends.layout.suffix_of_frame")
        monkeypatch.delattr("blosc2._backends.layout._described")
        store["/c"] = [3]
        store.flush()
    monkeypatch.undo()
    with blosc2.open(path) as store:
        assert [leaf[0] for leaf in store.values()] == [1, 2, 3]
