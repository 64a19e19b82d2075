"""How small are typical data, and how fast are they read, here and in other formats?

    python bench/compression.py [--only NAME ...] [--rounds 7] [--plot FILE.svg] [--gate]

Each data set of `compression_data.py` is written to a file in memory by each side, and read whole. Sides take turns,
and the fastest of the rounds counts, as other programs may be running. Peers are asked twice: with their defaults, and
by hand, which is the smallest of what their documents advise. Sizes are those of the files: any machine gives the same.
With `--gate` the program fails where a goal of `blosc2.tune` is missed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import compression_data
import numpy as np

import blosc2

Array = Any
Reader = Callable[[], Any]


class Stored(NamedTuple):
    """A file, or a folder of files, and what reads it whole."""

    nbytes: int
    read: Reader


def size_of(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else path.stat().st_size
    )


# ---------------------------------------------------------------- sides
def ours(cparams: Any) -> Callable[[Array, Path], Stored]:
    def store(data: Array, path: Path) -> Stored:
        name = path / "x.b2nd"
        blosc2.asarray(data, cparams=cparams, urlpath=str(name), mode="w")
        return Stored(size_of(name), lambda: blosc2.open(str(name))[...])

    return store


def npz(data: Array, path: Path) -> Stored:
    np.savez_compressed(path / "x.npz", x=data)
    return Stored(size_of(path / "x.npz"), lambda: np.load(path / "x.npz")["x"])


def hdf5(**how: Any) -> Callable[[Array, Path], Stored]:
    def store(data: Array, path: Path) -> Stored:
        import h5py

        given = {key: value for key, value in how.items() if key != "plugin"}
        if "plugin" in how:
            import hdf5plugin

            given |= getattr(hdf5plugin, how["plugin"][0])(**how["plugin"][1])
        with h5py.File(path / "x.h5", "w") as file:
            file.create_dataset("x", data=data, **given)

        def read() -> Any:
            with h5py.File(path / "x.h5") as file:
                return file["x"][()]

        return Stored(size_of(path / "x.h5"), read)

    return store


def zarr3(*codec: Any) -> Callable[[Array, Path], Stored]:
    def store(data: Array, path: Path) -> Stored:
        import zarr

        if data.dtype.names:
            raise NotImplementedError("zarr 3 does not specify structured types")
        how = {"compressors": zarr.codecs.BloscCodec(cname="zstd", clevel=codec[0], shuffle=codec[1])} if codec else {}
        zarr.create_array(str(path / "x.zarr"), data=data, overwrite=True, **how)
        return Stored(size_of(path / "x.zarr"), lambda: zarr.open_array(str(path / "x.zarr"), mode="r")[...])

    return store


def parquet(**how: Any) -> Callable[[Array, Path], Stored]:
    def store(data: Array, path: Path) -> Stored:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {name: data[name] for name in data.dtype.names} if data.dtype.names else {"x": data.ravel()}
        given = dict(how)
        if given.pop("encoded", False):
            kinds = {name: "BYTE_STREAM_SPLIT" if items.dtype.kind == "f" else "DELTA_BINARY_PACKED"
                     for name, items in columns.items() if items.dtype.kind in "iuf"}  # fmt: skip
            given |= {"use_dictionary": False, "column_encoding": kinds}
        pq.write_table(
            pa.table({name: pa.array(items) for name, items in columns.items()}), path / "x.parquet", **given
        )
        return Stored(size_of(path / "x.parquet"), lambda: [
            column.to_numpy() for column in pq.read_table(path / "x.parquet").columns
        ])  # fmt: skip

    return store


def safetensors(level: int) -> Callable[[Array, Path], Stored]:
    def store(data: Array, path: Path) -> Stored:
        import pyarrow as pa
        from safetensors.numpy import load, save

        raw = save({"x": np.ascontiguousarray(data) if not data.dtype.names else data.view("u1")})
        codec = pa.Codec("zstd", compression_level=level)
        (path / "x.st.zst").write_bytes(codec.compress(raw, asbytes=True))
        return Stored(size_of(path / "x.st.zst"), lambda: load(
            codec.decompress((path / "x.st.zst").read_bytes(), decompressed_size=len(raw), asbytes=True)
        )["x"])  # fmt: skip

    return store


OURS = {"default": ours(None), "auto": ours("auto"), "smallest": ours("smallest"), "fastest": ours("fastest")}
PEERS = {
    "zarr": zarr3(), "HDF5 gzip": hdf5(compression="gzip"), "Parquet": parquet(), "safetensors + zstd": safetensors(3),
    "npz": npz,
}  # fmt: skip
BY_HAND = {
    "zarr": [zarr3(9, "shuffle"), zarr3(9, "bitshuffle"), zarr3(9, "noshuffle")],
    "HDF5 gzip": [hdf5(compression="gzip", compression_opts=9, shuffle=True),
                  hdf5(plugin=("Zstd", {"clevel": 19}), shuffle=True), hdf5(plugin=("Zstd", {"clevel": 19}))],
    "Parquet": [parquet(compression="zstd", compression_level=19),
                parquet(compression="zstd", compression_level=19, encoded=True)],
    "safetensors + zstd": [safetensors(19)],
}  # fmt: skip


# ---------------------------------------------------------------- measuring
class Row(NamedTuple):
    """Bytes and seconds of each side, for one data set; seconds of choosing, and of writing with the default."""

    name: str
    nbytes: int
    sizes: dict[str, int]
    times: dict[str, float]
    choosing: float


def stored_by_all(data: Array, folder: Path) -> Iterator[tuple[str, Stored]]:
    number = itertools.count()

    def place() -> Path:
        made = folder / str(next(number))
        made.mkdir()
        return made

    for name, side in {**OURS, **PEERS}.items():
        try:
            yield name, side(data, place())
        except (TypeError, ValueError, NotImplementedError, OSError) as error:
            print(f"  {name}: {type(error).__name__}: {str(error)[:80]}", file=sys.stderr)
    for name, sides in BY_HAND.items():
        found = []
        for side in sides:
            try:
                found.append(side(data, place()))
            except (TypeError, ValueError, NotImplementedError, OSError):
                continue
        if found:
            yield f"{name}, by hand", min(found, key=lambda one: one.nbytes)


def measure(name: str, rounds: int) -> Row:
    data = compression_data.SETS[name]()
    start = time.process_time()
    blosc2.tune(data)
    choosing = time.process_time() - start
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        stored = dict(stored_by_all(data, Path(folder)))
        for side in OURS:
            assert stored[side].read().tobytes() == data.tobytes(), (name, side)
        times = dict.fromkeys(stored, math.inf)
        for _ in range(rounds):
            for side, one in stored.items():
                start = time.perf_counter()
                one.read()
                times[side] = min(times[side], time.perf_counter() - start)
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir()
    return Row(name, data.nbytes, {side: one.nbytes for side, one in stored.items()}, times, choosing)


def mean(values: Iterator[float] | list[float]) -> float:
    """The geometric mean."""
    found = [math.log(value) for value in values]
    return math.exp(sum(found) / len(found))


def report(rows: list[Row]) -> None:
    """Print a table for the documents: ratios, and speeds of reading in GB/s."""
    sides = [*OURS, *PEERS, *(f"{name}, by hand" for name in BY_HAND)]
    print("| data | " + " | ".join(sides) + " |")
    print("|---" * (len(sides) + 1) + "|")
    for row in rows:
        cells = [
            f"{row.nbytes / row.sizes[side]:.2f} ({row.nbytes / row.times[side] / 1e9:.1f})"
            if side in row.sizes
            else ""
            for side in sides
        ]
        print(f"| {row.name} | " + " | ".join(cells) + " |")
    print()
    for side in [*OURS][1:]:
        size = mean([row.sizes[side] / row.sizes["default"] for row in rows])
        speed = mean([row.times["default"] / row.times[side] for row in rows])
        slowest = min(rows, key=lambda row: row.times["default"] / row.times[side])
        print(f"{side}: {size:.3f} of the default's bytes, {speed:.2f} times its speed of reading, at least "
              f"{slowest.times['default'] / slowest.times[side]:.2f} ({slowest.name})")  # fmt: skip
    for side in ("auto", "smallest"):
        best = [row for row in rows if row.sizes[side] < min(row.sizes[peer] for peer in PEERS if peer in row.sizes)]
        print(f"{side}: smaller than every peer's default on {len(best)} of {len(rows)}")
    longest, usual = max(row.choosing for row in rows), mean([row.choosing for row in rows])
    print(f"choosing: {longest:.2f} s at most, {usual:.3f} s usually")


def failures(rows: list[Row]) -> list[str]:
    """Goals that are missed. Speeds are left out: they need a machine that does nothing else."""
    found = []
    for side, most in (("auto", 0.92), ("smallest", 0.87)):
        size = mean([row.sizes[side] / row.sizes["default"] for row in rows])
        if size > most:
            found.append(f"{side}: {size:.3f} of the default's bytes, not {most}")
        found += [
            f"{side}: {row.name} is larger" for row in rows if row.sizes[side] > 1.001 * row.sizes["default"] + 200
        ]
    return found


def plot(rows: list[Row], path: str) -> None:
    """Size against speed of reading, as means over all data sets."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "blosc2"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for side in [*OURS, *PEERS, *(f"{name}, by hand" for name in BY_HAND)]:
        both = [row for row in rows if side in row.sizes]
        x = mean([row.sizes[side] / row.sizes["default"] for row in both])
        y = mean([row.times["default"] / row.times[side] for row in both])
        colour = "tab:red" if side in OURS else "tab:blue" if side in PEERS else "tab:gray"
        axes.plot(x, y, "o", color=colour)
        axes.annotate(side, (x, y), xytext=(5, 4), textcoords="offset points", fontsize=9)
    axes.set(xlabel="size, of that of the default", ylabel="speed of reading, times that of the default", yscale="log",
             title=f"{len(rows)} data sets: left is smaller, up is faster")  # fmt: skip
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=compression_data.SETS, default=list(compression_data.SETS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--plot", metavar="FILE")
    parser.add_argument("--gate", action="store_true")
    options = parser.parse_args()
    rows = []
    for name in options.only:
        print(name, file=sys.stderr)
        rows.append(measure(name, options.rounds))
    report(rows)
    if options.plot:
        plot(rows, options.plot)
    missed = failures(rows) if options.gate else []
    print("\n".join(missed), file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
