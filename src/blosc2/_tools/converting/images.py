"""TIFF files, directories of images, and NIfTI images of medicine."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from blosc2._tools.converting.items import WHOLE, ArrayItem, GroupItem, Item, LeftOut, Source
from blosc2.exceptions import ConversionError

_TIFF = (".tif", ".tiff")
_OTHERS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


def read_tiff(path: str, key: str) -> Iterator[Item]:
    """The series of pages of a TIFF file."""
    import tifffile

    with _damage_raises(path), tifffile.TiffFile(path) as file:
        several = len(file.series) > 1
        for number, series in enumerate(file.series):
            attributes = {"axes": series.axes}
            page = series.keyframe
            if page.colormap is not None:
                yield LeftOut(key, "the palette", "the numbers of its colours are stored")
            if page.description:
                attributes["description"] = page.description
            items = series.asarray(out="memmap") if series.nbytes > 64 << 20 else series.asarray()
            yield ArrayItem.of(f"{key}/{number}" if several else key, np.asarray(items), attributes)


class _Raising(logging.Handler):
    def __init__(self, path: str) -> None:
        super().__init__(logging.ERROR)
        self._path, self._thread = path, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:  # others may read other files
            raise ConversionError(f"{self._path} is damaged: {' '.join(record.getMessage().split())}")


@contextmanager
def _damage_raises(path: str) -> Iterator[None]:
    """Errors that tifffile only logs, and goes on with fewer pages, are raised."""
    logger, handler = logging.getLogger("tifffile"), _Raising(path)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def read_picture(path: str, key: str) -> Iterator[Item]:
    """A picture of any other format, as rows of pixels."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            if getattr(image, "n_frames", 1) > 1:
                yield LeftOut(key, "all frames but the first", "it is animated")
            if image.format == "PNG" and _png_depth(path) == _DEEP and image.mode in ("RGB", "RGBA", "LA"):
                yield LeftOut(key, WHOLE, "Pillow reads only 8 of the 16 bits of its colours")
                return
            if image.format == "PNG" and image.mode == "L" and _png_depth(path) < _SHALLOW:
                yield LeftOut(key, "the scale of its grey", "the values are stretched to 0 to 255")
            for name in sorted(_LOST & image.info.keys()):
                yield LeftOut(key, f"metadata {name!r}", "only the pixels are kept")
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


_SHALLOW, _DEEP = 8, 16
# What belongs to a picture, besides its pixels.
_LOST = {"exif", "icc_profile", "transparency", "xmp", "XML:com.adobe.xmp"}


def _png_depth(path: str) -> int:
    """Bits of each sample, from the header of a PNG file."""
    with open(path, "rb") as file:
        return file.read(25)[24]


class _Tiff(Source):
    def __init__(self, path: str) -> None:
        self._path = path

    def items(self) -> Iterator[Item]:
        yield from read_tiff(self._path, "/" + os.path.basename(self._path).partition(".")[0])


class _Folder(Source):
    """A directory tree of images: each becomes a leaf with its name, each directory a group."""

    def __init__(self, path: str) -> None:
        if not os.path.isdir(path):
            raise ConversionError(f"{path} is no directory of images")
        self._path = path

    def items(self) -> Iterator[Item]:
        for folder, folders, names in os.walk(self._path):
            folders.sort()
            for name in [name for name in folders if os.path.islink(os.path.join(folder, name))]:
                inner = os.path.relpath(os.path.join(folder, name), self._path).replace(os.sep, "/")
                yield LeftOut(f"/{inner}", "a linked directory", "links are not followed")
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


def open_images(path: str) -> Source:
    """A TIFF file, or a directory of images."""
    return _Folder(path) if os.path.isdir(path) else _Tiff(path)


class Nifti(Source):
    """A ``.nii`` or ``.nii.gz`` file."""

    def __init__(self, path: str) -> None:
        import nibabel

        self._path = path
        self._image: Any = nibabel.load(path)

    def close(self) -> None:
        self._image.uncache()

    def items(self) -> Iterator[Item]:
        """The values as they are stored, with what scales them as attributes."""
        name = os.path.basename(self._path).partition(".")[0]
        header, values = self._image.header, self._image.dataobj
        slope, inter = float(values.slope), float(values.inter)
        attributes: dict[str, Any] = {
            "affine": np.asarray(self._image.affine), "zooms": [float(zoom) for zoom in header.get_zooms()],
            "description": bytes(header["descrip"].item()).decode(errors="replace"),
        }  # fmt: skip
        try:
            attributes["units"] = list(header.get_xyzt_units())
        except KeyError:
            yield LeftOut(f"/{name}", "the units", "their code is not known")
        yield LeftOut(f"/{name}", "the other fields of the header", "such as qform, sform and intent")
        if (slope, inter) != (1.0, 0.0):
            attributes |= {"scl_slope": slope, "scl_inter": inter}
        if header.extensions:
            yield LeftOut(f"/{name}", "extensions of the header", "they have no counterpart")
        items = np.asanyarray(values.get_unscaled())
        yield ArrayItem.of(f"/{name}", items, attributes)
