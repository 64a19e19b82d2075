"""How many samples a second do loaders give, for 0, 1 and 2 workers, and what does a worker cost?

    python bench/loaders.py images                      20,000 images of 64 x 64 u1 with labels, in batches of 256
    python bench/loaders.py patches                     patches of 64 x 96 x 96 from 8 volumes of f4, in batches of 2
    python bench/loaders.py images --cold               the first epoch, of files that are not in memory

Peers are `.npy` by memmap, HDF5 (gzip, Blosc2), zarr 3 and LMDB (zlib), each with a chunk or value for each image, in
PyTorch's DataLoader; and for patches a stand-in for nnU-Net's loader with the published package: it opens the file for
each patch, slices, crops and pads as its dataset class does, with the same patches, in forked processes that hand over
nothing. nnU-Net itself is not installed. What is missing is left out.

Each run is a process of its own; the sides take turns, and the medians of several rounds are shown. `us` is processor
time of a sample in all processes, which counts on a busy machine; `unique` are MB that a worker has for itself.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

IMAGES, BATCH = 20_000, 256
SHAPE, CHUNKS, BLOCKS = (1, 160, 192, 192), (1, 64, 64, 64), (1, 16, 16, 16)
CASES, PATCH, PATCH_BATCH, PATCHES = 8, (64, 96, 96), 2, 64
OURS = ("ours threads", "ours fork", "ours threads cached")
IMAGE_SIDES = (*OURS, "npy memmap", "hdf5 gzip", "hdf5 blosc2", "zarr 3", "lmdb zlib")
PATCH_SIDES = (*OURS, "nnunet stand-in")


# ---------------------------------------------------------------------- data
def images() -> np.ndarray[Any, Any]:
    """Disks of different brightness on a dark ground, as masks and microscopy have them."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:64, 0:64]
    made = np.zeros((2000, 64, 64), "u1")
    for picture in made:
        for _ in range(4):
            cx, cy, r = rng.uniform(4, 60, 2).tolist() + [rng.uniform(3, 12)]
            inside = (x - cx) ** 2 + (y - cy) ** 2 < r * r
            picture[inside] = np.clip(rng.integers(60, 200) + rng.integers(-3, 4, inside.sum()), 0, 255)
    return np.concatenate([made] * (IMAGES // len(made)))


def write_images(folder: Path) -> None:
    import blosc2

    items, labels = images(), np.random.default_rng(1).integers(0, 10, IMAGES)
    np.save(folder / "labels.npy", labels)
    np.save(folder / "images.npy", items)
    how: dict[str, Any] = {"chunks": (256, 64, 64), "blocks": (1, 64, 64), "cparams": {"codec": blosc2.Codec.LZ4}}
    with blosc2.TreeStore(str(folder / "images.b2z"), mode="w") as store:
        store["/image"], store["/label"] = blosc2.asarray(items, **how), labels
    try:
        import h5py
        import hdf5plugin
    except ModuleNotFoundError:
        pass
    else:
        for name, options in (("gzip", {"compression": "gzip"}), ("blosc2", dict(hdf5plugin.Blosc2(cname="lz4")))):
            with h5py.File(folder / f"{name}.h5", "w") as file:
                file.create_dataset("image", data=items, chunks=(1, 64, 64), **options)
    try:
        import zarr
    except ModuleNotFoundError:
        pass
    else:
        codec = zarr.codecs.BloscCodec(cname="lz4", shuffle="noshuffle")
        zarr.create_array(str(folder / "images.zarr"), data=items, chunks=(1, 64, 64), compressors=codec)
    try:
        import lmdb
    except ModuleNotFoundError:
        pass
    else:
        import zlib

        with (
            lmdb.open(str(folder / "images.lmdb"), map_size=1 << 31) as environment,
            environment.begin(write=True) as txn,
        ):
            for n, item in enumerate(items):
                txn.put(b"%08d" % n, zlib.compress(item.tobytes(), 1))


def write_patches(folder: Path) -> None:
    import blosc2

    rng = np.random.default_rng(1)
    axes = np.meshgrid(*(np.linspace(0, 3, n, dtype="f4") for n in SHAPE[1:]), indexing="ij", sparse=True)
    how: dict[str, Any] = {
        "chunks": CHUNKS, "blocks": BLOCKS, "cparams": {"codec": blosc2.Codec.LZ4HC, "clevel": 8},
    }  # fmt: skip
    with blosc2.TreeStore(str(folder / "cohort.b2z"), mode="w") as store:
        for case in range(CASES):
            smooth = np.sin(axes[0] + case) * np.cos(2 * axes[1]) * np.sin(3 * axes[2])
            scan = np.round(smooth + rng.normal(0, 0.05, SHAPE[1:]), 2).astype("f4")[None]
            mask = (smooth > 0.7).astype("i1")[None]
            for name, items in (("scan", scan), ("mask", mask)):
                array = blosc2.asarray(np.ascontiguousarray(items), **how)
                store[f"/{case}/{name}"] = array
                blosc2.asarray(array, urlpath=str(folder / f"{case}_{name}.b2nd"), mode="w", **how)
    patches = sampler(folder, blosc2.PatchSampler)
    corners = [[place.volume, *place.corner] for place in map(patches.place, range(PATCHES))]
    (folder / "corners.json").write_text(json.dumps(corners), encoding="utf-8")


def sampler(folder: Path, kind: Any) -> Any:
    pads = {"scan": 0, "mask": -1}
    return kind(str(folder / "cohort.b2z"), PATCH, fields=("scan", "mask"), count=PATCHES, pad_value=pads)


# ---------------------------------------------------------------------- what is measured
def uss(pid: int | str = "self") -> int:
    """Bytes of memory of its own, which no other process shares and no file holds."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Private_Dirty"))


def children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()]


def cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    running = 0.0
    for pid in children():
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        running += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return sum(one.ru_utime + one.ru_stime for one in used) + running


def measured(
    loader: Callable[[], Iterator[Any]], samples: int, epochs: int, workers: int, start: float
) -> dict[str, float]:
    """Figures of some epochs, after one that fills the caches."""
    before = uss()
    total, first = 0, 0.0
    for batch in loader():
        first = first or time.perf_counter() - start
        total += int(batch["mask" if "mask" in batch else "label"].sum())
    begin, used = time.perf_counter(), cpu()
    unique = 0.0
    for _ in range(epochs):
        for number, _batch in enumerate(loader()):
            if number == 3 and workers:
                pids = children()
                unique = sum(map(uss, pids)) / len(pids) if pids else max(uss() - before, 0) / workers
    seconds, used = time.perf_counter() - begin, cpu() - used
    return {"rate": samples * epochs / seconds, "us": used / (samples * epochs) * 1e6, "first": first,
            "unique": unique / 1e6, "sum": total}  # fmt: skip


class Peer:
    """Images of another format, one at a time, opened in each worker."""

    def __init__(self, folder: Path, side: str) -> None:
        self.folder, self.side = folder, side
        self.labels = np.load(folder / "labels.npy")
        self.source: Any = None

    def __len__(self) -> int:
        return IMAGES

    def open(self) -> Callable[[int], Any]:
        if self.side == "npy memmap":
            return np.load(self.folder / "images.npy", mmap_mode="r").__getitem__
        if self.side.startswith("hdf5"):
            import h5py
            import hdf5plugin  # noqa: F401 - it registers the filter

            return h5py.File(self.folder / f"{self.side.split()[1]}.h5")["image"].__getitem__
        if self.side == "zarr 3":
            import zarr

            return zarr.open_array(str(self.folder / "images.zarr"), mode="r").__getitem__
        import zlib

        import lmdb

        self.environment = lmdb.open(str(self.folder / "images.lmdb"), readonly=True, lock=False)
        txn = self.environment.begin(buffers=True)
        return lambda n: np.frombuffer(zlib.decompress(txn.get(b"%08d" % n)), "u1").reshape(64, 64)

    def __getitem__(self, number: int) -> Any:
        if self.source is None:
            self.source = self.open()
        return self.source(number), self.labels[number]


def stacked(samples: list[Any]) -> Any:
    import torch

    items, labels = zip(*samples, strict=True)
    return {"image": torch.from_numpy(np.stack(items)), "label": torch.from_numpy(np.array(labels))}


def image_job(side: str, folder: Path, workers: int, epochs: int) -> dict[str, float]:
    import torch

    start = time.perf_counter()
    torch.set_num_threads(1)
    if side.startswith("ours"):
        import blosc2
        import blosc2.torch

        if "cached" in side:
            blosc2.set_block_cache("200 MB")
        store = blosc2.open(str(folder / "images.b2z"), mmap_mode="r")
        samples = blosc2.torch.Samples({"image": store["/image"], "label": store["/label"]})
        kind = "fork" if "fork" in side else "threads"
        loader = blosc2.torch.Loader(samples, BATCH, shuffle=True, workers=workers, kind=kind)
        return measured(loader.__iter__, IMAGES, epochs, workers, start)
    peer = torch.utils.data.DataLoader(
        Peer(folder, side), BATCH, shuffle=True, num_workers=workers, collate_fn=stacked,
        persistent_workers=workers > 0, multiprocessing_context="fork" if workers else None,
    )  # fmt: skip
    return measured(peer.__iter__, IMAGES, epochs, workers, start)


# ---------------------------------------------------------------------- patches
def crop_and_pad(array: Any, corner: list[int], value: int) -> np.ndarray[Any, Any]:
    """What nnU-Net does: slice what is inside, and pad the rest with a constant."""
    places = list(zip(array.shape[1:], corner, PATCH, strict=True))
    inside = array[(slice(None), *(slice(max(0, c), min(n, c + s)) for n, c, s in places))]
    around = [(max(0, -c), max(0, c + s - n)) for n, c, s in places]
    return np.pad(inside, [(0, 0), *around], "constant", constant_values=value)


def stand_in_batches(folder: Path, corners: list[list[int]]) -> Iterator[dict[str, Any]]:
    import blosc2

    for first in range(0, len(corners), PATCH_BATCH):
        some = corners[first : first + PATCH_BATCH]
        batch = {"scan": np.zeros((len(some), 1, *PATCH), "f4"), "mask": np.zeros((len(some), 1, *PATCH), "i2")}
        for n, (case, *corner) in enumerate(some):
            for name, value in (("scan", 0), ("mask", -1)):
                path = str(folder / f"{case}_{name}.b2nd")
                array = blosc2.open(urlpath=path, mode="r", dparams={"nthreads": 1}, mmap_mode="r")
                batch[name][n] = crop_and_pad(array, corner, value)
        yield batch


def stand_in_job(folder: Path, workers: int, epochs: int) -> dict[str, float]:
    """Processes that make their share of the batches, and hand over nothing but a sum."""
    start = time.perf_counter()
    corners = json.loads((folder / "corners.json").read_text(encoding="utf-8"))
    if not workers:
        return measured(lambda: stand_in_batches(folder, corners), PATCHES, epochs, 0, start)
    import multiprocessing

    context = multiprocessing.get_context("fork")
    queue: Any = context.SimpleQueue()

    def work(number: int) -> None:
        share = corners[number * len(corners) // workers : (number + 1) * len(corners) // workers]
        for epoch in range(1 + epochs):
            total = sum(int(batch["mask"].sum()) for batch in stand_in_batches(folder, share))
            queue.put((epoch, total, time.perf_counter(), time.process_time(), uss()))

    processes = [context.Process(target=work, args=(number,)) for number in range(workers)]
    for process in processes:
        process.start()
    answers = [queue.get() for _ in range(workers * (1 + epochs))]
    for process in processes:
        process.join()
    ends = {epoch: [a for a in answers if a[0] == epoch] for epoch in (0, epochs)}
    begin, end = (max(a[2] for a in ends[epoch]) for epoch in (0, epochs))
    used = sum(a[3] for a in ends[epochs]) - sum(a[3] for a in ends[0])
    return {"rate": PATCHES * epochs / (end - begin), "us": used / (PATCHES * epochs) * 1e6, "first": begin - start,
            "unique": statistics.mean(a[4] for a in answers) / 1e6, "sum": sum(a[1] for a in ends[0])}  # fmt: skip


def patch_job(side: str, folder: Path, workers: int, epochs: int) -> dict[str, float]:
    if side.startswith("nnunet"):
        return stand_in_job(folder, workers, epochs)
    start = time.perf_counter()
    import blosc2
    import blosc2.torch

    if "cached" in side:
        blosc2.set_block_cache("400 MB")
    kind = "fork" if "fork" in side else "threads"
    patches = sampler(folder, blosc2.torch.PatchSampler)
    loader = blosc2.torch.Loader(patches, PATCH_BATCH, workers=workers, kind=kind)

    def epoch() -> Iterator[Any]:
        loader.set_epoch(0)  # the same patches as the peer's
        return iter(loader)

    return measured(epoch, PATCHES, epochs, workers, start)


# ---------------------------------------------------------------------- runs
def forget_pages(folder: Path) -> None:
    """Have the system drop the pages of all files."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("images", "patches"))
    parser.add_argument("--reference", help="a Python that has the published package, for the stand-in")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sides", nargs="+", help="some of the sides, by the beginning of their names")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--job", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        side, folder, workers = options.job
        job = image_job if options.what == "images" else patch_job
        print(json.dumps(job(side, Path(folder), int(workers), options.epochs)))
        return
    wanted = IMAGE_SIDES if options.what == "images" else PATCH_SIDES
    wanted = tuple(side for side in wanted if not options.sides or side.startswith(tuple(options.sides)))
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (write_images if options.what == "images" else write_patches)(folder)
        time.sleep(2.5)  # a file that has just been written is not kept open
        found: dict[tuple[str, int], list[dict[str, float]]] = {(s, w): [] for w in options.workers for s in wanted}
        for number in range(options.rounds):
            for side, workers in sorted(found, reverse=bool(number % 2)):
                python, env = sys.executable, dict(os.environ)
                if side.startswith("nnunet"):
                    import sides

                    python, env = sides.reference_python(options.reference), clean
                if options.cold:
                    forget_pages(folder)
                epochs = str(options.epochs)
                command = [python, __file__, options.what, "--epochs", epochs, "--job", side, name, str(workers)]
                done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
                if done.returncode:
                    print(f"{side}, {workers} workers: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                    continue
                found[side, workers].append(json.loads(done.stdout))
        show(found)


def show(found: dict[tuple[str, int], list[dict[str, float]]]) -> None:
    sums = {sample["sum"] for samples in found.values() for sample in samples}
    if len(sums) != 1:
        raise SystemExit(f"the sides read different items: {sums}")
    print(f"{'':22s} workers  samples/s       us  first batch   unique")
    for (side, workers), samples in found.items():
        if samples:
            rate, us, first, unique = (
                statistics.median(s[k] for s in samples) for k in ("rate", "us", "first", "unique")
            )
            print(f"{side:22s} {workers:7d} {rate:10.0f} {us:8.1f} {first:10.2f} s {unique:5.0f} MB", flush=True)


if __name__ == "__main__":
    main()
