"""Cases of nnU-Net, by its own dataset class: ``python nnunet_cases.py write|read FOLDER``."""

from __future__ import annotations

import os
import sys

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
        nnUNetDatasetBlosc2.save_case(
            data, seg, {"spacing": (1.0, 0.5, 0.5), "number": number}, os.path.join(folder, f"case{number}"),
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


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](sys.argv[2])
