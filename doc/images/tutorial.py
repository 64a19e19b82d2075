"""Make the pictures of the tutorial: python doc/images/tutorial.py (it needs matplotlib and nibabel)."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent


def run_page() -> dict[str, Any]:
    """The names that the code of the tutorial leaves behind."""
    names: dict[str, Any] = {}
    for block in re.findall(
        r"^```python\n(.*?)^```", (HERE.parent / "tutorial.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        exec(block, names)
    return names


def save(name: str, pictures: list[tuple[str, Any]], columns: int) -> None:
    rows = -(-len(pictures) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(2 * columns, 2.2 * rows), squeeze=False)
    for place, (title, items) in zip(axes.flat, pictures, strict=True):
        place.imshow(items.T, cmap="gray", origin="lower", aspect="auto")
        place.set_title(title, fontsize=8)
        place.set_axis_off()
    figure.tight_layout()
    figure.savefig(HERE / name, dpi=90)
    plt.close(figure)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        names = run_page()
        os.chdir(HERE)
    first, patches = names["first"], names["patches"]
    planes = [("[0, :, :, 12]", first[:, :, 12]), ("[0, :, 48, :]", first[:, 48]), ("[0, 64, :, :]", first[64])]
    save("tutorial-planes.png", planes, 3)
    save("tutorial-patches.png", [(f"patch {n}", patch[:, :, 8]) for n, patch in enumerate(patches)], 4)


if __name__ == "__main__":
    main()
