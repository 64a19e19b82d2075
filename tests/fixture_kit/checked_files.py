"""Files of all kinds for `check`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

# far below what the hostile files claim
MEMORY = 48 << 20

NUMBERS = np.arange(300, dtype="i4")
NOISE = np.random.default_rng(7).integers(0, 256, 200, dtype="u1")


# ------------------------------------------------------------------ single bits
def fill(store: Any) -> None:
    store["/a"] = NUMBERS[:40]
    store["/g/raw"] = blosc2.asarray(NOISE[:60], cparams={"clevel": 0})
    if isinstance(store, blosc2.TreeStore):
        store["/g"].vlmeta["unit"] = "mm"


def change(path: Path, kind: type) -> None:
    """Changes of several sessions, which leave gaps."""
    with kind(str(path), mode="a") as store:
        store["/b"] = [1.5, 2.5]
        del store["/a"]
    with kind(str(path), mode="a") as store:
        store["/b"][0] = 7.0
        store["/c/d"] = blosc2.SChunk(chunksize=16, data=bytes(40), cparams={"typesize": 1})


def array(path: Path) -> None:
    blosc2.asarray(NUMBERS, urlpath=str(path), chunks=(100,), blocks=(50,))


def raw(path: Path) -> None:
    blosc2.asarray(NOISE, urlpath=str(path), chunks=(80,), cparams={"clevel": 0})


def with_metadata(path: Path) -> None:
    x = blosc2.asarray(NUMBERS[:10], urlpath=str(path), meta={"m": [1, 2]})
    x.vlmeta["text"] = "abc"
    x.vlmeta["list"] = [1, 2.5, None]


def special(path: Path) -> None:
    blosc2.zeros(1000, dtype="f8", chunks=(100,), urlpath=str(path))


def repeated(path: Path) -> None:
    blosc2.full(100, 3.5, urlpath=str(path))


def empty(path: Path) -> None:
    blosc2.zeros((0, 3), urlpath=str(path))


def scalar(path: Path) -> None:
    blosc2.asarray(np.float32(5), urlpath=str(path))


def appended(path: Path) -> None:
    x = blosc2.asarray(NUMBERS[:64], urlpath=str(path), chunks=(32,), blocks=(16,))
    x[3] = -1
    x.resize((90,))
    x[80:] = 5
    x.vlmeta["n"] = 1


def schunk(path: Path) -> None:
    s = blosc2.SChunk(chunksize=64, data=NOISE[:100].tobytes(), urlpath=str(path), cparams={"typesize": 1})
    s.append_data(b"x" * 30)


def embedded(path: Path) -> None:
    with blosc2.EmbedStore(str(path), mode="w") as store:
        fill(store)


def embedded_changed(path: Path) -> None:
    embedded(path)
    change(path, blosc2.EmbedStore)


def no_values(path: Path) -> None:
    blosc2.EmbedStore(str(path), mode="w").close()


def archive(path: Path) -> None:
    with blosc2.TreeStore(str(path), mode="w") as store:
        fill(store)


def archive_changed(path: Path) -> None:
    archive(path)
    change(path, blosc2.TreeStore)


def archive_embedded(path: Path) -> None:
    with blosc2.DictStore(str(path), mode="w", threshold=None) as store:
        fill(store)


def compacted(path: Path) -> None:
    kind = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.TreeStore
    embedded_changed(path) if kind is blosc2.EmbedStore else archive_changed(path)
    with kind(str(path), mode="a") as store:
        store.rename("/b", "/renamed")
        store.compact()


def in_turns(path: Path) -> None:
    """Transactions, and commits that do not wait for the disk."""
    kind = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.TreeStore
    with kind(str(path), mode="w") as store:
        with store.transaction():
            fill(store)
        store["/x"] = [1]
        store.flush(durable=False)
        with store.transaction():
            store.rename("/a", "/y/a")
            del store["/x"]
        store["/z"] = NOISE
        with pytest.raises(ZeroDivisionError), store.transaction():
            store["/w"] = NUMBERS
            _ = 1 / 0


def converted(path: Path) -> None:
    with blosc2.TreeStore(str(path.with_name("other.b2d")), mode="w", threshold=100) as store:
        fill(store)
        store.to_b2z(filename=str(path))


def saved(path: Path) -> None:
    x = blosc2.asarray(NUMBERS[:80], chunks=(40,))
    x.vlmeta["a"] = 1
    x[5] = 0
    x.save(str(path))


def copied(path: Path) -> None:
    saved(path.with_name("other.b2nd"))
    blosc2.open(str(path.with_name("other.b2nd"))).copy(urlpath=str(path))


def shared(path: Path) -> None:
    x = blosc2.zeros(50, dtype="i2", urlpath=str(path), locking=True)
    x[:] = NUMBERS[:50]
    x.vlmeta["a"] = 1


def shrunk(path: Path) -> None:
    x = blosc2.asarray(NUMBERS[:64], urlpath=str(path), chunks=(16,), blocks=(8,))
    x.resize((20,))
    x.vlmeta["gone"] = 1
    del x.vlmeta["gone"]


FILES: dict[str, Callable[[Path], None]] = {
    "array.b2nd": array, "raw.b2nd": raw, "metadata.b2nd": with_metadata, "special.b2nd": special,
    "repeated.b2nd": repeated, "empty.b2nd": empty, "scalar.b2nd": scalar, "appended.b2nd": appended,
    "schunk.b2frame": schunk, "embedded.b2e": embedded, "changed.b2e": embedded_changed, "no_values.b2e": no_values,
    "archive.b2z": archive, "changed.b2z": archive_changed, "embedded.b2z": archive_embedded,
    "compacted.b2e": compacted, "compacted.b2z": compacted, "compacted.b2d": compacted, "turns.b2e": in_turns,
    "turns.b2z": in_turns, "turns.b2d": in_turns, "converted.b2z": converted, "saved.b2nd": saved,
    "copied.b2nd": copied, "shared.b2nd": shared, "shrunk.b2nd": shrunk,
    "directory.b2d": archive, "changed.b2d": archive_changed, "embedded.b2d": archive_embedded,
}  # fmt: skip
