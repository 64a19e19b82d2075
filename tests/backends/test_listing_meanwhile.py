"""What is listed while another thread shows another version serves nobody afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._backends import tiers
from blosc2._backends.directory import leaf_files
from blosc2._backends.embedded import backend as embedded_backend


def test_a_walk_that_began_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blosc2.asarray(np.arange(3), urlpath=str(tmp_path / "old.b2nd"))
    files = leaf_files.LeafFiles(str(tmp_path), None)
    walk = leaf_files.scan

    def slow_walk(root: str) -> Any:
        found = walk(root)
        monkeypatch.setattr(leaf_files, "scan", walk)
        blosc2.asarray(np.arange(3), urlpath=str(tmp_path / "new.b2nd"))
        files.forget()  # what `refresh` does in another thread
        return found

    monkeypatch.setattr(leaf_files, "scan", slow_walk)
    assert files.table().find("/old") >= 0
    assert files.table().find("/new") >= 0
    assert files.listed == {"/old": "old.b2nd", "/new": "new.b2nd"}


def test_files_that_come_while_a_table_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blosc2.asarray(np.arange(3), urlpath=str(tmp_path / "old.b2nd"))
    files = leaf_files.LeafFiles(str(tmp_path), None)
    assert files.table().find("/old") >= 0
    files.note_file("/one", ".b2nd")
    make = leaf_files.KeyTable

    class Slow:
        @staticmethod
        def of_keys(keys: Any) -> Any:
            made = make.of_keys(keys)
            monkeypatch.setattr(leaf_files, "KeyTable", make)
            files.note_file("/two", ".b2nd")
            return made

    monkeypatch.setattr(leaf_files, "KeyTable", Slow)
    assert files.table().find("/two") < 0
    assert files.table().find("/two") >= 0


@pytest.mark.parametrize(
    ("kind", "suffix", "module"),
    [
        (blosc2.EmbedStore, ".b2e", embedded_backend),
        (blosc2.DictStore, ".b2d", tiers),
        (blosc2.DictStore, ".b2z", tiers),
    ],
    ids=["embed", "folder", "zip"],
)
def test_a_listing_that_began_before(
    kind: Any, suffix: str, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / f"store{suffix}")
    with kind(path, mode="w") as written:
        written["/old"] = np.arange(3)
        written.flush()
        with kind(path, mode="r") as store:
            make = module.KeyListing

            def slow_listing(*args: Any, **kwargs: Any) -> Any:
                made = make(*args, **kwargs)
                monkeypatch.setattr(module, "KeyListing", make)
                written["/new"] = np.arange(3)
                written.flush()
                assert store.refresh()
                return made

            monkeypatch.setattr(module, "KeyListing", slow_listing)
            store._backend.listing()
            assert "/new" in list(store)
            assert len(store) == 2
