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
    why = failing(run, "import", "k.npz", "k.b2z")
    assert "nothing of it can be kept: /kernel:0: " in why
    assert "(--rename)" in why
    assert not Path("k.b2z").exists()
    np.savez(folder / "k.npz", **{"kernel:0": np.arange(3), "bias": np.arange(3)})
    assert "(--rename)" in run("import", "k.npz", "k.b2z", code=1)  # with what can be kept
    assert "  /kernel:0 -> /kernel%3A0" in run("import", "k.npz", "k.b2z", "-f", "--rename", "--verify")


def test_a_flag_with_a_value(folder: Path, run: Answer) -> None:
    np.savez(folder / "k.npz", a=np.arange(3))
    why = failing(run, "import", "k.npz", "k.b2z", "--into", "/again", "--rename", "escape")
    assert "escape: the target, such as k.b2z, comes last; flags such as --rename take no value" in why


def test_a_part_of_a_store(folder: Path, run: Answer) -> None:
    """A key is what the new file is made of: a group its root, an array one of its name."""
    run("export", "s.b2z/mri/007", "part.npz", "--verify")
    run("export", "s.b2z/mri/007/raw", "leaf.npz", "--verify")
    with blosc2.open("s.b2z") as store, np.load("part.npz") as part, np.load("leaf.npz") as leaf:
        assert sorted(part) == sorted(leaf) == ["raw"]
        np.testing.assert_array_equal(part["raw"], store["/mri/007/raw"][:])
        np.testing.assert_array_equal(leaf["raw"], store["/mri/007/raw"][:])
        store.to_b2d("s.b2d")
    run("export", "s.b2d/mri", "folder.npz", code=1)  # attributes of groups are left out
    with np.load("folder.npz") as found:
        assert sorted(found) == ["007/raw", "008/raw"]
    report = blosc2.convert("s.b2z/mri", "part.b2z", verify=True)
    assert report.arrays == 2
    with blosc2.open("part.b2z") as found, blosc2.open("s.b2z") as store:
        assert sorted(found) == ["/007", "/007/raw", "/008", "/008/raw"]
        assert found["/007"].attrs[:] == store["/mri/007"].attrs[:]
    assert blosc2.convert(["s.b2z/mri/007", "s.b2z/age"], "parts.b2z", verify=True).arrays == 2
    with blosc2.open("parts.b2z") as found:
        assert sorted(found) == ["/007", "/007/raw", "/age"]
    with pytest.raises(blosc2.exceptions.ConversionError, match="nothing is at '/mri/009'"):
        blosc2.convert(["s.b2z/mri/009", "s.b2z/age"], "new.b2z")
    for source, why in (("s.b2z/mri/009", "nothing is at '/mri/009'"), ("none.b2z/mri", "none.b2z/mri does not exist")):
        assert why in failing(run, "export", source, "new.npz")
    assert "source and target are the same" in failing(run, "export", "s.b2z/mri", "s.b2z", "--force")
    assert not (folder / "new.npz").exists()


def test_attributes_are_shown_in_one_line(folder: Path, run: Answer) -> None:
    with blosc2.open("s.b2z", mode="a") as store:
        store["/mri/007/raw"].attrs.update({"affine": np.eye(4), "header": bytes(348)})
    shown = run("info", "s.b2z/mri/007/raw")
    assert "  affine: array([[1., 0., 0., 0.], [0., 1., 0., 0.], [0., 0., 1., 0.], [0., 0., 0., 1.]])\n" in shown
    assert "... (348 bytes)\n" in shown


def test_formats_that_are_offered(run: Answer) -> None:
    assert "parquet" not in run("export", "--help")
    assert "netcdf" in run("export", "--help")
    assert "parquet" in run("import", "--help")
    run("export", "s.b2z", "a.h5", "--format", "parquet", code=2)
    assert "'parquet' is not one of" in run.err


def test_the_codec_of_export(folder: Path, run: Answer) -> None:
    h5py = pytest.importorskip("h5py", reason="an extra")
    run("export", "s.b2z/mri/007/raw", "a.h5", "--codec", "zlib", "--level", "2")
    with h5py.File(folder / "a.h5") as file:
        assert (file["raw"].compression, file["raw"].compression_opts) == ("gzip", 2)
    assert "not for npz" in failing(run, "export", "s.b2z", "a.npz", "--codec", "zlib")


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


def test_what_is_said_in_options(folder: Path, run: Answer) -> None:
    Path("t.csv").write_text("a,b\n1,2\n")
    (folder / "texts").mkdir()
    (folder / "texts" / "notes.txt").touch()
    assert "t.csv: it is a table: pandas.read_csv(...)" in failing(run, "import", "t.csv", "o.b2z")
    assert "texts: no file in this folder is known by its name" in failing(run, "import", "texts", "o.b2z")
    for arguments in (("import", "t.csv", "o.b2z"), ("import", "texts", "o.b2z"), ("export", "s.b2z", "o.csv")):
        assert failing(run, *arguments).endswith("; --format names one")


def test_quietly(folder: Path, run: Answer) -> None:
    assert run("export", "s.b2z/mri/007", "part.npz", "-q") == run.err == ""
    assert run("import", "part.npz", "part.b2z", "-q") == run.err == ""
    assert "left out" in run("export", "s.b2z", "all.npz", "-q", code=1)
