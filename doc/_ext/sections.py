"""Sections list their pages by patterns, so that a new page needs no entry. A section may have none yet."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

TOCTREE = re.compile(r"^```\{toctree\}\n(?P<options>(?::[^\n]*\n)*):glob:\n(?P<rest>.*?)^```", re.MULTILINE | re.DOTALL)


def drop_what_matches_nothing(app: Sphinx, page: str, source: list[str]) -> None:
    """Take patterns without pages out of a toctree, which would give a warning that has no name to allow it by."""
    own = Path(app.srcdir) / (page + ".md")

    def left(found: re.Match[str]) -> str:
        lines = found[0].split("\n")
        return "\n".join(
            line for line in lines if "*" not in line or any(other != own for other in own.parent.glob(line + ".md"))
        )

    source[0] = TOCTREE.sub(left, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", drop_what_matches_nothing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
