"""`stats`, `describe` and `tree` against what the opened leaves say, and that a catalog makes opening them needless."""

from __future__ import annotations

import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

MANY = 300
KINDS: dict[str, tuple[type, str, dict[str, Any]]] = {
    "dict-zip": (blosc2.DictStore, ".b2z", {}),
    "dict-directory": (blosc2.DictStore, ".b2d", {}),
    "tree-zip": (blosc2.TreeStore, ".b2z", {}),
    "tree-directory": (blosc2.TreeStore, ".b2d", {}),
    "threshold": (blosc2.TreeStore, ".b2z", {"threshold": 500}),
    "embedded": (blosc2.DictStore, ".b2d", {"threshold": None}),
}


def values(count: int) -> dict[str, Any]:
    """Leaves of several kinds, in groups."""
    found: dict[str, Any] = {
        "/zero": np.float32(3),
        "/a/b/c/d/deep": np.zeros((3, 0, 2), "i2"),
        "/a/b/text": np.array(["x", "yy"]),
        "/a/big": np.arange(50_000, dtype="f8"),
        "/a/b/struct": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
        "/é/x": blosc2.asarray(np.arange(200), cparams={"codec": blosc2.Codec.LZ4}, chunks=(90,)),
        "/é/schunk": blosc2.SChunk(chunksize=64, data=bytes(range(200)), cparams={"codec": blosc2.Codec.ZLIB}),
        "/ab": np.ones(3, "?"),
        "/a-b/x": np.ones(30, "M8[s]"),
    }
    for n in range(count):
        found[f"/many/g{n % 3}/k{n}"] = np.arange(n % 50, dtype="i4" if n % 2 else "u1")
    return found


def made(folder: Path, kind: str, count: int) -> Path:
    cls, suffix, options = KINDS[kind]
    path = folder / f"{kind}{count}{suffix}"
    with cls(str(path), mode="w", **options) as store:
        store.write_many(values(count))
        if cls is blosc2.TreeStore:
            store["/a/b"].vlmeta["unit"] = "mm"
            store.vlmeta["root"] = [1, 2]
    return path


@pytest.fixture(scope="module", params=[(k, c) for k in KINDS for c in (0, MANY)], ids=lambda p: f"{p[0]}-{p[1]}")
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("stats"), *request.param)


@pytest.fixture
def store(path: Path, source: str | None) -> Iterator[Any]:
    kind = path.name.split(".")[0].rstrip("0123456789")
    with KINDS[kind][0](str(path), mode="r", mmap_mode=source) as opened:
        yield opened


def opened_leaves(store: Any) -> dict[str, Any]:
    return {key: leaf for key, leaf in store.items() if isinstance(leaf, (blosc2.NDArray, blosc2.SChunk))}


def what(leaf: Any) -> tuple[str, str | None, str]:
    if isinstance(leaf, blosc2.NDArray):
        return "array", str(leaf.dtype), leaf.cparams.codec.name
    return "schunk", None, leaf.cparams.codec.name


Key = tuple[str, int, str | None, str | None, str | None]


def expected_rows(leaves: dict[str, Any], group: str, depth: int, by: tuple[str, ...]) -> dict[Key, list[int]]:
    """Sums by brute force."""
    base = "" if group == "/" else group
    rows: dict[Key, list[int]] = defaultdict(lambda: [0, 0, 0])
    if not by:
        rows[group, 0, None, None, None] = [0, 0, 0]
    for key, leaf in leaves.items():
        if not key.startswith(base + "/"):
            continue
        parts = tuple(
            value if name in by else None for name, value in zip(("kind", "dtype", "codec"), what(leaf), strict=True)
        )
        folders = key[len(base) + 1 :].split("/")[:-1]
        for level in range(min(depth, len(folders)) + 1):
            path = "/".join([base, *folders[:level]]) or "/"
            row = rows[(path, level, *parts)]  # type: ignore[index]
            row[0] += 1
            row[1] += leaf.nbytes
            row[2] += leaf.cbytes
    return dict(rows)


def as_dict(rows: list[Any]) -> dict[Key, list[int]]:
    found = {}
    for row in rows:
        key = (row.group, row.depth, row.kind, row.dtype, row.codec)
        assert key not in found
        found[key] = [row.leaves, row.nbytes, row.cbytes]
        assert row.cratio == (row.nbytes / row.cbytes if row.cbytes else 0)
    return found


BY: list[Any] = [None, "kind", "dtype", "codec", ("kind", "dtype"), ["codec", "kind", "dtype"], ()]


@pytest.mark.parametrize("by", BY, ids=str)
def test_checksums(store: Any, by: Any) -> None:
    leaves = opened_leaves(store)
    names = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    for group in ("/", "/a", "/a/b", "/é", "/many", "/many/g1", "/a/b/c/d"):
        if group[:5] == "/many" and not any(key.startswith("/many") for key in leaves):
            continue
        for depth in range(5):
            rows = store.stats(group, depth, by=by)
            assert as_dict(rows) == expected_rows(leaves, group, depth, names)
            groups = [row.group.split("/") for row in rows]
            assert groups == sorted(groups)  # a group comes before those in it
    assert store.stats("", by=by) == store.stats("/", by=by) == store.stats(by=by)
    assert store.stats("a", np.int64(2), by=by) == store.stats("/a", 2, by=by)


def test_bytes_of_the_files(store: Any, path: Path) -> None:
    files = [path] if path.is_file() else [file for file in path.rglob("*.b2*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    rows = store.stats(depth=2)
    assert rows[0].file_bytes == size > rows[0].cbytes
    assert {row.file_bytes for row in rows[1:]} == {None}
    assert {row.file_bytes for row in [*store.stats("/a"), *store.stats(by="kind")]} == {None}


def test_views_of_groups(store: Any) -> None:
    if not isinstance(store, blosc2.TreeStore):
        assert not hasattr(store, "get_subtree")
        return
    view = store["/a"]
    leaves = {key[2:]: leaf for key, leaf in opened_leaves(store).items() if key.startswith("/a/")}
    for depth in range(4):
        assert as_dict(view.stats(depth=depth)) == expected_rows(leaves, "/", depth, ())
        assert as_dict(view.stats("b", depth)) == expected_rows(leaves, "/b", depth, ())
    assert view.describe("b/text") == store.describe("/a/b/text")._replace(key="/b/text")
    assert str(view.tree("/b")) == str(store.tree("/a/b"))
    for key in ("/", "b", "none"):
        with pytest.raises(KeyError):
            view.describe(key)


@pytest.mark.parametrize("depth", [-1, 1.5, "1", None, True])
def test_wrong_depths(store: Any, depth: Any) -> None:
    with pytest.raises(ValueError, match="depth must be"):
        store.stats(depth=depth)


@pytest.mark.parametrize("by", ["group", "Kind", ["kind", "size"], [5], ""])
def test_wrong_parts(store: Any, by: Any) -> None:
    with pytest.raises(ValueError, match="by must be among"):
        store.stats(by=by)


def test_descriptions(store: Any) -> None:
    for key, leaf in opened_leaves(store).items():
        found = store.describe(key)
        assert found == store.describe(key[1:]) == store.describe(np.str_(key))
        kind, _, codec = what(leaf)
        assert (found.kind, found.codec, found.nbytes, found.cbytes) == (kind, codec, leaf.nbytes, leaf.cbytes)
        assert found.key == key
        # Besides the frame: the header of a member of an archive, its name and what aligns it.
        frame_len = leaf._handle.frame.frame_len
        assert frame_len <= found.stored <= frame_len + len(key.encode()) + 200
        if kind == "array":
            assert (found.shape, found.dtype) == (leaf.shape, leaf.dtype)
            assert str(found) == f"{leaf.shape} {leaf.dtype}"
        else:
            assert (found.shape, found.dtype, str(found)) == (None, None, kind)


@pytest.mark.parametrize("key", ["/none", "/a", "none", "/", "", "/zero/x", "/\ud800", "/many/g0"])
def test_what_cannot_be_described(store: Any, key: str) -> None:
    with pytest.raises(KeyError):
        store.describe(key)
    for wrong in (5, None, "/a/"):
        with pytest.raises((TypeError, ValueError)):
            store.describe(wrong)


@pytest.mark.parametrize("name", ["stats", "tree", "to_pandas"])
def test_groups_that_there_are_not(store: Any, name: str) -> None:
    if name == "to_pandas":
        pytest.importorskip("pandas")
    show = getattr(store, name, store.stats)
    for key in ("/none", "/A", "/man", "/a/b/e", "/\udcff"):
        with pytest.raises(KeyError, match="not found"):
            show(key)
    with pytest.raises(KeyError, match=r"is a leaf: describe\('/zero'\) tells of it"):
        show("/zero")
    assert len(str(show("/a/b"))) > 10


def test_attributes_are_not_shown(store: Any) -> None:
    if isinstance(store, blosc2.TreeStore):
        for key in ("/a/b/__vlmeta__", "/__vlmeta__", "__vlmeta__"):
            with pytest.raises(KeyError):
                store.describe(key)
        with pytest.raises(KeyError):
            store["/a/b"].describe("__vlmeta__")
        assert "__vlmeta__" not in store.tree(lines=10_000)


def test_a_data_frame_takes_the_rows(store: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(store.stats(depth=2, by="dtype"))
    assert list(frame.columns) == [
        "group", "depth", "kind", "dtype", "codec", "leaves", "nbytes", "cbytes", "cratio", "file_bytes",
    ]  # fmt: skip
    assert frame[frame.depth == 0].leaves.sum() == len(opened_leaves(store))


def test_a_table_of_leaves(store: Any) -> None:
    pandas = pytest.importorskip("pandas")
    table = store.to_pandas()
    assert (type(table), table.index.name) == (pandas.DataFrame, "key")
    assert list(table.columns) == ["kind", "shape", "dtype", "codec", "nbytes", "cbytes", "stored", "cratio"]
    leaves = [key for key, leaf in store.items() if not isinstance(leaf, blosc2.TreeStore)]
    assert list(table.index) == leaves
    for key, leaf in opened_leaves(store).items():
        row = table.loc[key]
        kind, dtype, codec = what(leaf)
        found = tuple(row[name] for name in ("kind", "codec", "nbytes", "cbytes"))
        assert found == (kind, codec, leaf.nbytes, leaf.cbytes), key
        for name, wanted in (("dtype", dtype), ("shape", getattr(leaf, "shape", None))):
            assert pandas.isna(row[name]) if wanted is None else row[name] == wanted, key
        assert row.stored >= row.cbytes
        assert row.cratio == (leaf.nbytes / leaf.cbytes if leaf.cbytes else 0)
    for group in ("/a", "a/", "/a/b"):
        wanted = [key for key in leaves if key.startswith(f"/{group.strip('/')}/")]
        assert list(store.to_pandas(group).index) == wanted
    store.close()
    with pytest.raises(ValueError, match="closed store"):
        store.to_pandas()


def test_tables_of_groups_and_of_damaged_leaves(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    path = tmp_path / "a.b2d"
    with blosc2.TreeStore(str(path), mode="w", threshold=0) as store:
        store["/g/x"], store["/g/y"], store["/g/h/z"] = (np.arange(1000) for _ in range(3))
        store["/g"].attrs["unit"] = "mm"
        assert list(store["/g"].to_pandas().index) == ["/h/z", "/x", "/y"]
    (path / "g" / "x.b2nd").write_bytes(b"no frame")
    with blosc2.TreeStore(str(path), mode="r") as store:
        table = store.to_pandas("/g")
        assert table.kind.tolist() == ["array", "unknown", "array"]


def test_closed(store: Any) -> None:
    store.close()
    calls: list[Callable[[], Any]] = [store.stats, lambda: store.describe("/zero")]
    if isinstance(store, blosc2.TreeStore):
        calls.append(store.tree)
    for call in calls:
        with pytest.raises(ValueError, match="closed store"):
            call()


# ---------------------------------------------------------------------- changes
@pytest.mark.usefixtures("changes_wait")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, MANY])
def test_unpublished_changes(tmp_path: Path, kind: str, count: int) -> None:
    cls, _, options = KINDS[kind]
    path = made(tmp_path, kind, count)
    with cls(str(path), mode="a", **options) as store:
        before = store.stats(depth=2, by="dtype")
        store["/new/x"] = np.zeros(5)
        store["/ab"] = np.zeros((2, 2), "i8")
        store["/zero"][...] = 4
        del store["/a/big"]
        assert store.stats(depth=2, by="dtype") == before  # are not counted
        assert store.describe("/new/x")[:3] == ("array", (5,), np.dtype("f8"))  # but told
        assert store.describe("/ab")[1:3] == ((2, 2), np.dtype("i8"))
        assert store.describe("/zero").shape == ()
        with pytest.raises(KeyError):
            store.describe("/a/big")
        store.flush()
        leaves = opened_leaves(store)
        assert as_dict(store.stats(depth=2, by="dtype")) == expected_rows(leaves, "/", 2, ("dtype",))
        store["/new/y"] = [1]
        store.discard()
        assert as_dict(store.stats()) == expected_rows(leaves, "/", 0, ())
    with cls(str(path), mode="w", **options) as store:
        assert [row[5:8] for row in store.stats(depth=3)] == [(0, 0, 0)]
        store["/a"] = [1]
        assert [row[5:8] for row in store.stats(depth=3)] == [(0, 0, 0)]
        assert store.describe("/a").shape == (1,)
        with pytest.raises(KeyError):
            store.describe("/zero")


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_store(tmp_path: Path, kind: str, source: str | None) -> None:
    cls, suffix, options = KINDS[kind]
    path = str(tmp_path / f"store{suffix}")
    with cls(path, mode="w", **options) as store:
        assert [tuple(row)[:-1] for row in store.stats(depth=3)] == [("/", 0, None, None, None, 0, 0, 0, 0.0)]
    with cls(path, mode="r", mmap_mode=source) as store:
        assert [tuple(row)[:-1] for row in store.stats(depth=3)] == [("/", 0, None, None, None, 0, 0, 0, 0.0)]
        assert store.stats(by="kind") == []
        if cls is blosc2.TreeStore:
            assert str(store.tree()) == "/"


# ---------------------------------------------------------------------- what cannot be read
@pytest.mark.parametrize("kind", ["dict-zip", "tree-zip", "tree-directory"])
def test_a_leaf_that_cannot_be_read(tmp_path: Path, kind: str, source: str | None) -> None:
    path = made(tmp_path, kind, 0)
    if path.is_dir():
        file = path / "a" / "big.b2nd"
        data = bytearray(file.read_bytes())
        data[2:10] = b"\0" * 8
        file.write_bytes(data)
    else:
        with KINDS[kind][0](str(path), mode="r") as store:
            offset, _ = store.member_window("/a/big")
        data = bytearray(path.read_bytes())
        data[offset + 2 : offset + 10] = b"\0" * 8
        path.write_bytes(data)
    with KINDS[kind][0](str(path), mode="r", mmap_mode=source) as store:
        with pytest.raises(blosc2.FormatError, match="/a/big"):
            store["/a/big"]
        whole = {key: store[key] for key in values(0) if key != "/a/big"}
        (row,) = store.stats()
        assert row.leaves == len(values(0))
        assert row.nbytes == sum(leaf.nbytes for leaf in whole.values())
        unknown = [row for row in store.stats(by="kind") if row.kind == "unknown"]
        assert [(row.leaves, row.nbytes, row.cbytes) for row in unknown] == [(1, 0, 0)]
        assert [row.leaves for row in store.stats(by="codec") if row.codec == ""] == [1]
        with pytest.raises(blosc2.FormatError):
            store.describe("/a/big")
        if isinstance(store, blosc2.TreeStore):
            assert "big damaged" in store.tree()


@pytest.mark.parametrize("count", [0, MANY])
def test_attributes_in_a_store_without_groups(tmp_path: Path, count: int) -> None:
    """There they are leaves like others, of a kind of their own, wherever that is known from."""
    found = []
    for suffix in (".b2z", ".b2d"):
        path = str(tmp_path / f"tree{suffix}")
        with blosc2.TreeStore(path, mode="w") as store:
            store.write_many(values(count))
            store["/a/b"].vlmeta["unit"] = "mm"
        with blosc2.DictStore(path, mode="r") as store:
            rows = store.stats(depth=2, by=["kind", "codec"])
            assert [row.leaves for row in rows if row.kind == "attributes"] == [1, 1, 1]
            assert sum(row.leaves for row in rows if row.depth == 0) == len(store)
            found.append(rows)
    assert found[0] == found[1]


# ---------------------------------------------------------------------- no leaf is touched
def test_groups_behind_names_that_begin_alike(tmp_path: Path, source: str | None) -> None:
    """In the order of bytes "-" and "." come before "/": the leaves of "/a" are behind those of "/a-b"."""
    keys = ["/a/b/c", "/a-b/x", "/a.b/y", "/a/b-c/d", "/a/b!", "/g"] + [f"/zz/k{n}" for n in range(MANY)]
    with blosc2.TreeStore(str(tmp_path / "tree.b2z"), mode="w") as store:
        store.write_many((key, [1]) for key in keys)
    groups = {"/a", "/a/b", "/a-b", "/a.b", "/a/b-c", "/zz"}
    with blosc2.TreeStore(str(tmp_path / "tree.b2z"), mode="r", mmap_mode=source) as store:
        assert set(store) == {*keys, *groups}
        assert len(store) == len(keys) + len(groups)
        assert all(key in store for key in (*keys, *groups))
        assert {group: len(store[group]) for group in groups} == {
            "/a": 5, "/a/b": 1, "/a-b": 1, "/a.b": 1, "/a/b-c": 1, "/zz": MANY,
        }  # fmt: skip
        assert {row.group: row.leaves for row in store.stats(depth=9)} == {
            "/": MANY + 6, "/a": 3, "/a/b": 1, "/a-b": 1, "/a.b": 1, "/a/b-c": 1, "/zz": MANY,
        }  # fmt: skip


def drawn_by_hand(store: Any, path: str = "", indent: str = "") -> Iterator[str]:
    children = store.get_children(path or "/")
    for key in children:
        last = key == children[-1]
        leaf = store[key]
        group = isinstance(leaf, blosc2.TreeStore)
        label = "" if group else f" {leaf.shape} {leaf.dtype}" if isinstance(leaf, blosc2.NDArray) else " schunk"
        yield indent + ("└── " if last else "├── ") + key.rpartition("/")[2] + label
        if group:
            yield from drawn_by_hand(store, key, indent + ("    " if last else "│   "))


def test_drawings(store: Any) -> None:
    if not isinstance(store, blosc2.TreeStore):
        keys = sorted(store)
        assert str(dict(store.info_items)["contents"]).splitlines() == keys[:20] + ["..."] * (len(keys) > 20)
        return
    lines = ["/", *drawn_by_hand(store)]
    assert str(store.tree()).splitlines() == lines
    assert repr(store.tree()) == str(store.tree())
    assert store.tree()._repr_html_().startswith("<pre>/\n")
    assert str(store.tree(lines=4)).splitlines() == [*lines[:4], "..."]
    assert str(store.tree(depth=0)) == "/"
    assert str(store.tree(depth=1)).splitlines() == [
        "/",
        *[line.replace("│", " ") for line in lines if line[:1] in "├└"],
    ]
    assert "contents" in repr(store.info)


@pytest.mark.parametrize("kind", ["dict-zip", "tree-zip"])
def test_a_catalog_makes_leaves_needless(tmp_path: Path, kind: str, source: str | None) -> None:
    cls = KINDS[kind][0]
    path = made(tmp_path, kind, MANY)

    def answers() -> dict[str, Any]:
        with cls(str(path), mode="r", mmap_mode=source) as store:
            found: dict[str, Any] = {
                "length": len(store),
                "keys": list(store),
                "in": [key in store for key in (*values(MANY), "/none", "/a")],
                "described": [store.describe(key) for key in values(MANY)],
                "stats": [store.stats(depth=3, by=by) for by in BY],
                "info": repr(store.info),
            }
            if isinstance(store, blosc2.TreeStore):
                found |= {
                    "walk": list(store.walk()),
                    "children": [store.get_children(group) for group, _, _ in store.walk()],
                    "drawn": str(store.tree()),
                    "views": len(store["/a"]) + len(store["/many/g1"]),
                }
            return found

    before = answers()
    with zipfile.ZipFile(path) as archive:
        members = [(i.header_offset, i.file_size, i.filename) for i in archive.infolist()]
    data = bytearray(path.read_bytes())
    zeroed = 0
    for offset, size, name in members:
        if name.endswith((".b2nd", ".b2f")):
            start = offset + 30 + int.from_bytes(data[offset + 26 : offset + 28], "little")
            start += int.from_bytes(data[offset + 28 : offset + 30], "little")
            data[offset : start + size] = bytes(start + size - offset)
            zeroed += 1
    assert zeroed >= len(values(MANY))
    path.write_bytes(data)
    assert answers() == before
    with cls(str(path), mode="r", mmap_mode=source) as store, pytest.raises(blosc2.FormatError):
        store["/zero"]
