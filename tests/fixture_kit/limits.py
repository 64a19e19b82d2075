"""What a process uses, and limits on it, where the platform says."""

from __future__ import annotations

import sys
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

LINUX = sys.platform.startswith("linux")


def status(field: str) -> int:
    """A field of this process's status in bytes, 0 where there is none; Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


def peak_memory() -> int:
    """The most bytes that were ever resident, 0 where unknown."""
    if resource is None:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_address_space() -> int:
    """The most bytes of address space so far, 0 where unknown: memory that was asked for and never touched counts."""
    return status("VmPeak") if LINUX else 0


def limit_address_space(more: int) -> None:
    """Let the process grow by `more` bytes from here, and not beyond."""
    if LINUX and resource is not None:
        limit = status("VmSize") + more
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def descriptors() -> int:
    """How many descriptors are open."""
    return len(list(Path("/proc/self/fd").iterdir())) if LINUX else 0


def mappings(path: str | None = None) -> int:
    """How many mappings of a file there are, or of any file."""
    if not LINUX:
        return 0
    real = None if path is None else str(Path(path).resolve())
    lines = Path("/proc/self/maps").read_text().splitlines()
    names = [line.split(maxsplit=5)[5] if len(line.split(maxsplit=5)) == 6 else "" for line in lines]
    return sum(name == real if real else name.startswith("/") for name in names)


def forget_peak() -> int:
    """Count the peak of resident memory, "VmHWM", anew from here; what is resident now. 0 where unknown."""
    if not LINUX:
        return 0
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")
