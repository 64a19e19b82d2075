"""Cases of nnU-Net, by its own dataset class: ``python nnunet_cases.py write|read FOLDER``.

``workers FOLDER fork|spawn|forkserver`` reads them in processes that are started so, once this one has read them: in a
pool, and as nnU-Net's own loader does.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
from nnunetv2.training.dataloading.nnunet_dataset import comp_blosc2_params, nnUNetDatasetBlosc2

_PATCH = (32, 48, 40)


def _case(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of a case, the same in every process."""
    rng = np.random.default_rng(number)
    shape = (1 + number % 2, *(int(n) for n in rng.integers(30, 90, 3)))
    data = rng.normal(size=shape).astype("f4") if number % 3 else np.round(rng.normal(size=shape)).astype("f4")
    return data, (rng.integers(-1, 3, (1, *shape[1:]))).astype("i1")


def write(folder: str) -> None:
    """Save cases as the preprocessing does."""
    for number in range(6):
        data, seg = _case(number)
        blocks, chunks = comp_blosc2_params(data.shape, _PATCH, data.itemsize)
        blocks_seg, chunks_seg = comp_blosc2_params(seg.shape, _PATCH, seg.itemsize)
        properties = {"spacing": (1.0, 0.5, 0.5), "number": number, "class_locations": {}}
        nnUNetDatasetBlosc2.save_case(
            data, seg, properties, os.path.join(folder, f"case{number}"),
            chunks=chunks, blocks=blocks, chunks_seg=chunks_seg, blocks_seg=blocks_seg,
        )  # fmt: skip


def read(folder: str) -> None:
    """Load all cases as the training does, mapped, with labels of a stage before, and compare patches and wholes."""
    dataset = nnUNetDatasetBlosc2(folder, folder_with_segs_from_previous_stage=folder)
    assert dataset.identifiers == [f"case{n}" for n in range(6)], dataset.identifiers
    rng = np.random.default_rng(99)
    for number, name in enumerate(dataset.identifiers):
        data, seg, before, properties = dataset.load_case(name)
        want, want_seg = _case(number)
        assert properties["number"] == number
        for found, expected in ((data, want), (seg, want_seg), (before, want)):
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(found[:], expected)
            for _ in range(20):
                first = [int(rng.integers(0, n)) for n in expected.shape[1:]]
                patch = (slice(None), *(slice(n, n + p) for n, p in zip(first, _PATCH)))
                np.testing.assert_array_equal(np.asarray(found[patch]), expected[patch])


def _batches(folder: str, workers: int) -> None:
    """Compare batches that nnU-Net's loader makes in worker processes."""
    from batchgenerators.dataloading.nondet_multi_threaded_augmenter import NonDetMultiThreadedAugmenter

    augmenter = NonDetMultiThreadedAugmenter(_loader(folder), None, workers, num_cached=2, wait_time=0.002)
    low, high = _corners()
    patch = tuple(slice(a, b) for a, b in zip(low, high))
    for _ in range(20):
        batch = next(augmenter)
        assert len(batch["keys"]) == 2
        for key, data, seg in zip(batch["keys"], batch["data"], batch["target"]):
            want, want_seg = _case(int(key[4:]))
            np.testing.assert_array_equal(np.asarray(data), want[(slice(None), *patch)])
            np.testing.assert_array_equal(np.asarray(seg), want_seg[(slice(None), *patch)])
    augmenter._finish()


def _corners() -> tuple[list[int], list[int]]:
    return [1, 2, 3], [25, 26, 27]


def _loader(folder: str) -> Any:
    from nnunetv2.training.dataloading.data_loader import nnUNetDataLoader

    labels = SimpleNamespace(all_labels=[1], has_ignore_label=False)
    # The cases with one channel; a batch has cases with equal channels only.
    dataset = nnUNetDatasetBlosc2(folder, [f"case{n}" for n in (0, 2, 4)])
    loader = nnUNetDataLoader(dataset, 2, [24] * 3, [24] * 3, labels)
    loader.get_bbox = _bbox
    return loader


def _bbox(*_: Any, **__: Any) -> tuple[list[int], list[int]]:
    return _corners()


def workers(folder: str, method: str) -> None:
    multiprocessing.set_start_method(method)
    read(folder)
    with multiprocessing.Pool(2) as pool:
        pool.map(read, [folder] * 4)
    _batches(folder, 2)


if __name__ == "__main__":
    {"write": write, "read": read, "workers": workers}[sys.argv[1]](*sys.argv[2:])
