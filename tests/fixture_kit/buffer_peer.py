"""Compresses, packs and saves with whatever `blosc2` its Python has; one JSON line a request.

As in `fixture_kit.peer`, the same functions serve the package under test and, through the worker at the end, the
reference package in an environment of its own. Bytes travel as base64.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

import blosc2
from fixture_kit import manifest
from fixture_kit.peer import cparams_of, serve

ARRAYS: list[tuple[str, list[int]]] = [
    ("i8", [2, 3]), ("<f4", [30, 40]), (">i4", [7]), ("S3", [5]), ("U2", [2, 2]), ("M8[s]", [4]), ("<m8[ns]", [3, 0]),
    (">M8[D]", [3]), ("?", [9]), ("c16", [3]), ("f2", []), ("V5", [2]), ("V300", [3]), ("i4", [0, 3]),
    ("[('a', '<i4'), ('b', '>f8')]", [6]), ("[('a', '<i4', (2, 2)), ('b', 'S3')]", [3]),
    ("[('a', [('b', '<i2'), ('c', '<M8[s]')])]", [2, 2]), ("[(('title', 'a'), '<i4')]", [2]),
    ("{'names': ['a', 'b'], 'formats': ['i1', '<f8'], 'offsets': [0, 8], 'itemsize': 24}", [4]),
    ("i4", [100_000]), ("u1", [1_000_003]),
]  # fmt: skip


def items(number: int) -> np.ndarray[Any, Any]:
    """The array of a number in `ARRAYS`."""
    text, shape = ARRAYS[number]
    dtype = manifest.dtype_of(text)
    size = int(np.prod(shape)) * dtype.itemsize
    data = np.random.default_rng(number).integers(0, 256, size) % np.r_[7, 3, 50]["0123".index(str(number % 3))]
    return np.frombuffer(data.astype(np.uint8).tobytes(), dtype).reshape(shape).copy()


def describe(got: np.ndarray[Any, Any]) -> list[Any]:
    """Shape, dtype and digest of an array."""
    return [list(got.shape), repr(got.dtype), manifest.sha256(np.ascontiguousarray(got).tobytes())]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


def compress2(data: str, cparams: dict[str, Any]) -> str:
    return _text(blosc2.compress2(bytearray(_bytes(data)), **cparams_of(cparams)))


def compress(data: str, typesize: int, clevel: int, filter: str, codec: str) -> str:
    how = (typesize, clevel, blosc2.Filter[filter], blosc2.Codec[codec], True)
    return _text(blosc2.compress(_bytes(data), *how))


def decompress(chunk: str) -> list[Any]:
    """What all ways to decompress give, and what is said about the chunk."""
    stored = _bytes(chunk)
    nbytes, cbytes, blocksize = blosc2.get_cbuffer_sizes(stored)
    out = [blosc2.decompress(stored), blosc2.decompress2(stored)]
    if nbytes:
        for decode in (blosc2.decompress, blosc2.decompress2):
            room = bytearray(nbytes)
            decode(stored, room)
            out.append(bytes(room))
    assert len(set(out)) == 1
    return [_text(out[0]), nbytes, cbytes, blocksize, blosc2.get_clib(stored)]


def save(path: str, number: int, chunksize: int | None = None, **more: Any) -> int:
    return int(blosc2.save_array(items(number), path, chunksize=chunksize, mode="w", **more))


def load(path: str) -> list[Any]:
    """What all ways to read the file give."""
    got = [describe(blosc2.load_array(path)), describe(blosc2.load_tensor(path))]
    schunk = blosc2.open(path)
    frame = schunk.to_cframe()
    got += [describe(blosc2.unpack_array2(frame)), describe(blosc2.unpack_tensor(frame))]
    assert all(other == got[0] for other in got)
    return got[0]


def pickled(number: int) -> str:
    return _text(blosc2.pack_array(items(number)))


def unpickled(packed: str) -> list[Any]:
    return describe(blosc2.unpack_array(_bytes(packed)))


def raw(path: str) -> list[Any]:
    """What the raw opening gives."""
    found = blosc2.blosc2_ext.open(path, "r", 0)
    return [type(found).__name__, sorted(found.schunk.vlmeta if hasattr(found, "schunk") else found.vlmeta)]


def about() -> str:
    return str(blosc2.__version__)


FUNCTIONS = {
    f.__name__: f for f in (compress2, compress, decompress, save, load, pickled, unpickled, raw, about)
}  # fmt: skip


if __name__ == "__main__":
    serve(FUNCTIONS)
