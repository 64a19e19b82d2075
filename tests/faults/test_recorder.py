"""The recorder sees every change: what it wrote down, done again, gives the same files, byte for byte."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fixture_kit.isolated import environment

from faults.array_stories import ArrayStory
from faults.disk import Tree
from faults.recorder import Fault, Recorder, Stopped
from faults.scenarios import Play
from faults.stories import stories

STORIES = stories()


def replayed(recorder: Recorder) -> Tree:
    tree = recorder.start.copy()
    for op in recorder.ops:
        tree.apply(op)
    return tree


def assert_complete(recorder: Recorder, root: Path) -> None:
    found = {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in sorted(root.rglob("*"))
    }
    assert replayed(recorder).content() == found == recorder.tree.content()


@pytest.mark.parametrize("name", STORIES)
def test_every_change_of_a_store_is_seen(name: str, tmp_path: Path) -> None:
    story = STORIES[name]
    with Recorder(tmp_path) as recorder:
        play = Play(story.kind, tmp_path, lambda: len(recorder.ops))
        for step in story.steps:
            step(play)
        if isinstance(story, ArrayStory):
            play.publish(play.now, play.handle.flush)
        play.handle = None
    assert_complete(recorder, tmp_path)
    assert (tmp_path / story.kind.name).exists()
    story.kind.check(story.kind.observe(tmp_path), [play.now])
    # And what the model believes is published is what another reader finds at each moment between.
    assert play.legal(len(recorder.ops)) == [play.now]


def _by_descriptor(root: Path) -> None:
    descriptor = os.open(root / "a", os.O_RDWR | os.O_CREAT)
    os.write(descriptor, b"0123456789" * 200)
    os.write(descriptor, b"more")
    os.pwrite(descriptor, b"xyz", 5000)
    os.writev(descriptor, [b"in ", b"pieces"])
    os.ftruncate(descriptor, 4990)
    os.lseek(descriptor, 3, os.SEEK_SET)
    os.write(descriptor, b"!")
    os.fsync(descriptor)
    os.fdatasync(descriptor)
    os.close(descriptor)
    os.truncate(root / "a", 3000)
    descriptor = os.open(root / "a", os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, b"at the end")
    os.close(descriptor)


def _by_open(root: Path) -> None:
    with open(root / "b", "wb") as file:
        file.write(b"header" * 10)
        file.seek(20_000)
        file.write(b"far")
        file.seek(2)
        file.write(b"back")
        file.truncate(10_000)
    with open(root / "b", "r+b", buffering=0) as raw:
        raw.seek(5)
        raw.write(b"raw")
        raw.truncate(50)
    with open(root / "b", "ab") as file:
        file.write(b"appended")
    with open(root / "text", "w", encoding="utf-8") as text:
        text.write("ünï\n" * 5000)
    with os.fdopen(os.open(root / "c", os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb", buffering=0) as raw:
        raw.write(b"by descriptor")
    (root / "p").write_bytes(b"by path")
    with open(root / "b", "w"):
        pass


def _names(root: Path) -> None:
    (root / "one").write_bytes(b"1")
    os.link(root / "one", root / "two")
    (root / "two").write_bytes(b"both")
    os.rename(root / "one", root / "three")
    os.makedirs(root / "d" / "e" / "f")
    os.replace(root / "three", root / "d" / "three")
    (root / "d" / "e" / "x").write_bytes(b"x")
    os.rename(root / "d" / "e", root / "moved")
    (root / "moved" / "f" / "y").write_bytes(b"y")
    os.unlink(root / "two")
    os.chmod(root / "moved" / "x", 0o600)
    (root / "start" / "old").unlink()


def _tools(root: Path) -> None:
    folder = tempfile.mkdtemp(dir=root)
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(b"gone soon")
    with tempfile.TemporaryFile(dir=root) as file:
        file.write(b"nameless")
    (root / "source").write_bytes(b"copied" * 5000)
    shutil.copyfile(root / "source", Path(folder) / "copy")
    shutil.copytree(folder, root / "tree")
    shutil.move(root / "tree" / "copy", root / "taken")
    shutil.rmtree(folder)
    with open(root / "source", "rb") as source, open(root / "sent", "wb") as sent:
        if hasattr(os, "copy_file_range"):
            os.copy_file_range(source.fileno(), sent.fileno(), 1000, 7, 2000)
        if sys.platform == "linux":
            os.sendfile(sent.fileno(), source.fileno(), 10, 500)


@pytest.mark.parametrize("change", [_by_descriptor, _by_open, _names, _tools])
@pytest.mark.skipif(os.name == "nt", reason="calls of POSIX")
def test_every_way_to_change_files_is_seen(change: Callable[[Path], None], tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "start").mkdir(parents=True)
    (root / "start" / "old").write_bytes(b"was there")
    outside = tmp_path / "outside"
    with Recorder(root) as recorder:
        change(root)
        outside.write_bytes(b"not of interest")
        os.sync()
    assert_complete(recorder, root)
    assert recorder.count >= len(recorder.ops) > 5
    assert recorder.ops[-1].kind == "sync"
    (root / "after").write_bytes(b"not seen any more")
    assert "after" not in recorder.tree.content()


# ------------------------------------------------------------------------------------------------------------ faults
def _three_writes(root: Path) -> list[str]:
    """Writes, and what each said."""
    said = []
    for name in ("a", "b", "c"):
        try:
            descriptor = os.open(root / name, os.O_WRONLY | os.O_CREAT)
        except OSError as error:
            said.append(errno.errorcode[error.errno or 0])
            continue
        try:
            said.append(str(os.write(descriptor, b"0123456789")))
        except OSError as error:
            said.append(errno.errorcode[error.errno or 0])
        finally:
            os.close(descriptor)
    return said


@pytest.mark.parametrize(
    ("fault", "said", "content"),
    [
        ("eio", ["10", "EIO", "10"], {"a": 10, "b": 0, "c": 10}),
        ("eio_late", ["10", "EIO", "10"], {"a": 10, "b": 10, "c": 10}),
        ("eio_on", ["10", "EIO", "EIO"], {"a": 10, "b": 0}),
        ("enospc", ["10", "ENOSPC", "ENOSPC"], {"a": 10, "b": 5}),
        ("short", ["10", "5", "10"], {"a": 10, "b": 5, "c": 10}),
    ],
)
def test_a_fault_befalls_one_call(fault: Fault, said: list[str], content: dict[str, int], tmp_path: Path) -> None:
    with Recorder(tmp_path, fault, 4) as recorder:
        assert _three_writes(tmp_path) == said
        assert recorder.struck == "write 10 at 0"
        recorder.mend()
        (tmp_path / "later").write_bytes(b"12")
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {**content, "later": 2}
    assert_complete(recorder, tmp_path)


def test_a_stopped_program_changes_nothing_more(tmp_path: Path) -> None:
    with Recorder(tmp_path, "stop", 4) as recorder:
        with pytest.raises(Stopped):
            _three_writes(tmp_path)
        for call in (lambda: os.mkdir(tmp_path / "d"), lambda: os.unlink(tmp_path / "a"), os.sync):
            with pytest.raises(Stopped):
                call()
        recorder.bury()
        os.unlink(tmp_path / "a")
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {"a": 10, "b": 0}
    assert_complete(recorder, tmp_path)


def test_a_fault_that_is_not_reached(tmp_path: Path) -> None:
    with Recorder(tmp_path, "eio", 7) as recorder:
        assert _three_writes(tmp_path) == ["10", "10", "10"]
    assert recorder.struck == ""
    assert recorder.count == 6


def test_all_is_as_before_afterwards(tmp_path: Path) -> None:
    before = dict(vars(os)), open
    with pytest.raises(ZeroDivisionError), Recorder(tmp_path):
        assert os.write is not before[0]["write"]
        _ = 1 / 0
    assert (dict(vars(os)), open) == before


# ------------------------------------------------------------------------------------------------ against the kernel
_PROGRAM = """
import sys
from faults.stories import stories
from faults.scenarios import Play
story = stories()[sys.argv[1]]
play = Play(story.kind, sys.argv[2])
for step in story.steps:
    step(play)
play.handle = None
"""
_TRACED = (
    "write pwrite64 writev pwritev ftruncate truncate rename renameat renameat2 link linkat unlink unlinkat mkdir "
    "mkdirat rmdir fsync fdatasync sync copy_file_range sendfile fallocate"
).replace(" ", ",")


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("name", ["embed", "tree b2d tiers, upkeep"])
def test_the_kernel_sees_the_same_calls(name: str, tmp_path: Path) -> None:
    """Nothing that changes files goes past the recorder: the system itself counts as many calls."""
    story = STORIES[name]
    seen, traced = tmp_path / "seen", tmp_path / "traced"
    seen.mkdir()
    traced.mkdir()
    log = tmp_path / "log"
    done = subprocess.run(
        ["strace", "-f", "-y", "-s", "0", "-o", str(log), "-e", f"trace={_TRACED}",
         sys.executable, "-c", _PROGRAM, name, str(traced)], env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    if "ptrace" in done.stderr.lower() and done.returncode:
        pytest.skip("strace is not allowed here")
    assert done.returncode == 0, done.stderr
    with Recorder(seen) as recorder:
        play = Play(story.kind, seen, lambda: len(recorder.ops))
        for step in story.steps:
            step(play)
        play.handle = None
    calls = [
        line for line in log.read_text().splitlines()
        if (str(traced) in line or " sync(" in line) and " = -1 " not in line
    ]  # fmt: skip
    # Creating and emptying a file is one `open`, which is not among the calls that were traced.
    mine = [op for op in recorder.ops if op.kind not in ("create", "chmod")]
    assert len(calls) == len(mine), "\n".join([*calls, *map(str, mine)])
