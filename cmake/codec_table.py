"""Writes generated_codecs.h, the table of codecs and filters for compiled code: codec_table.py CODECS_PY HEADER."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

_HEADER = """\
/* The codecs and filters that a chunk may carry, by their ids. Written by cmake/codec_table.py from
 * `_options/codecs.py`. */
#ifndef B2_GENERATED_CODECS_H
#define B2_GENERATED_CODECS_H

#include <stdint.h>

/* What decoding needs. Blocks of a "whole chunk" do not stand alone; "array": the super-chunk of the C library has to
 * tell the shape of the array's blocks. */
enum {{ {support} }};
enum {{ FIRST_PLUGIN = {first_plugin}, NO_FORMAT = 255 }};

enum {{
    {codecs},
}};

enum {{
    {filters},
}};

static inline int codec_support(int id) {{
    static const uint8_t table[256] = {{
        {codec_support}
    }};
    return table[(uint8_t)id];
}}

static inline int filter_support(int id) {{
    static const uint8_t table[256] = {{
        {filter_support}
    }};
    return table[(uint8_t)id];
}}

/* The format bits in the flags of a chunk with this codec. */
static inline int codec_format(int id) {{
    static const uint8_t table[256] = {{
        {codec_format}
    }};
    return codec_support(id) == SUPPORT_ABSENT ? NO_FORMAT : table[(uint8_t)id];
}}

/* The largest `codec_meta` that can be decoded. */
static inline int largest_codec_meta(int id) {{
    switch (id) {{
    {largest_meta}
    default: return 255;
    }}
}}

/* Whether a filter asks the array when this is its meta. */
static inline int filter_asks_array(int id, int meta) {{
    return filter_support(id) == SUPPORT_ARRAY || (meta == 0 && ({takes_typesize}));
}}

/* Whether the filter leaves a block of one byte, repeated, as it is. */
static inline int filter_keeps_run(int id, int meta, int byte) {{
    switch (id) {{
    {keeps_runs}
        return 1;
    default: return byte == 0 && !filter_asks_array(id, meta);
    }}
}}

#endif
"""


def table(names: dict[str, Any]) -> str:
    """The text of the header, from what `_options/codecs.py` defines."""
    codecs, filters = list(names["Codec"]), list(names["Filter"])
    present = [codec for codec in codecs if codec.facts.support.name != "ABSENT"]
    limited = [codec for codec in present if max(codec.facts.metas) < 255]
    indent = "\n        "
    return _HEADER.format(
        support=", ".join(f"SUPPORT_{support.name} = {support.value}" for support in names["Support"]),
        first_plugin=names["FIRST_PLUGIN"],
        codecs=",\n    ".join(f"CODEC_{codec.name} = {codec.value}" for codec in codecs),
        filters=",\n    ".join(f"FILTER_{item.name} = {item.value}" for item in filters),
        codec_support=indent.join(f"[CODEC_{codec.name}] = SUPPORT_{codec.facts.support.name}," for codec in present),
        filter_support=indent.join(f"[FILTER_{item.name}] = SUPPORT_{item.facts.support.name}," for item in filters),
        codec_format=indent.join(f"[CODEC_{codec.name}] = {codec.facts.format}," for codec in present),
        largest_meta="\n    ".join(f"case CODEC_{codec.name}: return {max(codec.facts.metas)};" for codec in limited),
        takes_typesize=" || ".join(f"id == FILTER_{item.name}" for item in filters if item.facts.takes_typesize),
        keeps_runs="\n    ".join(f"case FILTER_{item.name}:" for item in filters if item.facts.keeps_runs),
    )


if __name__ == "__main__":
    source, header = sys.argv[1:]
    Path(header).write_text(table(runpy.run_path(source)), encoding="utf-8")
