"""One program beside this package, in a folder: ``python beside_cases.py PROGRAM FOLDER``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ITEMS = np.arange(40 * 50 * 60, dtype="i4").reshape(40, 50, 60) // 7


def mlarray(folder: Path) -> None:
    """Save and load an image, whole and mapped; the file is one that this package opens, too."""
    from mlarray import MLArray

    import blosc2

    path = folder / "image.mla"
    MLArray(ITEMS, spacing=(1.0, 0.5, 0.5)).save(path)
    assert path.stat().st_size < ITEMS.nbytes / 2
    for image in (MLArray.load(path), MLArray.open(path)):
        np.testing.assert_array_equal(image[:], ITEMS)
        np.testing.assert_array_equal(image[3:9, :, 5], ITEMS[3:9, :, 5])
        assert list(image.spacing) == [1.0, 0.5, 0.5]
    np.testing.assert_array_equal(blosc2.open(path)[...], ITEMS)


def tables(folder: Path) -> None:
    """Write and read by its filter `blosc2`, which has a C library of its own, while this package does the same."""
    import tables

    import blosc2

    path = folder / "items.h5"
    for codec in ("blosclz", "lz4", "zstd"):
        filters = tables.Filters(complevel=5, complib=f"blosc2:{codec}")
        with tables.open_file(path, "w") as file:
            file.create_carray("/", "items", obj=ITEMS, filters=filters)
        ours = blosc2.asarray(ITEMS, urlpath=folder / f"{codec}.b2nd")
        with tables.open_file(path) as file:
            assert file.root.items.filters.complib == f"blosc2:{codec}"
            assert file.root.items.size_on_disk < ITEMS.nbytes / 2
            np.testing.assert_array_equal(file.root.items[:], ITEMS)
            np.testing.assert_array_equal(file.root.items[3:9, :, 5], ours[3:9, :, 5])
    print("C-Blosc2 of PyTables:", tables.which_lib_version("blosc2")[1], "ours:", blosc2.blosclib_version)


def containerization(folder: Path) -> None:
    """Its first example: images of several shapes in containers, read back whole and as a patch."""
    from blosc2_containerization import ContainerReader, ContainerWriter

    rng = np.random.default_rng(1)
    images = {f"img_{n}": rng.random((1, n, 128, 128), "f4") for n in (64, 128, 127)}
    writer = ContainerWriter(str(folder / "store"), (1, 192, 192, 192), dtype=np.float32)
    for name, image in images.items():
        writer.register_image(name, image.shape)
    writer.create_containers()
    for name, image in images.items():
        writer.store_image(name, image)
    writer.save_storage()
    reader = ContainerReader(str(folder / "store"))
    assert set(reader.get_image_ids()) == set(images)
    for name, image in images.items():
        np.testing.assert_array_equal(reader.open_image(name)[:, :32, :, :64], image[:, :32, :, :64])
        patch = reader.load_patch(name, ((0, 1), (0, 64), (0, 128), (0, 128)))
        np.testing.assert_array_equal(patch, image[:, :64])


#: Opens what either package has written, by the name that both claim and by ours.
ENGINES = """
import sys, warnings
import xarray

warnings.simplefilter("ignore")  # xarray tells of two engines with one name
folder, packages = sys.argv[1], xarray.backends.list_engines()["blosc2"].__class__.__module__
for engine in ("blosc2", "blosc2", "python-blosc2"):
    with xarray.open_dataset(f"{folder}/ours.b2z", engine=engine, group="/a/b") as found:
        assert found.t.dims == ("time", "x") and found.t.values.sum() == 66, found
    if engine == "blosc2":
        for path in ("weather.b2", "frozen.b2z", "weather.b2/t.b2nd"):
            found = xarray.open_dataset(f"{folder}/{path}", engine=engine)
            assert found.t.dims == ("time", "x") and found.t.values.sum() == 66, found
print(packages)
"""


def shared_engine(folder: Path) -> None:
    """xarray-blosc2 and this package write; each of twelve processes opens all that was written."""
    import xarray
    import xarray_blosc2

    import blosc2

    weather = xarray.Dataset({"t": (("time", "x"), np.arange(12.0).reshape(3, 4))}, {"x": np.arange(4.0)})
    xarray_blosc2.save_dataset(weather, str(folder / "weather.b2"))
    xarray_blosc2.save_dataset(weather, str(folder / "frozen.b2"), freeze=True)
    blosc2.to_store(weather, folder / "ours.b2z", "/a/b")
    np.testing.assert_array_equal(xarray_blosc2.open(str(folder / "weather.b2")).t, weather.t)
    assert weather.t.b2.materialised_nbytes == 96  # its accessor
    taken = []
    for seed in range(12):
        env = {**os.environ, "PYTHONHASHSEED": str(seed)}
        done = subprocess.run(
            [sys.executable, "-c", ENGINES, folder.resolve()], env=env, check=True, capture_output=True, text=True
        )
        taken.append(done.stdout.strip().partition(".")[0])
    print("xarray took", ", ".join(f"{taken.count(name)} times {name}" for name in sorted(set(taken))))


CASES = {
    "mlarray": mlarray, "tables": tables, "blosc2-containerization": containerization, "xarray-blosc2": shared_engine,
}  # fmt: skip

if __name__ == "__main__":
    CASES[sys.argv[1]](Path(sys.argv[2]))
