"""The contract of stores with ``locking=True``, where each change is published."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import pytest
from file_store_kit import FileStoreContract

import blosc2

pytestmark = pytest.mark.skipif(os.name == "nt", reason="locks of POSIX")


class Shared(FileStoreContract):
    """All of the contract but what is about changes that wait, and about mode "w" until its first change."""

    at_once = True
    #: Other threads and processes may be told of changes by times that are coarse.
    test_discard = test_changes_are_seen_when_published = None  # type: ignore[assignment]  # nothing waits
    test_what_is_dropped_is_published_and_warned_of = None  # type: ignore[assignment]
    test_start_empty = None  # type: ignore[assignment]  # it is emptied when it is opened
    test_an_exception_before_any_assignment_replaces_nothing = None  # type: ignore[assignment]
    test_who_wants_nothing_of_it_discards = None  # type: ignore[assignment]  # the lock's file has a count of changes

    def make(self, path: Path, mode: str = "a", **more: Any) -> Any:
        return super().make(path, mode, locking=not more.get("mmap_mode"), **more)

    def beside(self, path: Path) -> list[str]:
        return [path.name] if path.is_dir() else [path.name, path.name + ".b2lock"]


class TestEmbedded(Shared):
    kind = blosc2.EmbedStore
    suffix = ".b2e"


class TestZip(Shared):
    kind = blosc2.DictStore
    suffix = ".b2z"


class TestDirectory(Shared):
    kind = blosc2.DictStore
    suffix = ".b2d"


class TestTreeInZip(Shared):
    kind = blosc2.TreeStore
    suffix = ".b2z"


class TestMixedTree(Shared):
    kind = blosc2.TreeStore
    suffix = ".b2d"
    options: ClassVar[dict[str, Any]] = {"threshold": 100}
