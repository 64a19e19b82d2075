"""Make the pictures of what notebooks show: python doc/images/notebook.py (it needs Chromium)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import blosc2

COLOURS = {"light": "background:#fff;color:#222", "dark": "background:#111;color:#ddd"}


def store(path: Path) -> blosc2.TreeStore:
    """Scans of twelve patients, an atlas, and a split."""
    rng = np.random.default_rng(0)
    with blosc2.TreeStore(str(path), mode="w") as tree:
        for number in range(12):
            scan = rng.normal(0, 20, (40, 128, 128)) + np.linspace(0, 300, 128)
            tree[f"/patients/{number:03}/ct"] = scan.astype("i2")
            tree[f"/patients/{number:03}/mask"] = (scan > 200).astype("u1")
        tree["/atlas/mean"] = rng.normal(size=(64, 64, 64)).astype("f4")
        tree["/splits/train"], tree["/splits/test"] = np.arange(9), np.arange(9, 12)
    return blosc2.TreeStore(str(path), mode="r", mmap_mode="r")


def head() -> np.ndarray:
    """A skull with two ventricles, and noise, of 160 x 192 x 192 items."""
    z, y, x = np.ogrid[-1:1:160j, -1:1:192j, -1:1:192j]
    radius = np.sqrt(z**2 + (y / 0.95) ** 2 + (x / 0.8) ** 2)
    ventricles = z**2 / 0.1 + y**2 / 0.12 + (np.abs(x) - 0.18) ** 2 / 0.01 < 1
    scan = np.where(radius < 0.85, 40, np.where(radius < 0.95, 300, -100)) - 60 * ventricles
    return (scan + np.random.default_rng(0).normal(0, 8, scan.shape)).astype("i2")


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium on the path")
    here = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        tree = store(Path(folder) / "scans.b2z")
        scan = head()
        array = blosc2.asarray(scan, chunks=(64, 64, 64))
        classes = blosc2.asarray(((scan > 170) + 2 * (np.abs(scan + 20) < 25)).astype("u1"), chunks=(64, 64, 64))
        opened = tree._repr_html_().replace("<details>", "<details open>", 3).replace(folder + "/", "")
        for name, colours in COLOURS.items():
            page = Path(folder) / f"{name}.html"
            page.write_text(
                f'<!doctype html><html lang="en"><title>{name}</title><body style="font-family:sans-serif;{colours}">'
                f"{opened}<hr>{array._repr_html_()}<hr>{classes._repr_html_()}</body></html>",
                encoding="utf-8",
            )
            subprocess.run(
                [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=860,1230",
                 f"--screenshot={here / f'notebook-{name}.png'}", page.as_uri()],
                check=True, capture_output=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
