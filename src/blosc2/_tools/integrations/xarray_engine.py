"""The engine ``"blosc2"`` of xarray beside another package that claims this name, as `xarray-blosc2` does.

xarray takes one engine of a name, by chance in each process. So each of the two gives the other what is the other's:
this one by itself, and the other one because its methods are wrapped when xarray has taken it. Then it makes no
difference which one was taken. The name ``"python-blosc2"`` is this package's alone.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
import zipfile
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from blosc2._backends import EMBED
from blosc2._opening import open as open_path
from blosc2._stores import Store
from blosc2._tools.converting.items import DIMENSIONS
from blosc2._tools.integrations.xarray_backend import SUFFIXES, Blosc2BackendEntrypoint
from blosc2.exceptions import FormatError
from blosc2.ndarray import NDArray

NAME: Final = "blosc2"
#: What xarray passes on to engines by itself, if they take it.
_DECODERS: Final = (
    "mask_and_scale", "decode_times", "concat_characters", "decode_coords", "use_cftime", "decode_timedelta"
)  # fmt: skip
_METHODS: Final = ("open_dataset", "open_datatree", "open_groups_as_dict")
#: The entry of the variable metadata in which `xarray-blosc2` keeps the names of axes.
_THEIR_DIMENSIONS: Final = "dims"


@functools.cache
def other_entry() -> EntryPoint | None:
    """The entry point of another package that claims the name."""
    found = (
        entry for entry in entry_points(group="xarray.backends", name=NAME) if entry.module.split(".")[0] != "blosc2"
    )
    return next(found, None)


@functools.cache
def other_engine() -> Any:
    """The engine of that package, which hands over what is of this one; None where there is none."""
    entry = other_entry()
    try:
        engine = None if entry is None else entry.load()
    except Exception as error:  # noqa: BLE001 - of another package
        warnings.warn(f"the other engine {NAME!r} of xarray cannot be loaded: {error}", stacklevel=2)
        return None
    if engine is not None:
        _let_hand_over(engine)
    return engine


def _let_hand_over(engine: Any) -> None:
    """Wrap what opens files, so that files of this package come here."""
    own, takes = Blosc2BackendEntrypoint, engine.open_dataset_parameters or ()

    def wrapped(method: str) -> Callable[..., Any]:
        theirs = getattr(engine, method)

        @functools.wraps(theirs)
        def opened(self: Any, filename_or_obj: Any, **how: Any) -> Any:
            if is_own(filename_or_obj):
                return getattr(own(), method)(filename_or_obj, **how)
            known = {name: value for name, value in how.items() if name in takes or name not in _DECODERS}
            return theirs(self, filename_or_obj, **known)

        return opened

    for method in _METHODS:
        setattr(engine, method, wrapped(method))
    engine.open_dataset_parameters = tuple(dict.fromkeys([*takes, *own.open_dataset_parameters]))
    engine.supports_groups = True


def is_own(given: Any) -> bool:
    """Whether something to be opened is of this package's form: a store, or an array without names of the other's."""
    if not isinstance(given, (str, os.PathLike)):
        return isinstance(given, (Store, NDArray))
    path = os.path.expanduser(os.fspath(given))
    named = path.rstrip("/").endswith(SUFFIXES)
    if "://" in path:
        return named and "/api/datasets/" not in path  # of a server of the other package
    try:
        opened = open_path(path, mode="r")
    except (FormatError, OSError):
        return named and not _is_folder_of_arrays(path)
    if isinstance(opened, Store):
        opened.close()
    return not (isinstance(opened, NDArray) and _THEIR_DIMENSIONS in opened.vlmeta and DIMENSIONS not in opened.vlmeta)


def _is_folder_of_arrays(path: str) -> bool:
    """Whether a folder or archive can be listed, and is no store."""
    if os.path.isdir(path):
        return not os.path.lexists(os.path.join(path, EMBED))
    try:
        with zipfile.ZipFile(path) as archive:
            return EMBED not in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


class SharedEntrypoint(Blosc2BackendEntrypoint):
    """What ``engine="blosc2"`` names: the engine of this package, which hands over what is another one's."""

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether one of the two can open it."""
        other = other_engine()
        return super().guess_can_open(filename_or_obj) or bool(other and other().guess_can_open(filename_or_obj))

    def open_dataset(self, filename_or_obj: Any, **how: Any) -> Any:
        """Open one group as a dataset; the other engine opens what is its own."""
        return self._opener(filename_or_obj).open_dataset(filename_or_obj, **how)

    def open_datatree(self, filename_or_obj: Any, **how: Any) -> Any:
        """Open a group and all groups below it as a tree; the other engine opens what is its own."""
        return self._opener(filename_or_obj).open_datatree(filename_or_obj, **how)

    def open_groups_as_dict(self, filename_or_obj: Any, **how: Any) -> Any:
        """The dataset of a group and of each group below it; the other engine opens what is its own."""
        return self._opener(filename_or_obj).open_groups_as_dict(filename_or_obj, **how)

    def _opener(self, given: Any) -> Any:
        other = None if isinstance(given, (Store, NDArray)) else other_engine()
        return Blosc2BackendEntrypoint() if other is None else other()


class OwnEntrypoint(Blosc2BackendEntrypoint):
    """What ``engine="python-blosc2"`` names."""

    def __init__(self) -> None:
        # xarray makes one of each engine when it has loaded all, and then the other one is there if it was taken.
        entry = other_entry()
        if entry is not None and entry.module in sys.modules:
            other_engine()
