"""`packaging/blosc2` beside this package: pip is content, and what asks for `blosc2` leaves both in place."""

from __future__ import annotations

import json
import subprocess
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop
ROOT = Path(__file__).resolve().parents[2]
#: What asks for `blosc2`, and imports quickly.
PROGRAM = "mlarray==0.0.54"


def run(python: Path, *arguments: str) -> str:
    done = subprocess.run([str(python), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that sees this one's packages, with the other name."""
    try:
        metadata.version("python-blosc2")
    except metadata.PackageNotFoundError:
        pytest.skip("python-blosc2 is not installed here, only on the path")
    folder = tmp_path_factory.mktemp("beside") / "environment"
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if (folder / "Scripts").exists() else "bin/python")
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "ours.pth").write_text(sysconfig.get_path("platlib"), encoding="utf-8")
    run(python, "-m", "pip", "install", "--quiet", str(ROOT / "packaging" / "blosc2"))
    return python


def installed(python: Path) -> dict[str, str]:
    listed = json.loads(run(python, "-m", "pip", "list", "--format=json"))
    return {each["name"].lower().replace("_", "-"): each["version"] for each in listed}


def test_a_program_that_asks_for_blosc2_leaves_both(python: Path) -> None:
    before = installed(python)
    assert before["blosc2"].endswith("+python.blosc2")
    run(python, "-m", "pip", "install", "--quiet", PROGRAM)
    after = installed(python)
    assert {name: after[name] for name in ("blosc2", "python-blosc2")} == {
        name: before[name] for name in ("blosc2", "python-blosc2")
    }
    done = subprocess.run([str(python), "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if "blosc2" in line] == []
    run(python, "-c", "import mlarray, blosc2; assert blosc2.TreeStore.read_many")
