"""After a crash at any moment each committed value is there, and each uncommitted one is absent or whole.

All calls of a story are recorded once. From the record every state is made that a crash may leave; each is read, opened
for changes, changed and read again. From some of them on, the crash of the program that goes on is tried as well.
"""

from __future__ import annotations

import pytest

from faults import FULL
from faults.crashes import Surveyor, survey
from faults.disk import Model
from faults.random_changes import RANDOM, random_story
from faults.stories import chosen_stories, hasty_stories, stories

STORIES = stories()
HASTY = hasty_stories()
MODELS: tuple[Model, ...] = ("ext4", "free")
# Two and four do not find that the ninth sync of "tree b2d tiers" is left out.
LIMIT, SAMPLES, AGAIN = (10, 400, 60) if FULL else (3, 6, 1)


@pytest.mark.parametrize("name", chosen_stories())
def test_any_crash_leaves_an_old_version_or_a_new_one(name: str) -> None:
    found = survey(STORIES[name], MODELS, limit=LIMIT, samples=SAMPLES, again=AGAIN)
    print(f"{name:28} {found}")
    assert not found.broken, "\n".join(found.broken[:5])
    assert found.states > found.calls


@pytest.mark.parametrize("name", [name for name in RANDOM if name in chosen_stories()])
def test_random_changes(name: str) -> None:
    for seed in range(4 if FULL else 1):
        kind, steps, start = random_story(name, seed, 15 if FULL else 4)
        surveyor = Surveyor(kind, MODELS, limit=min(LIMIT, 6), samples=min(SAMPLES, 60), seed=seed)
        surveyor.survey(steps, start)
        print(f"{name:28} {surveyor.found}")
        assert not surveyor.found.broken, f"seed {seed}:\n" + "\n".join(surveyor.found.broken[:5])


@pytest.mark.parametrize("name", HASTY)
def test_a_program_that_dies_leaves_whole_versions_without_syncs(name: str) -> None:
    found = survey(HASTY[name], ["kill"], limit=0, samples=0, again=len(HASTY[name].steps))
    print(f"{name:28} kill  {found}")
    assert not found.broken, "\n".join(found.broken[:5])
    assert found.states > 10


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "name", STORIES if FULL else ["array", "sparse schunk", "list of batches", "embed", "dict b2z", "tree b2d tiers"]
)
def test_without_syncs_values_would_be_lost(name: str, model: Model) -> None:
    """The survey finds what it is there to find."""
    surveyor = Surveyor(STORIES[name].kind, [model], limit=2, samples=2, without_syncs=True)
    surveyor.survey(STORIES[name].steps)
    assert surveyor.found.broken
