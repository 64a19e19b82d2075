"""Checks, or salvages, one file a request and says what came of it and what that cost."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import blosc2
from fixture_kit import limits

GIB = 1 << 30


def main() -> None:
    blosc2.set_nthreads(1)
    with tempfile.TemporaryDirectory() as folder:
        limits.limit_address_space(GIB)
        for number, line in enumerate(sys.stdin):
            request = json.loads(line)
            memory = limits.peak_memory()
            report = blosc2.check(request["path"])
            answer = {
                "findings": [[one.key, one.offset, one.problem] for one in report],
                "unverified": [one.problem for one in report.unverified],
                "checked": limits.peak_memory() - memory,
                "recovered": None,
                "error": None,
            }
            if request["salvage"]:
                out = Path(folder) / f"{number}{Path(request['path']).suffix or '.b2nd'}"
                try:
                    answer["recovered"] = blosc2.salvage(request["path"], out).recovered
                    again = blosc2.check(out)
                    answer["again"] = [str(one) for one in again]
                except ValueError as error:
                    answer["error"] = f"{type(error).__name__}: {error}"
            answer["memory"] = limits.peak_memory() - memory
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
