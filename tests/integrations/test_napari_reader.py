"""The reader of napari: which layers it makes, and that they have the items of NumPy's arrays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._tools.demo import pyramid
from blosc2._tools.integrations.napari_reader import get_reader, read

pytest.importorskip("dask.array")

SOURCE = Path(__file__).resolve().parents[2] / "src" / "blosc2" / "_tools" / "integrations"
SCAN = np.random.default_rng(1).integers(0, 200, (40, 36, 20, 3)).astype("i2")
PHOTO = np.random.default_rng(2).integers(0, 255, (100, 60, 3)).astype("u1")


def study(path: Path) -> str:
    """A store with pyramids as the demo has them, and other leaves."""
    with blosc2.TreeStore(str(path), mode="w") as store:
        for key, image, spatial in (("/mri", SCAN, 3), ("/photos/cat", PHOTO, 2)):
            for number, level in enumerate(pyramid(image, spatial)):
                store[f"{key}/level{number}"] = level
        store.get_subtree("/mri").attrs.update({"axes": ["x", "y", "z", "time"], "voxel_sizes": [1.0, 2.0, 3.5]})
        store.get_subtree("/photos/cat").attrs["axes"] = ["row", "column", "colour"]
        store["/plain/ct"] = np.arange(60.0).reshape(3, 4, 5)
        store["/plain/mask"] = np.arange(60).reshape(3, 4, 5) % 3 == 0
        store["/plain/ages"] = np.arange(9)
        store["/plain/names"] = np.array([["a", "b"]])
        store["/plain/none"] = np.zeros((0, 4))
        store["/plain/list"] = blosc2.ObjectArray()
    return str(path)


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_layers_of_a_store(tmp_path: Path, suffix: str) -> None:
    path = study(tmp_path / f"study{suffix}")
    reader = get_reader(path)
    assert reader is not None
    layers = {keywords["name"]: (data, keywords, kind) for data, keywords, kind in reader(path)}
    assert sorted(layers) == ["mri", "photos/cat", "plain/ct", "plain/mask"]
    assert [kind for _, _, kind in layers.values()] == ["image", "image", "image", "labels"]
    assert [keywords.get("visible", True) for _, keywords, _ in layers.values()] == [True, False, False, False]

    data, keywords, _ = layers["mri"]
    assert keywords["axis_labels"] == ("time", "z", "y", "x")
    assert keywords["scale"] == [1.0, 3.5, 2.0, 1.0]
    assert keywords["multiscale"]
    assert data[0].shape == (3, 20, 36, 40)
    smallest = list(pyramid(SCAN, 3))[-1]
    assert keywords["contrast_limits"] == (smallest.min(), smallest.max())
    for found, level in zip(data, pyramid(SCAN, 3), strict=True):
        np.testing.assert_array_equal(np.asarray(found), level.transpose(3, 2, 1, 0), strict=True)

    data, keywords, _ = layers["photos/cat"]
    assert (keywords["rgb"], keywords["axis_labels"]) == (True, ("row", "column"))
    for found, level in zip(data, pyramid(PHOTO, 2), strict=True):
        np.testing.assert_array_equal(found[...], level)

    data, keywords, _ = layers["plain/ct"]
    assert not keywords["multiscale"]
    mask = np.arange(60).reshape(3, 4, 5) % 3 == 0
    np.testing.assert_array_equal(layers["plain/mask"][0][1:, 2], mask[1:, 2].astype("u1"), strict=True)
    np.testing.assert_array_equal(data[1], np.arange(60.0).reshape(3, 4, 5)[1])


def test_one_array(tmp_path: Path) -> None:
    path = str(tmp_path / "plane.b2nd")
    blosc2.asarray(np.arange(12).reshape(3, 4), urlpath=path, mode="w").vlmeta["_ARRAY_DIMENSIONS"] = ["y", "x"]
    ((data, keywords, kind),) = read([path])
    assert (keywords["name"], keywords["axis_labels"], kind) == ("plane", ("y", "x"), "image")
    np.testing.assert_array_equal(data[...], np.arange(12).reshape(3, 4))
    blosc2.asarray(np.arange(12), urlpath=path, mode="w")
    assert read(path) == []


def test_axes_of_tiff_files(tmp_path: Path) -> None:
    for axes, items, shown, rgb in (
        ("XYC", SCAN[..., 0], ("c", "y", "x"), None), ("YXS", PHOTO, ("y", "x"), True),
    ):  # fmt: skip
        path = str(tmp_path / f"{axes}.b2nd")
        blosc2.asarray(items, urlpath=path).vlmeta["axes"] = axes
        ((data, keywords, _),) = read(path)
        assert (keywords["axis_labels"], keywords.get("rgb")) == (shown, rgb)
        np.testing.assert_array_equal(data[...], items if rgb else items.transpose(2, 1, 0))


def test_what_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "a.tif").touch()
    for path in (str(tmp_path / "a.tif"), str(tmp_path / "none.b2z"), [str(tmp_path / "a.b2z")] * 2):
        assert get_reader(path) is None


def test_numbered_leaves_that_are_no_pyramid(tmp_path: Path) -> None:
    path = str(tmp_path / "slices.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        for number in range(3):
            store[f"/slices/{number}"] = np.full((4, 5), number)
    layers = read(path)
    assert [keywords["name"] for _, keywords, _ in layers] == ["slices/0", "slices/1", "slices/2"]


def test_how_bright_a_large_image_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an image that is not read as a whole, the middle tells; of one value, or of nothing but NaN, nothing does."""
    monkeypatch.setattr("blosc2._tools.integrations.napari_reader._LARGE", 1000)
    items = np.arange(10 * 11 * 12, dtype="f4").reshape(10, 11, 12)
    items[5, 0, 0] = np.nan
    items[5, 0, 1] = np.inf
    for number, (array, wanted) in enumerate((
        (items, (5 * 132 + 2, 6 * 132 - 1)), (np.full((3, 4), np.nan), None), (np.full((3, 4), 7), None),
    )):  # fmt: skip
        path = str(tmp_path / f"{number}.b2nd")
        blosc2.asarray(array, urlpath=path, mode="w")
        ((_, keywords, _),) = read(path)
        assert keywords.get("contrast_limits") == wanted


def test_a_store_of_very_many_images(tmp_path: Path) -> None:
    path = str(tmp_path / "many.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store.write_many((f"/tile/t{number:05}x", np.zeros((4, 4))) for number in range(500))
    with pytest.warns(UserWarning, match="more than 32 images"):
        layers = read(path)
    assert len(layers) == 32


@pytest.mark.parametrize("attributes", [{"axes": 3}, {"axes": ["x"]}, {"axes": ["x", "x"]}, {"voxel_sizes": ["a", 0]}])
def test_attributes_that_mean_something_else(tmp_path: Path, attributes: dict[str, Any]) -> None:
    path = str(tmp_path / "plane.b2nd")
    array = blosc2.asarray(np.arange(12).reshape(3, 4), urlpath=path, mode="w")
    array.vlmeta.update({"axes": ["y", "x"], **attributes})
    ((data, keywords, _),) = read(path)
    assert data.shape == (3, 4)
    assert "scale" not in keywords


def test_the_manifest() -> None:
    npe2 = pytest.importorskip("npe2")
    manifest = npe2.PluginManifest.from_file(SOURCE / "napari.yaml")
    manifest.validate_imports()
    assert manifest.contributions.readers[0].command == "python-blosc2.read"


def test_napari_shows_it(tmp_path: Path) -> None:
    """The viewer itself, without a screen, in a process of its own."""
    pytest.importorskip("napari")
    path = study(tmp_path / "study.b2z")
    code = f"""
import napari
from npe2 import PluginManager, PluginManifest
manager = PluginManager.instance()
if "python-blosc2" not in manager:
    manager.register(PluginManifest.from_file({str(SOURCE / "napari.yaml")!r}))
model = napari.components.ViewerModel()
layers = model.open({path!r}, plugin="python-blosc2")
for layer in layers:
    print(layer.name, type(layer).__name__, layer.multiscale)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines[:4]] == [
        ["mri", "Image", "True"], ["photos/cat", "Image", "True"], ["plain/ct", "Image", "False"],
        ["plain/mask", "Labels", "False"],
    ]  # fmt: skip
