"""The scripts of the gallery run as they are, show pictures, and leave nothing behind; the notebooks run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("nibabel")
from matplotlib import image

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("plot_*.py"))
WITHOUT_PICTURES = EXAMPLES / "training_patches.py"
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))

# Runs a script as `python script` does; `show` saves the figures instead.
HOOK = """
import runpy, sys
import matplotlib.pyplot as plt
def show():
    for number in plt.get_fignums():
        plt.figure(number).savefig(f"{sys.argv[2]}/{number}.png")
plt.show = show
runpy.run_path(sys.argv[1], run_name="__main__")
"""

# In a process of its own, because these packages warn about the event loop of a test.
RUN = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.argv[1], as_version=4)
nbformat.validate(notebook)
assert not any(cell.get("outputs") for cell in notebook.cells), "it is committed without outputs"
nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
kinds = {kind for cell in notebook.cells for output in cell.get("outputs", ()) for kind in output.get("data", ())}
assert "image/png" in kinds, kinds
"""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_shows_a_picture(script: Path, tmp_path: Path) -> None:
    empty, pictures, temporary = (tmp_path / name for name in ("empty", "pictures", "temporary"))
    for folder in (empty, pictures, temporary):
        folder.mkdir()
    environment = {**os.environ, "MPLBACKEND": "Agg", "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error", "-c", HOOK, str(script), str(pictures)]
    done = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert not list(empty.iterdir())
    assert not list(temporary.iterdir())
    made = list(pictures.iterdir())
    assert made
    for path in made:
        assert len(np.unique(image.imread(path).reshape(-1, 4), axis=0)) > 50


def test_a_training_runs(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error", str(WITHOUT_PICTURES)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith("torchinductor")]  # torch's own
    assert "24 steps" in done.stdout


def test_all_are_there() -> None:
    assert {*SCRIPTS, WITHOUT_PICTURES} == set(EXAMPLES.glob("*.py"))
    assert len(SCRIPTS) == 10
    assert len(NOTEBOOKS) == 2


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    for package in ("nbformat", "nbclient", "ipykernel"):
        pytest.importorskip(package)
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(notebook)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
