"""NIfTI images of medicine, with nibabel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import nibabel
import numpy as np

from blosc2._tools.converting.items import ArrayItem, Item, LeftOut, Source


class _Image:
    def __init__(self, path: str) -> None:
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


def open_source(path: str) -> Source:
    """A ``.nii`` or ``.nii.gz`` file."""
    return _Image(path)
