"""The simulated disk: what a crash may leave of a few changes, told by hand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from faults.disk import ROOT, SECTOR, Disk, Model, Op, Tree

FILE, FOLDER = 1, 2


def left(model: Model, *ops: Op, start: Tree | None = None) -> set[tuple[tuple[str, bytes | None], ...]]:
    """All that may be there after some changes."""
    disk = Disk(model, (start or Tree()).copy())
    for op in ops:
        disk.take(op)
    trees = disk.crash_states(random.Random(0), 10, 100)
    return {tuple(sorted(tree.content().items())) for tree in trees}


def created(name: str = "f", node: int = FILE, folder: int = ROOT) -> Op:
    return Op("create", node, (folder, name))


def written(data: bytes, offset: int = 0, node: int = FILE) -> Op:
    return Op("write", node, offset=offset, data=data)


def files(**content: bytes | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(sorted(content.items()))


NOTHING = files()
SYNC_FILE, SYNC_ROOT = Op("fsync", FILE), Op("fsync", ROOT)


@pytest.mark.parametrize("model", ["ext4", "free"])
def test_nothing_is_certain_without_a_sync(model: Model) -> None:
    found = left(model, created(), written(b"abc"))
    assert found == {NOTHING, files(f=b""), files(f=b"\0\0\0"), files(f=b"abc")}


def test_a_synced_file_may_lack_its_name() -> None:
    ops = created(), written(b"abc"), SYNC_FILE
    assert left("free", *ops) == {NOTHING, files(f=b"abc")}
    assert left("ext4", *ops) == {files(f=b"abc")}
    assert left("free", *ops, SYNC_ROOT) == {files(f=b"abc")}


@pytest.mark.parametrize("model", ["ext4", "free"])
def test_a_synced_name_says_nothing_of_the_data(model: Model) -> None:
    assert left(model, created(), written(b"abc"), SYNC_ROOT) == {files(f=b""), files(f=b"\0\0\0"), files(f=b"abc")}


@pytest.mark.parametrize("model", ["ext4", "free"])
def test_a_sync_of_all(model: Model) -> None:
    assert left(model, created(), written(b"abc"), Op("sync"), written(b"d", 3)) == {
        files(f=b"abc"), files(f=b"abc\0"), files(f=b"abcd"),
    }  # fmt: skip


def base() -> Tree:
    """A file with content, and an empty directory."""
    tree = Tree()
    for op in (created(), written(b"old!" * 400), Op("mkdir", FOLDER, (ROOT, "d"))):
        tree.apply(op)
    return tree


def test_writes_come_in_any_order_and_in_parts() -> None:
    found = left("free", written(b"A", 0), written(b"B", 1599), start=base())
    old = b"old!" * 400
    assert {dict(state)["f"] for state in found} == {old, b"A" + old[1:], old[:-1] + b"B", b"A" + old[1:-1] + b"B"}


def test_a_write_is_split_at_sectors_only() -> None:
    found = left("free", written(b"N" * 1600, 0), start=base())
    old = b"old!" * 400
    heads = {b"N" * cut + old[cut:] for cut in (0, SECTOR, 2 * SECTOR, 3 * SECTOR, 1600)}
    tails = {old[:cut] + b"N" * (1600 - cut) for cut in (SECTOR, 2 * SECTOR, 3 * SECTOR)}
    assert {dict(state)["f"] for state in found} == heads | tails


def test_a_file_grows_without_its_data() -> None:
    found = left("free", written(b"N" * 600, 1600), start=base())
    old = b"old!" * 400
    # The file's new part lies in two sectors: 1600..2048 and 2048..2200.
    assert {dict(state)["f"][1600:] for state in found} == {
        b"", bytes(600), b"N" * 448, b"N" * 448 + bytes(152), bytes(448) + b"N" * 152, b"N" * 600,
    }  # fmt: skip
    assert all(dict(state)["f"][:1600] == old for state in found)


def test_a_truncation_may_come_before_an_earlier_write_is_there() -> None:
    found = left("free", written(b"x" * 10, 1600), Op("truncate", FILE, offset=4), start=base())
    assert {len(dict(state)["f"]) for state in found} == {4, 1600, 1610}
    assert left("free", written(b"x", 1600), Op("truncate", FILE, offset=4), SYNC_FILE, start=base()) == {
        files(f=b"old!", d=None)
    }


def test_renames_are_one_step_each_and_in_order_where_there_is_a_journal() -> None:
    ops = Op("rename", FILE, (ROOT, "f"), (FOLDER, "g")), created("h", 5), created("i", 6)
    start = base()
    names = {frozenset(dict(state)) for state in left("ext4", *ops, start=start)}
    assert names == {frozenset(n) for n in (("f", "d"), ("d", "d/g"), ("d", "d/g", "h"), ("d", "d/g", "h", "i"))}
    free = {frozenset(dict(state)) for state in left("free", *ops, start=start)}
    assert len(free) == 8  # each of the three, or not
    assert not any({"f", "d/g"} <= state for state in free)


def test_a_rename_is_certain_with_the_directory_that_it_leads_to() -> None:
    ops = Op("rename", FILE, (ROOT, "f"), (FOLDER, "g")), Op("fsync", FOLDER)
    assert {frozenset(dict(state)) for state in left("free", *ops, start=base())} == {frozenset(("d", "d/g"))}
    # Before, the other directory was of no help.
    assert len(left("free", ops[0], SYNC_ROOT, start=base())) == 2


def test_what_replaces_a_file_is_that_file_or_the_new_one() -> None:
    ops = created("new", 5), written(b"new", node=5), Op("fsync", 5), Op("rename", 5, (ROOT, "new"), (ROOT, "f"))
    for model in ("ext4", "free"):
        assert {dict(state)["f"] for state in left(model, *ops, start=base())} == {b"old!" * 400, b"new"}
    without = ops[0], ops[1], ops[3]
    for model in ("ext4", "free"):
        assert b"" in {dict(state)["f"] for state in left(model, *without, start=base())}


def test_a_lost_directory_takes_its_files_along() -> None:
    ops = Op("mkdir", 7, (ROOT, "sub")), created("x", 8, 7), Op("fsync", 8), Op("fsync", 7)
    assert {frozenset(dict(state)) for state in left("free", *ops)} == {frozenset(), frozenset(("sub", "sub/x"))}


def test_too_many_changes_are_sampled() -> None:
    ops = [created(f"f{n}", n + 10) for n in range(30)]
    disk = Disk("free", Tree())
    for op in ops:
        disk.take(op)
    states = {tree.digest() for tree in disk.crash_states(random.Random(1), 8, 40)}
    assert 40 < len(states) < 400


def test_trees_on_disk_and_back(tmp_path: Path) -> None:
    start = base()
    start.apply(Op("mkdir", 7, (FOLDER, "deeper")))
    start.apply(created("x", 8, 7))
    start.write_to(tmp_path)
    again, numbers = Tree.load(tmp_path)
    assert again.content() == start.content() == {"d": None, "d/deeper": None, "d/deeper/x": b"", "f": b"old!" * 400}
    assert again.digest() == start.digest()
    assert len(numbers) == 5
    again.apply(written(b"x", 0, numbers[(tmp_path / "f").stat().st_ino]))
    assert again.digest() != start.digest()


def test_a_copy_of_a_tree_is_its_own() -> None:
    tree = base()
    copy = tree.copy()
    copy.apply(written(b"changed"))
    copy.apply(created("more", 9))
    assert tree.content() == base().content()
    tree.apply(written(b"other"))
    assert dict(copy.content())["f"][:7] == b"changed"
