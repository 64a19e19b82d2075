"""Import msgpack and all modules of the package; on a free-threaded Python the GIL has to be off after it.

    python -W error .ci/import_all.py

Modules that need an extra which is missing are left out, those of `_core` never.
"""

import importlib
import os
import pkgutil
import sys
import sysconfig

import msgpack  # noqa: F401 - its extension could turn the GIL on

import blosc2

if "PYTHON_GIL" in os.environ:
    sys.exit("with PYTHON_GIL nothing can turn the GIL on or off: unset it")
imported, left_out = 0, []
for found in pkgutil.walk_packages(blosc2.__path__, "blosc2."):
    try:
        importlib.import_module(found.name)
        imported += 1
    except ImportError as error:
        if found.name.startswith("blosc2._core"):
            raise
        left_out.append(f"{found.name} ({error.name or error})")
print(f"Python {sys.version}: {imported} modules; left out: {', '.join(left_out) or 'none'}")
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    # Looked up by name, which other Pythons do not have.
    if getattr(sys, "_is_gil_enabled")():  # noqa: B009
        sys.exit("importing these modules turned the GIL on")
    print("the GIL is off")
