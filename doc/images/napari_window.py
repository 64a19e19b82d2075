"""Make the picture of napari: python doc/images/napari_window.py (it needs napari with a Qt backend, and OpenGL).

The plug-in is found where the package is installed; otherwise it is registered here.
"""

from __future__ import annotations

import tempfile
from importlib import import_module, resources
from pathlib import Path

import numpy as np

import blosc2
from blosc2._tools.demo import pyramid

HERE = Path(__file__).resolve().parent


def make(path: Path) -> None:
    """A pyramid of a volume with a mask."""
    z, y, x = np.ogrid[-1:1:80j, -1:1:256j, -1:1:256j]
    radius = np.sqrt(z**2 + (1.2 * y) ** 2 + x**2)
    noise = np.random.default_rng(0).normal(0, 20, radius.shape)
    scan = (900 * (radius < 0.8) - 500 * (radius < 0.7) + 250 * np.cos(9 * x * y) * (radius < 0.7) + noise).astype("i2")
    with blosc2.TreeStore(str(path), mode="w") as tree:
        for number, level in enumerate(pyramid(scan, 3)):
            tree[f"/patient/ct/level{number}"] = blosc2.asarray(level, layout="planes")
        tree.get_subtree("/patient").attrs.update({"axes": ["z", "y", "x"], "voxel_sizes": [2.5, 1.0, 1.0]})
        tree["/patient/mask"] = ((radius < 0.5) & (x > 0)).astype("u1")


def main() -> None:
    """Open a store in the viewer, and save what the window shows."""
    napari, npe2 = import_module("napari"), import_module("npe2")
    manager = npe2.PluginManager.instance()
    if "python-blosc2" not in manager:
        manifest = resources.files("blosc2._tools.integrations") / "napari.yaml"
        manager.register(npe2.PluginManifest.from_file(str(manifest)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.b2z"
        make(path)
        viewer = napari.Viewer(show=False)
        viewer.window.resize(1100, 700)
        viewer.open(str(path), plugin="python-blosc2")
        viewer.layers["patient/mask"].visible = True
        viewer.layers["patient/mask"].opacity = 0.4
        viewer.dims.set_point(0, 100)
        viewer.reset_view()
        for _ in range(20):
            viewer.window._qt_window.repaint()
            napari.qt.get_qapp().processEvents()
        viewer.screenshot(str(HERE / "napari.png"), canvas_only=False, flash=False)
        viewer.close()


if __name__ == "__main__":
    main()
