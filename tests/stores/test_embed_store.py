"""`EmbedStore`: the contract of stores, and what is its own."""

from __future__ import annotations

import contextlib
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from file_store_kit import FileStoreContract
from fixture_kit import manifest
from store_kit import StoreContract, tree_state

import blosc2
from blosc2._backends.embedded_map import Embedded
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source

FIXTURES = [e for e in manifest.FILES if e["path"].endswith(".b2e")]


class TestFile(FileStoreContract):
    kind = blosc2.EmbedStore
    suffix = ".b2e"
    at_once = True


class TestMemory(StoreContract):
    kind = blosc2.EmbedStore


@pytest.mark.parametrize("begun", ["", "flushed", "beside"])
def test_a_new_store_goes_if_its_block_fails_before_anything_is_in_it(tmp_path: Path, begun: str) -> None:
    path = tmp_path / "new" / "x.b2e"
    with contextlib.ExitStack() as others, pytest.raises(ZeroDivisionError), blosc2.EmbedStore(path, mode="w") as store:
        if begun == "flushed":
            store["/a"] = [1]
            store.flush()
        if begun == "beside":
            others.push(blosc2.EmbedStore(path, mode="a"))
        store.transaction().__enter__()
        raise ZeroDivisionError
    assert [*tmp_path.rglob("*.b2e")] == ([path] if begun else [])
    assert path.parent.exists() == bool(begun)


def test_keys_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path) as store:
        for key in ("/z", "/a", "/m"):
            store[key] = [1]
        store.flush()
        store["/b"] = [2]
        assert list(store) == ["/z", "/a", "/m", "/b"]
    assert list(blosc2.EmbedStore(path, mode="r")) == ["/z", "/a", "/m", "/b"]


def test_values_are_byte_ranges_of_the_file(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2e"
    rng = np.random.default_rng(1)
    values = {f"/v{n}": rng.random(int(size)) for n, size in enumerate(rng.integers(0, 40_000, 60))}
    with blosc2.EmbedStore(path) as store:
        store.update(values)
    store = blosc2.EmbedStore(path, mode="r", mmap_mode=source)
    leaves = {key: store[key] for key in values}
    sources = {id(leaf._handle.frame.source) for leaf in leaves.values()}
    assert len(sources) == 1
    for key, leaf in leaves.items():
        np.testing.assert_array_equal(leaf[:], values[key])
    # Unused bytes at the ends of chunks are a fraction of the whole.
    assert path.stat().st_size < 1.4 * sum(len(leaf.to_cframe()) for leaf in leaves.values())


def test_only_what_gains_by_it_is_aligned(tmp_path: Path, source: str | None) -> None:
    """Other values begin where the one before ends."""
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path) as store:
        for n in range(100):
            store[f"/v{n}"] = np.arange(10) + n
        for n in range(5):
            store[f"/raw{n}"] = blosc2.asarray(np.arange(500 + n), cparams={"clevel": 0})
    with blosc2.EmbedStore(path) as store:  # written anew, from the file
        store.compact()
    store = blosc2.EmbedStore(path, mode="r", mmap_mode=source)
    frames = [leaf._handle.frame for leaf in store.values()]
    plain, raw = frames[:100], frames[100:]
    assert all(a.offset + a.frame_len == b.offset for a, b in pairwise(plain))
    assert all(frame.chunk_info(0)[0] % 64 == 32 for frame in raw)
    assert [store[f"/v{n}"][0] for n in range(100)] == list(range(100))


def test_a_value_larger_than_any_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None) -> None:
    monkeypatch.setattr("blosc2._backends.embedded.frame_layout.LARGEST_CHUNK", 1 << 16)
    path = tmp_path / "x.b2e"
    large = np.random.default_rng(1).random(50_000)
    with blosc2.EmbedStore(path) as store:
        store["/small"] = [1, 2]
        store["/large"] = large
        store["/after"] = [3]
    store = blosc2.EmbedStore(path, mode="r", mmap_mode=source)
    np.testing.assert_array_equal(store["/large"][:], large)
    assert store["/small"][1] == 2
    assert store["/after"][0] == 3
    assert store.chunksize == 1 << 16


@pytest.mark.parametrize("entry", FIXTURES, ids=[e["path"] for e in FIXTURES])
def test_files_of_others_can_be_changed(entry: dict, tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    shutil.copyfile(manifest.path_of(entry), path)
    path.chmod(0o644)
    with blosc2.EmbedStore(path) as store:
        frames = {key: store._table.contents.byte_range(key) for key in store}
        frames = {key: bytes(w[0].read(w[1], w[2])) for key, w in frames.items()}
        store["/new"] = np.arange(3)
    with blosc2.EmbedStore(path, mode="r") as store:
        assert list(store) == [*entry["keys"], "/new"] or set(store) == {*entry["keys"], "/new"}
        for key, frame in frames.items():
            byte_range = store._table.contents.byte_range(key)
            assert byte_range[0].read(byte_range[1], byte_range[2]) == frame


def test_remote_entries_are_kept_and_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    shutil.copyfile(manifest.ROOT / "hostile" / "embed_remote.b2e", path)
    path.chmod(0o644)
    with blosc2.EmbedStore(path) as store:
        remote = {key for key, entry in store._table.backend.embedded.entries.items() if "urlbase" in entry}
        assert remote
        store["/new"] = [1]
    with blosc2.EmbedStore(path, mode="r") as store:
        assert remote | {"/new"} <= set(store)
        for key in remote:
            with pytest.raises(NotImplementedError, match="server"):
                store[key]


@pytest.mark.parametrize("mode", ["r", "a"])
def test_other_files_are_refused_and_untouched(tmp_path: Path, mode: str) -> None:
    array = tmp_path / "a.b2nd"
    blosc2.asarray(np.arange(5), urlpath=str(array))
    text = tmp_path / "t.txt"
    text.write_text("no store at all, but long enough to hold a header if it were one" * 4)
    empty = tmp_path / "empty.b2e"
    empty.touch()
    before = tree_state(tmp_path)
    for path in (array, text, empty):
        for error in (ValueError, RuntimeError):
            with pytest.raises(error, match=path.name):
                blosc2.EmbedStore(path, mode=mode)
    with pytest.raises(IsADirectoryError):
        blosc2.EmbedStore(tmp_path, mode=mode)
    assert tree_state(tmp_path) == before


def test_in_memory() -> None:
    store = blosc2.EmbedStore()
    store["/a"] = np.arange(5)
    frame = store.to_cframe()
    copy = blosc2.EmbedStore._from_buffer(frame)
    assert copy["/a"][4] == 4
    copy["/a"][0] = 9
    copy["/b"] = [1]
    assert store["/a"][0] == 0
    assert blosc2.EmbedStore._from_buffer(copy.to_cframe())["/a"][0] == 9
    assert store.urlpath is None
    assert Embedded((Source.of_buffer(frame), 0, len(frame))).kind == "b2embed"
    with pytest.raises(ValueError, match="in memory"):
        blosc2.EmbedStore(mode="r")


def test_metadata_of_the_frame(tmp_path: Path) -> None:
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(path, meta={"mine": [1, 2]}) as store:
        store["/a"] = [1]
    with blosc2.EmbedStore(path) as store:
        store["/b"] = [1]
    frame = Frame.open(Source.open(str(path)))
    assert set(frame.metalayers()) == {"b2embed", "mine", "_pad"}
    assert frame.header_len % 64 == 32


def test_storage_and_parameters(tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2e")
    with blosc2.EmbedStore(storage={"urlpath": path, "mode": "w"}, cparams={"codec": blosc2.Codec.LZ4}) as store:
        store["/a"] = np.arange(1000)
        assert store["/a"].cparams.codec is blosc2.Codec.LZ4
        assert store.storage.urlpath == path
        assert (store.urlpath, store.mode) == (path, "w")
    assert Path(path).exists()


def test_the_working_directory_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with blosc2.EmbedStore("x.b2e") as store:
        store["/a"] = [1]
        monkeypatch.chdir(tmp_path / "other")
        assert store.urlpath == "x.b2e"
    with blosc2.EmbedStore(tmp_path / "x.b2e", mode="r") as store:
        assert store["/a"][0] == 1
