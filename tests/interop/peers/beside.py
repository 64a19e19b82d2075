"""Programs that ask for `blosc2`, installed as anybody installs them beside our two wheels; for ``run.py beside``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
OURS = ("blosc2", "python-blosc2")
PROGRAMS = ("nnunetv2", "mlarray", "tables", "xarray-blosc2", "blosc2-containerization")
#: What may not reach the environment: it could bring the tree instead of the wheel.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")

#: Printed in the environment: versions, and files of the package that are not the ones that our wheel brought.
LOOK = """
import base64, hashlib, json, sys
from importlib import metadata
from pathlib import Path

import blosc2

ours = metadata.distribution("python-blosc2")
foreign, known = [], set()
for file in ours.files:
    path = Path(file.locate()).resolve()
    known.add(path)
    if not path.is_file():
        foreign.append(f"{file} is gone")
    elif file.hash is not None:
        found = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, path.read_bytes()).digest())
        if found.rstrip(b"=").decode() != file.hash.value:
            foreign.append(f"{file} is another")
package = Path(blosc2.__file__).resolve().parent
foreign += [str(p) for p in package.rglob("*") if p.is_file() and p.suffix != ".pyc" and p not in known]
if not package.is_relative_to(Path(sys.prefix).resolve()):
    foreign.append(f"imported from {package}")
assert hasattr(blosc2.TreeStore, "read_many")
versions = {d.name.lower().replace("_", "-"): d.version for d in metadata.distributions()}
print(json.dumps({"foreign": foreign, "versions": versions}))
"""


class Beside:
    """A fresh environment that has our two wheels, and the programs that ask pip for `blosc2`.

    Parameters
    ----------
    work : Path
        Where the environment is made, and wheels unless they are given.
    wheels : Path, optional
        A folder with a wheel of this package for the Python that runs this, and one of `packaging/blosc2`.
    torch : str
        Installed before nnU-Net, and not replaced by another version then.
    versions : dict of str to str
        Those of the programs.
    """

    def __init__(self, work: Path, wheels: Path | None, torch: str, versions: dict[str, str]) -> None:
        self.work, self.wheels, self.torch = work / "beside", wheels, torch
        self.wanted = {name: f"{name}=={versions[name]}" for name in PROGRAMS}
        self.python = self.work / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self.env = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        self.good, self.began = True, time.monotonic()

    def run(self) -> bool:
        """Install and try all; say what was seen."""
        try:
            self._wheels()
            before = self._ours()
            self._programs(before)
            self._nnunet()
            for name in PROGRAMS[1:]:
                self._case(f"{name}, write and read", "beside_cases.py", name, ".")
            self._without()
        except subprocess.CalledProcessError as error:
            print(error.output)
            self._say(False, f"{' '.join(str(word) for word in error.cmd)} failed with {error.returncode}")
        return self.good

    def _say(self, good: bool, text: str) -> None:
        self.good = self.good and good
        print(f"beside, {time.monotonic() - self.began:.0f} s: {'' if good else 'FAILED: '}{text}", flush=True)

    def _call(self, *command: object, check: bool = True, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command; its output and errors are one text."""
        text = [str(word) for word in command]
        return subprocess.run(
            text, cwd=cwd or self.work, env=self.env, check=check, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def _pip(self, *arguments: object) -> None:
        self._call(self.python, "-m", "pip", "install", "--quiet", *arguments)

    def _wheels(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        if self.wheels is None:
            self.wheels = self.work.parent / "beside-wheels"
            shutil.rmtree(self.wheels, ignore_errors=True)
            script = ROOT / "packaging" / "wheels.py"
            self._call(sys.executable, script, "--no-try", "--output", self.wheels)
            self._say(True, f"made {', '.join(path.name for path in sorted(self.wheels.glob('*blosc2-*.whl')))}")

    def _ours(self) -> dict[str, str]:
        """Install our two, and what they need; return their versions."""
        venv.create(self.work, with_pip=True, clear=True)
        self._pip("--no-index", "--no-deps", "--pre", "--find-links", self.wheels, *OURS)
        self._pip(*OURS)
        seen = self._look()
        before = {name: seen["versions"].get(name, "none") for name in OURS}
        self._say(
            before["blosc2"].endswith("+python.blosc2") and not seen["foreign"], f"installed: {_text(before)}"
        )  # fmt: skip
        self._check()
        return before

    def _look(self) -> dict:
        done = subprocess.run(
            [str(self.python), "-c", LOOK], cwd=self.work, env=self.env, check=False, text=True, capture_output=True
        )
        if done.returncode:
            return {"foreign": [done.stderr.strip()], "versions": {}}
        return json.loads(done.stdout)

    def _programs(self, before: dict[str, str]) -> None:
        """Install the programs with all that they need, one after the other, and look after each."""
        self._pip(self.torch)
        self._say(True, f"installed: {self.torch}")
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) / "torch.txt"
            kept.write_text(f"{self.torch}\n", encoding="utf-8")
            for name in PROGRAMS:
                self._pip("--constraint", kept, self.wanted[name])
                seen = self._look()
                after = {ours: seen["versions"].get(ours, "none") for ours in OURS}
                count = len(seen["versions"])
                self._say(
                    after == before and not seen["foreign"] and name in seen["versions"],
                    f"after pip install {self.wanted[name]}: {_text(after)}, of {count} distributions; "
                    + ("; ".join(seen["foreign"][:5]) or "each file of ours as it came"),
                )
                self._check()

    def _check(self) -> None:
        """What `pip check` says of `blosc2` fails; what else it says is shown."""
        done = self._call(self.python, "-m", "pip", "check", check=False)
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        about = [line for line in lines if re.search(r"blosc2", line, re.IGNORECASE)]
        good = not about and (done.returncode == 0 or (done.returncode == 1 and bool(lines)))
        self._say(good, f"pip check, exit status {done.returncode}: {'; '.join(lines)}")

    def _nnunet(self) -> None:
        """Write cases, read them, and read them in workers, in one folder."""
        with tempfile.TemporaryDirectory() as folder:
            for what in ("write", "read"):
                self._case(f"nnU-Net's dataset class, {what}", "nnunet_cases.py", what, folder)
            for method in ("fork", "spawn", "forkserver"):
                self._case(
                    f"nnU-Net's dataset class and loader, {method}", "nnunet_cases.py", "workers", folder, method
                )

    def _case(self, title: str, script: str, *arguments: str) -> None:
        """Run a program beside this one, in an empty folder."""
        with tempfile.TemporaryDirectory() as folder:
            done = self._call(self.python, HERE / script, *arguments, check=False, cwd=Path(folder))
        if done.returncode:
            print(done.stdout[-2000:])
        last = (done.stdout.strip().splitlines() or [""])[-1]
        self._say(done.returncode == 0, f"{title}: {last or 'good'}")

    def _without(self) -> None:
        """The check itself: without `packaging/blosc2` pip has to complain for each program, or it says nothing."""
        self._call(self.python, "-m", "pip", "uninstall", "--quiet", "--yes", "blosc2")
        said = self._call(self.python, "-m", "pip", "check", check=False).stdout
        missed = [name for name in PROGRAMS if not re.search(rf"^{name} .*blosc2", said, re.MULTILINE | re.IGNORECASE)]
        text = "each program asks for it" if not missed else f"nothing was said of {', '.join(missed)}: {said}"
        self._say(not missed, f"pip check without the distribution blosc2: {text}")


def _text(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
