"""cat writes its output piece by piece: the same bytes as those of the whole."""

from __future__ import annotations

import csv
import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from cli_kit import Answer, failing

import blosc2
from blosc2._tools.cli import printing
from blosc2._tools.cli.locations import parsed_selection
from blosc2._tools.selections import axes_of, index_of, pieces

BOX = np.arange(11 * 13 * 7, dtype="i4").reshape(11, 13, 7)
SELECTIONS = ["...", "3", "::-2", "5:5", "..., ::3", "2:9, -1", ":, 4:, 1", "-1:0:-3, ::-1, 2", "1, 2, 3", ":, :0"]


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("most", [1, 40, 300, 100_000])
def test_pieces_are_the_items_in_their_order(selection: str, most: int) -> None:
    array = blosc2.asarray(BOX, chunks=(4, 5, 7), blocks=(2, 3, 4))
    key = parsed_selection(selection)
    axes = axes_of(key, BOX.shape)
    np.testing.assert_array_equal(BOX[index_of(axes)], BOX[key])
    found = list(pieces(array, axes, most))
    assert all(piece.nbytes <= max(most, 4) for piece in found)
    np.testing.assert_array_equal(np.concatenate([piece.ravel() for piece in found]), BOX[key].ravel())


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("most", [1, 100, 1 << 20])
def test_npy(tmp_path: Path, run: Answer, monkeypatch: pytest.MonkeyPatch, selection: str, most: int) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(printing, "_PIECE", most)
    blosc2.asarray(BOX, urlpath="box.b2nd", chunks=(4, 5, 7))
    run("cat", "box.b2nd", selection, "-f", "npy", "-o", "box.npy")
    whole = io.BytesIO()
    np.save(whole, np.array(BOX[parsed_selection(selection)], order="C"))
    assert Path("box.npy").read_bytes() == whole.getvalue()


@pytest.mark.parametrize("names", [["x", "y"], ["größe", "длина"]])
def test_npy_of_records(tmp_path: Path, run: Answer, monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(printing, "_PIECE", 100)
    items = np.zeros(9, [(name, "i2") for name in names])
    items[names[-1]] = np.arange(9)
    blosc2.asarray(items, urlpath="r.b2nd")
    run("cat", "r.b2nd", "-f", "npy", "-o", "r.npy")
    found = np.load("r.npy")
    assert found.dtype == items.dtype
    np.testing.assert_array_equal(found, items)


TABLES = {
    "matrix": BOX[0],
    "line": BOX[:, 0, 0],
    "floats": np.array([[0.1, np.nan], [1e300, -0.0]]),
    "words": np.array([["", "a,b", "c"], ["", "", ""], ['"', "e\nf", ""]]),
    "empty words": np.array(["", "a", ""]),
    "records": np.array([(1, b"x"), (2, b"y,"), (3, b"")], [("n", "i4"), ("s", "S2")]),
    "no rows": np.zeros((0, 3)),
    "no columns": np.zeros((3, 0)),
    "one item": np.array(7.5),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("most", [1, 2, 5, 1000])
def test_csv(tmp_path: Path, run: Answer, monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(printing, "_CELLS", most)
    items = TABLES[name]
    blosc2.asarray(items, urlpath="t.b2nd")
    expected = io.StringIO()
    table = csv.writer(expected, lineterminator="\n")
    if items.dtype.names:
        table.writerow(items.dtype.names)
        table.writerows((n, s.decode()) for n, s in items.tolist())
    else:
        table.writerows(items.tolist() if items.ndim == 2 else [[item] for item in np.atleast_1d(items).tolist()])
    assert run("cat", "t.b2nd", "-f", "csv") == expected.getvalue()
    run("cat", "t.b2nd", "-f", "csv", "-o", "t.csv")
    assert Path("t.csv").read_bytes() == expected.getvalue().encode()


def test_super_chunks_and_lists(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printing, "_PIECE", 24)
    monkeypatch.setattr(printing, "_CELLS", 2)
    monkeypatch.setattr(printing, "_VALUES", 3)
    data = bytes(range(160))
    blosc2.SChunk(chunksize=64, data=data, cparams={"typesize": 8}, urlpath="c.b2frame", mode="w")
    run("cat", "c.b2frame", "2:17", "-f", "npy", "-o", "c.npy")
    np.testing.assert_array_equal(np.load("c.npy"), np.frombuffer(data[16:136], np.uint8))
    assert run("cat", "c.b2frame", "-1", "-f", "csv").split() == [str(byte) for byte in data[-8:]]
    assert run("cat", "c.b2frame", "1") == "[ 8  9 10 11 12 13 14 15]\n"
    assert "step" in failing(run, "cat", "c.b2frame", "::2")
    values = blosc2.ObjectArray(urlpath="v.b2frame", mode="w")
    values.extend(range(10))
    assert run("cat", "v.b2frame", "::-2").split() == ["9", "7", "5", "3", "1"]
    assert run("cat", "v.b2frame", "4:").split() == ["4", "5", "6", "7", "8", "9"]


def test_a_file_that_is_not_finished_does_not_appear(
    folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(printing, "_write_table", broken)
    before = sorted(folder.iterdir())
    assert "the disk is full" in failing(run, "cat", "a.b2nd", "-f", "csv", "-o", "a.csv")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_memory_is_bounded(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(printing, "_PIECE", 1 << 20)
    monkeypatch.setattr(printing, "_CELLS", 1 << 12)
    blosc2.zeros((2000, 10_000) if kind == "npy" else (40, 10_000), dtype="u1", urlpath="z.b2nd")
    tracemalloc.start()
    try:
        run("cat", "z.b2nd", "-f", kind, "-o", "out")
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()
    assert Path("out").stat().st_size == (20_000_128 if kind == "npy" else 800_000)
