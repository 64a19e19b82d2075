"""The code in README.md, doc/ and the docstrings runs as it stands, and the links between files lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import page_kit
import pytest

import blosc2

ROOT = Path(__file__).resolve().parents[2]
# What Sphinx makes beside the pages is not looked at.
GENERATED = [ROOT / "doc" / name for name in ("gallery", "notebooks", "examples.md")]
PAGES = [
    path
    for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "doc").rglob("*.md")))
    if not {path, *path.parents} & set(GENERATED)
]
# The blocks of these are run by tests of their own: they need other libraries, or raise errors.
RUN_ELSEWHERE = (
    "doc/coming-from/h5py.md", "doc/coming-from/zarr.md", "doc/guide/dask.md", "doc/guide/recipes.md",
    "doc/guide/xarray.md", "doc/reference/exceptions.md",
)  # fmt: skip

FOUND = {found.name for found in pkgutil.walk_packages(blosc2.__path__, "blosc2.")}
#: Without torch, modules of its package are not found.
LOADERS = {f"blosc2.torch.{path.stem}" for path in (ROOT / "src/blosc2/torch").glob("[!_]*.py")}
MODULES = ["blosc2", *sorted(FOUND | LOADERS)]


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


WITH_CODE = [
    page for page in PAGES if page_kit.blocks(page.read_text("utf-8")) and page_name(page) not in RUN_ELSEWHERE
]


@pytest.mark.parametrize("page", WITH_CODE, ids=page_name)
def test_code(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of a page runs, and prints what the page says. `python tests/page_kit.py` writes what it prints anew."""
    try:
        page_kit.check(page, monkeypatch, tmp_path)
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is an extra")


@pytest.mark.parametrize("page", page_kit.pages_with_answers(), ids=page_name)
def test_each_block_shows_what_it_prints(page: Path) -> None:
    silent = [block.code for block in page_kit.blocks(page.read_text("utf-8")) if block.answer is None]
    assert not silent, silent


def test_what_varies_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    block = "```python\nfor line in {lines}:\n    print(line)\n[4]\n```\n\n```output\n{answer}\n[4]\n```\n"
    for printed, answer in (("1.5 ms", "20 ms"), ("<a at 0x7f>", "<a at 0x12>"), ("4 KiB  ", "4 KiB")):
        page.write_text(block.format(lines=[printed], answer=answer), "utf-8")
        page_kit.check(page, monkeypatch, tmp_path)
    for printed, answer in (("4 KiB", "5 KiB"), ("1.5 ms", "1.5 us"), ("1.5", "1.6"), ("a", "a\nb")):
        page.write_text(block.format(lines=[printed], answer=answer), "utf-8")
        with pytest.raises(AssertionError):
            page_kit.check(page, monkeypatch, tmp_path)


def test_answers_are_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```python\na = 5\na + 1\n```\n\nText.\n\n```python\na = None\n```\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    assert page_kit.rewrite(page)
    assert "a + 1\n```\n\n```output\n6\n```\n\nText.\n\n```python\na = None\n```\n" in page.read_text("utf-8")
    assert not page_kit.rewrite(page)


def test_pages_with_code_are_found() -> None:
    assert {"README.md", "doc/start.md"} <= set(map(page_name, WITH_CODE))


def anchors(page: Path) -> set[str]:
    """The fragments that the headings of a page can be linked by."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
            if "://" in link:
                continue
            target, _, fragment = link.partition("#")
            linked = page.parent / target if target else page
            # Pages that the site generates are there only after it was built.
            assert linked in GENERATED or linked.exists(), f"{page}: {link}"
            assert not fragment or fragment in anchors(linked), f"{page}: {link}"


def test_named_files_and_tests_exist() -> None:
    named = {"test_count"}  # the example of CONTRIBUTING.md
    for path in (ROOT / "tests").rglob("*.py"):
        named.update(re.findall(r"def (test_\w+)\(", path.read_text("utf-8")))
    for page in PAGES:
        text = page.read_text("utf-8")
        for name in re.findall(r"`((?:tests|bench|doc|src)/[\w./-]+)`", text):
            assert (ROOT / name).exists(), f"{page}: {name}"
        assert named.issuperset(re.findall(r"`(test_\w+)`", text)), page


def test_the_index_of_design_notes_lists_each() -> None:
    index = ROOT / "doc" / "design" / "README.md"
    links = re.findall(r"^\* \[[^]]+\]\(([^)#]+\.md)\): \w", index.read_text("utf-8"), re.MULTILINE)
    assert sorted(links) == sorted(path.name for path in index.parent.glob("*.md") if path != index)


def test_where_to_look_exists() -> None:
    page = (ROOT / "doc" / "design" / "architecture.md").read_text("utf-8")
    rows = page.partition("### Where to look\n")[2].partition("\n### ")[0]
    modules = [name for row in rows.splitlines() for name in re.findall(r"`([\w/]+)`", row.rpartition(" | ")[2])]
    assert len(modules) > 10
    for module in modules:
        assert list((ROOT / "src" / "blosc2").glob(f"{module}.p[xy]*")), module


def test_commands_are_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for name in ("demo", "tests"):
        assert re.search(rf"^<!-- command: {name} -->\n```sh\n[^\n]+\n```$", text, re.MULTILINE)


#: Modules that import what an extra brings, and what the examples of others import.
WITH_EXTRAS = (
    "blosc2._files.remote.http", "blosc2._tools.converting.", "blosc2._tools.integrations.", "blosc2._tools.viewer.",
    "blosc2.torch",
)  # fmt: skip
EXAMPLES_NEED = {"blosc2._tools.integrations.writing": ("dask", "xarray")}


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not name.startswith(WITH_EXTRAS) or str(error.name).startswith("blosc2"):
            raise
        pytest.skip(f"{error.name} is an extra")
    for needed in EXAMPLES_NEED.get(name, ()):
        pytest.importorskip(needed, reason="an extra")
    assert doctest.testmod(module, optionflags=flags).failed == 0
