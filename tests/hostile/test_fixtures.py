"""Every fixture opens with the values of its manifest, through both sources, alone and inside stores."""

from __future__ import annotations

import os
import shutil
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest
from fixture_kit.keys import basic_key

import blosc2
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._frames.update import FrameUpdate

SLICES = 40

OBJECTS = manifest.files("ndarray", "schunk", "objectarray", "batcharray")
ARRAYS = [e for e in manifest.files("ndarray") if "sha256" in e]
SCHUNKS = manifest.files("schunk")
STORES = manifest.files(*manifest.STORE_KINDS)
# a leaf is one file that holds one frame from its first byte to its last
LEAVES = [e for e in OBJECTS if "frame" in e and not e.get("offset") and e["frame"]["frame_len"] == e.get("file_size")]


def each(entries: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("entry", entries, ids=[e["path"] for e in entries])


def open_entry(entry: dict[str, Any], source: str | None, **more: Any) -> Any:
    """The object of a manifest entry, opened by the call that the manifest names."""
    path = str(manifest.path_of(entry))
    if "offset" in entry:
        more["offset"] = entry["offset"]
    call = getattr(blosc2, entry.get("opens_with", "blosc2.open").removeprefix("blosc2."))
    if "strangers.b2d" in entry["path"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a leaf with an unknown suffix is listed with a warning
            store = call(path, mode="r", mmap_mode=source, **more)
            list(store.keys())
            return store
    return call(path, mode="r", mmap_mode=source, **more)


def test_the_manifest_is_complete() -> None:
    named = {e["path"] for e in manifest.FILES + manifest.HOSTILE}
    top = {p.relative_to(manifest.ROOT).as_posix() for p in manifest.ROOT.glob("*/*")}
    assert top - {"README.md", "manifest.json"} == named
    assert (len(manifest.FILES), len(manifest.HOSTILE)) == (186, 167)


def test_files_are_as_they_were_written() -> None:
    for entry in manifest.FILES:
        if "file_sha256" in entry:
            data = manifest.path_of(entry).read_bytes()
            assert (len(data), manifest.sha256(data)) == (entry["file_size"], entry["file_sha256"]), entry["path"]


@each(OBJECTS)
def test_object(entry: dict[str, Any], source: str | None) -> None:
    """Its values and metadata, and what its frame says of them."""
    x = open_entry(entry, source, deserialize="full" if "active" in entry["path"] else "safe")
    if "active" in entry["path"]:
        check_active(x, entry)
    else:
        manifest.check(x, entry)
        check_mappings(x, entry)
    if "frame" in entry:
        path = str(manifest.path_of(entry))
        frame = Frame.open(Source.map(path) if source else Source.open(path), entry.get("offset", 0))
        check_header(frame, entry)
        if "offsets" in entry["frame"]:
            check_chunks(frame, entry)


def check_active(x: Any, entry: dict[str, Any]) -> None:
    """Values of codes 42 and 43: a frame is decoded, a reference stays as raw bytes."""
    want = dict(entry["vlmeta"])
    assert x.vlmeta["passive"] == want["passive"]
    manifest.check(x.vlmeta["array"], want["array"]["$cframe"])
    assert b"dictstore_key" in bytes(getattr(x.vlmeta["ref"], "data", x.vlmeta["ref"]))
    assert manifest.sha256(x[()].tobytes()) == entry["sha256"]


def test_active_values_are_refused_by_default(source: str | None) -> None:
    (entry,) = [e for e in OBJECTS if "active" in e["path"]]
    x = open_entry(entry, source)
    assert x.vlmeta["passive"] == 1
    for name in ("array", "ref"):
        with pytest.raises(blosc2.UnsafeDeserializationError, match="deserialize='safe'"):
            x.vlmeta[name]
    assert manifest.sha256(x[()].tobytes()) == entry["sha256"]


def check_mappings(x: Any, entry: dict[str, Any]) -> None:
    """Metadata read as a mapping."""
    vlmeta = {k: v for k, v in x.vlmeta[:].items() if k not in manifest.FORMAT_VLMETA}
    assert {k: manifest.tagged(v) for k, v in vlmeta.items()} == entry.get("vlmeta", {})
    if "frame" in entry:
        assert list(x.vlmeta) == entry["frame"]["vlmeta_names"]
    schunk = getattr(x, "schunk", x)
    meta = {k: v for k, v in dict(schunk.meta).items() if k not in manifest.FORMAT_METALAYERS}
    assert {k: manifest.tagged(v) for k, v in meta.items()} == entry.get("meta", {})


def check_header(frame: Frame, entry: dict[str, Any]) -> None:
    want = entry["frame"]
    for name in ("header_len", "frame_len", "flags", "nbytes", "typesize", "blocksize", "chunksize", "nchunks"):
        assert getattr(frame, name) == want[name], name
    if want["nbytes"]:  # stale in a frame without data
        assert frame.cbytes == want["cbytes"]
    assert {name: len(content) for name, content in frame.metalayers().items()} == want["metalayers"]
    assert frame.vlmeta_names() == want["vlmeta_names"]
    assert (frame.codec, frame.clevel) == (blosc2.Codec[entry["codec"]].value, entry["clevel"])
    assert list(frame.filters) == [blosc2.Filter[name].value for name in entry["filters"]]
    assert list(frame.filters_meta) == entry["filters_meta"]
    assert bool(frame.use_dict) == entry["use_dict"]


def check_chunks(frame: Frame, entry: dict[str, Any]) -> None:
    """Chunks lie where the manifest says."""
    data = manifest.path_of(entry).read_bytes()[entry.get("offset", 0) :]
    listed = [n if n >= 0 else f"special {n >> 56 & 0x7F}" for n in FrameUpdate(frame).offsets.tolist()]
    assert listed == entry["frame"]["offsets"]
    for n, offset in enumerate(listed):
        chunk = frame.chunk(n)
        if isinstance(offset, str):
            assert len(chunk) == 32
            assert chunk[31] & 0x70 == int(offset[-1]) << 4
        else:
            start = entry["frame"]["header_len"] + offset
            assert chunk == data[start : start + len(chunk)]
            assert int.from_bytes(chunk[12:16], "little") == len(chunk)
    assert frame.trailer_len == entry["frame"]["trailer_len"]
    assert frame.stored_bytes() == data[: entry["frame"]["frame_len"]]


def same_items(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit, but for padding, which NumPy does not always copy."""
    if a.dtype.names:
        return all(same_items(a[name], b[name]) for name in a.dtype.names)
    return np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


@each(ARRAYS)
def test_slices_of_arrays(entry: dict[str, Any], source: str | None, rng: np.random.Generator) -> None:
    x = open_entry(entry, source)
    whole = x[()]
    assert manifest.sha256(np.ascontiguousarray(whole).tobytes()) == entry["sha256"]
    whole = np.ascontiguousarray(whole).reshape(entry["shape"])
    for _ in range(SLICES):
        key = basic_key(rng, whole.shape)
        want = np.asarray(whole[key], dtype=whole.dtype)
        got = x[key]
        assert isinstance(got, np.ndarray)
        assert (got.shape, got.dtype) == (want.shape, want.dtype), key
        assert same_items(got, want), key
        assert got.flags.writeable
        assert got.flags.c_contiguous
    assert same_items(np.asarray(x), whole)
    if whole.ndim:
        assert len(x) == whole.shape[0]


@each(SCHUNKS)
def test_slices_of_super_chunks(entry: dict[str, Any], source: str | None, rng: np.random.Generator) -> None:
    x = open_entry(entry, source)
    whole = b"".join(x.decompress_chunk(n) for n in range(x.nchunks))
    assert manifest.sha256(whole) == entry["sha256"]
    size = entry["typesize"]
    items = len(whole) // size
    assert (len(x), x.nbytes) == (items, len(whole))
    assert x[:] == whole
    for _ in range(SLICES):
        start, stop = sorted(int(n) for n in rng.integers(0, items + 3, 2))
        assert x[start:stop] == whole[start * size : stop * size], (start, stop)
        assert x.get_slice(start, stop) == whole[start * size : stop * size], (start, stop)
    if items:
        n = int(rng.integers(0, items))
        assert x[n] == whole[n * size : (n + 1) * size]


def test_a_slice_as_long_as_a_block_may_start_anywhere(source: str | None) -> None:
    (entry,) = [e for e in OBJECTS if e["path"] == "schunks/many_chunks.b2frame"]
    x = open_entry(entry, source)
    whole = b"".join(x.decompress_chunk(n) for n in range(x.nchunks))
    size = x.typesize
    block = max(x.blocksize, 1) // size or x.chunksize // size
    for length in {block, 2 * block, x.chunksize // size}:
        for start in range(0, 3 * block, max(block // 7, 1)):
            assert x[start : start + length] == whole[start * size : (start + length) * size], (start, length)


def test_undefined_items_read_as_zeros(source: str | None) -> None:
    (entry,) = [e for e in OBJECTS if e["path"] == "special/uninit.b2nd"]
    x = open_entry(entry, source)
    np.testing.assert_array_equal(x[:], np.zeros(entry["shape"], manifest.dtype_of(entry["dtype"])))
    assert x[3:90:4].tobytes() == bytes(8 * 22)


def test_a_tebibyte_of_zeros_costs_little(source: str | None) -> None:
    import tracemalloc

    (entry,) = [e for e in OBJECTS if e["path"] == "special/huge_zeros.b2nd"]
    tracemalloc.start()
    x = open_entry(entry, source)
    assert x.shape == (1 << 20, 1 << 20)
    assert x.nbytes == 1 << 40
    for key in [(0, 0), (slice(8190, 8195), slice(8190, 8195)), (-1, slice(-5, None)), (slice(None, None, 1 << 18), 7)]:
        got = x[key]
        assert got.nbytes < 100
        assert not got.any()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def test_special_floats(source: str | None) -> None:
    for path, dtype in (("special/nans_f4.b2nd", "<f4"), ("special/nans_f8.b2nd", "<f8")):
        x = blosc2.open(str(manifest.ROOT / path), mmap_mode=source)
        assert x.dtype == dtype
        assert np.isnan(x[:]).all()
        assert np.isnan(x[1::7]).all()
    values = blosc2.open(str(manifest.ROOT / "vlmeta" / "values.b2nd"), mmap_mode=source).vlmeta
    assert np.isnan(values["nan"])
    more = blosc2.open(str(manifest.ROOT / "vlmeta" / "more.b2frame"), mmap_mode=source).vlmeta
    assert more["inf"] == float("inf")


# ---------------------------------------------------------------------------------------------- stores


def is_attributes(key: str) -> bool:
    return key == "/__vlmeta__" or key.endswith("/__vlmeta__")


def below(key: str, parents: Any) -> bool:
    return any(key.startswith(parent + "/") for parent in parents)


@each(STORES)
def test_store(entry: dict[str, Any], source: str | None) -> None:
    opaque = tuple(entry.get("objects", ()))
    with open_entry(entry, source) as store:
        assert type(store).__name__.lower() == entry["kind"]
        keys = set(store.keys())
        assert keys == set(entry.get("listed", entry["keys"]))
        assert len(store) == len(list(store)) == len(keys)
        for key in keys:
            assert key in store
            assert key + "x" not in store
        with pytest.raises(KeyError, match="/no/such"):
            store["/no/such"]
        assert store.get("/no/such", 7) == 7
        for key, leaf in entry["keys"].items():
            if entry["kind"] == "treestore" and (is_attributes(key) or below(key, opaque)):
                assert key not in store.keys()  # noqa: SIM118 - of a mapping that also knows hidden keys
                continue
            manifest.check(store[key], leaf)
        found = dict(store.items())
        assert set(found) == set(store.keys())
        assert len(list(store.values())) == len(found)


@each([e for e in STORES if e["kind"] == "treestore"])
def test_tree(entry: dict[str, Any], source: str | None) -> None:
    listed = set(entry["listed"])
    opaque = set(entry.get("objects", ()))
    leaves = {k for k in listed if k in entry["keys"]} | opaque
    with open_entry(entry, source) as tree:
        walked = set()
        for path, groups, names in tree.walk():
            base = "" if path == "/" else path
            assert set(tree.get_children(path)) == {f"{base}/{name}" for name in [*groups, *names]}
            walked |= {f"{base}/{name}" for name in [*groups, *names]}
            assert {f"{base}/{name}" for name in names} <= leaves
            assert not {f"{base}/{name}" for name in groups} & leaves
        assert walked == listed
        assert set(tree.get_descendants("/")) == listed
        for group in listed - leaves:
            view = tree[group]
            assert isinstance(view, blosc2.TreeStore)
            assert set(view.keys()) == {k[len(group) :] for k in listed if k.startswith(group + "/")}
        for group in {"/", *(listed - leaves)}:
            view = tree if group == "/" else tree.get_subtree(group)
            got = {name: manifest.tagged(value) for name, value in view.vlmeta[:].items()}
            assert got == entry["attrs"].get(group, {}), group
    # As a dictionary: every physical leaf, attributes and inner leaves of other objects included.
    with blosc2.DictStore(str(manifest.path_of(entry)), mode="r", mmap_mode=source) as store:
        assert set(store.keys()) == set(entry["keys"])
        for key, leaf in entry["keys"].items():
            manifest.check(store[key], leaf)


@each([e for e in STORES if e["path"].endswith(".b2z")])
def test_member_byte_ranges(entry: dict[str, Any], source: str | None) -> None:
    data = manifest.path_of(entry).read_bytes()
    with blosc2.DictStore(str(manifest.path_of(entry)), mode="r", mmap_mode=source) as store:
        for key, leaf in entry["keys"].items():
            byte_range = store.member_window(key)
            if leaf["tier"] == "embedded":
                assert byte_range is None
                continue
            offset, nbytes = byte_range
            frame = data[offset : offset + nbytes]
            assert frame[2:10] == b"b2frame\0"
            assert int.from_bytes(frame[16:24], "big") == nbytes
            assert store[key].to_cframe() == frame


def test_table_is_one_opaque_key(source: str | None) -> None:
    (entry,) = [e for e in STORES if "tree_table" in e["path"]]
    with open_entry(entry, source) as tree:
        (key,) = entry["objects"]
        handle = tree[key]
        assert "ctable" in repr(handle).lower() or "ctable" in str(handle).lower()
        with pytest.raises(NotImplementedError, match="ctable"):
            handle[0]


# -------------------------------------------------------------------------------- alone and inside stores

SUFFIX = {"ndarray": ".b2nd", "schunk": ".b2f", "objectarray": ".b2f", "batcharray": ".b2b"}


def member_of(entry: dict[str, Any]) -> str:
    return entry["path"].rsplit(".", 1)[0] + SUFFIX[entry["kind"]]


@pytest.fixture(scope="module")
def stores_of_all(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The bytes of all fixtures with one frame as leaves, put together without the package."""
    root = tmp_path_factory.mktemp("all")
    directory = root / "all.b2d"
    embed = manifest.ROOT / "stores" / "dict_external.b2d" / "embed.b2e"
    directory.mkdir()
    shutil.copyfile(embed, directory / "embed.b2e")
    archive = root / "all.b2z"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as z:
        for entry in LEAVES:
            target = directory / member_of(entry)
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(manifest.path_of(entry), target)
            z.write(target, member_of(entry))
        z.write(embed, "embed.b2e")
    return {".b2d": directory, ".b2z": archive}


@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
def test_every_object_as_a_leaf(stores_of_all: dict[str, Path], suffix: str, source: str | None) -> None:
    assert len(LEAVES) > 140
    with blosc2.open(str(stores_of_all[suffix]), mmap_mode=source) as store:
        assert isinstance(store, blosc2.DictStore)
        keys = {"/" + member_of(entry).rsplit(".", 1)[0]: entry for entry in LEAVES}
        assert set(store.keys()) == set(keys)
        for key, entry in keys.items():
            if "active" not in entry["path"]:
                manifest.check(store[key], entry)
    with blosc2.open(str(stores_of_all[suffix]), mmap_mode=source, deserialize="full") as store:
        (entry,) = [e for e in LEAVES if "active" in e["path"]]
        check_active(store["/vlmeta/active"], entry)


@pytest.mark.parametrize("clevel", [0, 5])
def test_every_object_as_an_embedded_leaf(tmp_path: Path, clevel: int, source: str | None) -> None:
    path = str(tmp_path / "all.b2e")
    small = [e for e in LEAVES if "active" not in e["path"]]
    with blosc2.EmbedStore(path, mode="w", cparams=blosc2.CParams(clevel=clevel)) as store:
        for entry in small:
            store["/" + entry["path"]] = blosc2.open(str(manifest.path_of(entry)))
    with blosc2.open(path, mmap_mode=source) as store:
        assert isinstance(store, blosc2.EmbedStore)
        assert set(store.keys()) == {"/" + entry["path"] for entry in small}
        for entry in small:
            leaf = store["/" + entry["path"]]
            manifest.check(leaf, entry)
            # the bytes of a frame move unchanged
            assert leaf.to_cframe() == manifest.path_of(entry).read_bytes()


@each([e for e in OBJECTS if "frame" in e])
def test_an_object_in_memory(entry: dict[str, Any]) -> None:
    start = entry.get("offset", 0)
    data = manifest.path_of(entry).read_bytes()[start : start + entry["frame"]["frame_len"]]
    deserialize = "full" if "active" in entry["path"] else "safe"
    for copy in (True, False):
        x = blosc2.from_cframe(data, copy=copy, deserialize=deserialize)
        if deserialize == "full":
            check_active(x, entry)
        else:
            manifest.check(x, entry)


def test_reading_changes_no_file(tmp_path: Path, source: str | None) -> None:
    """Mode 'r' never writes: not to a file, not beside it."""
    root = tmp_path / "fixtures"
    shutil.copytree(manifest.ROOT, root, ignore=shutil.ignore_patterns("hostile", "*.py"))

    def state() -> dict[str, tuple[bytes | None, int]]:
        found = {}
        for folder, _, names in os.walk(root):
            for path in [folder, *(os.path.join(folder, name) for name in names)]:
                data = None if os.path.isdir(path) else Path(path).read_bytes()
                found[path] = (data, os.stat(path).st_mtime_ns)
        return found

    before = state()
    for entry in STORES + OBJECTS[:5]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            call = getattr(blosc2, entry.get("opens_with", "open").removeprefix("blosc2."))
            x = call(str(root / entry["path"]), mode="r", mmap_mode=source)
            for value in x.values() if "keys" in entry else [x]:
                assert value is not None
            if "keys" in entry:
                x.close()
    assert state() == before
