"""Run programs that nobody here wrote with this package: ``python tests/interop/peers/run.py [PROGRAM ...]``.

The programs are `tests` (the published package's own, as far as they are in scope), `examples` and `tutorials` (its),
`mlarray` (its test suite) and `nnunet` (its dataset class); all of them by default. They are downloaded with pip into
``--work``, and run in environments that are made there. Nothing of them is copied into this repository.

The package is the one that the Python has which runs this. It takes some ten minutes. The exit status is 1 if something
fails that should not.

`beside` runs only if it is asked for. It makes our wheel and that of `packaging/blosc2` (``--wheels`` names a folder
that has them), installs both into a fresh environment, and then `nnunetv2`, `mlarray`, `tables`, `xarray-blosc2` and
`blosc2-containerization` as anybody would, with all that they need. Ours have to stay in place, and `pip check` may say
nothing of `blosc2`. nnU-Net's dataset class writes, reads, and reads in workers by fork, spawn and forkserver; the
others write and read. Only torch is chosen (``--torch``), so that no libraries for graphics cards come along where the
index has a build without them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from beside import Beside
from selection import DIFFERENT, FEATURES, FILES, INSIDE, OUT_OF_SCOPE

HERE = Path(__file__).resolve().parent
VERSIONS = {
    "blosc2": "4.14.1",
    "mlarray": "0.0.54",
    "nnunetv2": "2.8.1",
    "tables": "3.11.1",
    "xarray-blosc2": "1.7.1",
    "blosc2-containerization": "1.1.2",
}
NEEDED = ["pytest", "numpy", "msgpack", "httpx", "pyarrow", "rich", "h5py"]
# Brings the package that the Python of this program has, however it is installed, and what is installed with it.
OURS = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
TUTORIALS = (
    "01.ndarray-basics",
    "07.schunk-basics",
    "08.schunk-slicing_and_beyond",
    "11.containers",
    "11.objectarray",
    "12.batcharray",
)
# What an example or a cell says that needs something out of scope, or a package that is not installed.
_OUTSIDE = re.compile(
    r"this package has no blosc2\.|compressed arrays have no operators|No module named"
    r"|no attribute '(filler|(pre|post)filter)'|there are no indexes|cannot import name"
    r"|for \*\* or pow|no field '.*[<=>].*'"
)  # fmt: skip
# Examples that differ on purpose (doc/coming-from/compatibility.md), or take very long.
_EXAMPLES = {
    "ndarray/empty_.py": "a pipeline that cannot be undone is refused",
    "ndarray/fromiter-constructor.py": "c_order=False with default chunks",
    "ndarray/swmr-enlarge-bars.py": "8 GB; it runs with fewer rows",
    "ndarray/locking-enlarge-bars.py": "8 GB; it runs with fewer rows",
    "ndarray/animated_plot.py": "opens a window",
}


# Tests that wait for other processes for some seconds at most.
TIMED = {"test_locking.py"}


class Peers:
    """Environments, and programs in them.

    Parameters
    ----------
    work : Path
        Where all is kept, and found again by the next run.
    """

    def __init__(self, work: Path) -> None:
        self.work = work
        self.work.mkdir(parents=True, exist_ok=True)

    def _environment(self, name: str, packages: Iterable[str], *options: str) -> str:
        """The Python of an environment, which has these packages."""
        folder = self.work / name
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        if not python.exists():
            venv.create(folder, with_pip=True, clear=True)
        if name == "ours":
            there = sysconfig.get_path("purelib", "venv", {"base": str(folder)})
            (Path(there) / "ours.pth").write_text(OURS, encoding="utf-8")
        missing = [package for package in packages if not (folder / f"has-{package}").exists()]
        if missing:
            subprocess.run([python, "-m", "pip", "install", "-q", *options, *missing], check=True)
            for package in missing:
                (folder / f"has-{package}").touch()
        return str(python)

    def ours(self, *arguments: object, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """Run Python with this package."""
        python = self._environment("ours", NEEDED)
        return _run([python, *arguments], cwd, {"PYTHONPATH": str(HERE), **env})

    def theirs(self, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python with the published package."""
        python = self._environment("theirs", [f"blosc2=={VERSIONS['blosc2']}", "pytest"])
        return _run([python, *arguments], cwd, {"PYTHONPATH": ""})

    def _medical(self) -> None:
        """Install `mlarray` and `nnunetv2` in both environments, of what they need only what is used here."""
        for name in ("ours", "theirs"):
            self._environment(name, ["batchgenerators"])
            self._environment(name, [f"{peer}=={VERSIONS[peer]}" for peer in ("mlarray", "nnunetv2")], "--no-deps")

    def source(self, name: str) -> Path:
        """The unpacked source distribution of a peer."""
        folder = self.work / f"{name}-{VERSIONS[name]}"
        if not folder.exists():
            wanted = f"{name}=={VERSIONS[name]}"
            archive = self.work / f"{folder.name}.tar.gz"
            if not archive.exists():
                pip = [
                    sys.executable,
                    "-m",
                    "pip",
                    "download",
                    "-q",
                    "--no-deps",
                    "--no-binary",
                    name,
                    "-d",
                    str(self.work),
                ]
                subprocess.run([*pip, wanted], check=True)
            with tarfile.open(archive) as tar:
                tar.extractall(self.work, filter="data")
        return folder

    # ------------------------------------------------------------------ programs
    def tests(self) -> bool:
        """The published package's own tests; see `selection`."""
        run = self.work / "run"
        shutil.rmtree(run, ignore_errors=True)
        self._environment("ours", NEEDED)  # before two threads ask for it, and for the source
        self.source("blosc2")
        total: Counter[str] = Counter()
        failed: list[str] = []
        with ThreadPoolExecutor(2) as pool:
            results = list(zip(FILES, pool.map(partial(self._tests_of, run), FILES), strict=True))
        for file, (found, lines) in results:
            print("\n".join(lines), flush=True)
            if file in TIMED and found["failed"]:  # by a machine that had something else to do?
                found, lines = self._tests_of(run / "again", file)
                print("again, alone:", *lines, sep="\n", flush=True)
            total += found
            failed += [line for line in lines if line.startswith("    failed:")]
        print(*failed, sep="\n", end="\n" if failed else "")
        counted = sum(total[kind] for kind in ("passed", "failed", "different", "feature"))
        print(f"own tests: {_text(total)}; {total['passed']} of {counted} in scope: {total['passed'] / counted:.2%};")
        print(f"  without those that fail by a feature {total['passed'] / (counted - total['feature']):.2%}")
        return not total["failed"] and total["passed"] > 2400

    def _tests_of(self, run: Path, file: str) -> tuple[Counter[str], list[str]]:
        """The tests of one file, in a folder of their own: how many came out how, and the lines that say so."""
        place = run / file.removesuffix(".py")
        shutil.copytree(self.source("blosc2") / "tests", place / "tests")
        (place / "pytest.ini").write_text(
            "[pytest]\nmarkers =\n  heavy\n  network\n  tui\n  xdist_group\n", encoding="utf-8"
        )
        report = place / "report.xml"
        options = ["-q", "-p", "standins", "-p", "no:unraisableexception", "-p", "no:cacheprovider", "--tb=no"]
        options += ["-m", "not network and not heavy and not tui", f"--junitxml={report}", f"tests/{file}"]
        done = self.ours("-m", "pytest", *options, cwd=place)
        if not report.exists():
            return Counter(failed=1), [done.stdout[-2000:], done.stderr[-2000:]]
        found: Counter[str] = Counter()
        lines = []
        for test, outcome in _outcomes(report):
            kind, reason = (outcome, "") if outcome == "skipped" else _judged(f"{file}::{test}", outcome)
            found[kind] += 1
            if kind in ("failed", "different", "feature"):
                lines.append(f"    {kind}: {file}::{test} {reason}")
        return found, [*lines, f"{file}: {_text(found)}"]

    def examples(self) -> bool:
        """Its examples for arrays and stores."""
        source, good = self.source("blosc2") / "examples", True
        found = Counter[str]()
        for path in sorted([*source.glob("*.py"), *source.glob("ndarray/*.py")]):
            name = path.relative_to(source).as_posix()
            if name in _EXAMPLES:
                found["different"] += 1
                continue
            with tempfile.TemporaryDirectory() as folder:
                done = self.ours(path, cwd=Path(folder), MPLBACKEND="Agg")
            last = (done.stderr.strip().splitlines() or [""])[-1]
            outcome = "ran" if done.returncode == 0 else "out of scope" if _OUTSIDE.search(last) else "failed"
            found[outcome] += 1
            if outcome == "failed":
                good = False
                print(f"    failed: {name}: {last}")
        print(f"examples: {_text(found)}")
        return good

    def tutorials(self) -> bool:
        """Its notebooks on arrays, super-chunks, lists and stores."""
        good = True
        for name in TUTORIALS:
            with tempfile.TemporaryDirectory() as folder:
                path = self.source("blosc2") / "doc" / "tutorials" / f"{name}.ipynb"
                done = self.ours(HERE / "notebook.py", path, cwd=Path(folder))
            answer = json.loads(done.stdout)
            failed = [text for text in answer["failed"] if not _OUTSIDE.search(text)]
            good = good and not failed and not done.returncode
            outside = len(answer["failed"]) - len(failed)
            print(f"tutorial {name}: {answer['cells']} cells, {outside} out of scope, {len(failed)} failed", *failed)
        return good

    def mlarray(self) -> bool:
        """All tests of mlarray."""
        self._medical()
        good = True
        for who in (self.ours, self.theirs):
            folder = self.work / f"mlarray-{who.__name__}"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(self.source("mlarray") / "tests", folder)
            done = who("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
            print(f"mlarray, {who.__name__}: {(done.stdout.strip().splitlines() or [done.stderr])[-1]}")
            good = good and not done.returncode
        return good

    def nnunet(self) -> bool:
        """Cases that its dataset class writes with either package are read with either."""
        self._medical()
        good = True
        for writer in (self.ours, self.theirs):
            with tempfile.TemporaryDirectory() as folder:
                steps = [(writer, "write"), (self.ours, "read"), (self.theirs, "read")]
                for who, what in steps:
                    done = who(HERE / "nnunet_cases.py", what, folder)
                    good = good and not done.returncode
                    said = done.stderr[-500:] if done.returncode else "good"
                    print(f"nnU-Net, written by {writer.__name__}, {what} by {who.__name__}: {said}")
        return good


def _run(command: list[object], cwd: Path | None, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    whole = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=whole, capture_output=True, text=True, check=False
    )


def _outcomes(report: Path) -> Iterable[tuple[str, str]]:
    """Name and outcome of each test in a report of pytest."""
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        yield case.get("name", ""), outcome


_KINDS = (("out of scope", OUT_OF_SCOPE), ("inside", INSIDE), ("different", DIFFERENT), ("feature", FEATURES))


def _judged(test: str, outcome: str) -> tuple[str, str]:
    """What a test counts as. One that passes counts as passed, whatever was said of it."""
    if outcome == "passed":
        return "passed", ""
    for kind, known in _KINDS:
        for pattern, reason in known:
            if re.search(pattern, test):
                return kind, reason
    return "failed", ""


def _text(found: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in found.items())


def main() -> int:
    """Run what is asked for."""
    programs = ("tests", "examples", "tutorials", "mlarray", "nnunet")
    known = (*programs, "beside")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help=f"of {', '.join(known)}; all but the last by default")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "blosc2-peers")
    parser.add_argument("--wheels", type=Path, help="for `beside`: a folder with our two wheels; else they are made")
    parser.add_argument("--torch", default="torch==2.13.0", help="for `beside`: installed first, and kept")
    given = parser.parse_args()
    for name in set(given.program) - set(known):
        parser.error(f"there is no program {name!r}")
    work = given.work.resolve()
    peers, good = Peers(work), []
    for name in given.program or programs:
        if name == "beside":
            wheels = given.wheels and given.wheels.resolve()
            good.append(Beside(work, wheels, given.torch, VERSIONS).run())
        else:
            good.append(getattr(peers, name)())
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
