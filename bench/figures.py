"""Medians, spreads and ratios of interleaved samples, as JSON and as a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any


def spread(samples: list[float]) -> dict[str, Any]:
    """Median and quartiles, with the samples themselves."""
    if not samples:
        return {"samples": []}
    if len(samples) == 1:
        return {"median": samples[0], "q1": samples[0], "q3": samples[0], "samples": samples}
    q1, median, q3 = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": median, "q1": q1, "q3": q3, "samples": samples}


def seconds(ns: float) -> str:
    """A time with three digits and its unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def _time(figure: dict[str, Any]) -> str:
    if "median" not in figure:
        return "failed"
    half = (figure["q3"] - figure["q1"]) / 2
    return f"{seconds(figure['median'])} ±{100 * half / figure['median']:.0f}%"


def _ratio(row: dict[str, Any]) -> str:
    ratio = row["ratio"]
    if "median" not in ratio:
        return "-"
    return f"{ratio['median']:.3g} ({ratio['q1']:.3g}..{ratio['q3']:.3g})"


def table(rows: Iterable[dict[str, Any]]) -> str:
    """The rows as text: what, both times with half their interquartile range, the ratio with its quartiles."""
    lines = [["job", "this package", "reference", "ratio (quartiles)", "goal"]]
    for row in rows:
        goal = row.get("goal")
        met = "" if goal is None else f">= {goal:g}" + ("" if row.get("met", True) else "  MISSED")
        lines.append([row["name"], _time(row["ours"]), _time(row["upstream"]), _ratio(row), met])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(text)
