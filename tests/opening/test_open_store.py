"""`blosc2.open` of a store: which class it gives, and what arguments reach it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

KINDS = [(blosc2.DictStore, ".b2z"), (blosc2.DictStore, ".b2d"), (blosc2.TreeStore, ".b2z"), (blosc2.TreeStore, ".b2d"),
         (blosc2.EmbedStore, ".b2e")]  # fmt: skip


@pytest.fixture(params=KINDS, ids=lambda kind: kind[0].__name__ + kind[1])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, str]:
    cls, suffix = request.param
    path = str(tmp_path / f"x{suffix}")
    with cls(path, mode="w") as store:
        store["/a"] = [1, 2]
    return cls, path


@pytest.mark.parametrize("mode", ["r", "a", "w"])
def test_the_tag_names_the_class(made: tuple[Any, str], mode: str) -> None:
    cls, path = made
    with blosc2.open(path, mode=mode) as store:
        assert type(store) is cls
        assert store.mode == mode
        assert list(store) == ([] if mode == "w" else ["/a"])
        store.discard()


@pytest.mark.parametrize("mode", ["r", "a", "w"])
@pytest.mark.parametrize(
    "given", [{"timeout": 1}, {"exclusive": False}, {"verify": True}, {"advise": "random"}], ids=str
)
def test_keywords_reach_the_store_in_each_mode(made: tuple[Any, str], mode: str, given: dict[str, Any]) -> None:
    cls, path = made
    with blosc2.open(path, mode=mode, cparams={"clevel": 7}, **given) as store:
        assert type(store) is cls
        assert store.cparams.clevel == 7
        store.discard()


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A store that is one table of another package."""
    path = str(tmp_path / "t.b2z")
    description = blosc2.SChunk()
    description.vlmeta["kind"] = "ctable"
    with blosc2.TreeStore(path, mode="w") as tree:
        tree["/column"] = [1, 2]
    with zipfile.ZipFile(path, "a") as z:
        z.writestr("_meta.b2f", description.to_cframe())
    return path


def test_parts_of_a_table_are_leaves(table: str) -> None:
    with pytest.warns(UserWarning, match="table of another package") as told:
        store = blosc2.open(table)
    assert told[0].filename == __file__
    with store:
        assert type(store) is blosc2.DictStore
        assert list(store) == ["/_meta", "/column"]


def test_a_table_that_is_refused_leaves_no_lock(table: str) -> None:
    # What holds the error holds what was half opened.
    with pytest.raises(UserWarning, match="table of another package") as kept:
        blosc2.open(table, mode="a")
    with blosc2.DictStore(table, mode="a") as store:
        store["/more"] = [3]
    assert kept.value is not None


@pytest.mark.parametrize("full", [False, True], ids=["relative", "full"])
@pytest.mark.parametrize(("suffix", "is_folder"), [(".b2z", False), (".b2d", True)])
def test_a_separator_behind_a_new_path(
    suffix: str, is_folder: bool, full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The suffix before it decides what is made, as it does without."""
    monkeypatch.chdir(tmp_path)
    name = f"x{suffix}"
    with blosc2.DictStore((f"{tmp_path}/{name}" if full else name) + "/", mode="w") as store:
        store["/a"] = np.arange(3)
    assert (tmp_path / name).is_dir() == is_folder
    with blosc2.open(name) as store:
        assert store["/a"][2] == 2


def test_a_folder_of_zarr_says_how_to_convert_it(tmp_path: Path) -> None:
    (tmp_path / "in.zarr").mkdir()
    with pytest.raises(blosc2.FormatError, match=r"to make a store of it: blosc2\.convert\('in\.zarr', 'in\.b2z'\)"):
        blosc2.open(tmp_path / "in.zarr")


def test_a_file_of_two_suffixes_says_how_to_convert_it(tmp_path: Path) -> None:
    (tmp_path / "ct.nii.gz").write_bytes(b"\x1f\x8b" + bytes(100))
    with pytest.raises(blosc2.FormatError, match=r"blosc2\.convert\('ct\.nii\.gz', 'ct\.b2z'\)"):
        blosc2.open(tmp_path / "ct.nii.gz")
    (tmp_path / "table.csv").write_bytes(b"a,b\n1,2\n" * 20)
    with pytest.raises(blosc2.FormatError) as error:  # which is not read
        blosc2.open(tmp_path / "table.csv")
    assert "convert" not in str(error.value)
