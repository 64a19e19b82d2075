"""`check` and `salvage` where there is too little memory, or too few files may be open: it says nothing of the file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits
from fixture_kit.isolated import environment
from sweeps.run import in_a_child

import blosc2
from blosc2._files import no_thread

pytestmark = pytest.mark.skipif(not limits.LINUX, reason="limits the address space")
SIZE = 48 << 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An array of one block."""
    made = tmp_path_factory.mktemp("little") / "a.b2nd"
    items = np.arange(SIZE // 8) // 1000
    how = {"codec": blosc2.Codec.ZSTD, "clevel": 1, "filters": [blosc2.Filter.BITSHUFFLE]}
    blosc2.asarray(items, chunks=items.shape, blocks=items.shape, cparams=how, urlpath=str(made))
    return made


def tried(path: str, folder: Path, more: int, mapped: str | None) -> str:
    """What came of four ways to read an array when this process may grow by so many MiB."""
    out = folder / "out.b2nd"
    array = blosc2.open(path, mmap_mode=mapped)
    for other in (blosc2.check, blosc2.salvage):
        with suppress(FileNotFoundError):  # their modules are there
            other(folder / "none", *[folder / "out"][: other is blosc2.salvage])
    limits.limit_address_space(more << 20)
    acts: list[Callable[[], Any]] = [
        lambda: array[5],
        lambda: array[...],
        lambda: blosc2.check(path).findings and 1 / 0,
        lambda: blosc2.salvage(path, out, fill=0).lost and 1 / 0,
    ]
    came = []
    for act in acts:
        try:
            act()
        except MemoryError:
            came.append("lack")
        else:
            came.append("done")
    if came[-1] == "done":
        os.unlink(out)
    assert not list(folder.iterdir())
    return " ".join(came)


@pytest.mark.parametrize("more", [8, 60, 100, 150])
@pytest.mark.parametrize("mapped", ["r", None])
def test_a_block_that_does_not_fit(path: Path, tmp_path: Path, more: int, mapped: str | None) -> None:
    # In a new process: one that ran other tests has freed memory, which no limit counts.
    code = (
        f"import test_little_memory as t; print(t.tried({str(path)!r}, t.Path({str(tmp_path)!r}), {more}, {mapped!r}))"
    )
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), env["PYTHONPATH"]])
    came = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout
    assert more > 100 or came == "lack lack lack lack\n"


def test_too_many_open_files(path: Path) -> None:
    import resource

    def work(folder: Path) -> str:
        with suppress(FileNotFoundError):
            blosc2.salvage(folder / "none", folder / "out")
        assert blosc2.check(path).ok
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
        for act in (lambda: blosc2.check(path), lambda: blosc2.salvage(path, folder / "out.b2nd", fill=0)):
            with pytest.raises(OSError, match="Too many open files"):
                act()
        return "well"

    assert in_a_child(work) == ("well", "")


def test_a_thread_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {f"/a{number}": np.arange(300_000) for number in range(8)}
    with blosc2.DictStore(str(tmp_path / "s.b2z"), mode="w") as store:
        store.update(values)

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with blosc2.open(str(tmp_path / "s.b2z")) as store:
        expected = store.read_many(list(values))
        monkeypatch.setattr(threading.Thread, "start", start)
        with suppress(OSError):  # or it does without
            assert all(map(np.array_equal, store.read_many(list(values)), expected))
        monkeypatch.undo()
        assert all(map(np.array_equal, store.read_many(list(values)), expected))
    told = no_thread(RuntimeError("can't start new thread"))
    assert isinstance(told, OSError)
    assert "could not be started" in str(told)
    other = RuntimeError("cannot schedule new futures after shutdown")
    assert no_thread(other) is other
