"""The library as a whole: versions, threads, removing, giving memory back, and what is exported."""

from __future__ import annotations

import builtins
import errno
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.isolated import environment

import blosc2
from blosc2.core import free_resources, print_versions, remove_urlpath


def test_print_versions(capsys: pytest.CaptureFixture[str]) -> None:
    print_versions()
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["python-blosc2"] == blosc2.__version__
    assert lines["C-Blosc2"].startswith(blosc2.blosclib_version)
    assert lines["NumPy"] == np.__version__
    assert lines["Python"].split()[0] == ".".join(map(str, sys.version_info[:3]))
    assert int(lines["cores"]) >= 1
    assert int(lines["threads"]) == blosc2.nthreads
    for name in ("blosclz", "lz4", "zlib", "zstd"):
        assert name in lines["codecs"]


def test_versions() -> None:
    assert re.fullmatch(r"\d+\.\d+(\.\d+)?((a|b|rc|\.dev)\d+)?", blosc2.__version__)
    assert blosc2.__version__ == blosc2.VERSION_STRING
    assert blosc2.__upstream_api__ == "4.14"
    assert tuple(map(int, blosc2.blosclib_version.split(".")[:3])) >= (3, 3, 5)


def test_constants() -> None:
    assert (blosc2.MAX_TYPESIZE, blosc2.MAX_BLOCKSIZE, blosc2.MAX_BUFFERSIZE) == (536866816, 536866816, 2147483615)
    assert (blosc2.MAX_DIM, blosc2.MAX_OVERHEAD) == (16, 32)


def test_names() -> None:
    assert len(set(blosc2.__all__)) == len(blosc2.__all__)
    for name in blosc2.__all__:
        assert getattr(blosc2, name) is not None, name
    # no built-in is hidden by a star import, but for open and copy's like
    assert {name for name in blosc2.__all__ if hasattr(builtins, name)} - {"copyright"} <= {"open", "copy"}
    assert blosc2.open.__module__ == "blosc2._opening.open_path"
    assert importlib.import_module("blosc2.ndarray").NDArray is blosc2.NDArray
    assert importlib.import_module("blosc2.schunk").SChunk is blosc2.SChunk


def test_what_cannot_be_removed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with blosc2.TreeStore(str(tmp_path / "t.b2d"), mode="w") as store:
        store["/g/a"] = np.zeros(3)

    def fail(path: str, **_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", fail)
        with pytest.raises(PermissionError):
            remove_urlpath(tmp_path / "t.b2d")
    real = os.close

    def close(descriptor: int) -> None:
        real(descriptor)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:  # nothing is closed a second time
        patched.setattr(os, "close", close)
        remove_urlpath(tmp_path / "t.b2d")
    assert os.listdir(tmp_path) == []


def test_remove_urlpath(tmp_path: Path) -> None:
    remove_urlpath(None)
    remove_urlpath(tmp_path / "missing")
    blosc2.zeros(3, urlpath=tmp_path / "a.b2nd")
    remove_urlpath(str(tmp_path / "a.b2nd"))
    with blosc2.TreeStore(str(tmp_path / "t.b2d"), mode="w") as store:
        store["/a"] = np.zeros(3)
    remove_urlpath(os.fsencode(tmp_path / "t.b2d"))
    assert os.listdir(tmp_path) == []
    # a link goes, what it points to stays
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "kept").touch()
    (tmp_path / "link").symlink_to(tmp_path / "folder", target_is_directory=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    remove_urlpath(tmp_path / "link")
    remove_urlpath(tmp_path / "dangling")
    assert os.listdir(tmp_path) == ["folder"]
    assert (tmp_path / "folder" / "kept").exists()
    remove_urlpath(tmp_path / "folder")
    assert os.listdir(tmp_path) == []
    with pytest.raises(TypeError):
        remove_urlpath(5)  # type: ignore[arg-type]


def test_free_resources_in_between() -> None:
    items = np.arange(100000)
    array = blosc2.asarray(items, chunks=(1000,), blocks=(100,))
    for start in range(0, 500, 50):
        free_resources()
        np.testing.assert_array_equal(array[start : start + 333], items[start : start + 333])
    free_resources()
    free_resources()


def test_threads() -> None:
    old = blosc2.nthreads
    try:
        assert blosc2.set_nthreads(3) == old
        assert blosc2.nthreads == 3
        blosc2.nthreads = 2
        assert blosc2.set_nthreads(old) == 2
        wrong: Any
        for wrong, kind in (
            (0, ValueError),
            (-1, ValueError),
            (1 << 31, ValueError),
            ("2", TypeError),
            (2.5, TypeError),
            (True, TypeError),
        ):
            with pytest.raises(kind):
                blosc2.set_nthreads(wrong)
            with pytest.raises(kind):
                blosc2.nthreads = wrong
        assert blosc2.nthreads == old
    finally:
        blosc2.set_nthreads(old)
    assert 1 <= blosc2.ncores == blosc2.detect_number_of_cores()


def run(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_import_has_no_side_effects() -> None:
    code = (
        "import os, sys, threading; before = dict(os.environ), threading.active_count();"
        "import blosc2; from blosc2 import *; assert (dict(os.environ), threading.active_count()) == before;"
        "heavy = {'pandas', 'torch', 'numba', 'requests', 'rich', 'scipy', 'pytest'} & set(sys.modules);"
        "assert not heavy, heavy; print(blosc2.nthreads)"
    )
    assert run(code) == run(code, BLOSC_NTHREADS="4")


@pytest.mark.parametrize("method", ["threads", "one by one"])
def test_memory_does_not_grow(method: str) -> None:
    """Thousands of opens, reads and changes leave nothing behind."""
    code = """
import gc, resource, sys, tempfile, os
import numpy as np
import blosc2
os.fsync = lambda _: None
items = np.random.default_rng(1).integers(0, 1 << 40, 20000)
path = os.path.join(tempfile.mkdtemp(), "a.b2nd")
blosc2.asarray(items, chunks=(3000,), blocks=(500,), urlpath=path)
nthreads = 2 if sys.argv[-1] == "threads" else 1

def work(rounds):
    for n in range(rounds):
        array = blosc2.open(path, mmap_mode="r" if n % 2 else None, dparams={"nthreads": nthreads})
        array[:]; array[5:7]; array.to_cframe(); array.schunk[3:900]; list(array.iterchunks_info())
        memory = blosc2.asarray(items[:5000], cparams={"nthreads": nthreads})
        memory[100:3000] = 1
        memory.vlmeta["a"] = items[:1000]
        memory.vlmeta["a"]
        memory.append(items[:10])
        try:
            blosc2.from_cframe(array.to_cframe()[:-1])
        except ValueError:
            pass
    gc.collect()

work(60)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
work(250)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
assert grown < 6000, grown
"""
    if sys.platform != "linux":
        pytest.skip("ru_maxrss is in kilobytes on Linux only")
    done = subprocess.run(
        [sys.executable, "-c", code, method], env=environment(), capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


def test_texts_of_info(capsys: pytest.CaptureFixture[str]) -> None:
    from blosc2.info import InfoReporter, size_text

    class Thing:
        info_items: list[tuple[str, Any]] = [("a", 1), ("longer", "two\nlines"), ("<b>", "<&>")]

    thing = Thing()
    assert repr(InfoReporter(thing)) == "a      : 1\nlonger : two\n         lines\n<b>    : <&>"
    html = InfoReporter(thing)._repr_html_()
    assert "<b>" not in html
    assert "&lt;&amp;&gt;" in html
    for n, text in (
        (0, "0 (0 B)"),
        (1023, "1023 (1023 B)"),
        (1024, "1024 (1.00 KiB)"),
        (3 << 40, f"{3 << 40} (3.00 TiB)"),
    ):
        assert size_text(n) == text
    assert size_text(5 << 60) == f"{5 << 60} (5120.00 PiB)"


def test_functions_that_are_looked_for_in_core() -> None:
    from blosc2 import core

    for name in (
        "clib_info", "compress", "compress2", "compressor_list", "compute_chunks_blocks", "decompress",
        "decompress2", "detect_number_of_cores", "free_resources", "from_cframe", "get_blocksize",
        "get_cbuffer_sizes", "get_clib", "get_compressor", "get_cpu_info", "load_array", "load_tensor",
        "ndarray_from_cframe", "pack", "pack_array", "pack_array2", "pack_tensor", "print_versions",
        "remove_urlpath", "save_array", "save_tensor", "schunk_from_cframe", "set_blocksize", "set_compressor",
        "set_nthreads", "set_releasegil", "unpack", "unpack_array", "unpack_array2", "unpack_tensor",
    ):  # fmt: skip
        assert getattr(core, name) is getattr(blosc2, name)


def test_names_of_other_array_libraries() -> None:
    from blosc2.utils import NUMPY_GE_2_0

    assert NUMPY_GE_2_0 is (int(np.__version__.split(".")[0]) >= 2)
    assert np.isnan(blosc2.nan)
    assert (blosc2.inf, blosc2.pi, blosc2.e, blosc2.newaxis) == (np.inf, np.pi, np.e, None)
    assert blosc2.zeros(3)[:, blosc2.newaxis].shape == (3, 1)
