"""What has to be true before a version is published: python packaging/check_release.py [TAG]

The tag is that of the version, the project has an address, and the release notes have a date.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def problems(root: Path, tag: str | None = None) -> list[str]:
    """What is missing in a tree; nothing if it can be released."""
    found = []
    stated = re.search(r'^__version__ = "(.*)"$', (root / "src/blosc2/version.py").read_text("utf-8"), re.MULTILINE)
    version = stated[1] if stated else "?"
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag is {tag}, but src/blosc2/version.py says {version}")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found.append(f"{version} is no version for a release: src/blosc2/version.py")
    urls = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
    for name in ("Source", "Issues"):
        url = urls.get(name, "")
        if not url.startswith("https://") or ".invalid" in url:
            found.append(f"[project.urls] of pyproject.toml has no address for {name}")
    notes = re.search(r"^## (.*)$", (root / "RELEASE_NOTES.md").read_text("utf-8"), re.MULTILINE)
    if not notes or not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", notes[1]):
        found.append(f"RELEASE_NOTES.md does not begin with '## {version} (YEAR-MONTH-DAY)'")
    return found


def main() -> None:
    found = problems(ROOT, sys.argv[1] if len(sys.argv) > 1 else None)
    for problem in found:
        print(f"not ready: {problem}", file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
