"""The demo: what it prints, what it refuses, and that it notices a wrong byte."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import blosc2
from blosc2._tools import demo
from blosc2._tools.cli import main


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PHOTOGRAPHS", ("camera", "chelsea"))
    monkeypatch.setattr(demo, "ROUNDS", 1)
    monkeypatch.setattr(demo, "SECONDS_A_ROUND", 0.01)


def test_command(tmp_path: Path) -> None:
    output = tmp_path / "images.b2z"
    done = subprocess.run(
        [sys.executable, "-m", "blosc2", "demo", "--output", str(output), "--patches", "300"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (
        "mri/",
        "voxels 2 x 2 x 2.2 mm",
        "astronaut/",
        "level0  (512, 512, 3) uint8",
        "ratio",
        "300 random patches",
    ):
        assert text in done.stdout
    assert done.stdout.count("patches a second") == 2
    assert "writing pyramids: 14 of 14" in done.stderr
    assert list(tmp_path.iterdir()) == [output]
    with zipfile.ZipFile(output) as archive:
        assert archive.testzip() is None


@pytest.mark.usefixtures("quick")
def test_store_has_the_images(tmp_path: Path) -> None:
    output = tmp_path / "images.b2z"
    assert main(["demo", "--output", str(output), "--patches", "1"]) == 0
    scan = demo.load_scan()
    with blosc2.open(output, mode="r", mmap_mode="r") as store:
        assert isinstance(store, blosc2.TreeStore)
        assert set(store.get_children("/photos")) == {"/photos/camera", "/photos/chelsea"}
        assert dict(store.get_subtree("/mri").attrs[:]) == scan.attributes
        np.testing.assert_array_equal(store["/mri/level0"][:], scan.data)
        assert store["/mri/level2"].shape == (32, 24, 6, 2)


@pytest.mark.usefixtures("quick")
def test_runs_again_over_its_own_store(tmp_path: Path) -> None:
    arguments = ["demo", "--output", str(tmp_path / "images.b2z"), "--patches", "1"]
    assert main(arguments) == 0
    assert main(arguments) == 0


@pytest.mark.usefixtures("quick")
def test_a_wrong_pixel_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = demo.write

    def write_wrongly(output: Path, pictures: Iterable[demo.Image], *, total: int) -> None:
        write(output, [dataclasses.replace(picture, data=picture.data ^ 1) for picture in pictures], total=total)

    monkeypatch.setattr(demo, "write", write_wrongly)
    assert main(["demo", "--output", str(tmp_path / "images.b2z"), "--patches", "20"]) == 1
    assert "differs from the source: /" in capsys.readouterr().out


def test_a_missing_level_is_noticed(tmp_path: Path) -> None:
    image = demo.Image("/a", np.arange(6400, dtype="u1").reshape(80, 80), spatial=2)
    demo.write(tmp_path / "a.b2z", [image], total=1)
    expected = {f"/a/level{n}": demo.Level(level, 2) for n, level in enumerate(demo.pyramid(image.data, 2))}
    expected["/a/level9"] = expected["/a/level0"]
    with blosc2.open(tmp_path / "a.b2z", mode="r") as store:
        assert demo.differences(store, expected, []) == ["/a/level9: missing or unexpected"]


@pytest.mark.parametrize("content", [b"mine", b"", "store"])
def test_files_of_others_are_kept(tmp_path: Path, content: bytes | str, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "mine.b2z"
    if isinstance(content, bytes):
        output.write_bytes(content)
    else:
        with blosc2.TreeStore(str(output), mode="w") as store:
            store["/a"] = np.arange(3)
    before = output.read_bytes()
    assert main(["demo", "--output", str(output)]) == 2
    assert "was not written by this demo" in capsys.readouterr().err
    assert output.read_bytes() == before


@pytest.mark.parametrize(("name", "message"), [("a.zip", "must end in .b2z"), ("no/a.b2z", "there is no directory")])
def test_impossible_output(tmp_path: Path, name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--output", str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["nibabel", "skimage"])
def test_a_missing_package_is_named(
    tmp_path: Path, package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["demo", "--output", str(tmp_path / "a.b2z")]) == 2
    assert "pip install 'python-blosc2[demo]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["no"], ["demo", "--patches", "0"]])
def test_usage_errors(arguments: list[str]) -> None:
    assert main(arguments) == 2


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"python-blosc2 {blosc2.__version__}\n"


@given(st.tuples(*[st.integers(1, 7)] * 3), st.integers(1, 3), st.sampled_from(["u1", "i2", "u2"]), st.randoms())
def test_halve_is_the_rounded_mean(shape: tuple[int, ...], spatial: int, dtype: str, random: Any) -> None:
    limits = np.iinfo(dtype)
    count = int(np.prod(shape))
    image = np.array([random.randint(limits.min, limits.max) for _ in range(count)], dtype).reshape(shape)
    half = demo.halve(image, spatial)
    for index in np.ndindex(half.shape):
        corner = tuple(slice(2 * i, 2 * i + 2) if axis < spatial else slice(i, i + 1) for axis, i in enumerate(index))
        near = image[corner]
        near = np.pad(near, [(0, 2 - n if axis < spatial else 0) for axis, n in enumerate(near.shape)], mode="edge")
        assert half[index] == np.floor(near.mean(dtype="f8") + 0.5)


@given(st.lists(st.integers(1, 300), min_size=4, max_size=4), st.sampled_from([2, 3]))
def test_tiles_fit(shape: list[int], spatial: int) -> None:
    chunk, block = demo.tiles(tuple(shape), spatial)
    assert len(chunk) == len(block) == 4
    assert all(1 <= small <= large <= length for small, large, length in zip(block, chunk, shape, strict=True))
