"""What `loaders.py` measures, in the environment of either package."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def private(pid: int | str = "self") -> tuple[int, int]:
    """Bytes of memory of a process alone: what it has written, and all of it (USS), unchanged pages of files included.

    The latter are in the system's cache whoever maps the file, and count here if only one process does.
    """
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    found = {
        name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in text.splitlines()[1:])
    }
    return found["Private_Dirty"], found["Private_Dirty"] + found["Private_Clean"]


def children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()]


def cpu() -> float:
    """Seconds of a processor that this process and its children have taken."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    running = 0.0
    for pid in children():
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        running += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return sum(one.ru_utime + one.ru_stime for one in used) + running


def checksum(batch: dict[str, Any]) -> int:
    """A number that does not depend on the order of samples: of all bits of patches, of the labels of images."""
    if "label" in batch:
        return int(batch["label"].sum()) + int(batch["image"].sum())
    import torch

    scan, mask = torch.as_tensor(batch["scan"]), torch.as_tensor(batch["mask"])
    return int(scan.view(torch.int32).sum(dtype=torch.int64)) + 7 * int(mask.sum(dtype=torch.int64))


def measured(
    loader: Callable[[], Iterator[Any]], samples: int, epochs: int, workers: int, start: float
) -> dict[str, float]:
    """Figures of some epochs, after one that fills the caches."""
    before = private()
    total, first, cold = 0, 0.0, time.perf_counter()
    for batch in loader():
        first = first or time.perf_counter() - start
        total += checksum(batch)
    cold = samples / (time.perf_counter() - cold)
    begin, used = time.perf_counter(), cpu()
    unique = [0.0, 0.0]
    for epoch in range(epochs):
        for number, _batch in enumerate(loader()):
            if number == 3 and epoch == epochs - 1 and workers:
                pids = children()
                if pids:
                    unique = [sum(some) / len(pids) for some in zip(*map(private, pids), strict=True)]
                else:
                    unique = [max(now - then, 0) / workers for now, then in zip(private(), before, strict=True)]
    seconds, used = time.perf_counter() - begin, cpu() - used
    return {"rate": samples * epochs / seconds, "us": used / (samples * epochs) * 1e6, "first": first,
            "cold": cold, "unique": unique[0] / 1e6, "uss": unique[1] / 1e6, "sum": total}  # fmt: skip


def forget_pages(folder: Path) -> None:
    """Have the system drop the pages of all files."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
