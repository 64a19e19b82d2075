"""Stores of every kind that have a file, for tests that are the same for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import blosc2

KINDS = {
    "b2e": (blosc2.EmbedStore, ".b2e", {}),
    "b2z": (blosc2.DictStore, ".b2z", {}),
    "b2d": (blosc2.DictStore, ".b2d", {}),
    "b2z-mixed": (blosc2.DictStore, ".b2z", {"threshold": 100}),
    "b2d-mixed": (blosc2.DictStore, ".b2d", {"threshold": 100}),
    "b2d-embedded": (blosc2.DictStore, ".b2d", {"threshold": None}),
    "tree-b2z": (blosc2.TreeStore, ".b2z", {}),
    "tree-b2d": (blosc2.TreeStore, ".b2d", {"threshold": 100}),
}


def before_sync(data: bytes) -> bytes:
    """A `.b2z` as it was before its last version was durable: the versions before it have their end records."""
    # They change by the polynomial of CRC-32C, lowest bit first.
    mask = int(f"{0x11EDC6F41:033b}"[::-1], 2)
    older = (int.from_bytes(b"PK\5\6\0", "little") ^ mask).to_bytes(5, "little")
    return data.replace(older, b"PK\5\6\0")


class Maker:
    """Opens stores of one kind at one path."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.cls, suffix, self.options = KINDS[kind]
        self.path = folder / f"store{suffix}"
        self.is_tree = self.cls is blosc2.TreeStore
        self.is_directory = suffix == ".b2d"
        #: Whether assignments and deletions are published when they return.
        self.at_once = suffix != ".b2z"
        #: Whether all leaves have files of their own.
        self.has_files = suffix == ".b2d" and not self.options
        #: Whether a new store is there when it is opened.
        self.there_when_opened = suffix == ".b2e"

    def __call__(self, mode: str = "a", **more: Any) -> Any:
        options = {} if mode == "r" else self.options
        return self.cls(str(self.path), mode=mode, **options, **more)

    def values(self, **more: Any) -> dict[str, list[Any]]:
        with self("r", **more) as store:
            return values_of(store)


def makers(kind: str, folder: Path) -> Iterator[Maker]:
    """Stores of one kind, each in a folder of its own."""
    for number in count():
        (folder / str(number)).mkdir()
        yield Maker(kind, folder / str(number))


def values_of(store: Any) -> dict[str, list[Any]]:
    return {key: leaf[:].tolist() for key in store if isinstance(leaf := store[key], blosc2.NDArray)}
