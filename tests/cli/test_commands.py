"""The commands of the command line, each over real files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import RAW, Answer, failing

import blosc2
from blosc2._tools.cli import main


# ------------------------------------------------------------------ looking
@pytest.mark.parametrize(("arguments", "lines"), [
    (["s.b2z"], ["age", "mri/"]),
    (["s.b2z/mri"], ["007/", "008/"]),
    (["s.b2z/mri/"], ["007/", "008/"]),
    (["s.b2z/mri/*"], ["/mri/007/", "/mri/008/"]),
    (["s.b2z/**/raw"], ["/mri/007/raw", "/mri/008/raw"]),
    (["s.b2z/m?i/00[8-9]/raw"], ["/mri/008/raw"]),
    (["s.b2z/age"], ["/age"]),
    (["-r", "s.b2z"], ["/age", "/mri/007/raw", "/mri/008/raw"]),
    (["d.b2d"], ["x/"]),
    (["d.b2d/x"], ["y"]),
    (["e.b2e"], ["z"]),
    (["a.b2nd"], ["a.b2nd"]),
    (["a.b2nd", "e.b2e"], ["a.b2nd", "e.b2e:", "z"]),
    (["d.b2d", "e.b2e"], ["d.b2d:", "x/", "e.b2e:", "z"]),
])  # fmt: skip
def test_ls(folder: Path, run: Answer, arguments: list[str], lines: list[str]) -> None:
    assert run("ls", *arguments).splitlines() == lines


def test_ls_long(folder: Path, run: Answer) -> None:
    lines = run("ls", "-l", "s.b2z", "a.b2nd").splitlines()
    assert [line.split()[0] for line in lines] == ["s.b2z:", "array", "group", "NDArray"]
    assert "(3,)" in lines[1]
    assert lines[1].endswith("  age")
    assert "2 leaves" in lines[2]
    assert [row["path"] for row in json.loads(run("ls", "--json", "d.b2d", "e.b2e"))] == ["d.b2d", "e.b2e"]
    rows = json.loads(run("ls", "--json", "-r", "s.b2z"))
    assert [(row["key"], row["shape"], row["dtype"], row["nbytes"]) for row in rows] == [
        ("/age", [3], "int64", 24), ("/mri/007/raw", [3, 4, 5], "float64", 480), ("/mri/008/raw", [5], "int16", 10),
    ]  # fmt: skip


def test_tree(folder: Path, run: Answer) -> None:
    lines = run("tree", "s.b2z").splitlines()
    assert [line.split("  ")[0] for line in lines[:3]] == ["/", "├── age", "└── mri/"]
    assert len(lines) == 7
    assert run("tree", "-d", "1", "s.b2z/mri").count("\n") == 3
    drawn = json.loads(run("tree", "--json", "s.b2z"))
    assert (drawn["leaves"], [child["name"] for child in drawn["children"]]) == (3, ["age", "mri"])
    assert "... 2 more leaves" in run("tree", "-n", "1", "s.b2z")


def test_each_group_that_is_cut_says_so(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._tools.cli.looking._MOST_LEAVES", 2)
    contents = json.loads(run("info", "--json", "s.b2z"))["contents"]
    assert ["more" in part for part in (contents, *contents["children"])] == [False, False, True]
    assert contents["children"][1]["more"] == "... 2 more leaves"
    with blosc2.TreeStore("flat.b2z", mode="w") as store:
        for name in "abc":
            store[f"/{name}"] = RAW
    assert json.loads(run("info", "--json", "flat.b2z"))["contents"]["more"] == "... 1 more leaf"


def test_info(folder: Path, run: Answer) -> None:
    assert "(3, 4, 5)" in run("info", "s.b2z/mri/007/raw")
    group = run("info", "s.b2z/mri")
    assert "unit: 'mm'" in group
    assert "TreeStore" in group
    assert json.loads(run("info", "--json", "s.b2z"))["attributes"] == {"who": "me"}
    for path in ("a.b2nd", "d.b2d", "e.b2e", "o.b2frame"):
        assert run("info", path)


def test_json_is_one_document(folder: Path, run: Answer) -> None:
    shapes = ["(3, 4, 5)", "(5,)"]
    for locations in (["s.b2z/mri/*/raw"], ["s.b2z/mri/007/raw", "s.b2z/mri/008/raw"]):
        assert [str(tuple(found["shape"])) for found in json.loads(run("info", "--json", *locations))] == shapes
    assert isinstance(json.loads(run("info", "--json", "s.b2z/mri/*7/raw")), dict)
    trees = json.loads(run("tree", "--json", "s.b2z/mri/*"))
    assert [(tree["name"], tree["leaves"]) for tree in trees] == [("/mri/007", 1), ("/mri/008", 1)]
    assert isinstance(json.loads(run("tree", "--json", "s.b2z/m*")), dict)
    assert "nothing is at" in failing(run, "info", "--json", "s.b2z/age", "s.b2z/none")


def test_stats(folder: Path, run: Answer) -> None:
    lines = run("stats", "s.b2z").splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [["group", "leaves"], ["/", "3"], ["/mri", "2"]]
    assert lines[-1].startswith("on disk: ")
    rows = json.loads(run("stats", "--json", "--by", "dtype", "-d", "0", "s.b2z"))
    assert {row["dtype"]: row["leaves"] for row in rows} == {"float64": 1, "int16": 1, "int64": 1}
    assert "EmbedStore" in failing(run, "stats", "e.b2e")


def test_cat(folder: Path, run: Answer) -> None:
    assert run("cat", "a.b2nd", "2:8:3") == "[2 5]\n"
    assert run("cat", "s.b2z/mri/007/raw", "0,:,-1") == f"{RAW[0, :, -1]}\n"
    assert run("cat", "s.b2z/mri/007/raw", "1, ..., 0:2", "-f", "csv").splitlines() == [
        ",".join(map(repr, row)) for row in RAW[1, ..., 0:2].tolist()
    ]
    run("cat", "s.b2z/mri/007/raw", "-f", "npy", "-o", "raw.npy")
    np.testing.assert_array_equal(np.load("raw.npy"), RAW)
    assert run("cat", "s.b2z/mri/*7/raw", "0,0") == f"{RAW[0, 0]}\n"
    for target in (os.devnull, "a.b2nd", "s.b2z", "d.b2d"):
        assert "exists; --force" in failing(run, "cat", "a.b2nd", "-f", "npy", "-o", target)
    assert "out of bounds" in failing(run, "cat", "a.b2nd", "99")
    assert "name one of its arrays" in failing(run, "cat", "s.b2z")
    assert "names 2 keys" in failing(run, "cat", "s.b2z/mri/*/raw")
    run("cat", "a.b2nd", "__import__('os')", code=2)
    assert "no integer, slice" in run.err
    run("cat", "s.b2z/mri/007/raw", "-f", "csv", code=2)
    assert "two axes" in run.err


def test_what_is_not_there_names_what_is_close(folder: Path, run: Answer) -> None:
    assert failing(run, "ls", "s.b2z/mir/007") == "s.b2z: nothing is at '/mir/007'; is it '/mri'?"
    assert failing(run, "cat", "s.b2z/mri/007/rwa").endswith("is it '/mri/007/raw'?")
    assert failing(run, "info", "s.b2z/nothing/*").endswith("nothing is at '/nothing/*'")
    assert failing(run, "ls", "none.b2z").startswith("none.b2z: ")
    assert "not a store" in failing(run, "ls", "a.b2nd/key")
    (folder / "text.txt").write_text("no array")
    assert "text.txt, byte 0: " in failing(run, "info", "text.txt")


@pytest.mark.parametrize(("source", "named"), [("a.b2nd", "a.b2nd"), ("s.b2z/age", "age.b2nd"), ("s.b2z", "s.b2z")])
def test_a_folder_that_is_no_store_takes_no_copies(folder: Path, run: Answer, source: str, named: str) -> None:
    (folder / "plain").mkdir()
    assert failing(run, "cp", source, "plain").endswith(f"such as plain/{named}")
    assert not os.listdir(folder / "plain")
    run("cp", source, f"plain/{named}")
    assert os.listdir(folder / "plain") == [named]


def test_check_goes_on_after_what_is_missing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "plain").mkdir()
    assert main(["check", "--json", "none.b2z", "plain", "a.b2nd"]) == 2
    out, err = capfd.readouterr()
    found = [(each["path"], each["ok"], each["findings"], "error" in each) for each in json.loads(out)]
    assert found == [("none.b2z", False, [], True), ("plain", False, [], True), ("a.b2nd", True, [], False)]
    assert err.startswith("blosc2 check: ")
    assert "none.b2z" in err


@pytest.mark.parametrize("target", ["new.b2e", "new.b2z", "new.b2d", "folder/new.b2e"])
@pytest.mark.parametrize("source", ["s.b2z/none", "damaged.b2nd"])
def test_a_copy_that_fails_leaves_no_new_store(folder: Path, run: Answer, source: str, target: str) -> None:
    (folder / "damaged.b2nd").write_bytes((folder / "a.b2nd").read_bytes()[:50])
    before = sorted(folder.rglob("*"))
    assert failing(run, "cp", source, target)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("command", ["recompress", "compact"])
def test_nothing_is_changed_if_a_location_is_missing(folder: Path, run: Answer, command: str) -> None:
    before = (folder / "s.b2z").read_bytes()
    assert "none.b2z" in failing(run, command, "s.b2z", "none.b2z")
    assert (folder / "s.b2z").read_bytes() == before


def test_backslashes_are_for_windows(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._tools.cli.locations import located

    if os.name != "nt":
        assert located(r"s.b2z\mri") == (r"s.b2z\mri", "")
        with monkeypatch.context() as windows:
            windows.setattr(os, "sep", "\\")
            windows.setattr(os, "altsep", "/")
            assert located(r"s.b2z\mri\00?\raw") == ("s.b2z", "/mri/00?/raw")
            assert located(r".\new.b2z\a/b") == ("./new.b2z", "/a/b")
        return
    assert run("ls", r"s.b2z\mri\007") == "raw\n"
    run("cp", "a.b2nd", "s.b2z\\mri\\")
    assert "a" in run("ls", r".\s.b2z\mri").splitlines()


# ------------------------------------------------------------------ changing
def test_cp_of_a_whole_store(folder: Path, run: Answer) -> None:
    for target in ("t.b2z", "t.b2d", "t.b2e"):
        run("cp", "s.b2z", target)
        assert "3 leaves copied" in run.err
        found = run("diff", "s.b2z", target, code=int(target == "t.b2e")).splitlines()
        assert found == (["/: attributes: who", "/mri: attributes: unit"] if target == "t.b2e" else [])
        with blosc2.open(target) as store:
            np.testing.assert_array_equal(store["/mri/007/raw"][:], RAW)


@pytest.mark.parametrize(("arguments", "keys"), [
    (["a.b2nd", "n.b2z"], ["/a"]),
    (["a.b2nd", "n.b2z/b"], ["/b"]),
    (["a.b2nd", "n.b2z/g/"], ["/g/a"]),
    (["s.b2z/age", "n.b2z"], ["/age"]),
    (["s.b2z/age", "n.b2z/years"], ["/years"]),
    (["s.b2z/mri", "n.b2z"], ["/mri/007/raw", "/mri/008/raw"]),
    (["s.b2z/mri", "n.b2z/scans"], ["/scans/007/raw", "/scans/008/raw"]),
    (["s.b2z/mri", "n.b2z/g/"], ["/g/mri/007/raw", "/g/mri/008/raw"]),
    (["s.b2z/mri/*", "n.b2z/g"], ["/g/007/raw", "/g/008/raw"]),
    (["s.b2z/age", "a.b2nd", "d.b2d", "n.b2z/g"], ["/g/a", "/g/age", "/g/x/y"]),
])  # fmt: skip
def test_cp_into_a_new_store(folder: Path, run: Answer, arguments: list[str], keys: list[str]) -> None:
    run("cp", *arguments)
    assert run("ls", "-r", "n.b2z").splitlines() == keys


def test_cp_into_a_group_that_exists(folder: Path, run: Answer) -> None:
    run("cp", "a.b2nd", "s.b2z/mri")
    run("cp", "d.b2d/x", "s.b2z/mri")
    assert run("ls", "s.b2z/mri").splitlines() == ["007/", "008/", "a", "x/"]


def test_cp_replaces_nothing_unasked(folder: Path, run: Answer) -> None:
    before = Path("s.b2z").read_bytes()
    assert failing(run, "cp", "a.b2nd", "s.b2z/age") == "s.b2z: '/age' exists; --force replaces it"
    assert Path("s.b2z").read_bytes() == before
    run("cp", "-f", "a.b2nd", "s.b2z/age")
    assert run("cat", "s.b2z/age") == "[0 1 2 3 4 5 6 7 8 9]\n"


def test_cp_within_a_store(folder: Path, run: Answer) -> None:
    run("cp", "s.b2z/age", "s.b2z/other")
    run("cp", "s.b2z/mri", "s.b2z/mri/again")
    assert run("cat", "s.b2z/other") == run("cat", "s.b2z/age")
    assert run("diff", "s.b2z/mri/007", "s.b2z/mri/again/007") == ""
    before = Path("s.b2z").read_bytes()
    assert "is a source" in failing(run, "cp", "-f", "s.b2z/age", "s.b2z/age")
    assert "is a source" in failing(run, "cp", "-f", "s.b2z/other", "s.b2z/age", "s.b2z")
    assert Path("s.b2z").read_bytes() == before


@pytest.mark.parametrize("command", [["compact"], ["check"], ["pack"], ["unpack"], ["salvage"]], ids=str)
def test_commands_of_whole_files_name_them(folder: Path, run: Answer, command: list[str]) -> None:
    more = ["out.b2z"] if command == ["salvage"] else []
    assert failing(run, *command, "s.b2z/mri", *more).endswith("this takes all of it: name s.b2z")


def test_cp_to_a_file(folder: Path, run: Answer) -> None:
    run("cp", "s.b2z/mri/007/raw", "raw.b2nd")
    np.testing.assert_array_equal(blosc2.open("raw.b2nd")[:], RAW)
    assert "--force" in failing(run, "cp", "s.b2z/age", "raw.b2nd")
    assert "a file takes one array" in failing(run, "cp", "s.b2z/mri", "mri.b2nd")
    assert "is a store" in failing(run, "cp", "s.b2z", "s.b2nd")
    assert not Path("mri.b2nd").exists()
    assert not Path("s.b2nd").exists()


def test_mv_to_the_root(folder: Path, run: Answer) -> None:
    run("mv", "s.b2z/mri/007/raw", "s.b2z")
    assert "raw" in run("ls", "s.b2z").split()


def test_mv_and_rm(folder: Path, run: Answer) -> None:
    run("mv", "s.b2z/age", "/patients/age")
    run("mv", "s.b2z/mri", "/scans")
    assert run("ls", "-r", "s.b2z").splitlines() == ["/patients/age", "/scans/007/raw", "/scans/008/raw"]
    assert "--recursive" in failing(run, "rm", "s.b2z/scans")
    run("rm", "s.b2z/scans/007/raw")
    run("rm", "-r", "s.b2z/scans", "d.b2d/x/*")
    assert run("ls", "-r", "s.b2z", "d.b2d").splitlines() == ["s.b2z:", "/patients/age", "d.b2d:"]
    assert "nothing is at" in failing(run, "rm", "s.b2z/scans")
    assert "does not exist" in failing(run, "rm", "none.b2z/x")
    assert not Path("none.b2z").exists()
    assert "name a key" in failing(run, "rm", "a.b2nd")


def test_info_as_json_has_numbers_lists_and_objects(folder: Path, run: Answer) -> None:
    found = json.loads(run("info", "--json", "a.b2nd"))
    array = blosc2.open("a.b2nd")
    assert (found["nbytes"], found["cbytes"], found["cratio"]) == (array.nbytes, array.cbytes, array.cratio)
    assert (found["on disk"], found["unused"]) == (os.path.getsize("a.b2nd"), 0)
    assert found["cparams"]["codec"] == "ZSTD"
    assert "SHUFFLE" in found["cparams"]["filters"]
    assert found["dparams"]["nthreads"] > 0
    blosc2.asarray(RAW, urlpath="raw.b2nd")
    assert json.loads(run("info", "--json", "raw.b2nd"))["decoded"] == {"an item": 480, "[i]": 480, "[..., i]": 480}
    found = json.loads(run("info", "--json", "s.b2z"))
    assert [child["name"] for child in found["contents"]["children"]] == ["age", "mri"]
    assert found["on disk"] == os.path.getsize("s.b2z")
    group = json.loads(run("info", "--json", "s.b2z/mri"))
    assert (group["contents"]["leaves"], group["entries"]) == (2, 4)
    assert json.loads(run("info", "--json", "e.b2e"))["type"] == "EmbedStore"


def test_check_as_json(folder: Path, run: Answer) -> None:
    assert json.loads(run("check", "--json", "s.b2z")) == [
        {"path": "s.b2z", "ok": True, "findings": [], "unverified": [], "notes": []}
    ]
    data = bytearray(Path("a.b2nd").read_bytes())
    data[-1] ^= 1
    Path("a.b2nd").write_bytes(data)
    sound, damaged = json.loads(run("check", "--json", "s.b2z", "a.b2nd", code=1))
    assert (sound["ok"], damaged["ok"]) == (True, False)
    finding = damaged["findings"][0]
    assert finding.keys() == {"file", "key", "byte", "what"}
    assert finding["file"].endswith("a.b2nd")


def test_a_wait_that_was_too_short(folder: Path, run: Answer) -> None:
    with blosc2.TreeStore("s.b2z", mode="a") as store:
        store["/held"] = [1]
        code = "import sys; from blosc2._tools.cli import main; sys.exit(main(sys.argv[1:]))"
        for how, advice in ((["--timeout", "0.1"], "wait longer with --timeout"), ([], "wait with --timeout")):
            done = subprocess.run(
                [sys.executable, "-c", code, "rm", "s.b2z/age", *how], check=False, capture_output=True, text=True
            )
            assert done.returncode == 2
            assert advice in done.stderr


def test_a_key_without_its_suffix(folder: Path, run: Answer) -> None:
    with blosc2.TreeStore("suffix.b2z", mode="w") as store:
        store["/misc/ij.tif"] = [1]
    assert "is it '/misc/ij.tif'?" in failing(run, "info", "suffix.b2z/misc/ij")


def test_mv_takes_the_store_in_its_target(folder: Path, run: Answer) -> None:
    run("mv", "s.b2z/age", "s.b2z/patients/age")
    assert "s.b2z: /age is now /patients/age" in run.err
    run("mv", f"{folder}/s.b2z/mri/007", f"{folder}/s.b2z/seven")
    run("mv", "s.b2z/patients/age", "s.b2z/seven/")
    run("mv", "-q", "s.b2z/mri/008/raw", "eight/")
    assert run.err == ""
    keys = ["/eight/raw", "/seven/age", "/seven/raw"]
    assert run("ls", "-r", "s.b2z").splitlines() == keys
    for other in (
        "d.b2d/age",
        "none.b2z/age",
        "none.b2z",
        f"{folder}/d.b2d/age",
        "/none/t.b2z/x",
        "a.b2nd",
        "memory://q",
    ):
        assert "use cp, then rm" in failing(run, "mv", "s.b2z/seven/age", other)
    assert run("ls", "-r", "s.b2z").splitlines() == keys


def test_pack_and_unpack(folder: Path, run: Answer) -> None:
    run("unpack", "s.b2z")
    assert run("diff", "s.b2z", "s.b2d") == ""
    assert failing(run, "unpack", "s.b2z").startswith("s.b2d exists; --force")
    run("unpack", "-f", "s.b2z")
    run("pack", "s.b2d", "again.b2z")
    assert run("diff", "again.b2z", "s.b2d/mri", code=1)
    assert run("diff", "again.b2z/mri", "s.b2d/mri") == ""
    assert "blosc2 cp" in failing(run, "pack", "e.b2e")


def test_compact_check_and_salvage(folder: Path, run: Answer) -> None:
    run("rm", "s.b2z/mri/007/raw")
    size = Path("s.b2z").stat().st_size
    assert "->" in run("compact", "s.b2z", "a.b2nd", "d.b2d", "e.b2e")
    assert Path("s.b2z").stat().st_size < size
    assert ": ok" in run("check", "s.b2z", "a.b2nd")
    damaged = bytearray(Path("a.b2nd").read_bytes())
    damaged[-60] ^= 1
    Path("a.b2nd").write_bytes(damaged)
    assert "damage" in run("check", "a.b2nd", code=1)
    run("salvage", "s.b2z", "saved.b2z")
    assert run("diff", "s.b2z", "saved.b2z") == ""


def test_diff(folder: Path, run: Answer) -> None:
    run("cp", "s.b2z", "t.b2z")
    with blosc2.TreeStore("t.b2z", mode="a") as store:
        store["/mri/007/raw"][1, 2, 3:] = np.nan
        del store["/age"]
        store["/new"] = np.arange(2)
        store["/mri/008/raw"] = np.ones((5, 1), "i2")
        store["/mri"].attrs["unit"] = "cm"
    assert run("diff", "s.b2z", "t.b2z", code=1).splitlines() == [
        "/age: only in the first", "/new: only in the second", "/mri: attributes: unit",
        "/mri/007/raw: values: 2 of 60 items, the first at (1, 2, 3)", "/mri/008/raw: shape: (5,), (5, 1)",
    ]  # fmt: skip
    assert len(json.loads(run("diff", "--json", "--keys", "s.b2z", "t.b2z", code=1))) == 4
    assert "kind" in run("diff", "s.b2z", "a.b2nd", code=1)
    assert run("diff", "t.b2z/mri/007/raw", "t.b2z/mri/007/raw") == ""  # NaN is NaN here
    assert run("diff", "o.b2frame", "o.b2frame") == ""


def test_diff_reads_arrays_in_pieces(folder: Path, run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._tools.cli import looking

    monkeypatch.setattr(looking, "_PIECE", 1000)
    big = np.arange(5000).reshape(100, 50)
    blosc2.asarray(big, urlpath="one.b2nd", chunks=(7, 50))
    big[93, 4] = -1
    blosc2.asarray(big, urlpath="two.b2nd", chunks=(10, 20))
    assert run("diff", "one.b2nd", "two.b2nd", code=1) == "the array: values: 1 of 5,000 items, the first at (93, 4)\n"
    for value in (b"x" * 5000, b"x" * 4999 + b"y"):
        blosc2.SChunk(chunksize=700, data=value, cparams={"typesize": 1}, urlpath=f"{value[-1]}.b2frame", mode="w")
    assert run("diff", "120.b2frame", "121.b2frame", code=1) == "the array: values\n"


# ------------------------------------------------------------------ what a reviewer found
def test_groups_with_attributes_and_groups_without_leaves(folder: Path, run: Answer) -> None:
    with blosc2.TreeStore("g.b2z", mode="w") as store:
        store["/g/zz"] = np.arange(3)
        store["/g"].attrs["u"] = 1
        store.create_group("/empty").attrs["x"] = 2
        assert {"/g", "/g/zz"} <= set(store._ipython_key_completions_())
    assert run("ls", "g.b2z/g") == "zz\n"
    assert run("ls", "g.b2z/empty") == ""
    assert run("tree", "-n", "1", "g.b2z/g").splitlines()[1].startswith("└── zz")
    run("cp", "a.b2nd", "g.b2z/g")
    assert run("ls", "g.b2z/g").splitlines() == ["a", "zz"]
    run("rm", "-r", "g.b2z/g")
    assert run("ls", "g.b2z") == "empty/\n"


def test_cp_loses_no_source(folder: Path, run: Answer) -> None:
    for number in (1, 2):
        blosc2.asarray(np.arange(number), urlpath=f"scan.{number}.b2nd")
    run("cp", "scan.1.b2nd", "scan.2.b2nd", "n.b2z")
    assert run("ls", "n.b2z").splitlines() == ["scan.1", "scan.2"]
    assert "two of the sources" in failing(run, "cp", "s.b2z/mri/007/raw", "s.b2z/mri/008/raw", "two.b2z")


def test_cp_replaces_no_attributes_unasked(folder: Path, run: Answer) -> None:
    with blosc2.TreeStore("t.b2z", mode="w") as store:
        store["/mri/x"] = [1]
        store["/mri"].attrs["unit"] = "cm"
    assert "'unit'" in failing(run, "cp", "s.b2z", "t.b2z")
    assert run("ls", "-r", "t.b2z") == "/mri/x\n"
    run("cp", "-f", "s.b2z", "t.b2z")
    with blosc2.open("t.b2z") as store:
        assert store["/mri"].attrs["unit"] == "mm"
    run("cp", "s.b2z", "e.b2e")
    assert "attributes of 2 groups were left out" in run.err


def test_rm_is_all_or_nothing(folder: Path, run: Answer) -> None:
    assert "nothing is at '/nope'" in failing(run, "rm", "s.b2z/age", "s.b2z/nope")
    assert "age" in run("ls", "s.b2z")
    run("rm", "-r", "s.b2z/age", "s.b2z/age", "s.b2z/mri", "s.b2z/mri/007/raw")
    assert "3 leaves" in run.err


def test_names_with_brackets(folder: Path, run: Answer) -> None:
    with blosc2.TreeStore("b.b2z", mode="w") as store:
        store["/a1"], store["/a[1]"] = [1], [2, 2]
    assert run("cat", "b.b2z/a[1]") == "[2 2]\n"
    assert run("ls", "b.b2z/a[1]") == "/a[1]\n"
    assert "names 2 keys" in failing(run, "mv", "b.b2z/a*", "/q")
    run("mv", "b.b2z/a[1]", "/q[")
    run("rm", "b.b2z/q[")
    assert run("ls", "b.b2z") == "a1\n"


def test_cat_of_lists_and_super_chunks(folder: Path, run: Answer) -> None:
    assert run("cat", "o.b2frame") == "1\n'two'\n"
    assert run("cat", "o.b2frame", "-1") == "'two'\n"
    blosc2.SChunk(chunksize=10, data=b"abcdef", cparams={"typesize": 1}, urlpath="c.b2frame", mode="w")
    assert run("cat", "c.b2frame", "1:3") == "[98 99]\n"
    run("cat", "o.b2frame", "0,1", code=2)
    assert "one axis" in run.err


@pytest.mark.parametrize("selection", ["[0,2]", "[0]", "[0,2], :", "[[0,2]]", "name"])
@pytest.mark.parametrize("command", [["cat", "a.b2nd"], ["show", "a.b2nd"], ["tune", "a.b2nd", "--read"]])
def test_lists_and_names_as_selections_are_refused(
    folder: Path, run: Answer, command: list[str], selection: str
) -> None:
    assert run("cat", "a.b2nd", "[1:3]") == "[1 2]\n"
    run(*command, selection, code=2)
    assert re.search(r"list.*\snot\s+taken", run.err)


def test_cat_of_an_array_larger_than_memory(folder: Path, run: Answer) -> None:
    blosc2.zeros((1 << 17, 1 << 17), dtype="i8", urlpath="huge.b2nd")
    assert "these are 128 GiB" in failing(run, "cat", "huge.b2nd")
    assert run("cat", "huge.b2nd", "7,:3") == "[0 0 0]\n"


def test_tables_are_read_back(folder: Path, run: Answer) -> None:
    import csv

    names = np.array(["a,b", 'c"d', "e\nf"])
    times = np.array(["2020-01-01T01:02:03.5", "NaT"], "M8[ns]")
    both = np.array([(1, np.nan, b"x,y")], dtype=[("n", "i4"), ("f", "f8"), ("s", "S3")])
    for number, items in enumerate((names, times, both)):
        blosc2.asarray(items, urlpath=f"t{number}.b2nd")
    read = [
        list(csv.reader(run("cat", f"t{number}.b2nd", "-f", "csv").splitlines(keepends=True))) for number in range(3)
    ]
    assert read[0] == [[name] for name in names.tolist()]
    assert read[1] == [["2020-01-01T01:02:03.500000000"], ["NaT"]]
    assert read[2] == [["n", "f", "s"], ["1", "nan", "x,y"]]


def test_diff_of_equal_things(folder: Path, run: Answer) -> None:
    values: list[Any] = [[np.nan], {"x": np.arange(3)}, np.array([1, np.nan])]
    objects = blosc2.ObjectArray(urlpath="v.b2frame", mode="w")
    objects.extend(values)
    batches = blosc2.BatchArray(urlpath="w.b2frame", mode="w")
    batches.append([1, 2, 3])
    structured = np.array([(1, np.nan)], dtype=[("n", "i4"), ("f", "f8", (2,))])
    for path, items in (
        ("x.b2nd", structured), ("y.b2nd", np.array(["NaT", "2020"], "M8[D]")), ("z.b2nd", np.zeros((0, 3))),
    ):  # fmt: skip
        array = blosc2.asarray(items, urlpath=path)
        array.vlmeta["list"] = [1, float("nan")]
    for path in ("v.b2frame", "w.b2frame", "x.b2nd", "y.b2nd", "z.b2nd"):
        Path(f"copy.{path}").write_bytes(Path(path).read_bytes())
        assert run("diff", path, f"copy.{path}") == ""
        json.loads(run("info", "--json", path), parse_constant=lambda text: pytest.fail(text))


def test_statistics_are_those_of_one_group(folder: Path, run: Answer) -> None:
    assert "nothing is at" in failing(run, "stats", "s.b2z/nope")
    assert "is a leaf" in failing(run, "stats", "s.b2z/age")
    assert "is a leaf" in failing(run, "tree", "s.b2z/age")
    failing(run, "tree", "-n", "9" * 30, "s.b2z")
    with blosc2.EmbedStore("e.b2e", mode="a") as store:
        store["/g/x"] = [1]
    assert "only a TreeStore has groups" in failing(run, "info", "e.b2e/g")


def test_patterns_in_deep_trees(folder: Path, run: Answer) -> None:
    with blosc2.TreeStore("deep.b2z", mode="w") as store:
        store["/d" * 257] = [1]
    assert len(run("ls", "deep.b2z/**").splitlines()) == 257
    assert run("ls", "deep.b2z/**/**/**/**/none", code=2) == ""


# ------------------------------------------------------------------ the program
def program(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "blosc2", *arguments], capture_output=True, text=True, check=False, **options
    )


def test_without_the_extra(folder: Path) -> None:
    (folder / "click.py").write_text("raise ImportError('no click here')")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    refused = program("ls", "s.b2z", env=env)
    assert refused.returncode == 2
    assert refused.stderr.startswith("blosc2: the command line needs the package 'click': pip install")


def test_a_reader_that_stops_is_no_error(folder: Path) -> None:
    with blosc2.DictStore("many.b2z", mode="w") as store:
        store.write_many((f"/k{i:05}", np.arange(2)) for i in range(20_000))
    listing = subprocess.Popen(
        [sys.executable, "-m", "blosc2", "ls", "many.b2z"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert listing.stdout is not None
    assert listing.stderr is not None
    assert listing.stdout.readline() == b"k00000\n"
    listing.stdout.close()
    assert listing.stderr.read() == b""
    listing.stderr.close()
    assert listing.wait() == 0


# Each command without any stream; text, bytes and a complaint without the one that they go to.
@pytest.mark.parametrize(("command", "code", "closed"), [
    ("check s.b2z", 0, "012"), ("check damaged.b2z", 1, "012"), ("cp s.b2z new.b2z", 0, "012"),
    ("compact s.b2z", 0, "012"), ("stats s.b2z", 0, "012"), ("cat s.b2z/age", 0, "012"),
    ("cat -f npy s.b2z/age", 0, "012"), ("show s.b2z/age", 0, "012"), ("ls none.b2z", 2, "012"),
    ("check damaged.b2z", 1, "1"), ("cat -f npy s.b2z/age", 0, "1"), ("ls none.b2z", 2, "2"),
])  # fmt: skip
def test_closed_streams_are_no_error(folder: Path, closed: str, command: str, code: int) -> None:
    (folder / "damaged.b2z").write_bytes((folder / "s.b2z").read_bytes()[:-100])
    shell = " ".join([f"{sys.executable} -m blosc2 {command}", *(f"{number}>&-" for number in closed)])
    done = subprocess.run(["sh", "-c", shell], capture_output=True, check=False)
    assert done.returncode == code
    assert b"NoneType" not in done.stderr + done.stdout
    if command.startswith("cp"):
        np.testing.assert_array_equal(blosc2.open("new.b2z")["/age"][:], np.arange(3))


def test_completion_of_shells(folder: Path) -> None:
    env = {**os.environ, "_BLOSC2_COMPLETE": "bash_source"}
    assert "complete -o nosort -F _blosc2_completion blosc2" in program(env=env).stdout
    env = {**os.environ, "_BLOSC2_COMPLETE": "bash_complete", "COMP_WORDS": "blosc2 c", "COMP_CWORD": "1"}
    words = program(env=env).stdout.splitlines()
    assert {"plain,cat", "plain,cp", "plain,check"} <= set(words)


def test_names_change_no_terminal(folder: Path, run: Answer) -> None:
    import zipfile

    frame = blosc2.asarray(np.arange(3)).to_cframe()
    with zipfile.ZipFile("n.b2z", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("\x1b[31mred\n.b2nd", frame)
        archive.writestr("plain.b2nd", frame)
        archive.writestr("embed.b2e", blosc2.EmbedStore().to_cframe())
    for command in (["ls"], ["ls", "-l"], ["ls", "-r"], ["tree"], ["info"], ["stats"]):
        assert "\x1b" not in run(*command, "n.b2z")
    assert r"\x1b[31mred\n" in run("ls", "n.b2z")


# ------------------------------------------------------------------ objects of other packages
@pytest.fixture
def with_table(folder: Path) -> Path:
    """An array, and a table of the other package."""
    description = blosc2.SChunk(chunksize=64)
    description.vlmeta["kind"] = "ctable"
    with blosc2.TreeStore("t.b2z", mode="w") as store:
        store["/tab/_cols/x"], store["/arr"] = np.arange(100), np.arange(10)
        store["/tab/_meta"] = description
    return folder


def test_a_table_is_one_leaf_of_each_listing(with_table: Path, run: Answer) -> None:
    assert run("ls", "t.b2z").splitlines() == ["arr", "tab"]
    assert [line.split()[0] for line in run("ls", "-l", "t.b2z").splitlines()] == ["array", "ctable"]
    row = json.loads(run("ls", "--json", "t.b2z"))[1]
    assert (row["name"], row["key"], row["kind"]) == ("tab", "/tab", "ctable")
    assert "'ctable' (a table)" in run("info", "t.b2z/tab")
    assert run("tree", "t.b2z").splitlines()[0].startswith("/  2 leaves, ")
    assert "more" not in run("tree", "t.b2z")


@pytest.mark.parametrize("target", ["new.b2z", "new.b2d", "s.b2z"])
def test_a_table_is_copied_whole(with_table: Path, run: Answer, target: str) -> None:
    run("cp", "t.b2z/tab", f"{target}/tab")
    assert run("diff", "t.b2z/tab", f"{target}/tab") == ""
    assert "exists; --force" in failing(run, "cp", "t.b2z/tab", f"{target}/tab")
    run("cp", "--force", "t.b2z", target)
    with blosc2.open(target) as store:
        assert store["/tab"].kind == "ctable"
        assert store["/arr"][3] == 3
    with blosc2.DictStore(target, mode="a") as store:
        np.testing.assert_array_equal(store["/tab/_cols/x"][:], np.arange(100))
        store["/tab/_cols/x"] = np.arange(5)
    assert run("diff", "t.b2z/tab", f"{target}/tab", code=1) == "the array: stored bytes\n"
    run("rm", f"{target}/tab")
    assert "tab" not in run("ls", target)


def test_where_a_table_cannot_lie_nothing_is_copied(with_table: Path, run: Answer) -> None:
    assert "key '/tab': a ForeignObject cannot be stored" in failing(run, "cp", "t.b2z", "new.b2e")
    assert "a file takes one array" in failing(run, "cp", "t.b2z/tab", "new.b2nd")
    assert not os.path.exists("new.b2nd")
    assert not os.path.exists("new.b2e")


# ------------------------------------------------------------------ what lies on the disk
def test_sizes_on_disk_and_unused_bytes(folder: Path, run: Answer) -> None:
    items = np.random.default_rng(0).random(20_000)
    with blosc2.TreeStore("s.b2z", mode="a") as store:
        for _ in range(6):
            store["/age"] = items
            store.flush()
        size, used = os.stat("s.b2z").st_size, store.compact().after
        assert size > 4 * used
        for _ in range(6):
            store["/age"] = items
            store.flush()
        shown = dict(store.info_items)
        size, last = os.stat("s.b2z").st_size, run("stats", "s.b2z").splitlines()[-1]
    assert shown["on disk"].startswith(f"{size} (")
    assert abs(size - int(shown["unused"].split()[0]) - used) < 2000
    array = blosc2.asarray(items, urlpath="more.b2nd", mode="w", chunks=(1000,))
    assert dict(array.info_items)["unused"] == "0 (0 B)"
    array[:9000] = items[:9000] + 1
    wasted = int(dict(array.info_items)["unused"].split()[0])
    before, after = array.compact()
    assert 0.9 * (before - after) < wasted <= before - after
    for name in ("s.b2z", "more.b2nd", "e.b2e"):
        lines = run("info", name).splitlines()
        (on_disk,) = (line for line in lines if line.strip().startswith("on disk"))
        assert str(os.stat(name).st_size) in on_disk
        assert any(line.strip().startswith("unused") for line in lines)
    assert last.startswith("on disk: ")
    assert last.endswith(" are unused")
    assert "on disk" not in run("stats", "s.b2z/mri")
    assert "unused" not in dict(blosc2.asarray(items).info_items)


def test_without_a_command(run: Answer) -> None:
    assert run() == run("--help")
