"""`convert` of several files and of folders, and into a store that exists."""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import ConversionError

ITEMS = np.arange(24.0).reshape(2, 3, 4)


def sums(path: Path | str) -> dict[str, float]:
    """The sum of each array."""
    with blosc2.open(str(path)) as store:
        leaves = {key: store[key] for key in store}
        return {key: float(leaf[...].sum()) for key, leaf in leaves.items() if isinstance(leaf, blosc2.NDArray)}


def groups(path: Path) -> dict[str, dict[str, Any]]:
    with blosc2.open(str(path)) as store:
        return {key: store.get_subtree(key).attrs[:] for key, _, _ in store.walk()}


def two(folder: Path) -> tuple[Path, Path]:
    np.save(folder / "one.npy", ITEMS)
    np.savez(folder / "many.npz", **{"a": ITEMS + 1, "g/b": ITEMS + 2})
    return folder / "one.npy", folder / "many.npz"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder with a file of each kind that needs no extra, and with what is none."""
    folder = tmp_path / "in"
    (folder / "deep" / "er").mkdir(parents=True)
    two(folder)
    two(folder / "deep")
    (folder / "notes.txt").write_text("text")
    (folder / "deep" / "broken.npy").write_bytes(b"no array")
    with blosc2.TreeStore(str(folder / "s.b2d"), mode="w") as store:
        store["/x"], store.attrs["who"] = np.array([5.0]), "me"
    blosc2.asarray(np.array([6.0]), urlpath=str(folder / "v.b2nd"))
    os.symlink(folder / "deep", folder / "link")
    return folder


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_a_folder(mixed: Path, suffix: str) -> None:
    target = mixed.parent / f"a{suffix}"
    report = blosc2.convert(mixed, target, verify=True)
    assert [(each.key, each.what) for each in report.left_out] == [
        ("/deep/broken.npy", "all of it"), ("/link", "a linked directory"), ("/notes.txt", "all of it"),
    ]  # fmt: skip
    assert report.left_out[-1].why == "no format that is known"
    total = float(ITEMS.sum())
    wanted = {"/one.npy": total, "/many.npz/a": total + 24, "/many.npz/g/b": total + 48}
    assert sums(target) == {
        **wanted, **{f"/deep{key}": value for key, value in wanted.items()}, "/s.b2d/x": 5, "/v.b2nd": 6,
    }  # fmt: skip
    assert groups(target)["/s.b2d"] == {"who": "me"}
    assert "/deep/er" in groups(target)
    assert blosc2.check(str(target)).ok


def test_many_large_arrays_of_stores(tmp_path: Path) -> None:
    """Files are closed before the store is published."""
    (tmp_path / "in").mkdir()
    rng = np.random.default_rng(0)
    for number in range(3):
        blosc2.asarray(rng.random(1_000_000) + number, urlpath=str(tmp_path / "in" / f"{number}.b2nd"))
    assert blosc2.convert(tmp_path / "in", tmp_path / "a.b2z", verify=True).complete
    assert [round(value / 1e6, 1) for value in sums(tmp_path / "a.b2z").values()] == [0.5, 1.5, 2.5]


def test_formats_that_need_extras(tmp_path: Path) -> None:
    h5py, nibabel = pytest.importorskip("h5py", reason="an extra"), pytest.importorskip("nibabel", reason="an extra")
    image, zarr = pytest.importorskip("PIL.Image", reason="an extra"), pytest.importorskip("zarr", reason="an extra")
    tifffile = pytest.importorskip("tifffile", reason="an extra")
    folder = tmp_path / "in"
    folder.mkdir()
    with h5py.File(folder / "a.h5", "w") as file:
        file["g/x"], file.attrs["who"] = ITEMS, "me"
        file["g"].attrs["n"] = 3
    nibabel.save(nibabel.Nifti1Image(ITEMS, np.eye(4)), folder / "scan.v1.nii.gz")
    nibabel.save(nibabel.Nifti1Pair(ITEMS, np.eye(4)), folder / "pair.img")
    image.fromarray(np.ones((4, 4), "u1")).save(folder / "a.png")
    tifffile.imwrite(folder / "t.tif", np.ones((4, 5), "u1"), photometric="minisblack")
    zarr.open_group(folder / "named", mode="w").create_array("y", data=np.ones(3))
    zarr.save_array(folder / "one.zarr", np.ones(4))
    report = blosc2.convert(folder, tmp_path / "a.b2z", verify=True)
    assert report.complete, report
    total = float(ITEMS.sum())
    assert sums(tmp_path / "a.b2z") == {
        "/a.h5/g/x": total, "/a.png": 16, "/named/y": 3, "/one.zarr": 4, "/pair.img": total, "/scan.v1.nii.gz": total,
        "/t.tif": 20,
    }  # fmt: skip
    assert (groups(tmp_path / "a.b2z")["/a.h5"], groups(tmp_path / "a.b2z")["/a.h5/g"]) == ({"who": "me"}, {"n": 3})
    blosc2.convert(folder / "a.png", tmp_path / "a.b2nd", verify=True)  # a picture alone, too
    assert blosc2.open(str(tmp_path / "a.b2nd")).shape == (4, 4)


def test_a_folder_of_nothing_that_is_known(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("text")
    with pytest.raises(ConversionError, match="no file in this folder is known by its name"):
        blosc2.convert(tmp_path / "in", tmp_path / "a.b2z")


def test_several_sources(tmp_path: Path, mixed: Path) -> None:
    paths = [*two(tmp_path), mixed / "deep"]
    report = blosc2.convert((path for path in paths), tmp_path / "a.b2z", verify=True)
    assert report.source == ", ".join(map(str, paths))
    assert [each.key for each in report.left_out] == ["/deep/broken.npy"]
    assert set(sums(tmp_path / "a.b2z")) == {
        "/one.npy", "/many.npz/a", "/many.npz/g/b", "/deep/one.npy", "/deep/many.npz/a", "/deep/many.npz/g/b",
    }  # fmt: skip


def test_many_sources_are_not_all_named(tmp_path: Path) -> None:
    for number in range(5):
        np.save(tmp_path / f"{number}.npy", ITEMS)
    report = blosc2.convert(sorted(tmp_path.glob("*.npy")), tmp_path / "a.b2z")
    assert report.source.endswith("2.npy, ... (5 sources)")
    assert report.arrays == 5


def test_a_package_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that need it are listed, and the others converted."""
    (tmp_path / "in").mkdir()
    two(tmp_path / "in")
    (tmp_path / "in" / "a.h5").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "h5py", None)
    report = blosc2.convert(tmp_path / "in", tmp_path / "a.b2z", verify=True)
    assert [(each.key, "pip install" in each.why) for each in report.left_out] == [("/a.h5", True)]
    assert report.arrays == 3


def test_several_sources_that_are_refused(tmp_path: Path, mixed: Path) -> None:
    one, many = two(tmp_path)
    for paths, target, error, text in [
        ([one, mixed / "one.npy"], "a.b2z", ConversionError, "have one name: convert a folder of both"),
        ([one, tmp_path / "none.npy"], "a.b2z", FileNotFoundError, "does not exist"),
        ([one, mixed / "notes.txt"], "a.b2z", ConversionError, "is not known by its name"),
        ([one, many], "a.safetensors", ConversionError, "takes one file"),
        ([], "a.b2z", ConversionError, "there is no source"),
    ]:
        with pytest.raises(error, match=text):
            blosc2.convert(paths, tmp_path / target)
    assert sorted(os.listdir(tmp_path)) == ["in", "many.npz", "one.npy"]


def test_an_interrupted_run_of_several_is_resumed(tmp_path: Path, interrupted: Callable[..., None]) -> None:
    interrupted(two(tmp_path), tmp_path / "a.b2z")
    assert blosc2.convert([tmp_path / "one.npy", tmp_path / "many.npz"], tmp_path / "a.b2z").resumed == 3


# ------------------------------------------------------------------ into a store
def store_at(path: Path) -> Path:
    with (blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.TreeStore)(str(path), mode="w") as store:
        store["/old/x"] = np.array([1.0])
    return path


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e"])
def test_into_a_store(tmp_path: Path, suffix: str) -> None:
    one, many = two(tmp_path)
    target, total = store_at(tmp_path / f"s{suffix}"), float(ITEMS.sum())
    report = blosc2.convert(one, target, into="/new/scan", verify=True)
    assert (report.target, report.verified, report.arrays) == (str(target), True, 1)
    blosc2.convert(many, target, into="many")
    blosc2.convert([one, many], target, into="/both", verify=True)
    blosc2.convert(one, target, into="/both/more/")
    assert sums(target) == {
        "/old/x": 1, "/new/scan": total, "/many/a": total + 24, "/many/g/b": total + 48, "/both/one.npy": total,
        "/both/many.npz/a": total + 24, "/both/many.npz/g/b": total + 48, "/both/more/one.npy": total,
    }  # fmt: skip
    assert blosc2.check(str(target)).ok
    assert sorted(os.listdir(tmp_path)) == ["many.npz", "one.npy", f"s{suffix}"]


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e"])
def test_a_key_that_is_taken(tmp_path: Path, suffix: str) -> None:
    one, many = two(tmp_path)
    target, total = store_at(tmp_path / f"s{suffix}"), float(ITEMS.sum())
    for key in ("/old", "/old/x", "old/x"):
        with pytest.raises(FileExistsError, match="overwrite=True replaces it"):
            blosc2.convert(one, target, into=key)
    blosc2.convert(many, target, into="/old", overwrite=True)
    assert sums(target) == {"/old/a": total + 24, "/old/g/b": total + 48}
    blosc2.convert(one, target, into="/old", overwrite=True)
    assert sums(target) == {"/old": total}
    with pytest.raises(ValueError, match="'/old': a leaf in one store"):
        blosc2.convert(one, target, into="/old/x")
    assert sums(target) == {"/old": total}


def test_attributes_and_new_names_below_a_key(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "from.b2z"), mode="w") as store:
        store["/g/x"], store.attrs["who"] = np.array([2.0]), "me"
        store.get_subtree("/g").attrs["n"] = 3
    np.savez(tmp_path / "k.npz", **{"kernel:0": np.array([4.0])})
    target = store_at(tmp_path / "s.b2z")
    blosc2.convert(tmp_path / "from.b2z", target, into="/a/b", verify=True)
    report = blosc2.convert(tmp_path / "k.npz", target, into="/model", rename="escape", verify=True)
    assert report.renamed == {"/kernel:0": "/model/kernel%3A0"}
    assert sums(target) == {"/old/x": 1, "/a/b/g/x": 2, "/model/kernel%3A0": 4}
    assert (groups(target)["/a/b"], groups(target)["/a/b/g"], groups(target)["/"]) == ({"who": "me"}, {"n": 3}, {})


def test_nothing_changes_if_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = two(tmp_path)
    target = store_at(tmp_path / "s.b2z")
    (tmp_path / "bad.npy").write_bytes(b"no array")
    before = target.read_bytes()
    with pytest.raises(ValueError, match="bad"):
        blosc2.convert(tmp_path / "bad.npy", target, into="/x")
    for key in ("/a:b", "/con"):
        with pytest.raises(ValueError, match="could not be the name of a file"):
            blosc2.convert(one, target, into=key)
    assert target.read_bytes() == before

    np.savez(tmp_path / "k.npz", **{"a:b": np.arange(3)})
    with pytest.raises(ConversionError, match="nothing of it can be kept: /old/a:b"):
        blosc2.convert(tmp_path / "k.npz", target, into="/old", overwrite=True)
    assert target.read_bytes() == before

    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(blosc2.TreeStore, "write_many", failing)
    with pytest.raises(RuntimeError, match="in the middle"):
        blosc2.convert(one, target, into="/old", overwrite=True)
    assert sums(target) == {"/old/x": 1}
    assert sorted(os.listdir(tmp_path)) == ["bad.npy", "k.npz", "many.npz", "one.npy", "s.b2z"]


def test_into_what_is_no_store_and_what_is_not_there(tmp_path: Path) -> None:
    one, many = two(tmp_path)
    with pytest.raises(ConversionError, match="only stores take something under a key"):
        blosc2.convert(one, many, into="/x")
    blosc2.convert(one, tmp_path / "new.b2z", into="/x/y", verify=True)
    assert sums(tmp_path / "new.b2z") == {"/x/y": float(ITEMS.sum())}


# ------------------------------------------------------------------ other suffixes, and databases
@pytest.mark.parametrize("name", ["w.tar.gz", "w.tgz", "w.tar"])
def test_compressed_tar_files(tmp_path: Path, name: str) -> None:
    file = io.BytesIO()
    np.save(file, ITEMS)
    with tarfile.open(tmp_path / name, "w" if name.endswith(".tar") else "w:gz") as archive:
        member = tarfile.TarInfo("0/x.npy")
        member.size = len(file.getvalue())
        archive.addfile(member, io.BytesIO(file.getvalue()))
    assert blosc2.convert(tmp_path / name, tmp_path / "a.b2z", verify=True).complete
    assert sums(tmp_path / "a.b2z") == {"/0/x.npy": float(ITEMS.sum())}
    (tmp_path / name).write_bytes(b"no tar file")
    with pytest.raises(ConversionError, match="is no tar file"):
        blosc2.convert(tmp_path / name, tmp_path / "b.b2z")


def test_named_databases_of_lmdb(tmp_path: Path) -> None:
    lmdb = pytest.importorskip("lmdb", reason="an extra")
    with lmdb.open(str(tmp_path / "l.lmdb"), max_dbs=3) as environment:
        with environment.begin(write=True) as transaction:
            transaction.put(b"plain", b"\1\2")
            transaction.put(b"like one", bytes(48))
        for name in (b"train", b"val"):
            database = environment.open_db(name)
            with environment.begin(write=True, db=database) as transaction:
                transaction.put(b"0", bytes([len(name)]))
                transaction.put(b"48", bytes(48))
    assert blosc2.convert(tmp_path / "l.lmdb", tmp_path / "l.b2z", verify=True).complete
    assert sums(tmp_path / "l.b2z") == {
        "/plain": 3, "/like one": 0, "/train/0": 5, "/train/48": 0, "/val/0": 3, "/val/48": 0,
    }  # fmt: skip
