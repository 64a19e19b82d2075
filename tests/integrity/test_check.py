"""`check`: every wrong bit of what we wrote is found, and nothing is found in what is whole."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits, manifest
from fixture_kit.isolated import Worker
from store_kit import tree_state

import blosc2
from blosc2.__main__ import main
from blosc2._core.io.checksum import crc32c
from blosc2._integrity.report import CheckReport, Finding

# far below what the hostile files claim
MEMORY = 48 << 20

NUMBERS = np.arange(300, dtype="i4")
NOISE = np.random.default_rng(7).integers(0, 256, 200, dtype="u1")

# files that are not inside of a larger one
WHOLE = [entry for entry in manifest.FILES if "offset" not in entry]
# kinds of objects that are whole, but not ours; values that stand for something else
FOREIGN = ("kind_", "value_ext_unknown", "embed_remote")


@pytest.fixture(scope="module")
def checker() -> Iterator[Worker]:
    worker = Worker("fixture_kit.check_worker")
    # what is loaded when first needed, no file is to be blamed for
    worker.ask({"path": str(manifest.ROOT / "stores" / "tree_plain.b2z"), "salvage": True})
    yield worker
    worker.close()


# ------------------------------------------------------------------ single bits
def fill(store: Any) -> None:
    store["/a"] = NUMBERS[:40]
    store["/g/raw"] = blosc2.asarray(NOISE[:60], cparams={"clevel": 0})
    if isinstance(store, blosc2.TreeStore):
        store["/g"].vlmeta["unit"] = "mm"


def change(path: Path, kind: type) -> None:
    """Changes of several sessions, which leave gaps."""
    with kind(str(path), mode="a") as store:
        store["/b"] = [1.5, 2.5]
        del store["/a"]
    with kind(str(path), mode="a") as store:
        store["/b"][0] = 7.0
        store["/c/d"] = blosc2.SChunk(chunksize=16, data=bytes(40), cparams={"typesize": 1})


def array(path: Path) -> None:
    blosc2.asarray(NUMBERS, urlpath=str(path), chunks=(100,), blocks=(50,))


def raw(path: Path) -> None:
    blosc2.asarray(NOISE, urlpath=str(path), chunks=(80,), cparams={"clevel": 0})


def with_metadata(path: Path) -> None:
    x = blosc2.asarray(NUMBERS[:10], urlpath=str(path), meta={"m": [1, 2]})
    x.vlmeta["text"] = "abc"
    x.vlmeta["list"] = [1, 2.5, None]


def special(path: Path) -> None:
    blosc2.zeros(1000, dtype="f8", chunks=(100,), urlpath=str(path))


def repeated(path: Path) -> None:
    blosc2.full(100, 3.5, urlpath=str(path))


def empty(path: Path) -> None:
    blosc2.zeros((0, 3), urlpath=str(path))


def scalar(path: Path) -> None:
    blosc2.asarray(np.float32(5), urlpath=str(path))


def appended(path: Path) -> None:
    x = blosc2.asarray(NUMBERS[:64], urlpath=str(path), chunks=(32,), blocks=(16,))
    x[3] = -1
    x.resize((90,))
    x[80:] = 5
    x.vlmeta["n"] = 1


def schunk(path: Path) -> None:
    s = blosc2.SChunk(chunksize=64, data=NOISE[:100].tobytes(), urlpath=str(path), cparams={"typesize": 1})
    s.append_data(b"x" * 30)


def embedded(path: Path) -> None:
    with blosc2.EmbedStore(str(path), mode="w") as store:
        fill(store)


def embedded_changed(path: Path) -> None:
    embedded(path)
    change(path, blosc2.EmbedStore)


def no_values(path: Path) -> None:
    blosc2.EmbedStore(str(path), mode="w").close()


def archive(path: Path) -> None:
    with blosc2.TreeStore(str(path), mode="w") as store:
        fill(store)


def archive_changed(path: Path) -> None:
    archive(path)
    change(path, blosc2.TreeStore)


def archive_embedded(path: Path) -> None:
    with blosc2.DictStore(str(path), mode="w", threshold=None) as store:
        fill(store)


def compacted(path: Path) -> None:
    kind = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.TreeStore
    embedded_changed(path) if kind is blosc2.EmbedStore else archive_changed(path)
    with kind(str(path), mode="a") as store:
        store.rename("/b", "/renamed")
        store.compact()


def in_turns(path: Path) -> None:
    """Transactions, and commits that do not wait for the disk."""
    kind = blosc2.EmbedStore if path.suffix == ".b2e" else blosc2.TreeStore
    with kind(str(path), mode="w") as store:
        with store.transaction():
            fill(store)
        store["/x"] = [1]
        store.flush(durable=False)
        with store.transaction():
            store.rename("/a", "/y/a")
            del store["/x"]
        store["/z"] = NOISE
        with pytest.raises(ZeroDivisionError), store.transaction():
            store["/w"] = NUMBERS
            _ = 1 / 0


def converted(path: Path) -> None:
    with blosc2.TreeStore(str(path.with_name("other.b2d")), mode="w", threshold=100) as store:
        fill(store)
        store.to_b2z(filename=str(path))


def saved(path: Path) -> None:
    x = blosc2.asarray(NUMBERS[:80], chunks=(40,))
    x.vlmeta["a"] = 1
    x[5] = 0
    x.save(str(path))


def copied(path: Path) -> None:
    saved(path.with_name("other.b2nd"))
    blosc2.open(str(path.with_name("other.b2nd"))).copy(urlpath=str(path))


def shared(path: Path) -> None:
    x = blosc2.zeros(50, dtype="i2", urlpath=str(path), locking=True)
    x[:] = NUMBERS[:50]
    x.vlmeta["a"] = 1


def shrunk(path: Path) -> None:
    x = blosc2.asarray(NUMBERS[:64], urlpath=str(path), chunks=(16,), blocks=(8,))
    x.resize((20,))
    x.vlmeta["gone"] = 1
    del x.vlmeta["gone"]


FILES: dict[str, Callable[[Path], None]] = {
    "array.b2nd": array, "raw.b2nd": raw, "metadata.b2nd": with_metadata, "special.b2nd": special,
    "repeated.b2nd": repeated, "empty.b2nd": empty, "scalar.b2nd": scalar, "appended.b2nd": appended,
    "schunk.b2frame": schunk, "embedded.b2e": embedded, "changed.b2e": embedded_changed, "no_values.b2e": no_values,
    "archive.b2z": archive, "changed.b2z": archive_changed, "embedded.b2z": archive_embedded,
    "compacted.b2e": compacted, "compacted.b2z": compacted, "compacted.b2d": compacted, "turns.b2e": in_turns,
    "turns.b2z": in_turns, "turns.b2d": in_turns, "converted.b2z": converted, "saved.b2nd": saved,
    "copied.b2nd": copied, "shared.b2nd": shared, "shrunk.b2nd": shrunk,
    "directory.b2d": archive, "changed.b2d": archive_changed, "embedded.b2d": archive_embedded,
}  # fmt: skip


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
    if any(name in path.name for name in FOREIGN):
        assert not found, what
        assert len(answer["unverified"]) > (path.suffix == ".b2z"), what
    else:
        assert found, what
        assert all(problem for _, _, problem in found), what
    assert answer["recovered"] is not None or answer["error"], what
    assert answer["memory"] < MEMORY, what


def test_archives_of_other_tools(tmp_path: Path) -> None:
    """The same members as Python's zipfile and `zip -0` write them: no finding, and no seal."""
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
        assert any("seal" in one.problem for one in report.unverified)
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
    # We append to it: there is still no seal.
    with blosc2.TreeStore(str(path), mode="a") as store:
        store["/more"] = [1]
    report = blosc2.check(path)
    assert report.ok, report
    assert len(report.unverified) == 1


def test_the_seal_covers_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    archive_changed(path)
    data = path.read_bytes()
    assert data[-32:-8] == b"blosc2 %016x " % (len(data) - 54)
    assert data[-8:] == b"%08x" % crc32c(data[:-8])


@pytest.mark.parametrize("field", [4, 6, 8, 10, 12, 14, 18, 22])
def test_a_local_header_that_differs_from_the_directory(field: int, tmp_path: Path) -> None:
    """Without a seal, too."""
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
    data = bytearray(path.read_bytes())
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
    shutil.copyfile(path / "a.b2nd", path / "g" / "odd.suffix")
    (path / "a.b2nd.17.tmp").write_bytes(b"half a fra")
    (path / "notes.txt").write_text("ignored")
    (tmp_path / ".x.b2d.123.tmp").mkdir()
    report = blosc2.check(path)
    assert report.ok, report
    assert not report.unverified
    text = "\n".join(one.problem for one in report.notes)
    for what in (
        "differ in case",
        "2 leaves have the key '/a'",
        "unusual suffix",
        "temporary file",
        "left by a writer",
    ):
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


# ------------------------------------------------------------------ the interface
def test_methods_of_what_is_open(tmp_path: Path) -> None:
    for kind, name in ((blosc2.EmbedStore, "x.b2e"), (blosc2.DictStore, "x.b2d"), (blosc2.TreeStore, "x.b2z")):
        path = tmp_path / name
        with kind(str(path), mode="w") as store:
            fill(store)
            store.flush()
            assert store.check().ok
            assert store["/a"].check().ok
            store["/b"] = [1]
            assert store.check().ok
        with kind(str(path), mode="r") as store:
            assert store.check().path == str(path)
            if kind is blosc2.TreeStore:
                assert store["/g"].check().path == str(path)  # of a part, all of it
            assert store["/g/raw"].check().ok
        with pytest.raises(ValueError, match="closed"):
            store.check()
    memory = blosc2.EmbedStore()
    fill(memory)
    assert memory.check().ok
    assert blosc2.asarray(NUMBERS).check().ok
    assert blosc2.SChunk(data=bytes(100)).check().ok
    path = tmp_path / "x.b2nd"
    x = blosc2.asarray(NUMBERS, urlpath=str(path), cparams={"clevel": 0})
    assert x.check().ok
    assert x.schunk.check().ok
    assert blosc2.squeeze(blosc2.open(str(path))).check().path == str(path)
    folder = os.getcwd()
    os.chdir(tmp_path)
    try:
        near = blosc2.asarray(NUMBERS, urlpath="near.b2nd")
    finally:
        os.chdir(folder)
    assert near.check().path == str(tmp_path / "near.b2nd")
    with open(path, "r+b") as file:
        file.seek(-200, os.SEEK_END)
        file.write(bytes(8))
    assert not x.check().ok


def test_a_damaged_leaf_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    archive(path)
    with blosc2.TreeStore(str(path), mode="r") as store:
        offset, length = store.member_window("/g/raw")
    with open(path, "r+b") as file:
        file.seek(offset + 20)
        file.write(b"\xff\xff")
    with blosc2.TreeStore(str(path), mode="r") as store:
        report = store.check()
    assert {one.key for one in report} == {"/g/raw", None}
    places = [one.offset for one in report if one.key]
    assert places
    assert all(place is not None and offset <= place < offset + length for place in places)


def test_the_report(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array(path)
    report = blosc2.check(os.fsencode(path))
    assert report.ok
    assert not report
    assert list(report) == []
    assert repr(report) == str(report) == f"<CheckReport {path}: ok>"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    report = blosc2.check(path)
    assert report
    assert not report.ok
    assert len(report) == len(report.findings) == 1
    finding = report[0]
    assert (finding.path, finding.key, finding.kind) == (str(path), None, "damage")
    assert finding.offset is not None
    assert finding.offset <= 200
    assert report[:] == report.findings
    assert str(finding) in repr(report)
    with pytest.raises(AttributeError):
        finding.key = "/x"  # type: ignore[misc]


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        blosc2.check(tmp_path / "none.b2z")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.b2d"
    archive(path)
    (path / "a.b2nd").unlink()
    (path / "a.b2nd").symlink_to(tmp_path / "elsewhere")
    assert blosc2.check(path) is not None
    if os.name == "posix" and os.geteuid() != 0:
        (path / "g" / "raw.b2nd").chmod(0)
        assert "/g/raw" in [one.key for one in blosc2.check(path)]


def test_progress(tmp_path: Path) -> None:
    for name, make in FILES.items():
        path = tmp_path / name
        make(path)
        calls: list[tuple[int, int]] = []
        blosc2.check(path, progress=lambda *call: calls.append(call))  # noqa: B023 - called in this round only
        assert calls[-1][0] == calls[-1][1] > 0, name
        assert all(0 <= done <= total for done, total in calls)
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        blosc2.check(tmp_path / "array.b2nd", progress=stop)


def test_a_large_chunk_takes_little_memory(tmp_path: Path, checker: Worker) -> None:
    if not limits.LINUX:
        pytest.skip("measures memory in /proc")
    path = tmp_path / "large.b2nd"
    blosc2.asarray(np.arange(16 << 20, dtype="i8"), urlpath=str(path), chunks=(16 << 20,), blocks=(1 << 16,))
    answer = checker.ask({"path": str(path), "salvage": False})
    assert answer["findings"] == []
    assert answer["checked"] < MEMORY


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.b2nd"
    array(path)
    assert main(["check", str(path)]) == 0
    assert "ok" in capsys.readouterr().out
    data = path.read_bytes()
    path.write_bytes(data[:-3])
    assert main(["check", str(path), str(manifest.ROOT / "stores" / "embed_raw.b2e")]) == 1
    assert f"damage: {path}" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "none")]) == 2
    assert "nothing" in capsys.readouterr().err
    path.write_bytes(struct.pack("<Q", 0))
    done = subprocess.run([sys.executable, "-m", "blosc2", "check", str(path)], capture_output=True, check=False)
    assert done.returncode == 1


def test_the_repr_of_a_report_is_bounded() -> None:
    found = tuple(Finding("s.b2d", f"/leaf{n}", n, "it is damaged", "damage") for n in range(40))
    report = CheckReport("s.b2d", found)
    assert len(str(report).splitlines()) == 41
    assert repr(report).splitlines()[:11] == str(report).splitlines()[:11]
    assert repr(report).splitlines()[11:] == ["  ... and 30 more: print() shows all"]
