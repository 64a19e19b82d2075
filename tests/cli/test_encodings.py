"""What commands print where the encoding of the terminal has few characters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import blosc2

ENVIRONMENTS = {
    "utf-8": {"PYTHONIOENCODING": "utf-8"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "cp437": {"PYTHONIOENCODING": "cp437"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "C": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
}
COMMANDS = (
    "tree s.b2z", "info s.b2z", "ls -r s.b2z", "info s.b2z/gr*", "diff s.b2z t.b2z", "stats s.b2z", "cat s.b2z/a",
    "cat o.b2frame", "check s.b2z", "ls -r --json s.b2z", "info --json s.b2z/gr*", "tree --json s.b2z",
    "stats --json s.b2z", "diff --json s.b2z t.b2z", "show line.b2nd", "show --colour eye.b2nd",
)  # fmt: skip
_PROGRAM = """
import sys
from blosc2._tools.cli import main
for command in sys.argv[1:]:
    code = main(command.split())
    assert code == command.startswith("diff"), command
    print("\\x1e", end="")
"""


class Printed(NamedTuple):
    """What each command prints, and the encoding of the terminal."""

    encoding: str
    of: dict[str, str]

    def shown(self, text: str) -> str:
        """A text with what stands for characters that the encoding does not have."""
        for one, other in zip("├└│─", "|`|-", strict=True):
            text = text.replace(one, one if self.has(one) else other)
        return text.encode(self.encoding, "backslashreplace").decode(self.encoding)

    def has(self, character: str) -> bool:
        return character.encode(self.encoding, "ignore") != b""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stores with names and attributes in several scripts, which differ, a list, and pictures."""
    folder = tmp_path_factory.mktemp("encodings")
    for name, count in (("s.b2z", 6), ("t.b2z", 7)):
        with blosc2.TreeStore(str(folder / name), mode="w") as store:
            store["/größe/脑"], store["/größe/π"] = np.arange(count), np.eye(4)
            store["/a"] = np.array(["ärger", "→"])
            store["/größe"].attrs["單位"] = "µm → 😀"
    values = blosc2.ObjectArray(urlpath=str(folder / "o.b2frame"), mode="w")
    values.extend(["脑", "é"])
    blosc2.asarray(np.arange(8), urlpath=str(folder / "line.b2nd"))
    blosc2.asarray(np.eye(4), urlpath=str(folder / "eye.b2nd"))
    return folder


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def printed(folder: Path, request: pytest.FixtureRequest) -> Printed:
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONUTF8", "PYTHONIOENCODING")}
    got = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *COMMANDS], capture_output=True, check=False, cwd=folder,
        env=env | ENVIRONMENTS[request.param],
    )  # fmt: skip
    assert got.returncode == 0, got.stderr
    encoding = "ascii" if request.param == "C" else request.param
    texts = got.stdout.decode(encoding).replace(os.linesep, "\n").split("\x1e")
    return Printed(encoding, dict(zip(COMMANDS, texts, strict=False)))


def test_trees_are_drawn_with_what_there_is(printed: Printed) -> None:
    lines = [line.split("  ")[0] for line in printed.of["tree s.b2z"].splitlines()]
    assert lines[:3] == [printed.shown(text) for text in ("/", "├── a", "└── größe/")]
    for leaf in ("├── π", "└── 脑"):
        assert f"\n    {printed.shown(leaf)}  " in printed.of["tree s.b2z"]
    assert printed.shown("└── größe") in printed.of["info s.b2z"]


def test_other_characters_are_escaped(printed: Printed) -> None:
    assert printed.of["ls -r s.b2z"] == printed.shown("/a\n/größe/π\n/größe/脑\n")
    assert printed.of["info s.b2z/gr*"].endswith(printed.shown("  單位: 'µm → 😀'\n"))
    assert printed.shown("/größe/脑: shape: (6,), (7,)\n") in printed.of["diff s.b2z t.b2z"]
    assert printed.of["cat s.b2z/a"] == printed.shown("['ärger' '→']\n")
    assert printed.of["cat o.b2frame"] == printed.shown("'脑'\n'é'\n")
    assert ": ok>" in printed.of["check s.b2z"]


def test_columns_are_as_wide_as_what_is_printed(printed: Printed) -> None:
    lines = printed.of["stats s.b2z"].splitlines()[:3]
    assert lines[2].startswith(printed.shown("/größe "))
    assert len({line.index(word) for line, word in zip(lines, ("leaves", "3  ", "2  "), strict=True)}) == 1


def test_json_is_ascii(printed: Printed) -> None:
    documents = {command: text for command, text in printed.of.items() if "--json" in command}
    assert all(text.isascii() for text in documents.values())
    found = {command.split()[0]: json.loads(text) for command, text in documents.items()}
    assert [row["key"] for row in found["ls"]] == ["/a", "/größe/π", "/größe/脑"]
    assert found["info"]["attributes"] == {"單位": "µm → 😀"}
    assert [node["name"] for node in found["tree"]["children"]] == ["a", "größe"]


def test_pictures_are_drawn_with_what_there_is(printed: Printed) -> None:
    assert printed.of["show line.b2nd"] == ("▁▂▃▄▅▆▇█\n" if printed.has("▁") else " .:=+#%@\n")
    assert ("▀" in printed.of["show --colour eye.b2nd"]) is printed.has("▀")
    assert "\\u" not in printed.of["show --colour eye.b2nd"]
