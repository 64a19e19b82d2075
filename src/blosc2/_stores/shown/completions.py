"""Keys for the completion of IPython and of notebooks, which is asked for behind ``store["``."""

from __future__ import annotations

import re
import sys
from typing import Any

from blosc2._core.io.sharing import item_of
from blosc2._stores.shown.summary import children_of
from blosc2.exceptions import FormatError

#: More keys than this are of no use to a person.
MOST = 500

# What was typed of a string behind the last bracket.
_TYPED = re.compile(r"""\[\s*(?:"([^"\\]*)|'([^'\\]*))$""")


def completions(store: Any) -> list[str]:
    """Keys that go on from what was typed; from the root if that is not known.

    Groups are given too, and so is what is in them as long as that is not much, so that a path can be typed level by
    level.
    """
    if store.closed:
        return []
    typed = _typed() or ""
    group = typed.rpartition("/")[0]
    slash = "" if typed and not typed.startswith("/") else "/"
    found: list[str] = []
    try:
        groups = [f"/{group.strip('/')}" if group.strip("/") else ""]
        while groups and len(found) < MOST:
            inner = []
            for path in groups:
                names, leaves = children_of(store, store._prefix + path, MOST - len(found))
                found += [f"{path}/{name}" for name in dict.fromkeys(sorted(names + leaves))]
                inner += [f"{path}/{name}" for name in names]
                if len(found) >= MOST:
                    break
            groups = inner
    except (OSError, FormatError):
        return []  # the next access tells what is wrong
    return [key if slash else key[1:] for key in found[:MOST]]


def _typed() -> str | None:
    """The half-typed key, as IPython knows it; None outside of IPython."""
    module = item_of(sys.modules, "IPython")
    shell = None if module is None else module.get_ipython()
    text = getattr(getattr(shell, "Completer", None), "text_until_cursor", None)
    match = _TYPED.search(text) if isinstance(text, str) else None
    return None if match is None else match[1] or match[2] or ""
