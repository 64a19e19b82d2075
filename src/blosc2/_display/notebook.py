"""The HTML that notebooks show: one frame for all objects, tables, and a bar of bytes.

Colours are those of the notebook, with translucent grey over them, so that light and dark themes both fit. Nothing is
loaded, and no script runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from blosc2._display.units import human_size, printable

_STYLE = """<style>
.blosc2-view{font-size:90%;line-height:1.5;color:inherit}
.blosc2-view h4{margin:0 0 .4em;font-size:105%}
.blosc2-view table{border-collapse:collapse;margin:0}
.blosc2-view th,.blosc2-view td{text-align:left;padding:.1em .8em .1em 0;border:0;background:none;vertical-align:top}
.blosc2-view th{font-weight:600}
.blosc2-view .parts{display:flex;flex-wrap:wrap;gap:2em;align-items:flex-start}
.blosc2-view .bar{display:flex;height:1em;width:24em;max-width:100%;margin:.4em 0;background:rgba(127,127,127,.15)}
.blosc2-view .bar span{display:block;height:100%;min-width:1px;border-right:1px solid rgba(127,127,127,.6)}
.blosc2-view ul{list-style:none;margin:0;padding-left:1.2em}
.blosc2-view .tree>ul{padding-left:0}
.blosc2-view summary{cursor:pointer}
.blosc2-view .note{opacity:.75}
.blosc2-view code{background:none;color:inherit;padding:0}
.blosc2-view svg{max-width:100%;height:auto}
</style>"""

# Distinct in light and dark themes, and for people who see few colours.
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377")
_OTHERS = "#999999"


def escaped(text: object) -> str:
    """A text of a file, or of a user, as HTML in one line."""
    return escape(printable(str(text)))


def page(title: str, *parts: str) -> str:
    """All that is shown of one object. The parts are HTML already, the title is not."""
    heading, inner = escaped(title), "".join(parts)
    return f'<div class="blosc2-view" role="group" aria-label="{heading}">{_STYLE}<h4>{heading}</h4>{inner}</div>'


def definition_table(rows: Iterable[tuple[str, object]]) -> str:
    """A table of names and values."""
    inner = "".join(f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(value)}</td></tr>' for name, value in rows)
    return f"<table><tbody>{inner}</tbody></table>"


def byte_bar(parts: Iterable[tuple[str, int]], total: int) -> str:
    """A bar of where the bytes are, with the largest parts named and the others together; "" if there are none."""
    largest = sorted((part for part in parts if part[1] > 0), key=lambda part: -part[1])[: len(_COLOURS)]
    if not largest or total <= 0:
        return ""
    shown = [(name, size, colour) for (name, size), colour in zip(largest, _COLOURS, strict=False)]
    rest = total - sum(size for _, size, _ in shown)
    if rest > 0:
        shown.append(("others", rest, _OTHERS))
    pieces, legend = [], []
    for name, size, colour in shown:
        share = 100 * size / total
        text = f"{name}: {human_size(size)}, {share:.0f} %"
        pieces.append(f'<span style="width:{share:.2f}%;background:{colour}" title="{escaped(text)}"></span>')
        legend.append(f'<span style="color:{colour}" aria-hidden="true">&#9632;</span> {escaped(text)}')
    return (
        f'<div class="bar" role="img" aria-label="{escaped(", ".join(f"{n} {human_size(s)}" for n, s, _ in shown))}">'
        f'{"".join(pieces)}</div><div class="note">{" &ensp; ".join(legend)}</div>'
    )
