"""Tables of keys against sorted lists of strings."""

from __future__ import annotations

import io
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blosc2._core.archive import Archive
from blosc2._core.keytable import KeyTable
from blosc2._core.source import Source

FRAME = b"\x9e\xa8b2frame\0" + bytes(100)
SUFFIXES = (b".b2nd", b".b2f", b".b2b")

segments = st.text("abA-. é日\U0001f600", min_size=1, max_size=3).filter(lambda s: s not in (".", ".."))
keys = st.lists(segments, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


def table_of(
    members: list[tuple[str, bytes]], skipped: tuple[bytes, ...] = (), given: tuple[str, ...] = ()
) -> KeyTable:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in members:
            z.writestr(name, data)
    return KeyTable.of_archive(Archive(Source.of_buffer(out.getvalue())), SUFFIXES, skipped, given)


@given(st.lists(keys, unique=True))
def test_find_and_order(names: list[str]) -> None:
    table = KeyTable.of_keys(names)
    assert len(table) == len(names)
    assert [table.find(key) for key in names] == list(range(len(names)))
    assert table.keys_in_order() == sorted(names)
    assert [names[value] for value in table.values_in_order()] == sorted(names)
    for key in names:
        assert table.find(key + "x") == (names.index(key + "x") if key + "x" in names else -1)
        assert key in table


@given(st.lists(keys, unique=True), st.data())
def test_groups(names: list[str], data: st.DataObject) -> None:
    table = KeyTable.of_keys(names)
    groups = {"/"} | {key[:i] for key in names for i, c in enumerate(key) if c == "/" and i}
    group = data.draw(st.sampled_from(sorted(groups)) | keys)
    base = "" if group == "/" else group
    below = sorted(key for key in names if key.startswith(base + "/"))
    start, stop = table.group(group)
    assert table.keys_in_order(start, stop) == below
    rest = [key[len(base) + 1 :] for key in below]
    inner, leaves = table.children(group)
    assert inner == sorted({r.partition("/")[0] for r in rest if "/" in r})
    assert leaves == [r for r in rest if "/" not in r]


@given(st.lists(keys | keys.map(lambda k: k + "/__vlmeta__"), unique=True))
def test_tree(names: list[str]) -> None:
    groups = {key[:i] for key in names for i, c in enumerate(key) if c == "/" and i}
    visible = groups | {key for key in names if not key.endswith("/__vlmeta__")}
    listed = KeyTable.of_keys(names).tree("/", "__vlmeta__")
    assert len(listed) == len(set(listed))
    assert set(listed) == visible
    for group in groups:
        inside = KeyTable.of_keys(names).tree(group, "__vlmeta__")
        assert sorted(inside) == sorted(key for key in visible if key.startswith(group + "/"))


@given(st.lists(keys, unique=True))
def test_named(names: list[str]) -> None:
    table = KeyTable.of_keys(names)
    for name in {key.rpartition("/")[2] for key in names}:
        assert set(table.named(name)) == {key for key in names if key.rpartition("/")[2] == name}


@pytest.mark.parametrize("key", ["", "a", "/", "//", "/\ud800", "/a/", "/A"])
def test_keys_that_are_not_there(key: str) -> None:
    assert KeyTable.of_keys(["/a", "/b/c"]).find(key) == -1
    assert KeyTable.of_keys([]).find(key) == -1


def test_a_key_must_be_a_string_and_start_with_a_slash() -> None:
    with pytest.raises(TypeError):
        KeyTable.of_keys(["/a"]).find(5)
    with pytest.raises(ValueError, match="starts with"):
        KeyTable.of_keys(["a"])
    assert "/é" in KeyTable.of_keys(["/é"])


def test_suffixes_are_cut_once() -> None:
    table = table_of([(name, FRAME) for name in ("a.b2nd", "d/a.b.c.b2f", "d/.b2nd", "x..b2b", "d/e.f/g.b2nd")])
    # A name that begins with its only dot has no suffix: a stranger, which is a frame.
    assert table.keys_in_order() == ["/a", "/d/.b2nd", "/d/a.b.c", "/d/e.f/g", "/x."]
    assert table.strangers == ["/d/.b2nd"]


def test_strangers_count_when_they_are_frames() -> None:
    table = table_of([("a.txt", b"text"), ("b.odd", FRAME), ("c", FRAME), ("d.b2nd", b"damaged"), ("e", b"")])
    assert table.keys_in_order() == ["/b", "/c", "/d"]
    assert table.strangers == ["/b", "/c"]


def test_of_two_members_for_a_key_the_suffix_decides() -> None:
    members = [("a.b2b", FRAME), ("a.b2nd", FRAME), ("a.b2f", FRAME), ("b.odd", FRAME), ("b.b2b", FRAME)]
    for order in (members, members[::-1]):
        table = table_of(order)
        names = [name for name, _ in order]
        assert names[table.find("/a")] == "a.b2nd"
        assert names[table.find("/b")] == "b.b2b"
        assert set(table.clashes) == {"/a", "/b"}
        assert {names[n] for n in table.shadowed["/a"]} == {"a.b2b", "a.b2f"}


def test_of_equal_names_the_last_counts() -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        table = table_of([("a.b2nd", FRAME), ("x.b2nd", FRAME), ("a.b2nd", FRAME)])
    assert table.find("/a") == 2
    assert table.clashes == []
    assert table.shadowed == {"/a": [0]}


def test_skipped_and_given() -> None:
    members = [("embed.b2e", FRAME), (".b2/catalog", FRAME), ("d/embed.b2e", FRAME), ("x.b2nd", FRAME), ("d/", b"")]
    table = table_of(members, (b"embed.b2e", b".b2/"), ("/x", "/y"))
    assert {key: table.find(key) for key in table.keys_in_order()} == {"/d/embed": 2, "/x": 3, "/y": 6}


def test_a_large_table() -> None:
    names = [f"/g{n % 97}/leaf{n}" for n in range(100_000)]
    table = KeyTable.of_keys(names)
    assert all(table.find(names[n]) == n for n in range(0, 100_000, 997))
    assert len(table.children("/")[0]) == 97
    assert len(table.children("/g5")[1]) == len([n for n in range(100_000) if n % 97 == 5])


def test_groups_come_in_the_order_of_their_names() -> None:
    assert KeyTable.of_keys(["/a/x", "/a./x", "/a-/x", "/a.", "/a"]).children("/") == (["a", "a-", "a."], ["a", "a."])
