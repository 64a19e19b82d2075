"""Links that work in the repository work on the site, too.

Pages link to files by relative paths, as forges show them. A link to a file outside doc/ leads to the repository, whose
address is ``source_base_url``; without one it is shown as code. A link to a folder of pages leads to its first page.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

LOG = logging.getLogger(__name__)


class SourceLinks(SphinxTransform):
    """Runs before Sphinx collects what is to be downloaded."""

    default_priority = 5

    def apply(self) -> None:
        root = Path(self.app.srcdir)
        for kind in (addnodes.download_reference, addnodes.pending_xref):
            for node in list(self.document.findall(kind)):
                target = node.get("reftarget", "")
                if node.get("reftype") != "myst" or not target or target.startswith("#"):
                    continue
                if kind is addnodes.pending_xref and node.get("refdomain") == "doc":
                    continue
                path, _, fragment = target.partition("#")
                # What a link without a page means for MyST is decided there.
                there = (root / self.env.docname).parent / path
                if there.exists():
                    self.replace(node, there.resolve(), fragment)

    def replace(self, node: nodes.Element, there: Path, fragment: str) -> None:
        root = Path(self.app.srcdir).resolve()
        first = [there / name for name in ("index.md", "README.md") if (there / name).is_file()]
        if there.is_relative_to(root) and (first or there == root):
            node.replace_self(self.page(node, first[0].relative_to(root).with_suffix("").as_posix()))
            return
        if not there.is_relative_to(root.parent):
            LOG.warning("a link leads out of the repository: %s", node["reftarget"], location=node)
            return
        base = self.config.source_base_url
        children = [child.deepcopy() for child in node.children]
        if base:
            address = base.rstrip("/") + "/" + there.relative_to(root.parent).as_posix()
            node.replace_self(nodes.reference("", "", *children, refuri=address + ("#" + fragment if fragment else "")))
        else:
            node.replace_self(nodes.literal("", node.astext()))

    def page(self, node: nodes.Element, name: str) -> addnodes.pending_xref:
        options = {
            "refdomain": "std",
            "reftype": "doc",
            "reftarget": "/" + name,
            "refdoc": self.env.docname,
            "refexplicit": True,
        }
        return addnodes.pending_xref("", nodes.inline("", node.astext()), **options)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("source_base_url", "", "env")
    app.add_transform(SourceLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
