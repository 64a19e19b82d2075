"""Images: TIFF files, and pictures of other formats."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import logging
import math
import os
import shutil
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib.util import find_spec
from numbers import Rational
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np

from blosc2 import _display
from blosc2._options import lacking
from blosc2._tools.converting.conversion import ArrayItem, FileOfOne, Item, Items, alone, why_unreadable
from blosc2._tools.converting.report import WHOLE, Changed, LeftOut
from blosc2._tools.stores import same_value
from blosc2.exceptions import ConversionError

# The bytes of an attribute that is neither a text nor a list.
_MOST = 1 << 20


def _plain(value: Any) -> Any:
    """A value of a tag as an attribute: numbers, texts, bytes, and lists and dicts of them. `TypeError` for others."""
    if isinstance(value, (enum.Enum, np.generic)):
        value = value.value if isinstance(value, enum.Enum) else value.item()
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, Rational):
        return float(value)
    if isinstance(value, dt.date):  # or a time of one
        return value.isoformat()
    if isinstance(value, (tuple, list)) and len(value) <= _MOST // 8:
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    is_array = isinstance(value, np.ndarray) and not value.dtype.hasobject
    if value is None or ((isinstance(value, bytes) or is_array) and memoryview(value).nbytes <= _MOST):
        return value
    raise TypeError(f"a {type(value).__name__} which is large, or no text or number, is not kept")


# ------------------------------------------------------------------ TIFF
# Tags that say how the items are stored; their shape, dtype and values have it.
_OF_STORAGE = {
    "NewSubfileType", "SubfileType", "ImageWidth", "ImageLength", "ImageDepth", "Compression", "FillOrder",
    "SamplesPerPixel", "SampleFormat", "PlanarConfiguration", "RowsPerStrip", "StripOffsets", "StripByteCounts",
    "TileOffsets", "TileByteCounts", "TileWidth", "TileLength", "TileDepth", "Predictor", "SubIFDs", "JPEGTables",
    "T4Options", "T6Options", "FreeOffsets", "FreeByteCounts", "YCbCrSubSampling", "IJMetadataByteCounts",
    "PhotometricInterpretation", "JPEGInterchangeFormat", "JPEGInterchangeFormatLength", "PageNumber",
}  # fmt: skip
# Larger images are not read into memory; and no codec makes so many bytes of one, nor do tiles that are left out.
_LARGE, _MOST_EXPANDED = 64 << 20, 1 << 16
# Compressions (old, new, two of single makers) whose decoder makes RGB of YCbCr.
_JPEG = (6, 7, 33007, 34892)


class Tiff(FileOfOne):
    """A TIFF file: one array, or one for each series."""

    def files_of_set(self) -> frozenset[str]:
        import tifffile

        with suppress(Exception), tifffile.TiffFile(self._path) as file:  # a damaged one is listed when it is read
            return _files_of_set(file) if file.is_ome else frozenset()
        return frozenset()

    def _items(self) -> Iterator[Item]:
        import tifffile

        with _damage_raises(self._path), tifffile.TiffFile(self._path) as file:
            if not file.series:
                raise ConversionError(f"{self._path} has no images")
            several = len(file.series) > 1
            for number, series in enumerate(file.series):
                inner = f"{self._key}/{number}" if several else self._key
                yield from alone(inner, _series(inner, series)) if several else _series(inner, series)
            others = _others(file)
            if others:
                yield LeftOut(self._key, _display.number(others, "page"), "no image of the file has them")


def _others(file: Any) -> int:
    """How many pages of a file are in none of its series."""
    read = {page.offset for series in file.series for level in series.levels for page in _pages(level) if page}
    return sum(page.offset not in read for page in file.pages)


def _files_of_set(file: Any) -> frozenset[str]:
    """The files that have the pages of its series, if they are several."""
    pages = [page for series in file.series for page in series if page is not None]
    files = frozenset(os.path.realpath(page.parent.filehandle.path) for page in pages)
    return files if len(files) > 1 else frozenset()


def _pages(series: Any) -> list[Any]:
    """The pages of a series that have headers of their own; None for each that is not there."""
    pages = []
    with suppress(IndexError):  # one header stands for all
        for page in series:
            pages.append(page)  # noqa: PERF402 - those before the error are kept
    return pages


def _series(key: str, series: Any) -> Generator[Item, None, None]:
    page, pages, levels = series.keyframe, _pages(series), len(series.levels) - 1
    photometric = getattr(page.photometric, "name", str(page.photometric)).lower()
    attributes: dict[str, Any] = {
        "axes": series.axes,
        "photometric": "rgb" if photometric == "ycbcr" and page.compression in _JPEG else photometric,
    }
    yield from _tags(key, page, attributes)
    yield from _voxel_sizes(key, series, page, attributes)
    differ = sorted({name for other in pages if other not in (page, None) for name in _other_tags(page, other)})
    if differ:
        yield LeftOut(key, f"tags of further pages: {', '.join(differ)}", "those of the first page are kept")
    if None in pages:
        yield LeftOut(key, _display.number(pages.count(None), "page"), "they are not in the file, zeros are stored")
    if levels:
        what = "level 1" if levels == 1 else f"levels 1 to {levels}"
        yield Changed(key, f"{what} of the pyramid", "they can be made of level 0")
    if len(page.subifds or ()) > levels:
        yield LeftOut(key, "the images of SubIFDs", "they are no levels of a pyramid")
    try:
        items = _items(series)
    except (ValueError, ImportError) as error:
        if find_spec("imagecodecs") is None and (isinstance(error, ImportError) or "imagecodecs" in str(error)):
            raise ValueError(lacking("decoding it", "imagecodecs", "convert", f" ({error})")) from error
        raise
    yield ArrayItem.of(key, items, attributes)


# Units of length as powers of ten of a metre, and those of them that have a name in NIfTI.
_METRES = {
    "km": 3,
    "m": 0,
    "cm": -2,
    "mm": -3,
    "um": -6,
    "micron": -6,
    "microns": -6,
    "nm": -9,
    "\u00c5": -10,
    "pm": -12,
}
_NAMED = {0: "meter", -3: "mm", -6: "micron"}


#: Units of time, as NIfTI and ImageJ have them.
TIMES = ("sec", "msec", "usec")


def metres_of(unit: Any) -> int | None:
    """The power of ten of a unit of length; None where it is none."""
    text = str(unit).strip().replace("\\u00B5", "u")  # as ImageJ writes it
    return _METRES.get(text.replace("\u00b5", "u").replace("\u03bc", "u").replace("\u212b", "\u00c5"))


def _voxel_sizes(key: str, series: Any, page: Any, attributes: dict[str, Any]) -> Iterator[LeftOut]:
    """Put the steps along the axes of space, in their order and in one unit, and the unit into the attributes."""
    sizes, units, axes = dict[str, float](), dict[str, Any](), [name for name in series.axes if name in "ZYX"]
    with suppress(Exception):  # what describes an image may be damaged
        sizes, units = _said_sizes(series, page)
    found = [sizes.get(name) for name in axes]
    if not any(found) or "voxel_sizes" in attributes:
        return
    lacking = [name for name, size in zip(axes, found, strict=True) if not (size and 0 < size < math.inf)]
    said = {units.get(name) for name in axes}
    powers = {power for unit in said if (power := metres_of(unit)) is not None}
    is_known = None not in map(metres_of, said)
    if lacking or (not is_known and len(said) > 1):
        why = f"{', '.join(lacking)} has none" if lacking else f"they are in {', '.join(sorted(map(str, said)))}"
        where = "s description, XResolution and YResolution" if series.kind == "imagej" else " description"
        yield Changed(key, "the sizes of voxels", f"{why}; what the file says is in the attribute{where}")
        return
    if is_known:
        power = min(powers) if len(powers) == 1 and powers <= {*_NAMED} else -6
        for number, name in enumerate(axes):
            more = (metres_of(units[name]) or 0) - power
            found[number] = sizes[name] * 10**more if more >= 0 else sizes[name] / 10**-more
        attributes["units"] = [_NAMED[power], units.get("T") if units.get("T") in TIMES else "unknown"]
    attributes["voxel_sizes"] = found


def _said_sizes(series: Any, page: Any) -> tuple[dict[str, float], dict[str, Any]]:
    """The steps along the axes that ImageJ or OME says, and their units."""
    file = series.parent
    if series.kind == "imagej":
        said = file.imagej_metadata or {}
        unit, tag = said.get("unit"), page.tags.get("ResolutionUnit")
        # Without a unit of its own, X and Y have that of the tags: 2 is an inch, 3 a centimetre. None says that of Z.
        kind: Any = None if tag is None else tag.value
        of_tags = None if unit else {2: 2.54, 3: 1}.get(kind)
        # As ImageJ has it: tags in centimetres stay so beside "um".
        scale = 10_000 if unit == "um" and kind == 3 else of_tags or 1
        plane = unit if of_tags is None else "cm"
        sizes = {"Z": float(said.get("spacing", 1))}
        for name in "XY":
            pixels, length = page.tags[f"{name}Resolution"].value
            sizes[name] = length / pixels * scale
        return sizes, {"X": plane, "Y": said.get("yunit", plane), "Z": said.get("zunit", unit), "T": said.get("tunit")}
    if series.kind != "ome":
        return {}, {}
    pixels = ET.fromstring(file.ome_metadata).findall(".//{*}Pixels")[file.series.index(series)]
    sizes = {name: float(pixels.get(f"PhysicalSize{name}", 0)) for name in "ZYX"}
    return sizes, {name: pixels.get(f"PhysicalSize{name}Unit", "um") for name in "ZYX"}


def _items(series: Any) -> Items:
    """All items. Large ones that are compressed are unpacked to a file without a name, which has to have room."""
    if series.nbytes <= _LARGE:
        return np.asarray(series.asarray())
    if series.dataoffset is None:  # else the items are mapped where they lie
        size, free = series.parent.filehandle.size, shutil.disk_usage(tempfile.gettempdir()).free
        if series.nbytes > _MOST_EXPANDED * size:
            raise ConversionError(f"a file of {size} bytes claims items of {series.nbytes}: it is damaged")
        if series.nbytes > free:  # the process would end when it writes to a page that has no room
            raise ConversionError(
                f"its items need {series.nbytes} bytes in {tempfile.gettempdir()}, which has {free}; TMPDIR names "
                "another place"
            )
    return np.asarray(series.asarray(out="memmap"))


def _tags(key: str, page: Any, attributes: dict[str, Any]) -> Iterator[LeftOut]:
    """Put what describes a page into the attributes, under the names of the tags."""
    for tag in page.tags:
        name = first = "description" if tag.name == "ImageDescription" else str(tag.name)
        if name in _OF_STORAGE:
            continue
        try:
            value = _plain(tag.value)
        except Exception as error:  # noqa: BLE001 - values are decoded when they are asked for
            yield LeftOut(key, f"tag {name!r}", why_unreadable(error))
            continue
        for number in itertools.count(2):  # a tag can be there again
            if name not in attributes:
                break
            name = f"{first} {number}"
        if first != "description" or value:
            attributes[name] = value


def _other_tags(page: Any, other: Any) -> Iterator[str]:
    handle = other.parent.filehandle
    with handle if handle.closed else nullcontext():  # that of another file of a set
        if handle.closed:
            handle.open()
        tags = list(other.aspage().tags)
    for tag in tags:
        if tag.name not in _OF_STORAGE:
            first = page.tags.get(tag.code)
            if first is None or not same_value(first.value, tag.value):
                yield str(tag.name)


@contextmanager
def _damage_raises(path: str) -> Iterator[None]:
    """Errors that tifffile only logs, and goes on with fewer pages, are raised."""
    logger, thread = logging.getLogger("tifffile"), threading.get_ident()

    def check(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR and record.thread == thread:  # others may read other files
            raise ConversionError(f"{path} is damaged: {' '.join(record.getMessage().split())}")
        return True

    logger.addFilter(check)
    try:
        yield
    finally:
        logger.removeFilter(check)


# ------------------------------------------------------------------ other pictures
# What the pixels have, and says nothing more of the picture.
_OF_PIXELS = {
    "adobe", "adobe_transform", "compression", "extension", "interlace", "jfif", "jfif_version", "progression",
    "progressive", "version",
}  # fmt: skip
# Chunks of PNG files that Pillow reads, or that belong to an animation. The bytes of others are attributes.
_READ = {
    b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"pHYs", b"sRGB", b"iCCP", b"tEXt", b"zTXt",
    b"iTXt", b"eXIf", b"acTL", b"fcTL", b"fdAT",
}  # fmt: skip
_SHALLOW, _DEEP = 8, 16


class Picture(FileOfOne):
    """A picture of any other format, as rows of pixels, with what describes it as attributes."""

    def _items(self) -> Iterator[Item]:
        from PIL import Image

        key = self._key
        with Image.open(self._path) as image:
            if getattr(image, "n_frames", 1) > 1:
                yield LeftOut(key, "all frames but the first", "it is animated")
            depth, chunks = _png_header(self._path) if image.format == "PNG" else (_SHALLOW, {})
            if depth == _DEEP and image.mode in ("RGB", "RGBA", "LA"):
                yield LeftOut(key, WHOLE, "Pillow reads only 8 of the 16 bits of its colours")
                return
            if depth < _SHALLOW and image.mode == "L":
                yield Changed(key, "the scale of its grey", "the values are stretched to 0 to 255")
            image.load()  # some of what describes it can follow the pixels
            described, attributes, lost = dict(image.info), {"mode": image.mode}, []
            for name, stored in sorted(chunks.items()):
                text = name.decode("latin-1")
                if stored is None or text in described:
                    lost.append(text)
                else:
                    described[text] = stored
            if lost:
                yield LeftOut(
                    self._key, f"chunks {', '.join(lost)}", "they are large, or something else has their name"
                )
            items = np.asarray(image)
            if image.mode == "P":  # such as a mask, whose numbers are those of classes
                colours = "RGBA" if image.palette.mode == "RGBA" else "RGB"
                attributes["palette"] = np.array(image.getpalette(colours), "u1").reshape(-1, len(colours))
                yield Changed(
                    self._key, "the palette", "it is an attribute, and the values are the numbers of its colours"
                )
        yield from _described(key, described, attributes)
        yield ArrayItem.of(key, items, attributes)


def _described(key: str, found: dict[Any, Any], attributes: dict[str, Any]) -> Iterator[LeftOut]:
    for name in sorted(found.keys() - _OF_PIXELS, key=str):
        if name in attributes:
            yield LeftOut(key, f"metadata {name!r}", "an attribute has this name")
            continue
        try:
            attributes[str(name)] = _plain(found[name])
        except TypeError as error:
            yield LeftOut(key, f"metadata {name!r}", str(error))


def _png_header(path: str) -> tuple[int, dict[bytes, bytes | None]]:
    """Bits of each sample, and the bytes of the chunks that Pillow does not read: None for several of a name."""
    found: dict[bytes, bytes | None] = {}
    with open(path, "rb") as file:
        depth = file.read(25)[24]
        file.seek(8)
        for header in iter(partial(file.read, 8), b""):
            size, name = int.from_bytes(header[:4], "big"), header[4:]
            is_kept = name not in _READ and name not in found and size <= _MOST
            stored = file.read(size) if is_kept else None
            if name not in _READ:
                found[name] = stored
            file.seek(4 if is_kept else size + 4, os.SEEK_CUR)
    return depth, found
