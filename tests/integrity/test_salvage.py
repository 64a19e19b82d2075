"""What `salvage` gets out of damaged files and stores, of their keys, and of lists of values."""

from __future__ import annotations

import os
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import claims, manifest
from fixture_kit.mutation import mutate
from store_kit import tree_state

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames.metadata import pack
from blosc2._integrity.recovery import why_not
from blosc2._tools.cli import main
from blosc2.exceptions import FormatError

RAW = {"clevel": 0}
NUMBERS = np.arange(6000, dtype="i4")
NOISE = np.random.default_rng(3).integers(0, 256, 500, dtype="u1")
VALUES: dict[str, Any] = {
    "/a": NUMBERS[:50], "/g/b": np.array([1.0, 2.0]), "/g/c": NUMBERS, "/h/raw": NOISE,
}  # fmt: skip
KINDS = {".b2z": blosc2.TreeStore, ".b2d": blosc2.TreeStore, ".b2e": blosc2.EmbedStore}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder for what is recovered."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def make(path: Path, values: dict[str, Any] = VALUES, mode: str = "w") -> bytes:
    with KINDS[path.suffix](str(path), mode=mode) as store:
        for key, value in values.items():
            store[key] = value
        if isinstance(store, blosc2.TreeStore) and mode == "w":
            store["/g"].vlmeta["unit"] = "mm"
    return path.read_bytes() if path.is_file() else b""


def recovered(path: Path) -> dict[str, Any]:
    """The leaves of a store that is whole."""
    report = blosc2.check(path)
    assert report.ok, report
    assert not report.unverified, report
    with blosc2.open(str(path)) as store:
        return {key: leaf[...] for key, leaf in store.items() if isinstance(leaf, blosc2.NDArray)}


def same(got: dict[str, Any], want: dict[str, Any]) -> None:
    assert set(got) == set(want)
    for key, value in want.items():
        assert got[key].dtype == value.dtype
        np.testing.assert_array_equal(got[key], value, err_msg=key)


def flip(path: Path, at: int, bit: int = 0) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes((byte ^ 1 << bit,)))


# ------------------------------------------------------------------ what is whole
@pytest.mark.parametrize("suffix", KINDS)
@pytest.mark.parametrize("to", KINDS)
def test_a_whole_store_is_copied(suffix: str, to: str, tmp_path: Path, out: Path) -> None:
    path = tmp_path / f"x{suffix}"
    make(path)
    before = tree_state(path)
    report = blosc2.salvage(path, out / f"y{to}")
    assert report.complete
    assert set(report.recovered) >= set(VALUES)
    same(recovered(out / f"y{to}"), VALUES)
    assert tree_state(path) == before
    assert os.listdir(out) == [f"y{to}"]
    if ".b2e" not in (suffix, to):
        with blosc2.open(str(out / f"y{to}")) as store:
            assert type(store) is blosc2.TreeStore
            assert store["/g"].vlmeta[:] == {"unit": "mm"}


WHOLE = [entry for entry in manifest.FILES if "offset" not in entry and not manifest.path_of(entry).is_dir()]


@pytest.mark.parametrize("entry", WHOLE, ids=[e["path"] for e in WHOLE])
def test_files_of_others(entry: dict[str, Any], out: Path) -> None:
    path = manifest.path_of(entry)
    target = out / path.name
    report = blosc2.salvage(path, target)
    assert report.complete, report
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if entry["kind"] not in manifest.STORE_KINDS:
            x = blosc2.open(str(target), deserialize="full")
            if "active" not in path.name:
                manifest.check(x, entry)
            return
        with blosc2.open(str(target)) as store:
            for key, leaf in entry["keys"].items():
                if "sha256" in leaf and not key.endswith("__vlmeta__") and "/data/table/" not in key:
                    assert manifest.describe(store[key])["sha256"] == leaf["sha256"]
            assert set(report.recovered) >= {key for key in entry["keys"] if "remote" not in key}
            attributes = entry.get("attrs", {})
            for group, values in attributes.items():
                assert manifest.tagged((store if group == "/" else store[group]).vlmeta[:]) == values


# ------------------------------------------------------------------ archives
@pytest.mark.parametrize("cut", [1, 8, 54, 60, 100, 200])
def test_an_archive_without_its_end(cut: int, tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2z"
    data = make(path)
    path.write_bytes(data[:-cut])
    with pytest.raises(blosc2.FormatError):
        blosc2.open(str(path))
    report = blosc2.salvage(path, out / "y.b2z")
    assert report.complete, report
    assert set(report.recovered) == {*VALUES, "/g/__vlmeta__"}
    assert report.notes
    same(recovered(out / "y.b2z"), VALUES)
    with blosc2.open(str(out / "y.b2z")) as store:
        assert store["/g"].vlmeta[:] == {"unit": "mm"}


def test_an_archive_that_is_cut_in_a_member(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2z"
    data = make(path)
    with blosc2.TreeStore(str(path), mode="r") as store:
        offset, _ = store.member_window("/h/raw")
    path.write_bytes(data[: offset + 300])
    report = blosc2.salvage(path, out / "y.b2d")
    same(recovered(out / "y.b2d"), {key: value for key, value in VALUES.items() if key != "/h/raw"})
    assert [one.key for one in report.lost] == ["/h/raw"]
    assert not report.complete
    assert "embed.b2e" in "".join(one.problem for one in report.notes)


def test_what_was_appended_after_the_last_directory(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2z"
    make(path)
    make(path, {"/new": NUMBERS[:7], "/a": NUMBERS[:3]}, "a")
    data = path.read_bytes()
    want = {**VALUES, "/new": NUMBERS[:7], "/a": NUMBERS[:3]}
    for number, cut in enumerate((1, 54, 120)):
        path.write_bytes(data[:-cut])
        report = blosc2.salvage(path, out / f"{number}.b2z")
        assert report.complete, report
        same(recovered(out / f"{number}.b2z"), want)
    path.write_bytes(data[:-54])
    flip(path, data.rindex(b"PK\1\2") + 1)
    blosc2.salvage(path, out / "y.b2z")
    same(recovered(out / "y.b2z"), want)


def test_deleted_leaves_stay_deleted_where_the_directory_tells(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2z"
    make(path)
    with blosc2.TreeStore(str(path), mode="a") as store:
        del store["/a"]
    want = {key: value for key, value in VALUES.items() if key != "/a"}
    data = path.read_bytes()
    report = blosc2.salvage(path, out / "y.b2z")
    assert not report.notes
    same(recovered(out / "y.b2z"), want)
    # The end is lost, and what was deleted is in the directory before: it comes back, and that is said.
    path.write_bytes(data[:-54])
    report = blosc2.salvage(path, out / "z.b2z")
    assert "leaves that were deleted may be back" in [one.problem for one in report.notes]
    same(recovered(out / "z.b2z"), VALUES)


def test_an_older_version_of_a_damaged_leaf(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2z"
    make(path)
    make(path, {"/h/raw": NOISE[::-1].copy()}, "a")
    data = path.read_bytes()
    flip(path, data.rindex(NOISE[::-1].tobytes()[:40]) + 5)
    report = blosc2.salvage(path, out / "y.b2z")
    assert report.complete
    assert [one.key for one in report.notes] == ["/h/raw"]
    same(recovered(out / "y.b2z"), VALUES)
    flip(path, data.index(NOISE.tobytes()[:40]) + 5)
    report = blosc2.salvage(path, out / "z.b2z")
    assert {one.key for one in report.lost} == {"/h/raw"}
    same(recovered(out / "z.b2z"), {key: value for key, value in VALUES.items() if key != "/h/raw"})


def test_members_with_their_sizes_behind_them(tmp_path: Path, out: Path) -> None:
    """Archives that were streamed have no sizes in local headers: those of frames are in the frames."""
    source = manifest.ROOT / "derived" / "zip_descriptor.b2z"
    path = tmp_path / "x.b2z"
    path.write_bytes(source.read_bytes()[:-10])
    blosc2.salvage(path, out / "y.b2z")
    (entry,) = [one for one in manifest.FILES if one["path"] == "derived/zip_descriptor.b2z"]
    with blosc2.open(str(out / "y.b2z")) as store:
        for key, leaf in entry["keys"].items():
            if "sha256" in leaf:
                assert manifest.describe(store[key])["sha256"] == leaf["sha256"]


def test_names_that_lead_elsewhere_are_left_out(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2z"
    frame = blosc2.asarray(NUMBERS[:9]).to_cframe()
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("a.b2nd", "../up.b2nd", "/root.b2nd", "x/../../y.b2nd", "embed.b2e.b2nd"):
            archive.writestr(name, frame)
    path.write_bytes(path.read_bytes()[:-22])
    report = blosc2.salvage(path, out / "y.b2d")
    assert "/a" in report.recovered
    assert not any(".." in key or "root" in key for key in report.recovered)
    assert os.listdir(out) == ["y.b2d"]


# ------------------------------------------------------------------ embedded values
@pytest.mark.parametrize("cut", [1, 30, 40])
def test_embedded_values_without_the_end(cut: int, tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2e"
    data = make(path)
    path.write_bytes(data[:-cut])
    report = blosc2.salvage(path, out / "y.b2e")
    assert report.complete, report
    same(recovered(out / "y.b2e"), VALUES)


@pytest.mark.usefixtures("ends_as_it_is")
def test_an_older_map(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2e"
    make(path)
    size = path.stat().st_size
    make(path, {"/new": NUMBERS[:7]}, "a")
    data = bytearray(path.read_bytes())
    assert len(data) > size
    newest = data.rindex(b"estore_metadata")
    data[newest : newest + 100] = bytes(100)
    path.write_bytes(data)
    with pytest.raises(blosc2.FormatError):
        blosc2.open(str(path))
    report = blosc2.salvage(path, out / "y.b2e")
    got = recovered(out / "y.b2e")
    assert report.notes
    got.pop("/new", None)
    same(got, VALUES)


@pytest.mark.usefixtures("changes_wait")  # else the map of an earlier version is found
def test_embedded_values_without_any_map(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2e"
    data = bytearray(make(path))
    at = data.rindex(b"estore_metadata")
    path.write_bytes(data[: at - 20])
    report = blosc2.salvage(path, out / "y.b2e")
    assert len(report.lost) == 1
    assert "map" in report.lost[0].problem
    got = recovered(out / "y.b2e")
    assert sorted(got) == [f"/recovered/000{n}" for n in (1, 2, 3, 4)]
    for value in VALUES.values():
        assert any(np.array_equal(value, one) and value.dtype == one.dtype for one in got.values())


def test_a_damaged_value(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2e"
    data = make(path)
    flip(path, data.index(NOISE.tobytes()[:40]) - 20)  # in the header of its chunk
    report = blosc2.salvage(path, out / "y.b2e")
    assert [one.key for one in report.lost] == ["/h/raw"]
    same(recovered(out / "y.b2e"), {key: value for key, value in VALUES.items() if key != "/h/raw"})
    # The others lie in the same outer chunk, whose checksum says that something is wrong.
    assert {one.key for one in report.notes} == set(VALUES) - {"/h/raw"}


# ------------------------------------------------------------------ directories
def test_a_directory_without_its_frame(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2d"
    make(path)
    (path / "embed.b2e").unlink()
    (path / "g" / "c.b2nd").write_bytes(b"")
    (path / "notes.txt").write_text("ignored")
    report = blosc2.salvage(path, out / "y.b2z")
    assert [one.key for one in report.lost] == ["/g/c"]
    same(recovered(out / "y.b2z"), {key: value for key, value in VALUES.items() if key != "/g/c"})
    with blosc2.open(str(out / "y.b2z")) as store:
        assert type(store) is blosc2.TreeStore
        assert store["/g"].vlmeta[:] == {"unit": "mm"}


@pytest.mark.parametrize("to", [".b2z", ".b2d", ".b2e"])
def test_more_leaves_than_a_process_may_have_files_open(to: str, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    values = np.random.default_rng(0).integers(0, 255, (600, 2000), np.uint8)
    with blosc2.DictStore(tmp_path / "many.b2d", mode="w", threshold=0) as store:
        for number, items in enumerate(values):
            store[f"/k{number:03}"] = items
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, before[1]))
    try:
        report = blosc2.salvage(tmp_path / "many.b2d", tmp_path / "new" / f"saved{to}")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert report.complete
    with blosc2.open(tmp_path / "new" / f"saved{to}") as store:
        np.testing.assert_array_equal([store[key][:] for key in sorted(store)], values)


def test_both_tiers(tmp_path: Path, out: Path) -> None:
    for suffix in (".b2d", ".b2z"):
        path = tmp_path / f"x{suffix}"
        with blosc2.DictStore(str(path), mode="w", threshold=1000) as store:
            store.update(VALUES)
        report = blosc2.salvage(path, out / f"y{suffix}")
        assert report.complete
        same(recovered(out / f"y{suffix}"), VALUES)
        with blosc2.open(str(out / f"y{suffix}")) as store:
            assert type(store) is blosc2.DictStore


# ------------------------------------------------------------------ single arrays
def one(path: Path, **more: Any) -> bytes:
    x = blosc2.asarray(NUMBERS, chunks=(1000,), **more)
    x.vlmeta["k"] = 5
    x.save(str(path), mode="w")
    return path.read_bytes()


@pytest.mark.parametrize("cparams", [{}, RAW], ids=["compressed", "raw"])
def test_a_wrong_bit_of_header_and_trailer(cparams: dict[str, Any], tmp_path: Path, out: Path) -> None:
    """The array is there if the header is, but for its sizes, the one that was written, by its checksum."""
    path = tmp_path / "x.b2nd"
    data = one(path, cparams=cparams)
    length = int.from_bytes(data[11:15])
    trailer = len(data) - int.from_bytes(data[-22:-18])
    sizes = {*range(16, 24), *range(30, 38), *range(39, 47), 68, 86}
    refused = {*range(length), *range(len(data) - 31, len(data) - 27)} - sizes
    for bit in [*range(8 * length), *range(8 * trailer, 8 * len(data))]:
        path.write_bytes(data)
        flip(path, bit >> 3, bit & 7)
        target = out / f"{bit}.b2nd"
        if bit >> 3 in refused:
            with pytest.raises(blosc2.FormatError, match="nothing could be recovered"):
                blosc2.salvage(path, target)
            continue
        report = blosc2.salvage(path, target)
        x = blosc2.open(str(target))
        np.testing.assert_array_equal(x[:], NUMBERS, err_msg=str(bit))
        if bit >> 3 < length:
            assert report.complete, (bit, report)
            assert x.vlmeta[:] == {"k": 5}, bit
        else:
            assert report.lost or report.notes, bit
        target.unlink()


@pytest.mark.parametrize("cparams", [{}, RAW], ids=["compressed", "raw"])
def test_a_damaged_chunk(cparams: dict[str, Any], tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2nd"
    one(path, cparams=cparams)
    frame = blosc2.open(str(path))._handle.frame
    at, _, size, *_ = frame.chunk_info(3)
    for position in (0, 5, 40, size - 1):
        flip(path, at + position)
        with pytest.raises(blosc2.FormatError, match=r"1 of 6 chunks are damaged \(3\); with fill=0"):
            blosc2.salvage(path, out / "y.b2nd")
        assert os.listdir(out) == []
        for number, value in ((-1, -1), (0, 0)):
            target = out / f"{position}_{number}.b2nd"
            report = blosc2.salvage(path, target, fill=value)
            assert [one.problem for one in report.lost] == [f"chunk 3 is lost; it is filled with {value}"]
            x = blosc2.open(str(target))
            assert x.vlmeta[:] == {"k": 5}
            want = NUMBERS.copy()
            want[3000:4000] = value
            np.testing.assert_array_equal(x[:], want)
            assert blosc2.check(target).ok
            target.unlink()
        flip(path, at + position)


def test_an_array_without_its_end(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2nd"
    data = one(path)
    frame = blosc2.open(str(path))._handle.frame
    trailer = len(data) - frame.trailer_len
    ends = {len(data) - 1: True, len(data) - 30: True, trailer + 20: False, trailer: False}
    for size, with_metadata in ends.items():
        path.write_bytes(data[:size])
        target = out / f"{size}.b2nd"
        report = blosc2.salvage(path, target)
        assert report.recovered == ("/",)
        x = blosc2.open(str(target))
        np.testing.assert_array_equal(x[:], NUMBERS)
        assert x.vlmeta[:] == ({"k": 5} if with_metadata else {})
        assert report.complete is with_metadata
        assert blosc2.check(target).ok
    # Nothing tells where chunks lie without their table.
    path.write_bytes(data[: trailer - 1])
    for fill in (None, 0):
        with pytest.raises(blosc2.FormatError, match=r"cut short or damaged: without its end, .* fill= does not help"):
            blosc2.salvage(path, out / "y.b2nd", fill=fill)
    (finding,) = blosc2.check(path)
    assert finding.problem.endswith("at most an earlier version can be recovered with blosc2.salvage")


def test_an_older_version_of_an_array(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2nd"
    one(path, cparams=RAW)
    x = blosc2.open(str(path), mode="a")
    x[2500] = -7
    frame = x._handle.frame
    del x
    flip(path, frame.chunk_info(2)[0] + 100)
    report = blosc2.salvage(path, out / "y.b2nd")
    assert report.complete
    assert any("version" in one.problem for one in report.notes)
    np.testing.assert_array_equal(blosc2.open(str(out / "y.b2nd"))[:], NUMBERS)


def test_the_newest_version_when_the_header_is_another(tmp_path: Path, out: Path) -> None:
    """Wrong sizes in the header: the trailer tells which table belongs to it."""
    path = tmp_path / "x.b2nd"
    one(path)
    x = blosc2.open(str(path), mode="a")
    x[2500] = -7
    want = x[:]
    del x
    data = bytearray(path.read_bytes())
    struct.pack_into(">Q", data, 16, 123456789)
    struct.pack_into(">q", data, 39, 77)
    path.write_bytes(data)
    blosc2.salvage(path, out / "y.b2nd")
    y = blosc2.open(str(out / "y.b2nd"))
    np.testing.assert_array_equal(y[:], want)
    assert y.vlmeta[:] == {"k": 5}


# ------------------------------------------------------------------ the interface
def test_requests_that_cannot_be(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2z"
    make(path)
    with pytest.raises(FileNotFoundError):
        blosc2.salvage(tmp_path / "none.b2z", out / "y.b2z")
    (out / "taken.b2z").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        blosc2.salvage(path, out / "taken.b2z")
    assert (out / "taken.b2z").read_bytes() == b"old"
    with pytest.raises(ValueError, match=r"give it the suffix \.b2z"):
        blosc2.salvage(path, out / "y.b2nd")
    array = tmp_path / "x.b2nd"
    one(array)
    with pytest.raises(ValueError, match="another suffix"):
        blosc2.salvage(array, out / "y.b2z")
    assert os.listdir(out) == ["taken.b2z"]


def test_nothing_is_left(tmp_path: Path, out: Path) -> None:
    for name in ("x.b2z", "x.b2e", "x.b2nd"):
        path = tmp_path / name
        for data in (b"", b"nothing of ours" * 100):
            path.write_bytes(data)
            with pytest.raises(blosc2.FormatError, match=r"nothing could be recovered: \w") as raised:
                blosc2.salvage(path, out / name)
            assert raised.value.path == str(path)
    assert os.listdir(out) == []


def test_what_progress_raises_ends_the_work(tmp_path: Path, out: Path) -> None:
    path = tmp_path / "x.b2z"
    make(path)
    calls: list[tuple[int, int]] = []
    blosc2.salvage(path, out / "y.b2z", progress=lambda *call: calls.append(call))
    assert calls[-1][0] == calls[-1][1] == path.stat().st_size

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        blosc2.salvage(path, out / "z.b2z", progress=stop)
    assert os.listdir(out) == ["y.b2z"]


def test_on_the_command_line(tmp_path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.b2z"
    data = make(path)
    path.write_bytes(data[:-1])
    assert main(["salvage", str(path), str(out / "y.b2z")]) == 0
    assert "5 recovered" in capsys.readouterr().out
    assert main(["salvage", str(path), str(out / "y.b2z")]) == 2
    assert "salvage:" in capsys.readouterr().err
    array = tmp_path / "x.b2nd"
    flipped = one(array)
    flip(array, blosc2.open(str(array))._handle.frame.chunk_info(0)[0] + 50)
    assert main(["salvage", str(array), str(out / "y.b2nd"), "--fill", "7"]) == 1
    assert blosc2.open(str(out / "y.b2nd"))[0] == 7
    assert flipped


# ------------------------------------------------------------------ any damage
@pytest.mark.parametrize("name", ["x.b2z", "x.b2d", "x.b2e", "x.b2nd", "embedded.b2z"])
@pytest.mark.parametrize("seed", range(40))
def test_any_damage(name: str, seed: int, tmp_path: Path, out: Path) -> None:
    """Whatever was done to a file: no crash, and every value that is said to be recovered is one that was stored."""
    path = tmp_path / name
    older = {"/h/raw": NOISE[::-1].copy(), "/a": NUMBERS[:20]}
    if name == "x.b2nd":
        one(path)
    else:
        if name.startswith("embedded"):
            with blosc2.DictStore(str(path), mode="w", threshold=None) as store:
                store.update({**VALUES, **older})
        else:
            make(path, {**VALUES, **older})
        make(path, {key: VALUES[key] for key in older}, "a")
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    file = files[seed % len(files)]
    data, _, what = mutate(file.read_bytes(), seed)
    file.write_bytes(data)
    found = blosc2.check(path)
    target = out / path.name
    try:
        report = blosc2.salvage(path, target)
    except blosc2.FormatError:
        assert not found.ok
        assert os.listdir(out) == []
        return
    assert blosc2.check(target).ok, what
    told = [one.key for one in (*report.lost, *report.notes)]
    if name == "x.b2nd":
        x = blosc2.open(str(target))
        assert told or np.array_equal(x[:], NUMBERS), what
        return
    with blosc2.open(str(target)) as store:
        for key in report.recovered:
            if key.endswith("__vlmeta__"):
                continue
            stored = [values[key] for values in (VALUES, older) if key in values]
            if not stored:
                assert key.startswith("/recovered/") or None in [one.key for one in report.lost], what
                stored = [*VALUES.values(), *older.values()]
            got = store[key][...]
            assert any(got.dtype == one.dtype and np.array_equal(got, one) for one in stored), (what, key)
    if None in told:
        return
    if not report.lost and not report.notes:
        assert set(report.recovered) >= set(VALUES), what


@pytest.mark.parametrize("name", ["x.b2e", "embedded.b2z"])
@pytest.mark.parametrize("summed", [True, False])
def test_a_wrong_bit_among_values_that_share_a_checksum(name: str, summed: bool, tmp_path: Path, out: Path) -> None:
    """A value that decodes, but may be another one, is taken only where `fill` is given, and then told."""
    rng = np.random.default_rng(5)
    values = {f"/{n}": rng.normal(size=600).astype("f4") for n in range(8)}
    kind = blosc2.EmbedStore if name == "x.b2e" else blosc2.DictStore
    path = tmp_path / name
    with blosc2.EmbedStore(str(path), mode="w") if name == "x.b2e" else kind(str(path), mode="w", threshold=None) as s:
        s.update(values)
    whole = path.read_bytes()
    if not summed:
        whole = whole.replace(b"b2sums", b"b2none")  # of another program
    some = 0
    trailer = whole.find(b"b2sums")
    for at in rng.integers(0, len(whole), 60).tolist():
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        if at % 3 == 0 and trailer >= 0:
            data[trailer + 20] ^= 1  # what is said of sums is wrong, too
        path.write_bytes(data)
        for fill in (None, 0):
            target = out / f"{at}-{fill}-{name}"
            try:
                report = blosc2.salvage(path, target, fill=fill)
            except blosc2.FormatError:
                continue
            doubtful = {one.key for one in report.notes if "may not be" in one.problem}
            some += len(doubtful)
            assert fill == 0 or not doubtful & values.keys()
            if name == "x.b2e" and not summed:
                continue  # nothing tells a wrong value
            with blosc2.open(str(target)) as store:
                for key in report.recovered:
                    if key in values and key not in doubtful:
                        np.testing.assert_array_equal(store[key][:], values[key], err_msg=f"{at} {key} {report}")
    assert some or (name == "x.b2e" and not summed)


@pytest.mark.parametrize("name", ["a/" * 300 + "b.b2nd", "x" * 251 + ".b2nd"], ids=["deep", "long"])
def test_keys_that_no_directory_can_have_are_lost_alone(name: str, tmp_path: Path) -> None:
    """One of them ended the salvage of all."""
    path = tmp_path / "names.b2z"
    frame = blosc2.asarray(np.arange(5)).to_cframe()
    with zipfile.ZipFile(path, "w") as file:
        for one in ("embed.b2e", "good.b2nd", name):
            file.writestr(one, frame)
    report = blosc2.salvage(path, tmp_path / "out.b2d")
    assert "/good" in report.recovered
    assert [one.key for one in report.lost if "recover it into a .b2z" in one.problem] == ["/" + name[:-5]]
    assert np.array_equal(blosc2.open(tmp_path / "out.b2d")["/good"][...], np.arange(5))
    assert blosc2.check(tmp_path / "out.b2d").ok


# ---------------------------------------------------------------------- keys
# Keys that are read, though no new key may be one of them.
UNUSUAL = ("/a?b", "/con", "/dot.", "/blank ", "/Case", "/case", "/\xe9", "/e\u0301", "/.b2", "/embed.b2e")
LONG = "/" + "s" * 300
DEEP = "/a" * 3000
FRAME = blosc2.asarray(np.arange(3)).to_cframe()


def write_values(path: Path, keys: tuple[str, ...]) -> Path:
    """A `.b2e` with any keys."""
    with blosc2.EmbedStore(str(path), mode="w") as store:
        store["/first"] = np.arange(3)
    frame = blosc2.schunk_from_cframe(path.read_bytes(), copy=True)
    content = frame.vlmeta["estore_metadata"]
    content["embed_map"] = {key: dict(content["embed_map"]["/first"]) for key in keys}
    frame.vlmeta["estore_metadata"] = content
    path.write_bytes(frame.to_cframe())
    return path


def write_archive(path: Path, names: tuple[str, ...]) -> Path:
    """A `.b2z` with members of any names."""
    with blosc2.DictStore(str(path), mode="w") as store:
        store["/fine"] = np.arange(3)
    with zipfile.ZipFile(path, "a") as archive:
        for name in names:
            archive.writestr(name, FRAME)
    return path


def recovered_keys(path: Path, out: Path) -> tuple[set[str], dict[str, str]]:
    """The keys that a new store has, each of which can be read, and those that are lost, with the reason."""
    report = blosc2.salvage(path, out)
    assert blosc2.check(out).ok, blosc2.check(out)
    with blosc2.open(str(out)) as store:
        if isinstance(store, blosc2.TreeStore):
            assert all(key in store for key in report.recovered)
        else:
            assert set(store) == set(report.recovered)
        for key in report.recovered:
            np.testing.assert_array_equal(store[key][:], np.arange(3))
    return set(report.recovered), {str(one.key): one.problem for one in report.lost if one.key is not None}


@pytest.mark.parametrize("suffix", [".b2e", ".b2z"])
def test_keys_that_are_no_new_keys_are_kept(tmp_path: Path, suffix: str) -> None:
    keys = (*UNUSUAL, LONG, DEEP, "/n" * 258, "/x", "/x.b2nd/y", "/fine", "/fine/below")
    found, lost = recovered_keys(write_values(tmp_path / "x.b2e", keys), tmp_path / f"out{suffix}")
    assert found == set(keys)
    assert not lost


@pytest.mark.skipif(os.name == "nt", reason="such files are not possible there")
def test_keys_that_a_directory_cannot_have(tmp_path: Path) -> None:
    assert recovered_keys(write_values(tmp_path / "y.b2e", ("/n" * 257,)), tmp_path / "deep.b2d") == ({"/n" * 257}, {})
    refused = {LONG: "too long", "/n" * 258: "segments", DEEP: "segments", "/embed.b2e/x": "store itself",
               "/.b2/x": "reserved", "/.B2/y": "store itself", "/EMBED.b2e/y": "store itself",
               "/case": "in case", "/e\u0301": "accents", "/x.b2nd/y": "the group"}  # fmt: skip
    keys = tuple(dict.fromkeys((*UNUSUAL, "/x", "/fine", "/fine/below", *refused)))
    found, lost = recovered_keys(write_values(tmp_path / "x.b2e", keys), tmp_path / "out.b2d")
    assert found == set(keys) - set(refused)
    assert set(lost) == set(refused)
    for key, reason in refused.items():
        assert reason in lost[key]


@pytest.mark.parametrize("suffix", [".b2e", ".b2z", ".b2d"])
@pytest.mark.parametrize("whole", [True, False])
def test_members_whose_names_are_no_keys(tmp_path: Path, suffix: str, whole: bool) -> None:
    path = write_archive(tmp_path / "x.b2z", ("..b2nd", "...b2nd", ".b2nd", "a/..b2nd", "/..b2nd", "a//b.b2nd"))
    if not whole:
        path.write_bytes(path.read_bytes()[:-30])
    found, _ = recovered_keys(path, tmp_path / f"out{suffix}")
    assert found == {"/fine"}


def test_nothing_but_keys_that_the_new_store_cannot_have(tmp_path: Path) -> None:
    path = write_values(tmp_path / "x.b2e", (LONG,))
    with pytest.raises(blosc2.FormatError, match="too long"):
        blosc2.salvage(path, tmp_path / "out.b2d")
    assert not (tmp_path / "out.b2d").exists()


def test_keys_that_only_some_stores_can_have(tmp_path: Path) -> None:
    assert "UTF-8" in str(why_not("x.b2e", "/\ud800", ".b2nd"))
    assert "too long" in str(why_not("x.b2z", "/" + "a" * 0xFFFF, ".b2nd"))
    assert why_not("x.b2e", "/" + "a" * 0xFFFF, ".b2nd") is None
    # The path of the store counts too.
    folder = tmp_path / ("d" * 200)
    key = ("/" + "b" * 200) * ((4096 - len(os.fsencode(folder))) // 201 + 1)
    assert "too long" in str(why_not(str(folder / "x.b2d"), key, ".b2nd"))


# ---------------------------------------------------------------------- lists of values
LIST = {"vlarray": pack({"version": 1, "serializer": "msgpack"})}
# An array of 2 ** 31 values that are not there.
WRONG = b"\xdd\x80\0\0\0"


def write_list(path: Path, packed: list[bytes], **more: Any) -> Path:
    chunks = [blosc2.compress2(one, typesize=1) for one in packed]
    claims.write_frame(path, chunks, nbytes=sum(map(len, packed)), variable=True, metalayers=LIST, **more)
    return path


def salvaged(path: Path, **more: Any) -> tuple[Any, blosc2.SalvageReport]:
    """What is recovered of a file, which must be whole, and the report."""
    out = path.with_name("out" + path.suffix)
    report = blosc2.salvage(path, out, **more)
    assert blosc2.check(out).ok, blosc2.check(out)
    return blosc2.open(str(out)), report


@pytest.mark.parametrize("fill", [None, 0])
def test_entries_that_cannot_be_unpacked_are_left_out(tmp_path: Path, fill: Any) -> None:
    path = write_list(tmp_path / "x.b2frame", [pack([1, "one"]), WRONG, pack({"two": 2}), WRONG, pack(None)])
    values, report = salvaged(path, fill=fill)
    assert list(values) == [[1, "one"], {"two": 2}, None]
    (lost,) = report.lost
    assert "2 of 5 entries" in lost.problem
    assert "(1, 3)" in lost.problem
    assert "msgpack" in lost.problem


def test_a_list_of_which_nothing_can_be_unpacked(tmp_path: Path) -> None:
    path = write_list(tmp_path / "x.b2frame", [WRONG, WRONG])
    with pytest.raises(blosc2.FormatError, match="msgpack"):
        blosc2.salvage(path, tmp_path / "out.b2frame")
    assert not (tmp_path / "out.b2frame").exists()


def test_entries_of_equal_size_that_are_zeros(tmp_path: Path) -> None:
    """One number stands for any number of chunks: none of them is looked at twice."""
    claims.write_frame(tmp_path / "x.b2frame", [-0x7F00000000000000], count=1 << 27, nbytes=3 << 27, chunksize=3,
                       metalayers=LIST)  # fmt: skip
    with pytest.raises(blosc2.FormatError, match="follow it"):
        blosc2.salvage(tmp_path / "x.b2frame", tmp_path / "out.b2frame")
    claims.write_frame(tmp_path / "y.b2frame", [-0x7F00000000000000], count=1 << 27, nbytes=1 << 27, chunksize=1,
                       metalayers=LIST)  # fmt: skip
    assert blosc2.check(tmp_path / "y.b2frame").ok


def test_a_leaf_of_a_store(tmp_path: Path) -> None:
    store = blosc2.DictStore(str(tmp_path / "x.b2d"), mode="w")
    store["/fine"] = np.arange(3)
    store.close()
    write_list(tmp_path / "x.b2d" / "list.b2f", [pack("a"), WRONG, pack("c")])
    found, report = salvaged(tmp_path / "x.b2d")
    with found:
        assert list(found["/list"]) == ["a", "c"]
        np.testing.assert_array_equal(found["/fine"][:], [0, 1, 2])
    assert [one.key for one in report.lost] == ["/list"]


@pytest.mark.parametrize("kind", ["objectarray", "batcharray"])
def test_damaged_chunks_of_a_list(kind: str, tmp_path: Path) -> None:
    name = "entries" if kind == "objectarray" else "batches"
    for number, entry in enumerate(one for one in manifest.files(kind) if len(one.get(name, ())) > 1):
        path = tmp_path / f"{number}" / "x.b2frame"
        path.parent.mkdir()
        data = bytearray(manifest.path_of(entry).read_bytes())
        frame = Frame.open(Source.of_buffer(bytes(data)))
        at = frame.chunk_info(1)[0]
        data[at : at + 32] = b"\xff" * 32
        path.write_bytes(data)
        values, report = salvaged(path)
        whole = blosc2.open(manifest.path_of(entry))
        assert repr(list(values)) == repr([value for n, value in enumerate(whole) if n != 1])
        assert any("1 of" in one.problem for one in report.lost)


def test_metadata_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """A metalayer, and an entry with a frame inside that is cut: the array is recovered without them."""
    array = blosc2.asarray(np.arange(10), meta={"mine": {"a": 1}, "other": 2})
    array.vlmeta["frame"] = blosc2.SChunk(data=bytes(np.arange(1000)))
    data = bytearray(array.to_cframe())
    at = data.index(b"\x81\xa1a\x01")
    data[at] = 0xC1
    path = tmp_path / "x.b2nd"
    path.write_bytes(data)
    found, report = salvaged(path)
    np.testing.assert_array_equal(found[:], np.arange(10))
    assert "mine" not in found.schunk.meta
    assert found.schunk.meta["other"] == 2
    assert any("'mine'" in one.problem for one in report.lost)


def test_a_last_chunk_that_is_larger_than_chunks_are(tmp_path: Path) -> None:
    """The size of chunks in the header is wrong: so many of them would be more than the table has."""
    data = bytes(range(200)) * 3
    whole = bytearray(blosc2.SChunk(chunksize=200, data=data, cparams={"typesize": 1}).to_cframe())
    assert whole[58:62] == (200).to_bytes(4)
    whole[58:62] = (15).to_bytes(4)
    path = tmp_path / "a.b2frame"
    path.write_bytes(whole)
    with pytest.raises(FormatError, match="nothing could be recovered"):
        blosc2.salvage(path, tmp_path / "b.b2frame")
    table = np.arange(3)
    encoding = blosc2.SChunk(chunksize=200, data=data)._handle.frame
    for count, nbytes, chunksize in (
        (3, 600, 15), (3, 601, 200), (3, 400, 200), (3, 0, 200), (3, -1, 200), (0, 1, 200),
    ):  # fmt: skip
        with pytest.raises(FormatError, match="do not hold"):
            Frame.assemble(
                Source.of_buffer(b""), table[:count], count, nbytes, chunksize, encoding, {}, {}, variable=False
            )
