"""NIfTI and TIFF files of one array, written by nibabel and by tifffile.

What such a file says of the array is compared with its attributes when it is written: what it cannot say is listed.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from threading import get_ident
from typing import Any, ClassVar, Final

import numpy as np

from blosc2._arrays import axis_names, palette_of, picture_axes
from blosc2._tools.converting.conversion import FORMATS, OF_GROUPS, ArrayItem, GroupItem, ObjectItem, Target
from blosc2._tools.converting.images import TIMES, metres_of
from blosc2._tools.converting.report import Changed, LeftOut
from blosc2._tools.stores import partial_name, same_value
from blosc2.exceptions import ConversionError


class _NewImage(Target):
    """A file of one array; a subclass writes it."""

    takes_one = True
    name: ClassVar[str]
    #: What would have a place in such a file, by the name of an attribute, or of the "shape", that has none.
    hints: ClassVar[Mapping[str, str]] = {}

    def __init__(self, path: str, **_: Any) -> None:
        stem = path[: -len(".gz")] if path.lower().endswith(".gz") else path
        super().__init__(path, partial_name(stem, unique=True) + path[len(stem) :])
        self._path = path
        # Of groups, by their keys: what holds for all arrays in them.
        self._around: dict[str, dict[str, Any]] = {}

    def add(self, item: ArrayItem | ObjectItem | GroupItem) -> Iterator[LeftOut]:
        if isinstance(item, GroupItem):
            self._around[item.key.rstrip("/")] = {n: v for n, v in item.attributes.items() if n in OF_GROUPS}
            if item.attributes.keys() - set(OF_GROUPS):
                yield LeftOut(item.key, "attributes of the group", "a file of one array has no groups")
            return
        if self.only is not None:
            raise ConversionError(
                f"{self._path} holds one array, and there are several: {self.only}, {item.key}, ...; name the key of "
                f"one behind the store, such as study.b2z{self.only}"
            )
        if isinstance(item, ObjectItem):
            raise ConversionError(f"{item.key} is a list of objects, and no array")
        if 0 in item.shape or not self._takes(item.dtype) or not item.shape:
            raise ConversionError(f"{item.key}: {self.name} has no items of {item.dtype} in the shape {item.shape}")
        self.only = item.key
        is_bool = item.dtype.kind == "b" and not self._has_bits(item)
        if is_bool:
            yield Changed(item.key, "the type bool", "the file has none: it became uint8")
        items = np.ascontiguousarray(item.whole())
        try:
            self._write(items.view("u1") if is_bool else items, self._meant(item))
        except (OSError, MemoryError):
            raise
        except Exception as error:  # libraries raise anything for attributes that make no sense
            raise ConversionError(f"{item.key}: it cannot be written as {self.name}: {error}") from error
        yield from self._differences(item)

    def _takes(self, dtype: np.dtype[Any]) -> bool:
        return dtype.kind in "biufc"

    def _meant(self, item: ArrayItem) -> dict[str, Any]:
        """The attributes of an array, and those that it has from the groups around it."""
        around: dict[str, Any] = {}
        for key in sorted(self._around):
            if item.key.startswith(key + "/"):
                around |= self._around[key]
        meant = around | dict(item.attributes)
        # HDF5 has made arrays of lists of numbers.
        return {n: v.tolist() if isinstance(v, np.ndarray) and v.ndim == 1 else v for n, v in meant.items()}

    def _write(self, items: np.ndarray[Any, Any], attributes: dict[str, Any]) -> None:
        raise NotImplementedError

    def _differences(self, item: ArrayItem) -> Iterator[LeftOut]:
        """Attributes that the file does not say, or otherwise."""
        with closing(FORMATS[self.name].open(self.partial)) as source:
            back = next(each for each in source.items() if isinstance(each, ArrayItem))
        if back.shape != item.shape:
            raise ConversionError(
                f"{item.key}: {self.name} has no place for the shape {item.shape}, but {back.shape}"
                f"{self.hints.get('shape', '')}"
            )
        if back.dtype != item.dtype and item.dtype.kind != "b":
            yield Changed(item.key, f"the type {item.dtype}", f"it is read as {back.dtype}")
        for name, value in item.attributes.items():
            found = back.attributes.get(name)
            if name in back.attributes and same_value(found, value):
                continue
            lost = self._lost(value, found) if name.startswith("description") else None
            if lost is not None:
                why = f"the file says its own shape, sizes and type{lost and f', but not {lost}'}"
                yield (LeftOut if lost else Changed)(item.key, f"attribute {name!r}", why)
            elif name not in back.attributes:
                why = f"{self.name} has no place for it, or not for its value{self.hints.get(name, '')}"
                yield LeftOut(item.key, f"attribute {name!r}", why)
            else:
                text = repr(found)
                told = f"says {text if len(text) <= 80 else f'{text[:76]} ...'}"
                told = "has other bytes" if isinstance(found, bytes) else told
                yield Changed(item.key, f"attribute {name!r}", f"the file {told}")

    def _has_bits(self, item: ArrayItem) -> bool:  # noqa: ARG002 - of a subclass
        """Whether the file has items of one bit for it."""
        return False

    def _lost(self, value: Any, found: Any) -> str | None:  # noqa: ARG002 - of a subclass
        """What the file does not say of a description that a program wrote; None where no program did."""
        return None

    def finish(self) -> None:
        if self.only is None:
            raise ConversionError(f"{self._path}: the source has no array")


# ------------------------------------------------------------------ NIfTI
#: The longest axis in a header of NIfTI-1.
_MOST_ITEMS: Final = 32767


class NewVolume(_NewImage):
    """A `.nii` or `.nii.gz` file: items, scale, affine matrix and, if an attribute has it, header of the array."""

    name = "nifti"

    def __init__(self, path: str, **options: Any) -> None:
        if not path.lower().endswith((".nii", ".nii.gz")):
            raise ConversionError(f"{path}: NIfTI is written to .nii and .nii.gz, and not to pairs of files")
        super().__init__(path, **options)

    def _takes(self, dtype: np.dtype[Any]) -> bool:
        import nibabel

        colours = nibabel.nifti1.data_type_codes.dtype
        return super()._takes(dtype) or dtype in (colours["RGB"], colours["RGBA"])

    def _write(self, items: np.ndarray[Any, Any], attributes: dict[str, Any]) -> None:
        import nibabel
        from nibabel.fileholders import FileHolder
        from nibabel.openers import ImageOpener

        names = axis_names(attributes, items.ndim)
        space = [name for name in "xyz" if name in names]
        if names[: len(space)] != space:
            order = [names.index(name) for name in space]
            order += [axis for axis in range(items.ndim) if axis not in order]
            raise ValueError(
                f"its axes are {', '.join(names)}, and NIfTI begins with {', '.join(space)}: save "
                f"blosc2.permute_dims(array, {tuple(order)}), with axes and voxel_sizes in that order, and convert it"
            )
        header = _header_of(attributes) or _new_header(items, attributes)
        header = header.as_byteswapped(">" if items.dtype.byteorder == ">" else "<")
        if header.get_data_shape() != items.shape:  # it forgets the thickness of a slice
            header.set_data_shape(items.shape)
        header.set_data_dtype(items.dtype)
        for code, content in attributes.get("nifti_extensions", ()):
            if not (isinstance(code, int) and isinstance(content, bytes)):  # the library would fail while it writes
                raise TypeError("nifti_extensions has pairs of a code and bytes")
            header.extensions.append(nibabel.nifti1.Nifti1Extension(code, content))
        kind = nibabel.Nifti2Image if isinstance(header, nibabel.Nifti2Header) else nibabel.Nifti1Image
        affine = np.asarray(attributes.get("affine", ()))
        image = kind(items, affine if affine.shape == (4, 4) else None, header)
        # Now: an image forgets those of its header.
        image.header.set_slope_inter(attributes.get("scl_slope", 1), attributes.get("scl_inter", 0))
        with ImageOpener(self.partial, "wb") as file:  # which the library would leave open if the disk is full
            image.to_file_map({"image": FileHolder(self.partial, file)})


def _header_of(attributes: Mapping[str, Any]) -> Any:
    """The header that an import has kept; None where there is none."""
    import nibabel

    stored = attributes.get("nifti_header")
    kinds = {348: nibabel.Nifti1Header, 540: nibabel.Nifti2Header}
    kind = kinds.get(len(stored)) if isinstance(stored, bytes) else None
    return None if kind is None else kind(binaryblock=stored)


def _new_header(items: np.ndarray[Any, Any], attributes: Mapping[str, Any]) -> Any:
    import nibabel

    header = nibabel.Nifti1Header() if max(items.shape) <= _MOST_ITEMS else nibabel.Nifti2Header()
    header.set_data_shape(items.shape)
    sizes = attributes.get("zooms", attributes.get("voxel_sizes"))
    if isinstance(sizes, (list, tuple)) and len(sizes) <= items.ndim:
        header.set_zooms([*sizes, *[1.0] * (items.ndim - len(sizes))])
    if isinstance(attributes.get("description"), str):
        header["descrip"] = attributes["description"].encode()[:79]
    if isinstance(attributes.get("units"), (list, tuple)):
        header.set_xyzt_units(*attributes["units"])
    return header


# ------------------------------------------------------------------ TIFF
# What is written by arguments, or follows from the items.
_ARGUMENTS: Final = frozenset((
    "axes", "photometric", "description", "voxel_sizes", "units", "XResolution", "YResolution", "ResolutionUnit",
    "Software", "DateTime", "IJMetadata", "BitsPerSample", "ExtraSamples", "ColorMap",
))  # fmt: skip
# How descriptions begin that programs write, of the shape and sizes of the array.
_BY_PROGRAM: Final = re.compile(r"\s*(ImageJ=|\{[^}]*\"shape\"|shape=|<\?xml|<OME)")
# What they say in other words in the new file, and what ImageJ says that holds for another part, too.
_OF_SHAPE: Final = {
    "shape", "axes", "ImageJ", "images", "channels", "slices", "frames", "hyperstack", "spacing",
}  # fmt: skip
_KEPT: Final = ("unit", "tunit", "vunit", "finterval", "fps", "min", "max", "mode", "loop")
# How ImageJ calls the units of NIfTI.
_UNITS: Final = {"meter": "m", "mm": "mm", "micron": "um"}
# Tags that say how large pixels are, as sizes of voxels do.
_OF_SIZES: Final = ("XResolution", "YResolution", "ResolutionUnit")
#: How many numbers a pixel has in pictures of a mode, as Pillow calls them.
_SAMPLES: Final = {"LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}
_IMAGEJ: Final = (np.dtype("u1"), np.dtype("u2"), np.dtype("f4"))


class NewTiff(_NewImage):
    """A TIFF file: names of axes, description, resolution and other tags are those of the attributes.

    An array with names of axes and no description is written as ImageJ does, if ImageJ has such items.
    """

    name = "tiff"
    hints: ClassVar[Mapping[str, str]] = {
        "shape": "; give the attribute axes, such as 'TZYX', or photometric='rgb' if the last one has colours",
        "IJMetadata": ", unless the description is that of ImageJ for this array",
        "voxel_sizes": "; files as ImageJ writes them have one: with a size for each of their axes Z, Y and X, without "
        "another description, of uint8, uint16 or float32 with axes in the order TZCYX (blosc2.permute_dims makes it), "
        "and pictures of uint8 with axes YXS",
    }

    def _has_bits(self, item: ArrayItem) -> bool:
        # Files as ImageJ writes them, with sizes of voxels, have none.
        is_grey = item.attributes.get("photometric") in ("minisblack", "miniswhite")
        axes = "".join(name[:1] for name in axis_names(item.attributes, len(item.shape))).upper()
        has_samples = "planarconfig" in _colours(np.empty(item.shape, bool), item.attributes, axes)
        return is_grey and not has_samples and "voxel_sizes" not in self._meant(item)

    def _lost(self, value: Any, found: Any) -> str | None:
        if not isinstance(value, str) or not _BY_PROGRAM.match(value):
            return None
        if value.lstrip().startswith("<"):
            is_kept = isinstance(found, str) and found.lstrip().startswith("<")
            return "" if is_kept else "what OME says beyond, such as names of channels"
        before, after = _said(value), _said(found)
        if not before:  # cut off, or as old versions of tifffile wrote it
            return None
        lost = [name for name in before if name not in _OF_SHAPE and before[name] != after.get(name)]
        if metres_of(before.get("unit")) is not None and metres_of(after.get("unit")) is not None:
            lost = [name for name in lost if name != "unit"]  # the sizes are in the other one
        return ", ".join(lost)

    def _write(self, items: np.ndarray[Any, Any], attributes: dict[str, Any]) -> None:
        """Write the file, without what was copied of an array of another shape or other sizes of voxels."""
        fitting: tuple[bool, dict[str, Any]] | None = None
        told = attributes.get("description")
        self._said = _said(told)
        if isinstance(told, str) and told:
            attributes = {**attributes, "description": _with_type(told, items.dtype)}
        by_program = ("description", "IJMetadata") if isinstance(told, str) and _BY_PROGRAM.match(told) else ()
        for stale in dict.fromkeys(((), _OF_SIZES, by_program, (*_OF_SIZES, *by_program))):
            if stale and attributes.keys().isdisjoint(stale):
                continue
            kept = {name: value for name, value in attributes.items() if name not in stale}
            self._write_as(items, kept, is_trial=True)
            shape, back, is_doubted = self._read_back()
            if shape != items.shape:
                continue
            sizes, units = (back.get(name) for name in ("voxel_sizes", "units"))
            fits = _are_close(sizes, attributes.get("voxel_sizes", sizes))
            fits = fits and _first(units) == _first(attributes.get("units", units))
            if not is_doubted and fits:
                fitting = False, kept
                break
            if fitting is None or (fitting[0] and not is_doubted):
                fitting = is_doubted, kept
        self._write_as(items, attributes if fitting is None else fitting[1])

    def _read_back(self) -> tuple[tuple[int, ...] | None, Mapping[str, Any], bool]:
        """The shape and the attributes that a reader finds, and whether it warns; no shape of a wrong file."""
        log, told = logging.getLogger("tifffile"), list[logging.LogRecord]()

        def keep(record: logging.LogRecord) -> bool:
            if record.thread != get_ident():
                return True
            told.append(record)
            return False

        log.addFilter(keep)
        try:
            with closing(FORMATS[self.name].open(self.partial)) as source:
                back = next(each for each in source.items() if isinstance(each, ArrayItem))
        except (ConversionError, StopIteration):
            return None, {}, True
        finally:
            log.removeFilter(keep)
        return back.shape, back.attributes, bool(told)

    def _write_as(self, items: np.ndarray[Any, Any], attributes: dict[str, Any], *, is_trial: bool = False) -> None:
        """Write the file with these attributes; for a trial, all but the items, of which it has only the room."""
        import tifffile

        if items.ndim < 2:
            raise ValueError("an image has two axes or more")
        axes = "".join(name[:1] for name in axis_names(attributes, items.ndim)).upper()
        how = _colours(items, attributes, axes)
        if axes and "planarconfig" in how:
            axes = axes[:-1] + "S"
        how["extratags"] = [*_tags(attributes), *_tags_of_imagej(attributes, items.dtype)]
        described = attributes.get("description")
        is_plane = items.shape[0] > 1 or items.ndim == 2
        if isinstance(described, str) and described:
            has_none = is_plane and "description 2" not in attributes  # the shape, as tifffile writes it
            how |= {"description": _as_text(described), "metadata": None if has_none else {}}
        elif not is_plane:  # only so a first axis of one item is told
            how["metadata"] = {"axes": axes} if len(set(axes)) == len(axes) == items.ndim else {}
        elif _has_sizes(attributes, axes) or (set("YX") < set(axes) <= set("TZCYX") and len(set(axes)) == len(axes)):
            how["metadata"] = {"axes": axes}
            takes = items.dtype == np.uint8 and items.shape[-1] in (3, 4) if "S" in axes else items.dtype in _IMAGEJ
            how["imagej"] = takes and axes == "".join(name for name in "TZCYXS" if name in axes)
            if how["imagej"]:
                units = attributes.get("units") if _has_sizes(attributes, axes) else None
                how["metadata"] |= _of_imagej(self._said, units)
        else:
            how["metadata"] = None
        how |= _resolution(attributes, axes, how.get("metadata"))
        how |= {"software": _as_text(attributes.get("Software") or False), "datetime": attributes.get("DateTime")}
        if is_trial:
            how |= {"shape": items.shape, "dtype": np.uint8 if items.dtype == bool else items.dtype}  # bits are packed
        tifffile.imwrite(self.partial, None if is_trial else items, **how)


def _said(text: Any) -> dict[str, Any]:
    text = str(text).strip()
    if text.startswith("{"):
        with suppress(ValueError):
            return dict(json.loads(text))
    is_of_imagej = text.startswith("ImageJ=")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line) if is_of_imagej else {}


def _of_imagej(said: Mapping[str, Any], units: Any) -> dict[str, Any]:
    """What stays of a description of ImageJ for another array, and the unit of the sizes of voxels."""
    kept: dict[str, Any] = {name: text for name in _KEPT if isinstance(text := said.get(name), str) and text.isascii()}
    if "loop" in kept:
        kept["loop"] = kept["loop"] == "true"
    unit = _UNITS.get(_first(units))
    if unit is not None and metres_of(unit) != metres_of(kept.get("unit")):
        kept["unit"] = unit
    if unit is not None and units[-1] in TIMES:
        kept["tunit"] = units[-1]
    return kept


def _first(units: Any) -> Any:
    """The unit of length among those that an attribute has, if it is known."""
    first = units[0] if isinstance(units, (list, tuple)) and units else None
    return first if isinstance(first, str) and first != "unknown" else None


def _are_close(one: Any, other: Any) -> bool:
    """Whether two lists of sizes are the same, up to the fractions that tags are."""
    if one is None or other is None:
        return one is other
    try:
        return bool(np.allclose(one, other, rtol=1e-5, atol=0))
    except (TypeError, ValueError):
        return False


def _colours(items: np.ndarray[Any, Any], attributes: Mapping[str, Any], axes: str) -> dict[str, Any]:
    """What the numbers of a pixel are: grey, an index of a palette, or colours on the last axis."""
    kind, mode, samples = attributes.get("photometric"), attributes.get("mode"), items.shape[-1]
    table = _colour_table(items, attributes) if kind == "palette" or mode == "P" else None
    if table is not None:
        return {"photometric": "palette", "colormap": table}
    has_samples = axes[-1:] in ("S", "R") or _SAMPLES.get(str(mode)) == samples
    if kind is None and not has_samples:
        has_samples = picture_axes([range(length) for length in items.shape], items.dtype, attributes)[1]
    if has_samples and samples == 4 and (kind == "separated" or mode == "CMYK"):
        kind = "separated"
    elif kind not in ("minisblack", "miniswhite") and not (kind == "rgb" and {3, 4} & {samples, *items.shape[-3:-2]}):
        kind = "rgb" if has_samples and samples in (3, 4) else "minisblack"
    how = {"photometric": kind}
    if has_samples or (kind == "rgb" and samples in (3, 4)):
        how["planarconfig"] = "contig"
        if mode == "LA":
            how["extrasamples"] = "unassalpha"
    return how


def _colour_table(items: np.ndarray[Any, Any], attributes: Mapping[str, Any]) -> np.ndarray[Any, Any] | None:
    """The colours of all numbers that items can have, as TIFF stores them; None where the attributes have none."""
    colours = np.asarray(attributes.get("ColorMap", ()))
    if not colours.size:
        palette = palette_of(attributes)
        if palette is None or items.dtype != np.uint8:
            return None
        colours = np.zeros((3, 256), np.uint16)
        colours[:, : len(palette)] = palette[:256].T.astype(np.uint16) * 257
    count = 1 << 8 * items.itemsize
    if items.dtype.kind != "u" or colours.size != 3 * count:
        return None
    return colours.reshape(3, count).astype(np.uint16)


def _has_sizes(attributes: Mapping[str, Any], axes: str) -> bool:
    """Whether there is a size of voxels for each axis of space, and these are all that ImageJ has."""
    sizes, space = attributes.get("voxel_sizes"), [name for name in axes if name in "ZYX"]
    is_known = {"X", "Y"} <= set(axes) <= set("TZCYXS") and len(set(axes)) == len(axes)
    return is_known and isinstance(sizes, (list, tuple)) and len(sizes) == len(space)


def _with_type(description: str, dtype: np.dtype[Any]) -> str:
    """A description, of which OME's says the type of the items as it is now."""
    name = {"f4": "float", "f8": "double", "c8": "complex", "c16": "double-complex", "b1": "bit"}.get(dtype.str[1:])
    pixels = re.search(r"<(\w+:)?Pixels\b[^>]*>", description) if description.lstrip().startswith("<") else None
    old = re.search(r'\bType="([^"]*)"', pixels[0]) if pixels else None
    if pixels is None or old is None or old[1] == (name := name or dtype.name):
        return description
    now = re.sub(r'\s+SignificantBits="[^"]*"', "", pixels[0].replace(old[0], f'Type="{name}"'))
    return description.replace(pixels[0], now)


def _resolution(attributes: Mapping[str, Any], axes: str, metadata: dict[str, Any] | None) -> dict[str, Any]:
    """The resolution that tags or sizes of voxels say; the step between planes goes into the metadata of ImageJ."""
    stored: list[Any] = [attributes.get(name) for name in ("XResolution", "YResolution")]
    if all(isinstance(one, (list, tuple)) and len(one) == 2 for one in stored):
        unit = attributes.get("ResolutionUnit")
        return {"resolution": tuple(map(tuple, stored)), **({} if unit is None else {"resolutionunit": unit})}
    if not _has_sizes(attributes, axes):
        return {}
    by_axis = dict(zip([name for name in axes if name in "ZYX"], attributes["voxel_sizes"], strict=True))
    if metadata is not None and "Z" in by_axis:
        metadata["spacing"] = float(by_axis["Z"])
    # A picture has the last two axes as its rows and columns, whatever they are called.
    down, right = [name for name in axes if name not in "SR"][-2:]
    if not {down, right} <= set(by_axis):
        return {}
    return {"resolution": (1 / by_axis[right], 1 / by_axis[down]), "resolutionunit": "none"}


def _as_text(value: Any) -> Any:
    """A text as the library takes it: in UTF-8 if it is not ASCII, such as the unit of OME."""
    return value.encode() if isinstance(value, str) and not value.isascii() else value


def _tags_of_imagej(attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> list[Any]:
    """Labels of planes, overlays and the like, in the order of bytes of the file."""
    import tifffile

    order = ">" if dtype.str[0] == ">" or (dtype.itemsize == 1 and sys.byteorder == "big") else "<"
    with suppress(Exception):  # of values that ImageJ has not
        return list(tifffile.imagej_metadata_tag(attributes.get("IJMetadata") or {}, order))
    return []


def _tags(attributes: Mapping[str, Any]) -> Iterator[tuple[int, str, int, Any, bool]]:
    """Other tags, as tifffile takes them: code, type, count and value."""
    import tifffile

    for name, value in attributes.items():
        is_private = name.isascii() and name.isdecimal() and 1 << 15 <= int(name[:6]) < 1 << 16  # and has no name
        if name in _ARGUMENTS or not (is_private or name in tifffile.TIFF.TAGS):
            continue
        code = int(name) if is_private else tifffile.TIFF.TAGS[name]
        numbers = value if isinstance(value, list) else [value]
        if isinstance(value, str):
            yield code, "s", 0, _as_text(value), True
        elif isinstance(value, bytes):
            yield code, "B", len(value), value, True
        elif numbers and all(type(one) is int and 0 <= one < 1 << 32 for one in numbers):
            yield code, "H" if max(numbers) < 1 << 16 else "I", len(numbers), tuple(numbers), True
        elif numbers and all(type(one) is float for one in numbers):
            yield code, "d", len(numbers), tuple(numbers), True
