"""Objects on servers are written as wholes, and only as such."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import ReadOnlyError, RemoteAccessError, RemoteError

fsspec = pytest.importorskip("fsspec")

ITEMS = np.random.default_rng(0).integers(0, 99, (60, 50), "i4")


@pytest.fixture(autouse=True)
def memory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file system in memory, empty; nothing may stay in the temporary directory."""
    system = fsspec.filesystem("memory")
    if system.exists("/w"):
        system.rm("/w", recursive=True)
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield system
    assert os.listdir(folder) == []


WAYS: dict[str, Any] = {
    "asarray": lambda url, **how: blosc2.asarray(ITEMS, urlpath=url, **how),
    "blocks": lambda url, **how: blosc2.asarray(iter([ITEMS[:7], ITEMS[7:]]), shape=ITEMS.shape, urlpath=url, **how),
    "save": lambda url, **how: blosc2.asarray(ITEMS).save(url, **how),
    "blosc2.save": lambda url, **how: blosc2.save(ITEMS, url, **how),
    "concat": lambda url, **how: blosc2.concat([ITEMS[:9], ITEMS[9:]], urlpath=url, **how),
    "copy": lambda url, **how: blosc2.asarray(ITEMS).copy(urlpath=url, **how),
}


@pytest.mark.parametrize("way", WAYS)
def test_arrays(memory: Any, way: str) -> None:
    write, url = WAYS[way], "memory://w/a.b2nd"
    write(url)
    np.testing.assert_array_equal(blosc2.open(url)[:], ITEMS)
    data = memory.cat_file("/w/a.b2nd")
    with pytest.raises(FileExistsError, match=r"the object exists; mode='w' or overwrite=True replaces it.*a\.b2nd"):
        write(url)
    assert memory.cat_file("/w/a.b2nd") == data
    write(url, mode="w")
    np.testing.assert_array_equal(blosc2.open(url)[:], ITEMS)
    assert memory.ls("/w", detail=False) == ["/w/a.b2nd"]


def test_names_of_other_formats(memory: Any) -> None:
    with pytest.raises(ValueError, match=r"^q\.nii\.gz: a name that ends in .* call it q\.b2nd$"):
        blosc2.asarray(ITEMS, urlpath="memory://w/q.nii.gz")
    assert not memory.exists("/w/q.nii.gz")


def test_what_was_written_is_read_there_and_not_changed(memory: Any) -> None:
    array = blosc2.asarray(ITEMS, urlpath="memory://w/a.b2nd", meta={"k": 1})
    assert array.urlpath == "memory://w/a.b2nd"
    assert array.meta["k"] == 1
    np.testing.assert_array_equal(array[3:5], ITEMS[3:5])
    before = memory.cat_file("/w/a.b2nd")
    changes: list[Any] = [
        lambda: array.append(ITEMS[:1]), lambda: array.resize((70, 50)), lambda: array.__setitem__(0, 1),
        lambda: array.attrs.__setitem__("unit", "mm"),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(ReadOnlyError, match="on a server is written as a whole: change a local copy"):
            change()
    assert memory.cat_file("/w/a.b2nd") == before


def test_buffers_and_super_chunks(memory: Any) -> None:
    blosc2.SChunk(data=b"twelve bytes", urlpath="memory://w/s.b2frame")
    assert blosc2.open("memory://w/s.b2frame")[:] == b"twelve bytes"
    blosc2.save_array(ITEMS, "memory://w/t.b2frame")
    np.testing.assert_array_equal(blosc2.load_array("memory://w/t.b2frame"), ITEMS)


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_stores(tmp_path: Path, memory: Any, suffix: str) -> None:
    with blosc2.TreeStore(str(tmp_path / f"a{suffix}"), mode="w") as store:
        store["/g/x"] = ITEMS
        store["/g"].attrs["unit"] = "mm"
        assert store.to_b2z(filename="memory://w/s.b2z") == "memory://w/s.b2z"
        with blosc2.open("memory://w/s.b2z") as there:
            np.testing.assert_array_equal(there["/g/x"][:], ITEMS)
            assert there["/g"].attrs["unit"] == "mm"
        store["/y"] = [1]
        with pytest.raises(FileExistsError):
            store.to_b2z("memory://w/s.b2z")
        store.to_b2z(filename="memory://w/s.b2z", overwrite=True)
        assert "/y" in blosc2.open("memory://w/s.b2z")
        with pytest.raises(ValueError, match=r"must have a \.b2z extension"):
            store.to_b2z(filename="memory://w/s.zip")
        with pytest.raises(NotImplementedError, match="as a whole, by to_b2z"):
            store.to_b2d("memory://w/s.b2d")
    with pytest.raises(NotImplementedError, match="as a whole, by to_b2z"):
        blosc2.TreeStore("memory://w/new.b2z", mode="w")


def test_what_cannot_be(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="a list on a server cannot grow"):
        blosc2.ObjectArray(urlpath="memory://w/o.b2frame", mode="w")
    with pytest.raises(ValueError, match="h5"):
        blosc2.asarray(ITEMS, urlpath="memory://w/a.h5")
    with monkeypatch.context() as patched:
        patched.setenv("BLOSC_LOCKING", "1")  # of files
        blosc2.asarray(ITEMS, urlpath="memory://w/b.b2nd")
    for how in ({"locking": True}, {"contiguous": False}, {"mmap_mode": "w+"}):
        with pytest.raises(ValueError, match="written once, as one file"):
            blosc2.asarray(ITEMS, urlpath="memory://w/a.b2nd", **how)

    def broken() -> Any:
        yield ITEMS[:9]
        raise KeyError("the source ends")

    with pytest.raises(KeyError, match="the source ends"):
        blosc2.asarray(broken(), shape=ITEMS.shape, urlpath="memory://w/a.b2nd")
    assert not memory.exists("/w/a.b2nd")


@pytest.mark.parametrize(
    ("error", "kind"),
    [(PermissionError("403"), RemoteAccessError), (OSError("broken pipe"), RemoteError),
     (NotImplementedError(), RemoteError), (TimeoutError(), RemoteError)],
)  # fmt: skip
def test_servers_that_fail(memory: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: Any) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(type(memory), "put_file", fail)
    with pytest.raises(kind, match=r"memory://w/a\.b2nd"):
        blosc2.asarray(ITEMS, urlpath="memory://w/a.b2nd")


def test_nothing_is_told_that_only_the_caller_may_know(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("403, url='memory://user:secret@w/a.b2nd?sig=secret'")

    monkeypatch.setattr(type(memory), "put_file", fail)
    with pytest.raises(RemoteError) as caught:
        blosc2.asarray(ITEMS, urlpath="memory://w/a.b2nd?sig=secret" + "s" * 300)
    assert "403" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_object_that_somebody_makes_meanwhile(memory: Any) -> None:
    def blocks() -> Any:
        yield ITEMS[:30]
        memory.pipe_file("/w/a.b2nd", b"of somebody else")
        yield ITEMS[30:]

    with pytest.raises(FileExistsError):
        blosc2.asarray(blocks(), shape=ITEMS.shape, urlpath="memory://w/a.b2nd")
    assert memory.cat_file("/w/a.b2nd") == b"of somebody else"


def test_a_connection_that_breaks_leaves_the_old_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an object would be seen while it is sent."""
    system, url = fsspec.filesystem("local"), f"local://{tmp_path}/a.b2nd"
    blosc2.asarray(ITEMS, urlpath=url)

    def breaks(self: Any, local: str, name: str, **_: Any) -> None:
        Path(name).write_bytes(Path(local).read_bytes()[:100])
        raise ConnectionResetError(f"{name}: reset by peer")

    with monkeypatch.context() as patched:
        patched.setattr(type(system), "put_file", breaks)
        with pytest.raises(RemoteError, match=r"/a\.b2nd: reset by peer"):
            blosc2.asarray(ITEMS + 1, urlpath=url, mode="w")
    np.testing.assert_array_equal(blosc2.open(url)[:], ITEMS)
    assert os.listdir(tmp_path) == ["a.b2nd"]
    blosc2.asarray(ITEMS + 1, urlpath=url, mode="w")
    np.testing.assert_array_equal(blosc2.open(url)[:], ITEMS + 1)


def test_nothing_is_added_to_a_store_on_a_server(tmp_path: Path, memory: Any) -> None:
    np.save(tmp_path / "n.npy", ITEMS)
    blosc2.convert(tmp_path / "n.npy", "memory://w/s.b2z", into="/first")
    for overwrite, kind in ((False, FileExistsError), (True, ValueError)):
        with pytest.raises(kind):
            blosc2.convert(tmp_path / "n.npy", "memory://w/s.b2z", into="/second", overwrite=overwrite)
    assert list(blosc2.open("memory://w/s.b2z")) == ["/first"]
