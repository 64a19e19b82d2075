"""`DictStore`: irregular files, threads, appends that fail, and names."""

from __future__ import annotations

import os
import pickle
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.dict_stores import values_of
from store_kit import tree_state

import blosc2
from blosc2._backends.embedded.frame_layout import values_after
from blosc2.exceptions import FormatError


@pytest.fixture(params=[".b2d", ".b2z"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"store{request.param}"


# ------------------------------------------------------------------------------------------------ file systems


@pytest.mark.skipif(os.name == "nt", reason="links need privileges there")
@pytest.mark.usefixtures("changes_wait")
def test_links_out_of_the_tree_are_not_followed_by_writes(tmp_path: Path) -> None:
    path, outside = tmp_path / "x.b2d", tmp_path / "outside"
    outside.mkdir()
    blosc2.asarray([7], urlpath=str(outside / "a.b2nd"))
    blosc2.DictStore(path).close()
    (path / "link").symlink_to(outside)
    before = tree_state(outside)
    with blosc2.DictStore(path, mode="r") as store:
        assert list(store) == []
    for change in (lambda s: s.__setitem__("/link/b", [1]), lambda s: s.__delitem__("/link/a")):
        store = blosc2.DictStore(path)
        change(store)
        with pytest.raises(ValueError, match="out of the store"):
            store.flush()
        store.discard()
        store.close()
    assert tree_state(outside) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_what_is_no_file_is_no_leaf(tmp_path: Path) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.DictStore(path) as store:
        store["/a"] = [1]
    os.mkfifo(path / "pipe.b2nd")
    (path / "folder.b2nd").mkdir()
    with blosc2.DictStore(path, mode="r") as store:
        for listed in (False, True):
            for key in ("/pipe", "/folder"):
                assert key not in store
                with pytest.raises(KeyError):
                    store[key]
            assert not listed or list(store) == ["/a"]


@pytest.mark.skipif(os.name == "nt", reason="names are Unicode there")
def test_file_names_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.b2d"
    blosc2.DictStore(path).close()
    (path / os.fsdecode(b"\xff\xfe.txt")).touch()
    assert list(blosc2.DictStore(path, mode="r")) == []
    (path / os.fsdecode(b"\xff\xfe.b2nd")).touch()
    with pytest.raises(FormatError, match="not UTF-8"):
        list(blosc2.DictStore(path, mode="r"))


def test_members_that_some_disks_take_for_the_reserved_ones_are_read(path: Path) -> None:
    """No new key may be one of them: the test of all stores for illegal keys has that."""
    names = (".B2/x", "EMBED.b2e/y", "Embed.B2E")
    with blosc2.DictStore(path) as store:
        store["/a"] = [1]
        frame = blosc2.asarray(np.arange(5)).to_cframe()
        archive = store.to_b2z(path.parent / "x.b2z")
    with zipfile.ZipFile(archive, "a") as z:
        for name in names:
            z.writestr(f"{name}.b2nd", frame)
    with blosc2.open(archive, mode="a") as store:
        store["/b"] = [2]
        store.write_many({f"/many/{n}": [n] for n in range(300)})
        store["/.B2/x"][0] = 7
        with pytest.raises(ValueError, match=r"'\.B2' is reserved"):
            store["/.B2/x"] = [1]
        with pytest.raises(ValueError, match=r"'\.B2' is reserved"):
            store.rename("/many", "/.B2")
        del store["/EMBED.b2e/y"]
        store.compact()
    with blosc2.open(archive) as store:
        assert {"/.B2/x", "/Embed.B2E", "/b"} < set(store)
        assert "/EMBED.b2e/y" not in store
        assert store["/.B2/x"][:].tolist() == [7, 1, 2, 3, 4]
        assert store["/Embed.B2E"][:].tolist() == [0, 1, 2, 3, 4]
    assert blosc2.check(archive).ok


def test_reserved_members_are_no_leaves(path: Path) -> None:
    with blosc2.DictStore(path) as store:
        store["/a"] = np.arange(5)
        with pytest.raises(ValueError, match="reserved"):
            store["/.b2/a"] = [1]
        folder = Path(store.to_b2d(path.parent / "files"))
    (folder / ".b2").mkdir()
    shutil.copyfile(folder / "a.b2nd", folder / ".b2" / "a.b2nd")
    archive = path.parent / "x.b2z"
    with zipfile.ZipFile(archive, "w") as z:
        for p in folder.rglob("*.b*"):
            z.write(p, p.relative_to(folder))
    for where in (folder, archive):
        with blosc2.DictStore(where) as store:
            assert list(store) == ["/a"]
            assert "/.b2/a" not in store
            store["/b"] = [1]
    assert (folder / ".b2" / "a.b2nd").exists()
    with zipfile.ZipFile(archive) as z:
        assert ".b2/a.b2nd" in z.namelist()


@pytest.mark.usefixtures("changes_wait")
def test_a_failed_publication_ends_a_with_block(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with blosc2.DictStore(path) as store:
        store["/a"] = [1]
    before = tree_state(path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"), blosc2.DictStore(path) as store:
            store["/b"] = [2]
    assert store.closed
    assert os.listdir(path.parent) == [path.name]
    with blosc2.DictStore(path, mode="r") as store:
        assert list(store) == ["/a"]
    if path.suffix == ".b2d":
        assert tree_state(path) == before


# ------------------------------------------------------------------------------------------------ threads
def test_a_change_during_a_flush_is_in_the_next(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with blosc2.DictStore(path) as store:
        store.update({"/a": [1], "/b": [2]})
        store.flush()
        a, b = store["/a"], store["/b"]
        a[0] = 10
        original = type(a._handle).to_cframe

        def to_cframe(handle: Any) -> bytes:
            frame = original(handle)
            if handle.key == "/a":
                a[0] = 11
                b[0] = 20
            return frame

        with monkeypatch.context() as patched:
            patched.setattr(type(a._handle), "to_cframe", to_cframe)
            store.flush()
        store.flush()
        with blosc2.DictStore(path, mode="r") as reader:
            assert values_of(reader) == {"/a": [11], "/b": [20]}


# ------------------------------------------------------------------------------------------------ failing appends
@pytest.mark.parametrize("how", ["grown", "replaced", "emptied"])
def test_what_another_wrote_during_an_append_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    path, other = tmp_path / "x.b2z", tmp_path / "y.b2z"
    for p in (path, other):
        with blosc2.DictStore(p) as store:
            store["/a"] = [1]
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 100)
    store = blosc2.DictStore(path)
    store["/b"] = np.arange(50)  # lies in the file, not published
    if how == "grown":
        with path.open("ab") as file:
            file.write(b"more")
    elif how == "replaced":
        os.replace(other, path)
    else:
        path.write_bytes(other.read_bytes())
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(OSError, match="changed by somebody else"):
            store.flush()
    store.discard()
    store.close()
    assert path.read_bytes() == before


# ------------------------------------------------------------------------------------------------ names


@pytest.mark.usefixtures("changes_wait")
def test_a_target_in_the_way_leaves_a_directory_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.DictStore(path) as store:
        store["/a"] = [1]
    (path / "z.b2nd").mkdir()
    (path / "z.b2nd" / "notes").touch()
    before = tree_state(path)
    store = blosc2.DictStore(path)
    store.update({"/a": [2], "/new/b": [3], "/z": [4]})
    with pytest.raises(OSError, match="folder"):
        store.flush()
    store.discard()
    store.close()
    assert {p: content for p, (content, _) in tree_state(path).items()} == {p: c for p, (c, _) in before.items()}


def test_long_names_of_others_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.DictStore(path) as store:
        store["/a"] = [1]
        folder = Path(store.to_b2d(tmp_path / "x.b2d"))
    with zipfile.ZipFile(path, "a") as z:
        z.write(folder / "a.b2nd", "n" * 300 + ".b2nd")
    with blosc2.DictStore(path) as store:
        assert store["/" + "n" * 300][0] == 1
        store["/" + "n" * 300][0] = 2
    with blosc2.DictStore(path) as store:
        assert store["/" + "n" * 300][0] == 2
        del store["/" + "n" * 300]


# ------------------------------------------------------------------------------------------------ unreadable entries
@pytest.mark.filterwarnings("ignore:.*another tool has compressed")
def test_a_compressed_member_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.DictStore(path) as store:
        store["/a"] = [1]
        folder = Path(store.to_b2d(tmp_path / "x.b2d"))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as z:
        z.write(folder / "a.b2nd", "packed.b2nd")
        z.write(folder / "a.b2nd", "other.b2nd")
    with blosc2.DictStore(path) as store:
        for key in ("/packed", "/other"):
            assert key not in store
            with pytest.raises(KeyError, match="compressed"):
                store[key]
        store["/packed"] = [3]
        store["/other"] = [2]
        store.flush()
        del store["/packed"]
    with blosc2.DictStore(path, mode="r") as store:
        assert values_of(store) == {"/a": [1], "/other": [2]}


def test_unreadable_embedded_values_block_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tampered(*what: Any) -> dict[str, Any]:
        bad = {"/remote": {"urlbase": "http://x"}, "/outside": {"offset": 1 << 40, "length": 5}, "/no": {"offset": "x"}}
        return {**values_after(*what), **bad, "/inside": {"offset": 3, "length": 70}}

    with monkeypatch.context() as patched:
        patched.setattr("blosc2._backends.embedded.frame_layout.values_after", tampered)
        with blosc2.DictStore(path, threshold=None) as store:
            store["/a"] = [1]
    with blosc2.DictStore(path, threshold=None) as store:
        store["/b"] = [2]
    with blosc2.DictStore(path) as store:
        for key in ("/remote", "/outside", "/no", "/inside"):
            with pytest.raises((ValueError, NotImplementedError)):
                store[key][()]
        del store["/remote"], store["/outside"], store["/inside"]
        store["/no"] = [3]
    with blosc2.DictStore(path, mode="r") as store:
        assert values_of(store) == {"/a": [1], "/b": [2], "/no": [3]}


# ------------------------------------------------------------------------------------------------ working directory
def test_the_working_directory_may_change(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = path.parent / "other"
    other.mkdir()
    monkeypatch.chdir(path.parent)
    with blosc2.DictStore(path.name, threshold=100) as store:
        store["/a"] = [1]
        store.flush()
        monkeypatch.chdir(other)
        assert store["/a"][0] == 1
        store["/b"] = np.arange(100)
        assert store.localpath == store.urlpath == path.name
    monkeypatch.chdir(path.parent)
    with blosc2.DictStore(path.name, mode="r") as store:
        monkeypatch.chdir(other)
        assert store["/b"][5] == 5
        assert store["/b"].urlpath == path.name
        assert pickle.loads(pickle.dumps(store))["/a"][0] == 1
    assert os.listdir(other) == []


@pytest.mark.usefixtures("changes_wait")
def test_an_embedded_value_has_its_new_key_before_a_file_takes_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.DictStore(path, mode="w", threshold=100) as store:
        store["/b"] = [1, 2]
        store["/c"] = np.arange(100)
    store = blosc2.DictStore(path, threshold=100)
    store.rename("/b", "/k")
    store.rename("/c", "/b")
    replace, seen = os.replace, []

    def watched(old: str, new: str) -> None:
        if str(new).endswith("b.b2nd"):
            with blosc2.DictStore(path, mode="r") as reader:
                seen.append((reader["/k"][:].tolist(), reader["/b"][:].tolist()))
        replace(old, new)

    monkeypatch.setattr(os, "replace", watched)
    store.close()
    assert seen == [([1, 2], [1, 2])]
    with blosc2.DictStore(path, mode="r") as reader:
        assert values_of(reader) == {"/b": list(range(100)), "/k": [1, 2]}


def test_an_archive_of_more_members_than_its_end_record_can_state(tmp_path: Path) -> None:
    """Above 65,534 members the end record does not state their number; that is no sign of an unfinished append."""
    path = tmp_path / "many.b2z"
    with blosc2.DictStore(str(path), mode="w") as store:
        store.write_many((f"/{n}", np.zeros(1, "i1")) for n in range(65535))
    with blosc2.DictStore(str(path), mode="r", mmap_mode="r") as reader:
        assert len(reader) == 65535
        assert reader["/65534"][:] == [0]
