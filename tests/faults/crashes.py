"""Every state that a crash may leave of a story, opened and compared with what may be there."""

from __future__ import annotations

import os
import random
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faults.disk import Disk, Model, Tree
from faults.recorder import Recorder
from faults.scenarios import IllegalStateError, Kind, Play, Publication, Step, Version
from faults.stories import Story

#: Where states are made, many a second: in memory if possible.
FAST: str | None = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass
class Survey:
    """What a run over the crash states of one story found."""

    calls: int = 0
    states: int = 0
    distinct: int = 0
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.calls:6} calls {self.states:8} states {self.distinct:7} distinct {len(self.broken):5} wrong"


@dataclass
class _Outcome:
    """What opening one state gave: a version, or what went wrong."""

    version: Version = None
    error: str = ""


def record(kind: Kind, steps: Sequence[Step], start: Tree | None = None) -> tuple[Recorder, Play]:
    """Play a story to its end, from nothing or from what a crash left."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        if start is not None:
            start.write_to(Path(folder))
        with Recorder(Path(folder)) as recorder:
            play = Play(kind, folder, lambda: len(recorder.ops))
            if start is not None:
                play.settle(kind.observe(folder))
                play.now = dict(play.published or {})
            for step in steps:
                step(play)
            play.handle = None
    return recorder, play


class Surveyor:
    """Opens crash states of one kind of file or store; each that it has not seen before.

    Parameters
    ----------
    kind : Kind
    models : sequence of {'kill', 'ext4', 'free'}
        Of what may be lost. Most states are those of several, and opened once.
    limit, samples : int
        See `Disk.crash_states`.
    seed : int
        Of what is chosen at random.
    without_syncs : bool
        As if no sync had any effect; the first wrong state is enough.
    """

    def __init__(
        self,
        kind: Kind,
        models: Sequence[Model],
        *,
        limit: int,
        samples: int,
        seed: int = 0,
        without_syncs: bool = False,
    ) -> None:
        self.kind, self.models, self.limit, self.samples = kind, models, limit, samples
        self.rng = random.Random(seed)
        self.without_syncs = without_syncs
        self.found = Survey()
        self.trees: dict[bytes, Tree] = {}
        self.outcomes: dict[bytes, _Outcome] = {}

    def survey(self, steps: Sequence[Step], start: Tree | None = None) -> None:
        """Open every crash state of a story."""
        recorder, play = record(self.kind, steps, start)
        self.found.calls += recorder.count
        judged: set[tuple[bytes, int, int]] = set()
        for moment, tree in self._states(recorder, play):
            self.found.states += 1
            digest = tree.digest()
            # Between the same publications the same versions are allowed.
            begun = sum(publication.before < moment for publication in play.publications)
            over = sum(
                publication.after is not None and publication.after <= moment for publication in play.publications
            )
            if (digest, begun, over) in judged:
                continue
            judged.add((digest, begun, over))
            self._judge(digest, tree, play.legal(moment), recorder, moment)
            if self.without_syncs and self.found.broken:
                break
        self.found.distinct = len(self.outcomes)

    def _judge(self, digest: bytes, tree: Tree, legal: list[Version], recorder: Recorder, moment: int) -> None:
        if digest not in self.outcomes:
            self.outcomes[digest] = open_state(self.kind, tree, len(self.outcomes))
            self.trees[digest] = tree
        outcome = self.outcomes[digest]
        error = outcome.error
        if not error:
            try:
                self.kind.check(outcome.version, legal)
            except IllegalStateError as wrong:
                error = str(wrong)
        if error:
            self.found.broken.append(
                f"after {moment} of {len(recorder.ops)} calls ({recorder.ops[moment - 1]}): {error}\n"
                f"      files: { {k: v if v is None else len(v) for k, v in tree.content().items()} }"
            )

    def _states(self, recorder: Recorder, play: Play) -> Iterator[tuple[int, Tree]]:
        """Moments, and trees that a crash then may leave.

        After each call all of the calls up to it may be there. What may be missing is made up right before each sync,
        when the most is uncertain, and whenever other versions become legal.
        """
        full = recorder.start.copy()
        disks = [Disk(model, recorder.start.copy()) for model in self.models if model != "kill"]
        borders = {moment for publication in play.publications for moment in (publication.before, publication.after)}
        ops = recorder.ops
        yield 0, full.copy()
        for moment, op in enumerate(ops, 1):
            full.apply(op)
            yield moment, full.copy()
            for disk in disks:
                if not (op.is_sync and self.without_syncs):
                    disk.take(op)
                if moment == len(ops) or ops[moment].is_sync or moment in borders:
                    for tree in disk.crash_states(self.rng, self.limit, self.samples):
                        yield moment, tree


def go_on(kind: Kind) -> list[Step]:
    """Steps of a program that finds what a crash left, and makes a change."""

    def opened(play: Play) -> None:
        def act() -> None:
            play.handle = kind.open(play.path, "a")

        if getattr(kind, "there_when_opened", False) and play.published is None:
            play.publish({}, act)
        else:
            act()

    def extended(play: Play) -> None:
        publication = Publication({}, play.clock(), durable=getattr(kind, "durable", True))
        play.publications.append(publication)
        publication.version = kind.extend(play.handle, play.now)
        publication.after = play.clock()
        kind.close(play.handle)
        play.settle(publication.version)

    return [opened, extended]


def open_state(kind: Kind, tree: Tree, number: int) -> _Outcome:
    """Read a state, then open it for changes, make one, and read it again."""
    with tempfile.TemporaryDirectory(dir=FAST) as name, warnings.catch_warnings():
        warnings.simplefilter("error")
        folder = Path(name)
        tree.write_to(folder)
        try:
            version = kind.observe(folder, "r" if number % 2 else None)
            if Tree.load(folder)[0].digest() != tree.digest():
                return _Outcome(error="reading changed the files")
        except Exception as error:  # noqa: BLE001 - anything that is raised is a finding
            return _Outcome(error=f"reading: {type(error).__name__}: {error}")
        try:
            if version is None and not kind.creates:
                return _Outcome(version)
            handle = kind.open(os.path.join(folder, kind.name), "a")
            try:
                expected = kind.extend(handle, version or {})
                kind.close(handle)
            except BaseException:
                kind.drop(handle)
                raise
            del handle
            kind.check(kind.observe(folder, None if number % 2 else "r"), [expected])
        except Exception as error:  # noqa: BLE001 - anything that is raised is a finding
            return _Outcome(version, f"changing: {type(error).__name__}: {error}")
        return _Outcome(version)


def survey(story: Story, models: Sequence[Model], *, limit: int, samples: int, again: int) -> Survey:
    """Open the crash states of a story and, from so many of them on, those of another program that goes on."""
    surveyor = Surveyor(story.kind, models, limit=limit, samples=samples)
    surveyor.survey(story.steps)
    first = list(surveyor.trees)
    for digest in surveyor.rng.sample(first, min(again, len(first))):
        if story.kind.creates or surveyor.outcomes[digest].version is not None:
            surveyor.survey(go_on(story.kind), surveyor.trees[digest])
    return surveyor.found
