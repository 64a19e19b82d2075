"""TIFF files, and directories of images."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from blosc2._tools.converting.items import WHOLE, ArrayItem, GroupItem, Item, LeftOut, Source
from blosc2.exceptions import ConversionError

_TIFF = (".tif", ".tiff")
_OTHERS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def read_tiff(path: str, key: str) -> Iterator[Item]:
    """The series of pages of a TIFF file."""
    import tifffile

    with tifffile.TiffFile(path) as file:
        several = len(file.series) > 1
        for number, series in enumerate(file.series):
            attributes = {"axes": series.axes}
            items = series.asarray(out="memmap") if series.nbytes > 64 << 20 else series.asarray()
            yield ArrayItem.of(f"{key}/{number}" if several else key, np.asarray(items), attributes)


def read_picture(path: str, key: str) -> Iterator[Item]:
    """A picture of any other format, as rows of pixels."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            if getattr(image, "n_frames", 1) > 1:
                yield LeftOut(key, "all frames but the first", "it is animated")
            if image.mode == "P":
                yield LeftOut(key, "the palette", "its colours are stored instead")
                items = np.asarray(image.convert("RGBA" if "transparency" in image.info else "RGB"))
            else:
                items = np.asarray(image)
            mode = image.mode
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        yield LeftOut(key, WHOLE, f"it cannot be read: {error}")
        return
    yield ArrayItem.of(key, items, {"mode": mode})


class _Tiff:
    def __init__(self, path: str) -> None:
        self._path = path

    def items(self) -> Iterator[Item]:
        yield from read_tiff(self._path, "/" + os.path.basename(self._path).partition(".")[0])

    def close(self) -> None:
        pass


class _Folder:
    """A directory tree of images: each becomes a leaf with its name, each directory a group."""

    def __init__(self, path: str) -> None:
        if not os.path.isdir(path):
            raise ConversionError(f"{path} is no directory of images")
        self._path = path

    def close(self) -> None:
        pass

    def items(self) -> Iterator[Item]:
        for folder, folders, names in os.walk(self._path):
            folders.sort()
            inner = os.path.relpath(folder, self._path).replace(os.sep, "/")
            group = "" if inner == "." else f"/{inner}"
            yield GroupItem(group or "/", {})
            for name in sorted(names):
                yield from self._image(os.path.join(folder, name), f"{group}/{name}")

    def _image(self, path: str, key: str) -> Iterator[Item]:
        suffix = os.path.splitext(path)[1].lower()
        if suffix in _OTHERS:
            yield from read_picture(path, key)
        elif suffix in _TIFF:
            try:
                yield from read_tiff(path, key)
            except (ImportError, OSError, ValueError) as error:
                yield LeftOut(key, WHOLE, str(error))
        else:
            yield LeftOut(key, WHOLE, "it is no image")


def open_source(path: str) -> Any:
    """A TIFF file, or a directory of images."""
    made: Source = _Folder(path) if os.path.isdir(path) else _Tiff(path)
    return made
