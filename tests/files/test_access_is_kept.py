"""A file that is replaced keeps its owner, group and permissions, as one that is changed in place does."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._files.owner import Owner
from blosc2._tools.stores import beside

USER, GROUP = 1234, 4321
MODE = 0o640
Access = tuple[int, int, int]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners are those of POSIX")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files to others"
)


def access_of(path: Path) -> Access:
    status = path.stat()
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


def files_of(path: Path) -> list[Path]:
    return [file for file in sorted(path.rglob("*")) if file.is_file()] if path.is_dir() else [path]


def values(start: int = 0) -> Any:
    return np.random.default_rng(start).integers(0, 1 << 40, 4000)


def array(path: Path) -> None:
    blosc2.asarray(values(), urlpath=str(path), mode="w", chunks=(500,), blocks=(100,))


def store(path: Path) -> None:
    kind = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.DictStore
    with kind(str(path), mode="w") as made:
        for number in range(3):
            made[f"/g/k{number}"] = values(number)
        made["/small"] = np.arange(3)
        made["/other"] = np.arange(4)


def saved(path: Path) -> None:
    blosc2.asarray(values(1)).save(str(path), mode="w")


def copied(path: Path) -> None:
    blosc2.asarray(values(1)).copy(urlpath=str(path), mode="w")


def as_super_chunk(path: Path) -> None:
    blosc2.SChunk(data=values(1).tobytes(), urlpath=str(path), mode="w")


def stored_anew(path: Path) -> None:
    kind = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.DictStore
    with kind(str(path), mode="w") as made:
        made["/g/k1"] = values(7)


def compacted(path: Path) -> None:
    kind = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.DictStore
    with kind(str(path), mode="a") as made:
        del made["/other"]
        made["/g/k0"][:2000] = 5
        made.flush()
        made.compact()


def assigned(path: Path) -> None:
    with blosc2.DictStore(str(path), mode="a") as made:
        made["/g/k0"] = values(5)


def assigned_in_a_transaction(path: Path) -> None:
    with blosc2.DictStore(str(path), mode="a") as made, made.transaction():
        made["/g/k0"] = values(5)
        made["/g/k1"] = values(6)


def converted(path: Path) -> None:
    with beside(str(path), overwrite=True) as partial:
        array(Path(partial))


CHANGES: list[tuple[Callable[[Path], None], str, Callable[[Path], None]]] = [
    (array, "a.b2nd", saved),
    (array, "a.b2nd", copied),
    (array, "a.b2nd", as_super_chunk),
    (array, "a.b2nd", converted),
    *((store, f"s.{kind}", change) for kind in ("b2z", "b2d", "b2e") for change in (stored_anew, compacted)),
    (store, "s.b2d", assigned),
    (store, "s.b2d", assigned_in_a_transaction),
]  # fmt: skip


@pytest.fixture(params=CHANGES, ids=lambda change: f"{change[1]}-{change[2].__name__}")
def change(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Callable[[Path], None]]:
    make, name, act = request.param
    make(tmp_path / name)
    return tmp_path / name, act


def replaced(path: Path, act: Callable[[Path], None]) -> dict[Path, Access]:
    """Change what is at a path, and give the access of the files of the same names after it, of which some are new."""
    before = {file: file.stat().st_ino for file in files_of(path)}
    kept = {file: os.open(file, os.O_RDONLY) for file in before}  # so that no new file gets their numbers
    try:
        act(path)
        after = {file: access_of(file) for file in files_of(path) if file in before}
        assert any(file.stat().st_ino != before[file] for file in after)
        return after
    finally:
        for descriptor in kept.values():
            os.close(descriptor)


@needs_root
def test_owner_group_and_mode_stay(change: tuple[Path, Callable[[Path], None]]) -> None:
    path, act = change
    for file in files_of(path):
        os.chown(file, USER, GROUP)
        file.chmod(MODE)
    assert set(replaced(path, act).values()) == {(USER, GROUP, MODE)}


def test_the_mode_stays(change: tuple[Path, Callable[[Path], None]]) -> None:
    path, act = change
    for file in files_of(path):
        file.chmod(0o600)
    assert {mode for _, _, mode in replaced(path, act).values()} == {0o600}


@needs_root
def test_the_target_of_a_link(tmp_path: Path) -> None:
    array(tmp_path / "target.b2nd")
    os.chown(tmp_path / "target.b2nd", USER, GROUP)
    (tmp_path / "a.b2nd").symlink_to("target.b2nd")
    saved(tmp_path / "a.b2nd")
    assert (tmp_path / "a.b2nd").is_symlink()
    assert access_of(tmp_path / "target.b2nd")[:2] == (USER, GROUP)


@needs_root
def test_an_empty_folder_that_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "s.b2d"
    path.mkdir()
    os.chown(path, USER, GROUP)
    path.chmod(0o2770)
    store(path)
    assert access_of(path) == (USER, GROUP, 0o2770)


@needs_root
def test_a_directory_that_is_converted_to(tmp_path: Path) -> None:
    path = tmp_path / "s.b2d"
    store(path)
    os.chown(path, USER, GROUP)
    path.chmod(0o750)
    with beside(str(path), overwrite=True) as partial:
        store(Path(partial))
    assert access_of(path) == (USER, GROUP, 0o750)


def test_what_others_may_not_is_not_theirs_by_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may not give files away gives the group at least; the rest is no error."""
    path, new = tmp_path / "a", tmp_path / "new"
    path.write_bytes(b"old")
    path.chmod(0o4660)
    real = os.lstat(path)
    given = []

    def lstat(name: Any, **how: Any) -> os.stat_result:
        status = stat_of(name, **how)
        return (
            os.stat_result((*status[:4], real.st_uid + 1, real.st_gid + 1, *status[6:]))
            if str(name) == str(path)
            else status
        )

    def fchown(_: int, user: int, group: int) -> None:
        given.append((user, group))
        if user != -1:
            raise PermissionError(1, "Operation not permitted")

    stat_of = os.lstat
    new.write_bytes(b"new")
    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", lstat)
        patched.setattr(os, "fchown", fchown)
        Owner().replace(str(new), str(path))
    assert given == [(real.st_uid + 1, real.st_gid + 1), (-1, real.st_gid + 1)]
    assert path.read_bytes() == b"new"
    assert access_of(path)[2] == 0o660
    # Where not even the group can be given, the one that it has may do what all others may.
    new.write_bytes(b"newer")
    path.chmod(0o664)

    def refused(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", lstat)
        patched.setattr(os, "fchown", refused)
        Owner().replace(str(new), str(path))
    assert access_of(path)[2] == 0o644


def test_a_file_with_two_names_keeps_its_mode(tmp_path: Path) -> None:
    """A leaf that gets the key of another one is the file that it was."""
    path = tmp_path / "s.b2d"
    store(path)
    (path / "g" / "k0.b2nd").chmod(0o600)
    (path / "g" / "k1.b2nd").chmod(0o640)
    with blosc2.TreeStore(str(path), mode="a") as tree, tree.transaction():
        del tree["/g/k1"]
        tree.rename("/g/k0", "/g/k1")
    assert access_of(path / "g" / "k1.b2nd")[2] == 0o600


# ------------------------------------------------------------------ locks that several users share
SHARED = 0o664


def change_in_turn(path: Path) -> None:
    kind = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.DictStore
    with kind(str(path), mode="a", locking=True) as made:
        made["/new"] = np.arange(5)


def lock_of(path: Path) -> Path:
    return path / "embed.b2e.b2lock" if path.is_dir() else path.with_name(f"{path.name}.b2lock")


@pytest.mark.parametrize("name", ["x.b2z", "x.b2e", "x.b2d"])
def test_who_may_write_a_store_may_lock_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    store(path)
    for file in files_of(path):
        file.chmod(SHARED)
    before = os.umask(0o022)
    try:
        change_in_turn(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(lock_of(path).stat().st_mode) == SHARED


def test_an_array_has_such_a_lock_too(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array(path)
    path.chmod(0o660)
    blosc2.open(str(path), mode="a", locking=True)[0] = 1
    assert stat.S_IMODE(lock_of(path).stat().st_mode) == 0o660


@needs_root
def test_a_lock_belongs_to_whom_the_store_belongs_to(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    store(path)
    os.chown(path, USER, GROUP)
    path.chmod(MODE)
    change_in_turn(path)
    assert access_of(lock_of(path)) == (USER, GROUP, MODE)


@needs_root
@pytest.mark.parametrize("is_there", [True, False])
def test_a_lock_that_is_refused_says_what_to_do(is_there: bool) -> None:
    folder = Path(tempfile.mkdtemp())  # which others reach, unlike those of pytest
    path = folder / "x.b2z"
    store(path)
    if is_there:
        change_in_turn(path)
        lock_of(path).chmod(0o644)
    path.chmod(0o666)
    folder.chmod(0o755)
    what = r"\(chmod g\+w\), or delete it" if is_there else "permission to write the folder"
    os.seteuid(USER)
    try:
        with pytest.raises(PermissionError, match=f"locking=True lock this file, .*{what}") as caught:
            change_in_turn(path)
        assert caught.value.filename == str(lock_of(path))
    finally:
        os.seteuid(0)
        shutil.rmtree(folder)
