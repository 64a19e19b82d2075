"""nnU-Net's own way to patches, for `loaders.py`: its files, dataset class, loader, cropping and worker processes.

It runs in an environment that has the published `blosc2` and nnU-Net: `pip install nnunetv2`. Only which patches are
drawn is ours, so that both sides read the same ones.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import loading_measures
import numpy as np
import torch
from batchgenerators.dataloading.nondet_multi_threaded_augmenter import NonDetMultiThreadedAugmenter
from batchgenerators.dataloading.single_threaded_augmenter import SingleThreadedAugmenter
from nnunetv2.training.dataloading.data_loader import nnUNetDataLoader
from nnunetv2.training.dataloading.nnunet_dataset import comp_blosc2_params, nnUNetDatasetBlosc2


def write(folder: Path, patch: list[int]) -> None:
    """Store the cases that lie there as `.npy` as nnU-Net does, with chunks and blocks of its choice."""
    target = folder / "nnunet"
    target.mkdir()
    for path in sorted(folder.glob("*_scan.npy")):
        case = path.name.removesuffix("_scan.npy")
        scan, mask = np.load(path), np.load(folder / f"{case}_mask.npy")
        places = np.argwhere(mask == 1)
        rng = np.random.default_rng(0)
        properties = {"class_locations": {1: places[rng.choice(len(places), min(10_000, len(places)), replace=False)]}}
        blocks, chunks = comp_blosc2_params(scan.shape, patch, scan.itemsize)
        seg_blocks, seg_chunks = comp_blosc2_params(mask.shape, patch, mask.itemsize)
        nnUNetDatasetBlosc2.save_case(
            scan, mask, properties, str(target / case), chunks, blocks, seg_chunks, seg_blocks
        )


class Loader(nnUNetDataLoader):  # type: ignore[misc]
    """nnU-Net's loader with patches that are given: a worker makes each nth batch, over and over."""

    def __init__(self, folder: Path, patch: list[int], batch: int, corners: list[list[int]], workers: int) -> None:
        labels = SimpleNamespace(all_labels=[1], has_ignore_label=False)
        super().__init__(nnUNetDatasetBlosc2(str(folder / "nnunet")), batch, patch, patch, labels)
        self.patches, self.workers = corners, max(workers, 1)
        self.numbers: Iterator[int] | None = None

    def get_indices(self) -> list[str]:
        if self.numbers is None:
            first = self.thread_id * self.batch_size
            self.numbers = itertools.cycle(range(first, len(self.patches), self.workers * self.batch_size))
        self.number = next(self.numbers)
        some = self.patches[self.number : self.number + self.batch_size]
        self.corners = iter([corner for _, *corner in some])
        return [str(case) for case, *_ in some]

    def get_bbox(self, *_: Any, **__: Any) -> tuple[list[int], list[int]]:
        corner = next(self.corners)
        return corner, [c + n for c, n in zip(corner, self.patch_size, strict=True)]

    def generate_train_batch(self) -> dict[str, Any]:
        batch: dict[str, Any] = super().generate_train_batch()
        return {"scan": batch["data"], "mask": batch["target"], "number": self.number}


def job(folder: Path, patch: list[int], batch: int, workers: int, epochs: int) -> dict[str, float]:
    """Figures of its batches, made by so many worker processes."""
    start = time.perf_counter()
    torch.set_num_threads(1)
    corners = json.loads((folder / "corners.json").read_text(encoding="utf-8"))
    loader = Loader(folder, patch, batch, corners, workers)
    if workers:  # as nnU-Net's trainer does
        batches = NonDetMultiThreadedAugmenter(loader, None, workers, num_cached=max(6, workers // 2), wait_time=0.002)
    else:
        batches = SingleThreadedAugmenter(loader, None)
    count = len(corners) // batch
    seen: set[int] = set()

    def epoch() -> Iterator[dict[str, Any]]:
        if len(seen) == count:
            yield from itertools.islice(batches, count)
            return
        while len(seen) < count:  # workers may run ahead of each other: each batch once
            one = next(batches)
            if one["number"] not in seen:
                seen.add(one["number"])
                yield one

    found = loading_measures.measured(epoch, len(corners), epochs, workers, start)
    if workers:
        batches._finish()
    return found
