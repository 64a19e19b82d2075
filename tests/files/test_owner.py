"""`Owner`, through which all files are changed: nothing bypasses it, and a forked child is refused."""

from __future__ import annotations

import ast
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixture_kit.forks import in_child

import blosc2
from blosc2._core.io.sharing import keep_from_child
from blosc2._files.atomic_file import NewFile
from blosc2._files.owner import Descriptor, Owner

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

CHANGES = {
    "replace", "rename", "renames", "unlink", "remove", "removedirs", "rmdir", "mkdir", "makedirs", "link", "symlink",
    "truncate", "ftruncate", "chmod", "fchmod", "chown", "utime", "mkfifo", "posix_fallocate", "copy_file_range",
}  # fmt: skip
#: What changes files without an owner, and why that may be.
EXCEPT = {
    ("core", "remove_urlpath"),  # a caller's own order
    ("_backends.zip.backend", "begin_append"),  # its descriptor is kept from children, and the owner is asked first
    ("_backends.zip.backend", "_cut"),  # the same
    ("_backends.zip.backend", "cut_tail"),  # when a store is opened
    ("_files.sync", "sync_file"),  # changes nothing
    ("_files.locks", "_open_for_writing"),  # a lock file
    ("_files.identity", "check_writable_file"),  # changes nothing
    ("_files.copies", "_copy_by_system"),  # to a file that an owner has opened
    ("_files.copies", "add"),  # a file without a name; the owner is asked first
    # Blocks of servers on disk: files of their own that appear whole, which a forked child may write and remove, too.
    ("_files.remote.pieces", "__init__"),
    ("_files.remote.pieces", "write"),
    ("_files.remote.pieces", "_forget"),
    ("_files.remote.pieces", "_make_room"),
    ("_core.io.small_file", "read_small"),  # with flags of a reader
    ("_tools.cli.checking", "_here"),  # a temporary file of the command
    ("_tools.converting.images", "_items"),  # asks how much room there is
}


def _calls(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.Call]]:
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef) else function
        if isinstance(node, ast.Call):
            yield inside, node
        yield from _calls(node, inside)


def _changes_files(call: ast.Call) -> bool:
    what = ast.unparse(call.func)
    arguments = " ".join(ast.unparse(one) for one in [*call.args, *(keyword.value for keyword in call.keywords)])
    if what == "open":
        return any(
            isinstance(one, ast.Constant) and isinstance(one.value, str) and set(one.value) & set("wxa+")
            for one in call.args[1:]
        )
    if what in ("os.open", "os.fdopen"):
        return "flags" in arguments.split() or any(f"O_{kind}" in arguments for kind in ("RDWR", "WRONLY", "CREAT"))
    module, _, name = what.rpartition(".")
    return module == "shutil" or (module == "os" and name in CHANGES)


def test_nothing_else_changes_files() -> None:
    found = set()
    package = Path(blosc2.__file__).parent
    for path in package.rglob("*.py"):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        for function, call in _calls(ast.parse(path.read_text())):
            if module != "_files.owner" and not module.startswith("demo.") and _changes_files(call):
                found.add((module, function))
    assert found <= EXCEPT, "these go past `Owner`: its methods do the same, and nothing in a forked child"
    assert found >= EXCEPT, "these are gone"


def test_a_child_gets_nothing_through(tmp_path: Path) -> None:
    owner = Owner()
    there, other = str(tmp_path / "there"), str(tmp_path / "other")
    Path(there).write_bytes(b"x")

    def attempt() -> None:
        for call in (
            lambda: owner.open(other, "xb"), lambda: owner.open_raw(there, "r+b"), lambda: owner.replace(there, other),
            lambda: owner.rename(there, other), lambda: owner.link(there, other), lambda: owner.unlink(there),
            lambda: owner.chmod(there, 0o600), lambda: owner.utime(there), lambda: owner.mkdir(other),
            lambda: owner.makedirs(other), lambda: owner.rmdir(str(tmp_path)), lambda: owner.copy(there, other),
        ):  # fmt: skip
            with pytest.raises(blosc2.StoreLockedError, match=f"process {os.getppid()}"):
                call()
        owner.remove_tree(str(tmp_path))
        Owner().chmod(there, os.stat(there).st_mode & 0o777)  # what it begins itself it may end

    before = os.stat(there)
    in_child(attempt)
    assert os.listdir(tmp_path) == ["there"]
    assert (os.stat(there).st_mode, os.stat(there).st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


@pytest.mark.parametrize("buffered", [True, False])
def test_what_a_child_writes_to_a_file_of_its_parent_leads_nowhere(buffered: bool, tmp_path: Path) -> None:
    new = NewFile(str(tmp_path / "x"), replace=False, buffered=buffered)
    new.file.write(b"one ")

    def write() -> None:
        new.file.write(b"nothing")
        new.file.flush()
        os.pwrite(new.file.fileno(), b"nothing", 0)
        with pytest.raises(blosc2.StoreLockedError):
            new.commit()
        new.abandon()

    in_child(write)
    in_child(lambda: in_child(write))
    new.file.write(b"two")
    new.commit()
    assert (tmp_path / "x").read_bytes() == b"one two"
    assert os.listdir(tmp_path) == ["x"]


def test_closed_files_and_others_of_their_number_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    closed = keep_from_child(open(path, "r+b"))  # noqa: SIM115
    number = closed.fileno()
    closed.close()
    gone = Descriptor(os.open(path, os.O_RDONLY))
    gone.close()
    gone.close()
    other = os.open(path, os.O_RDWR)
    assert other == number

    def write() -> None:
        with pytest.raises(ValueError):
            gone.fileno()
        os.write(other, b"abc")

    in_child(write)
    os.close(other)
    assert path.read_bytes() == b"abc45"


def test_a_child_without_room_for_descriptors_cuts_itself_off_all_the_same(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "x"
    file = keep_from_child(io.FileIO(path, "w"))
    held: list[int] = []
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def write() -> None:
        file.write(b"nothing")

    # Descriptors are given out from the lowest, so that one tells how many are in use at least.
    resource.setrlimit(resource.RLIMIT_NOFILE, (file.fileno() + 200, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many"):
            while True:
                held.append(os.dup(0))
        os.close(held.pop())
        os.close(held.pop())  # for the pipe by which the child tells
        in_child(write)
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    file.close()
    assert path.read_bytes() == b""


def test_spilled_keys_are_kept_from_a_child(tmp_path: Path) -> None:
    """What is sorted in a temporary file has one position, and one end, with the copy of a child."""
    from blosc2._core.zip.archive_writer import SortedRuns

    def filled() -> Any:
        runs: Any = SortedRuns(str(tmp_path), 1 << 16)
        for n in range(2000):
            runs.add_bytes(f"{n * 7919 % 2000:05}".encode(), b"x" * 60)
        return runs

    runs = filled()

    def more() -> None:
        with pytest.raises(OSError):
            for n in range(2000):
                runs.add_bytes(f"{n:06}".encode(), b"y" * 60)
            list(runs)

    assert runs.runs
    in_child(more)
    assert [key for key, _ in runs] == [f"{n:05}".encode() for n in range(2000)]


def test_folders_in_folders(tmp_path: Path) -> None:
    """As many as a path may have: more than functions may call themselves."""
    owner, deep = Owner(), os.path.join(str(tmp_path), *["a"] * 1500)
    owner.makedirs(deep)
    owner.makedirs(deep)
    (Path(deep) / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        owner.makedirs(os.path.join(deep, "file"))
    with pytest.raises(NotADirectoryError):
        owner.makedirs(os.path.join(deep, "file", "below"))
    with pytest.raises(OSError, match="too long"):
        owner.makedirs(os.path.join(str(tmp_path), "b" * 300, "c"))
    with pytest.raises(OSError, match="too long"):
        owner.makedirs(os.path.join(str(tmp_path), *["d"] * 30_000))
    os.symlink(deep, tmp_path / "a" / "link")
    (tmp_path / "kept").write_bytes(b"")
    owner.remove_tree(str(tmp_path / "a"), strict=True)
    assert os.listdir(tmp_path) == ["kept"]
    with pytest.raises(FileNotFoundError):
        owner.remove_tree(str(tmp_path / "a"), strict=True)
    owner.remove_tree(str(tmp_path / "a"))


@pytest.mark.parametrize("act", ["open", "mkdir", "makedirs", "rename", "replace", "copy"])
def test_errors_name_the_place_and_no_temporary_file(tmp_path: Path, act: str) -> None:
    owner, gone = Owner(), str(tmp_path / "gone")
    temporary, place = os.path.join(gone, ".x.b2nd.0123abcd.tmp"), os.path.join(gone, "x.b2nd")
    other = tmp_path / "other"
    other.write_bytes(b"1")
    acts = {
        "open": lambda: owner.open(temporary, "xb"),
        "mkdir": lambda: owner.mkdir(temporary),
        "makedirs": lambda: owner.makedirs(str(other / ".x.b2d.0123abcd.tmp")),
        "rename": lambda: owner.rename(temporary, place),
        "replace": lambda: owner.replace(temporary, place, keeps_access=False),
        "copy": lambda: owner.copy(str(other), temporary),
    }
    with pytest.raises(OSError, match=r"x\.b2") as caught:
        acts[act]()
    assert ".tmp" not in str(caught.value)
    assert "->" not in str(caught.value)
