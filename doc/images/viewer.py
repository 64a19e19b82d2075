"""Make the pictures of the viewer and of its page: python doc/images/viewer.py (it needs textual and Chromium)."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import blosc2
from blosc2._tools.viewer.html_page import web_page
from blosc2._tools.viewer.app import Viewer

HERE = Path(__file__).resolve().parent


def make(path: Path) -> None:
    """Five scans with masks, and a split."""
    rng = np.random.default_rng(0)
    z, y, x = np.ogrid[-1:1:40j, -1:1:128j, -1:1:128j]
    with blosc2.TreeStore(str(path), mode="w") as tree:
        for number in range(5):
            radius = np.sqrt(z**2 + (1.2 * y) ** 2 + (x - 0.05 * number) ** 2)
            scan = (
                900 * (radius < 0.8) - 500 * (radius < 0.7) + 150 * np.cos(9 * x * y) + rng.normal(0, 20, radius.shape)
            )
            tree[f"/patients/{number:03}/ct"] = scan.astype("i2")
            tree[f"/patients/{number:03}/mask"] = (radius < 0.7).astype("u1")
            tree[f"/patients/{number:03}"].attrs["age"] = 50 + number
        tree["/splits/train"], tree["/splits/test"] = np.arange(4), np.arange(4, 5)


async def drive(path: Path) -> None:
    """Save the viewer as it shows a picture."""
    with blosc2.open(str(path), mode="r", mmap_mode="r") as store:
        app = Viewer(store, path.name)
        async with app.run_test(size=(110, 32)) as pilot:
            for key in ("down", "enter", "down", "enter", "down", "4"):
                await pilot.press(key)
                await app.workers.wait_for_complete()
                await pilot.pause(0.3)
            picture = app.export_screenshot(title="blosc2 view scans.b2z")
    # The fonts of the reader's system do; nothing is loaded from elsewhere.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    (HERE / "viewer.svg").write_text(picture, encoding="utf-8")


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("no Chromium on the path")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scans.b2z"
        make(path)
        asyncio.run(drive(path))
        with blosc2.open(str(path), mode="r", mmap_mode="r") as store:
            html = web_page(store, path.name).replace(folder + "/", "").replace("<details>", "<details open>", 2)
        page = Path(folder) / "page.html"
        page.write_text(html, encoding="utf-8")
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=900,1100",
             f"--screenshot={HERE / 'viewer-page.png'}", page.as_uri()],
            check=True, capture_output=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
