"""The recipes of the guide work in the order of their page, and none is longer than three lines."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import page_kit
import pytest

import blosc2

for needed in ("click", "h5py", "matplotlib", "pandas", "PIL", "zarr"):
    pytest.importorskip(needed)

PAGE = Path(__file__).resolve().parents[2] / "doc" / "guide" / "recipes.md"
# The heading above a block, its language and its lines.
BLOCK = re.compile(r"^## ([^\n]+)|^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def recipes() -> list[tuple[str, str, str]]:
    found, heading = [], ""
    for title, language, code in BLOCK.findall(PAGE.read_text("utf-8")):
        heading = title or heading
        if language:
            found.append((heading, language, code))
    return found


def test_three_lines_at_most() -> None:
    long = []
    for heading, _, code in recipes():
        lines = [line for line in code.splitlines() if line and not line.startswith(("import ", "print("))]
        if heading and len(lines) > 3:
            long.append(heading)
    assert not long
    assert len(recipes()) > 8


def test_the_recipes_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import h5py
    import matplotlib.pyplot as plt
    from PIL import Image

    names = page_kit.check(PAGE, monkeypatch, tmp_path)

    with (
        blosc2.open("study.b2z", mmap_mode="r") as store,
        h5py.File("scans.h5") as scans,
        h5py.File("study.h5") as back,
    ):
        assert sorted(store) == [
            "/patient",
            "/patient/001",
            "/patient/002",
            "/photos",
            *(f"/photos/{n}.png" for n in range(3)),
        ]
        for name in ("001", "002"):
            assert np.array_equal(store[f"/patient/{name}"][...], scans[f"patient/{name}"][...])
        for number in range(3):
            picture = np.asarray(Image.open(f"photos/{number}.png"))
            assert np.array_equal(store[f"/photos/{number}.png"][...], picture)
            assert np.array_equal(back[f"photos/{number}.png"][...], picture)
            assert np.array_equal(names["volume"][number], picture)
        assert np.array_equal(plt.gca().images[0].get_array(), scans["patient/001"][16])
        assert names["means"]["/patient/002"] == scans["patient/002"][...].mean()
        wanted = [scans["patient/001"][z : z + 16, y : y + 16, x : x + 16] for z, y, x in names["corners"]]
        assert np.array_equal(names["batch"], wanted)
    plt.close("all")
    names["store"].close()
    assert {"/", "/patient", "/photos"} == set(names["groups"]["group"])
    assert Path("study.html").read_text("utf-8").startswith("<!doctype html>")
