"""The commands import and export."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_kit import Answer, failing

import blosc2


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


def test_several_sources_and_a_key(folder: Path, run: Answer) -> None:
    np.savez(folder / "k.npz", a=np.arange(3))
    np.save(folder / "one.npy", np.arange(4))
    run("import", "k.npz", "one.npy", "k.b2z", "--codec", "lz4", "--level", "1", "--verify")
    with blosc2.open("k.b2z") as store:
        assert store["/k.npz/a"].cparams.codec == blosc2.Codec.LZ4
        assert (store["/one.npy"].cparams.clevel, store["/one.npy"].shape) == (1, (4,))
    run("import", "one.npy", "s.b2z", "--into", "/mri/009/raw")
    assert "'/mri/009/raw'" in failing(run, "import", "one.npy", "s.b2z", "--into", "/mri/009/raw")
    run("import", "one.npy", "s.b2z", "--into", "/mri/009/raw", "--force")
    with blosc2.open("s.b2z") as store:
        assert sorted(store["/mri"]) == ["/007", "/007/raw", "/008", "/008/raw", "/009", "/009/raw"]
        assert store.attrs["who"] == "me"
