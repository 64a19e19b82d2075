"""The site builds without warnings; axe finds nothing on its pages, and none is wider than a phone."""

from __future__ import annotations

import contextlib
import functools
import http.server
import importlib.util
import inspect
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXTRA = ("sphinx", "myst_nb", "pydata_sphinx_theme", "sphinx_gallery", "sphinx_design", "sphinx_copybutton")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Pages of each kind.
KINDS = [
    "index", "start", "guide/index", "guide/stores", "guide/lists", "reference/index", "reference/stores",
    "reference/parameters", "reference/package", "coming-from/compatibility", "coming-from/h5py", "glossary",
    "which-format", "design/README", "design/architecture", "search", "genindex", "tutorial", "guide/cold", "examples",
    "names", "support", "more", "release-notes",
]  # fmt: skip

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in EXTRA), reason="the extra `docs` is not installed"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site: the one that BLOSC2_SITE names, or one made now without the gallery and the notebooks."""
    if given := os.environ.get("BLOSC2_SITE"):
        return Path(given)
    folder = tmp_path_factory.mktemp("site")
    # A copy, because generated pages lie beside the others.
    shutil.copytree(
        ROOT / "doc",
        folder / "doc",
        ignore=shutil.ignore_patterns("gallery", "notebooks", "examples.md", "__pycache__"),
    )
    for name in ("README.md", "CONTRIBUTING.md", "RELEASE_NOTES.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    for name in ("src", "bench", "tests", "LICENSES"):
        (folder / name).symlink_to(ROOT / name)
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-b", "html"]
    options = ["-D", "nb_execution_mode=off"]
    done = subprocess.run(
        [*build, *options, folder / "doc", folder / "site"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_anchors(site: Path) -> None:
    """Sphinx checks links between pages; this also checks where in a page they lead."""
    ids: dict[Path, set[str]] = {}
    pages = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    for page in pages:
        ids[page.resolve()] = set(re.findall(r'\bid="([^"]+)"', page.read_text("utf-8")))
    checked, broken = 0, []
    for page in pages:
        for link in re.findall(r'href="([^"]+)"', page.read_text("utf-8")):
            target, _, fragment = link.partition("#")
            if ":" in target or not (target + fragment) or target.endswith((".css", ".js")):
                continue
            there = (page.parent / unquote(target.partition("?")[0])).resolve() if target else page.resolve()
            checked += 1
            if not there.exists() or (fragment and there in ids and unquote(fragment) not in ids[there]):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert checked > 1000
    assert not broken, "\n".join(broken)


FOLLOWED = re.compile(r'<a class="reference external" href="https://[^"]+">')


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    """It can be read without a network. Links that a reader may follow are listed in `test_pages.EXTERNAL`."""
    found = {
        f"{page.relative_to(site)}: {address}"
        for page in sorted(site.rglob("*.html"))
        if "_static" not in page.parts
        for address in re.findall(r'(?:href|src)="((?:https?:)?//[^"]+)"', FOLLOWED.sub("", page.read_text("utf-8")))
    }
    assert not found, "\n".join(sorted(found))


def test_every_public_name_can_be_linked_to(site: Path) -> None:
    from sphinx.util.inventory import InventoryFile

    import blosc2

    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    found = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    assert not {f"blosc2.{name}" for name in blosc2.__all__} - found


# An object that a page describes, up to the next one; and what a docstring says that raises.
DESCRIBED = re.compile(r'<dt [^>]*id="blosc2\.([\w.]+)">(.*?)(?=<dt [^>]*id="|\Z)', re.DOTALL)
RAISES = re.compile(r"^Raises\n-+\n(.*?)(?=\n\n[A-Z][A-Za-z ]+\n-+\n|\Z)", re.MULTILINE | re.DOTALL)


def test_every_error_of_a_docstring_is_shown(site: Path) -> None:
    """Also where a line of "Raises" names several."""
    import blosc2

    with contextlib.suppress(ImportError):
        import blosc2.torch
    checked, missing = 0, []
    for page in sorted((site / "reference").glob("*.html")):
        for name, shown in DESCRIBED.findall(page.read_text("utf-8")):
            value: Any = functools.reduce(lambda found, part: getattr(found, part, None), name.split("."), blosc2)
            for section in RAISES.findall(inspect.getdoc(value) or ""):
                named = re.findall(
                    r"\w+(?=,|$)", " ".join(re.findall(r"^\S.*", section, re.MULTILINE)).replace(" ", ", ")
                )
                text = shown.partition("Raises<")[2]
                checked += len(named)
                missing += [f"{name}: {one}" for one in named if f"<strong>{one}</strong>" not in text]
    assert checked > 200
    assert not missing, "\n".join(missing)


def test_properties_are_described(site: Path) -> None:
    page = (site / "reference" / "ndarray.html").read_text("utf-8")
    assert "Bytes of the items, without padding." in page


def test_it_can_be_searched(site: Path) -> None:
    index = (site / "searchindex.js").read_text("utf-8")
    assert "TreeStore" in index
    assert "guide/stores" in index


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_everyone_can_read_it(browser: Any, address: str, site: Path, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    found = []
    names = [name for name in KINDS if (site / f"{name}.html").exists()]
    assert len(names) > len(KINDS) // 2
    for name in names:
        page.goto(f"{address}/{name}.html")
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        for violation in axe.Axe().run(page).response["violations"]:
            found += [f"{name}: {violation['id']}: {node['target']}" for node in violation["nodes"]]
        if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.append(f"{name}: the page scrolls sideways")
    context.close()
    assert not found, "\n".join(found)
