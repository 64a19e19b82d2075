"""`DictStore`: the contract of stores, and what is its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_store_kit import FileStoreContract
from fixture_kit import manifest
from fixture_kit.dict_stores import values_of
from store_kit import tree_state
from store_makers import before_sync

import blosc2
from blosc2.exceptions import FormatError

STORES = [e for e in manifest.FILES if e["kind"] in ("dictstore", "treestore")]


class TestZip(FileStoreContract):
    kind = blosc2.DictStore
    suffix = ".b2z"


class TestZipMixed(TestZip):
    options = {"threshold": 100}


class TestZipEmbedded(TestZip):
    options = {"threshold": None}


class TestDirectory(FileStoreContract):
    kind = blosc2.DictStore
    suffix = ".b2d"
    at_once = True


class TestDirectoryMixed(TestDirectory):
    options = {"threshold": 100}


class TestDirectoryEmbedded(TestDirectory):
    options = {"threshold": None}


@pytest.fixture(params=[".b2d", ".b2z"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"store{request.param}"


def writable_copy(entry: dict[str, Any], target: Path) -> Path:
    source = manifest.path_of(entry)
    if source.is_dir():
        shutil.copytree(source, target)
        for p in [target, *target.rglob("*")]:
            p.chmod(0o755 if p.is_dir() else 0o644)
    else:
        shutil.copyfile(source, target)
        target.chmod(0o644)
    return target


# ------------------------------------------------------------------------------------------------ files of others
@pytest.mark.parametrize("entry", STORES, ids=[e["path"] for e in STORES])
@pytest.mark.filterwarnings("ignore:.*under an unusual suffix")
def test_stores_of_others_can_be_changed(entry: dict[str, Any], tmp_path: Path) -> None:
    path = writable_copy(entry, tmp_path / Path(entry["path"]).name)
    with blosc2.DictStore(path) as store:
        frames = {key: store[key].to_cframe() for key in store}
        store["/added/by/us"] = np.arange(3)
        gone = next(key for key in frames if not key.endswith("__vlmeta__"))
        del store[gone]
    with blosc2.DictStore(path, mode="r") as store:
        assert set(store) == (set(frames) | {"/added/by/us"}) - {gone}
        assert all(store[key].to_cframe() == frames[key] for key in frames if key != gone)
        assert gone not in store


@pytest.mark.parametrize("entry", STORES, ids=[e["path"] for e in STORES])
@pytest.mark.filterwarnings("ignore:.*under an unusual suffix")
def test_copies_are_byte_copies(entry: dict[str, Any], tmp_path: Path, source: str | None) -> None:
    with blosc2.DictStore(manifest.path_of(entry), mode="r", mmap_mode=source) as store:
        frames = {key: store[key].to_cframe() for key in store}
        directory = store.to_b2d(tmp_path / "copy.b2d")
    with blosc2.DictStore(directory, mode="r", mmap_mode=source) as store:
        assert {key: store[key].to_cframe() for key in store} == frames
        archive = store.to_b2z(filename=tmp_path / "copy.b2z")
    with blosc2.DictStore(archive, mode="r", mmap_mode=source) as store:
        assert {key: store[key].to_cframe() for key in store} == frames
    assert sorted(os.listdir(tmp_path)) == ["copy.b2d", "copy.b2z"]
    kinds = {"dictstore": blosc2.DictStore, "treestore": blosc2.TreeStore}
    assert type(blosc2.open(archive)) is kinds[entry["kind"]]


def test_files_with_unknown_suffixes_are_leaves_with_a_warning(tmp_path: Path, source: str | None) -> None:
    (entry,) = [e for e in STORES if "strangers.b2d" in e["path"]]
    with pytest.warns(UserWarning, match=r"'odd\.suffix' is the leaf '/odd', of kind NDArray.* expected '\.b2nd'"):
        store = blosc2.DictStore(manifest.path_of(entry), mode="r", mmap_mode=source)
    with store:
        assert store["/odd"].shape == (5,)
        with pytest.raises(KeyError):
            store["/notes"]
        assert list(store) == ["/a", "/odd"]
        assert store["/odd"].shape == (5,)
    archive = tmp_path / "x.b2z"
    with zipfile.ZipFile(archive, "w") as z:
        for p in manifest.path_of(entry).iterdir():
            z.write(p, p.name)
    with pytest.warns(UserWarning, match=r"'odd\.suffix' is the leaf '/odd', of kind NDArray.* expected '\.b2nd'"):
        store = blosc2.DictStore(archive, mode="r", mmap_mode=source)
    assert list(store) == ["/a", "/odd"]


def test_of_two_files_for_a_key_the_suffix_decides(tmp_path: Path, path: Path) -> None:
    with blosc2.DictStore(path) as store:
        store["/a"] = [1]
        store["/b"] = blosc2.SChunk(data=b"1234")
    folder = tmp_path / "files"
    with blosc2.DictStore(path, mode="r") as store:
        store.to_b2d(folder)
    shutil.copyfile(folder / "b.b2f", folder / "a.b2f")
    if path.suffix == ".b2z":
        with zipfile.ZipFile(path, "w") as z:
            for p in sorted(folder.iterdir()):
                z.write(p, p.name)
    else:
        shutil.rmtree(path)
        shutil.copytree(folder, path)
    with pytest.warns(UserWarning, match="more than one"):
        assert list(blosc2.DictStore(path, mode="r")) == ["/a", "/b"]
    with warnings.catch_warnings(action="ignore"), blosc2.DictStore(path) as store:
        assert store["/a"][0] == 1
        del store["/a"]  # with both files
    with blosc2.DictStore(path, mode="r") as store:
        assert list(store) == ["/b"]


def test_a_file_that_is_no_store(tmp_path: Path, path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious.txt").write_text("text")
    (tmp_path / "text.b2z").write_text("no archive")
    (tmp_path / "file.b2d").write_text("no directory")
    before = tree_state(tmp_path)
    with pytest.raises(FileExistsError, match="no store"):
        blosc2.DictStore(other, mode="w")
    for mode in ("r", "a"):
        for error in (ValueError, RuntimeError):
            with pytest.raises(error, match=r"no embed\.b2e"):
                blosc2.DictStore(other, mode=mode)
            for name in ("text.b2z", "file.b2d"):
                with pytest.raises(error, match=name):
                    blosc2.DictStore(tmp_path / name, mode=mode)
    assert tree_state(tmp_path) == before


def test_an_empty_directory_becomes_a_store(tmp_path: Path) -> None:
    folder = tmp_path / "x.b2d"
    folder.mkdir()
    with pytest.raises(FormatError, match="no embed"):
        blosc2.DictStore(folder, mode="r")
    with blosc2.DictStore(folder) as store:
        store["/a"] = [1]
    assert list(blosc2.DictStore(folder, mode="r")) == ["/a"]


def test_mode_w_leaves_other_files_alone(tmp_path: Path) -> None:
    folder = tmp_path / "x.b2d"
    with blosc2.DictStore(folder) as store:
        store.update({"/a": [1], "/g/b": [2], "/g/h/c": [3]})
    (folder / "notes.txt").write_text("mine")
    (folder / "g" / "more.txt").write_text("mine")
    with blosc2.DictStore(folder, mode="w") as store:
        store["/n"] = [4]
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) == [
        "embed.b2e", "g", "g/more.txt", "n.b2nd", "notes.txt"
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ tiers and sharing
def test_tiers(path: Path, source: str | None) -> None:
    with blosc2.DictStore(path, threshold=100) as store:
        store["/small"] = np.arange(10, dtype="i1")
        store["/large"] = np.arange(100)
        store["/moves"] = np.arange(10, dtype="i1")
    with blosc2.DictStore(path, threshold=100) as store:
        assert set(store.map_tree) == {"/large"}
        assert set(store.estore) == {"/small", "/moves"}
        store["/moves"] = np.arange(200)
        store["/large"] = np.arange(3)
        store["/small"][0] = 5
    with blosc2.DictStore(path, mode="r", mmap_mode=source) as store:
        assert dict(store.map_tree) == {"/moves": "moves.b2nd"}
        assert set(store.estore) == {"/small", "/large"}
        assert store.estore["/small"][0] == store["/small"][0] == 5
        assert store["/moves"].shape == (200,)
        assert store.member_window("/small") is None


def test_threshold_none_embeds_what_had_no_file(path: Path, tmp_path: Path) -> None:
    filed = blosc2.asarray(np.arange(5), urlpath=str(tmp_path / "x.b2nd"))
    with blosc2.DictStore(path, threshold=None) as store:
        store["/filed"] = filed
        store["/other"] = np.arange(100_000)
        store.flush()
        assert set(store.map_tree) == {"/filed"}
    for bad in (-1, 2.5, True, "1"):
        with pytest.raises(ValueError, match="threshold"):
            blosc2.DictStore(path, threshold=bad)


def test_member_byte_range(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.DictStore(path) as store:
        store["/a"] = np.arange(1000)
        store["/raw"] = blosc2.asarray(np.arange(1000), cparams={"clevel": 0})
        assert store.member_window("/a") is None  # not published yet
    data = path.read_bytes()
    with blosc2.DictStore(path, mode="r", mmap_mode=source) as store:
        offset, nbytes = store.member_window("/raw")
        assert offset % 64 == 0  # as the header of such a frame has room for that
        assert store["/raw"]._handle.frame.chunk_info(0)[0] % 64 == 32
        offset, nbytes = store.member_window("/a")
        assert data.rindex(b"a.b2nd", 0, offset) == offset - 6  # right behind its name
        assert data[offset : offset + nbytes] == store["/a"].to_cframe()
        assert store.member_window("a") == (offset, nbytes)
        assert store.member_window("/b") is None


# ------------------------------------------------------------------------------------------------ archives in place
def test_an_append_costs_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.DictStore(path) as store:
        store["/large"] = np.random.default_rng(1).random(200_000)
        store["/old"] = [1]
    old = path.read_bytes()
    inode = path.stat().st_ino
    with blosc2.DictStore(path) as store:
        store["/new"] = [2]
        store["/old"] = [3]
    new = before_sync(path.read_bytes())
    assert new.startswith(old)
    assert len(new) - len(old) < 3000
    assert path.stat().st_ino == inode
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        assert sorted(z.namelist()) == ["embed.b2e", "large.b2nd", "new.b2nd", "old.b2nd"]
    with blosc2.DictStore(path) as store:
        assert store["/old"][0] == 3
        store.to_b2z(tmp_path / "y.b2z")
    assert (tmp_path / "y.b2z").stat().st_size < len(new)


def test_an_unfinished_append_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.DictStore(path) as store:
        store["/a"] = [1]
    sound = path.read_bytes()
    path.write_bytes(sound + b"PK\3\4 unfinished" * 10_000)
    with blosc2.DictStore(path, mode="r") as store:
        assert store["/a"][0] == 1
    with blosc2.DictStore(path) as store:
        store["/b"] = [2]
    assert before_sync(path.read_bytes()).startswith(sound + b"PK\3\4")
    assert b"unfinished" not in path.read_bytes()
    with blosc2.DictStore(path, mode="r") as store:
        assert list(store) == ["/a", "/b"]


@pytest.mark.usefixtures("changes_wait")
def test_frames_that_do_not_fit_into_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 2000)
    expected: dict[str, Any] = {}
    with blosc2.DictStore(path) as store:
        store["/first"] = [0]
        store.flush()
        for n in range(40):
            expected[f"/k{n % 25}"] = store[f"/k{n % 25}"] = np.arange(n)
        del store["/k3"], expected["/k3"]
        for key, value in expected.items():
            np.testing.assert_array_equal(store[key][:], value)
        expected["/first"] = np.array([0])
    with blosc2.DictStore(path, mode="r") as store:
        assert values_of(store) == {key: value.tolist() for key, value in expected.items()}
    assert os.listdir(path.parent) == [path.name]
    with blosc2.DictStore(path) as store:
        for n in range(40):
            store[f"/x{n}"] = np.arange(n)
        store.discard()
    assert os.listdir(path.parent) == [path.name]
    with blosc2.DictStore(path, mode="r") as store:
        assert set(store) == set(expected)


# ------------------------------------------------------------------------------------------------ copies
def test_names_of_copies(tmp_path: Path) -> None:
    with blosc2.DictStore(tmp_path / "x.b2d") as store:
        store["/a"] = [1]
        assert store.to_b2z() == str(tmp_path / "x.b2z")
        with pytest.raises(FileExistsError):
            store.to_b2z()
        with pytest.raises(FileExistsError):
            store.to_b2z(tmp_path / "x.b2z")
        store["/a"] = [2]
        store.to_b2z(overwrite=True)
        assert store.to_b2z(True) == store.to_b2z(tmp_path / "x.b2z", overwrite=True) == str(tmp_path / "x.b2z")
        assert store.to_b2z(True, tmp_path / "x.b2z") == store.to_b2z(filename=tmp_path / "x.b2z", overwrite=True)
        with pytest.raises(TypeError, match="takes one file"):
            store.to_b2z(tmp_path / "x.b2z", tmp_path / "y.b2z")
        with pytest.raises(ValueError, match=r"must have a \.b2z extension"):
            store.to_b2z(tmp_path / "x.zip")
        with pytest.raises(FileExistsError):
            store.to_b2d()
    with blosc2.DictStore(tmp_path / "x.b2z", mode="r") as store:
        assert store["/a"][0] == 2
        assert store.to_b2z() == store.to_b2z(tmp_path / "x.b2z") == str(tmp_path / "x.b2z")  # it is there
        with blosc2.open(store.to_b2z(tmp_path / "y.b2z")) as copy:
            assert copy["/a"][0] == 2
        with pytest.raises(FileExistsError):
            store.to_b2z(filename=tmp_path / "y.b2z")
        with pytest.raises(FileExistsError):
            store.to_b2d()
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "mine").touch()
        with pytest.raises(FileExistsError, match="no store"):
            store.to_b2d(tmp_path / "other", overwrite=True)
        store.to_b2d(overwrite=True)
    with blosc2.DictStore(tmp_path / "x.b2d", mode="r") as store:
        assert store["/a"][0] == 2


def test_description(path: Path) -> None:
    with blosc2.DictStore(path, mode="w", cparams={"clevel": 1}) as store:
        store["/a"] = np.arange(1000)
        assert store["/a"].cparams.clevel == 1
        assert (store.localpath, store.mode, store.mmap_mode, store.threshold) == (str(path), "w", None, 0)
        assert store.is_zip_store == (path.suffix == ".b2z")
        assert store.b2z_path == (str(path) if store.is_zip_store else None)
        assert store.working_dir == str(path.parent if store.is_zip_store else path)
        assert "DictStore" in repr(store.info)
        assert path.name in repr(store)
        assert len(store.estore) == 0


@pytest.mark.parametrize("count", [1, 10, 2000])
@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
@pytest.mark.parametrize("to", ["to_b2d", "to_b2z"])
def test_progress_of_copies(tmp_path: Path, to: str, suffix: str, count: int) -> None:
    told: list[tuple[int, int]] = []
    target = tmp_path / f"copy{to.replace('to_', '.')}"

    def stop(done: int, total: int) -> None:
        if 2 * done >= total:
            raise RuntimeError("enough")

    with blosc2.DictStore(str(tmp_path / f"x{suffix}"), mode="w", threshold=0) as store:
        store.write_many((f"/{number}", np.arange(number % 7 + 100)) for number in range(count))
        store["/new"] = np.arange(5)
        with pytest.raises(RuntimeError, match="enough"):
            getattr(store, to)(**{"dirname" if to == "to_b2d" else "filename": target}, progress=stop)
        assert not target.exists()
        getattr(store, to)(target, progress=lambda *now: told.append(now))
        with blosc2.open(str(target), mode="r") as copy:
            assert set(copy) == set(store)
    assert len(told) == count + 1
    assert told == sorted(told)
    assert {total for _, total in told} == {told[-1][0]}


def test_few_leaves_have_no_catalog(tmp_path: Path) -> None:
    """It would be an eighth of a store of tiny ones, and save little. Other tests have another number as the least."""
    code = "import sys, blosc2\nwith blosc2.DictStore(sys.argv[1]) as store:\n"
    code += "    store.write_many((f'/k{n}', [n]) for n in range(int(sys.argv[2])))\n"
    for count, has in ((1023, False), (1024, True)):
        path = tmp_path / f"{count}.b2z"
        subprocess.run([sys.executable, "-c", code, str(path), str(count)], check=True, timeout=60)
        with zipfile.ZipFile(path) as z:
            assert (".b2/catalog" in z.namelist()) == has
        assert len(blosc2.open(path)) == count
