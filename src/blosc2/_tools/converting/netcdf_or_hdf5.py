"""Files of netCDF 4 are HDF5 files, whatever they are called: which of both libraries opens one."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final

from blosc2._tools.converting.conversion import Source

# What the netCDF library raises for what only HDF5 has, and for types that it lacks in Python, such as arrays of
# structures in others.
_CANNOT: Final = (OSError, TypeError, NotImplementedError)


def _has_sound_scales(path: str) -> bool:
    """Whether the netCDF library can be given a file: it ends the process where lists of scales are other values."""
    if find_spec("h5py") is None:
        return True
    import h5py

    if not h5py.is_hdf5(path):
        return True
    from blosc2._tools.converting.hdf5 import has_scales

    def is_other(_: str, found: Any) -> bool | None:
        is_listed = isinstance(found, h5py.Dataset) and "DIMENSION_LIST" in found.attrs
        return True if is_listed and not has_scales(found) else None  # None goes on

    try:
        with h5py.File(path, "r") as file:
            return file.visititems(is_other) is None
    except (OSError, RuntimeError, KeyError):  # damaged elsewhere, of which each library tells
        return True


def open_netcdf(path: str) -> Source:
    """A netCDF file; what is plain HDF5, and no netCDF, or has types that need it, is read as such."""
    if _has_sound_scales(path):
        from blosc2._tools.converting.netcdf import NetCDF

        try:
            return NetCDF(path)
        except _CANNOT:
            import h5py

            if not h5py.is_hdf5(path):
                raise
    from blosc2._tools.converting.hdf5 import Hdf5

    return Hdf5(path)


def open_hdf5(path: str) -> Source:
    """An HDF5 file; one of netCDF 4 by the library of netCDF, if that is there: it knows what is meant."""
    import h5py

    is_netcdf = False
    if h5py.is_hdf5(path):
        with h5py.File(path, "r") as file:
            is_netcdf = "_NCProperties" in file.attrs
    if is_netcdf and find_spec("netCDF4") is not None and _has_sound_scales(path):
        from blosc2._tools.converting.netcdf import NetCDF

        with suppress(*_CANNOT):
            return NetCDF(path)
    from blosc2._tools.converting.hdf5 import Hdf5

    return Hdf5(path)
