"""`check`: every wrong bit of what we wrote is found, and nothing is found in what is whole."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits, manifest
from fixture_kit.checked_files import FILES, MEMORY, NUMBERS, archive, archive_changed, array, embedded
from fixture_kit.isolated import Worker
from store_kit import tree_state
from store_makers import before_sync

import blosc2
from blosc2._core.io.checksum import crc32c

# files that are not inside of a larger one
WHOLE = [entry for entry in manifest.FILES if "offset" not in entry]
# kinds of objects that are whole, but not ours; values that stand for something else
UNSUPPORTED = ("kind_", "value_ext_unknown", "embed_remote")


@pytest.fixture(scope="module")
def checker() -> Iterator[Worker]:
    worker = Worker("fixture_kit.check_worker")
    # what is loaded when first needed, no file is to be blamed for
    worker.ask({"path": str(manifest.ROOT / "stores" / "tree_plain.b2z"), "salvage": True})
    yield worker
    worker.close()


def missed(path: Path, file: Path) -> list[tuple[int, int]]:
    """Flip each bit of a file in turn: those with which the check of a path finds nothing."""
    data = bytearray(file.read_bytes())
    bits = [(at, bit) for at in range(len(data)) for bit in range(8)]
    if len(data) > 1500:
        rng = random.Random(len(data))
        bits = [(at, rng.randrange(8)) for at in range(len(data))]
    result = []
    with open(file, "r+b", buffering=0) as handle:
        for at, bit in bits:
            handle.seek(at)
            handle.write(bytes((data[at] ^ 1 << bit,)))
            if blosc2.check(path).ok:
                result.append((at, bit))
            handle.seek(at)
            handle.write(data[at : at + 1])
    assert file.read_bytes() == data
    return result


@pytest.mark.parametrize("name", FILES)
def test_every_wrong_bit_is_found(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    FILES[name](path)
    report = blosc2.check(path)
    assert report.ok, report
    assert not report.unverified, report
    assert not report.notes, report
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) > 100
    for file in files:
        assert missed(path, file) == [], file.name
    assert blosc2.check(path).ok


# ------------------------------------------------------------------ files of others
@pytest.mark.parametrize("entry", WHOLE, ids=[e["path"] for e in WHOLE])
def test_nothing_is_found_in_what_is_whole(entry: dict[str, Any]) -> None:
    path = manifest.path_of(entry)
    before = tree_state(path)
    report = blosc2.check(path)
    assert report.ok, report
    assert report.unverified or path.is_dir()  # others write no checksums
    assert tree_state(path) == before


@pytest.mark.parametrize("entry", manifest.HOSTILE, ids=[Path(e["path"]).name for e in manifest.HOSTILE])
def test_hostile(entry: dict[str, Any], checker: Worker) -> None:
    path = manifest.path_of(entry)
    answer = checker.ask({"path": str(path), "salvage": True})
    what = f"{entry['what']}: {answer}"
    found = answer["findings"]
    if any(name in path.name for name in UNSUPPORTED):
        assert not found, what
        assert len(answer["unverified"]) > (path.suffix == ".b2z"), what
    else:
        assert found, what
        assert all(problem for _, _, problem in found), what
    assert answer["recovered"] is not None or answer["error"], what
    assert answer["memory"] < MEMORY, what


def test_a_large_chunk_takes_little_memory(tmp_path: Path, checker: Worker) -> None:
    if not limits.LINUX:
        pytest.skip("measures memory in /proc")
    path = tmp_path / "large.b2nd"
    blosc2.asarray(np.arange(16 << 20, dtype="i8"), urlpath=str(path), chunks=(16 << 20,), blocks=(1 << 16,))
    answer = checker.ask({"path": str(path), "salvage": False})
    assert answer["findings"] == []
    assert answer["checked"] < MEMORY


def test_archives_of_other_tools(tmp_path: Path) -> None:
    """The same members as Python's zipfile and `zip -0` write them: no finding, and no file checksum."""
    source = manifest.ROOT / "stores" / "tree_plain.b2d"
    python = tmp_path / "python.b2z"
    with zipfile.ZipFile(python, "w", zipfile.ZIP_STORED) as target:
        for file in sorted(source.rglob("*")):
            target.write(file, file.relative_to(source).as_posix())
    streamed = tmp_path / "streamed.b2z"
    with open(streamed, "wb") as sink, zipfile.ZipFile(_Unseekable(sink), "w") as target:
        for file in sorted(source.rglob("*")):
            if file.is_file():
                target.write(file, file.relative_to(source).as_posix())
    made = [python, streamed]
    tool = shutil.which("zip")
    if tool:
        for name, options in (("zip.b2z", ["-0", "-r"]), ("zip_d.b2z", ["-0", "-r", "-fd"]), ("zip_x.b2z", ["-0rXD"])):
            path = tmp_path / name
            subprocess.run([tool, *options, str(path), "."], cwd=source, check=True, capture_output=True)
            made.append(path)
    for path in made:
        report = blosc2.check(path)
        assert report.ok, report
        assert any("file checksum" in one.problem for one in report.unverified)
        with blosc2.open(str(path)) as store:
            assert len(store)


class _Unseekable:
    """A file that can only be written to from the front."""

    def __init__(self, file: Any) -> None:
        self.write, self.flush = file.write, file.flush


def test_archives_of_ours_that_other_tools_changed(tmp_path: Path) -> None:
    """Python and `zip` keep our comment, which then tells of another file."""
    path = tmp_path / "x.b2z"
    archive(path)
    extra = tmp_path / "notes.txt"
    extra.write_text("notes")
    copy = tmp_path / "y.b2z"
    shutil.copyfile(path, copy)
    with zipfile.ZipFile(path, "a") as target:
        assert target.comment.startswith(b"blosc2 ")
        target.write(extra, "notes.txt")
    changed = [path]
    tool = shutil.which("zip")
    if tool:
        subprocess.run([tool, "-0", str(copy), "notes.txt"], cwd=tmp_path, check=True, capture_output=True)
        changed.append(copy)
    for one in changed:
        report = blosc2.check(one)
        assert report.ok, report
        assert len(report.unverified) == 1
    # We append to it: there is still no file checksum.
    with blosc2.TreeStore(str(path), mode="a") as store:
        store["/more"] = [1]
    report = blosc2.check(path)
    assert report.ok, report
    assert len(report.unverified) == 1


def test_the_checksum_covers_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    archive_changed(path)
    data = path.read_bytes()
    assert data[-32:-8] == b"blosc2 %016x " % (len(data) - 54)
    assert data[-8:] == b"%08x" % crc32c(data[:-8])


@pytest.mark.parametrize("field", [4, 6, 8, 10, 12, 14, 18, 22])
def test_a_local_header_that_differs_from_the_directory(field: int, tmp_path: Path) -> None:
    """Without a file checksum, too."""
    path = tmp_path / "x.b2z"
    shutil.copyfile(manifest.ROOT / "stores" / "dict_external.b2z", path)
    assert blosc2.check(path).ok
    with zipfile.ZipFile(path) as members:
        info = members.infolist()[1]
    with open(path, "r+b") as file:
        file.seek(info.header_offset + field)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes((byte ^ 16,)))
    report = blosc2.check(path)
    assert [one.offset for one in report] == [info.header_offset]
    assert info.filename in report[0].problem
    assert report[0].key == "/" + info.filename.rpartition(".")[0]


def test_members_that_share_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    shutil.copyfile(manifest.ROOT / "stores" / "dict_external.b2z", path)
    data = bytearray(path.read_bytes())
    records = [at for at in range(len(data)) if data[at : at + 4] == b"PK\1\2"]
    data[records[1] + 42 : records[1] + 46] = data[records[0] + 42 : records[0] + 46]
    path.write_bytes(data)
    assert blosc2.check(path)


def test_an_unfinished_append_is_no_damage(tmp_path: Path) -> None:
    """But a newest version that is damaged is, although an older one shows."""
    for name in ("x.b2z", "x.b2e", "x.b2nd"):
        path = tmp_path / name
        {".b2z": archive, ".b2e": embedded, ".b2nd": array}[path.suffix](path)
        size = path.stat().st_size
        with open(path, "ab") as file:
            file.write(b"PK\3\4" + bytes(1000))
        report = blosc2.check(path)
        assert report.ok, report
        assert [one.offset for one in report.notes] == [size]
        assert not report.unverified
    path = tmp_path / "y.b2z"
    archive_changed(path)
    data = bytearray(before_sync(path.read_bytes()))
    directory = data.rindex(b"PK\1\2")
    data[directory] ^= 1
    path.write_bytes(data)
    assert any("newest" in one.problem for one in blosc2.check(path))


# ------------------------------------------------------------------ stores
def test_values_that_lie_upon_each_other(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    shutil.copyfile(manifest.ROOT / "stores" / "embed_raw.b2e", path)
    frame = blosc2.schunk_from_cframe(path.read_bytes(), copy=True)
    entries = frame.vlmeta["estore_metadata"]
    first, second = list(entries["embed_map"])[:2]
    entries["embed_map"][second] = dict(entries["embed_map"][first])
    frame.vlmeta["estore_metadata"] = entries
    path.write_bytes(frame.to_cframe())
    report = blosc2.check(path)
    assert any("upon" in one.problem and one.key in (first, second) for one in report), report


def test_the_files_of_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "x.b2d"
    archive(path)
    shutil.copyfile(path / "a.b2nd", path / "A.b2nd")
    shutil.copyfile(path / "a.b2nd", path / "a.b2f")
    shutil.copyfile(path / "a.b2nd", path / "g" / "unknown.suffix")
    (path / "a.b2nd.17.tmp").write_bytes(b"half a fra")
    (path / "notes.txt").write_text("ignored")
    (tmp_path / ".x.b2d.123.tmp").mkdir()
    report = blosc2.check(path)
    assert report.ok, report
    assert not report.unverified
    text = "\n".join(one.problem for one in report.notes)
    for what in (
        "differ in case", "2 leaves have the key '/a'", "unusual suffix", "temporary file", "left by a writer",
    ):  # fmt: skip
        assert what in text
    assert len(report.notes) == 5
    (path / "embed.b2e").unlink()
    (path / "g" / "raw.b2nd").write_bytes(b"")
    report = blosc2.check(path)
    assert {one.key for one in report} == {None, "/g/raw"}
    assert Path(report[1].path) == path / "g" / "raw.b2nd"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without pipes that have names")
def test_what_is_no_file_does_not_hang(tmp_path: Path) -> None:
    path = tmp_path / "x.b2d"
    archive(path)
    os.mkfifo(path / "pipe.b2nd")
    os.mkfifo(path / "pipe.other")
    assert [Path(one.path).name for one in blosc2.check(path)] == ["pipe.b2nd"]
    os.mkfifo(tmp_path / "pipe.b2nd")
    assert not blosc2.check(tmp_path / "pipe.b2nd").ok


def test_a_directory_of_chunk_files(tmp_path: Path) -> None:
    for kind in ("array", "variable"):
        path = tmp_path / f"{kind}.b2nd"
        if kind == "array":
            blosc2.asarray(NUMBERS, chunks=(100,), urlpath=str(path), contiguous=False)
        else:
            s = blosc2.SChunk(chunksize=64, data=bytes(128), urlpath=str(path), contiguous=False)
            s.append_data(b"12345678")
            s.append_data(b"12345678")
        report = blosc2.check(path)
        assert report.ok, report
        (path / "00000077.chunk").write_bytes(b"")
        assert len(blosc2.check(path).notes) == 1
        chunk = path / "00000001.chunk"
        data = chunk.read_bytes()
        chunk.write_bytes(data[:-1])
        assert [one.path for one in blosc2.check(path)] == [str(chunk)]
        chunk.unlink()
        assert "missing" in blosc2.check(path)[0].problem
        chunk.write_bytes(data)
        assert blosc2.check(path).ok
        (path / "chunks.b2frame").write_bytes(b"")
        assert not blosc2.check(path).ok
