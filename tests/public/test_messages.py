"""Messages say what was expected and what to do."""

from __future__ import annotations

import datetime as dt
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import exceptions


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    blosc2.asarray(np.zeros((4, 5)), urlpath="scan.b2nd").attrs["unit"] = "mm"
    with blosc2.TreeStore("scans.b2z", mode="w") as store:
        store["/patient/007"] = np.zeros((4, 5))
        store["/patient"].attrs["unit"] = "mm"
    return tmp_path


def store(mode: str = "r") -> blosc2.TreeStore:
    return blosc2.TreeStore("scans.b2z", mode=mode)


def closed() -> Any:
    with store() as found:
        pass
    return found["/patient/007"]


def late_change() -> None:
    with store("a") as found:
        leaf = found["/patient/007"]
    leaf[0] = 1


def changed(act: Callable[[blosc2.TreeStore], Any]) -> None:
    with store("a") as found:
        act(found)


# What is done, the class of the error, and what its message has.
CASES: dict[str, tuple[Callable[[], Any], type[Exception], tuple[str, ...]]] = {
    "change a mapped array": (
        lambda: blosc2.open("scan.b2nd", mmap_mode="r").append(np.zeros((1, 5))),
        exceptions.ReadOnlyError, ("scan.b2nd: ", "open it with mode='a', and without mmap_mode='r'"),
    ),
    "change a leaf of a reader": (
        lambda: store()["/patient/007"].__setitem__(0, 1),
        exceptions.ReadOnlyError, ("scans.b2z, key '/patient/007': ", "open the store with mode='a'"),
    ),
    "change the store of a reader": (
        lambda: store().__setitem__("/x", 1),
        exceptions.ReadOnlyError, ("scans.b2z, key '/x': ", "open the store with mode='a'"),
    ),
    "use a closed store": (closed, exceptions.ClosedStoreError, ("scans.b2z: ", "open it again")),
    "change a leaf of a closed store": (
        late_change, exceptions.ClosedStoreError, ("key '/patient/007': ", "open the store with mode='a'"),
    ),
    "an attribute that is not there": (
        lambda: blosc2.open("scan.b2nd").attrs["units"],
        exceptions.MissingMetadataError, ("scan.b2nd: ", "units not found", "which has 'unit'"),
    ),
    "an attribute of a leaf": (
        lambda: store()["/patient/007"].attrs["units"],
        exceptions.MissingMetadataError, ("scans.b2z, key '/patient/007': ", "which has no entry"),
    ),
    "an attribute of a group": (
        lambda: store()["/patient"].attrs["units"],
        exceptions.MissingMetadataError, ("scans.b2z, key '/patient': ", "'units' not found", "which has 'unit'"),
    ),
    "an attribute of the root": (
        lambda: store().attrs["units"],
        exceptions.MissingMetadataError, ("scans.b2z, key '/': ", "which has no entry"),
    ),
    "a new fixed entry": (
        lambda: blosc2.zeros(3).meta.__setitem__("unit", "mm"),
        exceptions.MissingMetadataError, ("unit not found", "which has 'b2nd'", "meta={...}", "attrs"),
    ),
    "a value of another shape": (
        lambda: blosc2.zeros((4, 5)).__setitem__(0, np.zeros(3)),
        exceptions.ShapeError, ("shape (3,)", "selection of shape (5,)", "broadcasts"),
    ),
    "more data than a chunk has": (
        lambda: blosc2.SChunk(chunksize=80).append_data(bytes(100)),
        exceptions.ChunkSizeError, ("100 bytes", "at most 80", "split the data"),
    ),
    "a filter for other items": (
        lambda: blosc2.asarray(
            np.arange(100, dtype="i2"), cparams={"filters": [blosc2.Filter.TRUNC_PREC], "filters_meta": [5]}
        ),
        exceptions.CompressionError, ("a filter failed", "use another codec or other filters in cparams={...}"),
    ),
    "a codec for other items": (
        lambda: blosc2.asarray(np.arange(300.0), cparams={"codec": blosc2.Codec.NDLZ, "codec_meta": 4}),
        exceptions.CompressionError, ("nothing that this codec takes", "use another codec"),
    ),
    "a field that is not there": (
        lambda: blosc2.zeros(3, "i4,f8").fields["x"], KeyError, ("'x'", "there are 'f0', 'f1'"),
    ),
    "a file that is not there": (
        lambda: blosc2.open("none.b2nd"), exceptions.MissingFileError, ("blosc2.asarray(..., urlpath=...)",),
    ),
    "a list that is not there": (
        lambda: blosc2.ObjectArray(urlpath="none.b2f", mode="r"), exceptions.MissingFileError, ("mode='a' creates it",),
    ),
    "an array that is there": (
        lambda: blosc2.open("scan.b2nd", mode="x"), exceptions.ExistingFileError, ("mode='r' or 'a' opens it",),
    ),
    "a store that is there": (lambda: store("x"), exceptions.ExistingFileError, ("mode='r' or 'a' opens it",)),
    "a key below a leaf": (
        lambda: changed(lambda found: found.__setitem__("/patient/007/x", 1)), ValueError, ("'/patient/007'", "delete"),
    ),
    "an object": (
        lambda: changed(lambda found: found.__setitem__("/x", object())),
        exceptions.UnsupportedValueError, ("an object cannot be stored",),
    ),
    "many keys below a leaf": (
        lambda: changed(lambda found: found.write_many([("/patient/007/x", 1)])), ValueError, ("delete it first",),
    ),
    "a leaf for a group": (
        lambda: changed(lambda found: found.__setitem__("/patient", 1)), ValueError, ("a key below it, or delete",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("folder")
def test_errors(case: str) -> None:
    act, kind, words = CASES[case]
    with pytest.raises(kind) as caught:
        act()
    assert type(caught.value) is kind
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_many_names_are_cut() -> None:
    array = blosc2.zeros(3)
    array.attrs[:] = {f"n{n}": n for n in range(20)}
    with pytest.raises(KeyError, match=r"which has 'n0', 'n1'.*'n7' and 12 more$"):
        array.attrs["x"]


@pytest.mark.usefixtures("folder")
def test_an_unknown_keyword_of_open() -> None:
    words = r"open\(\) ignores 'mmapmode' \(did you mean 'mmap_mode'\?\), 'zoo': it takes .*\bmmap_mode\b"
    with pytest.warns(UserWarning, match=words) as told:
        blosc2.open("scan.b2nd", mmapmode="r", zoo=1)
    assert len(told) == 1


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("make", [
    lambda items: blosc2.asarray(items, "new.b2nd"),
    lambda items: blosc2.array(items, Path("new.b2nd")),
    lambda items: blosc2.asarray("new.b2nd", items),
    lambda items: blosc2.fromiter(items, 3, "f8", "new.b2nd"),
    lambda items: blosc2.astype(items, "f8", "unsafe", "new.b2nd"),
])  # fmt: skip
def test_a_path_where_a_flag_belongs(make: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"^(copy|c_order) is True or False, not .*: the path .* is given as urlpath=$"):
        make(np.zeros(3))
    assert not os.path.exists("new.b2nd")


@pytest.mark.parametrize("copy", [True, 1, np.True_])
def test_what_counts_as_a_flag(copy: object) -> None:
    array = blosc2.zeros(3)
    assert blosc2.asarray(array, copy) is not array
    assert blosc2.asarray(array, not copy) is array
    with pytest.raises(ValueError, match="copy=False forbids"):
        blosc2.asarray([1, 2], type(copy)(0))


def test_files_of_a_folder(folder: Path) -> None:
    blosc2.open("scans.b2z").to_b2d("scans.b2d")
    leaf = folder / "scans.b2d" / "patient" / "007"
    os.rename(f"{leaf}.b2nd", f"{leaf}.b2f")
    with pytest.warns(UserWarning, match=r"\.b2nd: if renamed, give it that one$"):
        blosc2.open("scans.b2d")["/patient/007"]
    shutil.copy(f"{leaf}.b2f", f"{leaf}.b2nd")
    with pytest.warns(UserWarning, match=r"'/patient/007': more than one file; .*: remove the files"):
        list(blosc2.open("scans.b2d"))
    os.rename(f"{leaf}.b2nd", f"{leaf}.old")
    os.remove(f"{leaf}.b2f")
    with pytest.warns(UserWarning, match=r"unusual suffix: rename it; expected '\.b2nd'$"):
        list(blosc2.open("scans.b2d"))


@pytest.mark.parametrize("kind", ["object", "text", "dates", "table", "records"])
def test_what_to_give_instead_of_objects(kind: str, folder: Path) -> None:
    texts = np.array(["a", "bcd"], object)
    rows = np.array([("a", 1)], [("name", "O"), ("n", "i4")])
    text = np.array(["a", "bcd"], np.dtypes.StringDType())
    dates = [dt.datetime(2024, 1, 31)]
    value = {"object": texts, "text": text, "dates": dates, "table": np.array([["a", 1]], object), "records": rows}[
        kind
    ]
    advice = (
        r"table\.to_records\(index=False" if kind in ("table", "records") else r"np\.array\(list\(x\), 'U'\) for texts"
    )
    with store("a") as found:
        with pytest.raises(TypeError, match=f"cannot be stored: its items are Python objects; give .*{advice}"):
            found["/bad"] = value
        if kind in ("object", "text"):
            found["/good"] = np.array(list(value), "U")
            assert found["/good"][:].tolist() == list(value)
        elif kind == "dates":
            found["/good"] = np.array(value, "M8[us]")
            assert found["/good"][:].tolist() == value


@pytest.mark.parametrize(
    ("kind", "name", "advice"),
    [
        (blosc2.ObjectArray, "chunksize", r"extend\(values\) takes values, and urlpath= a path"),
        (blosc2.BatchArray, "items_per_block", r"extend\(values\) takes values, and urlpath= a path"),
        (blosc2.SChunk, "chunksize", "data= takes bytes, and urlpath= a path"),
    ],
)
@pytest.mark.parametrize("given", [["a", "b"], "names.b2f", b"bytes", np.arange(3)], ids=type)
def test_values_or_a_path_in_the_place_of_a_size(kind: Any, name: str, advice: str, given: Any) -> None:
    with pytest.raises(TypeError, match=f"{name} must be an integer, not {type(given).__name__}: {advice}"):
        kind(given)


def test_a_table_of_pandas(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"name": ["Ada", "Bo"], "age": [61, 7]})
    with store("a") as found:
        with pytest.raises(TypeError, match=r"a DataFrame cannot be stored: .* table\.to_records\(index=False"):
            found["/people"] = table
        found["/people"] = table.to_records(index=False, column_dtypes={"name": "U20"})
    again = pandas.DataFrame(store()["/people"][:])
    assert again.to_dict("list") == table.to_dict("list")


def test_a_table_of_pandas_with_columns_of_several_types() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"id": [1, 2**53 + 1], "age": [61.5, 7]})
    with pytest.raises(TypeError, match=r"one array has one, float64: take table\.to_records"):
        blosc2.asarray(table)
    assert blosc2.asarray(table, dtype="f4").dtype == "f4"
    assert blosc2.asarray(table.to_records(index=False))[1]["id"] == 2**53 + 1
    assert blosc2.asarray(table[["id"]])[1, 0] == 2**53 + 1
