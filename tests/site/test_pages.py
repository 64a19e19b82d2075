"""The pages of doc/: each is in a table of contents, and those of the guide are short."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

DOC = Path(__file__).resolve().parents[2] / "doc"
GENERATED = ("_ext", "_static", "_templates", "gallery", "notebooks")
PAGES = [
    path
    for path in sorted(DOC.rglob("*.md"))
    if path.relative_to(DOC).parts[0] not in GENERATED and path != DOC / "examples.md"
]
WORDS_A_MINUTE = 225
MINUTES = 5
#: Beside those of the guide.
SHORT = (
    "index.md", "more.md", "names.md", "scope.md", "start.md", "support.md", "tutorial.md", "versions.md",
    "which-format.md",
)  # fmt: skip


def name_of(path: Path) -> str:
    return path.relative_to(DOC).as_posix()


def minutes(text: str) -> float:
    """How long a page takes to read. Tables and code are looked at, not read: half of their words count."""
    text = re.sub(r"\A---\n.*?^---\n|<!--.*?-->", "", text, flags=re.DOTALL | re.MULTILINE)
    code = re.findall(r"^(?:```|~~~).*?^(?:```|~~~)", text, re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?:```|~~~).*?^(?:```|~~~)", "", text, flags=re.DOTALL | re.MULTILINE)
    tables = [line for line in text.splitlines() if line.startswith("|")]
    prose = [line for line in text.splitlines() if not line.startswith("|")]
    return (words("\n".join(prose)) + words("\n".join(code + tables)) / 2) / WORDS_A_MINUTE


def words(text: str) -> int:
    """Words that are read: what has a letter or a digit, without addresses of links."""
    return len([word for word in re.sub(r"\]\([^)]*\)", "]", text).split() if re.search(r"\w", word)])


def in_the_guide(name: str) -> bool:
    return name in SHORT or name.split("/")[0] in ("guide", "coming-from")


def test_minutes() -> None:
    assert minutes("word " * 225) == 1
    assert minutes("word " * 225 + "\n```python\n" + "word " * 447 + "\n```\n") == pytest.approx(2, abs=0.02)
    assert minutes("| a | b |\n|---|---|\n" + "| one | two |\n" * 224) == 1
    assert minutes("[a word](of/a/page.md#with-words) - —") == pytest.approx(2 / 225)


def test_pages_of_the_guide_are_short() -> None:
    long = {name_of(page): minutes(page.read_text("utf-8")) for page in PAGES if in_the_guide(name_of(page))}
    long |= {page.name: minutes(page.read_text("utf-8")) for page in ROOTS[:1] + ROOTS[2:]}
    long = {name: found for name, found in long.items() if found > MINUTES}
    assert not long, "\n".join(f"{name}: {found:.1f} minutes" for name, found in sorted(long.items()))


GUIDE = sorted(path for path in (DOC / "guide").glob("*.md") if path.name != "index.md")


def test_the_guide_is_in_five_groups() -> None:
    text = (DOC / "guide" / "index.md").read_text("utf-8")
    groups = re.findall(r"^:caption: .*?^```", text, re.DOTALL | re.MULTILINE)
    pages = [re.findall(r"^[\w-]+$", group, re.MULTILINE) for group in groups]
    assert len(groups) == 5
    assert max(map(len, pages)) <= 6
    described = re.findall(r"^\* \[[^]]+\]\(([\w-]+)\.md\): \S.*\.$", text, re.MULTILINE)
    assert described == [name for group in pages for name in group]
    # The recipes are listed where one starts.
    assert sorted([*described, "recipes"]) == [path.stem for path in GUIDE]


#: Where builders work, and what only they can act on.
OF_BUILDERS = re.compile(
    r"\b(?:tests?|bench|src|doc|examples)/|\btest_\w+|design/(?!measurements/[\w-]+\.md\)\s*\Z)|\.ci\b|\bpytest\b"
)


def test_pages_of_the_guide_speak_to_users() -> None:
    """None names a test, a benchmark or a design page. Measurements are behind one link, in the last line."""
    for page in [*GUIDE, DOC / "start.md", DOC / "tutorial.md"]:
        assert not OF_BUILDERS.findall(page.read_text("utf-8")), page


def test_builders_are_noticed() -> None:
    for text in (
        "`tests/x.py` shows",
        "[why](../design/a.md)",
        "see `bench/cold.py`",
        "[a](../design/measurements/a.md)\nmore",
    ):
        assert OF_BUILDERS.search(text), text
    assert not OF_BUILDERS.search("the latest/newest\n[How](../design/measurements/cold.md)\n")


#: Words of the field that a page explains where they first stand: *set off*, or as a link.
TERMS = ("leaf|leaves", "publish(?:es|ed|ing)?", "frames?", "catalogs?", "mapped", "super-chunks?")


def unexplained(text: str) -> list[str]:
    """The terms that a page uses before it explains them."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`|^#.*?$|!\[[^\]]*\]|\]\([^)]*\)", "", text, flags=re.DOTALL | re.MULTILINE)
    firsts = [re.search(rf"(.?)\b({term})\b", text, re.IGNORECASE) for term in TERMS]
    return [first[2] for first in firsts if first and first[1] not in ("*", "[")]


def test_terms_are_explained_where_they_first_stand() -> None:
    assert unexplained("Each leaf is *mapped*. ![a frame](a.svg) `catalog`") == ["leaf"]
    assert not unexplained("A *leaf* is an array. [Published](publishing.md) leaves are published.")
    found = {
        page.name: unexplained(page.read_text("utf-8")) for page in [*GUIDE, DOC / "start.md", DOC / "tutorial.md"]
    }
    assert not {name: terms for name, terms in found.items() if terms}


def test_the_header_has_five_entries() -> None:
    assert len(listed(DOC / "index.md")) == 5


def listed(page: Path) -> set[Path]:
    """The pages in the tables of contents of a page."""
    found = set()
    for options, body in re.findall(
        r"^```\{toctree\}\n((?::[^\n]*\n)*)(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    ):
        for line in filter(None, (line.strip() for line in body.splitlines())):
            target = re.sub(r"^.*<(.+)>$", r"\1", line)
            if ":glob:" in options and "*" in target:
                found |= set(page.parent.glob(target + ".md")) - {page}
            else:
                found.add(page.parent / (target.removesuffix(".md") + ".md"))
    return found


def test_each_page_is_in_a_table_of_contents() -> None:
    reached, to_do = {DOC / "index.md"}, [DOC / "index.md"]
    while to_do:
        new = {path for path in listed(to_do.pop()) if path.exists()} - reached
        reached |= new
        to_do += new
    assert not [name_of(page) for page in PAGES if page not in reached]


# ------------------------------------------------------------------ links to other sites
#: Every address that a page links to. Builds and tests have no network, so nobody asks whether these are there: a
#: person does, with `sphinx-build -b linkcheck`, before a release. Today no page needs one.
EXTERNAL = {
    "https://dask.org",
    "https://filesystem-spec.readthedocs.io",
    "https://fsspec.github.io/kerchunk/",
    "https://xarray.dev",
}
LINK = re.compile(
    r"\]\(\s*<?([a-z][a-z0-9+.-]*:[^)\s>]+)|<([a-z][a-z0-9+.-]*:[^>\s]+)>"
    r"|^\[[^\]]+\]:\s*(\S+)|href=\"([^\"#][^\"]*)\"",
    re.MULTILINE,
)
ROOTS = [DOC.parent / name for name in ("README.md", "CONTRIBUTING.md", "RELEASE_NOTES.md")]


def links_to_sites(text: str) -> set[str]:
    """The addresses with a scheme that a page links to, outside of code."""
    text = re.sub(r"^(?:```|~~~).*?^(?:```|~~~)", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "", text)
    found = {next(filter(None, groups)) for groups in LINK.findall(text)}
    return {address for address in found if ":" in address.partition("/")[0]}


def is_well_formed(address: str) -> bool:
    parts = urlsplit(address)
    host = parts.hostname or ""
    return (
        parts.scheme == "https" and re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", host) is not None and parts.port is None
    )


def test_links_are_found() -> None:
    page = (
        "[a](https://a.example/x_(y)) <https://b.example> `[no](https://no.example)` [in](guide/stores.md) \n"
        '[c]: https://c.example/d\n<a href="http://e.example">\n```\n[no](https://no.example)\n```\n[m](mailto:me@f.example)'
    )
    hosts = {address.split("/")[2] for address in links_to_sites(page) if "//" in address}
    assert hosts == {"a.example", "b.example", "c.example", "e.example"}
    assert "mailto:me@f.example" in links_to_sites(page)
    assert is_well_formed("https://a.example/b#c")
    assert not any(map(is_well_formed, ("http://a.example", "https://a", "https://a..b", "https://a.example:1/")))


def test_links_to_other_sites_are_listed() -> None:
    found = {address: name_of(page) for page in PAGES for address in links_to_sites(page.read_text("utf-8"))}
    found |= {address: page.name for page in ROOTS for address in links_to_sites(page.read_text("utf-8"))}
    assert set(found) == EXTERNAL, found
    assert all(map(is_well_formed, EXTERNAL))
