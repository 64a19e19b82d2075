"""What `loaders.py` measures, in the environment of either package."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def private(pid: int | str = "self") -> tuple[int, int, int]:
    """Bytes of memory of a process alone: what it has written, and all of it (USS), unchanged pages of files included.

    The latter are in the system's cache whoever maps the file, and count here if only one process does. The third
    number is the shared memory that it has mapped, for batches that it makes and hands over; the others are without it.
    """
    written = whole = shared = 0
    is_shared = False
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        words = line.split()
        if "-" in words[0]:
            is_shared = len(words) > 5 and words[1].endswith("s") and words[5].startswith("/dev/shm/")
        elif is_shared:
            shared += int(words[1]) << 10 if words[0] == "Rss:" else 0
        elif words[0] in ("Private_Dirty:", "Private_Clean:"):
            whole += int(words[1]) << 10
            written += int(words[1]) << 10 if words[0] == "Private_Dirty:" else 0
    return written, whole, shared


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
    unique = [0.0, 0.0, 0.0]
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
            "cold": cold, "unique": unique[0] / 1e6, "uss": unique[1] / 1e6, "shared": unique[2] / 1e6,
            "sum": total}  # fmt: skip


def forget_pages(folder: Path) -> None:
    """Have the system drop the pages of all files."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
