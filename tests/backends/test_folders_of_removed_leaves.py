"""A `.b2d` whose new leaves need a folder where the file of a removed leaf lies, and the other way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import blosc2

PAIRS = [("/b", "/b.b2nd/x"), ("/g/b", "/g/b.b2nd/c.b2nd/x"), ("/b.b2nd/x", "/b")]


def values(path: Path) -> dict[str, list[int]]:
    with blosc2.DictStore(path, mode="r") as store:
        return {key: leaf[:].tolist() for key, leaf in store.items()}


@pytest.mark.parametrize("cls", [blosc2.DictStore, blosc2.TreeStore])
@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_one_comes_as_the_other_goes(old: str, new: str, cls: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.b2d"
    with cls(path, mode="w") as store:
        store.update({old: [1], "/kept": [3]})
    with cls(path, mode="a") as store, store.transaction():
        del store[old]
        store[new] = [2]
    assert values(path) == {new: [2], "/kept": [3]}


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_a_failure_brings_the_old_one_back(old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2d"
    with blosc2.DictStore(path, mode="w") as store:
        store.update({old: [1], "/kept": [3]})
    before = sorted(str(p) for p in path.rglob("*"))
    store = blosc2.DictStore(path, mode="a")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("blosc2._files.atomic_file.FileMoves.put", fail)
    with pytest.raises(OSError, match="No space"), store.transaction():
        del store[old]
        store[new] = [2]
    monkeypatch.undo()
    store.discard()
    store.close()
    assert values(path) == {old: [1], "/kept": [3]}
    assert sorted(str(p) for p in path.rglob("*")) == before
