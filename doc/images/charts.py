"""Make the charts of the pages from the tables that stand beside them: python doc/images/charts.py"""

from __future__ import annotations

import math
import re
from pathlib import Path

from drawing import WIDTH, Drawing, versions, write

DOC = Path(__file__).resolve().parents[1]
COLOURS = ("one", "two", "muted", "ink")
Rows = list[tuple[str, list[str]]]


def table(page: str, first: str) -> tuple[list[str], Rows]:
    """The columns and rows of the table of a page whose first line begins so."""
    lines = (DOC / page).read_text("utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(first))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return rows[0][1:], [(row[0], row[1:]) for row in rows[2:]]


def number(cell: str) -> float:
    """The first number of a cell, or NaN where it is empty."""
    found = re.match(r"[\d.,]*\d", cell)
    return float(found[0].replace(",", "")) if found else math.nan


def bars(d: Drawing, unit: str, names: list[str], rows: Rows, *, ours: int = 1) -> None:
    """A bar for each row and column, from the top; the first `ours` rows or columns are of this package."""
    left, top, thick = 24.0, 30.0, 17
    most = max(number(cell) for _, cells in rows for cell in cells if cell)
    for column, name in enumerate(names if len(names) > 1 else []):
        d.box(left, top - 12, 14, 14, fill=COLOURS[column], line="none", radius=2)
        d.text(left + 20, top, name, size=14)
        left += 34 + 7.8 * len(name)
    y = top + (24 if len(names) > 1 else 0)
    d.text(WIDTH - 24, y, unit, size=13, colour="muted", anchor="end")
    for position, (name, cells) in enumerate(rows):
        d.text(24, y, name, size=14)
        y += 8
        for column, cell in enumerate(cells):
            if not cell:
                continue
            colour = COLOURS[column] if len(names) > 1 else ("one" if position < ours else "muted")
            width = max(2, number(cell) / most * (WIDTH - 160))
            d.box(24, y, width, thick - 3, fill=colour, line="none", radius=2)
            d.text(30 + width, y + 12, re.sub(r" \(.*", "", cell), size=13, colour="muted")
            y += thick
        y += 20


def height(names: list[str], rows: Rows) -> int:
    """What a chart of bars is high."""
    count = sum(bool(cell) for _, cells in rows for cell in cells)
    return 26 + 17 * count + 28 * len(rows) + (24 if len(names) > 1 else 0)


def curves(d: Drawing, axis: str, names: list[str], rows: Rows) -> None:
    """A curve for each column over the number that begins each row; both axes are logarithmic."""
    counts = [number(name) for name, _ in rows]
    found = [number(cell) for _, cells in rows for cell in cells if cell]
    low, high = math.floor(math.log10(min(found))), math.ceil(math.log10(max(found)))
    left, right, top, bottom = 74, 430, 44, 270

    def place(count: float, value: float) -> tuple[float, float]:
        across = (math.log10(count) - math.log10(counts[0])) / (math.log10(counts[-1]) - math.log10(counts[0]))
        return left + across * (right - left), bottom - (math.log10(value) - low) / (high - low) * (bottom - top)

    d.text(24, 24, axis, size=14, colour="muted")
    for power in range(low, high + 1):
        y = place(counts[0], 10.0**power)[1]
        d.path((left, y), (right, y), colour="plain", thick=1)
        d.text(left - 8, y + 5, f"{10.0**power:g}", size=13, anchor="end", colour="muted")
    for count in counts:
        d.text(place(count, 1)[0], bottom + 20, f"{count:,.0f}", size=12, anchor="middle", colour="muted")
    d.text((left + right) / 2, bottom + 42, "arrays in the file", size=14, anchor="middle", colour="muted")
    taken: list[float] = []
    for column, name in enumerate(names):
        points = [
            place(count, number(cells[column])) for count, (_, cells) in zip(counts, rows, strict=True) if cells[column]
        ]
        d.path(*points, colour=COLOURS[column], thick=3 if column == 0 else 2)
        for x, y in points:
            d.dot(x, y, COLOURS[column])
        x, y = points[-1]
        while near := [other for other in taken if abs(y - other) < 18]:  # apart from the names that stand there
            y += 3 if y >= near[0] else -3
        taken.append(y)
        d.text(x + 10, y + 5, name, size=14, colour=COLOURS[column], bold=column == 0)


#: The name of a chart: its title, its page, how its table begins, its unit, and how many rows are of this package.
BARS = {
    "cold": ("Cold patches from a local disk", "guide/cold.md", "| time in ms", "ms", 1),
    "remote": ("Reads from a server 20 ms away", "guide/remote.md", "| read |", "ms", 1),
    "samples": ("Samples a second of two workers", "guide/pytorch.md", "| two workers", "samples a second", 2),
    "patches": ("Times of 64 random patches", "guide/reading.md", "| side of the patches", "ms", 1),
    "threads": ("Patches a second of threads and processes", "guide/threads.md", "| | patches", "patches a second", 3),
}


def turned(names: list[str], rows: Rows) -> tuple[list[str], Rows]:
    """A table with its columns for rows."""
    return [name for name, _ in rows], [(name, [cells[at] for _, cells in rows]) for at, name in enumerate(names)]


def pictures() -> dict[str, str]:
    """All charts, by the names of their files."""
    made: dict[str, str] = {}
    for name, (title, page, first, unit, ours) in BARS.items():
        names, rows = table(page, first)
        if name == "patches":
            names, rows = [names[2], names[1], names[0]], [(f"side {side}", cells[::-1]) for side, cells in rows]
        if name == "cold":
            rows = [row for row in rows if "normal" not in row[0]]
            names, rows = turned(names, rows)
        made |= versions(
            name, title, height(names, rows),
            lambda d, names=names, rows=rows, unit=unit, ours=ours: bars(d, unit, names, rows, ours=ours),
        )  # fmt: skip
    names, rows = table("design/measurements/opening.md", "| arrays |")
    made |= versions(
        "opening", "Time to open a file and read one array", 324,
        lambda d: curves(d, "ms to open a file and read one of its arrays", names, rows),
    )  # fmt: skip
    return made


if __name__ == "__main__":
    write(pictures())
