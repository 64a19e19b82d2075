"""Pictures follow the theme: beside `x-light.svg` stands `x-dark.svg`, if there is one, and each is shown in its theme.

Pages name the light one, which is what forges show.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class BothVersions(SphinxTransform):
    """Runs before Sphinx collects the pictures of a page."""

    default_priority = 5

    def apply(self) -> None:
        here = (Path(self.app.srcdir) / self.env.docname).parent
        for picture in list(self.document.findall(nodes.image)):
            light = picture["uri"]
            dark = light.replace("-light.", "-dark.")
            if dark == light or not (here / dark).is_file():
                continue
            twin = picture.deepcopy()
            twin["uri"] = dark
            picture["classes"].append("only-light")
            twin["classes"].append("only-dark")
            picture.parent.insert(picture.parent.index(picture) + 1, twin)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(BothVersions)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
