"""Keys that a new store cannot have do not end a salvage, and those that it can have are kept, allowed or not."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2._integrity.salvage_stores import why_not

# Keys that are read, though no new key may be one of them.
UNUSUAL = ("/a?b", "/con", "/dot.", "/blank ", "/Case", "/case", "/\xe9", "/e\u0301", "/.b2", "/embed.b2e")
LONG = "/" + "s" * 300
DEEP = "/a" * 3000
FRAME = blosc2.asarray(np.arange(3)).to_cframe()


def write_values(path: Path, keys: tuple[str, ...]) -> Path:
    """A `.b2e` with any keys."""
    with blosc2.EmbedStore(str(path), mode="w") as store:
        store["/first"] = np.arange(3)
    frame = blosc2.schunk_from_cframe(path.read_bytes(), copy=True)
    content = frame.vlmeta["estore_metadata"]
    content["embed_map"] = {key: dict(content["embed_map"]["/first"]) for key in keys}
    frame.vlmeta["estore_metadata"] = content
    path.write_bytes(frame.to_cframe())
    return path


def write_archive(path: Path, names: tuple[str, ...]) -> Path:
    """A `.b2z` with members of any names."""
    with blosc2.DictStore(str(path), mode="w") as store:
        store["/fine"] = np.arange(3)
    with zipfile.ZipFile(path, "a") as archive:
        for name in names:
            archive.writestr(name, FRAME)
    return path


def recovered(path: Path, out: Path) -> tuple[set[str], dict[str, str]]:
    """The keys that a new store has, each of which can be read, and those that are lost, with the reason."""
    report = blosc2.salvage(path, out)
    assert blosc2.check(out).ok, blosc2.check(out)
    with blosc2.open(str(out)) as store:
        if isinstance(store, blosc2.TreeStore):
            assert all(key in store for key in report.recovered)
        else:
            assert set(store) == set(report.recovered)
        for key in report.recovered:
            np.testing.assert_array_equal(store[key][:], np.arange(3))
    return set(report.recovered), {str(one.key): one.problem for one in report.lost if one.key is not None}


@pytest.mark.parametrize("suffix", [".b2e", ".b2z"])
def test_keys_that_are_no_new_keys_are_kept(tmp_path: Path, suffix: str) -> None:
    keys = (*UNUSUAL, LONG, DEEP, "/n" * 258, "/x", "/x.b2nd/y", "/fine", "/fine/below")
    found, lost = recovered(write_values(tmp_path / "x.b2e", keys), tmp_path / f"out{suffix}")
    assert found == set(keys)
    assert not lost


@pytest.mark.skipif(os.name == "nt", reason="such files are not possible there")
def test_keys_that_a_directory_cannot_have(tmp_path: Path) -> None:
    assert recovered(write_values(tmp_path / "y.b2e", ("/n" * 257,)), tmp_path / "deep.b2d") == ({"/n" * 257}, {})
    refused = {LONG: "too long", "/n" * 258: "segments", DEEP: "segments", "/embed.b2e/x": "store itself",
               "/.b2/x": "reserved", "/.B2/y": "store itself", "/EMBED.b2e/y": "store itself",
               "/case": "in case", "/e\u0301": "accents", "/x.b2nd/y": "the group"}  # fmt: skip
    keys = tuple(dict.fromkeys((*UNUSUAL, "/x", "/fine", "/fine/below", *refused)))
    found, lost = recovered(write_values(tmp_path / "x.b2e", keys), tmp_path / "out.b2d")
    assert found == set(keys) - set(refused)
    assert set(lost) == set(refused)
    for key, reason in refused.items():
        assert reason in lost[key]


@pytest.mark.parametrize("suffix", [".b2e", ".b2z", ".b2d"])
@pytest.mark.parametrize("whole", [True, False])
def test_members_whose_names_are_no_keys(tmp_path: Path, suffix: str, whole: bool) -> None:
    path = write_archive(tmp_path / "x.b2z", ("..b2nd", "...b2nd", ".b2nd", "a/..b2nd", "/..b2nd", "a//b.b2nd"))
    if not whole:
        path.write_bytes(path.read_bytes()[:-30])
    found, _ = recovered(path, tmp_path / f"out{suffix}")
    assert found == {"/fine"}


def test_nothing_but_keys_that_the_new_store_cannot_have(tmp_path: Path) -> None:
    path = write_values(tmp_path / "x.b2e", (LONG,))
    with pytest.raises(blosc2.FormatError, match="too long"):
        blosc2.salvage(path, tmp_path / "out.b2d")
    assert not (tmp_path / "out.b2d").exists()


def test_keys_that_only_some_stores_can_have(tmp_path: Path) -> None:
    assert "UTF-8" in str(why_not("x.b2e", "/\ud800", ".b2nd"))
    assert "too long" in str(why_not("x.b2z", "/" + "a" * 0xFFFF, ".b2nd"))
    assert why_not("x.b2e", "/" + "a" * 0xFFFF, ".b2nd") is None
    # The path of the store counts too.
    folder = tmp_path / ("d" * 200)
    key = ("/" + "b" * 200) * ((4096 - len(os.fsencode(folder))) // 201 + 1)
    assert "too long" in str(why_not(str(folder / "x.b2d"), key, ".b2nd"))
