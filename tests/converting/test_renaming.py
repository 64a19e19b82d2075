"""`convert` with other keys: the rule for names that stores refuse, dicts, and functions."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2._tools.converting.renaming import new_keys


def npz(path: Path, names: list[str]) -> Path:
    """A file with an array for each name: its number."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, name in enumerate(names):
            member = io.BytesIO()
            np.save(member, np.array([number]))
            archive.writestr(name + ".npy", member.getvalue())
    return path


def numbers(path: Path) -> dict[str, int]:
    with blosc2.open(str(path)) as store:
        return {key: int(store[key][0]) for key in store if isinstance(store[key], blosc2.NDArray)}


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2e"])
def test_names_that_stores_refuse(tmp_path: Path, suffix: str) -> None:
    names = {
        "layer/kernel:0": "/layer/kernel%3A0", "a\\b": "/a%5Cb", "x ": "/x%20", "x.": "/x%2E", "50%": "/50%25",
        "q?*<>|\"": "/q%3F%2A%3C%3E%7C%22", "con": "/co%6E", "../up": "/.%2E/up", "a//b": "/a/%/b", "tab\t": "/tab%09",
        "é/plain": "/é/plain", "v~2": "/v%7E2", "v~x": "/v~x",
    }  # fmt: skip
    source = npz(tmp_path / "a.npz", list(names))
    report = blosc2.convert(source, tmp_path / f"a{suffix}", rename="escape", verify=True)
    assert report.complete
    assert numbers(tmp_path / f"a{suffix}") == {new: number for number, new in enumerate(names.values())}
    assert report.renamed == {f"/{old}": new for old, new in names.items() if f"/{old}" != new}
    assert all(unquote(new) == old for old, new in report.renamed.items() if "%/" not in new)
    lines = str(report).splitlines()
    assert (lines[1], len(lines)) == ("renamed: 11 keys", 13)
    assert "  /layer/kernel:0 -> /layer/kernel%3A0" in lines
    assert lines[-1] == "  ... 1 more, in `renamed`"


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_names_that_differ_in_case_and_leaves_that_are_groups(tmp_path: Path, suffix: str) -> None:
    source = npz(tmp_path / "a.npz", ["G/a", "G/A", "g/b", "g", "caf\u00e9", "cafe\u0301"])
    report = blosc2.convert(source, tmp_path / f"a{suffix}", rename="escape", verify=True)
    assert report.complete
    assert sorted(numbers(tmp_path / f"a{suffix}").values()) == list(range(6))
    assert set(numbers(tmp_path / f"a{suffix}")) == {"/G/A", "/G/a~2", "/cafe\u0301", "/caf\u00e9~2", "/g~2", "/g~3/b"}


def test_names_that_are_too_long(tmp_path: Path) -> None:
    names = ["l" * 300, "l" * 300 + "m", "é" * 200, ":" * 100]
    report = blosc2.convert(npz(tmp_path / "a.npz", names), tmp_path / "a.b2d", rename="escape", verify=True)
    assert report.complete
    found = numbers(tmp_path / "a.b2d")
    assert sorted(found.values()) == [0, 1, 2, 3]
    assert {report.renamed[f"/{name}"]: number for number, name in enumerate(names)} == found
    again = blosc2.convert(tmp_path / "a.npz", tmp_path / "b.b2z", rename="escape")
    assert again.renamed == report.renamed


def test_what_is_too_deep_is_left_out(tmp_path: Path) -> None:
    source = npz(tmp_path / "a.npz", ["d/" * 400 + "e", "x:"])
    report = blosc2.convert(source, tmp_path / "a.b2z", rename="escape", verify=True)
    assert [each.what for each in report.left_out] == ["all of it"]
    assert report.renamed == {"/x:": "/x%3A"}


def test_without_it_the_line_says_what_to_do(tmp_path: Path) -> None:
    report = blosc2.convert(npz(tmp_path / "a.npz", ["kernel:0", "b"]), tmp_path / "a.b2z", verify=True)
    ((key, what, why),) = report.left_out
    assert (key, what, report.renamed) == ("/kernel:0", "all of it", {})
    assert "rename='escape' (--rename)" in why
    assert "a key has 1 to" not in why


def test_groups_that_differ_in_case(tmp_path: Path) -> None:
    """MATLAB names what its cells hold a to z and A to Z. The group is there for its leaf, without its attributes."""
    h5py = pytest.importorskip("h5py", reason="an extra")
    with h5py.File(tmp_path / "a.mat", "w") as file:
        for name, inner in (("V", "x"), ("v", "y")):
            file[f"{name}/{inner}"] = [1, 2]
            file[name].attrs["class"] = name
    report = blosc2.convert(tmp_path / "a.mat", tmp_path / "a.b2z", verify=True)
    assert [(each.key, each.what) for each in report.left_out] == [("/v", "the attributes of the group")]
    assert "rename='escape'" in report.left_out[0].why
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert (store["/V/x"][:].tolist(), store["/v/y"][:].tolist()) == ([1, 2], [1, 2])
        assert store.get_subtree("/V").attrs["class"] == "V"
    assert blosc2.convert(tmp_path / "a.mat", tmp_path / "b.b2z", rename="escape", verify=True).complete


def test_a_dict_and_a_function(tmp_path: Path) -> None:
    source = npz(tmp_path / "a.npz", ["model/kernel:0", "model/deep/bias:0", "other"])
    names = {"/model/kernel:0": "/kernel", "model/deep": "flat"}
    report = blosc2.convert(source, tmp_path / "a.b2z", rename=names, verify=True)
    assert numbers(tmp_path / "a.b2z") == {"/kernel": 0, "/other": 2}
    assert [each.key for each in report.left_out] == ["/flat/bias:0"]
    assert report.renamed == {"/model/kernel:0": "/kernel"}
    report = blosc2.convert(source, tmp_path / "b.b2z", rename=lambda key: key.removesuffix(":0"), verify=True)
    assert numbers(tmp_path / "b.b2z") == {"/model/kernel": 0, "/model/deep/bias": 1, "/other": 2}
    assert set(report.renamed) == {"/model/kernel:0", "/model/deep/bias:0"}
    report = blosc2.convert(source, tmp_path / "c.b2z", rename=lambda key: "one", verify=True)
    assert [(each.key, each.what) for each in report.left_out] == [("/one", "a second item of this name")] * 2


def test_what_is_refused(tmp_path: Path) -> None:
    source = npz(tmp_path / "a.npz", ["a"])
    odd: Any = lambda key: 3  # noqa: E731
    for rename, error, text in (("other", ValueError, "must be 'escape'"), (odd, TypeError, "must give a str")):
        with pytest.raises(error, match=text):
            blosc2.convert(source, tmp_path / "a.b2z", rename=rename, resume=False)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("suffix", [".b2z", ".b2e"])
def test_keys_of_lmdb(tmp_path: Path, suffix: str) -> None:
    lmdb = pytest.importorskip("lmdb", reason="an extra")
    values = {n.to_bytes(8, "little"): bytes([n]) for n in (0, 1, 47, 255)} | {b"name": b"n", b"\xff\xfe": b"x"}
    with lmdb.open(str(tmp_path / "l.lmdb")) as environment, environment.begin(write=True) as transaction:
        for name, value in values.items():
            transaction.put(name, value)
    report = blosc2.convert(tmp_path / "l.lmdb", tmp_path / f"l{suffix}", rename="escape", verify=True)
    assert report.complete
    with blosc2.open(str(tmp_path / f"l{suffix}")) as store:
        leaves = {key: store[key] for key in store}
        found = {key: leaf[...].tobytes() for key, leaf in leaves.items() if isinstance(leaf, blosc2.NDArray)}
    old = {unquote(key[1:].replace("%/", "/"), errors="surrogateescape"): value for key, value in found.items()}
    assert {key.encode(errors="surrogateescape"): value for key, value in old.items()} == values


def test_a_renamed_conversion_is_resumed(tmp_path: Path, interrupted: Callable[..., None]) -> None:
    source = npz(tmp_path / "a.npz", ["k:0", "K:0", "b"])
    interrupted(source, tmp_path / "a.b2z", rename="escape")
    report = blosc2.convert(source, tmp_path / "a.b2z", rename="escape", verify=True)
    assert report.resumed == 3
    assert report.renamed == {"/K:0": "/K%3A0", "/k:0": "/k%3A0~2"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


NAMES = st.lists(st.text(st.sampled_from("aAé:%~2. \\/\x01\udcff"), max_size=6), max_size=6, unique=True)


@settings(max_examples=100, deadline=None)
@given(NAMES)
def test_stores_take_all_that_the_rule_gives(folder: Path, names: list[str]) -> None:
    key = new_keys("escape")
    new = {name: key(f"/{name}", False) for name in names}
    assert len(set(new.values())) == len(names)
    with blosc2.TreeStore(str(folder / "a.b2z"), mode="w") as store:
        for each in new.values():
            store[each] = np.arange(3)
