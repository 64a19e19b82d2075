"""The formats that can be converted, and which of them a path has."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from blosc2._options import lacking
from blosc2._tools.converting.items import Source, Target
from blosc2.exceptions import ConversionError, legible


class Format(NamedTuple):
    """A file format.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
    module : str
        The module of this package with its `open_source` and, if it can be written, `new_target`.
    needs : tuple of str
        The packages to import.
    written : bool
        Whether it can be a target.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    needs: tuple[str, ...] = ()
    written: bool = False

    def load(self) -> Any:
        """The module, once all that it needs is there."""
        for package in self.needs:
            try:
                importlib.import_module(package)
            except ImportError:
                raise ConversionError(lacking(self.name, package, "convert")) from None
        return importlib.import_module(f"blosc2._tools.converting.{self.module}")


#: By name. A format without a suffix is found by what is in a directory.
FORMATS = {
    found.name: found
    for found in (
        Format("blosc2", (".b2z", ".b2d", ".b2e", ".b2nd"), "stores", (), True),
        Format("hdf5", (".h5", ".hdf5", ".he5"), "hdf5", ("h5py",), True),
        Format("netcdf", (".nc", ".mat"), "hdf5", ("h5py",)),
        Format("zarr", (".zarr", ".zarr.zip"), "zarr_groups", ("zarr",), True),
        Format("npy", (".npy",), "numpy_files", (), False),
        Format("npz", (".npz",), "numpy_files", (), True),
        Format("safetensors", (".safetensors",), "tensors", ("safetensors",), True),
        Format("nifti", (".nii", ".nii.gz"), "nifti", ("nibabel",)),
        Format("tiff", (".tif", ".tiff"), "images", ("tifffile",)),
        Format("images", (), "images", ("PIL",)),
        Format("lmdb", (".lmdb", ".mdb"), "records", ("lmdb",)),
        Format("webdataset", (".tar",), "records", ()),
        Format("parquet", (".parquet",), "parquet", ("pyarrow",)),
    )
}
_PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def format_of(path: str, name: str | None, *, target: bool = False) -> Format:
    """The format with this name, or that of a path."""
    if name is not None:
        if name not in FORMATS:
            raise ConversionError(f"there is no format {name!r}; there are {', '.join(FORMATS)}")
        found = FORMATS[name]
    else:
        found = _by_suffix(path) or (None if target else _by_contents(path)) or _unknown(path, target=target)
    if target and not found.written:
        able = ", ".join(each.name for each in FORMATS.values() if each.written)
        raise ConversionError(f"{path}: {found.name} files cannot be written; these can: {able}")
    return found


def _by_suffix(path: str) -> Format | None:
    lower = os.path.basename(path.rstrip("/")).lower()
    fits = [(len(suffix), found) for found in FORMATS.values() for suffix in found.suffixes if lower.endswith(suffix)]
    return max(fits, key=lambda fit: fit[0])[1] if fits else None


def _by_contents(path: str) -> Format | None:
    """The format of a directory by what is in it."""
    if not os.path.isdir(path):
        return None
    with os.scandir(path) as entries:
        names = {entry.name.lower() for entry in entries}
    if names & {"zarr.json", ".zgroup", ".zarray"}:
        return FORMATS["zarr"]
    if "data.mdb" in names:
        return FORMATS["lmdb"]
    if any(name.endswith(_PICTURES) for name in names) or _has_pictures(path):
        return FORMATS["images"]
    return None


def _has_pictures(path: str) -> bool:
    return any(name.lower().endswith(_PICTURES) for _, _, names in os.walk(path) for name in names)


def _unknown(path: str, *, target: bool) -> Format:
    fits = [found for found in FORMATS.values() if found.written or not target]
    suffixes = ", ".join(suffix for found in fits for suffix in found.suffixes)
    raise ConversionError(
        f"{path}: its format is not known by its name; known are {suffixes}; "
        f"{'target' if target else 'source'}_format= names one"
    )


def open_source(path: str, name: str | None) -> Source:
    """The source at a path."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"{legible(path)} does not exist")
    opening: Callable[[str], Source] = format_of(path, name).load().open_source
    return opening(path)


def new_target(path: str, name: str | None, **options: Any) -> Target:
    """A target that becomes the file at a path."""
    making: Callable[..., Target] = format_of(path, name, target=True).load().new_target
    return making(path, **options)
