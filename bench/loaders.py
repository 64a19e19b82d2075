"""How many samples a second do loaders give, for 0, 1 and 2 workers, and what does a worker cost?

    python bench/loaders.py images                      20,000 images of 64 x 64 u1 with labels, in batches of 256
    python bench/loaders.py patches                     patches of 64 x 96 x 96 from 8 volumes of f4, in batches of 2
    python bench/loaders.py images --cold               the first epoch, of files that are not in memory
    python bench/loaders.py batches                     100,000 batches from workers that were forked after reads

Peers are `.npy` by memmap, HDF5 (gzip, Blosc2), zarr 3 and LMDB (zlib), each with a chunk or value for each image, in
PyTorch's DataLoader; WebDataset (tar files) as it is meant to be used; and for patches nnU-Net's own dataset class,
cropping, loader and worker processes with the published package and its layout of files, with the same patches
(`nnunet_side.py`). "same layout" reads the bytes of nnU-Net's files in a store. What is missing is left out.

Each run is a process of its own; the sides take turns, and the medians of several rounds are shown. `us` is processor
time of a sample in all processes, which counts on a busy machine; `first epoch/s` are samples a second of the first
epoch, which may have to fetch files from the disk; `unique` are MB that a worker has for itself and has written
to: of a process, or what the process has grown by for each thread, batches that wait included; `USS` has pages of
mapped files, too, which belong to the system's cache and count where no other process maps the file. `shared` are MB
of memory that it shares with the process of the loop, for batches. Without workers a batch is read by two threads here,
by "one thread" in that of the loop.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from loading_measures import checksum, forget_pages, measured

IMAGES, BATCH = 20_000, 256
SHAPE, CHUNKS, BLOCKS = (1, 160, 192, 192), (1, 64, 64, 64), (1, 16, 16, 16)
CASES, PATCH, PATCH_BATCH, PATCHES = 8, (64, 96, 96), 2, 64
OURS = ("ours threads", "ours fork", "ours threads cached", "ours one thread", "ours one thread cached")
IMAGE_SIDES = (
    *OURS,
    "npy memmap",
    "npy memmap batches",
    "hdf5 gzip",
    "hdf5 blosc2",
    "zarr 3",
    "lmdb zlib",
    "webdataset",
)
PATCH_SIDES = (*OURS, "same layout threads", "same layout fork", "nnunet")


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
    write_shards(folder, items, labels)
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


def write_shards(folder: Path, items: Any, labels: Any) -> None:
    """Tar files for WebDataset, each with a thousand images as plain bytes: it has no format of its own for arrays."""
    import io
    import tarfile

    for shard in range(0, IMAGES, 1000):
        with tarfile.open(folder / f"shard{shard:06d}.tar", "w") as tar:
            for n in range(shard, shard + 1000):
                for suffix, data in (("bin", items[n].tobytes()), ("cls", str(labels[n]).encode())):
                    member = tarfile.TarInfo(f"{n:08d}.{suffix}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def web_dataset(folder: Path, workers: int) -> Any:
    """WebDataset as its pages recommend it: shards in another order, a buffer that shuffles, batches in the workers."""
    import webdataset

    def image(data: bytes) -> Any:
        return np.frombuffer(data, "u1").reshape(64, 64)

    shards = sorted(map(str, folder.glob("shard*.tar")))
    dataset = webdataset.WebDataset(shards, shardshuffle=len(shards), empty_check=False).shuffle(1000)
    dataset = dataset.to_tuple("bin", "cls").map_tuple(image, int).batched(BATCH, collation_fn=stacked)
    return webdataset.WebLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0)


def write_patches(folder: Path, nnunet: str | None) -> None:
    """Volumes in a store; and, if there is nnU-Net, in its files, and in a store of the same bytes as these."""
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
                store[f"/{case}/{name}"] = blosc2.asarray(np.ascontiguousarray(items), **how)
                np.save(folder / f"{case}_{name}.npy", items)
    patches = sampler(folder / "cohort.b2z", blosc2.PatchSampler)
    corners = [[place.volume, *place.corner] for place in map(patches.place, range(PATCHES))]
    (folder / "corners.json").write_text(json.dumps(corners), encoding="utf-8")
    if nnunet is None:
        return
    code = f"import nnunet_side, pathlib; nnunet_side.write(pathlib.Path({str(folder)!r}), {list(PATCH)})"
    subprocess.run([nnunet, "-c", code], env=clean_environment(), cwd=Path(__file__).parent, check=True)
    with blosc2.TreeStore(str(folder / "same.b2z"), mode="w") as store:
        for case in range(CASES):
            for name, file in (("scan", f"{case}.b2nd"), ("mask", f"{case}_seg.b2nd")):
                store[f"/{case}/{name}"] = blosc2.open(str(folder / "nnunet" / file))


def clean_environment() -> dict[str, str]:
    """Of a Python that has the published package."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def sampler(path: Path, kind: Any) -> Any:
    pads = {"scan": 0, "mask": -1}
    return kind(str(path), PATCH, fields=("scan", "mask"), count=PATCHES, pad_value=pads)


# ---------------------------------------------------------------------- images
class Peer:
    """Images of another format, one at a time, opened in each worker."""

    def __init__(self, folder: Path, side: str) -> None:
        self.folder, self.side = folder, side
        self.labels = np.load(folder / "labels.npy")
        self.source: Any = None

    def __len__(self) -> int:
        return IMAGES

    def open(self) -> Callable[[int], Any]:
        if self.side.startswith("npy memmap"):
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
        return lambda n: np.frombuffer(zlib.decompress(txn.get(b"%08d" % n) or b""), "u1").reshape(64, 64)

    def __getitem__(self, number: int) -> Any:
        if self.source is None:
            self.source = self.open()
        return self.source(number), self.labels[number]


class Batches(Peer):
    """Images of a `.npy`, a batch at a time, by one call of NumPy."""

    def __getitems__(self, numbers: list[int]) -> Any:
        if self.source is None:
            self.source = self.open()
        return self.source(numbers), self.labels[numbers]


def as_tensors(batch: Any) -> Any:
    import torch

    return {"image": torch.from_numpy(batch[0]), "label": torch.from_numpy(batch[1])}


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
        if "one thread" in side:
            blosc2.set_nthreads(1)
        store = blosc2.open(str(folder / "images.b2z"), mmap_mode="r")
        samples = blosc2.torch.Samples({"image": store["/image"], "label": store["/label"]})
        kind = "fork" if "fork" in side else "threads"
        loader = blosc2.torch.Loader(samples, BATCH, shuffle=True, workers=workers, kind=kind)
        return measured(loader.__iter__, IMAGES, epochs, workers, start)
    if side == "webdataset":
        return measured(web_dataset(folder, workers).__iter__, IMAGES, epochs, workers, start)
    peer = torch.utils.data.DataLoader(
        Batches(folder, side) if side.endswith("batches") else Peer(folder, side), BATCH, shuffle=True,
        num_workers=workers, collate_fn=as_tensors if side.endswith("batches") else stacked,
        persistent_workers=workers > 0, multiprocessing_context="fork" if workers else None,
    )  # fmt: skip
    return measured(peer.__iter__, IMAGES, epochs, workers, start)


# ---------------------------------------------------------------------- patches
def patch_job(side: str, folder: Path, workers: int, epochs: int) -> dict[str, float]:
    if side.startswith("nnunet"):
        import nnunet_side

        return nnunet_side.job(folder, list(PATCH), PATCH_BATCH, workers, epochs)
    start = time.perf_counter()
    import torch

    import blosc2
    import blosc2.torch

    if "cached" in side:
        blosc2.set_block_cache("400 MB")
    if "one thread" in side:
        blosc2.set_nthreads(1)
    kind = "fork" if "fork" in side else "threads"
    torch.set_num_threads(1)
    name = "same.b2z" if "same" in side else "cohort.b2z"
    patches = sampler(folder / name, blosc2.torch.PatchSampler)
    loader = blosc2.torch.Loader(patches, PATCH_BATCH, workers=workers, kind=kind)

    checksum(patches.read_batch([0, 1]))  # what that needs is not the workers'

    def epoch() -> Iterator[Any]:
        loader.set_epoch(0)  # the same patches as the peer's
        return iter(loader)

    return measured(epoch, PATCHES, epochs, workers, start)


# ---------------------------------------------------------------------- many batches
def many_batches(count: int = 100_000) -> None:
    """Batches of each kind of workers, forked after the parent has read in threads; what goes wrong is counted."""
    from concurrent.futures import ThreadPoolExecutor

    import torch

    import blosc2
    import blosc2.torch

    torch.set_num_threads(1)
    items = np.random.default_rng(3).integers(0, 9, (400_000, 8), "i4")
    with tempfile.TemporaryDirectory() as name:
        path = f"{name}/rows.b2z"
        with blosc2.TreeStore(path, mode="w") as store:
            store["/row"], store["/label"] = items, items[:, 0].copy()
        for kind, mapped in (("fork", "r"), ("fork", None), ("threads", "r")):
            store = blosc2.open(path, mode="r", mmap_mode=mapped)
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(lambda n, s=store: s["/row"][n : n + 1000].sum(), range(0, 400_000, 1000)))
            samples = blosc2.torch.Samples({"row": store["/row"], "label": store["/label"]})
            wrong, slowest, start = [], 0.0, time.perf_counter()
            with blosc2.torch.Loader(
                samples, 4, shuffle=True, workers=2, kind=kind, timeout=0 if kind == "threads" else 120
            ) as loader:
                seen, total, last = 0, 0, start
                try:
                    for batch in loader:
                        seen, total = seen + 1, total + int(batch["row"].sum()) + int(batch["label"].sum())
                        now = time.perf_counter()
                        slowest, last = max(slowest, now - last), now
                except Exception as error:  # noqa: BLE001 - counted
                    wrong.append(repr(error))
            right = seen == count and total == int(items.sum()) + int(items[:, 0].sum())
            print(
                f"{kind:8} {'mapped' if mapped else 'by position':12} {seen} batches in "
                f"{time.perf_counter() - start:.0f} s, the longest wait {slowest:.2f} s, errors: {wrong or 'none'}, "
                f"{'all values right' if right else 'VALUES WRONG'}",
                flush=True,
            )


# ---------------------------------------------------------------------- runs
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("images", "patches", "batches"))
    parser.add_argument("--nnunet", help="a Python that has nnunetv2 and the published blosc2; left out without it")
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
    if options.what == "batches":
        many_batches()
        return
    wanted: tuple[str, ...] = IMAGE_SIDES if options.what == "images" else PATCH_SIDES
    wanted = tuple(side for side in wanted if not options.sides or side.startswith(tuple(options.sides)))
    if options.what == "patches" and not options.nnunet:
        wanted = tuple(side for side in wanted if side in OURS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.what == "images":
            write_images(folder)
        else:
            write_patches(folder, options.nnunet)
        time.sleep(2.5)  # a file that has just been written is not kept open
        found: dict[tuple[str, int], list[dict[str, float]]] = {(s, w): [] for w in options.workers for s in wanted}
        for number in range(options.rounds):
            for side, workers in sorted(found, reverse=bool(number % 2)):
                python, env = sys.executable, dict(os.environ)
                if side.startswith("nnunet"):
                    python, env = options.nnunet, clean_environment()
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
    print(f"{'':22s} workers  samples/s       us  first epoch/s  first batch   unique      USS   shared")
    for (side, workers), samples in found.items():
        if samples:
            names = ("rate", "us", "cold", "first", "unique", "uss", "shared")
            rate, us, cold, first, unique, uss, shared = (statistics.median(s[name] for s in samples) for name in names)
            print(
                f"{side:22s} {workers:7d} {rate:10.0f} {us:8.1f} {cold:14.0f} {first:10.2f} s "
                f"{unique:5.0f} MB {uss:5.0f} MB {shared:5.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
