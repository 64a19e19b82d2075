"""Files of netCDF 4 are HDF5 files, whatever they are called: which of both libraries opens one."""

from __future__ import annotations

from importlib.util import find_spec

from blosc2._tools.converting.conversion import Source


def open_netcdf(path: str) -> Source:
    """A netCDF file; what is plain HDF5, and no netCDF, is read as such."""
    from blosc2._tools.converting.netcdf import NetCDF

    try:
        return NetCDF(path)
    except OSError:
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
    if is_netcdf and find_spec("netCDF4") is not None:
        from blosc2._tools.converting.netcdf import NetCDF

        return NetCDF(path)
    from blosc2._tools.converting.hdf5 import Hdf5

    return Hdf5(path)
