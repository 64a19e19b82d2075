"""Samples of arrays and stores, read in batches."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import Samples

KINDS = [".b2z", ".b2d", ".b2e"]
ITEMS = np.random.default_rng(0).integers(0, 200, (9, 4, 5)).astype("u1")
LABELS = np.arange(9, dtype="i8") * 11


@pytest.fixture(params=["mapped", "positional"])
def mmap_mode(request: pytest.FixtureRequest) -> str | None:
    return "r" if request.param == "mapped" else None


def write(path: Path) -> str:
    """Samples of three fields: an image, a label, and an array of different shapes."""
    make: Any = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.TreeStore
    with make(str(path), mode="w") as store:
        for n in range(9):
            store[f"/{n}/image"] = ITEMS[n]
            store[f"/{n}/label"] = LABELS[n]
            store[f"/{n}/points"] = np.full((n, 2), n, "f4")
    return str(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_store(kind: str, tmp_path: Path, mmap_mode: str | None) -> None:
    store = blosc2.open(write(tmp_path / f"x{kind}"), mode="r", mmap_mode=mmap_mode)
    samples = Samples(store, ["image", "label"])
    assert len(samples) == 9
    one = samples[3]
    assert list(one) == ["image", "label"]
    assert np.array_equal(one["image"], ITEMS[3])
    assert one["label"] == 33
    numbers = [8, 0, 0, -1, 5]
    batch = samples.read_batch(numbers)
    assert np.array_equal(batch["image"], ITEMS[numbers])
    assert batch["image"].dtype == "u1"
    assert np.array_equal(batch["label"], LABELS[numbers])
    several = samples.__getitems__(numbers)
    assert len(several) == 5
    assert all(np.shares_memory(sample["image"], several.whole["image"]) for sample in several)
    copied = pickle.loads(pickle.dumps(samples))
    assert np.array_equal(copied.read_batch(numbers)["image"], ITEMS[numbers])


def test_names_and_patterns(tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        for n in range(3):
            store[f"/images/{n}"] = ITEMS[n]
            store[f"/masks/{n}.png"] = ITEMS[n] > 100
    samples = Samples(path, {"x": "/images/{}", "y": "/masks/{}.png"})
    assert np.array_equal(samples[2]["y"], ITEMS[2] > 100)
    with blosc2.open(path, mode="r") as store:
        alone = Samples(store["/images"])
        for several in ([2, 1], range(2, 0, -1), np.array([2, 1])):
            assert np.array_equal(alone.read_batch(several), ITEMS[[2, 1]])
            assert np.array_equal(alone[several], ITEMS[[2, 1]])
        assert np.array_equal(pickle.loads(pickle.dumps(alone))[1], ITEMS[1])
    chosen = Samples(path, {"x": "/images/{}"}, keys=["2", "0"])
    assert len(chosen) == 2
    assert np.array_equal(chosen[0]["x"], ITEMS[2])
    assert len(Samples(path, keys=["/images/1"])) == 1


def test_by_default_each_leaf_is_a_sample(tmp_path: Path, mmap_mode: str | None) -> None:
    """Groups of a tree are none, whatever their names are."""
    path = str(tmp_path / "x.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/a/ct/deep"] = ITEMS[0]
        store["/b/ct"] = ITEMS[1]
        store["/b/c/ct"] = ITEMS[2]
    with blosc2.open(path, mode="r", mmap_mode=mmap_mode) as store:
        assert sorted(Samples(store)._source.keys) == ["/a/ct/deep", "/b/c/ct", "/b/ct"]
        below = Samples(store["/b"])
        assert sorted(int(sample.sum()) for sample in below) == sorted(int(ITEMS[n].sum()) for n in (1, 2))
        assert sorted(Samples(store, ["ct"])._source.keys) == ["/b", "/b/c"]
        assert sorted(Samples(store["/b"], {"x": "{}ct"})._source.keys) == ["/", "/c/"]


def test_slashes_of_names_and_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "x.b2z")
    for fields, keys in ((["/image"], None), (["image/"], ["/0/", "1"]), ({"image": "/{}/image"}, ["/0/", "1"])):
        samples = Samples(path, fields, keys=keys)
        assert list(samples[1]) == ["image"]
        assert np.array_equal(samples.read_batch([1, 0])["image"], ITEMS[[1, 0]])
    with pytest.raises(TypeError, match="keys must be a sequence of keys, not the string '/0'"):
        Samples(path, ["image"], keys="/0")


def test_samples_on_a_server(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    name = "/loading-of-samples.b2z"
    server = fsspec.filesystem("memory")
    server.pipe(name, Path(write(tmp_path / "x.b2z")).read_bytes())
    try:
        samples = Samples(f"memory:/{name}", ["image", "label"])
        assert np.array_equal(samples.read_batch([8, 3])["image"], ITEMS[[8, 3]])
        samples._source.store.close()
    finally:
        server.rm(name)


def test_samples_are_shown(tmp_path: Path) -> None:
    assert (
        repr(Samples(write(tmp_path / "x.b2z"), ["image", "/label"])) == "Samples(9 samples, fields 'image', 'label')"
    )
    assert repr(Samples(blosc2.asarray(ITEMS))) == f"Samples({len(ITEMS)} samples)"


def test_rows_of_arrays(tmp_path: Path, mmap_mode: str | None) -> None:
    path = str(tmp_path / "x.b2nd")
    blosc2.asarray(ITEMS, urlpath=path, chunks=(4, 4, 5), blocks=(2, 2, 5))
    images = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    samples = Samples({"image": images, "label": blosc2.asarray(LABELS)})
    batch = samples.read_batch([7, 7, 2])
    assert np.array_equal(batch["image"], ITEMS[[7, 7, 2]])
    assert batch["label"].tolist() == [77, 77, 22]
    alone = pickle.loads(pickle.dumps(Samples(images)))
    assert np.array_equal(alone[-9], ITEMS[0])
    assert [row.tolist() for row in alone.__getitems__([1])] == [ITEMS[1].tolist()]
    scalars = Samples(blosc2.asarray(LABELS))
    assert scalars[2] == 22


def test_transforms() -> None:
    arrays = {"image": blosc2.asarray(ITEMS), "label": blosc2.asarray(LABELS)}
    samples = Samples(arrays, transform=lambda sample: (sample["image"] * 2, float(sample["label"])))
    image, label = samples[4]
    assert np.array_equal(image, ITEMS[4] * 2)
    assert label == 44
    images, labels = samples.read_batch([1, 3])
    assert np.array_equal(images, ITEMS[[1, 3]] * 2)
    assert labels.tolist() == [11, 33]
    drawn = Samples(arrays["label"], transform=lambda _, rng: rng.random(), rng=True, seed=4)
    first = drawn.read_batch([(0, 3), (1, 3), (0, 4), (0, 3)])
    assert first[0] == first[3]
    assert len(set(first)) == 3
    assert drawn[3] == first[0]
    assert Samples(arrays["label"], transform=drawn.transform, rng=True, seed=5)[3] != first[0]


def test_errors_of_transforms_name_the_sample(tmp_path: Path) -> None:
    def fail(sample: Any) -> Any:
        raise RuntimeError("no")

    samples = Samples(write(tmp_path / "x.b2z"), ["image"], transform=fail)
    with pytest.raises(RuntimeError, match="no") as raised:
        samples[4]
    assert "'/4/image'" in raised.value.__notes__[0] or "'/4'" in raised.value.__notes__[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_another_shape(kind: str, tmp_path: Path, mmap_mode: str | None) -> None:
    store = blosc2.open(write(tmp_path / f"x{kind}"), mode="r", mmap_mode=mmap_mode)
    samples = Samples(store, ["points"])
    with pytest.raises(ValueError, match=r"sample 7: key '/7/points' has shape \(7, 2\).*sample 0, '/0/points'"):
        samples.read_batch([0, 7])
    with pytest.raises(ValueError, match=r"sample 3: key '/3/points' .* sample 7, '/7/points'.*collate_fn=list"):
        samples.read_batch([7, 7, 3])
    sums = Samples(store, ["points"], transform=lambda sample: sample["points"].sum())
    assert sums.read_batch([0, 7, 2]).tolist() == [0, 98, 8]


@pytest.mark.parametrize("kind", KINDS)
def test_samples_of_unlike_shapes_where_nothing_is_stacked(kind: str, tmp_path: Path, mmap_mode: str | None) -> None:
    store = blosc2.open(write(tmp_path / f"x{kind}"), mode="r", mmap_mode=mmap_mode)
    samples = Samples(store, ["points", "label"])
    assert samples[7]["points"].tolist() == [[7, 7]] * 7
    assert [sample["points"].shape for sample in samples] == [(n, 2) for n in range(9)]
    several = samples.__getitems__([7, 2])
    assert [(sample["points"].shape, int(sample["label"])) for sample in several] == [((7, 2), 77), ((2, 2), 22)]
    assert several.whole is None
    # Samples of another shape than the first, but of one shape, do fit.
    assert samples.read_batch([7, 7])["points"].shape == (2, 7, 2)
    assert samples.read_batch([3])["points"].tolist() == [[[3, 3]] * 3]


def test_what_a_transform_makes_that_does_not_fit(tmp_path: Path) -> None:
    samples = Samples(write(tmp_path / "x.b2z"), ["points"], transform=lambda sample: sample["points"])
    with pytest.raises(ValueError, match=r"shapes \(2, 2\) and \(3, 2\) do not fit into one batch.*batch_size=None"):
        samples.read_batch([2, 3])


# ---------------------------------------------------------------------- labels
def test_labels_in_memory() -> None:
    """Arrays of NumPy, lists, and tables beside arrays."""
    images = blosc2.asarray(ITEMS)
    names = np.array([f"class {n % 3}" for n in range(9)])
    table = np.array([(n, n / 2) for n in range(9)], [("id", "i4"), ("age", "f4")])
    samples = Samples({"image": images, "label": LABELS, "name": names, "age": table["age"], "row": list(range(9))})
    assert repr(samples) == "Samples(9 samples, fields 'image', 'label', 'name', 'age', 'row')"
    batch = samples.read_batch([7, 0, -1])
    assert list(batch) == ["image", "label", "name", "age", "row"]
    assert np.array_equal(batch["image"], ITEMS[[7, 0, -1]])
    assert batch["label"].tolist() == [77, 0, 88]
    assert batch["name"].tolist() == ["class 1", "class 0", "class 2"]
    assert batch["age"].tolist() == [3.5, 0, 4]
    assert batch["row"].tolist() == [7, 0, 8]
    assert samples[3]["label"] == 33
    copied = pickle.loads(pickle.dumps(samples))
    assert copied[4]["name"] == "class 1"
    assert Samples(ITEMS).read_batch([2, 5]).tolist() == ITEMS[[2, 5]].tolist()
    assert Samples({"label": LABELS, "image": images}, transform=lambda sample: int(sample["label"]))[5] == 55


@pytest.mark.parametrize("kind", KINDS)
def test_labels_beside_a_store(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"x{kind}")
    by_key = {f"/{n}": n * 2 for n in range(12)}
    given = [LABELS, LABELS.tolist(), blosc2.asarray(LABELS), by_key, {str(n): n * 2 for n in range(9)}]
    for labels in given:
        wanted = [14, 0] if isinstance(labels, dict) else [77, 0]
        samples = Samples(path, {"target": labels, "image": "{}/image"})
        assert list(samples[7]) == ["target", "image"]
        batch = samples.read_batch([7, 0])
        assert batch["target"].tolist() == wanted
        assert np.array_equal(batch["image"], ITEMS[[7, 0]])
        assert pickle.loads(pickle.dumps(samples)).read_batch([7, 0])["target"].tolist() == wanted
    table = np.array([(b"5", 1), (b"2", 0)], [("id", "S3"), ("label", "i8")])
    chosen = Samples(path, {"points": "/{}/points", "label": table["label"]}, keys=table["id"])
    assert [(int(one["label"]), one["points"].shape) for one in chosen] == [(1, (5, 2)), (0, (2, 2))]


def test_labels_that_are_a_leaf_of_the_store(tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        for n in range(9):
            store[f"/images/{n}"] = ITEMS[n]
        store["/labels"] = LABELS
    with blosc2.open(path, mode="r") as store:
        samples = Samples(store, {"image": "/images/{}", "label": store["/labels"]})
        assert samples.read_batch([3, 8])["label"].tolist() == [33, 88]


def test_labels_of_tables_of_pandas(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    path = write(tmp_path / "x.b2z")
    table = pandas.DataFrame({"id": [str(8 - n) for n in range(9)], "label": [f"kind {8 - n}" for n in range(9)]})
    in_its_order = Samples(path, {"image": "{}/image", "label": table["label"]}, keys=table["id"])
    assert in_its_order[0]["label"] == "kind 8"
    assert np.array_equal(in_its_order[0]["image"], ITEMS[8])
    by_key = Samples(path, {"image": "{}/image", "label": table.set_index("id")["label"]})
    assert by_key.read_batch([0, 3])["label"].tolist() == ["kind 0", "kind 3"]
    assert Samples({"image": blosc2.asarray(ITEMS), "label": table["label"]})[1]["label"] == "kind 7"


def test_labels_that_do_not_fit(tmp_path: Path) -> None:
    path = write(tmp_path / "x.b2z")
    for labels, error, text in (
        (LABELS[:4], ValueError, "field 'label': 4 values, and there are 9 samples"),
        ({"3": 1}, ValueError, "field 'label': no value for 8 of 9 samples, as '0'"),
        ({"3": 1, "/3": 2}, ValueError, "field 'label': a key has more than one value"),
        (7, TypeError, "field 'label': an NDArray or an array of NumPy is needed, not int"),
        (np.float64(3), ValueError, "field 'label': a 0-d array has no rows"),
    ):
        with pytest.raises(error, match=text):
            Samples(path, {"image": "{}/image", "label": labels})
    with pytest.raises(ValueError, match="no field is read of the store"):
        Samples(path, {"label": LABELS})
    with pytest.raises(TypeError, match=r"field 'mask': patches are read of an NDArray.*blosc2\.asarray"):
        blosc2.PatchSampler({"image": blosc2.asarray(ITEMS), "mask": ITEMS}, (2, 2)).read_batch([0])


def test_what_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "x.b2z")
    with pytest.raises(KeyError, match="sample '/3' has no '/3/mask'"):
        Samples(path, ["image", "mask"], keys=["/3"])
    with pytest.raises(KeyError, match="has no '/0/mask'"):
        Samples(path, ["image", "mask"])
    with pytest.raises(ValueError, match="there are no samples"):
        Samples(path, ["mask"])
    samples = Samples(path, ["image"])
    for wrong in (9, -10):
        with pytest.raises(IndexError, match=f"sample {wrong} of a dataset of 9"):
            samples[wrong]
    with pytest.raises(TypeError):
        samples["image"]  # type: ignore[index]
    with pytest.raises(ValueError, match="at least one"):
        samples.read_batch([])
    with blosc2.TreeStore(str(tmp_path / "y.b2z"), mode="w") as store:
        store["/a"] = blosc2.SChunk(data=b"123")
        store["/b"] = ITEMS
    with pytest.raises(TypeError, match="'/a' is a SChunk"):
        Samples(str(tmp_path / "y.b2z"))


def test_wrong_arguments(tmp_path: Path) -> None:
    array = blosc2.asarray(ITEMS)
    for arguments, error, text in (
        (({"a": array, "b": blosc2.asarray(LABELS[:4])},), ValueError, "field 'b': 4 rows"),
        (({"a": array, "b": "text"},), TypeError, "field 'b': an NDArray or an array of NumPy is needed, not str"),
        (({"a": array, "b": [None] * 9},), TypeError, "field 'b': numbers or texts are needed, not items of object"),
        (({"a": array, "b": range(9)},), TypeError, "not range"),
        (({"a": array, "b": np.ma.masked_equal(LABELS, 3)},), TypeError, "field 'b': the array has a mask"),
        (({"a": array, "b": ITEMS[:4]},), ValueError, "field 'b': 4 rows"),
        (({},), ValueError, "no arrays"),
        ((array, ["image"]), ValueError, "are for stores"),
        ((blosc2.asarray(3),), ValueError, "a 0-d array has no rows"),
        ((blosc2.zeros((0, 3)),), ValueError, "there are no samples: the arrays have no rows"),
        (({"a": blosc2.zeros(0)},), ValueError, "there are no samples"),
        ((7,), TypeError, "not from int"),
        ((write(tmp_path / "x.b2z"), "image"), TypeError, "not the string"),
        ((str(tmp_path / "x.b2z"), []), ValueError, "fields is empty"),
        ((str(tmp_path / "x.b2z"), {"a": "{}/{}"}), ValueError, "more than one"),
    ):
        with pytest.raises(error, match=text):
            Samples(*arguments)
    with pytest.raises(ValueError, match="keys is empty"):
        Samples(str(tmp_path / "x.b2z"), ["image"], keys=[])
    with pytest.raises(ValueError, match="rng=True"):
        Samples(array, rng=True)
    with pytest.raises(TypeError, match="callable"):
        Samples(array, transform=3)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- one version
@pytest.mark.parametrize("kind", [".b2z", ".b2e"])
def test_a_store_that_was_replaced(kind: str, tmp_path: Path, mmap_mode: str | None) -> None:
    """An open dataset shows the old version; one that is opened by its pickle says that the file is another one."""
    path = write(tmp_path / f"x{kind}")
    samples = Samples(blosc2.open(path, mode="r", mmap_mode=mmap_mode), ["image"])
    pickled = pickle.dumps(samples)
    assert np.array_equal(pickle.loads(pickled)[1]["image"], ITEMS[1])
    make: Any = blosc2.EmbedStore if kind == ".b2e" else blosc2.TreeStore
    with make(str(tmp_path / f"y{kind}"), mode="w") as store:
        for n in range(9):
            store[f"/{n}/image"] = ITEMS[n] + 1
    os.replace(tmp_path / f"y{kind}", path)
    assert np.array_equal(samples[2]["image"], ITEMS[2])
    other = pickle.loads(pickled)
    with pytest.raises(blosc2.StaleHandleError, match="changed or refreshed since its samples were listed") as raised:
        other[2]
    assert path in str(raised.value)
    samples._source.store.refresh()
    with pytest.raises(blosc2.StaleHandleError, match="refreshed"):
        samples.read_batch([2])
    assert np.array_equal(Samples(path, ["image"])[2]["image"], ITEMS[2] + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_was_changed(kind: str, tmp_path: Path, mmap_mode: str | None) -> None:
    path = write(tmp_path / f"x{kind}")
    samples = Samples(blosc2.open(path, mode="r", mmap_mode=mmap_mode), ["image"])
    make: Any = blosc2.EmbedStore if kind == ".b2e" else blosc2.TreeStore
    with make(path, mode="a") as store:
        store["/2/image"] = ITEMS[2] + 1
        store["/big"] = np.arange(10**5)
    for number in range(9):
        if kind == ".b2d" and number == 2:
            # It has a file of its own.
            with pytest.raises(blosc2.StaleHandleError, match="/2/image"):
                samples[number]
        else:
            assert np.array_equal(samples[number]["image"], ITEMS[number])


def test_a_leaf_file_that_was_replaced(tmp_path: Path) -> None:
    """The leaves of a `.b2d` are files: one that is new is refused."""
    path = str(tmp_path / "x.b2d")
    large = np.random.default_rng(0).integers(0, 256, (3, 100_000)).astype("u1")
    with blosc2.TreeStore(path, mode="w") as store:
        for n in range(3):
            store[f"/{n}"] = large[n]
    samples = Samples(path)
    assert np.array_equal(samples[1], large[1])
    with blosc2.TreeStore(path, mode="a") as store:
        store["/1"] = large[1] + 1
    assert np.array_equal(samples[0], large[0])
    with pytest.raises(blosc2.StaleHandleError, match="/1"):
        samples.read_batch([0, 1])


@pytest.mark.parametrize("how", ["rename", "group", "move", "folder", "link"])
def test_leaf_files_that_were_written_before(how: str, tmp_path: Path) -> None:
    """They come into the place of others, whose names they get, with times from before the samples were listed."""
    path, other = str(tmp_path / "x.b2d"), str(tmp_path / "y.b2d")
    large = np.random.default_rng(0).integers(0, 256, (3, 100_000)).astype("u1")
    for folder, add in ((path, 0), (other, 1)):
        with blosc2.TreeStore(folder, mode="w") as store:
            for n in range(3):
                store[f"/{n}/image"] = large[n] + add
                store[f"/prepared/{n}/image"] = large[n] + add + 1
    opened = path
    if how == "link":
        opened = str(tmp_path / "link.b2d")
        os.symlink(path, opened)
    time.sleep(0.05)
    made = [
        Samples(opened, ["image"], keys=["0", "1", "2"]),
        blosc2.PatchSampler(opened, (100_000,), fields=["image"], keys=["0", "1", "2"]),
    ]
    pickled = pickle.dumps(made)
    for one in made:
        assert np.array_equal(np.sort(one.read_batch(range(3))["image"], 0), np.sort(large, 0))
    if how in ("rename", "group"):
        part = "/image" if how == "rename" else ""
        with blosc2.TreeStore(path, mode="a") as store, store.transaction():
            del store["/1/image"]
            store.rename(f"/prepared/1{part}", f"/1{part}")
    elif how == "move":
        os.replace(os.path.join(other, "1/image.b2nd"), os.path.join(path, "1/image.b2nd"))
    elif how == "folder":
        os.rename(path, str(tmp_path / "former.b2d"))
        os.rename(other, path)
    else:
        os.symlink(other, opened + ".new")
        os.replace(opened + ".new", opened)
    for one in made + pickle.loads(pickled):
        with pytest.raises(blosc2.StaleHandleError, match=r"since (its|the) samples were listed"):
            one.read_batch(range(3))


def test_a_store_that_is_gone(tmp_path: Path) -> None:
    path = write(tmp_path / "x.b2z")
    pickled = pickle.dumps(Samples(path, ["image"]))
    os.unlink(path)
    for numbers in ([1], [1, 2]):
        with pytest.raises(OSError, match=r"x\.b2z"):
            pickle.loads(pickled).read_batch(numbers)


def test_an_array_that_is_changed_meanwhile(tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2nd")
    array = blosc2.asarray(ITEMS, urlpath=path, chunks=(1, 4, 5))
    samples = Samples(array)
    pickled = pickle.dumps(samples)
    array[2] = 0
    assert np.array_equal(samples[2], ITEMS[2])
    with pytest.raises(blosc2.StaleHandleError, match="changed since this handle was pickled"):
        pickle.loads(pickled)[2]


@pytest.mark.parametrize("where", ["memory", "file", "refreshed"])
def test_an_array_that_was_changed_before_it_is_pickled(where: str, tmp_path: Path) -> None:
    """Here the dataset shows the former version; what is pickled would be the newer one."""
    path = None if where == "memory" else str(tmp_path / "x.b2nd")
    array = blosc2.asarray(ITEMS, urlpath=path, chunks=(1, 4, 5))
    if where == "refreshed":
        array = blosc2.open(path)
    samples = Samples({"a": array, "b": blosc2.asarray(ITEMS)})
    assert np.array_equal(pickle.loads(pickle.dumps(samples))[2]["a"], ITEMS[2])
    if where == "refreshed":
        blosc2.open(path, mode="a")[2] = 0
        assert array.refresh()
    else:
        array[2] = 0
    assert np.array_equal(samples[2]["a"], ITEMS[2])
    other = pickle.loads(pickle.dumps(samples))
    for one in (other, pickle.loads(pickle.dumps(other))):
        with pytest.raises(blosc2.StaleHandleError, match="field 'a': the array was changed or refreshed"):
            one[2]
    assert np.array_equal(pickle.loads(pickle.dumps(Samples(array)))[2], np.zeros_like(ITEMS[2]))


def test_an_array_that_follows_others(tmp_path: Path) -> None:
    """In this process, samples are of one version; another one would begin with a version of its own."""
    path = str(tmp_path / "x.b2nd")
    blosc2.asarray(ITEMS, urlpath=path, chunks=(1, 4, 5))
    samples = Samples(blosc2.open(path, locking=True))
    blosc2.open(path, mode="a", locking=True)[2] = 0
    assert np.array_equal(samples[2], ITEMS[2])
    with pytest.raises(ValueError, match="without locking=True"):
        pickle.dumps(samples)


def test_stores_that_may_change(tmp_path: Path) -> None:
    path = write(tmp_path / "x.b2z")
    with (
        blosc2.TreeStore(path, mode="a") as store,
        pytest.raises(ValueError, match="may change while samples are read"),
    ):
        Samples(store)
    with (
        blosc2.TreeStore(path, mode="r", locking=True) as store,
        pytest.raises(ValueError, match="without locking=True"),
    ):
        Samples(store)


def test_damaged_samples_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    noise = np.random.default_rng(0).integers(0, 256, (4, 20_000)).astype("u1")
    with blosc2.TreeStore(str(path), mode="w") as store:
        for n in range(4):
            store[f"/{n}"] = blosc2.asarray(noise[n] % 16)
    with blosc2.open(str(path), mode="r") as store:
        offset, length = store.member_window("/2")[:2] if hasattr(store, "member_window") else (0, 0)
    content = bytearray(path.read_bytes())
    content[offset + 100 : offset + length - 60] = bytes(length - 160)
    path.write_bytes(content)
    samples = Samples(str(path))
    with pytest.raises(blosc2.FormatError, match="/2"):
        samples.read_batch([0, 1, 2])
    assert np.array_equal(samples.read_batch([0, 1, 3]), noise[[0, 1, 3]] % 16)


def test_series_of_numbers_are_looked_up_by_their_index(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is an extra")
    path = str(tmp_path / "c.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        for number in (7, 12, 101):
            store[f"/{number}/ct"] = np.full((2, 2), number)
    table = pandas.DataFrame({"id": [7, 12, 101], "label": [70, 120, 1010]})

    def pairs(labels: Any, **how: Any) -> dict[int, int]:
        samples = blosc2.Samples(path, {"ct": "{}/ct", "label": labels}, **how)
        return {int(samples[i]["ct"][0, 0]): int(samples[i]["label"]) for i in range(len(samples))}

    right = {7: 70, 12: 120, 101: 1010}
    assert pairs(table.set_index("id")["label"]) == right
    assert pairs(table["label"], keys=table["id"].astype(str)) == right
    some = table[table["id"] > 7]
    assert pairs(some["label"], keys=some["id"].astype(str)) == {12: 120, 101: 1010}
    with pytest.raises(ValueError, match=r"no value for 1 of 3 samples, as '7'; its index says the keys"):
        pairs(table.set_index("id")["label"].rename(index={7: 8}))
    with pytest.raises(ValueError, match="'label': no value for 1 samples, as '12'"):
        pairs(table.set_index("id")["label"].astype(float).replace(120, np.nan))
    with pytest.raises(ValueError, match="no value for 1 of 3 samples, as '12'"):
        pairs({"7": 1.0, "12": float("nan"), "101": 3.0})


def test_series_whose_numbers_are_a_range(tmp_path: Path) -> None:
    """pandas makes one of ids in steps; keys are in the order of texts."""
    pandas = pytest.importorskip("pandas", reason="pandas is an extra")
    path = str(tmp_path / "c.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        for number in range(1, 13):
            store[f"/{number}/ct"] = np.full((2, 2), number)
    table = pandas.DataFrame({"id": range(1, 13), "y": range(1, 13), "z": range(1, 13)}).set_index("id")
    for columns in ("y", ["y", "z"]):
        samples = blosc2.Samples(path, {"ct": "{}/ct", "y": table[columns]})
        assert all((sample["y"] == sample["ct"][0, 0]).all() for sample in samples)
    known = [str(number) for number in range(1, 13)]
    for labels in (table["y"], table["y"].to_dict()):
        samples = blosc2.Samples(path, {"ct": "{}/ct", "y": labels}, keys=known)
        assert all(sample["y"] == sample["ct"][0, 0] for sample in samples)
    for labels, keys in ((table["y"], known[::-1]), (pandas.Series(range(1, 14)), None)):
        with pytest.raises(ValueError, match=r"values\.to_dict\(\) .* values\.to_numpy\(\)"):
            blosc2.Samples(path, {"ct": "{}/ct", "y": labels}, keys=keys)
    with pytest.raises(ValueError, match="no value for 1 samples, as '3'"):
        blosc2.Samples(path, {"ct": "{}/ct", "y": table[["y", "z"]].astype(float).replace(3, np.nan)})


def test_keys_have_one_form(tmp_path: Path) -> None:
    """Whether they were found or given; and labels may have either."""
    path = str(tmp_path / "keys.b2z")
    with blosc2.TreeStore(path, mode="w") as made:
        for name in ("000", "001"):
            made[f"/{name}/ct"] = np.arange(3)
    names = ("000", "001")
    for given in (None, names, [f"/{name}" for name in names]):
        for slash in ("", "/"):
            labels = {f"{slash}{name}": number for number, name in enumerate(names)}
            samples = Samples(path, {"ct": "{}/ct", "label": labels}, keys=given)
            assert samples.keys == names
            assert samples.read_batch([1, 0])["label"].tolist() == [1, 0]
    with blosc2.open(path) as store:
        assert [store[f"{key}/ct"].shape for key in samples.keys] == [(3,), (3,)]


def test_a_list_of_numbers_is_a_batch() -> None:
    samples = Samples(blosc2.asarray(np.arange(12).reshape(6, 2)))
    np.testing.assert_array_equal(samples[[4, 0]], samples.read_batch([4, 0]))
    np.testing.assert_array_equal(samples[[(1, 4)]], samples.read_batch([(1, 4)]))
    with pytest.raises(IndexError):
        samples[[6]]
