"""Reads one file a request and says where it failed, how, and what that cost."""

from __future__ import annotations

import json
import sys

import blosc2
from fixture_kit import limits
from fixture_kit.drain import Drain

GIB = 1 << 30


def main() -> None:
    blosc2.set_nthreads(1)
    # the first reading of a good file brings in what is loaded lazily, which no file is to be blamed for
    for warm in sys.argv[1:]:
        Drain(warm, None).run()
    limits.limit_address_space(GIB)
    for line in sys.stdin:
        request = json.loads(line)
        memory, space = limits.peak_memory(), limits.peak_address_space()
        outcome = Drain(request["path"], request["mmap_mode"]).run()
        error = outcome.error
        answer = {
            "step": outcome.step,
            "key": outcome.key,
            "kind": outcome.kind,
            "error": None if error is None else [f"{t.__module__}.{t.__qualname__}" for t in type(error).__mro__],
            "message": None if error is None else str(error),
            "memory": limits.peak_memory() - memory,
            "space": limits.peak_address_space() - space,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
