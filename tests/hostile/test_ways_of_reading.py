"""A wrong bit in an array that is read as a whole is noticed by every way of reading it, as the guide's table says."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import FormatError

KEYS = ("/g/a", "/g/b", "/g/c")
# Arrays of a leaf that is checked as a whole when it is opened, of one chunk, and of several.
SHAPES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "small": ((20, 30), {}),
    "one chunk": ((40, 50), {}),
    "chunks": ((40, 50), {"chunks": (10, 50), "blocks": (5, 50)}),
}


def batched(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What reads all leaves, for the middle one."""
    return lambda store: np.asarray(read(store)[1])


WAYS: dict[str, Callable[[Any], Any]] = {
    "slice": lambda store: store[KEYS[1]][:],
    "ellipsis": lambda store: store[KEYS[1]][...],
    "asarray": lambda store: np.asarray(store[KEYS[1]]),
    "backwards": lambda store: store[KEYS[1]][::-1][::-1],
    "rows": lambda store: store[KEYS[1]][np.arange(len(store[KEYS[1]]))],
    "array.read": lambda store: store[KEYS[1]].read(),
    "array.read_many": lambda store: store[KEYS[1]].read_many([...])[0],
    "copy": lambda store: store[KEYS[1]].copy()[:],
    "copy anew": lambda store: store[KEYS[1]].copy(cparams={"clevel": 1})[:],
    "tobytes": lambda store: np.frombuffer(store[KEYS[1]].tobytes(), "f8").reshape(store[KEYS[1]].shape),
    "read": lambda store: store.read(KEYS[1]),
    "read_many of one": lambda store: store.read_many([KEYS[1]])[0],
    "read_many": batched(lambda store: store.read_many(list(KEYS))),
    "read_many, out": batched(lambda store: store.read_many(list(KEYS), out=np.empty((3, *store[KEYS[0]].shape)))),
    "read_many of pairs": batched(lambda store: store.read_many([(key, ...) for key in KEYS])),
    "read_many of slices": batched(lambda store: store.read_many([(key, np.s_[:, :]) for key in KEYS])),
    "values": batched(lambda store: [leaf[:] for leaf in store.values() if isinstance(leaf, blosc2.NDArray)]),
    "items": batched(lambda store: [leaf[:] for _, leaf in store.items() if isinstance(leaf, blosc2.NDArray)]),
    "samples": lambda store: blosc2.Samples(store, {"x": "/g/{}"})[1]["x"],
    "batch of samples": batched(lambda store: blosc2.Samples(store, {"x": "/g/{}"})[[0, 1, 2]]["x"]),
    "loader": batched(
        lambda store: next(iter(blosc2.Loader(blosc2.Samples(store, {"x": "/g/{}"}), batch_size=3, workers=2)))["x"]
    ),
}


def without_checksums(path: Path) -> None:
    """An archive as other programs write it: its frames have no checksums, its directory has those of ZIP."""
    with blosc2.open(path) as store:
        frames = {key: blosc2.asarray(store[key][:], chunks=store[key].chunks).to_cframe() for key in KEYS}
    with blosc2.TreeStore(path.with_name("empty.b2z"), mode="w"):
        pass
    with zipfile.ZipFile(path.with_name("empty.b2z")) as file:
        embed = file.read("embed.b2e")
    with zipfile.ZipFile(path, "w") as file:
        for key, frame in frames.items():
            file.writestr(f"{key[1:]}.b2nd", frame)
        file.writestr("embed.b2e", embed)


@pytest.mark.parametrize("size", SHAPES)
@pytest.mark.parametrize("kind", [".b2z", ".b2d", ".b2e", "of others"])
def test_a_wrong_bit_is_noticed(kind: str, size: str, tmp_path: Path, source: str | None) -> None:
    suffix = ".b2z" if kind == "of others" else kind
    path = tmp_path / f"x{suffix}"
    shape, how = SHAPES[size]
    rng = np.random.default_rng(0)
    values = {key: rng.normal(size=shape) for key in KEYS}
    with (blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore)(path, mode="w") as store:
        for key, value in values.items():
            store[key] = blosc2.asarray(value, **how)
    if kind == "of others":
        without_checksums(path)
    file = path / "g" / "b.b2nd" if kind == ".b2d" else path
    whole = file.read_bytes()
    # Bytes of items, of the middle leaf: random numbers hardly shrink.
    share = (0.4, 0.7) if kind == ".b2d" else (0.4, 0.55)
    begin, end = (int(len(whole) * part) for part in share)
    noticed = 0
    for at in rng.integers(begin, end, 6).tolist():
        file.write_bytes(whole[:at] + bytes((whole[at] ^ 1 << at % 8,)) + whole[at + 1 :])
        for name, read in WAYS.items():
            with blosc2.open(path, mmap_mode=source) as store:
                try:
                    got = read(store)
                except FormatError:
                    noticed += 1
                    continue
                np.testing.assert_array_equal(got, values[KEYS[1]], err_msg=f"{name}, byte {at}")
    assert noticed > 3 * len(WAYS)
