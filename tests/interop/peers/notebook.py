"""Run the cells of a notebook one after the other: ``python notebook.py FILE``; what fails is printed as JSON."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from pathlib import Path
from typing import Any


def _without_magic(lines: list[str]) -> str:
    found = []
    for line in lines:
        line = re.sub(r"^(\s*)%time(it)?\s+(-\S+\s+\d*\s*)*", r"\1", line)
        if not re.match(r"\s*[%!]", line):
            found.append(line)
    return "".join(found)


def main(path: str) -> None:
    """Run all code cells in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    ran, failed = 0, []
    for number, cell in enumerate(json.loads(Path(path).read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] != "code":
            continue
        ran += 1
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(_without_magic(cell["source"]), f"cell {number}", "exec"), names)
        except Exception as error:  # noqa: BLE001 - whatever a cell raises
            failed.append(f"cell {number}: {type(error).__name__}: {error}")
    json.dump({"cells": ran, "failed": failed}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
