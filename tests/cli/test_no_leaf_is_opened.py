"""What shows a store opens none of its leaves: it shows the same where the bytes of all leaves were overwritten."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import Answer

import blosc2

LEAVES = 3000


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store, and the same without the bytes of any leaf. Both have the same name."""
    folder = tmp_path_factory.mktemp("stores")
    for name in ("whole", "without"):
        (folder / name).mkdir()
    path = folder / "whole" / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.write_many((f"/g{n % 30:02}/x{n:04}", np.arange(n % 50 + 1)) for n in range(LEAVES))
        store["/g00"].attrs["note"] = 1
    data, gone = bytearray(path.read_bytes()), 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".b2nd"):
                continue
            header = data[member.header_offset : member.header_offset + 30]
            start = member.header_offset + 30 + int.from_bytes(header[26:28], "little")
            start += int.from_bytes(header[28:30], "little")
            data[start : start + member.file_size] = bytes(member.file_size)
            gone += 1
    assert gone == LEAVES
    (folder / "without" / "s.b2z").write_bytes(data)
    return path, folder / "without" / "s.b2z"


def shown(path: Path, mmap_mode: str | None, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(path.parent)
    with blosc2.open("s.b2z", mmap_mode=mmap_mode) as store:
        return {
            "repr": repr(store), "html": store._repr_html_(), "info": str(store.info), "tree": str(store.tree()),
            "stats": store.stats(depth=2), "keys": store._ipython_key_completions_(), "group": repr(store["/g07"]),
            "keys of a group": store["/g07"]._ipython_key_completions_(),
            "html of a group": store["/g07"]._repr_html_(),
        }  # fmt: skip


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_in_python(stores: tuple[Path, Path], mmap_mode: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, without = (shown(path, mmap_mode, monkeypatch) for path in stores)
    assert without == whole
    assert "3,000 leaves" in whole["repr"]
    assert "x0007" in whole["html of a group"]
    with blosc2.open(str(stores[1])) as store, pytest.raises(blosc2.exceptions.FormatError):
        store["/g00/x0000"][...]


@pytest.mark.parametrize(
    "arguments",
    [["ls", "s.b2z"], ["ls", "-l", "s.b2z"], ["ls", "s.b2z/g07"], ["tree", "s.b2z"], ["tree", "--json", "s.b2z"],
     ["stats", "s.b2z"], ["stats", "--json", "s.b2z"], ["info", "s.b2z"], ["ls", "s.b2z/*/x00*"]],
    ids=" ".join,
)  # fmt: skip
def test_by_command(
    stores: tuple[Path, Path], arguments: list[str], run: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for path in stores:
        monkeypatch.chdir(path.parent)
        found.append(run(*arguments))
    assert found[0] == found[1]
    assert found[0]
