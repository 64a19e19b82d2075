"""The demo's images, which come with installed packages: nothing is downloaded."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from blosc2._tools.demo.errors import DemoError

# Functions of skimage.data that read a photograph from scikit-image's own wheel.
PHOTOGRAPHS = (
    "astronaut", "brick", "camera", "chelsea", "coffee", "coins", "grass", "gravel", "hubble_deep_field",
    "immunohistochemistry", "moon", "retina", "rocket",
)  # fmt: skip


@dataclass(frozen=True)
class Image:
    """An image and where it goes: its axes are ``spatial`` axes of space first, then channels or time."""

    key: str
    data: np.ndarray[Any, Any]
    spatial: int
    attributes: dict[str, Any] = field(default_factory=dict)


def _required(name: str, distribution: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise DemoError(
            f"the images of the demo are inside the package {distribution!r}, which is not installed; "
            "run: pip install 'python-blosc2[demo]'"
        ) from error


def load_scan() -> Image:
    """Read the 4-D MRI volume that nibabel's tests use: (x, y, z, time), 16-bit integers as stored."""
    nibabel = _required("nibabel", "nibabel")
    path = Path(str(nibabel.__file__)).parent / "tests" / "data" / "example4d.nii.gz"
    if not path.is_file():
        raise DemoError(f"this build of nibabel has no example volume at {path}; install it from PyPI")
    scan = nibabel.load(path)
    step = [float(size) for size in scan.header.get_zooms()]
    length_unit, time_unit = scan.header.get_xyzt_units()
    return Image(
        key="/mri",
        data=np.ascontiguousarray(scan.dataobj.get_unscaled()),
        spatial=3,
        attributes={
            "source": f"nibabel {nibabel.__version__}, tests/data/{path.name}",
            "axes": ["x", "y", "z", "time"],
            "voxel_sizes": step[:3],
            "voxel_unit": length_unit,
            "time_step": step[3],
            "time_unit": time_unit,
            "affine": [[float(number) for number in row] for row in scan.affine],
        },
    )


def load_photograph(name: str) -> Image:
    """Read one of the photographs that scikit-image ships: (rows, columns) or (rows, columns, colours), 8 bits."""
    skimage = _required("skimage", "scikit-image")
    read: Callable[[], np.ndarray[Any, Any]] = getattr(_required("skimage.data", "scikit-image"), name)
    data = np.ascontiguousarray(read())
    return Image(
        key=f"/photos/{name}",
        data=data,
        spatial=2,
        attributes={
            "source": f"scikit-image {skimage.__version__}, skimage.data.{name}()",
            "axes": ["row", "column", "colour"][: data.ndim],
        },
    )
