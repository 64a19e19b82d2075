"""Volumes of brains: NIfTI and ANALYZE, alone or as a pair of files, CIFTI-2, and MGH.

Values stay as they are stored. What describes them is kept twice: what programs need as plain attributes, and all of
the header as its bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import nibabel
import numpy as np
from nibabel.fileholders import FileHolder
from nibabel.openers import ImageOpener

from blosc2._tools.converting.conversion import ArrayItem, FileOfOne, Item
from blosc2._tools.converting.files import MOST_DEFLATED, read_to_end
from blosc2._tools.converting.report import Changed
from blosc2.exceptions import ConversionError

# The bytes of the header of a NIfTI-2 file, of all others, and of MGH, whose values follow right behind it.
_NIFTI_2: Final = 540
_HEADER: Final = 348
_MGH_HEADER: Final = 284
# How many bytes one byte of a compressed file can become; none of other files.
_EXPANDED: Final = {".gz": MOST_DEFLATED, ".mgz": MOST_DEFLATED, ".bz2": 1 << 20, ".zst": 1 << 16}


class Volume(FileOfOne):
    """A volume that nibabel reads."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with ExitStack() as opening:
            if path.lower().endswith((".mgh", ".mgz")):  # whose file the library would leave open
                holder = FileHolder(path, opening.enter_context(ImageOpener(path)))
                self._image: Any = nibabel.MGHImage.from_file_map({"image": holder})
            else:
                self._image = nibabel.load(path)
            other = self._image.file_map["image"].filename
            if not os.path.exists(other):
                raise ConversionError(f"{path} is of a pair: the image, {other}, is not there")
            self._open = opening.pop_all()

    def close(self) -> None:
        self._image.uncache()
        self._open.close()

    def _items(self) -> Iterator[Item]:
        key = self._key
        values = self._image.dataobj
        files = {part: holder.filename for part, holder in self._image.file_map.items()}
        _check_size(files["image"], values)
        slope, inter = float(values.slope), float(values.inter)
        attributes: dict[str, Any] = {}
        if hasattr(self._image, "affine"):  # CIFTI has none
            attributes["affine"] = np.asarray(self._image.affine)
            zooms = self._image.header.get_zooms()
            # What viewers ask for: the names of axes, and the step along those of space.
            attributes |= {"axes": list("xyztuvw"[: len(zooms)]), "voxel_sizes": [float(zoom) for zoom in zooms[:3]]}
        if isinstance(self._image, nibabel.MGHImage):
            attributes |= self._of_mgh(files["image"])
        else:
            attributes |= self._of_nifti(files.get("header", files["image"]), is_pair="header" in files)
        if (slope, inter) != (1.0, 0.0):
            attributes |= {"scl_slope": slope, "scl_inter": inter}
            yield Changed(key, "the scale", "values are as they are stored, value * scl_slope + scl_inter is meant")
        items = np.asanyarray(values.get_unscaled())
        if files["image"].lower().endswith((".gz", ".mgz")):  # the library stops before the sum at the end
            with ImageOpener(files["image"]) as file:
                read_to_end(file)
        yield ArrayItem.of(key, items, attributes)

    def _of_mgh(self, path: str) -> dict[str, Any]:
        values, header = self._image.dataobj, self._image.header
        with ImageOpener(path) as file:
            first = file.read(_MGH_HEADER)
            file.seek(values.offset + int(np.prod(values.shape, dtype=object)) * values.dtype.itemsize)
            last = file.read()
        return {"zooms": [float(zoom) for zoom in header.get_zooms()], "mgh_header": first, "mgh_footer": last}

    def _of_nifti(self, path: str, *, is_pair: bool) -> dict[str, Any]:
        """What a header says, of NIfTI or ANALYZE."""
        header = getattr(self._image, "nifti_header", self._image.header)  # that of CIFTI lies in an extension
        is_nifti = isinstance(header, nibabel.Nifti1Header)
        attributes: dict[str, Any] = {
            "zooms": [float(zoom) for zoom in header.get_zooms()],
            "description": bytes(header["descrip"].item()).decode(errors="replace"),
        }
        size = _NIFTI_2 if isinstance(header, nibabel.Nifti2Header) else _HEADER
        with ImageOpener(path) as file:
            attributes["nifti_header" if is_nifti else "analyze_header"] = file.read(size)
            if is_nifti:
                rest = file.read() if is_pair else file.read(self._image.dataobj.offset - size)
                if extensions := list(_extensions(rest, "little" if header.endianness == "<" else "big")):
                    attributes["nifti_extensions"] = extensions
        if is_nifti:
            try:
                attributes["units"] = list(header.get_xyzt_units())
            except KeyError:
                pass  # a code that nobody knows
        return attributes


def _check_size(path: str, values: Any) -> None:
    """Refuse a file that cannot hold the items of which its header speaks, before there is memory for them."""
    nbytes = int(np.prod(values.shape, dtype=object)) * values.dtype.itemsize
    size = os.path.getsize(path)
    if values.offset + nbytes > size * _EXPANDED.get(os.path.splitext(path.lower())[1], 1):
        raise ValueError(f"its header speaks of {nbytes} bytes of items, which a file of {size} cannot hold")


def _extensions(rest: bytes, order: Any) -> Iterator[list[Any]]:
    """The code and the bytes of each extension: https://nifti.nimh.nih.gov/nifti-1/documentation/nifti1fields."""
    at = 4
    while rest[:1] not in (b"", b"\0") and at + 8 <= len(rest):
        size, code = (int.from_bytes(rest[at + n : at + n + 4], order) for n in (0, 4))
        if not 8 <= size <= len(rest) - at:
            raise ValueError(f"an extension of its header has {size} bytes, and there are {len(rest) - at}")
        yield [code, rest[at + 8 : at + size]]
        at += size
