"""Drawings as SVG, each in a light and a dark version: shapes, text and arrows in the colours of the site."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
#: What a picture is wide. Small, so that its text can be read on a phone.
WIDTH = 560
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


class Palette(NamedTuple):
    """The colours of one version. Text on each fill has a contrast of 4.5 or more."""

    back: str
    ink: str
    muted: str
    line: str
    plain: str
    one: str
    one_fill: str
    two: str
    two_fill: str


PALETTES = {
    "light": Palette("#ffffff", "#1f2328", "#57606a", "#8c959f", "#f0f3f6", "#0b62a8", "#cfe4f7", "#a04a00", "#fde3c8"),
    "dark": Palette("#14181e", "#e6edf3", "#a5b1bd", "#6e7a87", "#232b35", "#79bdff", "#173d61", "#ffb169", "#553310"),
}


class Drawing:
    """A picture under way; lengths are pixels, from the upper left corner."""

    def __init__(self, height: int, palette: Palette, title: str) -> None:
        self.height, self.palette, self._title = height, palette, title
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, *, fill: str = "plain", line: str = "line",
            thick: float = 1, radius: float = 4, dashed: bool = False) -> None:  # fmt: skip
        """A rectangle; colours are names of the palette, or "none"."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"'
            f' fill="{self._colour(fill)}" stroke="{self._colour(line)}" stroke-width="{thick:g}"{dash}/>'
        )

    def text(self, x: float, y: float, words: str, *, size: float = 15, colour: str = "ink", anchor: str = "start",
             bold: bool = False) -> None:  # fmt: skip
        """Words whose base line begins at a place, or ends or has its middle there."""
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{self._colour(colour)}"'
            f' text-anchor="{anchor}"{weight}>'
            f"{escape(words)}</text>"
        )

    def label(self, x: float, y: float, width: float, height: float, *lines: str, fill: str = "plain",
              line: str = "line", size: float = 15) -> None:  # fmt: skip
        """A box with words in its middle; the first line is bold where there are more."""
        self.box(x, y, width, height, fill=fill, line=line)
        step = size * 1.25
        top = y + height / 2 - step * (len(lines) - 1) / 2 + size * 0.35
        for number, words in enumerate(lines):
            self.text(x + width / 2, top + step * number, words, size=size, anchor="middle",
                      bold=number == 0 and len(lines) > 1)  # fmt: skip

    def path(self, *points: tuple[float, float], colour: str = "line", thick: float = 1.5, arrow: bool = False,
             dashed: bool = False) -> None:  # fmt: skip
        """A line through points, with an arrow at its end if asked."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        way = " ".join(f"{x:g},{y:g}" for x, y in points)
        stroke = self._colour(colour)
        self._parts.append(f'<polyline points="{way}" fill="none" stroke="{stroke}" stroke-width="{thick:g}"{dash}/>')
        if arrow:
            (x0, y0), (x1, y1) = points[-2:]
            length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
            dx, dy = (x1 - x0) / length, (y1 - y0) / length
            tip = [
                (x1, y1),
                (x1 - 9 * dx - 4.5 * dy, y1 - 9 * dy + 4.5 * dx),
                (x1 - 9 * dx + 4.5 * dy, y1 - 9 * dy - 4.5 * dx),
            ]
            corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in tip)
            self._parts.append(f'<polygon points="{corners}" fill="{stroke}"/>')

    def dot(self, x: float, y: float, colour: str, radius: float = 4) -> None:
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{self._colour(colour)}"/>')

    def svg(self) -> str:
        """The picture as a file."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height}"'
            f' viewBox="0 0 {WIDTH} {self.height}" font-family="{FONT}">\n<title>{escape(self._title)}</title>\n'
            f'<rect width="{WIDTH}" height="{self.height}" rx="8" fill="{self.palette.back}"/>\n'
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )

    def _colour(self, name: str) -> str:
        return "none" if name == "none" else getattr(self.palette, name)


def versions(name: str, title: str, height: int, draw: Callable[[Drawing], None]) -> dict[str, str]:
    """Both versions of a picture, by the names of their files."""
    made = {}
    for version, palette in PALETTES.items():
        drawing = Drawing(height, palette, title)
        draw(drawing)
        made[f"{name}-{version}.svg"] = drawing.svg()
    return made


def write(pictures: dict[str, str]) -> None:
    for name, text in pictures.items():
        (HERE / name).write_text(text, "utf-8")
