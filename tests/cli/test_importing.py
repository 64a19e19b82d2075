"""The commands import and export."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_kit import Answer


def test_what_only_has_another_form_is_no_failure(folder: Path, run: Answer) -> None:
    h5py = pytest.importorskip("h5py", reason="an extra")
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", (3,), "f4", maxshape=(None,), fillvalue=2.5)
        file["y"] = file["x"]
    assert "in another form: 2 things" in run("import", "a.h5", "a.b2z", "--verify")
    with h5py.File(folder / "a.h5", "a") as file:
        file["null"] = h5py.Empty("f4")
    assert "left out: 1 thing" in run("import", "a.h5", "a.b2z", "--force", code=1)


def test_names_that_stores_refuse(folder: Path, run: Answer) -> None:
    np.savez(folder / "k.npz", **{"kernel:0": np.arange(3)})
    assert "(--rename)" in run("import", "k.npz", "k.b2z", code=1)
    assert "  /kernel:0 -> /kernel%3A0" in run("import", "k.npz", "k.b2z", "-f", "--rename", "--verify")
