"""What is installed: metadata, files, symbols, and what an import brings in."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
import blosc2._core
from blosc2._core.mixed_install import _FOREIGN, refuse_mixed_install

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "src" / "blosc2" / "_core"
SOURCES = [path for path in CORE.rglob("*.p[xy]*") if path.suffix in (".py", ".pyi", ".pyx", ".pxd")]
EXTENSIONS = sorted(
    path for folder in blosc2._core.__path__ for path in Path(folder).glob("*/*") if path.suffix in (".so", ".pyd")
)


def module_name(extension: Path) -> str:
    """The name of an extension module and of its package."""
    return f"{extension.parent.name}/{extension.name.split('.')[0]}"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a new interpreter, away from the checkout."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(sys.prefix),
        env={**os.environ, **environment},
    )


def test_one_version() -> None:
    from blosc2 import version

    assert blosc2.__version__ == version.__version__ == metadata.version("python-blosc2")
    # Programs compare it with versions of the other package that they need, all of which are lower.
    assert np.lib.NumpyVersion(blosc2.__version__) >= "5.0.0.dev0"


def test_the_citation_is_of_this_version() -> None:
    [stated] = re.findall(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert stated == blosc2.__version__


def test_what_the_sdist_takes() -> None:
    """`.ci/run` builds one, and a wheel from it; here is what no build would miss."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["scikit-build"]["sdist"]
    assert settings["exclude"] == ["*"]
    taken = {path.relative_to(ROOT) for pattern in settings["include"] for path in ROOT.glob(pattern.lstrip("/"))}
    wanted = ["README.md", "LICENSE", "SECURITY.md", "CITATION.cff", "RELEASE_NOTES.md"]
    assert {Path(name) for name in wanted} <= taken
    assert {path.relative_to(ROOT) for path in (ROOT / "cmake").iterdir() if path.is_file()} <= taken


def test_the_advice_about_extras_is_true() -> None:
    """Pages and messages say `pip install 'python-blosc2[cli]'`: pip takes the package that is installed."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("pip is not installed")
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--dry-run", "python-blosc2[cli]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(sys.prefix))
    assert done.returncode == 0, done.stderr
    assert "Would install" not in done.stdout


def release_check() -> Any:
    spec = importlib.util.spec_from_file_location("check_release", ROOT / "packaging" / "check_release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_release_needs_an_address(tmp_path: Path) -> None:
    check = release_check()
    for name in ("pyproject.toml", "RELEASE_NOTES.md", "src/blosc2/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert [problem for problem in check.problems(tmp_path) if "version" not in problem and "NOTES" not in problem] == [
        "[project.urls] of pyproject.toml has no address for Source",
        "[project.urls] of pyproject.toml has no address for Issues",
    ]
    for name, old, new in (
        ("pyproject.toml", "https://python-blosc2.invalid", "https://forge.example/python-blosc2"),
        ("src/blosc2/version.py", blosc2.__version__, "5.0.0"),
        ("RELEASE_NOTES.md", "## 5.0.0 (unreleased)", "## 5.0.0 (2027-01-31)"),
    ):
        text = (tmp_path / name).read_text("utf-8")
        assert old in text
        (tmp_path / name).write_text(text.replace(old, new), "utf-8")
    assert check.problems(tmp_path, "v5.0.0") == []
    assert check.problems(tmp_path, "v5.0.1") == ["the tag is v5.0.1, but src/blosc2/version.py says 5.0.0"]


def test_one_place_holds_the_address() -> None:
    sources = [*(ROOT / "doc").rglob("*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "doc" / "conf.py"]
    tracked = [path for path in (*ROOT.glob("*.*"), *sources) if path.suffix in (".md", ".py", ".toml", ".cff")]
    holding = [path.name for path in tracked if "python-blosc2.invalid" in path.read_text("utf-8")]
    assert holding == ["pyproject.toml"]


def test_the_other_name_has_no_code() -> None:
    """`packaging/blosc2` gives its name, the level of the interface that is followed, and this package."""
    folder = ROOT / "packaging" / "blosc2"
    told = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert told["name"] == "blosc2"
    level, _, local = told["version"].partition("+")
    assert (level.rpartition(".")[0], local) == (blosc2.__upstream_api__, "python.blosc2")
    assert told["dependencies"] == ["python-blosc2>=5.0.0.dev0"]
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == ["README.md", "pyproject.toml"]
    tracked = [ROOT / "README.md", *ROOT.glob("*.md"), *(ROOT / "doc").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    assert [path for path in tracked if told["version"] in path.read_text("utf-8")] == []


def test_run_time_dependencies() -> None:
    needed = [text for text in metadata.requires("python-blosc2") or [] if "extra ==" not in text]
    assert {re.split(r"[<>=!~ ;\[]", text)[0] for text in needed} == {"numpy", "msgpack"}


def test_import_brings_in_no_other_package() -> None:
    done = run(
        "import sys; before = set(sys.modules); from blosc2 import *\n"  # what comes on demand, too
        "names = {name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)\n"
        "print(*sorted(names))"
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {"blosc2", "numpy", "msgpack", "cython_runtime"} | {
        name for name in done.stdout.split() if name.startswith("_cython_")
    }


def test_typing_files() -> None:
    directories = [Path(path) for path in blosc2.__path__]
    assert any((directory / "py.typed").is_file() for directory in directories)
    for extension in EXTENSIONS:
        stub = f"_core/{module_name(extension)}.pyi"
        assert any((directory / stub).is_file() for directory in directories), stub


def test_licences_are_installed() -> None:
    installed = {Path(str(file)).name for file in metadata.files("python-blosc2") or [] if "licenses" in str(file)}
    assert installed == {"LICENSE", *(path.name for path in (ROOT / "LICENSES").iterdir())}


def test_extensions_exist() -> None:
    assert {module_name(path) for path in EXTENSIONS} == {module_name(path) for path in CORE.rglob("*.pyx")}


@pytest.mark.parametrize("extension", EXTENSIONS, ids=lambda path: path.name.split(".")[0])
def test_only_the_init_function_is_exported(extension: Path) -> None:
    library = ctypes.CDLL(str(extension))
    assert hasattr(library, f"PyInit_{extension.name.split('.')[0]}")
    linked_in = (
        "blosc2_init",
        "b2nd_uninit",
        "blosclz_compress",
        "LZ4_compress_default",
        "ZSTD_compress",
        "zfp_compress",
    )
    assert [name for name in linked_in if hasattr(library, name)] == []


def test_one_module_links_the_c_library() -> None:
    named = re.compile(r"^\s*(cimport|from|import)\b.*\bcblosc2\b", re.MULTILINE)
    users = {path.name for path in SOURCES if named.search(path.read_text("utf-8"))}
    assert users == {"codec.pyx"}


def test_extensions_import_no_python_layer() -> None:
    """The import contract sees Python files only; this is its rule for the Cython ones."""
    allowed = ("blosc2._core", "blosc2.exceptions")
    for path in SOURCES:
        for match in re.finditer(
            r"^\s*(?:from|import|cimport)\s+(blosc2[\w.]*)", path.read_text("utf-8"), re.MULTILINE
        ):
            assert match[1].startswith(allowed), f"{path.name} imports {match[1]}"


@pytest.mark.parametrize("name", _FOREIGN)
def test_mixed_files_are_refused(tmp_path: Path, name: str) -> None:
    refuse_mixed_install([str(tmp_path)])
    (tmp_path / name).touch()
    with pytest.raises(ImportError, match=r"are mixed in .*pip uninstall -y blosc2 python-blosc2.*packaging/blosc2"):
        refuse_mixed_install([str(tmp_path)])


def test_import_of_a_mixed_install(tmp_path: Path) -> None:
    package = tmp_path / "blosc2"
    for directory in reversed(list(blosc2.__path__)):
        shutil.copytree(directory, package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    # PathFinder first: an editable install would be found before the copy.
    code = (
        "import sys; from importlib.machinery import PathFinder; sys.meta_path.insert(0, PathFinder)\n"
        "import blosc2; print(blosc2.__file__)"
    )
    whole = run(code, PYTHONPATH=str(tmp_path))
    assert whole.returncode == 0, whole.stderr
    assert Path(whole.stdout.strip()).parent == package
    (package / "c2array.py").touch()
    mixed = run(code, PYTHONPATH=str(tmp_path))
    assert mixed.returncode == 1
    assert "ImportError: the files of two distributions are mixed" in mixed.stderr
    (package / "__init__.py").write_text("")  # the other one came second
    for code in ("import blosc2._tools", "import runpy; runpy.run_module('blosc2', run_name='__main__')"):
        mixed = run(
            "import sys; from importlib.machinery import PathFinder; sys.meta_path.insert(0, PathFinder)\n" + code,
            PYTHONPATH=str(tmp_path),
        )
        assert mixed.returncode == 1
        assert "ImportError: the files of two distributions are mixed" in mixed.stderr.splitlines()[-1]
