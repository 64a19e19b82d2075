"""Sets of keys by their hashes, against Python's sets."""

from __future__ import annotations

import random
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from blosc2._backends import new_key
from blosc2._core.keys.key_admission import AGAIN, LIKE_ANOTHER, NEW, UNKNOWN, KeyAdmission, KeySet, same_folded
from blosc2._core.keys.keytable import KeyTable

# "ß" folds to two letters, the long s and the Kelvin sign to ASCII ones, the dotted I to two characters, and two
# sigmas to one. An accent may be a letter's own, or follow it.
letters = st.text("aAbBzZ/-eE\u0301\u0323éÉßẞ\u017f\u212a\u0130\u03c2\u03c3日", min_size=1, max_size=6)
keys = letters.map(lambda text: "/" + text)
long_keys = st.tuples(keys, st.integers(500, 520)).map(lambda pair: pair[0] + "X" * pair[1])


def same(key: str) -> str:
    """What keys have in common that some file system takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", key).casefold())


@given(st.lists(keys))
def test_add(given: list[str]) -> None:
    found, known = KeySet(), set[str]()
    for key in given:
        assert (key in found) == (key in known)
        assert found.add(key) == (key in known)
        known.add(key)
        assert len(found) == len(known)
    assert all(key in found for key in given)


@given(st.lists(keys | long_keys))
def test_add_folded(given: list[str]) -> None:
    found, known = KeySet(), set[str]()
    for key in given:
        assert found.add_folded(key) == (same(key) in known)
        known.add(same(key))
        assert found.add_folded(key.lower() if key.isascii() else key.casefold())
        assert len(found) == len(known)


@given(st.lists(keys | long_keys), keys | long_keys)
def test_same_folded(given: list[str], key: str) -> None:
    assert same_folded(given, key) == [other for other in given if same(other) == same(key)]


@given(st.lists(st.lists(st.sampled_from(["a", "b", "é"]), min_size=1, max_size=4)))
def test_add_groups(given: list[list[str]]) -> None:
    found, known = KeySet(), set[str]()
    for parts in given:
        found.add_groups("/" + "/".join(parts))
        known |= {"/" + "/".join(parts[:i]) for i in range(1, len(parts))}
        assert len(found) == len(known)
    assert all(group in found for group in known)


def test_many() -> None:
    found = KeySet()
    assert not any(found.add(f"/group/{n}") for n in range(100_000))
    assert all(found.add(f"/group/{n}") for n in range(0, 100_000, 101))
    assert len(found) == 100_000
    assert "/group/100000" not in found


def test_it_takes_note_of_so_many_and_no_more() -> None:
    found = KeySet(3)
    assert [found.add(key) for key in ("/a", "/b", "/c", "/d", "/d", "/a")] == [False] * 5 + [True]
    assert len(found) == 3
    assert "/d" not in found


def test_a_table_is_noted_like_its_keys() -> None:
    rng = random.Random(5)
    letters = "abcxyzABCXYZ0129_-@[`{.\x7fé\u0130ß"
    keys = {"/" + "".join(rng.choices(letters, k=rng.randrange(1, 40))) for _ in range(3000)}
    keys |= {"/a.b2nd/x", "/a.b2", "/" + "K" * 600, "/" + "ab/" * 200 + "c.b2f/d", "/@AZ[`az{", "/" + "é" * 300}
    lower: dict[str, str] = {}
    for key in keys:
        lower.setdefault(same(key), key)
    one, other = KeySet(), KeySet()
    found = one.add_table(KeyTable.of_keys(list(lower.values())))
    assert set(found) == {key for key in lower.values() if ".b2" in key}
    assert len(one) == len(lower)
    for key in keys:
        assert one.add_folded(key)
        other.add_folded(key)
    assert len(one) == len(other) == len(lower)
    assert not one.add_folded("/something else")


def test_groups_of_a_table() -> None:
    keys = ["/a", "/b/c", "/b/d/é/f", "/g/h", "/g/i"]
    groups = KeySet()
    assert groups.add_groups_of(KeyTable.of_keys(keys))
    assert len(groups) == 4
    assert all(group in groups for group in ("/b", "/b/d", "/b/d/é", "/g"))
    assert not any(key in groups for key in keys)


def test_what_is_admitted_at_once_is_a_key_of_files_everywhere() -> None:
    """All that the native look at a key lets pass is legal by the rules in Python, and no name of the store's own."""
    characters = [chr(code) for code in range(128)]
    names = [form.format(c) for c in characters for form in ("{}", "{}a", "a{}", "a{}b", "com{}", "con{}x")]
    names += [a + b for a in characters for b in characters]
    names += [
        stem + end for stem in ("con", "PRN", "aux", "nul", "com1", "LPT9", "conin", "com", "x")
        for end in ("", ".", ".x", " ", " .x", " x", "$", "_", "-", "/a", " /a", ".b2nd/a", ".B2f/a")
    ]  # fmt: skip
    admitted = 0
    for name in names:
        for key in ("/" + name, f"/group/{name}", f"/{name}/key"):
            admission = KeyAdmission("embed.b2e")
            admission.alone = True
            if admission.admit(key) != UNKNOWN:
                admitted += 1
                assert new_key(key) == key
                assert ".b2" not in key.lower()
                assert not any(segment in ("__vlmeta__", "_meta") for segment in key.split("/"))
    assert admitted > 3 * 7000


@given(st.lists(st.text(st.sampled_from("aAbB/é.0"), min_size=1, max_size=4).map(lambda text: "/" + text), max_size=40))
def test_keys_are_admitted_as_a_dictionary_of_them_says(given: list[str]) -> None:
    admission = KeyAdmission("reserved")
    admission.alone = True
    seen: dict[str, str] = {}
    for key in given:
        found = admission.admit(key)
        like = seen.get(same(key))
        if found == UNKNOWN:  # whoever asked decides, and takes note of it
            again = admission.leaves.add(key)
            assert again == (key in seen.values())
            if not again:
                assert admission.add_folded(key) == (like is not None)
        else:
            assert found == (NEW if like is None else AGAIN if like == key else LIKE_ANOTHER)
        if like is not None and like != key:
            return  # such a key ends the call
        seen[same(key)] = key
