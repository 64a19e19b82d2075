"""An I/O error at any write, sync or rename of an edit leaves the version that was there, in files and directories."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import SChunk, SpecialValue
from blosc2._files import atomic_file as new_file
from blosc2._files import owner as owner
from blosc2._frames import directory as directory_frame
from blosc2._handles import file as handle

ITEMS = np.arange(1000, dtype="<i4") // 7


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs are counted and fail, but take no time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def noise(size: int) -> Any:
    return np.random.default_rng(5).integers(0, 1 << 30, size).astype("<i4")


EDITS: dict[str, Callable[[Any], Any]] = {
    "append_data": lambda x: x.append_data(noise(300)),
    "insert_data": lambda x: x.insert_data(1, noise(300)),
    "update_data": lambda x: x.update_data(0, noise(300)),
    "append_chunk": lambda x: x.append_chunk(x.get_chunk(0)),
    "update_chunk": lambda x: x.update_chunk(1, x.get_chunk(0)),
    "delete_chunk": lambda x: x.delete_chunk(2),
    "fill_special": lambda x: x.fill_special(700, SpecialValue.VALUE, 9),
    "update_special": lambda x: x.update_special(1, SpecialValue.ZERO),
    "reorder_offsets": lambda x: x.reorder_offsets([3, 0, 2, 1]),
    "set_slice": lambda x: x.set_slice(noise(500), start=250, stop=750),
    "growing set_slice": lambda x: x.set_slice(noise(900), start=990),
    "set vlmeta": lambda x: x.vlmeta.update(kept="new", more=noise(200)),
    "delete vlmeta": lambda x: x.vlmeta.clear(),
    "meta": lambda x: x.meta.__setitem__("m", "nope"),
}


class Faults:
    """Counts operations that reach the disk, and makes one of them fail, or all from it on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail_at: int = 0, *, for_good: bool = False) -> None:
        self.calls, self.fail_at, self.for_good = 0, fail_at, for_good
        faults = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                if faults.fails():
                    super().write(memoryview(data)[: len(data) // 2])  # what a full disk does
                    raise OSError(28, "injected")
                return super().write(data) or 0

        def opened(path: Any, mode: str = "r", buffering: int = -1) -> Any:
            raw = File(path, mode.replace("b", ""))
            if buffering == 0:
                return raw
            return io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)

        for module in (handle, directory_frame, new_file, owner):
            monkeypatch.setattr(module, "open", opened, raising=False)
        for name in ("fsync", "replace", "rename", "link", "mkdir"):
            monkeypatch.setattr(os, name, self.wrapped(getattr(os, name)))

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.fails():
                raise OSError(5, "injected")
            return function(*args, **kwargs)

        return call

    def fails(self) -> bool:
        self.calls += 1
        return self.calls >= self.fail_at > 0 if self.for_good else self.calls == self.fail_at


def everything(path: Path) -> tuple[Any, ...]:
    found = blosc2.open(path)
    found._handle.frame.check_all()
    vlmeta = {name: np.asarray(value).tolist() for name, value in found.vlmeta.items()}
    chunks = [found.decompress_chunk(n) for n in range(found.nchunks)]
    return chunks, vlmeta, dict(found.meta)


def files(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {path.name: path.read_bytes()}
    return {child.name: child.read_bytes() for child in sorted(path.iterdir())}


def made(path: Path, *, contiguous: bool) -> SChunk:
    schunk = SChunk(chunksize=1200, data=ITEMS, urlpath=path, mode="w", contiguous=contiguous, meta={"m": "text"})
    schunk.vlmeta["kept"] = "old"
    return schunk


@pytest.mark.parametrize("contiguous", [True, False], ids=["file", "directory"])
@pytest.mark.parametrize("edit", EDITS)
def test_an_error_at_any_step_of_an_edit_leaves_the_old_version(
    edit: str, contiguous: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.b2frame"
    schunk = made(path, contiguous=contiguous)
    with monkeypatch.context() as patch:
        counted = Faults(patch)
        EDITS[edit](schunk)
    assert counted.calls >= 4
    after = everything(path)
    for fail_at in range(1, counted.calls + 1):
        blosc2.remove_urlpath(path)
        schunk = made(path, contiguous=contiguous)
        before, content = files(path), everything(path)
        assert content != after
        with monkeypatch.context() as patch:
            Faults(patch, fail_at)
            with pytest.raises(OSError, match="injected"):
                EDITS[edit](schunk)
        # Only what follows the rename of a whole new file is too late to be taken back, and then all of it is there.
        late = contiguous and edit == "meta" and fail_at == counted.calls
        assert everything(path) == (after if late else content), fail_at
        assert os.listdir(tmp_path) == [path.name]
        if not late:
            # What was visible until its header or the sync after that failed stays behind the old version.
            seen = contiguous and edit != "meta" and fail_at >= counted.calls - 1
            assert files(path) == before or (seen and path.read_bytes().startswith(before[path.name]))
            assert [schunk.decompress_chunk(n) for n in range(schunk.nchunks)] == content[0]
            EDITS[edit](schunk)  # the handle works on
            assert everything(path) == after


@pytest.mark.parametrize("contiguous", [True, False], ids=["file", "directory"])
@pytest.mark.parametrize("edit", EDITS)
def test_a_disk_that_takes_nothing_any_more_shows_one_version(
    edit: str, contiguous: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be taken back then; what shows is whole all the same, unless half a header was written."""
    path = tmp_path / "x.b2frame"
    schunk = made(path, contiguous=contiguous)
    with monkeypatch.context() as patch:
        counted = Faults(patch)
        EDITS[edit](schunk)
    after = everything(path)
    for fail_at in range(1, counted.calls + 1):
        blosc2.remove_urlpath(path)
        schunk = made(path, contiguous=contiguous)
        content = everything(path)
        with monkeypatch.context() as patch:
            Faults(patch, fail_at, for_good=True)
            with pytest.raises(OSError, match="injected"):
                EDITS[edit](schunk)
        try:
            shown = everything(path)
        except blosc2.FormatError:
            # The header is one write of less than a sector: half of it, or of the old one that was to come back.
            assert contiguous
            assert counted.calls == 4
            assert fail_at in (3, 4)
        else:
            assert shown in (content, after)


@pytest.mark.parametrize("contiguous", [True, False], ids=["file", "directory"])
@pytest.mark.parametrize("replaced", [True, False])
def test_an_error_while_something_new_is_written_leaves_what_was_there(
    contiguous: bool, replaced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.b2frame"

    def start() -> dict[str, bytes] | None:
        blosc2.remove_urlpath(path)
        if not replaced:
            return None
        made(path, contiguous=contiguous)
        return files(path)

    def make() -> None:
        SChunk(chunksize=1200, data=noise(1000), urlpath=path, mode="w" if replaced else "a", contiguous=contiguous)

    start()
    with monkeypatch.context() as patch:
        counted = Faults(patch)
        make()
    after = files(path)
    for fail_at in range(1, counted.calls + 1):
        before = start()
        with monkeypatch.context() as patch:
            Faults(patch, fail_at)
            try:
                make()
            except OSError:
                pass
            else:  # a hard link that cannot be made is replaced by a rename
                assert not replaced
        now = files(path) if path.exists() else None
        assert now in (before, after), fail_at
        assert set(os.listdir(tmp_path)) <= {path.name}
