"""Stories whose files and folders become read-only in between; run as a program, by a user whom that stops.

``python -m faults.unprivileged STORY`` prints how many steps failed, in each of the runs.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import warnings
from pathlib import Path

from faults.crashes import FAST
from faults.injection import play_on
from faults.scenarios import Play
from faults.stories import stories

#: Nobody, on any system.
_NOBODY = 65534


def forbid(folder: str, *, files: bool) -> None:
    """Take the right to write away, from the folders or from them and the files."""
    for path, _, names in os.walk(folder):
        os.chmod(path, 0o555)
        for name in names if files else ():
            os.chmod(os.path.join(path, name), 0o444)


def allow(folder: str) -> bool:
    """Give it back; whether anything was forbidden."""
    forbidden = not os.stat(folder).st_mode & stat.S_IWUSR
    os.chmod(folder, 0o755)
    for path, folders, names in os.walk(folder):
        for name in folders:
            os.chmod(os.path.join(path, name), 0o755)
        for name in names:
            os.chmod(os.path.join(path, name), 0o644)
    return forbidden


def run(name: str, *, files: bool) -> list[int]:
    """Play a story once for each of its steps, with nothing allowed from that step on until something fails."""
    failed = []
    for number in range(len(stories()[name].steps)):
        story = stories()[name]
        with tempfile.TemporaryDirectory(dir=FAST) as parent:
            folder = os.path.join(parent, "folder")
            os.mkdir(folder)
            story.steps.insert(number, lambda play: forbid(str(play.folder), files=files))
            play = Play(story.kind, folder)
            failed.append(play_on(story, play, lambda folder=folder: allow(folder)))
            allow(folder)
            story.kind.check(story.kind.observe(folder), [play.now])
            left = {path.name for path in Path(folder).iterdir()} - {story.kind.name, story.kind.name + ".b2lock"}
            assert not left, f"left behind: {left}"
    return failed


def drop_privileges() -> None:
    """Become somebody whom permissions stop."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)


if __name__ == "__main__":
    warnings.simplefilter("error")
    story = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:  # whatever is imported late is here afterwards
        first = stories()[story]
        play_on(first, Play(first.kind, folder), lambda: False)
        first.kind.observe(folder)
    os.chdir("/")
    drop_privileges()
    print(run(story, files=False))
    print(run(story, files=True))
