"""Sources of which one item cannot be read: it is listed, and the others are converted."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import ConversionError

NOISE = np.random.default_rng(0).random(100_000)


def npz(path: Path, *, damaged: np.ndarray[Any, Any] = NOISE) -> Path:
    """The middle one of three arrays has another CRC."""
    np.savez(path, x=np.arange(3), y=damaged, z=np.arange(4))
    data = bytearray(path.read_bytes())
    data[damaged.nbytes] ^= 255
    path.write_bytes(data)
    return path


def check(source: Path, target: Path, kept: set[str], lost: set[str]) -> blosc2.ConversionReport:
    report = blosc2.convert(source, target, verify=True)
    assert {each.key for each in report.left_out if each.what == "all of it"} == lost
    assert not report.complete
    assert len(str(report).splitlines()) == 2 + len(report.left_out)
    blosc2.convert(target, source.parent / "seen.b2z", overwrite=True)
    with blosc2.open(str(source.parent / "seen.b2z")) as store:
        assert {key for key in store if isinstance(store[key], blosc2.NDArray)} == kept
    return report


@pytest.mark.parametrize("name", ["a.b2z", "a.b2d", "a.b2e", "b.npz", "a.h5", "a.zarr"])
def test_nothing_of_it_stays_in_the_target(tmp_path: Path, name: str) -> None:
    if name.endswith((".h5", ".zarr")):
        pytest.importorskip("h5py" if name.endswith("h5") else "zarr", reason="an extra")
    report = check(npz(tmp_path / "a.npz"), tmp_path / name, {"/x", "/z"}, {"/y"})
    assert report.arrays == 2
    assert "CRC" in report.left_out[0].why


@pytest.mark.parametrize("name", ["a.zarr.zip", "a.safetensors", "a.b2nd"])
def test_a_target_that_takes_nothing_back(tmp_path: Path, name: str) -> None:
    if "zarr" in name:
        pytest.importorskip("zarr", reason="an extra")
    np.savez(tmp_path / "a.npz", y=NOISE)
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[NOISE.nbytes] ^= 255
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(ConversionError, match=r"/y: it cannot be read: .*CRC"):
        blosc2.convert(tmp_path / "a.npz", tmp_path / name)
    assert os.listdir(tmp_path) == ["a.npz"]


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_a_large_array_and_a_run_that_is_resumed(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chunks go right into the store."""
    source = npz(tmp_path / "a.npz", damaged=np.arange(10_000_000.0))
    blosc2.convert(source, tmp_path / f"a{suffix}")
    from blosc2._tools.converting import conversion, stores

    monkeypatch.setattr(stores, "_PUBLISH_SECONDS", 0.0)

    def interrupted(*_: object, **keywords: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(conversion, "put_in_place", interrupted)
        with pytest.raises(KeyboardInterrupt):
            blosc2.convert(source, tmp_path / f"b{suffix}")
    for name in (f"a{suffix}", f"b{suffix}"):
        report = blosc2.convert(source, tmp_path / name, overwrite=True, verify=True)
        assert [each.key for each in report.left_out] == ["/y"]
        assert blosc2.check(str(tmp_path / name)).ok
        with blosc2.open(str(tmp_path / name)) as store:
            assert list(store) == ["/x", "/z"]


def test_a_fault_of_the_machine_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from blosc2._tools.converting import files

    np.savez(tmp_path / "a.npz", x=np.arange(3))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files._Member, "read", full)
    with pytest.raises(OSError, match="No space left"):
        blosc2.convert(tmp_path / "a.npz", tmp_path / "a.b2z", resume=False)


# ------------------------------------------------------------------ HDF5
def test_hdf5_types_that_numpy_has_not(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="an extra")
    small, quad = h5py.h5t.STD_I32LE.copy(), h5py.h5t.IEEE_F64LE.copy()
    small.set_size(3)
    quad.set_size(16)
    quad.set_precision(128)
    quad.set_fields(127, 112, 15, 0, 112)
    quad.set_ebias(16383)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["z"] = np.arange(3), np.arange(4)
        space = h5py.h5s.create_simple((3,))
        for name, kind in (("small", small), ("quad", quad), ("time", h5py.h5t.UNIX_D32LE)):
            h5py.h5d.create(file.id, name.encode(), kind, space)
        undefined = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        undefined.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        h5py.h5d.create(file.id, b"undefined", h5py.h5t.NATIVE_INT32, space, undefined)
        file["undefined"][...] = [1, 2, 3]
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "a.b2z", verify=True)
    lost = {each.key for each in report.left_out}
    assert {"/small", "/time"} <= lost <= {"/small", "/time", "/quad"}
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert {"/x", "/z", "/undefined"} <= set(store)
        assert store["/undefined"][...].tolist() == [1, 2, 3]


def test_hdf5_items_that_cannot_be_read(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="an extra")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/x"] = np.arange(3)
        file.create_dataset("g/external", (10,), "i4", external=[("gone.bin", 0, 40)])[...] = 1
        file.create_dataset("g/cut", data=NOISE, chunks=(50_000,), compression="gzip")
        _, stored = file["g/cut"].id.read_direct_chunk((0,))
        file["g/cut"].id.write_direct_chunk((0,), stored[:1000])
        # optional (flag 1), so that it can be made without the filter; its chunks say that it was applied
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((10,))
        properties.set_filter(60_000, 1)
        space = h5py.h5s.create_simple((10,))
        unknown = h5py.h5d.create(file["g"].id, b"unknown", h5py.h5t.NATIVE_INT8, space, properties)
        unknown.write_direct_chunk((0,), bytes(5))
    for path in (tmp_path / "gone.bin", Path("gone.bin")):
        path.unlink(missing_ok=True)
    check(tmp_path / "a.h5", tmp_path / "a.b2z", {"/g/x"}, {"/g/external", "/g/cut", "/g/unknown"})
    report = blosc2.convert(tmp_path / "a.h5", tmp_path / "b.b2z")
    (why,) = [each.why for each in report.left_out if each.key == "/g/unknown"]
    assert "the filter '60000' of HDF5 is not installed" in why


# ------------------------------------------------------------------ the others
def test_zarr(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", reason="an extra")
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    for name in ("x", "codec", "cut"):
        group.create_array(f"g/{name}", data=NOISE, chunks=(50_000,)).attrs["unit"] = "mm"
    described = tmp_path / "a.zarr" / "g" / "codec" / "zarr.json"
    metadata = json.loads(described.read_text())
    metadata["codecs"][-1] = {"name": "unknown"}
    described.write_text(json.dumps(metadata))
    chunk = tmp_path / "a.zarr" / "g" / "cut" / "c" / "1"
    chunk.write_bytes(chunk.read_bytes()[:100])
    check(tmp_path / "a.zarr", tmp_path / "a.b2z", {"/g/x"}, {"/g/codec", "/g/cut"})
    described.unlink()
    check(tmp_path / "a.zarr", tmp_path / "b.b2z", {"/g/x"}, {"/g/codec", "/g/cut"})


def tar(path: Path, mode: str = "w") -> int:
    """Three members; where the second one begins."""
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name in ("x", "y", "z"):
            member = tarfile.TarInfo(name)
            member.size = 2048
            archive.addfile(member, io.BytesIO(bytes(2048)))
    return tarfile.BLOCKSIZE + 2048


@pytest.mark.parametrize("fault", ["cut", "header"])
def test_tar(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "a.tar"
    at, data = tar(path), bytearray(path.read_bytes())
    data[at + 100] ^= 255
    path.write_bytes(data if fault == "header" else path.read_bytes()[: at + 1500])
    report = check(path, tmp_path / "a.b2z", {"/x"}, set() if fault == "header" else {"/y"})
    assert [each.what for each in report.left_out][-1] == "the members that follow"


def test_a_compressed_tar_that_is_cut(tmp_path: Path) -> None:
    tar(tmp_path / "a.tar", "w:gz")
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:-30])
    report = blosc2.convert(tmp_path / "a.tar", tmp_path / "a.b2z")
    assert not report.complete


def compressed(path: Path, data: bytes) -> None:
    """Bytes, stored in a gzip file whose sum is another one."""
    with gzip.open(path, "wb", compresslevel=0) as file:
        file.write(data)
    stored = bytearray(path.read_bytes())
    stored[-8] ^= 1
    path.write_bytes(stored)


def test_a_tar_whose_sum_does_not_fit(tmp_path: Path) -> None:
    tar(tmp_path / "b.tar")
    compressed(tmp_path / "a.tar", (tmp_path / "b.tar").read_bytes())
    report = check(tmp_path / "a.tar", tmp_path / "a.b2z", {"/x", "/y", "/z"}, set())
    assert [each[:2] for each in report.left_out] == [("/", "some of the bytes")]


def npy(header: bytes, version: int = 2) -> bytes:
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(4, "little") + header


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "header", [b"(" * 9000, b"-" * 9000 + b"1", b"{'a': (", b"[" * 150 + b"]" * 150, b"{}", b"\xff"]
)
def test_a_record_that_begins_like_an_array(tmp_path: Path, header: bytes, version: int) -> None:
    record = npy(header, version)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name, content in {
            "x": record,
            "y": npy(b"{'descr': '<i2', 'fortran_order': False, 'shape': ()}\n") + b"ab",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    assert blosc2.convert(tmp_path / "a.tar", tmp_path / "a.b2z", verify=True).complete
    with blosc2.open(str(tmp_path / "a.b2z")) as store:
        assert store["/x"][...].tobytes() == record
        assert store["/y"][...] == np.frombuffer(b"ab", "<i2")[0]


@pytest.mark.parametrize("descr", ["|S0", "|V0", "<U0"])
@pytest.mark.parametrize("length", [3, 10**15])
@pytest.mark.parametrize("name", ["a.b2z", "a.b2e", "b.npz", "a.zarr"])
def test_items_without_bytes(tmp_path: Path, descr: str, length: int, name: str) -> None:
    if name == "a.zarr":
        pytest.importorskip("zarr", reason="an extra")
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({length},)}}\n".encode()
    os.mkdir(tmp_path / "folder")
    (tmp_path / "folder" / "a.npy").write_bytes(npy(header))
    np.save(tmp_path / "folder" / "x.npy", np.arange(3))
    report = check(tmp_path / "folder", tmp_path / name, {"/x.npy"}, {"/a.npy"})
    assert report.left_out[0].why


def test_a_member_larger_than_its_archive_can_be(tmp_path: Path) -> None:
    tar(tmp_path / "b.tar")
    member = tarfile.TarInfo("huge")
    member.size = 1 << 30
    content = (tmp_path / "b.tar").read_bytes()[: 3 * (tarfile.BLOCKSIZE + 2048)]
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(content + member.tobuf() + bytes(4096)))
    report = check(tmp_path / "a.tar.gz", tmp_path / "a.b2z", {"/x", "/y", "/z"}, {"/huge"})
    assert report.left_out[0].why.startswith("it claims 1073741824 bytes")


def test_a_nifti_file_whose_sum_does_not_fit(tmp_path: Path) -> None:
    nibabel = pytest.importorskip("nibabel", reason="an extra")
    nibabel.save(nibabel.Nifti1Image(NOISE.reshape(100, 1000), np.eye(4)), tmp_path / "b.nii")
    compressed(tmp_path / "a.nii.gz", (tmp_path / "b.nii").read_bytes())
    with pytest.raises(ConversionError, match=r"a\.nii\.gz: it cannot be read: CRC check failed"):
        blosc2.convert(tmp_path / "a.nii.gz", tmp_path / "a.b2z")
    cut = (tmp_path / "b.nii").read_bytes()[:5000]
    (tmp_path / "b.nii").write_bytes(cut)
    with pytest.raises(ConversionError, match=r"b\.nii: it cannot be read: "):
        blosc2.convert(tmp_path / "b.nii", tmp_path / "a.b2z")


def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="an extra")
    parquet = pytest.importorskip("pyarrow.parquet", reason="an extra")
    path = tmp_path / "a.parquet"
    table = pa.table({"x": NOISE, "y": NOISE, "z": NOISE})
    parquet.write_table(table, path, use_dictionary=False, compression="zstd")
    column = parquet.read_metadata(path).row_group(0).column(1)
    data = bytearray(path.read_bytes())
    data[column.data_page_offset : column.data_page_offset + 3000] = bytes(3000)
    path.write_bytes(data)
    check(path, tmp_path / "a.b2z", {"/x", "/z"}, {"/y"})


def test_a_leaf_of_a_store(tmp_path: Path) -> None:
    """A damaged leaf of a store is listed, too, when it is copied as it is and when it is decoded."""
    with blosc2.TreeStore(str(tmp_path / "a.b2d"), mode="w", threshold=0) as store:
        for name in ("x", "y", "z"):
            store[name] = NOISE
    path = tmp_path / "a.b2d" / "y.b2nd"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    for name in ("b.b2z", "c.npz"):
        check(tmp_path / "a.b2d", tmp_path / name, {"/x", "/z"}, {"/y"})
