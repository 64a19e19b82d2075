"""Plays sweeps: `python tests/sweeps/run.py` all of them to their end, `--seconds 120 --seed 7` some; see `sweeps`."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faults.crashes import FAST

import blosc2

KINDS = ("lines", "file_lines", "embedded_lines", "allocations", "calls", "readers")
#: Seconds after which a position hangs.
STUCK = 120


class Position(NamedTuple):
    kind: str
    case: str
    at: int

    def __str__(self) -> str:
        return f"{self.kind}/{self.case}/{self.at}"


def in_a_child(work: Callable[[Path], str]) -> tuple[str, str]:
    """What work gives when a child does it in a folder of its own, and what went wrong: a crash and a hang included."""
    folder = Path(tempfile.mkdtemp(prefix="blosc2-sweep-", dir=FAST))
    said = folder / "said"
    try:
        child = os.fork()
        if child == 0:
            _be_child(work, folder, said)
        _, status = os.waitpid(child, 0)
        text = said.read_text(errors="replace") if said.exists() else ""
        if os.WIFSIGNALED(status):
            return "", f"killed by {signal.Signals(os.WTERMSIG(status)).name}\n{text}"
        return ("", text) if os.WEXITSTATUS(status) else (text, "")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _be_child(work: Callable[[Path], str], folder: Path, said: Path) -> None:
    """Do the work and end the process; never returns."""
    status = 1
    try:
        with said.open("w", buffering=1) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            faulthandler.enable(file)
            # Not `dump_traceback_later`: in a fork it would wait for its thread, which is not here.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            faulthandler.register(signal.SIGALRM, file, all_threads=True, chain=True)
            signal.alarm(STUCK)
            inner = folder / "files"
            inner.mkdir()
            try:
                answer = work(inner)
            except BaseException as error:
                traceback.print_exception(error, file=file)
                raise
            file.truncate(0)
            file.seek(0)
            file.write(answer)
            status = 0
    finally:
        os._exit(status)


def module_of(kind: str) -> ModuleType:
    return importlib.import_module(f"sweeps.{kind}")


def count(kind: str, case: str) -> tuple[Sequence[int], str]:
    """The positions of a case, and what went wrong. A list tells how each is reached: the same number, the same way."""
    text, wrong = in_a_child(lambda folder: json.dumps(module_of(kind).count(case, folder)))
    found = json.loads(text.split("\n")[-1] or "0")
    return found if isinstance(found, list) else range(found), wrong


def play(position: Position) -> str:
    """What went wrong at one position; nothing if all is well."""

    def work(folder: Path) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # what an interrupt left open, the collector closes
            module_of(position.kind).play(position.case, position.at, folder)
        return ""

    return in_a_child(work)[1]


class Tally:
    """What was played and what was found."""

    def __init__(self, process: int, processes: int) -> None:
        self.process, self.processes = process, processes
        self.played: dict[str, int] = {}
        self.failures = 0

    def take(self, position: Position) -> None:
        wrong = play(position)
        self.played[position.kind] = self.played.get(position.kind, 0) + 1
        if wrong:
            self.failures += 1
            print(f"FAILED {position}\n{wrong}", flush=True)

    def say(self) -> None:
        print(
            "played:", ", ".join(f"{kind} {number:,}" for kind, number in self.played.items()) or "nothing", flush=True
        )


def positions_of(kind: str, case: str, tally: Tally) -> Sequence[int]:
    positions, wrong = count(kind, case)
    if wrong:
        tally.failures += 1
        print(f"FAILED {kind}/{case}: with nothing that goes wrong\n{wrong}", flush=True)
    return positions


def everything(chosen: list[tuple[str, str]], tally: Tally) -> Iterator[Position]:
    """All positions of all cases, those of this process."""
    for kind, case in chosen:
        positions = positions_of(kind, case, tally)
        yield from (Position(kind, case, at) for at in range(tally.process, len(positions), tally.processes))


def once(chosen: list[tuple[str, str]], tally: Tally) -> Iterator[Position]:
    """All cases of this process, and each line only in the first that reaches it in this way."""
    seen: set[tuple[str, int]] = set()
    for kind, case in chosen[tally.process :: tally.processes]:
        positions = positions_of(kind, case, tally)
        for at, way in enumerate(positions):
            if isinstance(positions, range) or (kind, way) not in seen:
                seen.add((kind, way))
                yield Position(kind, case, at)


def by_seed(chosen: list[tuple[str, str]], seed: int, tally: Tally) -> Iterator[Position]:
    """Cases drawn at random, a few positions of each; kinds take turns."""
    drawn = random.Random(f"{seed}, {tally.process}")
    by_kind: dict[str, list[str]] = {}
    for kind, case in chosen:
        by_kind.setdefault(kind, []).append(case)
    while True:
        for kind, its_cases in by_kind.items():
            case = drawn.choice(its_cases)
            positions = positions_of(kind, case, tally)
            yield from (Position(kind, case, drawn.randrange(len(positions))) for _ in range(5 if positions else 0))


def import_all() -> None:
    """Import what operations import when they are first used, so that not each child does it again, and let no
    child's collector look at it, which would copy all of the memory that they share."""
    for module in pkgutil.walk_packages(blosc2.__path__, "blosc2."):
        with suppress(ImportError):  # an extra that is not installed
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def be_process(arguments: argparse.Namespace, process: int) -> int:
    """The share of one process; how many failures it found."""
    kinds = arguments.kinds or KINDS
    chosen = [
        (kind, case)
        for kind in kinds
        for case in module_of(kind).cases()
        if not arguments.cases or any(fnmatch(case, pattern) for pattern in arguments.cases)
    ]
    tally = Tally(process, arguments.processes)
    until = time.monotonic() + arguments.seconds if arguments.seconds else float("inf")
    if arguments.once:
        positions = once(chosen, tally)
    elif arguments.seconds:
        positions = by_seed(chosen, arguments.seed, tally)
    else:
        positions = everything(chosen, tally)
    for position in positions:
        tally.take(position)
        if time.monotonic() > until:
            break
    tally.say()
    return tally.failures


def replay(text: str) -> int:
    kind, _, rest = text.partition("/")
    case, _, at = rest.rpartition("/")
    wrong = play(Position(kind, case, int(at)))
    print(wrong or "all is well")
    return bool(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="the kinds to play; all by default")
    parser.add_argument(
        "--cases", action="append", metavar="PATTERN", help="only cases whose names match; may be repeated"
    )
    parser.add_argument(
        "--seconds", type=float, help="some positions by the seed, for so long; without it, all of them"
    )
    parser.add_argument("--once", action="store_true", help="each line in the first case that reaches it in one way")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--replay", metavar="KIND/CASE/POSITION", help="one position, as a line that begins with FAILED names it"
    )
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONFAULTHANDLER", "1")
    if arguments.replay:
        return replay(arguments.replay)
    if arguments.seconds and not arguments.once:
        print(f"seed {arguments.seed}", flush=True)
    children = []
    for process in range(arguments.processes):
        child = os.fork()
        if child == 0:
            failures = 1
            try:
                import_all()
                failures = be_process(arguments, process)
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(min(failures, 100))
        children.append(child)
    failed = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    print("failed" if any(failed) else "all is well")
    return int(any(failed))


if __name__ == "__main__":
    sys.exit(main())
