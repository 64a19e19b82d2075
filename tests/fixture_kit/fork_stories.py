"""Stories in the middle of which a process forks. Run as a script: a kind of store or array, and a folder.

A story is played once without a fork; then with a fork at the point that it names, for each way in which a child may
leave what it is in. The child must be able to read, as its parent could there, and change nothing on the disk; the
parent must come to the same files as without it.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from faults.recorder import Recorder

import blosc2
from blosc2._backends import publish_pace
from blosc2._backends.zip import publishing as zip_backend
from blosc2._files import sync as file_sync
from blosc2._stores import automatic_publishing, pending, write_many
from blosc2._stores.leaves import many_frames
from fixture_kit.fork_operations import ARRAY_STORIES, STORE_STORIES, Fork, Left, noise
from fixture_kit.forks import Child

STORES: dict[str, tuple[type[Any], str, dict[str, Any]]] = {
    "e": (blosc2.EmbedStore, "store.b2e", {}),
    "z": (blosc2.TreeStore, "store.b2z", {}),
    "zt": (blosc2.DictStore, "store.b2z", {"threshold": 2000}),
    "d": (blosc2.TreeStore, "store.b2d", {}),
    "dt": (blosc2.DictStore, "store.b2d", {"threshold": 2000}),
}
ARRAYS: dict[str, dict[str, Any]] = {"file": {}, "directory": {"contiguous": False}, "locking": {"locking": True}}
#: How a child leaves what it is in: goes on to the end, raises, ends the interpreter, ends at once; or goes on when its
#: parent has come to the end.
ENDS = ("end", "raise", "exit", "at once", "late")
#: Kinds with fewer ends: other kinds cover the rest of what their children do.
FEWER_ENDS = {"zt": ("end", "exit"), "d": ("end", "exit")}


# ---------------------------------------------------------------------- playing them
def values_of(x: Any) -> dict[str, Any]:
    """All that can be read."""
    if isinstance(x, blosc2.NDArray):
        items = np.asarray(x[:])
        return {"": (items.dtype.str, items.tobytes(), dict(x.vlmeta[:]))}
    found = {}
    for key in list(x):
        value = x[key]
        if not isinstance(value, blosc2.DictStore):
            items = np.asarray(value[:])
            found[key] = items.dtype.str, items.tobytes()
            assert key in x
    assert len(list(x.keys())) == len(x)
    if found:
        x.read_many([*found])
    return found


def files_of(folder: Path) -> dict[str, bytes | None]:
    """All files, and what they hold; what times there are in archives is left out."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


class Play:
    """A store or array, and the fork in a story about it."""

    def __init__(self, kind: str, folder: Path, end: str | None, expected: dict[str, Any] | None = None) -> None:
        folder.mkdir()
        self.folder, self.end, self.expected = folder, end, expected
        self.follows = kind in ("d", "dt", "directory", "locking")
        self.child: Child | None = None
        self.read_out, self.read_into = os.pipe()
        self.done_out, self.done_into = os.pipe()
        if kind in ARRAYS:
            path = folder / "array.b2nd"
            self.x: Any = blosc2.asarray(noise(2000, 0), urlpath=str(path), chunks=(500,), **ARRAYS[kind])
        else:
            make, name, how = STORES[kind]
            path = folder / name
            self.x = make(str(path), mode="w", **how)
            self.x["/a"], self.x["/g/b"], self.x["/c"] = noise(500, 0), [1, 2, 3], noise(50, 4)
            self.x.flush()
        self.path = path

    def fork(self) -> None:
        """Fork at the first call; without an end, only read what the object holds."""
        if self.end is None:
            if self.expected is None:
                self.expected = values_of(self.x)
            return
        if self.child is not None:
            return
        before = files_of(self.folder)
        self.child = child = Child()
        if child.here:
            self._in_child()
            return
        os.close(self.read_into)
        os.read(self.read_out, 1)  # until the child has read, or has ended
        if self.end != "late":
            child.ended()
            assert files_of(self.folder) == before, "the child changed files"

    def _in_child(self) -> None:
        assert self.child is not None
        os.close(self.done_into)
        self._read()
        os.close(self.read_into)
        if self.end == "at once":
            os._exit(0)
        if self.end == "raise":
            raise Left
        if self.end == "exit":
            sys.exit(0)
        if self.end == "late":
            os.read(self.done_out, 1)
            self._read_later()

    def _read(self) -> None:
        found = values_of(self.x)
        assert self.expected is not None
        assert found == self.expected, f"read {sorted(found)}, not {sorted(self.expected)}, or other values"

    def _read_later(self) -> None:
        """Read when the parent has ended: of a directory newer leaves may show, and what was dropped may be gone."""
        with suppress(blosc2.FormatError, KeyError, OSError):
            found = values_of(self.x)
            assert self.expected is not None
            assert found == self.expected or self.follows, f"read {sorted(found)}, or other values"

    def play(self, story: Callable[[Any, Fork], None]) -> None:
        """Play the story to its end; a child does not come back from here, unless it ends the interpreter."""
        try:
            with self.x:
                story(self.x, self.fork)
        except BaseException as error:
            if self.child is None or not self.child.here:
                raise
            if isinstance(error, SystemExit) and self.end == "exit":
                raise
            expected = isinstance(error, Left) if self.end == "raise" else isinstance(error, blosc2.StoreLockedError)
            if not expected:
                self.child.tell(traceback.format_exc())
        finally:
            os.close(self.done_out)
            if self.child is None or not self.child.here:
                os.close(self.done_into)
        if self.child is not None and self.child.here:
            with suppress(BaseException):
                self.x = None
                gc.collect()
            os._exit(0)
        if self.end == "late" and self.child is not None:
            before = files_of(self.folder)
            self.child.ended()
            assert files_of(self.folder) == before, "the child changed files after its parent had ended"

    def result(self) -> tuple[Any, ...]:
        """What is there in the end."""
        with blosc2.open(str(self.path), mode="r") as x:
            values = values_of(x)
        report = blosc2.check(str(self.path))
        assert not list(report), report
        return values, files_of(self.folder)


# ---------------------------------------------------------------------- forks while another thread is at work
class Steps(Recorder):
    """Does something before and after each call that changes files."""

    def __init__(self, root: Path, point: Callable[[str, str], None]) -> None:
        super().__init__(root)
        self.point = point

    def _call(self, what: str, detail: str, act: Callable[[], Any], pretend: Any = None) -> Any:
        self.point("before", f"{what} {detail}")
        result = super()._call(what, detail, act, pretend)
        self.point("after", f"{what} {detail}")
        return result


def changes(s: Any) -> None:
    """Write in every way: new, replaced, deleted and renamed leaves, and the whole store anew."""
    for n in range(3):
        s[f"/x{n}"] = noise(300, n)
    s["/small"], s["/a"] = [1], noise(20, 3)
    del s["/g/b"]
    s.flush()
    s.rename("/small", "/g/large")
    s["/a"] = noise(700, 4)
    s.flush()
    s.write_many((f"/w/{n}", noise(10 + 30 * n, n)) for n in range(0, 10, 2))
    s.compact()


def beside_a_thread(kind: str, folder: Path) -> None:
    """A thread changes a store; before each of its calls that change files, a child is forked that reads."""
    play = Play(kind, folder, None)
    there, go_on = threading.Semaphore(0), threading.Semaphore(0)
    main = threading.get_ident()
    failed: list[BaseException] = []
    over = False

    def point(when: str, what: str) -> None:
        if threading.get_ident() != main and when == "before":
            there.release()
            go_on.acquire()

    def work() -> None:
        nonlocal over
        try:
            changes(play.x)
        except BaseException as error:  # noqa: BLE001 - raised by the other thread
            failed.append(error)
        over = True
        there.release()

    with Steps(folder, point):
        thread = threading.Thread(target=work)
        thread.start()
        count = 0
        while True:
            there.acquire()
            if over:
                break
            count += 1
            before = files_of(folder)
            child = Child()
            if child.here:
                _read_and_leave(play.x, child)
            child.ended()
            assert files_of(folder) == before, "the child changed files"
            go_on.release()
        thread.join()
    if failed:
        raise failed[0]
    assert count > 20, count
    play.x.close()
    play.result()


def _read_and_leave(x: Any, child: Child) -> None:
    try:
        found = values_of(x)
        assert {"/c", "/a"} <= found.keys(), sorted(found)
        assert found["/c"] == ("<i8", noise(50, 4).tobytes())
        for attempt in (x.flush, x.compact, partial(x.__setitem__, "/y", 1), partial(x.write_many, [("/y", 1)])):
            try:
                attempt()
            except blosc2.StoreLockedError:
                continue
            child.tell("a change was not refused")
        with x:
            pass
        gc.collect()
    except BaseException:  # noqa: BLE001 - told to the parent
        child.tell(traceback.format_exc())
    os._exit(0)


def in_each_call(kind: str, folder: Path) -> None:
    """The thread that changes a store forks after each of its calls that change files; the child goes on."""
    play = Play(kind, folder, None)
    mine = os.getpid()
    count = 0

    def point(when: str, what: str) -> None:
        nonlocal count
        if os.getpid() != mine or when == "before":
            return
        count += 1
        before = files_of(folder)
        child = Child()
        if child.here:
            children.append(child)
            return
        child.ended()
        assert files_of(folder) == before, f"the child that was forked after {what} changed files"

    children: list[Child] = []
    with Steps(folder, point):
        try:
            changes(play.x)
            play.x.close()
            if children:  # forked after the last call
                os._exit(0)
        except BaseException as error:
            if children:
                # What it has open leads nowhere, where nothing can be cut off.
                if not isinstance(error, blosc2.StoreLockedError) and getattr(error, "errno", None) != errno.EINVAL:
                    children[0].tell(traceback.format_exc())
                os._exit(0)
            raise
    assert count > 20, count
    play.result()


#: Single changes of an array.
CHANGES: dict[str, Callable[[Any], Any]] = {
    "items": lambda a: a.__setitem__(slice(100, 1100), noise(1000, 3)),
    "append": lambda a: a.append(noise(700, 5)),
    "resize": lambda a: a.resize((a.size - 600,)),
    "metadata": lambda a: a.vlmeta.__setitem__("x", "long" * 2000),  # so that it does not wait
    "compact": lambda a: a.compact(),
}


def array_in_each_call(kind: str, folder: Path) -> None:
    """The same for each change of an array: the child goes on with it, and with nothing else."""
    folder.mkdir()
    for name, change in CHANGES.items():
        play = Play(kind, folder / name, None)
        play.x[7] = 7
        counts = [_fork_in_each_call(play, change, when) for when in ("before", "after")]
        assert min(counts) > 0 or (name, kind) == ("compact", "directory"), (name, counts)
        play.result()


def _fork_in_each_call(play: Play, change: Callable[[Any], Any], fork_when: str) -> int:
    """Fork there: before each call, where another thread would, to read; after it, to go on."""
    count = 0
    children: list[Child] = []
    mine = os.getpid()

    def point(when: str, what: str) -> None:
        nonlocal count
        if os.getpid() != mine or when != fork_when:
            return
        count += 1
        before = files_of(play.folder)
        child = Child()
        if child.here:
            if when == "after":
                children.append(child)
                return
            values_of(play.x)
            os._exit(0)
        child.ended()
        assert files_of(play.folder) == before, f"the child that was forked at {what} changed files"

    with Steps(play.folder, point):
        try:
            change(play.x)
        except BaseException as error:
            if not children:
                raise
            if not isinstance(error, OSError):
                children[0].tell(traceback.format_exc())
        if children:
            os._exit(0)
    return count


def main() -> int:
    warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
    kind, root = sys.argv[1:]
    gc.freeze()  # so that a child need not go through all modules
    folder = Path(root)
    # Small limits: little data takes every path, and the same one each time.
    write_many.CATALOG_LEAST = zip_backend.CATALOG_LEAST = 5
    pending.MEMORY_LIMIT = write_many.MEMORY_LIMIT = 4000
    many_frames.COMPRESSED_BESIDE = 100_000
    file_sync.THREADS = 1
    publish_pace._ALLOWANCE = automatic_publishing.ALLOWANCE = 1e9  # however slow the machine is
    blosc2.set_nthreads(2)
    failures = 0
    number = 0
    stories = ARRAY_STORIES if kind in ARRAYS else STORE_STORIES
    for story in stories:
        plain = Play(kind, folder / f"{story.__name__}", None)
        plain.play(story)
        result = plain.result()
        for end in FEWER_ENDS.get(kind, ENDS):
            number += 1
            play = Play(kind, folder / f"{story.__name__}-{end}", end, plain.expected or {})
            try:
                play.play(story)
                assert play.child is not None or plain.expected is None, "nobody forked"
                values, files = play.result()
                assert values == result[0], "the parent came to other values"
                assert files.keys() == result[1].keys(), f"files: {sorted(files)}, not {sorted(result[1])}"
            except Exception as error:  # noqa: BLE001 - told at the end
                failures += 1
                print(f"{kind}, {story.__name__}, {end}: {type(error).__name__}: {error}")
    for more in (beside_a_thread, in_each_call) if kind in STORES else (array_in_each_call,):
        try:
            more(kind, folder / more.__name__)
        except Exception:  # noqa: BLE001 - told at the end
            failures += 1
            print(f"{kind}, {more.__name__}: {traceback.format_exc()}")
    return failures


if __name__ == "__main__":
    sys.exit(main())
