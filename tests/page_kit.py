"""Run the code of a page, and compare what it prints with what the page says.

    python tests/page_kit.py                 the pages with answers: write them anew where they differ
    python tests/page_kit.py doc/start.md    one page

Blocks of `python` are one program; the value of a last expression is shown, as in a notebook. Blocks of `sh` whose
lines all begin with `blosc2` are commands, run in between. What a block prints stands after it, in a block `output`.

Times (a number before s, ms, us or ns, and the columns behind it) and addresses of objects differ from run to run: they
are not compared. The folder that a page runs in is left out of paths. All else has to be equal.
"""

from __future__ import annotations

import ast
import contextlib
import io
import logging
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"^```(?P<language>python|sh)\n(?P<code>.*?)^```\n(?:\n```output\n(?P<answer>.*?)^```\n)?", re.MULTILINE | re.DOTALL
)
VARIES = [
    (re.compile(r"\b\d[\d.,]*(?: to [\d.,]+)? ?(ns|us|ms|s)\b"), r"# \1"),
    (re.compile(r"\b0x[0-9a-f]+"), "0x#"),
]
#: What a page may depend on of the program's surroundings.
SURROUNDINGS = {"COLUMNS": "100", "MPLBACKEND": "Agg", "COLORTERM": ""}


class Block(NamedTuple):
    """Code of a page and what the page says that it prints; None where it says nothing."""

    language: str
    code: str
    answer: str | None


def blocks(text: str) -> list[Block]:
    """The blocks of a page that can be run, in their order."""
    found = [Block(*match.group("language", "code", "answer")) for match in BLOCK.finditer(text)]
    return [block for block in found if block.language == "python" or is_command(block.code)]


def is_command(code: str) -> bool:
    """Whether a block of a shell calls nothing but our own command."""
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith("#")]
    return bool(lines) and all(line.startswith("blosc2 ") for line in lines)


def comparable(text: str) -> str:
    """What an answer says, whenever and wherever it was made."""
    for what, instead in VARIES:
        text = what.sub(instead, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def run_python(code: str, names: dict[str, Any], page: str) -> None:
    tree = ast.parse(code, page)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, page, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), page, "eval"), names)
        if value is not None:
            print(repr(value))


def run_commands(code: str) -> None:
    from blosc2._tools.cli import main

    for line in code.splitlines():
        if words := shlex.split(line, comments=True):
            status = main(words[1:])
            if status not in (0, None, 1):  # 1: something was found
                raise RuntimeError(f"{line}: exit code {status}")


@contextlib.contextmanager
def logging_as_it_was() -> Iterator[None]:
    """A page may show how to configure `logging`."""
    root, ours = logging.getLogger(), logging.getLogger("blosc2")
    handlers, level = root.handlers[:], ours.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        ours.setLevel(level)


def answers(page: Path, names: dict[str, Any]) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page in the working directory, with these names; yield each with what it printed."""
    folder = os.getcwd()
    with logging_as_it_was():
        for block in blocks(page.read_text("utf-8")):
            printed = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True)  # `cat` writes bytes
            if block.language == "python":
                with contextlib.redirect_stdout(printed):
                    run_python(block.code, names, str(page))
            else:  # a terminal shows both
                with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                    run_commands(block.code)
            text = printed.buffer.getvalue().decode()
            yield block, text.replace(folder + os.sep, "").replace(folder, ".")


def check(page: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Any]:
    """Run a page in a folder, compare what it prints where it says so, and return the names that it leaves behind."""
    for name, value in SURROUNDINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    for block, printed in answers(page, names):
        if block.answer is not None:
            assert comparable(printed) == comparable(block.answer), block.code
    return names


def rewrite(page: Path) -> bool:
    """Put what the blocks of a page print behind them; return whether the page has changed."""
    text = page.read_text("utf-8")
    printed = iter([printed for _, printed in answers(page, {})])

    def anew(match: re.Match[str]) -> str:
        block = Block(*match.group("language", "code", "answer"))
        if block.language == "sh" and not is_command(block.code):
            return match[0]
        answer = next(printed)
        if block.answer is not None and comparable(answer) == comparable(block.answer):
            return match[0]
        lines = [line.rstrip() for line in answer.strip("\n").splitlines()]
        shown = "\n```output\n" + "\n".join(lines) + "\n```\n" if lines else ""
        return f"```{block.language}\n{block.code}```\n{shown}"

    changed = BLOCK.sub(anew, text)
    if changed != text:
        page.write_text(changed, "utf-8")
    return changed != text


def pages_with_answers() -> list[Path]:
    """The pages on which each block has to show what it prints."""
    doc = ROOT / "doc"
    return [
        ROOT / "README.md",
        doc / "index.md",
        doc / "start.md",
        doc / "tutorial.md",
        doc / "names.md",
        *sorted((doc / "guide").glob("*.md")),
    ]


def main() -> None:
    os.environ.update(SURROUNDINGS)
    for page in map(Path.resolve, map(Path, sys.argv[1:])) if sys.argv[1:] else pages_with_answers():
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            try:  # a page that fails does not keep the others from being written
                changed = rewrite(page)
            except Exception as error:  # noqa: BLE001
                print(f"{page.relative_to(ROOT)}: not written, {error!r}")
                continue
        if changed:
            print(f"{page.relative_to(ROOT)}: written")


if __name__ == "__main__":
    main()
