"""Does one thing with a file a request, and says what came of it and how much memory that took."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import blosc2
from fixture_kit import limits

GIB = 1 << 30


def act(request: dict[str, Any]) -> Any:
    path, how = request["path"], request["do"]
    if how == "check":
        return [[one.problem for one in some] for some in (lambda r: (r.findings, r.unverified))(blosc2.check(path))]
    if how == "salvage":
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / ("out" + Path(path).suffix)
            report = blosc2.salvage(path, out, fill=request.get("fill"))
            return [list(report.recovered), str(report), out.stat().st_size]
    found = blosc2.open(path, request.get("mode", "r"), mmap_mode=request["mmap_mode"])
    if how == "vlmeta":
        return len(found.vlmeta[:])
    if how == "repr":
        return repr(found.vlmeta)
    return eval(how, {"x": found, "blosc2": blosc2})


def main() -> None:
    blosc2.set_nthreads(1)
    limits.limit_address_space(2 * GIB)
    for line in sys.stdin:
        request = json.loads(line)
        before = limits.forget_peak()
        answer: dict[str, Any] = {"result": None, "error": None, "message": ""}
        try:
            result = act(request)
            answer["result"] = result if isinstance(result, (int, str, list)) else repr(result)[:200]
            del result
        except (ValueError, RuntimeError, LookupError, OSError, MemoryError) as error:
            answer["error"], answer["message"] = type(error).__name__, str(error)
            del error
        answer["memory"] = limits.status("VmHWM") - before
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
