"""One array by mlarray or by PyTables, beside this package: ``python beside_cases.py mlarray|tables FOLDER``."""

from __future__ import annotations

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


if __name__ == "__main__":
    {"mlarray": mlarray, "tables": tables}[sys.argv[1]](Path(sys.argv[2]))
