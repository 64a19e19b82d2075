"""What is no regular file, and names that are too long for one: nothing waits, and the error says what it is."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fixture_kit.forks import in_child

import blosc2


@contextmanager
def writer_of_last_resort(path: Path) -> Iterator[list[bool]]:
    """Whoever waits for somebody to write to a FIFO is let go, and it is noted."""
    waited: list[bool] = []

    def let_go() -> None:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads
            return
        waited.append(True)

    timer = threading.Timer(5, let_go)
    timer.start()
    try:
        yield waited
    finally:
        timer.cancel()
        timer.join()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.parametrize("name", ["00000000.chunk", "chunks.b2frame"])
def test_a_fifo_in_a_directory_frame(tmp_path: Path, source: str | None, name: str) -> None:
    path = tmp_path / "x.b2nd"
    blosc2.asarray(np.arange(10), urlpath=str(path), contiguous=False)
    file = next(file for file in path.iterdir() if file.suffix == Path(name).suffix)
    file.unlink()
    os.mkfifo(file)
    with writer_of_last_resort(file) as waited, pytest.raises((blosc2.FormatError, OSError)):
        blosc2.open(str(path), mmap_mode=source)
    assert not waited


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.parametrize("suffix", [".b2nd", ".b2z", ".b2e"])
def test_a_fifo_in_place_of_a_file(tmp_path: Path, source: str | None, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    os.mkfifo(path)
    with writer_of_last_resort(path) as waited, pytest.raises((blosc2.FormatError, OSError), match="regular"):
        blosc2.open(str(path), mmap_mode=source)
    assert not waited


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.parametrize(("suffix", "make"), [
    (".b2nd", lambda path: blosc2.asarray([1], urlpath=path, mode="w")),
    (".b2nd", lambda path: blosc2.asarray([1], urlpath=path, mode="w", contiguous=False)),
    (".b2frame", lambda path: blosc2.SChunk(data=b"1", urlpath=path, mode="w")),
    (".b2frame", lambda path: blosc2.ObjectArray(urlpath=path, mode="w")),
    (".b2z", lambda path: blosc2.TreeStore(path, mode="w")),
    (".b2e", lambda path: blosc2.EmbedStore(path, mode="w")),
    (".b2z", lambda path: blosc2.DictStore(path, mode="a")),
    (".b2z", lambda path: blosc2.merge([], path, mode="w")),
    (".json", lambda path: blosc2.zarr_references(f"{path}.b2nd", path, overwrite=True)),
])  # fmt: skip
def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path, suffix: str, make: Callable[[str], object]) -> None:
    """A device would be lost for all."""
    path = tmp_path / f"x{suffix}"
    blosc2.asarray([1], urlpath=f"{path}.b2nd")
    before = os.listdir(tmp_path)
    os.mkfifo(path)
    with pytest.raises(FileExistsError, match="it is no regular file, and is not replaced: give another path"):
        make(str(path))
    assert path.is_fifo()
    assert sorted(os.listdir(tmp_path)) == sorted([*before, path.name])


@pytest.mark.parametrize("kind", [blosc2.DictStore, blosc2.TreeStore])
@pytest.mark.parametrize("listed", [True, False])
def test_keys_that_are_too_long_for_files_are_not_there(
    tmp_path: Path, source: str | None, kind: type, listed: bool
) -> None:
    path = str(tmp_path / "x.b2d")
    with kind(path, mode="w") as store:
        store["/x"] = np.arange(3)
    with kind(path, mode="r", mmap_mode=source) as store:
        assert len(store) == 1 if listed else True
        for key in ("/" + "k" * 300, "/k" * 3000, "/" + "k" * 300 + "/x"):
            assert key not in store
            assert store.get(key) is None
            for look in (store.__getitem__, store.read, lambda key, store=store: store.read_many([key])):
                with pytest.raises(KeyError):
                    look(key)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may look into; those of `tmp_path` are for their owner alone."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", ["s.b2z", "s.b2d", "s.b2e", "a.b2nd"])
def test_what_may_not_be_written_is_refused_at_once(name: str, there: bool, open_folder: Path) -> None:
    path = str(open_folder / name) if there else str(open_folder / "new" / "folders" / name)
    kind = {"b2e": blosc2.EmbedStore, "b2nd": None}.get(name.partition(".")[2], blosc2.TreeStore)
    if there and kind is None:
        blosc2.zeros(3, urlpath=path)
    elif there:
        with kind(path, mode="w") as store:
            store["/a"] = [1]

    def refused() -> None:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        for mode in ("a", "w"):
            with pytest.raises(PermissionError, match="no permission to write here") as caught:
                if kind is not None:
                    kind(path, mode=mode)
                elif there:
                    blosc2.open(path, mode="a")
                else:
                    raise PermissionError(13, "no permission to write here", str(open_folder))
            assert caught.value.filename == (path if there else str(open_folder))
            advice = "open it with mode='r'" if there else "nothing can be made in this folder"
            assert kind is None or advice in str(caught.value)
        if there:
            blosc2.open(path, mode="r")

    in_child(refused)
    assert os.listdir(open_folder) == ([name] if there else [])


@pytest.mark.skipif(not hasattr(os, "statvfs"), reason="Windows does not tell")
@pytest.mark.parametrize("there", [True, False])
def test_a_file_system_that_is_read_only_is_named(tmp_path: Path, there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "s.b2z")
    if there:
        blosc2.TreeStore(path, mode="w").close()
    monkeypatch.setattr(os, "access", lambda _, mode, **__: mode == os.R_OK)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    advice = "open it with mode='r'" if there else "nothing can be made in this folder"
    with pytest.raises(PermissionError, match=f"the file system is read-only: {advice}") as caught:
        blosc2.TreeStore(path, mode="a")
    assert caught.value.errno == errno.EROFS


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")
@pytest.mark.parametrize("path", ["/proc/a.b2z", "/proc/a.b2d", "/proc/no/a.b2z"])
def test_a_folder_that_takes_no_files(path: str) -> None:
    """It says of a new file that its folder is gone, for ever."""
    with pytest.raises(FileNotFoundError, match="takes no files") as caught:
        blosc2.TreeStore(path, mode="w")
    assert caught.value.filename == path
