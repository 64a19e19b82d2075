"""Fuzz the package: `python tests/fuzz/run.py --seconds 120 --seed 7`; README.md says how to read what it says."""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import os
import random
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "fuzz"
    import fuzz  # noqa: F401 - so that the relative imports below have their package

from . import cases, samples, targets
from .recorder import Failure

#: Seconds of processor time that one call may take, and seconds of any kind.
HANG = 10.0
STUCK = 60.0
BATCH = 150
# Address space beyond what the process has at the start: what asks for more gets a MemoryError, which is a failure.
ADDRESS_SPACE = 1 << 30
_SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "") or "tsan" in os.environ.get("LD_PRELOAD", "")


class Slot:
    """Memory that a child and its parent share: which case, which call, since when."""

    def __init__(self) -> None:
        self._map = mmap.mmap(-1, 4096)

    def note(self, case: int, call: int, what: str) -> None:
        text = what.encode("utf-8", "replace")[:3000]
        self._map[: 28 + len(text)] = struct.pack("<qqdI", case, call, time.process_time(), len(text)) + text

    def get(self) -> tuple[int, int, float, str]:
        case, call, start, length = struct.unpack_from("<qqdI", self._map, 0)
        return case, call, start, self._map[28 : 28 + length].decode("utf-8", "replace")


def workplace() -> Path:
    """A folder in memory where there is one."""
    root = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="blosc2-fuzz-", dir=root))


class Run:
    """Plays cases in children, a batch each, and keeps what failed."""

    def __init__(
        self, seed: int, folder: Path, *, keep: Path | None, batch: int = BATCH, hang: float = HANG, small: float = 6
    ) -> None:
        self.seed, self.folder, self.keep, self.batch = seed, folder, keep, batch
        self.hang, self.small = hang, small
        self.samples: list[samples.Sample] = []
        self.slot = Slot()
        self.done = 0
        self.calls = self.errors = 0
        self.found: dict[str, dict[str, Any]] = {}
        self.slowest: tuple[float, str] = (0.0, "")
        self.largest: tuple[int, str] = (0, "")
        self.stopping = False

    # ------------------------------------------------------------------ children
    def play_all(self, wanted: Iterator[tuple[int, cases.Case | None]]) -> None:
        """Play cases until there are no more; after a failure the rest goes on in a new child."""
        pending: list[tuple[int, cases.Case | None]] = []
        while not self.stopping:
            while len(pending) < self.batch:
                one = next(wanted, None)
                if one is None:
                    break
                pending.append(one)
            if not pending:
                return
            done, failure = self.play_batch(pending)
            if failure is not None:
                done = min(done, len(pending) - 1)  # what is left open is only seen at the end
                number, case = pending[done]
                self.report(number, case or self.make(number), failure)
                done += 1
            self.done += done
            del pending[:done]

    def make(self, number: int) -> cases.Case:
        """The case of a number; made in a child, as even making one may die of what it finds."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with os.fdopen(writing, "wb") as pipe:
                    pipe.write(self._make(number).dump())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            data = pipe.read()
        os.waitpid(child, 0)
        if not data:
            return cases.Case(samples.Sample("not made", ".b2nd", {"": b""}), "read", 0, "making the case died")
        return cases.parse_case(data)

    def _make(self, number: int) -> cases.Case:
        return cases.make_case(self.seed, number, self.samples)

    def play_batch(self, pending: list[tuple[int, cases.Case | None]]) -> tuple[int, dict[str, Any] | None]:
        """How many went well, and what came of the next one."""
        reading, writing = os.pipe()
        errors = self.folder / "stderr"
        self.slot.note(0, -2, "start")
        child = os.fork()
        if child == 0:
            os.close(reading)
            self._be_child(pending, writing, errors)
        os.close(writing)
        answers, hung = b"", ""
        try:
            while True:
                ready, _, _ = select.select([reading], [], [], 0.5)
                if ready:
                    piece = os.read(reading, 1 << 16)
                    if not piece:
                        break
                    answers += piece
                hung = hung or self._hangs(child)
                if hung:
                    os.kill(child, signal.SIGABRT)
                    time.sleep(0.3)
                    os.kill(child, signal.SIGKILL)
                    break
        finally:
            os.close(reading)
            _, status = os.waitpid(child, 0)
        return self._outcome(answers, status, hung, errors)

    def _hangs(self, child: int) -> str:
        case, call, start, what = self.slot.get()
        now = time.monotonic()
        if (case, call) != getattr(self, "_last", None):
            self._last, self._since = (case, call), now
            return ""
        scale = 6 if _SANITIZED else 1
        try:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") - start
        if call == -2:
            return ""
        if spent > self.hang * scale or now - self._since > STUCK * scale:
            return f"{what}: {spent:.1f} s of the processor, {now - self._since:.1f} s in all"
        return ""

    def _outcome(self, answers: bytes, status: int, hung: str, errors: Path) -> tuple[int, dict[str, Any] | None]:
        done, failure = 0, None
        for line in answers.splitlines():
            try:
                answer = json.loads(line)
            except ValueError:
                break
            if "failure" in answer:
                failure = answer["failure"]
                break
            done += 1
            self.calls += answer["calls"]
            self.errors += answer["errors"]
            self.slowest = max(self.slowest, tuple(answer["slowest"]))
            self.largest = max(self.largest, tuple(answer["largest"]))
        said = errors.read_text(errors="replace") if errors.exists() else ""
        _, _, _, what = self.slot.get()
        if hung:
            failure = {"kind": "hang", "what": what, "text": f"{hung}\n{said[-6000:]}"}
        elif failure is None and os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            failure = {"kind": f"killed by {name}", "what": what, "text": said[-12000:]}
        elif failure is None and os.WEXITSTATUS(status):
            failure = {"kind": "sanitizer" if "Sanitizer" in said or "runtime error" in said else "the child ended",
                       "what": what, "text": said[-12000:]}  # fmt: skip
        elif failure is None and ("runtime error:" in said or "WARNING: ThreadSanitizer" in said):
            failure = {"kind": "sanitizer", "what": what, "text": said[-12000:]}
            done = max(0, done - 1)
        return done, failure

    def _be_child(self, pending: list[tuple[int, cases.Case | None]], writing: int, errors: Path) -> None:
        """Plays cases and ends the process; never returns."""
        code = 3
        try:
            log = os.open(errors, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
            os.dup2(log, 2)
            import faulthandler

            faulthandler.enable(all_threads=False)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            folder = self.folder / "files"
            folder.mkdir(exist_ok=True)
            if not _SANITIZED:
                size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (size + ADDRESS_SPACE, size + ADDRESS_SPACE))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            # a disk that fills up is the file's claim, too
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            for number, given in pending[:1]:  # loads what is loaded lazily
                os.write(writing, self._answer(number, given, folder) + b"\n")
            before = cases.held()
            for number, given in pending[1:]:
                os.write(writing, self._answer(number, given, folder) + b"\n")
            after = cases.held()
            if any(late > early + 2 for early, late in zip(before, after)):  # some keep what was used last
                raise Failure("left open", "descriptors and mappings of files", f"{before} and {after} after a batch")
            code = 0
        except Failure as failure:
            text = {"kind": failure.kind, "what": failure.what, "text": failure.text}
            os.write(writing, json.dumps({"failure": text}).encode() + b"\n")
            code = 0
        except BaseException:  # noqa: BLE001 - a fault of the fuzzer, or an error that nobody expects
            traceback.print_exc(limit=-6)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _answer(self, number: int, given: cases.Case | None, folder: Path) -> bytes:
        self.slot.note(number, -1, "making the case")
        case = given or self._make(number)
        rec = cases.play(case, folder, lambda call, what: self.slot.note(number, call, what))
        name = f"{number} {case.play} {case.sample.name}"
        return json.dumps({
            "calls": len(rec.outcomes), "errors": rec.errors,
            "slowest": [round(rec.slowest[0], 3), f"{rec.slowest[1]} ({name})"],
            "largest": [rec.largest[0], f"{rec.largest[1]} ({name})"],
        }).encode()  # fmt: skip

    # ------------------------------------------------------------------ failures
    def report(self, number: int, case: cases.Case, failure: dict[str, Any]) -> None:
        """Say it, once for each kind, and keep a small case of it."""
        key = signature(failure)
        if key in self.found:
            self.found[key]["times"] += 1
            return
        print(f"\nFAILED: case {number} of seed {self.seed}: {failure['kind']}: {failure['what']}\n  {case.what}\n  "
              f"{failure['text'][:3500]}", flush=True)  # fmt: skip
        small = smaller(self, case, failure)
        digest = hashlib.sha256(key.encode()).hexdigest()[:10]
        path = (self.keep or Path(tempfile.gettempdir())) / f"{failure['kind'].replace(' ', '-')}-{digest}.case"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(small.dump())
        print(
            f"  smallest: {small.sample.size} bytes; again with: python tests/fuzz/run.py --replay {path}", flush=True
        )
        self.found[key] = {**failure, "times": 1, "case": str(path), "number": number}


def signature(failure: dict[str, Any]) -> str:
    """What two failures of one cause have in common: the kind, the line of code, no numbers."""
    import re

    text = failure["text"]
    lines = re.findall(r"\((\S+\.py:\d+(?: \S+\.pyx?:\d+| \S+\.py:\d+)*)\)", text)
    if "Traceback" in text:
        lines = [text.strip().splitlines()[-1]]
    summary = re.findall(r"SUMMARY: .*|runtime error: .*", text)
    where = summary[0] if summary else (lines[-1].split()[-3:] if lines else failure["what"])
    kind = text.split(":")[0] if failure["kind"] == "undocumented error" else failure["kind"]
    return re.sub(r"0x[0-9a-f]+|\d+", "N", f"{kind} {where}") if not lines else f"{kind} {where}"


def smaller(run: Run, case: cases.Case, failure: dict[str, Any]) -> cases.Case:
    """A case that fails in the same way with fewer bytes; or of a file that was sound, with fewer damaged ones."""
    wanted, until = signature(failure), time.monotonic() + run.small

    def fails(case: cases.Case) -> bool:
        if time.monotonic() > until:
            return False
        _, failure = run.play_batch([(-1, case)])
        return failure is not None and signature(failure) == wanted

    if run.small <= 0:
        return case
    if not fails(case):
        print("  (not seen again when played alone)", flush=True)
        return case
    sound = case.sample.sound
    for name, data in case.sample.files.items():
        step = len(data) // 2 if not sound or len(sound) == len(data) else 0
        while step >= (1 if sound else 16):
            at = 0
            while at < len(case.sample.files[name]):
                now = case.sample.files[name]
                new = now[:at] + sound[at : at + step] + now[at + step :]
                other = case._replace(sample=case.sample._replace(files={**case.sample.files, name: new}))
                if new != now and fails(other):
                    case = other
                else:
                    at += step
            step //= 4
    return case


def numbers(run: Run, seconds: float, most: int) -> Iterator[tuple[int, None]]:
    """Numbers of cases until the time is over."""
    until = time.monotonic() + seconds
    number = 0
    last = time.monotonic()
    while time.monotonic() < until and number < most:
        if number and time.monotonic() - last > 30:
            last = time.monotonic()
            print(f"... {run.done} cases, {len(run.found)} kinds of failure", flush=True)
        yield number, None
        number += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="how long fresh cases are made")
    parser.add_argument("--cases", type=int, default=1 << 60, help="how many at most")
    parser.add_argument("--seed", type=int, default=None, help="of the random numbers; printed when it is drawn")
    parser.add_argument("--case", type=int, default=None, help="only the case of this number")
    parser.add_argument(
        "--corpus", action="store_true", help="play the committed cases first; with --seconds 0 only these"
    )
    parser.add_argument("--replay", nargs="+", type=Path, help="play these files only")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder for failing cases")
    parser.add_argument("--hang", type=float, default=HANG, help="seconds of the processor that one call may take")
    parser.add_argument("--small", type=float, default=6, help="seconds to make a failing case smaller")
    parser.add_argument("--samples", nargs="+", default=None, help="only seeds with one of these in their names")
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if args.seed is None else args.seed
    folder = workplace()
    import blosc2

    blosc2.set_nthreads(1)
    run = Run(seed, folder, keep=args.keep, hang=args.hang, small=args.small)
    start = time.monotonic()
    try:
        if args.replay:
            given = [case for path in args.replay for case in cases.read_case(path)]
            run.play_all((n, case) for n, case in enumerate(given))
        else:
            print(f"seed {seed}", flush=True)
            run.samples = samples.all_samples()
            if args.corpus:
                replay = [case for path in sorted(samples.CORPUS.glob("*.case")) for case in cases.read_case(path)]
                replay += targets.corpus()
                run.play_all((n, case) for n, case in enumerate(replay))
                print(f"corpus: {run.done} cases", flush=True)
            if args.samples:
                run.samples = [s for s in run.samples if any(part in s.name for part in args.samples)]
            wanted = numbers(run, args.seconds, args.cases) if args.case is None else iter([(args.case, None)])
            if args.seconds > 0:
                run.play_all(wanted)
    except KeyboardInterrupt:
        print("interrupted")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return conclude(run, time.monotonic() - start)


def conclude(run: Run, seconds: float) -> int:
    """Say what came of it."""
    print(f"\n{run.done} cases in {seconds:.0f} s, {run.calls} calls, {run.errors} of them refused")
    print(f"slowest call: {run.slowest[0]} s: {run.slowest[1][:200]}")
    print(f"most memory beyond what was asked for: {run.largest[0] >> 10} KiB: {run.largest[1][:200]}")
    for failure in run.found.values():
        text = failure["text"].strip()
        text = text[-300:] if "Traceback" in text else text[:400]
        print(f"FAILED, {failure['times']} times: {failure['kind']}: {failure['what'][:160]}")
        print(f"   {failure['case']}\n   {text}")
    print("no failures" if not run.found else f"{len(run.found)} kinds of failure; seed {run.seed}")
    return int(bool(run.found))


if __name__ == "__main__":
    sys.exit(main())
