"""Sources that are broken, and runs that were interrupted."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._files import Owner
from blosc2.exceptions import ConversionError, FormatError

ITEMS = np.random.default_rng(0).integers(0, 256, (32, 64, 64)).astype("u1")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def command(*arguments: object) -> tuple[int, str]:
    """The exit code of a command, and what it says on stderr."""
    pytest.importorskip("click", reason="click is an extra")
    done = subprocess.run(
        [sys.executable, "-m", "blosc2", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def test_a_cut_lmdb_file_ends_no_process(tmp_path: Path) -> None:
    """The library maps it, and a page behind its end would be a SIGBUS."""
    lmdb = pytest.importorskip("lmdb", reason="an extra")
    path = tmp_path / "a.lmdb"
    with lmdb.open(str(path), subdir=False, map_size=1 << 26) as environment, environment.begin(write=True) as writing:
        for number in range(100):
            writing.put(b"%03d" % number, ITEMS.tobytes()[:5000])
    blosc2.convert(path, tmp_path / "whole.b2z", verify=True)
    cut(path)
    code, said = command("import", path, tmp_path / "a.b2z")
    assert code == 2
    assert "it was cut; restore it from a copy" in said
    path.write_bytes(b"")
    with pytest.raises(ConversionError, match="is no LMDB environment, or a damaged one"):
        blosc2.convert(path, tmp_path / "a.b2z")
    assert not (tmp_path / "a.b2z").exists()


def test_pages_that_a_cut_tiff_lacks_are_not_passed_over(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile", reason="an extra")
    os.mkdir(tmp_path / "images")
    path = tmp_path / "images" / "a.tif"
    tifffile.imwrite(path, ITEMS)
    blosc2.convert(path, tmp_path / "whole.b2z", verify=True)
    cut(path)
    with pytest.raises(ConversionError, match=r"a\.tif is damaged: "):
        blosc2.convert(path, tmp_path / "a.b2z")
    with pytest.raises(ConversionError, match=r"images: nothing of it can be read: /a\.tif: all of it: .* is damaged"):
        blosc2.convert(tmp_path / "images", tmp_path / "b.b2z")
    tifffile.imwrite(tmp_path / "images" / "b.tif", ITEMS)
    report = blosc2.convert(tmp_path / "images", tmp_path / "b.b2z")
    assert [(each.key, each.what) for each in report.left_out] == [("/a.tif", "all of it")]
    assert sorted(os.listdir(tmp_path)) == ["b.b2z", "images", "whole.b2z"]


def test_a_source_that_is_missing_is_named_before_a_target_that_exists(tmp_path: Path) -> None:
    with blosc2.TreeStore(tmp_path / "a.b2z", mode="w"):
        pass
    with pytest.raises(FileNotFoundError, match=r"none\.h5 does not exist"):
        blosc2.convert(tmp_path / "none.h5", tmp_path / "a.b2z")


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_an_empty_file_is_no_interrupt(tmp_path: Path, name: str) -> None:
    """NumPy raises `EOFError`, which click takes for Ctrl-D."""
    (tmp_path / name).write_bytes(b"")
    code, said = command("import", tmp_path / name, tmp_path / "a.b2z")
    assert code == 2
    assert said.startswith("blosc2 import: ")
    assert said.count("\n") == 1
    assert f"{name}: it cannot be read: EOF" in said
    assert "is it whole, and what its name says?" in said


LIBRARIES = {
    "a.h5": "h5py", "a.zarr.zip": "zarr", "a.nc": "netCDF4", "a.nii": "nibabel", "a.mgz": "nibabel",
    "a.parquet": "pyarrow", "a.tif": "tifffile", "a.png": "PIL",
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["a.npy", "a.npz", "a.h5", "a.zarr.zip", "a.nc", "a.nii", "a.mgz", "a.parquet", "a.tif", "a.png"]
)
@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n" + bytes(50), b"PK\x03\x04" + b"q" * 40])
def test_one_file_that_cannot_be_opened_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    """Libraries raise anything."""
    pytest.importorskip(LIBRARIES.get(name, "numpy"))
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConversionError, match=re.escape(name)):
        blosc2.convert(tmp_path / name, tmp_path / "a.b2z")
    assert os.listdir(tmp_path) == [name]


def test_zarr_arrays_that_cannot_be_read_are_told_of_once(tmp_path: Path) -> None:
    """Their library warns of codecs, and logs a traceback for each array that it opened beside the first bad one."""
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    codecs = {"x": [], "y": [], "z": [{"name": "bytes"}, {"name": "numcodecs.zlib", "configuration": {"level": 1}}]}
    for name, changed in codecs.items():
        group.create_array(name, shape=(3,), dtype="i1")
        path = tmp_path / "a.zarr" / name / "zarr.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "codecs": changed}))
    code, said = command("import", tmp_path / "a.zarr", tmp_path / "a.b2z", "--verify")
    assert (code, said) == (1, "")
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert (list(store), store["/z"][:].tolist()) == (["/z"], [0, 0, 0])


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part")
def test_zarr_metadata_of_all_with_a_type_that_nobody_knows(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    for name in ("good", "bad"):
        group.create_array(name, data=np.arange(3, dtype="i2"))
    zarr.consolidate_metadata(tmp_path / "a.zarr")
    for path in (tmp_path / "a.zarr" / "zarr.json", tmp_path / "a.zarr" / "bad" / "zarr.json"):
        found = json.loads(path.read_text())
        bad = found["consolidated_metadata"]["metadata"]["bad"] if "consolidated_metadata" in found else found
        bad["data_type"] = "int17"
        path.write_text(json.dumps(found))
    report = blosc2.convert(tmp_path / "a.zarr", tmp_path / "a.b2z", verify=True)
    assert (report.arrays, [each.key for each in report.left_out]) == (1, ["/bad"])


def test_a_source_of_which_nothing_can_be_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", y=ITEMS)
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[-5000] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    code, said = command("import", tmp_path / "a.npz", tmp_path / "a.b2z")
    assert (code, said.count("\n")) == (2, 1)
    assert f"{tmp_path / 'a.npz'}: nothing of it can be read: /y: " in said
    assert "CRC" in said
    assert os.listdir(tmp_path) == ["a.npz"]


@pytest.mark.parametrize("into", [None, "/m"])
def test_only_what_the_target_keeps_is_something(tmp_path: Path, into: str | None) -> None:
    h5py = pytest.importorskip("h5py", reason="an extra")
    for name, key in (("r", "r"), ("g", "g/r")):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file[key] = np.array([file.ref], h5py.ref_dtype)
            file.attrs.update({"a": 1} if name == "r" else {})
    for source, target in (("g.h5", "g.b2z"), *(() if into else (("r.h5", "r.npz"), ("r.h5", "r.safetensors")))):
        with pytest.raises(ConversionError, match=r"nothing of it can be kept: .*/r: all of it: it has references"):
            blosc2.convert(tmp_path / source, tmp_path / target, into=into)
        assert not (tmp_path / target).exists()
    with blosc2.TreeStore(str(tmp_path / "there.b2z"), mode="w") as store:
        store["/x"] = [1]
    for target in ("r.b2z", "there.b2z") if into else ("r.b2z",):
        assert blosc2.convert(tmp_path / "r.h5", tmp_path / target, into=into).arrays == 0
        with blosc2.open(tmp_path / target) as store:
            assert store.get_subtree(into or "/").attrs["a"] == 1


def test_what_cannot_be_kept_is_not_called_damaged(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="an extra")
    with h5py.File(tmp_path / "r.h5", "w") as file:
        file["r"] = np.array([file.ref], h5py.ref_dtype)
    (tmp_path / "v0.npy").write_bytes(b"no array")
    for names in (["r.h5", "v0.npy"], ["v0.npy", "r.h5"]):
        with pytest.raises(ConversionError, match=f"nothing of it can be kept: /{names[0]}"):
            blosc2.convert([tmp_path / name for name in names], tmp_path / "a.b2z")
    with pytest.raises(ConversionError, match="nothing of it can be read: /v0"):
        blosc2.convert([tmp_path / "v0.npy"], tmp_path / "a.b2z")


def test_names_that_are_no_text(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="an extra")
    image.fromarray(ITEMS[0]).save(tmp_path / "good.png")
    try:
        os.rename(tmp_path / "good.png", os.fsencode(tmp_path) + b"/\xff.png")
    except OSError:
        pytest.skip("the file system takes no such name")
    image.fromarray(ITEMS[1]).save(tmp_path / "good.png")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xfe.txt")).write_bytes(b"no image")
    report = blosc2.convert(tmp_path, Path(str(tmp_path) + ".b2z"), source_format="folder")
    assert [(each.key, each.what) for each in report.left_out] == [
        ("/\\udcfe.txt", "all of it"), ("/\\udcff.png", "all of it"),
    ]  # fmt: skip
    assert "/\\udcff.png" in str(report).encode().decode()
    with blosc2.open(str(tmp_path) + ".b2z") as store:
        np.testing.assert_array_equal(store["/good.png"][...], ITEMS[0 + 1])


def test_a_full_disk_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing fails as well: the first error is raised, and nothing is told of by `__del__` later."""
    from blosc2._backends.zip.backend import ZipBackend

    np.savez(tmp_path / "a.npz", x=ITEMS)
    real = ZipBackend.write
    calls: list[Any] = []

    def full(self: Any, files: Any, *more: Any, **keywords: Any) -> None:
        calls.append(files)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(self, files, *more, **keywords)

    monkeypatch.setattr(ZipBackend, "write", full)
    with pytest.raises(OSError, match="No space left") as caught:
        blosc2.convert(tmp_path / "a.npz", tmp_path / "a.b2z")
    assert caught.value.errno == errno.ENOSPC
    assert len(calls) == 3  # at the end, and once more when it was closed
    monkeypatch.undo()
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "a.partial.b2z"]
    assert blosc2.convert(tmp_path / "a.npz", tmp_path / "a.b2z", verify=True).arrays == 1
    assert sorted(os.listdir(tmp_path)) == ["a.b2z", "a.npz"]


@pytest.mark.parametrize(
    ("suffix", "package"),
    [
        (".h5", "h5py"), (".nc", "netCDF4"), (".npz", "numpy"), (".zarr", "zarr"), (".safetensors", "safetensors"),
        (".nii", "nibabel"), (".tif", "tifffile"),
    ],
)  # fmt: skip
def test_a_disk_that_fills(tmp_path: Path, suffix: str, package: str) -> None:
    """No file of another format stays half made, also if its library fails once more when it is closed."""
    resource = pytest.importorskip("resource", reason="systems without it have no limit of files")
    pytest.importorskip(package, reason="an extra")
    noise = np.random.default_rng(1).random((64, 64, 64))
    with blosc2.TreeStore(str(tmp_path / "a.b2z"), mode="w") as store:
        store["/x"] = noise
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises((OSError, RuntimeError)) as caught:
            blosc2.convert(tmp_path / "a.b2z", tmp_path / f"a{suffix}")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(os.listdir(tmp_path)) == ["a.b2z"]
    assert "goes on from" not in "".join(caught.value.__notes__)


def test_what_is_still_written_to_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt leaves threads of zarr that write chunks while the directory is removed."""
    zarr_groups = pytest.importorskip("blosc2._tools.converting.zarr_groups", reason="zarr is an extra")
    np.savez(tmp_path / "a.npz", x=ITEMS)
    left = 2

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    real = Owner.remove_tree

    def raced(self: Any, path: str, *, strict: bool) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            real(self, path, strict=strict)

    monkeypatch.setattr(zarr_groups.conversion, "boxes_of", interrupted)
    monkeypatch.setattr(Owner, "remove_tree", raced)
    with pytest.raises(KeyboardInterrupt):
        blosc2.convert(tmp_path / "a.npz", tmp_path / "a.zarr")
    assert os.listdir(tmp_path) == ["a.npz"]


def test_a_target_that_cannot_be_removed_hides_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._tools.converting.files import NewNpz

    np.savez(tmp_path / "a.npz", x=ITEMS)

    def broken(self: Any, item: Any) -> Any:
        raise ValueError("the first error")

    real = NewNpz.abandon

    def stuck(self: Any, *, keep: bool) -> None:
        real(self, keep=keep)
        raise OSError(errno.EACCES, "not allowed")

    monkeypatch.setattr(NewNpz, "add", broken)
    monkeypatch.setattr(NewNpz, "abandon", stuck)
    with pytest.raises(ValueError, match="the first error") as caught:
        blosc2.convert(tmp_path / "a.npz", tmp_path / "b.npz")
    assert "could not be removed, and may be deleted: [Errno 13] not allowed" in caught.value.__notes__[0]


def test_what_to_do_with_a_target_that_exists(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=ITEMS)
    blosc2.convert(tmp_path / "a.npz", tmp_path / "b.b2z")
    with pytest.raises(FileExistsError, match=r"overwrite=True replaces it; into='/key' adds to a store"):
        blosc2.convert(tmp_path / "a.npz", tmp_path / "b.b2z")
    with pytest.raises(FileExistsError, match=r"overwrite=True replaces it$"):
        blosc2.convert(tmp_path / "b.b2z", tmp_path / "a.npz")
    code, said = command("import", tmp_path / "a.npz", tmp_path / "b.b2z")
    assert code == 2
    assert "-f replaces it; to add to it: blosc2 import" in said
    # What it says is done, by the words that it says.
    code, said = command("import", tmp_path / "a.npz", tmp_path / "b.b2z" / "of" / "a")
    assert code == 2
    words = said.partition("to add to it: ")[2].strip()
    done = subprocess.run(
        f"{sys.executable} -m {words}", shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with blosc2.open(str(tmp_path / "b.b2z")) as store:
        np.testing.assert_array_equal(store["/of/a/x"][...], ITEMS)
    with pytest.raises(ConversionError, match="target_format= names one") as caught:
        blosc2.convert(tmp_path / "a.npz", tmp_path / "c")
    assert ".npz" in str(caught.value)
    assert ".npy" not in str(caught.value)  # which cannot be written


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.h5"])
def test_open_says_how_other_formats_are_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(1000))
    if name != "a.h5":
        with open(path, "wb") as file:
            (np.save if name == "a.npy" else np.savez)(file, ITEMS)
    with pytest.raises(FormatError, match=rf"to make a store of it: blosc2\.convert\('{name}', 'a\.b2z'\)"):
        blosc2.open(str(path))
    for kind in (blosc2.TreeStore, blosc2.EmbedStore):
        for mode in ("r", "a"):
            with pytest.raises(FormatError, match=rf"blosc2\.convert\('{name}', 'a\.b2z'\)$"):
                kind(str(path), mode=mode)


# ---------------------------------------------------------------------- interrupted runs
MAIN = "import sys, blosc2; blosc2.convert(sys.argv[1], sys.argv[2]); print('done')"
# So that there is something to resume, and time to kill: published after each array, slowly.
SLOW = (
    "import time\nfrom blosc2._tools.converting import stores\nstores._PUBLISH_SECONDS = 0.0\n"
    "real = stores.new_array\nstores.new_array = lambda *a: (time.sleep(0.01), real(*a))[1]\n"
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", **{f"g{i % 3}/x{i:02}": rng.random(1000 + i) for i in range(60)})
    return tmp_path / "a.npz"


def interrupted_run(source: Path, target: Path, wait: float | None) -> int:
    process = subprocess.Popen([sys.executable, "-c", SLOW + MAIN, str(source), str(target)], stdout=subprocess.PIPE)
    try:
        process.communicate(timeout=wait)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return process.returncode


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL does not exist on every platform")
@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_killed_and_resumed(tmp_path: Path, source: Path, suffix: str) -> None:
    target = tmp_path / f"a{suffix}"
    rng = random.Random(1)

    def check_complete() -> None:
        assert blosc2.check(str(target)).ok
        with np.load(source) as wanted, blosc2.open(str(target)) as found:
            assert sorted(key for key, _, _ in found.walk()) == ["/", "/g0", "/g1", "/g2"]
            assert len(wanted.files) == sum(len(leaves) for _, _, leaves in found.walk()) == 60
            for name in wanted.files:
                np.testing.assert_array_equal(found[f"/{name}"][...], wanted[name])
            assert found.attrs[:] == {}

    for _ in range(4):
        interrupted_run(source, target, rng.uniform(0.3, 0.9))
        if target.exists():  # it was fast enough, or killed after its last step
            check_complete()
            shutil.rmtree(target) if target.is_dir() else target.unlink()
    report = blosc2.convert(source, target, verify=True)
    assert report.arrays == 60
    assert {path.name for path in tmp_path.iterdir()} == {"a.npz", target.name}
    check_complete()


def test_what_was_published_is_not_read_again(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._tools.converting import stores

    monkeypatch.setattr(stores, "_PUBLISH_SECONDS", 0.0)
    real, made = stores.new_array, 0

    def stop(*arguments: object) -> object:
        nonlocal made
        made += 1
        if made == 30:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(stores, "new_array", stop)
    with pytest.raises(KeyboardInterrupt):
        blosc2.convert(source, tmp_path / "a.b2z")
    assert sorted(os.listdir(tmp_path)) == ["a.npz", "a.partial.b2z"]
    report = blosc2.convert(source, tmp_path / "a.b2z", verify=True)
    assert (report.resumed, report.arrays, made) == (29, 60, 30 + 31)
    assert sorted(os.listdir(tmp_path)) == ["a.b2z", "a.npz"]


@pytest.mark.parametrize("change", ["source", "options", "resume", "garbage"])
def test_another_source_begins_anew(tmp_path: Path, source: Path, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._tools.converting import stores

    with monkeypatch.context() as patched:
        patched.setattr(stores, "_PUBLISH_SECONDS", 0.0)
        calls = iter(range(5))
        real = stores.new_array
        patched.setattr(stores, "new_array", lambda *a: (next(calls), real(*a))[1])
        with pytest.raises(RuntimeError):  # of an iterator that ends in a generator
            blosc2.convert(source, tmp_path / "a.b2z")
    if change == "source":
        np.savez(source, **{"g0/x00": np.arange(3), "other": np.arange(4)})
    if change == "garbage":
        (tmp_path / "a.partial.b2z").write_bytes(b"no store")
    report = blosc2.convert(
        source, tmp_path / "a.b2z", verify=True, chunks="new" if change == "options" else "auto",
        resume=change != "resume",
    )  # fmt: skip
    assert (report.resumed, report.arrays) == (0, 2 if change == "source" else 60)
    old = ["a.partial.b2z"] if change == "resume" else []
    assert sorted(os.listdir(tmp_path)) == ["a.b2z", "a.npz", *old]


def test_a_file_behind_a_link_that_has_changed(tmp_path: Path, interrupted: Callable[..., None]) -> None:
    os.mkdir(tmp_path / "folder")
    os.symlink(tmp_path / "a.npy", tmp_path / "folder" / "a.npy")
    os.symlink(tmp_path / "none", tmp_path / "folder" / "broken")
    np.save(tmp_path / "a.npy", np.arange(3))
    interrupted(tmp_path / "folder", tmp_path / "a.b2z")
    np.save(tmp_path / "a.npy", np.arange(4))
    assert blosc2.convert(tmp_path / "folder", tmp_path / "a.b2z").resumed == 0
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert store["/a.npy"].shape == (4,)


def test_a_function_that_renames_begins_anew(tmp_path: Path, source: Path, interrupted: Callable[..., None]) -> None:
    interrupted(source, tmp_path / "a.b2z", rename=str.upper)
    assert sorted(os.listdir(tmp_path)) == ["a.npz"]
    report = blosc2.convert(source, tmp_path / "a.b2z", rename=str.upper, verify=True)
    assert (report.resumed, report.arrays) == (0, 60)


def test_a_leaf_that_the_source_has_not(tmp_path: Path, source: Path, interrupted: Callable[..., None]) -> None:
    interrupted(source, tmp_path / "a.b2z")
    with blosc2.TreeStore(str(tmp_path / "a.partial.b2z"), mode="a") as store:
        store["/g0/other"] = np.arange(3)
    with pytest.raises(ConversionError, match="holds '/g0/other', which the source has not"):
        blosc2.convert(source, tmp_path / "a.b2z", verify=True)
    assert sorted(os.listdir(tmp_path)) == ["a.npz"]
    blosc2.convert(source, tmp_path / "a.b2z", verify=True)
    blosc2.convert(source, tmp_path / "a.b2z", into="/more/", verify=True)
