"""Symbolic links to files and stores: they stay links, what is written goes to where they lead, and that is locked."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.forks import refused_elsewhere

import blosc2

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links need privileges on Windows")

STORES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "embed": (blosc2.EmbedStore, ".b2e", {}),
    "zip": (blosc2.TreeStore, ".b2z", {}),
    "zip tiers": (blosc2.TreeStore, ".b2z", {"threshold": 1000}),
    "directory": (blosc2.TreeStore, ".b2d", {}),
    "directory tiers": (blosc2.DictStore, ".b2d", {"threshold": 1000}),
}
KINDS = pytest.mark.parametrize("kind", STORES)
SPARSE = pytest.mark.parametrize("contiguous", [True, False])


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another file system, where there is one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def shown(path: Path, mmap_mode: str | None = None) -> dict[str, list[int]]:
    with blosc2.open(path, mmap_mode=mmap_mode) as store:
        return {key: store[key][:].tolist() for key in store if isinstance(store[key], blosc2.NDArray)}


@KINDS
def test_a_store_behind_a_link(kind: str, tmp_path: Path, elsewhere: Path) -> None:
    make, suffix, how = STORES[kind]
    link, real = tmp_path / f"link{suffix}", elsewhere / f"real{suffix}"
    with make(str(real), mode="w", **how) as store:
        store["/a"], store["/g/large"] = [1], np.arange(500)
    link.symlink_to(real)
    changes: list[tuple[str, Callable[[Any], Any]]] = [
        ("a", lambda s: s.__setitem__("/a", [2])),
        ("a", lambda s: (s.__setitem__("/b", np.arange(400)), s.flush(), s.__delitem__("/b"), s.compact())),
        ("a", lambda s: s.rename("/g/large", "/moved")),
        ("w", lambda s: s.update({f"/n{n}": [n] for n in range(4)})),
    ]
    for mode, change in changes:
        with make(str(link), mode=mode, **how) as store:
            change(store)
        assert link.is_symlink()
        assert shown(link) == shown(real) == shown(link, "r")
        assert (names(tmp_path), names(elsewhere)) == ([link.name], [real.name])
    assert sorted(shown(real)) == [f"/n{n}" for n in range(4)]


@KINDS
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("by_link_first", [True, False])
def test_writers_by_link_and_by_name_exclude_each_other(
    kind: str, by_link_first: bool, tmp_path: Path, elsewhere: Path
) -> None:
    make, suffix, how = STORES[kind]
    link, real = tmp_path / f"link{suffix}", elsewhere / f"real{suffix}"
    link.symlink_to(real)
    make(str(real), mode="w", **how).close()
    first, second = (link, real) if by_link_first else (real, link)
    with make(str(first), mode="a", **how) as store:
        store["/a"] = [1]
        store.compact()
        refused_elsewhere(lambda: make(str(second), mode="a", **how))


@KINDS
def test_a_store_is_made_where_a_link_leads(kind: str, tmp_path: Path, elsewhere: Path) -> None:
    """As `open` makes a file there; mode "x" refuses, since the name is taken."""
    make, suffix, how = STORES[kind]
    real = elsewhere / f"real{suffix}"
    for mode in ("a", "w"):
        link = tmp_path / f"{mode}{suffix}"
        link.symlink_to(real)
        with pytest.raises(FileNotFoundError):
            make(str(link), mode="r", **({} if how is None else how))
        with pytest.raises(FileExistsError):
            make(str(link), mode="x", **how)
        assert not real.exists()
        with make(str(link), mode=mode, **how) as store:
            store["/a"] = [3]
            store.flush()
            store["/a"] = [4]
        assert link.is_symlink()
        assert shown(real) == {"/a": [4]}
        assert names(elsewhere) == [real.name]
        blosc2.remove_urlpath(str(real))


@KINDS
def test_a_link_that_leads_to_itself(kind: str, tmp_path: Path) -> None:
    make, suffix, how = STORES[kind]
    link = tmp_path / f"link{suffix}"
    link.symlink_to(link)
    with pytest.raises(OSError), make(str(link), mode="w", **how) as store:
        store["/a"] = [1]
    assert link.is_symlink()


@KINDS
def test_a_reader_follows_a_link_that_is_turned(kind: str, tmp_path: Path) -> None:
    make, suffix, how = STORES[kind]
    link = tmp_path / f"link{suffix}"
    for number in range(2):
        with make(str(tmp_path / f"real{number}{suffix}"), mode="w", **how) as store:
            store["/a"] = [number]
    link.symlink_to(tmp_path / f"real0{suffix}")
    with make(str(link), mode="r", **how) as reader, make(str(link), mode="a", **how) as writer:
        other = tmp_path / "other"
        other.symlink_to(tmp_path / f"real1{suffix}")
        os.replace(other, link)
        assert reader.refresh()
        assert reader["/a"][0] == 1
        writer["/a"] = [7]  # still where it has the lock
        writer.flush()
        assert shown(tmp_path / f"real0{suffix}") == {"/a": [7]}


def test_copies_by_their_names(tmp_path: Path, elsewhere: Path) -> None:
    """A copy without a name lies beside the link; one over a link goes to where that leads."""
    link, real = tmp_path / "link.b2d", elsewhere / "real.b2d"
    link.symlink_to(real)
    with blosc2.DictStore(str(link), mode="w") as store:
        store["/a"] = [1]
        store.flush()
        assert store.to_b2z() == str(tmp_path / "link.b2z")
        for suffix, copy in ((".b2z", store.to_b2z), (".b2d", store.to_b2d)):
            again, other = tmp_path / f"again{suffix}", elsewhere / f"other{suffix}"
            again.symlink_to(other)
            assert copy(str(again), overwrite=True) == str(again) if suffix == ".b2d" else True
            if suffix == ".b2z":
                assert store.to_b2z(overwrite=True, filename=str(again)) == str(again)
            assert again.is_symlink()
            assert shown(other) == {"/a": [1]}


@SPARSE
@pytest.mark.parametrize("there", [True, False])
def test_an_array_behind_a_link(contiguous: bool, there: bool, tmp_path: Path, elsewhere: Path) -> None:
    link, real = tmp_path / "link.b2nd", elsewhere / "real.b2nd"
    link.symlink_to(real)
    if there:
        blosc2.asarray(np.arange(5), urlpath=real, contiguous=contiguous)
        blosc2.asarray(np.arange(6), urlpath=link, contiguous=contiguous, mode="w")
    array = blosc2.asarray(np.arange(10), chunks=(4,), urlpath=link, contiguous=contiguous, mode="w")
    array.resize((20,))
    array[3:8] = 1
    array.vlmeta["note"] = "x" * 700
    array.compact()
    assert link.is_symlink()
    np.testing.assert_array_equal(blosc2.open(real)[:], array[:])
    assert (names(tmp_path), names(elsewhere)) == (["link.b2nd"], ["real.b2nd"])
    with pytest.raises(FileExistsError):
        blosc2.asarray(np.arange(2), urlpath=link, contiguous=contiguous, mode="x")
    blosc2.asarray(np.arange(3)).save(str(link), mode="w", contiguous=contiguous)
    assert link.is_symlink()
    assert blosc2.open(real).shape == (3,)
    blosc2.remove_urlpath(link)  # which removes the link, as `unlink` does
    assert (names(tmp_path), names(elsewhere)) == ([], ["real.b2nd"])


@SPARSE
def test_handles_by_link_and_by_name_share_a_lock(contiguous: bool, tmp_path: Path, elsewhere: Path) -> None:
    link, real = tmp_path / "link.b2nd", elsewhere / "real.b2nd"
    link.symlink_to(real)
    one = blosc2.zeros(3, "i8", urlpath=real, contiguous=contiguous, locking=True)
    other = blosc2.open(link, "a", locking=True)
    other[0] = 5
    assert one[0] == 5
    one[1] = 6
    assert other[:].tolist() == [5, 6, 0]
    assert names(tmp_path) == ["link.b2nd"]


class TestLeaves:
    """Links inside of a `.b2d`."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """A store with a leaf that is a link to another one."""
        path = tmp_path / "store.b2d"
        with blosc2.DictStore(str(path), mode="w") as store:
            store["/g/a"], store["/c"] = np.arange(400), [2]
        (path / "b.b2nd").symlink_to(Path("g") / "a.b2nd")
        return path

    def test_a_link_is_written_through(self, path: Path) -> None:
        with blosc2.DictStore(str(path), mode="a") as store:
            store["/b"] = [7]
            store.flush()
            assert store["/g/a"][:].tolist() == store["/b"][:].tolist() == [7]
            store["/b"][0] = 8
            store.flush()
            store.compact()
        assert (path / "b.b2nd").is_symlink()
        assert shown(path) == {"/b": [8], "/c": [2], "/g/a": [8]}

    def test_a_link_that_gets_another_key_leads_to_the_same_file(self, path: Path) -> None:
        with blosc2.DictStore(str(path), mode="a") as store:
            store.rename("/b", "/deep/er/b")
            assert store["/deep/er/b"].shape == (400,)
        assert (path / "deep" / "er" / "b.b2nd").is_symlink()
        path = path.rename(path.with_name("moved.b2d"))
        assert shown(path)["/deep/er/b"] == list(range(400))

    def test_a_link_is_removed_alone(self, path: Path) -> None:
        with blosc2.DictStore(str(path), mode="a") as store:
            del store["/b"]
        assert sorted(shown(path)) == ["/c", "/g/a"]
        with blosc2.DictStore(str(path), mode="a") as store:
            store["/b"] = blosc2.SChunk(8, np.arange(3))
        assert names(path) == ["b.b2f", "c.b2nd", "embed.b2e", "g"]

    @pytest.mark.usefixtures("changes_wait")
    def test_a_link_out_of_the_store_is_read_and_never_written(self, path: Path, elsewhere: Path) -> None:
        outside = elsewhere / "outside.b2nd"
        array = blosc2.asarray(np.arange(1000), chunks=(100,), urlpath=outside)
        for number in range(10):  # dead bytes
            array[:] = np.random.default_rng(number).integers(0, 1 << 62, 1000)
        before = outside.read_bytes()
        (path / "out.b2nd").symlink_to(outside)
        with blosc2.DictStore(str(path), mode="a") as store:
            assert store["/out"].shape == (1000,)
            store["/out"] = [1]
            store["/c"] = [3]
            with pytest.raises(ValueError, match="leads out of the store"):
                store.flush()
            assert blosc2.open(path)["/c"][0] == 2
            store.discard()
            store.compact()
            store.rename("/out", "/g/out")
        assert (path / "g" / "out.b2nd").is_symlink()
        assert blosc2.open(path)["/g/out"].shape == (1000,)
        with blosc2.DictStore(str(path), mode="a") as store:
            del store["/g/out"]
        assert outside.read_bytes() == before
        assert names(elsewhere) == ["outside.b2nd"]
