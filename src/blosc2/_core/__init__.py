"""Bytes, in Cython: sources, chunks, frames, grids of arrays, archives, keys, and fast paths to many leaves.

It knows no modes, no defaults, and no paths except to open them. Of the Python layers it imports only `exceptions`.
`allocation` has the rule for how much memory an operation on a file may use; `on_demand` serves packages that import
their modules when they are needed; `mixed_install` refuses a folder with the files of two distributions.
"""

import sys as _sys

from blosc2._core.mixed_install import refuse_mixed_install as _refuse_mixed_install

# Here, where all of this package comes by: the `__init__` above may be that of the other one.
_refuse_mixed_install(_sys.modules["blosc2"].__path__)
