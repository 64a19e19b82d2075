"""Opening a store at the path of something else: files of other kinds stay."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2


def text(path: Path) -> None:
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(5000))


def archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.npy", bytes(100))


def array(path: Path) -> None:
    path.write_bytes(blosc2.asarray(np.arange(100)).to_cframe())


OTHERS: list[Callable[[Path], None]] = [text, archive, array]
KINDS = [blosc2.TreeStore, blosc2.DictStore, blosc2.EmbedStore]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


@each_kind
@pytest.mark.parametrize("make", OTHERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", ["d.h5", "d", "d.npz", "d.b2nd"])
def test_a_file_that_is_no_store_stays(kind: Any, make: Any, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    make(path)
    before = path.read_bytes()
    for mode in ("w", "a", "x"):
        with pytest.raises((FileExistsError, ValueError), match=r"no store|not|exist|already") as caught:
            kind(str(path), mode=mode)
        assert str(path) in str(caught.value)
    with pytest.raises(FileExistsError, match="remove it first"):
        kind(str(path), mode="w")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("mode", "raw")
@pytest.mark.parametrize(("made", "name", "kind", "says"), [
    (blosc2.EmbedStore, "s.b2e", blosc2.TreeStore, r"an EmbedStore: blosc2\.EmbedStore opens it"),
    (blosc2.EmbedStore, "s", blosc2.DictStore, r"an EmbedStore: blosc2\.EmbedStore opens it"),
    (blosc2.TreeStore, "s.b2z", blosc2.EmbedStore, r"not an EmbedStore: the class that wrote it .* blosc2\.TreeStore"),
    (blosc2.DictStore, "s.b2z", blosc2.EmbedStore, r"not an EmbedStore: the class that wrote it .* blosc2\.TreeStore"),
])  # fmt: skip
def test_a_store_of_another_class_is_called_one(
    made: Any, name: str, kind: Any, says: str, mode: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    with made(path, mode="w") as store:
        store["/a"] = [1]
    before = path.read_bytes()
    says = rf"this file is no ({kind.__name__}|TreeStore or DictStore), and is not replaced" if mode == "w" else says
    with pytest.raises((blosc2.FormatError, FileExistsError), match=says) as caught:
        kind(path, mode=mode)
    assert "no store" not in str(caught.value)
    assert "not a store" not in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("mode", "ra")
def test_an_array_is_not_called_damaged(kind: Any, contiguous: bool, mode: str, tmp_path: Path) -> None:
    blosc2.asarray([1, 2], urlpath=tmp_path / "one.b2nd", contiguous=contiguous)
    with pytest.raises(blosc2.FormatError, match=r"one\.b2nd.*: not a store .*: blosc2\.open opens it") as caught:
        kind(tmp_path / "one.b2nd", mode=mode)
    assert "salvage" not in str(caught.value)


@each_kind
def test_a_link_to_such_a_file(kind: Any, tmp_path: Path) -> None:
    text(tmp_path / "d.h5")
    (tmp_path / "link").symlink_to("d.h5")
    with pytest.raises(FileExistsError, match="is not replaced"):
        kind(str(tmp_path / "link"), mode="w")
    assert (tmp_path / "d.h5").read_bytes()[:4] == b"\x89HDF"


@each_kind
@pytest.mark.parametrize("name", ["named", "d.store", "suffixed"])
def test_a_store_is_replaced_whatever_its_name(kind: Any, name: str, tmp_path: Path) -> None:
    suffix = ".b2e" if kind is blosc2.EmbedStore else ".b2z"
    path = tmp_path / f"d{suffix}"
    with kind(str(path), mode="w") as store:
        store["/old"] = [1, 2]
    path = path.rename(tmp_path / name)
    with kind(str(path), mode="w") as store:
        store["/new"] = [3]
    with kind(str(path), mode="r") as store:
        assert list(store) == ["/new"]


@each_kind
def test_what_is_named_like_a_store_or_empty_is_replaced(kind: Any, tmp_path: Path) -> None:
    suffix = ".b2e" if kind is blosc2.EmbedStore else ".b2z"
    text(tmp_path / f"d{suffix}")
    (tmp_path / "empty").touch()
    for name in (f"d{suffix}", "empty"):
        with kind(str(tmp_path / name), mode="w") as store:
            store["/new"] = [3]
        with kind(str(tmp_path / name), mode="r") as store:
            assert store["/new"][0] == 3


@each_kind
@pytest.mark.parametrize(
    "name",
    [
        "study.h5", "a.zarr", "a.nc", "a.npz", "a.b2nd", "a.NII", "a.B2E", "a.B2Z", "a.nii.gz", "a.Tar.gz",
        "a.zarr.zip", "a.png", "a.img",
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["w", "a", "x"])
def test_names_of_other_formats(kind: Any, name: str, mode: str, tmp_path: Path) -> None:
    suffix = ".b2e" if kind is blosc2.EmbedStore else ".b2z"
    with pytest.raises(ValueError, match=rf"{name}: a name that ends in .* call it .*{suffix}$"):
        kind(str(tmp_path / name), mode=mode)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.h5", "a.npy", "a.b2z", "a.b2d", "a.nii.gz", "a.jpg", "a.csv"])
def test_an_array_has_no_name_of_another_format(name: str, tmp_path: Path) -> None:
    array = blosc2.asarray(np.arange(3))
    for make in (
        lambda path: blosc2.asarray(np.arange(3), urlpath=path), array.save,
        lambda path: array.copy(urlpath=path, mode="w"), lambda path: blosc2.SChunk(data=b"abc", urlpath=path),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="call it"):
            make(str(tmp_path / name))
    assert not list(tmp_path.iterdir())


def test_copies_and_what_is_salvaged_have_no_name_of_another_format(tmp_path: Path) -> None:
    blosc2.asarray(np.arange(3)).save(str(tmp_path / "a.b2nd"))
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        store["/x"] = [1]
        with pytest.raises(ValueError, match=r"q\.h5: .* call it .*q\.b2d$"):
            store.to_b2d(tmp_path / "q.h5")
        store.to_b2d(tmp_path / "d.b2nd")  # as the published package allows
    with blosc2.open(str(tmp_path / "d.b2nd"), mode="r") as store:
        assert list(store) == ["/x"]
    with pytest.raises(ValueError, match=r"x\.nii\.gz: .* call it .*x\.b2nd$"):
        blosc2.salvage(tmp_path / "a.b2nd", tmp_path / "x.nii.gz")
    assert sorted(found.name for found in tmp_path.iterdir()) == ["a.b2nd", "d.b2nd", "s.b2z"]


def test_a_file_that_exists_has_the_name_it_has(tmp_path: Path) -> None:
    path = tmp_path / "olds.img"
    blosc2.SChunk(data=b"abc", urlpath=str(tmp_path / "a.b2frame"))
    (tmp_path / "a.b2frame").rename(path)
    with pytest.raises(FileExistsError, match="the file exists"):
        blosc2.SChunk(urlpath=str(path), mode="a")
    with pytest.raises(ValueError, match="call it"):
        blosc2.SChunk(urlpath=str(path), mode="w")
    assert blosc2.open(path)[:] == b"abc"


def test_an_array_has_no_name_of_a_store_of_values(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.b2e: .* an EmbedStore; call it .*a\.b2nd$"):
        blosc2.asarray(np.arange(3)).save(str(tmp_path / "a.b2e"))
    blosc2.asarray(np.arange(3)).save(str(tmp_path / ".png"))  # a name without an end
    assert [found.name for found in tmp_path.iterdir()] == [".png"]
