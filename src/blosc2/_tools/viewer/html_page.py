"""One HTML page of a store or an array that needs nothing else: it can be sent, and runs no script."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any

from blosc2 import _display
from blosc2._arrays import check_dtype, decoded_bytes, index_text, read_picture
from blosc2._display import Node
from blosc2._stores import Store, has_leaf, outline
from blosc2._tools.viewer.values import Page, attributes, item_text, properties, statistics_of_items
from blosc2.ndarray import NDArray

#: How many lines the tree has, how many of them in one group, and how deep it is.
MOST_NODES, MOST_IN_GROUP, DEPTH = 2000, 100, 30
#: How many arrays have a section of their own, how many bytes all pictures have, and how many are decoded for one, and
#: for all.
MOST_ARRAYS, PICTURE_BYTES, DECODED_ONCE, DECODED = 60, 8 << 20, 32 << 20, 512 << 20
_SIDE = 320

# Whatever is in the page, a browser loads nothing for it, and runs nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

_STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1b1b1b;--soft:#595959;--line:#c8c8c8;--link:#0b57a4;--raised:#f5f5f5}
@media(prefers-color-scheme:dark){:root{--back:#141414;--text:#ececec;--soft:#b0b0b0;--line:#454545;--link:#8ab8ff;
--raised:#202020}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem 1.5rem;background:var(--back);color:var(--text);
font:16px/1.5 system-ui,sans-serif}
h1,h2,h3,td,code,a,p,figcaption{overflow-wrap:anywhere}
h1{font-size:1.6rem}h2{font-size:1.25rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1rem 0 .25rem}
a{color:var(--link)}
a:focus-visible,summary:focus-visible{outline:3px solid var(--link);outline-offset:2px}
ul{list-style:none;margin:0;padding-left:1.2rem}
nav>ul{padding-left:0}
summary{cursor:pointer}
table{border-collapse:collapse}
th,td{text-align:left;vertical-align:top;padding:.1rem 1rem .1rem 0}
th{font-weight:600}
section{border-top:1px solid var(--line)}
.parts{display:flex;flex-wrap:wrap;gap:1rem 2.5rem;align-items:flex-start}
.note,figcaption{color:var(--soft)}
figure{margin:.5rem 0;max-width:100%}
img{image-rendering:pixelated;min-width:min(16rem,100%);max-width:100%;height:auto;border:1px solid var(--line);
background:var(--raised)}
svg{max-width:100%;height:auto}
@media print{details>*{display:block}}
"""


def web_page(found: Any, name: str, key: str = "") -> str:
    """A page of an open store of this name, its tree below a key and first arrays; or of the one array there."""
    budget = SimpleNamespace(decoded=DECODED, stored=PICTURE_BYTES)  # what pictures may still cost
    title = f"{name}{key}"
    if not isinstance(found, Store) or has_leaf(found, key):
        return _page(title, _leaf_section(found, key, title, budget))
    root = outline(found, key, DEPTH, MOST_NODES, MOST_IN_GROUP)
    links = {leaf: f"#leaf-{at}" for at, leaf in enumerate(islice(_leaves(root, key), MOST_ARRAYS))}
    sections = "".join(_leaf_section(found, leaf, leaf, budget, link[1:]) for leaf, link in links.items())
    left = (root.leaves or 0) - len(links)
    note = (
        f'<p class="note">{_display.number(left, "more leaf has", "more leaves have")} no section on this page.</p>'
        if left > 0
        else ""
    )
    group = found[key] if key and found._hidden_name else found
    rows = [("kind", "group" if key else type(found).__name__), ("contents", root.summary())]
    head = _with_attributes(_display.definition_table(rows), group)
    shown = _display.html_list(root, key, links) or "<p>It is empty.</p>"
    tree = f'<h2 id="tree">Tree</h2><nav aria-labelledby="tree">{shown}</nav>'
    return _page(title, head + tree + note + sections)


def _page(title: str, body: str) -> str:
    heading = _display.escaped(title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{heading}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{heading}</h1>{body}</main></body></html>\n"
    )


# ------------------------------------------------------------------ the tree
def _leaves(node: Node, path: str) -> Iterator[str]:
    for child in node.children:
        here = f"{path}/{child.name}"
        if child.is_group:
            yield from _leaves(child, here)
        else:
            yield here


# ------------------------------------------------------------------ a leaf
def _leaf_section(found: Any, key: str, heading: str, budget: SimpleNamespace, anchor: str = "") -> str:
    try:
        thing = found[key] if isinstance(found, Store) else found
        inner = _tables(thing) + _picture(thing, heading, budget)
    except Exception as error:  # noqa: BLE001 - the page says it, and goes on
        inner = f"<p>This cannot be read: {_display.escaped(_without_folder(_display.one_line(error), found))}</p>"
    begin = f'<section id="{anchor}">' if anchor else "<section>"
    return f"{begin}<h2>{_display.escaped(heading)}</h2>{inner}</section>"


def _without_folder(text: str, found: Any) -> str:
    """A message without the folder of the file: whoever is sent the page need not know where it lay."""
    path = str(getattr(found, "_path", None) or getattr(found, "urlpath", None) or "")
    folder = os.path.dirname(path)
    return text.replace(folder + os.sep, "") if folder else text


def _tables(thing: Any) -> str:
    """Properties and attributes, with a drawing of the chunks."""
    rows = [(name, text) for name, text in properties(thing) if name != "decoded"]
    drawing = _display.chunk_grid(thing.shape, thing.chunks) if isinstance(thing, NDArray) else ""
    return _with_attributes(f'<div class="parts">{_display.definition_table(rows)}{drawing}</div>', thing)


def _with_attributes(found: str, thing: Any) -> str:
    notes = attributes(thing)
    return found + (f"<h3>Attributes</h3>{_display.definition_table(notes)}" if notes else "")


def _picture(thing: Any, heading: str, budget: SimpleNamespace) -> str:
    """The middle plane of an array, and statistics of what is shown of it."""
    if not isinstance(thing, NDArray):
        return ""
    page = Page.of(thing.shape, thing.dtype, thing.vlmeta)
    if page.is_empty or (page.rows is None and thing.dtype.names):
        return ""
    if page.rows is None:
        return f"<p>The value is {_display.escaped(item_text(thing[()][()]))}.</p>"
    if thing.dtype.kind != "c":
        try:
            check_dtype(thing.dtype)
        except ValueError:
            return ""
    most = min(DECODED_ONCE, budget.decoded)
    try:
        picture = read_picture(thing, page.pictured(), page.sides, (_SIDE, _SIDE), most=most)
    except ValueError as error:
        text = (
            _display.one_line(error) if most == DECODED_ONCE else "the pictures above have taken what a page may read"
        )
        return f'<p class="note">No picture: {_display.escaped(text)}.</p>'
    budget.decoded -= decoded_bytes(thing, picture.axes)
    data = b64encode(_display.png_bytes(picture.opaque_where_known())).decode()
    if len(data) > budget.stored:
        return f'<p class="note">No picture: those of a page have at most {_display.human_size(PICTURE_BYTES)}.</p>'
    budget.stored -= len(data)
    caption = f"[{index_text(picture.axes)}]: {picture.size()} items, {picture.scale()}"
    legend = f'<div class="note">{_display.label_legend(picture.labels)}</div>' if picture.labels else ""
    rows = statistics_of_items(picture.items)
    alt = f"Plane {index_text(picture.axes)} of {heading}; {picture.scale()}"
    return (
        f'<div class="parts"><figure><img alt="{_display.escaped(alt)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{_display.escaped(caption)}{legend}</figcaption></figure>"
        f"<div><h3>Statistics of the picture's items</h3>{_display.definition_table(rows)}</div></div>"
    )
