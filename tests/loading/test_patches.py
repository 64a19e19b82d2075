"""Patches of volumes: where they lie, and what they hold."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import PatchSampler, foreground_index

SHAPES = [(9, 20, 17), (12, 8, 30), (5, 14, 14), (16, 16, 16)]


def volumes() -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    rng = np.random.default_rng(2)
    found = []
    for shape in SHAPES:
        scan = rng.normal(0, 1, (2, *shape)).astype("f4")
        mask = np.zeros(shape, "i1")
        mask[1:3, 2:4, -4:] = 1
        mask[-1, -1, -1] = 2
        found.append((scan, mask))
    return found


VOLUMES = volumes()


@pytest.fixture(params=["mapped", "positional"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = str(tmp_path / "cohort.b2z")
    with blosc2.TreeStore(path, mode="w") as made:
        for n, (scan, mask) in enumerate(VOLUMES):
            made[f"/{n}/scan"] = blosc2.asarray(scan, chunks=(1, 4, 8, 8), blocks=(1, 2, 4, 4))
            made[f"/{n}/mask"] = mask
            made[f"/{n}/places"] = foreground_index(mask)
    return blosc2.open(path, mode="r", mmap_mode="r" if request.param == "mapped" else None)


def padded(volume: np.ndarray[Any, Any], corner: Any, size: Any, value: Any) -> np.ndarray[Any, Any]:
    """The same by NumPy: the volume with so much around it that no box reaches further, and then a slice."""
    lead = volume.ndim - len(size)
    rooms = [abs(c) + s for c, s in zip(corner, size, strict=True)]
    around = np.pad(volume, [(0, 0)] * lead + [(room, room) for room in rooms], constant_values=value)
    return around[(..., *(slice(c + r, c + r + s) for c, s, r in zip(corner, size, rooms, strict=True)))]


@pytest.mark.parametrize("size", [(4, 4, 4), (5, 8, 14), (6, 20, 10), (18, 22, 31)])
@pytest.mark.parametrize("oversample", [0, 0.5, 1])
def test_patches_are_those_of_numpy(store: Any, size: tuple[int, ...], oversample: float) -> None:
    patches = PatchSampler(
        store, size, fields=("scan", "mask"), count=40, foreground="places", oversample=oversample,
        pad_value={"scan": 0, "mask": -1}, seed=9,
    )  # fmt: skip
    batch = patches.read_batch([(3, n) for n in range(40)])
    assert batch["scan"].shape == (40, 2, *size)
    places = [patches.place((3, n)) for n in range(40)]
    for n, (volume, corner, label) in enumerate(places):
        scan, mask = VOLUMES[volume]
        assert np.array_equal(batch["scan"][n], padded(scan, corner, size, 0))
        assert np.array_equal(batch["mask"][n], padded(mask, corner, size, -1))
        if label is not None:
            assert label in batch["mask"][n]
    assert sum(label is not None for _, _, label in places) == 40 * oversample
    assert all(sum(volume == n for volume, _, _ in places) == 10 for n in range(4))
    assert len({corner for _, corner, _ in places}) > 4


def test_corners_reach_as_far_as_nnunet_lets_them() -> None:
    """Without a voxel: from -(missing // 2) on, rounded down, up to as much on the other side, and a rest."""
    shape, size = (10, 7, 6), (4, 7, 11)
    patches = PatchSampler(blosc2.zeros((1, *shape), "u1"), size, count=2000, pad_value=0)
    corners = np.array([patches.place(n).corner for n in range(2000)])
    missing = [max(s - n, 0) for n, s in zip(shape, size, strict=True)]
    low = [-m // 2 for m in missing]
    high = [n + m // 2 + m % 2 - s for n, m, s in zip(shape, missing, size, strict=True)]
    for axis in range(3):
        assert set(corners[:, axis]) == set(range(low[axis], high[axis] + 1))
    counts = np.bincount(corners[:, 0])
    assert ((counts - 2000 / 7) ** 2 / (2000 / 7)).sum() < 30


def test_foreground_is_in_the_middle(store: Any) -> None:
    """The voxel is at half of the patch, except near the beginning of a volume; the end is padded."""
    patches = PatchSampler(
        store, (4, 6, 6), fields=("mask",), count=400, foreground="places", oversample=1, pad_value=0
    )
    labels = []
    for n in range(400):
        volume, corner, label = patches.place(n)
        labels.append(label)
        places = {tuple(row[1:]) for row in foreground_index(VOLUMES[volume][1]).tolist() if row[0] == label}
        starts = {tuple(max(0, c - s // 2) for c, s in zip(place, (4, 6, 6), strict=True)) for place in places}
        assert corner in starts
    # Classes are drawn first, although one has 16 voxels and the other one.
    assert 140 < labels.count(1) < 260


def test_without_padding_patches_stay_inside(store: Any) -> None:
    patches = PatchSampler(store, (5, 8, 14), fields=("scan", "mask"), count=200, foreground="places", oversample=0.5)
    for n in range(200):
        volume, corner, label = patches.place(n)
        assert all(0 <= c <= v - s for c, v, s in zip(corner, SHAPES[volume], (5, 8, 14), strict=True))
        if label is not None:
            part = patches[n]["mask"]
            assert label in part


def test_numbers_depend_on_seed_and_epoch_alone(store: Any) -> None:
    def places(seed: int, epoch: int, **more: Any) -> list[Any]:
        made = PatchSampler(store, (4, 4, 4), fields=("scan",), count=8, seed=seed, **more)
        return [made.place((epoch, n)) for n in range(8)]

    assert places(1, 0) == places(1, 0)
    assert places(1, 0) != places(2, 0)
    assert places(1, 0) != places(1, 1)
    made = PatchSampler(store, (4, 4, 4), fields=("scan", "mask"), count=8, seed=1, foreground="places")
    copied = pickle.loads(pickle.dumps(made))
    assert [made.place(n) for n in range(8)] == [copied.place(n) for n in range(8)]
    assert np.array_equal(made[5]["scan"], copied.read_batch([4, 5])["scan"][1])


def test_volumes_in_one_array() -> None:
    items = np.random.default_rng(0).normal(size=(3, 2, 9, 10)).astype("f4")
    patches = PatchSampler(
        blosc2.asarray(items), (4, 5), count=12, transform=lambda patch, rng: patch + rng.random(), rng=True
    )
    batch = patches.read_batch(range(12))
    assert batch.shape == (12, 2, 4, 5)
    for n in range(12):
        volume, (i, j), _ = patches.place(n)
        shift = batch[n] - items[volume, :, i : i + 4, j : j + 5]
        assert np.ptp(shift) < 1e-6
        assert 0 <= shift[0, 0, 0] < 1


# ---------------------------------------------------------------------- wrong
def test_a_patch_that_is_larger_than_a_volume(store: Any) -> None:
    patches = PatchSampler(store, (6, 8, 14), fields=("scan",), count=4)
    with pytest.raises(ValueError, match=r"'/2/scan'.* has \(5, 14, 14\).*a patch has \(6, 8, 14\).*pad_value"):
        patches.read_batch(range(4))


@pytest.mark.parametrize("pad_value", [None, {"kind": 1, "lead": 2}])
def test_unlike_volumes_give_patches_one_by_one(tmp_path: Path, pad_value: Any) -> None:
    volumes = {
        "kind": [np.arange(72, dtype=dtype).reshape(8, 9) for dtype in ("i2", "f4", ">u2")],
        "lead": [np.arange(72 * n, dtype="f4").reshape(n, 8, 9) for n in (1, 3, 2)],
    }
    with blosc2.TreeStore(str(tmp_path / "x.b2z"), mode="w") as made:
        made.update({f"/{n}/{name}": rows[n] for name, rows in volumes.items() for n in range(3)})
    shape = (9, 4) if pad_value else (4, 4)
    how: dict[str, Any] = {"fields": ("kind", "lead"), "count": 3, "pad_value": pad_value}
    patches = PatchSampler(str(tmp_path / "x.b2z"), shape, **how)
    for number, several in enumerate(patches.__getitems__(range(3))):
        volume, (low, left), _ = patches.place(number)
        for name, patch in patches[number].items():
            items = volumes[name][volume]
            if pad_value:
                items = np.pad(items, [(0, 0)] * (items.ndim - 2) + [(1, 1), (0, 0)], constant_values=pad_value[name])
            first = low + 1 if pad_value else low
            wanted = items[..., first : first + shape[0], left : left + 4]
            assert patch.dtype == wanted.dtype
            np.testing.assert_array_equal(patch, wanted)
            np.testing.assert_array_equal(several[name], wanted)
    with pytest.raises(ValueError, match=r"patch 1 of key .* and patch 0 of .* do not fit into one batch"):
        patches.read_batch(range(3))
    alike = PatchSampler(str(tmp_path / "x.b2z"), shape, transform=lambda one: one["lead"].sum(0), **how)
    assert alike.read_batch(range(3)).shape == (3, *shape)


def test_volumes_that_do_not_fit(tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2z")
    with blosc2.TreeStore(path, mode="w") as made:
        for n in range(2):
            made[f"/{n}/scan"] = np.zeros((8, 9), "f4")
            made[f"/{n}/mask"] = np.zeros((8, 9 - n), "u1")
            made[f"/{n}/kind"] = np.zeros((8, 9), ["f4", "f8"][n])
            made[f"/{n}/lead"] = np.zeros((n + 1, 8, 9), "f4")
            made[f"/{n}/places"] = np.array([[1, 7, 8 + n]])
            made[f"/{n}/unsorted"] = np.array([[2, 1, 1], [1, 1, 1]])
            made[f"/{n}/short"] = np.array([[1, 1]])
            made[f"/{n}/words"] = np.zeros(4)
    unlike = {"image": blosc2.zeros((2, 4, 4, 3)), "mask": blosc2.zeros((2, 4, 4))}
    with pytest.raises(ValueError, match=r"\(4, 3\).* has \(4, 4\): fields 'image' and 'mask' differ; axes of"):
        PatchSampler(unlike, (2, 2))[0]
    for fields, text in (
        (("scan", "mask"), r"'/1/scan' has \(8, 9\) as its last axes, and key '/1/mask' has \(8, 8\)"),
        (("kind",), "'/1/kind' has shape .* and dtype float64"),
        (("lead",), r"patch 1 of key '/1/lead' has shape \(2, 2, 2\) and dtype float32, .* fit into one batch"),
    ):
        with pytest.raises(ValueError, match=text):
            PatchSampler(path, (2, 2), fields=fields).read_batch([0, 1])
    for index, text in (
        ("places", r"key '/1/places' names voxel \(7, 9\) of a volume of \(8, 9\)"),
        ("unsorted", "not sorted"),
        ("short", "has 1 coordinates"),
        ("words", "no index of foreground_index"),
    ):
        with pytest.raises(ValueError, match=text):
            PatchSampler(path, (2, 2), fields=("scan",), foreground=index, oversample=1).read_batch([0, 1])
    with pytest.raises(ValueError, match="a patch has 3 axes"):
        PatchSampler(path, (2, 2, 2), fields=("scan",))
    with pytest.raises(ValueError, match="dtype uint8 has no value -1 to pad with"):
        PatchSampler(path, (2, 2), fields=("scan", "mask"), pad_value=-1)
    with pytest.raises(ValueError, match="dtype float32 has no value 1e"):
        PatchSampler(path, (2, 2), fields=("scan",), pad_value=1e60)
    for value in (0.1, np.inf, np.nan):
        padded_by = PatchSampler(path, (9, 2), fields=("scan",), pad_value=value)
        patch = padded_by[0]["scan"]
        assert np.isin([0, np.float32(value)], patch).all() or (np.isnan(value) and np.isnan(patch).any())
    with pytest.raises(ValueError, match="field 'mask': pad_value has no value"):
        PatchSampler(path, (2, 2), fields=("scan", "mask"), pad_value={"scan": np.nan})
    for wrong, text in (
        ({"shape": ()}, "shape must"), ({"shape": (0, 2)}, "shape must"), ({"count": 0}, "count must"),
        ({"oversample": 2}, "oversample must"), ({"oversample": 0.9}, "oversample=0.9 needs foreground"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            PatchSampler(path, **{"shape": (2, 2), "fields": ("scan",), **wrong})
    volumes = blosc2.zeros((2, 3, 3), "u1")
    assert repr(PatchSampler(volumes, [2, 2], count=7, oversample=0)) == "PatchSampler(7 patches of (2, 2))"
    assert repr(PatchSampler(path, (2, 2), fields=("scan",))) == "PatchSampler(2 patches of (2, 2), fields 'scan')"
    with pytest.raises(TypeError, match=r"shape must be a sequence of integers, .* not 4"):
        PatchSampler(volumes, 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^dtype uint8 has no value nan to pad with"):
        PatchSampler(volumes, (2, 2), pad_value=np.nan)
    with pytest.raises(ValueError, match="no samples"):
        PatchSampler(blosc2.zeros((0, 3, 3)), (2, 2))
    with pytest.raises(ValueError, match="foreground is for stores"):
        PatchSampler(blosc2.zeros((2, 3, 3)), (2, 2), foreground="x")
    with pytest.raises(KeyError, match="has no '/0/nothing'"):
        PatchSampler(path, (2, 2), fields=("scan",), foreground="nothing")


# ---------------------------------------------------------------------- the index
def test_an_index_has_all_voxels_of_small_classes() -> None:
    mask = np.random.default_rng(1).integers(-1, 4, (6, 7, 8)).astype("i2")
    index = foreground_index(mask)
    assert index.dtype == np.int32
    wanted = [[int(c), *map(int, place)] for c in (1, 2, 3) for place in np.argwhere(mask == c)]
    assert index.tolist() == wanted
    few = foreground_index(blosc2.asarray(mask), 5)
    assert [few[:, 0].tolist().count(c) for c in (1, 2, 3)] == [5, 5, 5]
    assert len({tuple(row) for row in few.tolist()}) == 15
    assert all(mask[tuple(row[1:])] == row[0] for row in few)
    assert not np.array_equal(few, foreground_index(mask, 5, seed=1))
    assert set(foreground_index(mask, background=2)[:, 0].tolist()) == {0, 1, 3}
    assert foreground_index(np.zeros((2, 2), bool)).shape == (0, 3)


def test_wrong_masks() -> None:
    with pytest.raises(TypeError, match="integer classes"):
        foreground_index(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="count must be"):
        foreground_index(np.zeros((2, 2), "u1"), 0)
    with pytest.raises(ValueError, match="above 2"):
        foreground_index(np.array([[2**31]], "u4"))


def test_a_volume_without_foreground(tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2z")
    with blosc2.TreeStore(path, mode="w") as made:
        made["/a/mask"] = np.zeros((8, 8), "u1")
        made["/a/places"] = foreground_index(np.zeros((8, 8), "u1"))
    patches = PatchSampler(path, (2, 2), fields=("mask",), foreground="places", oversample=1, count=5)
    assert [patches.place(n).label for n in range(5)] == [None] * 5


def test_labels_of_volumes_come_with_each_patch(tmp_path: Path) -> None:
    path = str(tmp_path / "labelled.b2z")
    with blosc2.TreeStore(path, mode="w") as made:
        for n, (scan, _) in enumerate(VOLUMES):
            made[f"/{n}/scan"] = scan
            made[f"/{n}/age"] = np.float32(40 + n)
            made[f"/{n}/size"] = np.array([n, 2 * n])
    fields = {"scan": "{}/scan", "age": "{}/age", "size": "{}/size", "class": {f"/{n}": 10 * n for n in range(4)}}
    patches = PatchSampler(path, (4, 6, 6), fields=fields, count=12, pad_value={"scan": 0})
    batch = patches.read_batch([(1, n) for n in range(12)])
    assert patches.keys is not None
    keys = [patches.keys[patches.place((1, n)).volume] for n in range(12)]
    numbers = np.array([int(key.strip("/")) for key in keys])
    assert sorted(set(numbers)) == [0, 1, 2, 3]
    np.testing.assert_array_equal(batch["age"], (40 + numbers).astype("f4"), strict=True)
    np.testing.assert_array_equal(batch["size"], np.stack([numbers, 2 * numbers], axis=1))
    np.testing.assert_array_equal(batch["class"], 10 * numbers)
    one = patches[(1, 7)]
    assert (one["age"], one["class"]) == (40 + numbers[7], 10 * numbers[7])
    np.testing.assert_array_equal(one["scan"], batch["scan"][7])


def test_labels_beside_rows_of_volumes() -> None:
    items = np.random.default_rng(0).normal(size=(5, 10, 12))
    patches = PatchSampler({"image": blosc2.asarray(items), "label": list("abcde")}, (4, 4), count=10)
    batch = patches.read_batch(range(10))
    assert patches.keys is None
    assert batch["label"].tolist() == ["abcde"[patches.place(n).volume] for n in range(10)]


def test_labels_alone_are_no_volumes(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2z")
    with blosc2.TreeStore(path, mode="w") as made:
        made["/0/age"], made["/0/plane"] = np.float32(3), np.zeros((4, 4))
    for field in ("age", "plane"):
        with pytest.raises(ValueError, match=f"'/0/{field}' has shape .*: a patch has 3 axes"):
            PatchSampler(path, (2, 2, 2), fields=[field])


def test_patches_of_damaged_volumes_are_noticed_where_reads_are_verified(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store["/0/ct"] = np.random.default_rng(0).integers(0, 200, (16, 64, 64)).astype("i2")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    store = blosc2.open(str(path), mmap_mode="r", verify=True)
    with pytest.raises(blosc2.FormatError, match="/0/ct"):
        PatchSampler(store, (4, 8, 8), count=1)[0]
