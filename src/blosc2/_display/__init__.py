"""How arrays and stores are shown: numbers for people, HTML for notebooks, drawings of chunk grids, pictures.

Everything here makes text, or the bytes of a picture, of plain values; the packages that own the objects decide what
the values are. All text that comes from a file is escaped here.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._display.chunk_drawing import chunk_grid
    from blosc2._display.notebook import byte_bar, definition_table, escaped, page
    from blosc2._display.outline import Node, as_html, as_text
    from blosc2._display.pictures import colour_picture, grey, limits, line_of_blocks, png_bytes, text_picture
    from blosc2._display.units import human_size, number, printable, ratio_text, sizes_text
else:
    __getattr__ = on_demand(__name__, {
        "chunk_drawing": "chunk_grid",
        "notebook": "byte_bar definition_table escaped page",
        "outline": "Node as_html as_text",
        "pictures": "colour_picture grey limits line_of_blocks png_bytes text_picture",
        "units": "human_size number printable ratio_text sizes_text",
    })  # fmt: skip

__all__ = [
    "Node",
    "as_html",
    "as_text",
    "byte_bar",
    "chunk_grid",
    "colour_picture",
    "definition_table",
    "escaped",
    "grey",
    "human_size",
    "limits",
    "line_of_blocks",
    "number",
    "page",
    "png_bytes",
    "printable",
    "ratio_text",
    "sizes_text",
    "text_picture",
]
