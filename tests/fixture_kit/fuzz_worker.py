"""Damages one file again and again and reads it each time; one line an outcome, so that a crash has a case."""

from __future__ import annotations

import gc
import json
import random
import sys
from pathlib import Path
from typing import Any

import blosc2
from fixture_kit import limits
from fixture_kit.drain import Drain
from fixture_kit.mutation import mutate

GIB = 1 << 30
# reading more than this of an array that damage made huge would only take time
WHOLE_LIMIT = 2 << 20


def outcome(path: str, mmap_mode: str | None) -> dict[str, Any]:
    """What reading gave, as JSON."""
    got = Drain(path, mmap_mode, whole_limit=WHOLE_LIMIT).run()
    error = got.error
    return {
        "step": got.step,
        "key": got.key,
        "digest": got.digest,
        "facts": got.facts,
        "error": None if error is None else [f"{t.__module__}.{t.__qualname__}" for t in type(error).__mro__],
        "message": None if error is None else str(error)[:400],
    }


def main() -> None:
    blosc2.set_nthreads(1)
    limited = False
    for line in sys.stdin:
        request = json.loads(line)
        path, mmap_mode = request["path"], request["mmap_mode"]
        targets = sorted(p for p in Path(path).rglob("*") if p.is_file()) if Path(path).is_dir() else [Path(path)]
        whole = {target: target.read_bytes() for target in targets}
        before = outcome(path, mmap_mode)
        if not limited:  # after the first reading, which loads what is loaded lazily
            limits.limit_address_space(GIB)
            limited = True
        gc.collect()  # an error that was kept holds what its causes held
        usage = limits.descriptors(), limits.mappings()
        print(json.dumps(before), flush=True)
        for seed in range(request["seed"], request["seed"] + request["cases"]):
            target = random.Random(seed).choice(targets)
            data = whole[target]
            damaged, at, what = mutate(data, seed) if data else (data, 0, "nothing")
            target.write_bytes(damaged)
            answer = outcome(path, mmap_mode)
            target.write_bytes(data)
            answer |= {"seed": seed, "at": at, "what": f"{target.name}: {what}", "same": damaged == data}
            answer["cut"] = len(damaged) < len(data) and data.startswith(damaged)
            print(json.dumps(answer), flush=True)
        gc.collect()
        after = limits.descriptors(), limits.mappings()
        print(json.dumps({"left_open": [b - a for a, b in zip(usage, after, strict=True)]}), flush=True)


if __name__ == "__main__":
    main()
