"""The modes in which files are opened, and valid paths. Every public function checks them here."""

from __future__ import annotations

import operator
import os
import re
import reprlib
import sys
from typing import Any

# What the C library maps at first, where it may write.
_MAPPING_SIZE = 1 << 30
# Mode of the file behind each kind of mapping.
_MAPPING_MODES = {"r": "r", "r+": "a", "w+": "w", "c": "a"}


def check_modes(mode: object, mmap_mode: object = None, initial_mapping_size: object = None) -> str:
    """Check that the modes are legal together and give the mode that results, which a mapping decides.

    Parameters
    ----------
    mode : {'r', 'a', 'w', 'x'}
        Read; read and write, create if missing; replace; create only. None where a mapping decides.
    mmap_mode : {None, 'r', 'r+', 'w+', 'c'}
        Kind of mapping.
    initial_mapping_size : int, optional
        Only for mappings that can be written.

    Raises
    ------
    TypeError, ValueError
        An unknown mode, or a mapping size where there can be none.

    Examples
    --------
    >>> check_modes("a", "r")
    'r'
    """
    by_mapping = mode is None and mmap_mode is not None
    if not by_mapping and (not isinstance(mode, str) or mode not in ("r", "a", "w", "x")):
        raise ValueError(f"mode must be 'r', 'a', 'w' or 'x', not {mode!r}")
    if mmap_mode is not None and (not isinstance(mmap_mode, str) or mmap_mode not in _MAPPING_MODES):
        raise ValueError(f"Invalid mmap_mode {mmap_mode!r}: it can be None, 'r', 'r+', 'w+' or 'c'")
    if initial_mapping_size is not None:
        if mmap_mode is None:
            raise ValueError("initial_mapping_size can only be used with mmap_mode")
        if mmap_mode == "r":
            raise ValueError("initial_mapping_size can only be used with writing modes of mmap_mode, not with 'r'")
        if isinstance(initial_mapping_size, bool) or not hasattr(initial_mapping_size, "__index__"):
            raise TypeError(f"initial_mapping_size must be a number of bytes, not {initial_mapping_size!r}")
        if operator.index(initial_mapping_size) < 1:
            raise ValueError(f"initial_mapping_size must be positive, not {initial_mapping_size}")
    return str(mode) if mmap_mode is None else _MAPPING_MODES[mmap_mode]


def _is_asked_to_tell() -> bool:
    return bool(os.environ.get("BLOSC_TRACE") or os.environ.get("BLOSC_INFO"))


# Asked once, when this is imported: looking for two variables that are not there takes longer than mapping a file.
_tells: bool = _is_asked_to_tell()


def tell_of_mapping(path: str, mmap_mode: str | None, initial_mapping_size: Any, size: int) -> None:
    """Say on the standard error stream that a file was mapped, where the C library's variables asked for such texts.

    It is the C library's text, with the size that it would map. Here files are mapped as large as they are.
    """
    if not _tells or mmap_mode is None:
        return
    if mmap_mode != "r":
        size = max(size, _MAPPING_SIZE if initial_mapping_size is None else int(initial_mapping_size))
    text = f"[INFO] - Opened memory-mapped file {path} in mode {mmap_mode} with an mapping size of {size} bytes."
    print(text, file=sys.stderr)


def local_path(path: object) -> str:
    """Give a path (str, bytes, path object or `file://` URL) as a str.

    Raises
    ------
    TypeError
        It is none of these.
    ValueError
        It is a `file://` URL with the name of another machine.
    NotImplementedError
        It is the URL of something remote.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"a path must be a str, bytes or a path object, not {reprlib.repr(path)}")
    text = os.fsdecode(path)
    remote = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", text)
    if remote and remote[1].lower() == "file":
        return _path_of_url(text)
    if remote:
        raise NotImplementedError(f"{text}: only local files can be opened, not {remote[1]} URLs; download it first")
    return text


def _path_of_url(url: str) -> str:
    """The path that a `file://` URL names, with its %-escapes resolved."""
    from urllib.parse import urlsplit  # few need them, and they are slow to import
    from urllib.request import url2pathname

    parts = urlsplit(url)
    if parts.netloc.lower() not in ("", "localhost"):
        raise ValueError(
            f"{url}: a file of another machine, {parts.netloc!r}; mount its folder, and give the path there"
        )
    if parts.query or parts.fragment:
        raise ValueError(f"{url}: a file has no query and no fragment; write '?' as %3F and '#' as %23 in its name")
    return url2pathname(parts.path)
