"""Notebooks lie in examples/notebooks, beside the scripts; Sphinx reads them from doc/notebooks, which is made here."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

from sphinx.application import Sphinx

GALLERY = """\
# Gallery

What can be done with arrays in files. Each picture leads to the script that makes it, which runs as it stands
where matplotlib is installed, and for some scikit-image; the scripts and notebooks can be downloaded from their pages.
"""


def copy(app: Sphinx) -> None:
    """Copy what has changed, and take away what is gone, so that a page is read again only where it must be."""
    root = Path(app.srcdir)
    source, target = root.parent / "examples" / "notebooks", root / "notebooks"
    wanted = {path.name for path in source.glob("*.ipynb")}
    for path in target.glob("*.ipynb"):
        if path.name not in wanted:
            path.unlink()
    for name in wanted:
        target.mkdir(exist_ok=True)
        if not (target / name).exists() or (target / name).read_bytes() != (source / name).read_bytes():
            shutil.copyfile(source / name, target / name)


def card(script: Path) -> list[str]:
    """The picture and the title of a script, which lead to its page."""
    title = (ast.get_docstring(ast.parse(script.read_text("utf-8"))) or script.stem).partition("\n")[0]
    return [
        f":::{{grid-item-card}} {title}",
        f":img-top: gallery/images/thumb/sphx_glr_{script.stem}_thumb.png",
        f':img-alt: What the script "{title}" shows',
        f":link: gallery/{script.stem}",
        ":link-type: doc",
        ":::",
    ]


def gallery_page(app: Sphinx) -> None:
    """The page that shows them all at once; without scripts there is no generated index to list."""
    root = Path(app.srcdir)
    lines = GALLERY.splitlines()
    entries = []
    if "sphinx_gallery.gen_gallery" in app.extensions:
        entries.append("gallery/index")
        scripts = sorted((root.parent / "examples").glob("plot_*.py"))
        lines += [
            "",
            "::::{grid} 1 2 3 3",
            ":gutter: 3",
            "",
            *(line for script in scripts for line in card(script)),
            "::::",
        ]
    entries += [f"notebooks/{path.stem}" for path in sorted((root / "notebooks").glob("*.ipynb"))]
    if entries:
        lines += ["", "```{toctree}", ":maxdepth: 1", "", *entries, "```"]
    else:
        lines += ["", "The scripts are in the folder `examples` of the source."]
    text = "\n".join(lines) + "\n"
    page = root / "examples.md"
    if not page.exists() or page.read_text("utf-8") != text:
        page.write_text(text, "utf-8")


def before(app: Sphinx) -> None:
    copy(app)
    gallery_page(app)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", before, priority=10)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
