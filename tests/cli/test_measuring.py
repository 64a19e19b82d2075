"""bench: what it measures, what it prints, and what it refuses. How fast anything is, is not tested."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from cli_kit import Answer, failing

import blosc2

READS = ["open the file again", "find a key, open its leaf", "random item", "random patch", "all items, in order"]


def test_a_store(folder: Path, run: Answer) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    rows = json.loads(run("bench", "s.b2z", "--seconds", "0.01", "--json"))["rows"]
    assert [row["what"] for row in rows] == READS
    for row in rows:
        for mode in ("mapped", "not_mapped"):
            assert row[mode]["seconds"] > 0
            assert (row[mode]["bytes_a_second"] > 0) == ("item" in row["what"] or "patch" in row["what"])
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("location", ["d.b2d", "e.b2e", "s.b2z/mri", "s.b2z/mri/007/raw", "s.b2z/mri/*/raw", "a.b2nd"])
def test_each_kind(folder: Path, run: Answer, location: str) -> None:
    if "*" in location:
        assert "names 2 keys" in failing(run, "bench", location, "--seconds", "0")
        return
    lines = run("bench", location, "--seconds", "0").splitlines()
    reads = [what for what in READS if location != "a.b2nd" or "key" not in what]
    assert lines[0].split() == ["mapped", "not", "mapped"]
    assert [any(line.startswith(what) for line in lines[1:]) for what in reads] == [True] * len(reads)
    assert len(lines) == 1 + len(reads)


def test_the_same_is_read_both_ways(tmp_path: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blosc2.asarray(np.arange(6000).reshape(60, 100), urlpath="a.b2nd")
    read: list[str] = []
    original = blosc2.NDArray.__getitem__

    def watched(self: blosc2.NDArray, key: object) -> object:
        read.append(str(key))
        return original(self, key)

    keys = []
    for _ in range(2):
        read.clear()
        with monkeypatch.context() as patch:
            patch.setattr(blosc2.NDArray, "__getitem__", watched)
            run("bench", "a.b2nd", "--seconds", "0", "--seed", "7")
        keys.append(list(read))
    assert keys[0] == keys[1]
    half = [keys[0][at : at + 3] for at in range(0, len(keys[0]), 3)]
    assert half[0::2] == half[1::2]  # mapped, then not mapped, in each round


def test_arrays_of_no_axes_and_of_one(tmp_path: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blosc2.asarray(np.array(3.5), urlpath="zero.b2nd")
    blosc2.asarray(np.arange(100_000), urlpath="one.b2nd")
    for name in ("zero.b2nd", "one.b2nd"):
        assert "random patch" in run("bench", name, "--seconds", "0")
        assert "ZSTD 5" in run("bench", name, "--seconds", "0", "--codecs")


def test_codecs(folder: Path, run: Answer) -> None:
    rows = json.loads(run("bench", "s.b2z/mri/007/raw", "--codecs", "--json", "--seconds", "0"))["rows"]
    assert [row["codec"] for row in rows] == [
        "BLOSCLZ 5", "LZ4 5", "LZ4HC 5", "ZLIB 5", "ZSTD 1", "ZSTD 5", "ZSTD 9",
    ]  # fmt: skip
    assert all(row["compress"] > 0 and row["decompress"] > 0 and row["cratio"] > 0 for row in rows)
    lines = run("bench", "a.b2nd", "--codecs", "--seconds", "0").splitlines()
    assert lines[0].split() == ["codec", "ratio", "compress", "decompress"]
    assert len(lines) == 8
    assert "name one of its arrays" in failing(run, "bench", "s.b2z", "--codecs", "--seconds", "0")


def test_what_is_refused(folder: Path, run: Answer) -> None:
    assert "only arrays that have items" in failing(run, "bench", "o.b2frame")
    blosc2.zeros((0, 3), urlpath="none.b2nd", chunks=(1, 3))
    assert "only arrays that have items" in failing(run, "bench", "none.b2nd")
    with blosc2.TreeStore("empty.b2z", mode="w"):
        pass
    if os.path.exists("empty.b2z"):
        assert "no array with items" in failing(run, "bench", "empty.b2z")
    assert "nothing is at" in failing(run, "bench", "s.b2z/mri/none")
    failing(run, "bench", "absent.b2z")
