"""A story in which the n-th call fails: what is there then, and whether it can go on."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import blosc2.exceptions
from blosc2._frames import changeable
from faults.array_stories import ArrayStory
from faults.crashes import FAST
from faults.recorder import Fault, Recorder, Stopped
from faults.scenarios import IllegalStateError, Play, Step, Value, show
from faults.store_stories import StoreStory
from faults.stories import Story

FAULTS: tuple[Fault, ...] = ("eio", "eio_late", "eio_on", "enospc", "short", "unwritten", "stop")
#: What may be raised: errors of the system, a lack of memory, and those that this package names.
_CLEAN = (
    OSError,
    MemoryError,
    *(e for e in vars(blosc2.exceptions).values() if isinstance(e, type) and issubclass(e, Exception)),
)
# How often a step is tried, the first time included.
_TRIES = 3


def inject(story: Story, fault: Fault, at: int) -> str:
    """Play a story with a fault at one call, and see that nothing is lost by it.

    Returns
    -------
    str
        The call that was befallen; empty when there are not so many.

    Raises
    ------
    IllegalStateError
        What is there, or how it behaves, is not as it must be.
    """
    with tempfile.TemporaryDirectory(dir=FAST) as name, warnings.catch_warnings():
        folder = Path(name)
        if fault == "stop":
            warnings.simplefilter("ignore", ResourceWarning)  # a program that stops does not close anything
            return _stop(story, at, folder)
        warnings.simplefilter("error")
        with Recorder(folder, fault, at) as recorder:
            play = Play(story.kind, folder, lambda: len(recorder.ops))

            def mend() -> bool:
                recorder.mend()
                return bool(recorder.struck)

            play_on(story, play, mend)
        if not recorder.struck:
            return ""
        recorder.lose()
        try:
            story.kind.check(story.kind.observe(folder), [play.now])
        except AssertionError as error:
            raise IllegalStateError(f"at the end: {error}") from None
        # What cannot be removed because removing fails stays.
        if fault != "eio_on" and not recorder.struck.startswith(("unlink", "rmdir")):
            check_tidy(story, folder)
        return recorder.struck


def _settled(play: Play) -> None:
    """Flush what does not wait for the disk by itself."""
    if not getattr(play.kind, "durable", True):
        play.publish(play.now, play.handle.flush)


def play_on(story: Story, play: Play, mend: Callable[[], bool]) -> int:
    """Play a story to its end although steps fail: end what makes them fail, look, and try again.

    Parameters
    ----------
    story : Story
    play : Play
    mend : callable
        Ends what makes calls fail; False when there was nothing to end, so that the error is one of the package.

    Returns
    -------
    int
        How many steps failed.
    """
    failed = 0
    for step in [*story.steps, _settled]:
        for attempt in range(_TRIES):
            try:
                step(play)
                break
            except _CLEAN as error:
                failed += 1
                check_words(error)
                if not mend():
                    raise
                if _go_on(story, play, step, attempt, error):
                    break
    play.handle = None
    return failed


def check_words(error: BaseException) -> None:
    """A message names what the caller named: that of a temporary file beside it means nothing to anybody."""
    names = [getattr(error, "filename", None), getattr(error, "filename2", None)]
    words = " ".join(map(str, [error, *names, *getattr(error, "__notes__", [])]))
    if ".tmp" in words or ".partial-" in words:
        raise IllegalStateError(f"a message names a temporary file: {words}")


def _go_on(story: Story, play: Play, step: Step, attempt: int, error: BaseException) -> bool:
    """A step failed: look at what is there, and say whether the step needs no further attempt."""
    kind = story.kind
    seen = kind.observe(play.folder)
    legal = play.legal(play.clock() + 1)  # what failed may be there too
    kind.check(seen, legal)
    if attempt + 1 == _TRIES:
        # It refuses: then another handle must do.
        if play.handle is not None:
            kind.drop(play.handle)
        play.handle = None if seen is None else kind.open(play.path, "a")
        play.now = dict(seen or {})
        play.settle(seen)
        return True
    if isinstance(story, StoreStory) and play.handle is not None and not play.handle.closed:
        shown = kind.read(play.handle)
        told = "were written" in str(error) or isinstance(error, MemoryError)
        if seen == shown == play.publications[-1].version != play.now and told:
            # Published, but neither synced nor undone, because later calls fail too: the error says so. Or memory was
            # short when it was read again, and is not by now.
            play.now = shown
            play.settle(seen)
            return True
        if not kind.atomic and shown == play.publications[-1].version != play.now and _are_kept(error):
            # Half done, and not to be taken back: all of it is pending, and a flush completes it.
            play.now = shown
            play.handle.flush()
            seen = kind.observe(play.folder)
            kind.check(seen, [shown])
            play.settle(seen)
            return True
        if not kind.atomic and step in story.undone and seen == shown:
            # The block's changes are forgotten, and some of them were published already.
            play.now = shown
            play.settle(seen)
        elif not kind.atomic and _is_told(error) and _is_made_of(shown, play.now, seen or {}):
            # Some of a group of changes was published and could not be undone. The handle shows it, beside the
            # changes that wait as before.
            play.now = shown
            play.settle(seen)
        elif shown != play.now:
            raise IllegalStateError(f"after {error!r} the handle shows {show(shown)}, not {show(play.now)}")
    if isinstance(story, ArrayStory) and play.handle is not None:
        shown = kind.read(play.handle)
        kind.check(shown, legal)
        under_way = play.publications[-1].version
        if shown == under_way != play.now:
            if seen != shown:
                raise IllegalStateError(f"the handle shows what is not in the file, after {error!r}")
            play.now = shown
            play.settle(seen)
            return True
    return False


def _are_kept(error: BaseException) -> bool:
    """Whether an error says that changes wait for a flush, though their block has ended."""
    return "your changes are kept in the store object" in " ".join([str(error), *getattr(error, "__notes__", [])])


def _is_told(error: BaseException) -> bool:
    """Whether an error says that some leaves are new."""
    told = " ".join([str(error), *getattr(error, "__notes__", [])])
    return "new already" in told or "all values are published" in told


def _is_made_of(shown: dict[str, Value], before: dict[str, Value], published: dict[str, Value]) -> bool:
    """Whether each key is what it was before, or what is published."""
    return all(shown.get(key) in (before.get(key), published.get(key)) for key in {*shown, *before, *published})


def check_tidy(story: Story, folder: Path) -> None:
    """Nothing but the file or store is there."""
    left = [path for path in os.listdir(folder) if path not in (story.kind.name, story.kind.name + ".b2lock")]
    left += [str(path.relative_to(folder)) for path in folder.rglob("*.tmp")]
    if left:
        raise IllegalStateError(f"left behind: {left}")


def _stop(story: Story, at: int, folder: Path) -> str:
    # Who is dead publishes nothing.
    with (
        mock.patch("blosc2._stores.end_forgotten"),
        mock.patch("sys.unraisablehook"),  # of a finalizer in which it was stopped
        Recorder(folder, "stop", at) as recorder,
    ):
        play = Play(story.kind, folder, lambda: len(recorder.ops))
        try:
            for step in story.steps:
                step(play)
            play.handle = None
        except Stopped as stopped:
            stopped.__traceback__ = None
        if not recorder.struck:
            return ""
        recorder.bury()
        with mock.patch("blosc2._frames.FileHandle.__del__"):
            changeable._clock.end()
            changeable._left.clear()
            play.handle = None
            gc.collect()
    # Another program finds it, by a name that this one has no memory of.
    with tempfile.TemporaryDirectory(dir=FAST) as other:
        shutil.copytree(folder, other, dirs_exist_ok=True)
        story.kind.check(story.kind.observe(other), play.legal(len(recorder.ops)))
    return recorder.struck
