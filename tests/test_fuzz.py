"""Random damage to small files of every kind gives the right value or a clear error.

Each damaged file is read twice, in two processes: by positional reads and through a mapping, with fresh memory
filled with two different patterns. Equal results mean that both sources check alike and that no byte of a result
comes from memory that was never written.

Set BLOSC2_FUZZ_CASES for more cases a file, and BLOSC2_FUZZ_SEED for others.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixture_kit import manifest
from fixture_kit.isolated import Worker, WorkerDied

CASES = int(os.environ.get("BLOSC2_FUZZ_CASES", "48"))
SEED = int(os.environ.get("BLOSC2_FUZZ_SEED", "20261121"))

# big files take long and hold the same structures
FILES = [e for e in manifest.FILES if e.get("file_size", 0) < 20_000 and "offset" not in e]

CLEAR = {"builtins.ValueError", "builtins.RuntimeError", "builtins.FileNotFoundError", "builtins.KeyError"}


@pytest.fixture(scope="module")
def readers() -> Iterator[tuple[Worker, Worker]]:
    # MALLOC_PERTURB_ is glibc's; elsewhere the two processes still differ in where memory comes from
    both = (
        Worker("fixture_kit.fuzz_worker", MALLOC_PERTURB_="85"),
        Worker("fixture_kit.fuzz_worker", MALLOC_PERTURB_="170"),
    )
    yield both
    for worker in both:
        worker.close()


def answers(reader: Worker, done: list[dict[str, Any]], path: str) -> Iterator[dict[str, Any]]:
    """The outcomes in order; a death is reported with the case that follows the last answer."""
    while True:
        try:
            answer = reader.answer()
        except WorkerDied as error:
            seed = done[-1]["seed"] + 1 if done and "seed" in done[-1] else "the undamaged file"
            pytest.fail(f"{path}, seed {seed}: {error}")
        done.append(answer)
        yield answer
        if "left_open" in answer:
            return


@pytest.mark.parametrize("number", range(len(FILES)), ids=[e["path"] for e in FILES])
def test_damage(number: int, readers: tuple[Worker, Worker], tmp_path: Path) -> None:
    entry = FILES[number]
    original = manifest.path_of(entry)
    first_seed = SEED + number * CASES
    for reader, mmap_mode in zip(readers, (None, "r"), strict=True):
        path = tmp_path / f"{mmap_mode}" / original.name
        path.parent.mkdir()
        (shutil.copytree if original.is_dir() else shutil.copyfile)(original, path)
        reader.send({"path": str(path), "mmap_mode": mmap_mode, "seed": first_seed, "cases": CASES})

    done: list[list[dict[str, Any]]] = [[], []]
    steps = [answers(reader, log, entry["path"]) for reader, log in zip(readers, done, strict=True)]
    try:
        sound, *cases = list(zip(*steps, strict=True))
    finally:
        if not all(log and "left_open" in log[-1] for log in done):
            for reader in readers:  # the other one still has answers to give that nobody will read
                reader.close(kill=True)
    for answer in sound:
        answer.pop("message")  # it bears the path of the copy
    assert sound[0] == sound[1]
    assert cases.pop() == ({"left_open": [0, 0]}, {"left_open": [0, 0]}), "descriptors or mappings are left open"
    problems = [text for pair in cases for text in complaints(entry, sound[0], *pair)]
    assert not problems, "\n".join([f"{len(problems)} problems in {len(cases)} cases", *problems[:10]])


def complaints(
    entry: dict[str, Any], sound: dict[str, Any], pread: dict[str, Any], mapped: dict[str, Any]
) -> Iterator[str]:
    """What is wrong with the two readings of one damaged file."""
    head = f"seed {pread['seed']}, {pread['what']}"
    for answer in (pread, mapped):
        if answer["error"] is None:
            continue
        own, *bases = answer["error"]
        if not own.startswith("blosc2.") or not CLEAR & {own, *bases}:
            yield f"{head}: not a documented error: {own}: {answer['message']} ({answer['step']} {answer['key']})"
        elif Path(entry["path"]).name not in answer["message"]:
            yield f"{head}: the file is not named: {answer['message']}"
    # the paths of the two copies differ, the rest may not
    if (pread["digest"], pread["facts"], pread["step"]) != (mapped["digest"], mapped["facts"], mapped["step"]):
        yield f"{head}: the two sources differ: {pread} {mapped}"
    elif pread["error"] != mapped["error"]:
        yield f"{head}: the two sources raise different errors: {pread} {mapped}"

    frame = entry.get("frame")
    if pread["same"] and pread["digest"] != sound["digest"]:
        yield f"{head}: nothing was changed, but the result was"
    if frame is None or pread["error"] is not None:
        return
    if pread["cut"] and pread["at"] < frame["frame_len"]:
        yield f"{head}: a frame that is cut short was accepted"
    if pread["at"] >= frame["header_len"]:
        kept = {k: v for k, v in sound["facts"].items() if k != "nchunks" or not frame["flags"] & 0x40}
        if kept != {name: pread["facts"][name] for name in kept}:
            yield f"{head}: damage behind the header changed {sound['facts']} to {pread['facts']}"
