"""Tables, listings and cursors of keys against sorted lists of strings."""

from __future__ import annotations

import io
import itertools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyCursor, KeyListing
from blosc2._core.leaves.catalog_writer import write_cataloged
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2.exceptions import FormatError

FRAME = b"\x9e\xa8b2frame\0" + bytes(100)
SUFFIXES = (b".b2nd", b".b2f", b".b2b")
SKIPPED = (b".b2/", b"embed.b2e")
ATTRIBUTES = "__vlmeta__"
LONG = "/" + "p" * 198 + "é"

# Characters below and above "/", beyond ASCII and beyond 16 bits, and the twins of a normalisation.
letters = ["a", "b", "A", " ", "-", ".", "+", "0", "é", "e\u0301", "日", "\U0001f600"]
segments = st.lists(st.sampled_from(letters), min_size=1, max_size=3).map("".join).filter(lambda s: s.strip("."))
paths = st.lists(segments, min_size=1, max_size=5).map(lambda parts: "/" + "/".join(parts))
hidden_paths = st.tuples(paths, st.sampled_from([ATTRIBUTES, "_meta", ATTRIBUTES + "/a", ATTRIBUTES + "-"])).map(
    "/".join
)
keys = paths | hidden_paths | st.just("/" + ATTRIBUTES)


@st.composite
def key_sets(draw: st.DrawFn) -> list[str]:
    """Different keys in any order: some are named like groups of others, and all may have much in common."""
    found = draw(st.lists(keys, max_size=12, unique=True))
    groups = sorted(groups_of(found))
    found += draw(st.lists(st.sampled_from(groups), max_size=3)) if groups else []
    found = list(dict.fromkeys(found))
    if draw(st.booleans()):
        found = [LONG + key for key in found]
    return list(draw(st.permutations(found)))


# ---------------------------------------------------------------------- what is asked, of a list
def base_of(path: str) -> str:
    return "" if path == "/" else path


def below(names: list[str], path: str) -> list[str]:
    return sorted(name for name in names if name.startswith(base_of(path) + "/"))


def groups_of(names: list[str]) -> set[str]:
    return {name[:i] for name in names for i, c in enumerate(name) if c == "/" and i}


def children(names: list[str], path: str) -> tuple[list[str], list[str]]:
    rest = [name[len(base_of(path)) + 1 :] for name in below(names, path)]
    return sorted({r.partition("/")[0] for r in rest if "/" in r}), sorted(r for r in rest if "/" not in r)


def walked(names: list[str], path: str, topdown: bool) -> Iterator[tuple[str, list[str], list[str]]]:
    groups, leaves = children(names, path)
    here = base_of(path), groups, [name for name in leaves if name != ATTRIBUTES]
    if topdown:
        yield here
    for group in groups:
        yield from walked(names, f"{base_of(path)}/{group}", topdown)
    if not topdown:
        yield here


def visible(names: list[str], path: str, *, hidden: bool, groups: bool) -> list[str]:
    """Keys below a group, with the groups; leaves of attributes are hidden or not."""
    found = {name for name in names if not (hidden and name.endswith("/" + ATTRIBUTES))}
    return below(list(found | (groups_of(names) if groups else set())), path)


def common_group(names: list[str]) -> str:
    if not names:
        return "/"
    together = zip(*[name.split("/")[1:-1] for name in names], strict=False)
    return "/" + "/".join(parts[0] for parts in itertools.takewhile(lambda parts: len(set(parts)) == 1, together))


# ---------------------------------------------------------------------- the same keys in tables of all kinds
def archive_of(names: list[str], source: str, *, cataloged: bool) -> Archive:
    """An archive with a leaf for each key, and two members that are none."""
    path = Path(source) / "keys.b2z"
    with path.open("wb") as file:
        writer = ArchiveWriter(file.fileno(), 0, 8, file_checksum=0)
        for name in ("embed.b2e", ".b2/other"):
            writer.append(name.encode(), FRAME)
        for name in names:
            writer.append(name[1:].encode() + SUFFIXES[len(name) % 3], FRAME, description=b"")
        if cataloged:
            runs, others = writer.collect()
            assert write_cataloged(writer, None, runs, others, b"embed.b2e") == len(names)
        else:
            writer.write_directory()
        writer.write_end()
    if len(names) % 2:
        archive = Archive(Source.of_buffer(path.read_bytes()))
    else:
        archive = Archive(Source.open(str(path)))
    assert (archive.catalog is not None) == (cataloged and bool(names))
    return archive


def table_of(names: list[str], kind: str, directory: str) -> KeyTable:
    if kind == "memory":
        return KeyTable.of_keys(names)
    return KeyTable.of_archive(archive_of(names, directory, cataloged=kind == "catalog"), SUFFIXES, SKIPPED)


KINDS = ["memory", "archive", "catalog"]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path)


def examples(function: Any) -> Any:
    """Many examples in one directory."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=50, deadline=None, suppress_health_check=quiet)(function)


@st.composite
def listings(draw: st.DrawFn) -> tuple[list[str], list[str], list[str]]:
    """Published keys, keys that come and keys that go."""
    names = draw(key_sets())
    if draw(st.booleans()) or not names:
        return names, [], []
    cut = draw(st.integers(0, len(names)))
    base = names[:cut]
    return base, names[cut:], draw(st.lists(st.sampled_from(base), unique=True)) if base else []


def listing_of(given: tuple[list[str], list[str], list[str]], kind: str, directory: str) -> KeyListing:
    base, added, removed = given
    more = KeyTable.of_keys(added) if added else None
    gone = KeyTable.of_keys(removed) if removed else None
    return KeyListing(table_of(base, kind, directory), more, gone)


def all_of(given: tuple[list[str], list[str], list[str]]) -> list[str]:
    base, added, removed = given
    return [key for key in [*base, *added] if key not in removed]


def some_paths(names: list[str], data: st.DataObject) -> str:
    """A group, a leaf, or what is neither."""
    return data.draw(st.sampled_from(["/", *sorted(groups_of(names) | set(names))]) | paths)


# Keys that go on behind the name of a group with characters before and after "/".
NEIGHBOURS = ["/a-x", "/a/b", "/a.b", "/a", "/a0", "/a b/c", "/a/b/c", "/a/__vlmeta__", "/__vlmeta__", "/a+/_meta"]


@pytest.mark.parametrize("kind", KINDS)
class TestTable:
    @examples
    @given(names=key_sets(), other=keys)
    def test_find(self, kind: str, folder: str, names: list[str], other: str) -> None:
        table = table_of(names, kind, folder)
        assert len(table) == table.count == len(names)
        found = [table.find(key) for key in names]
        if table.archive is None:
            assert found == list(range(len(names)))
        else:
            members = [table.archive.name_at(record) for record in found]
            assert members == [key[1:] + SUFFIXES[len(key) % 3].decode() for key in names]
            assert sorted(found) == sorted(table.record_offsets())
        for key in [other, *names, *(key + "x" for key in names), *(key[:-1] for key in names), *groups_of(names)]:
            assert (key in table) == (key in names)
            assert (table.find(key) >= 0) == (key in names)

    @examples
    @given(names=key_sets(), data=st.data())
    def test_records_are_in_the_order_of_keys(
        self, kind: str, folder: str, names: list[str], data: st.DataObject
    ) -> None:
        table = table_of(names, kind, folder)
        if table.archive is None:
            return
        start, stop = data.draw(st.tuples(st.integers(0, 14), st.integers(-1, 14)))
        suffixed = [key[1:] + SUFFIXES[len(key) % 3].decode() for key in sorted(names)]
        wanted = suffixed[start:] if stop < 0 else suffixed[start:stop]
        assert [table.archive.name_at(record) for record in table.record_offsets(start, stop)] == wanted

    @examples
    @given(names=key_sets())
    def test_members_that_are_no_leaves(self, kind: str, folder: str, names: list[str]) -> None:
        table = table_of(names, kind, folder)
        if table.archive is None:
            return
        others = [table.archive.name_at(record) for record in table.other_offsets((b".b2/catalog",))]
        assert others == ["embed.b2e", ".b2/other"]
        assert [
            table.archive.name_at(record) for record in table.other_offsets((b".b2/catalog", b"embed.b2e"))
        ] == others[1:]
        records = table.others((b".b2/catalog",))
        assert records == b"".join(record_of(table.archive, name) for name in others)
        assert table.regular
        assert table.sound() is table


def record_of(archive: Archive, name: str) -> bytes:
    """The record of a member, taken out of the directory by hand."""
    directory = archive.source.read(archive.directory_offset, archive.directory_size)
    at = 0
    while at < len(directory):
        length = 46 + sum(int.from_bytes(directory[at + k : at + k + 2], "little") for k in (28, 30, 32))
        if directory[at + 46 : at + 46 + len(name)] == name.encode():
            return directory[at : at + length]
        at += length
    raise AssertionError(name)


@pytest.mark.parametrize("kind", KINDS)
class TestListing:
    @examples
    @given(given=listings(), data=st.data())
    @example(given=(NEIGHBOURS, [], []), data=None)
    def test_keys(self, kind: str, folder: str, given: Any, data: Any) -> None:
        listing, names = listing_of(given, kind, folder), all_of(given)
        base = given[0]
        assert len(listing) == len(names)
        assert listing.plain == (not given[1] and not given[2])
        assert listing.below() == sorted(names)
        for key in [*given[0], *given[1], "/nothing", "", "a"]:
            assert (key in listing) == (key in names)
        for path in ["/", *groups_of([*base, *given[1]]), *([] if data is None else [some_paths(names, data)])]:
            assert listing.below(path) == below(names, path)
            assert listing.count(path) == len(below(names, path))
            start, stop = listing.positions(path)
            assert sorted(base)[start:stop] == below(base, path)

    @examples
    @given(given=listings(), data=st.data())
    @example(given=(NEIGHBOURS, [], []), data=None)
    @example(given=(NEIGHBOURS[1:], ["/a-x"], ["/a/b"]), data=None)
    def test_groups(self, kind: str, folder: str, given: Any, data: Any) -> None:
        listing, names = listing_of(given, kind, folder), all_of(given)
        for path in ["/", *groups_of(names), *([] if data is None else [some_paths(names, data)])]:
            assert listing.children(path) == children(names, path)
            for topdown in (True, False):
                assert list(listing.walk(path, topdown, ATTRIBUTES)) == list(walked(names, path, topdown))
        assert listing.common() == common_group(names)

    @examples
    @given(given=listings(), data=st.data())
    @example(given=(NEIGHBOURS, [], []), data=None)
    @example(given=(["/a-x", "/a/b"], [], []), data=None)
    @example(given=(["/a", "/a-x", "/a/b"], [], []), data=None)
    @example(given=(["/a", "/a-x"], ["/a/b"], ["/a"]), data=None)
    def test_trees(self, kind: str, folder: str, given: Any, data: Any) -> None:
        listing, names = listing_of(given, kind, folder), all_of(given)
        for path in ["/", *groups_of(names), *([] if data is None else [some_paths(names, data)])]:
            wanted = visible(names, path, hidden=True, groups=True)
            assert listing.tree_count(path, ATTRIBUTES) == len(wanted)

    @examples
    @given(given=listings())
    @example(given=(NEIGHBOURS, [], []))
    def test_named(self, kind: str, folder: str, given: Any) -> None:
        listing, names = listing_of(given, kind, folder), all_of(given)
        for name in {"_meta", *(key.rpartition("/")[2] for key in [*given[0], *given[1]])}:
            assert listing.named(name) == sorted(key for key in names if key.rpartition("/")[2] == name)

    @examples
    @given(
        given=listings(), hidden=st.booleans(), groups=st.booleans(), sizes=st.lists(st.integers(1, 5)), data=st.data()
    )
    @example(given=(NEIGHBOURS, [], []), hidden=True, groups=True, sizes=[1] * 30, data=None)
    @example(given=(["/a-x", "/a.x"], ["/a/b"], []), hidden=True, groups=True, sizes=[1] * 30, data=None)
    @example(given=(["/a-x", "/a/b", "/a"], [], ["/a/b"]), hidden=True, groups=True, sizes=[1] * 30, data=None)
    def test_cursors(
        self, kind: str, folder: str, given: Any, hidden: bool, groups: bool, sizes: list[int], data: Any
    ) -> None:
        listing, names = listing_of(given, kind, folder), all_of(given)
        path = "/" if data is None else some_paths(names, data)
        wanted = visible(names, path, hidden=hidden, groups=groups)
        cursor = KeyCursor(listing, path, ATTRIBUTES if hidden else None, groups)
        found = []
        for size in sizes:
            batch = cursor.take(size)
            found += batch
            assert len(batch) >= size or found == wanted
        if len(sizes) % 2:
            assert cursor.count_rest() == len(wanted) - len(found)
            assert found == wanted[: len(found)]
        else:
            assert found + cursor.take(-1) == wanted
        assert cursor.take(3) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_table(kind: str, folder: str) -> None:
    names = [f"/g{n % 97}/leaf{n}" for n in range(30_000)]
    table = table_of(names, kind, folder)
    listing = KeyListing(table)
    assert all(names[n] in table for n in range(0, 30_000, 97))
    assert not any(names[n] + "x" in table for n in range(0, 30_000, 97))
    assert listing.children("/")[0] == sorted(f"g{n}" for n in range(97))
    assert listing.children("/g5")[1] == sorted(f"leaf{n}" for n in range(5, 30_000, 97))
    assert listing.tree_count("/", ATTRIBUTES) == 30_097
    assert listing.below() == sorted(names)


@pytest.mark.parametrize("key", ["", "a", "/", "//", "/\ud800", "/a/", "/A"])
@pytest.mark.parametrize("kind", KINDS)
def test_keys_that_are_not_there(kind: str, key: str, folder: str) -> None:
    assert table_of(["/a", "/b/c"], kind, folder).find(key) == -1
    assert table_of([], kind, folder).find(key) == -1


@pytest.mark.parametrize("kind", KINDS)
def test_nothing(kind: str, folder: str) -> None:
    listing = KeyListing(table_of([], kind, folder))
    assert (len(listing), listing.below(), listing.children("/"), listing.common()) == (0, [], ([], []), "/")
    assert list(listing.walk()) == [("", [], [])]
    assert listing.tree_count("/", ATTRIBUTES) == 0
    assert KeyCursor(listing).take(5) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_in_too_many_groups(kind: str, folder: str) -> None:
    listing = KeyListing(table_of(["/b" + "/a" * 300], kind, folder))
    with pytest.raises(FormatError, match="more than 256 groups"):
        KeyCursor(listing, groups=True).take(-1)
    with pytest.raises(FormatError, match="more than 256 groups"):
        list(listing.walk())
    assert KeyCursor(listing).take(-1) == ["/b" + "/a" * 300]


def test_a_key_must_be_a_string_and_start_with_a_slash() -> None:
    with pytest.raises(TypeError):
        KeyTable.of_keys(["/a"]).find(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="starts with"):
        KeyTable.of_keys(["a"])
    assert "/é" in KeyTable.of_keys(["/é"])
    assert "/e\u0301" not in KeyTable.of_keys(["/é"])


def test_of_equal_keys_the_last_counts() -> None:
    table = KeyTable.of_keys(["/a", "/b", "/a"])
    assert (len(table), table.find("/a"), table.find("/b")) == (2, 2, 1)


# ---------------------------------------------------------------------- archives that others wrote
def table_of_members(members: list[tuple[str, bytes]], skipped: tuple[bytes, ...] = ()) -> KeyTable:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in members:
            z.writestr(name, data)
    return KeyTable.of_archive(Archive(Source.of_buffer(out.getvalue())), SUFFIXES, skipped)


def member_of(table: KeyTable, key: str) -> str:
    assert table.archive is not None
    return table.archive.name_at(table.find(key))


def test_suffixes_are_cut_once() -> None:
    table = table_of_members([(name, FRAME) for name in ("a.b2nd", "d/a.b.c.b2f", "d/.b2nd", "x..b2b", "d/e.f/g.b2nd")])
    # A name that begins with its only dot has no suffix: a file with an unknown suffix, which is a frame.
    assert KeyListing(table).below() == ["/a", "/d/.b2nd", "/d/a.b.c", "/d/e.f/g", "/x."]
    assert table.unknown_suffixes == ["/d/.b2nd"]
    assert not table.regular


def test_members_with_unknown_suffixes_count_when_they_are_frames() -> None:
    table = table_of_members(
        [("a.txt", b"text"), ("b.unknown", FRAME), ("c", FRAME), ("d.b2nd", b"damaged"), ("e", b"")]
    )
    assert KeyListing(table).below() == ["/b", "/c", "/d"]
    assert table.unknown_suffixes == ["/b", "/c"]
    assert not table.regular


def test_of_two_members_for_a_key_the_suffix_decides() -> None:
    members = [("a.b2b", FRAME), ("a.b2nd", FRAME), ("a.b2f", FRAME), ("b.unknown", FRAME), ("b.b2b", FRAME)]
    for order in (members, members[::-1]):
        table = table_of_members(order)
        archive = table.archive
        assert archive is not None
        assert member_of(table, "/a") == "a.b2nd"
        assert member_of(table, "/b") == "b.b2b"
        assert set(table.clashes) == {"/a", "/b"}
        assert {archive.name_at(record) for record in table.shadowed["/a"]} == {"a.b2b", "a.b2f"}
        assert not table.regular


def test_of_equal_names_the_last_counts() -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        table = table_of_members([("a.b2nd", FRAME), ("x.b2nd", FRAME), ("a.b2nd", FRAME + b"last")])
    archive = table.archive
    assert archive is not None
    assert archive.byte_range_at(table.find("/a"))[1] == len(FRAME) + 4
    assert table.clashes == []
    assert table.shadowed == {"/a": [archive.record_offset(0)]}
    assert not table.regular


@pytest.mark.parametrize("part", ["//", "/../", "/./", "\0", "é/../"])
def test_names_that_no_key_may_have(part: str, tmp_path: Path) -> None:
    """A catalog's slots lead to names that were not checked: a look-up that matches one checks it."""
    for before in range(20):
        for after in (1, 9):
            key = f"/{'p' * before}{part}{'q' * after}"
            table = table_of(["/a", key], "catalog", str(tmp_path))
            with pytest.raises(FormatError, match=r"empty, '\.' or '\.\.' segment or a NUL"):
                table.find(key)


def test_names_of_every_length(tmp_path: Path) -> None:
    for filler in ("k", ".k", "k/", "é", "\\"):
        keys = ["/" + (filler * n)[:n] for n in range(1, 40)]
        keys = [key for key in keys if not key.endswith(("/", "."))]
        table = table_of(keys, "catalog", str(tmp_path))
        for key in keys:
            assert member_of(table, key).startswith(key[1:] + ".b2")
            assert table.find(key + "x") == table.find(key + ".") == table.find(key[:-1] + "?") == -1
        assert table.cataloged


def test_names_that_are_skipped(tmp_path: Path) -> None:
    table = table_of(["/embed", "/e", "/.b3"], "catalog", str(tmp_path))
    with pytest.raises(ValueError, match="a suffix is a dot and what follows it"):
        KeyTable.of_archive(table.archive, (b"b2nd",))  # type: ignore[arg-type]
    skipping = KeyTable.of_archive(table.archive, SUFFIXES, (*SKIPPED, b"embed.b2nd"))  # type: ignore[arg-type]
    assert skipping.find("/embed") == -1
    assert table.find("/embed") >= 0


def test_skipped() -> None:
    members = [("embed.b2e", FRAME), (".b2/catalog", FRAME), ("d/embed.b2e", FRAME), ("x.b2nd", FRAME), ("d/", b"")]
    table = table_of_members(members, (b"embed.b2e", b".b2/"))
    assert {key: member_of(table, key) for key in KeyListing(table).below()} == {
        "/d/embed": "d/embed.b2e",
        "/x": "x.b2nd",
    }


def test_names_in_cp437() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name in ("Z1.b2nd", "Z2.b2nd", "b.b2nd", "Z1.b2f", "c.unknown"):
            z.writestr(name, FRAME)
    data = out.getvalue().replace(b"Z1", b"\x82\x81").replace(b"Z2", b"\x81a")  # é, ü and a
    table = KeyTable.of_archive(Archive(Source.of_buffer(data)), SUFFIXES, SKIPPED)
    assert KeyListing(table).below() == ["/b", "/c", "/éü", "/üa"]
    assert table.clashes == ["/éü"]
    assert member_of(table, "/éü") == "éü.b2nd"
    assert not table.regular


def test_groups_come_in_the_order_of_their_names() -> None:
    listing = KeyListing(KeyTable.of_keys(["/a/x", "/a./x", "/a-/x", "/a.", "/a"]))
    assert listing.children("/") == (["a", "a-", "a."], ["a", "a."])


@pytest.mark.parametrize("kind", KINDS)
def test_descriptions_of_tables_are_counted(kind: str, tmp_path: Path) -> None:
    """Whether there are any is known without going through all keys."""
    for count in range(3):
        names = ["/a", "/my_meta", "/_meta/x", "/m/_metal", *[("/_meta", "/t/u/_meta")[n] for n in range(count)]]
        table = table_of([name for name in names if name != "/_meta/x" or count == 0], kind, str(tmp_path))
        assert table.tables == (-1 if kind == "memory" else count)
        assert KeyListing(table).named("_meta") == ["/_meta", "/t/u/_meta"][:count]
        added = KeyTable.of_keys(["/new/_meta"])
        assert KeyListing(table, added).named("_meta") == sorted(["/new/_meta", *["/_meta", "/t/u/_meta"][:count]])
