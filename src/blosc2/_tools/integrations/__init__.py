"""What joins other libraries to arrays and stores: xarray and dask, each an extra.

Modules that import such a library are imported when they are used; `needs` says what to install where it is missing.
"""
