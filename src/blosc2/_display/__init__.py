"""How arrays and stores are shown: numbers for people, HTML for notebooks, drawings of chunk grids, pictures.

Everything here makes text, or the bytes of a picture, of plain values; the packages that own the objects decide what
the values are. All text that comes from a file is escaped here.
"""

from typing import TYPE_CHECKING

from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._display.drawing import *
else:
    __getattr__ = on_demand(__name__, {
        "drawing": (
            "Node as_html as_text byte_bar chunk_grid colour_picture definition_table escaped for_any_encoding grey "
            "has_characters html_list human_size in_label_colours label_legend labels_of limits line_of_blocks number "
            "one_line page png_bytes printable "
            "printed ratio_text sizes_text text_picture"
        ),
    })  # fmt: skip
