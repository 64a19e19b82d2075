"""What is fuzzed: files as they are on disk, whole and sound or hostile already."""

from __future__ import annotations

import json
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import blosc2

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "data" / "fixtures"
CORPUS = HERE / "corpus"
_MANIFEST = json.loads((FIXTURES / "manifest.json").read_text(encoding="utf-8"))
#: Names of files that are damaged already.
HOSTILE = frozenset(Path(entry["path"]).name for entry in _MANIFEST["hostile"])
#: What the names of committed cases begin with.
DAMAGED = "corpus:"
# Larger ones take long, and hold the same structures.
_LARGEST = 40_000


class Sample(NamedTuple):
    """One input: the suffix of its path, and its files by their names below it ("" for a single file)."""

    name: str
    suffix: str
    files: dict[str, bytes]
    #: Of a single file whose damage must be noticed, or must not matter: what it was before.
    sound: bytes = b""

    def write(self, path: Path) -> None:
        """Write it to a path, and replace what is there."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
        if "" in self.files:
            path.write_bytes(self.files[""])
            return
        path.mkdir()
        for name, data in self.files.items():
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.files.values()))

    def dump(self) -> bytes:
        """As bytes of one file, which `read` takes."""
        lengths = {name: len(data) for name, data in self.files.items()}
        head = {"name": self.name, "suffix": self.suffix, "files": lengths}
        return b"\n".join([json.dumps(head).encode(), b"".join([*self.files.values(), self.sound])])


def read(path: Path) -> Sample:
    """A sample from a case file, or from any file or directory of the formats."""
    if path.is_dir():
        files = {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
        return Sample(path.name, path.suffix, files)
    data = path.read_bytes()
    return parse(data) if path.suffix == ".case" else Sample(path.name, path.suffix, {"": data})


def parse(data: bytes) -> Sample:
    """What `Sample.dump` gave."""
    head, _, rest = data.partition(b"\n")
    about = json.loads(head)
    files = {}
    for name, length in about["files"].items():
        files[name], rest = rest[:length], rest[length:]
    return Sample(about["name"], about["suffix"], files, rest)


def corpus() -> list[Sample]:
    """The committed small cases."""
    found = [(path.stem, read(path)) for path in sorted(CORPUS.glob("*.case"))]
    return [sample._replace(name=f"{DAMAGED} {name}", sound=b"") for name, sample in found]


def fixtures() -> list[Sample]:
    """The reference package's files, and the hostile ones."""
    found = [
        read(FIXTURES / entry["path"])
        for entry in [*_MANIFEST["files"], *_MANIFEST["hostile"]]
        if "offset" not in entry
    ]
    return [sample for sample in found if sample.size <= _LARGEST]


def own() -> list[Sample]:
    """Files that the package writes: with checksums, file checksums, aligned, with catalogs, grown."""
    folder = Path(tempfile.mkdtemp(prefix="blosc2-fuzz-seeds-"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _write_lists(folder)
            _write_arrays(folder)
            _write_stores(folder)
        return [read(path) for path in sorted(folder.iterdir()) if not path.name.endswith("b2lock")]
    finally:
        shutil.rmtree(folder)


def _write_arrays(folder: Path) -> None:
    def at(name: str) -> str:
        return str(folder / name)

    values = np.arange(240, dtype="i4").reshape(12, 20)
    blosc2.asarray(values, urlpath=at("own_2d.b2nd"), chunks=(5, 8), blocks=(2, 4))
    blosc2.asarray(values, urlpath=at("own_raw.b2nd"), chunks=(4, 20), blocks=(2, 20), cparams={"clevel": 0})
    blosc2.asarray(np.random.default_rng(1).random(200), urlpath=at("own_random.b2nd"), chunks=(50,), blocks=(20,))
    blosc2.asarray(np.float64(3.5), urlpath=at("own_0d.b2nd"))
    blosc2.full((30,), 7, dtype="i2", urlpath=at("own_full.b2nd"), chunks=(10,), blocks=(5,))
    blosc2.zeros((0, 4), urlpath=at("own_none.b2nd"))
    blosc2.zeros((1 << 20, 1 << 10), dtype="f8", urlpath=at("own_huge.b2nd"))
    blosc2.asarray(np.array([(1, 2.0), (3, 4.0)], [("a", "i4"), ("b", "f8")]), urlpath=at("own_struct.b2nd"))
    for name, filters, codec in (("delta", [blosc2.Filter.DELTA, blosc2.Filter.SHUFFLE], blosc2.Codec.LZ4),
                                 ("bits", [blosc2.Filter.BITSHUFFLE], blosc2.Codec.BLOSCLZ)):  # fmt: skip
        blosc2.asarray(values, urlpath=at(f"own_{name}.b2nd"), chunks=(6, 10), blocks=(3, 5),
                       cparams={"filters": filters, "codec": codec, "clevel": 5})  # fmt: skip
    big = np.repeat(np.arange(40, dtype="u2"), 100).reshape(40, 100)
    blosc2.asarray(big, urlpath=at("own_dict.b2nd"), chunks=(20, 100), blocks=(5, 100),
                   cparams={"codec": blosc2.Codec.ZSTD, "use_dict": True, "clevel": 5})  # fmt: skip
    grown = blosc2.asarray(values[:4], urlpath=at("own_grown.b2nd"), chunks=(2, 20), blocks=(1, 20))
    grown.resize((9, 20))
    grown[4:] = values[4:9]
    grown.vlmeta["note"] = {"a": (1, 2.5), "b": {3, 4}, "c": np.arange(3), "d": 1j}
    schunk = blosc2.SChunk(
        chunksize=400, data=values.tobytes(), urlpath=at("own.b2frame"), mode="w", meta={"m": [1, "x"]}
    )
    schunk.update_data(1, bytes(400), copy=True)
    schunk.vlmeta["v"] = "text"
    blosc2.SChunk(chunksize=200, data=bytes(1000), contiguous=False, urlpath=at("own_directory.b2frame"), mode="w")


def _write_lists(folder: Path) -> None:
    """Lists of values and of batches, changed so that something is dead."""
    for name, use_dict, items in (("plain", False, 3), ("dict", True, 20)):
        how = {"cparams": {"use_dict": use_dict}}
        values = blosc2.ObjectArray(urlpath=str(folder / f"own_values_{name}.b2f"), **how)
        values.extend([{"n": n, "text": "words " * n, "t": (n, [None])} for n in range(30)])
        del values[3:7]
        batches = blosc2.BatchArray(items, urlpath=str(folder / f"own_batches_{name}.b2b"), **how)
        batches.extend([[{"n": m, "text": "words " * m} for m in range(1, n)] for n in range(2, 40, 9)])
        batches.pop(1)


def _fill(store: Any, count: int) -> None:
    for i in range(count):
        group = ("", "/g", "/g/h", "/long" * 6, "/ü")[i % 5]
        store[f"{group}/leaf{i}"] = np.arange(i + 1, dtype=("i4", "f8", "u1")[i % 3])
    store["/g/table"] = np.arange(60.0).reshape(6, 10)
    store["/same1"] = store["/same2"] = np.arange(6, dtype="i2").reshape(2, 3)


def _write_stores(folder: Path) -> None:
    from blosc2._backends.zip import publishing as zip_backend

    for suffix in ("b2z", "b2d"):
        for threshold in (0, 10_000):
            with blosc2.TreeStore(str(folder / f"own_{threshold}.{suffix}"), mode="w", threshold=threshold) as store:
                _fill(store, 9)
                store.vlmeta["title"] = "a store"
                store["/g"].vlmeta["unit"] = ("mm", 3)
    with blosc2.EmbedStore(str(folder / "own.b2e"), mode="w") as embed:
        _fill(embed, 9)
    before = zip_backend.CATALOG_LEAST
    try:
        zip_backend.CATALOG_LEAST = 4
        for count in (6, 60):
            with blosc2.TreeStore(str(folder / f"own_catalog{count}.b2z"), mode="w") as store:
                _fill(store, count)
                store.vlmeta["title"] = "a store"
        with blosc2.DictStore(str(folder / "own_catalog_grown.b2z"), mode="w") as store:
            _fill(store, 12)
        with blosc2.DictStore(str(folder / "own_catalog_grown.b2z"), mode="a") as store:
            store["/later"] = np.arange(5)
            del store["/leaf0"]
    finally:
        zip_backend.CATALOG_LEAST = before
    plain = folder / "own_plain60.b2z"
    with blosc2.DictStore(str(plain), mode="w") as store:
        _fill(store, 60)
    # names that DOS tools write, which are to be recoded before they are keys
    data = plain.read_bytes()
    (folder / "own_cp437.b2z").write_bytes(data.replace(b"/leaf2", b"/le\x81f2").replace(b"table", b"t\x84ble"))


def all_samples() -> list[Sample]:
    """Every seed there is."""
    return [*fixtures(), *own(), *corpus()]
