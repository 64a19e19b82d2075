"""What axe finds in pages of the theme, mended when they are built, so that it holds without scripts, too."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

MENDED = {
    # The corner of a table whose rows have names is no header.
    '<th class="head"><p></p></th>': '<td class="head"></td>',
    '<th class="head stub"><p></p></th>': '<td class="head"></td>',
    # The arrow that opens a section of the sidebar has no text.
    '<summary><span class="toctree-toggle"': '<summary aria-label="Pages of this section"><span class="toctree-toggle"',
}


def mend(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = mended = path.read_text("utf-8")
        for old, new in MENDED.items():
            mended = mended.replace(old, new)
        if mended != text:
            path.write_text(mended, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
