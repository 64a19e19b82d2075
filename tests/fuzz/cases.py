"""One case: what a seed and a number make of the samples, and how it is played."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from blosc2._frames import changeable

from . import layout, mutate, plays
from .recorder import Failure, Recorder
from .samples import DAMAGED, HOSTILE, Sample, parse, read

_M_PERTURB = -6

# How many changes wait to be published together depends on the time. Here each is published, so that a case does
# what it did, with either source.
changeable.Costs.is_cheap = lambda *_: True  # type: ignore[method-assign,assignment]


class Case(NamedTuple):
    """What is on disk, the play, its random numbers, and how the bytes came about."""

    sample: Sample
    play: str
    seed: int
    what: str

    def dump(self) -> bytes:
        """As a file that `--replay` takes."""
        head, _, body = self.sample.dump().partition(b"\n")
        return (
            json.dumps({**json.loads(head), "play": self.play, "seed": self.seed, "what": self.what[:300]}).encode()
            + b"\n"
            + body
        )


def parse_case(data: bytes) -> Case:
    """What `Case.dump` gave."""
    about = json.loads(data.partition(b"\n")[0])
    return Case(parse(data), about["play"], about["seed"], about["what"])


def read_case(path: Path) -> list[Case]:
    """The case of a file that a failure left; of any other file, one of each play and some seeds."""
    if path.suffix == ".case":
        data = path.read_bytes()
        if b'"play"' in data.partition(b"\n")[0]:
            return [parse_case(data)]
    return [Case(read(path), play, seed, "as it is") for play in plays.PLAYS for seed in range(8)]


def _is_sound(sample: Sample) -> bool:
    return sample.name not in HOSTILE and not sample.name.startswith(DAMAGED)


def _is_frame(sample: Sample) -> bool:
    return sample.files.get("", b"").startswith(layout.FRAME_MAGIC) and _is_sound(sample)


def _is_own(sample: Sample) -> bool:
    return sample.name.startswith("own") and list(sample.files) == [""]


def _has_catalog(sample: Sample) -> bool:
    return layout.CATALOG_MAGIC in sample.files.get("", b"") and _is_sound(sample)


def _as_it_is(sample: Sample, rng: random.Random) -> tuple[Sample, str]:
    return sample, "fields that nobody reads"


#: Damage of which it is known what it must lead to: the play, how often, of which samples, and how they are damaged.
_DAMAGES = {
    "catalog": (_has_catalog, mutate.catalog_damaged), "verify": (_is_own, mutate.bits_damaged),
    "stale": (_is_frame, _as_it_is), "cut": (_is_frame, mutate.cut), "facts": (_is_frame, mutate.damaged_behind),
}  # fmt: skip
_MARKED = [("catalog", 0.06), ("verify", 0.04), ("stale", 0.01), ("cut", 0.01), ("facts", 0.04)]


def _marked(kind: float, rng: random.Random, samples: list[Sample]) -> Case | None:
    for play, share in _MARKED:
        kind -= share
        if kind < 0:
            wanted, damaged = _DAMAGES[play]
            some = [sample for sample in samples if wanted(sample)]
            if not some:
                return None
            chosen = rng.choice(some)
            sample, what = damaged(chosen, rng)
            if play == "catalog" and what.endswith(mutate.FORGED):
                play = "forged"
            return Case(sample, play, rng.getrandbits(32), f"{chosen.name}: {what}")
    return None


def make_case(seed: int, number: int, samples: list[Sample]) -> Case:
    """The case of a number, from nothing but the seed and the samples."""
    rng = random.Random(f"{seed} {number}")
    kind = rng.random()
    if kind < sum(share for _, share in _MARKED):
        case = _marked(kind, rng, samples)
        if case is not None:
            return case
    if kind < 0.3:
        sample, what = mutate.made(rng)
        if rng.random() < 0.5:
            sample, more = mutate.damaged(sample, rng, samples)
            what = f"{what}; {more}"
    else:
        chosen = rng.choice(samples)
        sample, what = mutate.damaged(chosen, rng, samples)
        what = f"{chosen.name}: {what}"
    return Case(sample, plays.choose(rng, sample.suffix), rng.getrandbits(32), what)


def _fill_fresh_memory(byte: int) -> None:
    """Have the system's allocator fill what it gives out, so that bytes that nobody wrote are seen."""
    try:
        ctypes.CDLL(None).mallopt(_M_PERTURB, byte)
    except (AttributeError, OSError):
        pass


def play(case: Case, folder: Path, note: Callable[[int, str], None]) -> Recorder:
    """Play a case over both sources; raises `Failure`."""
    recorders = []
    function = plays.PLAYS[case.play][0]
    for source, byte in ((None, 0x55), ("r", 0xAA)):
        plays.clean(folder)
        path = plays.path_in(folder, case.sample.suffix)
        case.sample.write(path)
        if case.sample.sound:
            plays.sound_of(path).write_bytes(case.sample.sound)
        rec = Recorder(max(1, case.sample.size), note)
        _fill_fresh_memory(byte)
        note(-1, f"{case.play} {source}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                function(rec, path, source, random.Random(case.seed))
            except Failure as failure:
                failure.what = f"{case.play}, mmap_mode={source}: {failure.what}"
                raise
            except RecursionError as error:
                raise Failure("undocumented error", case.play, repr(error)[:200]) from error
        recorders.append(rec)
    compare(case, *recorders)
    return recorders[0]


def compare(case: Case, read: Recorder, mapped: Recorder) -> None:
    """The two ways to read a file must give the same."""
    if case.play == "moving" or not (read.comparable and mapped.comparable):
        return
    for first, second in zip(read.outcomes, mapped.outcomes, strict=False):
        one, other = (re.sub(r"'mmap_mode': [^,}]*", "", text) for text in (first[0], second[0]))
        if (one, first[1]) != (other, second[1]):
            raise Failure("the two sources differ", case.play, f"{first} {second}")


def held() -> tuple[int, int]:
    """How many descriptors are open, and how many mappings there are of files that the plays use."""
    gc.collect()
    with open("/proc/self/maps") as file:
        mappings = sum("blosc2-fuzz-" in line for line in file)
    return len(os.listdir("/proc/self/fd")), mappings
