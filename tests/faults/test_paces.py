"""What a store publishes by itself depends on the time that it takes; in stories it is the pace that decides."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from blosc2._backends import publish_pace
from faults.crashes import record
from faults.paces import PACES, ForcedPace
from faults.scenarios import Play
from faults.store_stories import StoreKind, StoreStory
from faults.stories import stories

STORIES = stories()


@pytest.mark.parametrize("name", ["embed", "tree b2d tiers", "tree b2d, upkeep"])
def test_the_pace_decides_and_not_the_clock(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paced = [STORIES[name], *(STORIES[f"{name}, {pace}"] for pace in PACES if pace != "quick")]
    calls = [record(story.kind, story.steps)[0].count for story in paced]
    assert len(set(calls)) == len(PACES)
    assert calls[0] == max(calls)  # who publishes each change makes the most
    late = itertools.count(0, 100)
    monkeypatch.setattr(publish_pace.time, "monotonic", lambda: next(late))
    assert [record(story.kind, story.steps)[0].count for story in paced] == calls


def test_paces() -> None:
    def asked(pace: str) -> list[bool]:
        forced = ForcedPace(pace)
        return [forced.is_cheap(0.25) if n % 2 else forced.is_due(0, 1000) for n in range(7)]

    assert asked("quick") == [True] * 7
    assert asked("slow") == [False] * 7
    assert asked("changing") == [True] * 3 + [False] * 2 + [True] * 2


def test_a_group_of_which_the_attributes_alone_were_renamed_is_left_so(tmp_path: Path) -> None:
    """That is what a failing call may leave of a rename that nothing can take back, as its error says."""
    kind = STORIES["tree b2d"].kind
    assert isinstance(kind, StoreKind)
    story = StoreStory(kind)
    story.opened("w")
    story.put("/g/a", np.arange(3))
    story.attributes("/moved", unit="mm")
    story.rename_group("/g", "/moved")
    play = Play(kind, tmp_path)
    for step in story.steps:
        step(play)
    assert kind.read(play.handle) == play.now
    assert set(play.now) == {"/g/a", "attributes of /moved"}
    play.handle.close()
