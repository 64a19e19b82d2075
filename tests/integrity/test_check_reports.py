"""`check` as it is called: methods, reports, progress, the command line."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fixture_kit import manifest
from fixture_kit.checked_files import FILES, NUMBERS, archive, array, fill

import blosc2
from blosc2._integrity.report import CheckReport, Finding
from blosc2._tools.cli import main


# ------------------------------------------------------------------ the interface
def test_methods_of_what_is_open(tmp_path: Path) -> None:
    for kind, name in ((blosc2.EmbedStore, "x.b2e"), (blosc2.DictStore, "x.b2d"), (blosc2.TreeStore, "x.b2z")):
        path = tmp_path / name
        with kind(str(path), mode="w") as store:
            fill(store)
            store.flush()
            assert store.check().ok
            assert store["/a"].check().ok
            store["/b"] = [1]
            assert store.check().ok
        with kind(str(path), mode="r") as store:
            assert store.check().path == str(path)
            if kind is blosc2.TreeStore:
                assert store["/g"].check().path == str(path)  # of a part, all of it
            assert store["/g/raw"].check().ok
        with pytest.raises(ValueError, match="closed"):
            store.check()
    memory = blosc2.EmbedStore()
    fill(memory)
    assert memory.check().ok
    assert blosc2.asarray(NUMBERS).check().ok
    assert blosc2.SChunk(data=bytes(100)).check().ok
    path = tmp_path / "x.b2nd"
    x = blosc2.asarray(NUMBERS, urlpath=str(path), cparams={"clevel": 0})
    assert x.check().ok
    assert x.schunk.check().ok
    assert blosc2.squeeze(blosc2.open(str(path))).check().path == str(path)
    folder = os.getcwd()
    os.chdir(tmp_path)
    try:
        near = blosc2.asarray(NUMBERS, urlpath="near.b2nd")
    finally:
        os.chdir(folder)
    assert near.check().path == str(tmp_path / "near.b2nd")
    with open(path, "r+b") as file:
        file.seek(-200, os.SEEK_END)
        file.write(bytes(8))
    assert not x.check().ok


def test_a_damaged_leaf_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    archive(path)
    with blosc2.TreeStore(str(path), mode="r") as store:
        offset, length = store.member_window("/g/raw")
    with open(path, "r+b") as file:
        file.seek(offset + 20)
        file.write(b"\xff\xff")
    with blosc2.TreeStore(str(path), mode="r") as store:
        report = store.check()
    assert {one.key for one in report} == {"/g/raw", None}
    offsets = [one.offset for one in report if one.key]
    assert offsets
    assert all(at is not None and offset <= at < offset + length for at in offsets)


def test_the_report(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array(path)
    report = blosc2.check(os.fsencode(path))
    assert report.ok
    assert not report
    assert list(report) == []
    assert repr(report) == str(report) == f"<CheckReport {path}: ok>"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    report = blosc2.check(path)
    assert report
    assert not report.ok
    assert len(report) == len(report.findings) == 1
    finding = report[0]
    assert (finding.path, finding.key, finding.kind) == (str(path), None, "damage")
    assert finding.offset is not None
    assert finding.offset <= 200
    assert report[:] == report.findings
    assert str(finding) in repr(report)
    assert repr(report).startswith(f"<CheckReport {path}: 1 finding>")
    with pytest.raises(AttributeError):
        finding.key = "/x"  # type: ignore[misc]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.b2d"
    archive(path)
    (path / "a.b2nd").unlink()
    (path / "a.b2nd").symlink_to(tmp_path / "elsewhere")
    assert blosc2.check(path) is not None
    if os.name == "posix" and os.geteuid() != 0:
        (path / "g" / "raw.b2nd").chmod(0)
        assert "/g/raw" in [one.key for one in blosc2.check(path)]


def test_progress(tmp_path: Path) -> None:
    for name, make in FILES.items():
        path = tmp_path / name
        make(path)
        calls: list[tuple[int, int]] = []
        blosc2.check(path, progress=lambda *call: calls.append(call))  # noqa: B023 - called in this round only
        assert calls[-1][0] == calls[-1][1] > 0, name
        assert all(0 <= done <= total for done, total in calls)
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        blosc2.check(tmp_path / "array.b2nd", progress=stop)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.b2nd"
    array(path)
    assert main(["check", str(path)]) == 0
    assert "ok" in capsys.readouterr().out
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    assert main(["check", str(path), str(manifest.ROOT / "stores" / "embed_raw.b2e")]) == 1
    assert f"damage: {path}" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err
    path.write_bytes(struct.pack("<Q", 0))
    done = subprocess.run([sys.executable, "-m", "blosc2", "check", str(path)], capture_output=True, check=False)
    assert done.returncode == 1


def test_the_repr_of_a_report_is_bounded() -> None:
    found = tuple(Finding("s.b2d", f"/leaf{n}", n, "it is damaged", "damage") for n in range(40))
    report = CheckReport("s.b2d", found)
    assert len(str(report).splitlines()) == 41
    assert repr(report).splitlines()[:11] == str(report).splitlines()[:11]
    assert repr(report).splitlines()[11:] == ["  ... and 30 more: print() shows all"]


def test_a_folder_that_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is damaged, and nothing was looked at."""
    archive(tmp_path / "whole.b2z")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(blosc2.FormatError, match=r"the folder is no store, as it has no embed\.b2e: check the files"):
        blosc2.check(tmp_path)
    assert main(["check", str(tmp_path)]) == 2
    assert "damage" not in "".join(capsys.readouterr())
    store = tmp_path / "s.b2d"
    with blosc2.TreeStore(str(store), mode="w") as made:
        fill(made)
    (store / "embed.b2e").unlink()
    assert "blosc2.salvage makes one" in blosc2.check(store)[0].problem


# ------------------------------------------------------------------ permissions
@pytest.fixture
def guarded() -> Iterator[Path]:
    """A folder that anybody may enter; meanwhile this process is not root, who may read everything."""
    is_root = os.geteuid() == 0
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        for store in ("s.b2z", "s.b2d"):
            with blosc2.TreeStore(os.path.join(name, store), mode="w") as made:
                fill(made)
        if is_root:
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if is_root:
                os.seteuid(0)
            for path in ("s.b2d/g", "s.b2d"):
                os.chmod(os.path.join(name, path), 0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
@pytest.mark.parametrize("path", ["s.b2z", "s.b2d", "s.b2d/g", "s.b2d/a.b2nd", "s.b2d/embed.b2e"])
def test_what_may_not_be_read_is_not_damaged(guarded: Path, path: str, capfd: pytest.CaptureFixture[str]) -> None:
    euid = os.geteuid()
    os.seteuid(os.getuid())
    os.chmod(guarded / path, 0)
    os.seteuid(euid)
    store = str(guarded / path.partition("/")[0])
    with pytest.raises(PermissionError, match=f"Permission denied: '{guarded / path}"):
        blosc2.check(store)
    assert main(["check", store]) == 2
    assert "damage" not in "".join(capfd.readouterr())
    if "/" not in path:
        with pytest.raises(PermissionError, match="no permission to write here: it may not be read either"):
            blosc2.open(store, mode="a")
