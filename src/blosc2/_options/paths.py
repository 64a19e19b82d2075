"""Paths that a caller gives, and the C library's message about a mapped file."""

from __future__ import annotations

import os
import reprlib
import sys
from typing import Any

from blosc2._core.io.forking import environment_has
from blosc2._options.remote import RemotePath, scheme_of
from blosc2.exceptions import legible

# Bytes that the C library maps at first for writing.
_MAPPING_SIZE = 1 << 30


def tell_of_mapping(path: str, mmap_mode: str | None, initial_mapping_size: Any, size: int) -> None:
    """Report a mapped file on the standard error stream, if the C library's environment variables ask for it.

    It is the C library's text, with the size that it would map. Here files are mapped as large as they are.
    """
    if mmap_mode is None or not (environment_has(b"BLOSC_INFO") or environment_has(b"BLOSC_TRACE")):
        return
    if mmap_mode != "r":
        size = max(size, _MAPPING_SIZE if initial_mapping_size is None else int(initial_mapping_size))
    text = f"[INFO] - Opened memory-mapped file {path} in mode {mmap_mode} with an mapping size of {size} bytes."
    print(text, file=sys.stderr)


def local_path(path: object, *, remote: bool = False) -> str:
    """Give a path (str, bytes, path object or `file://` URL) as a str; with `remote`, a `RemotePath` stays one.

    Raises
    ------
    TypeError
        It is none of these.
    ValueError
        It is a `file://` URL with the name of another machine.
    NotImplementedError
        It is the URL of something remote.
    """
    if isinstance(path, RemotePath):
        if not remote:
            raise NotImplementedError(f"{legible(path)}: this works on local files; download it first")
        return path
    if type(path) is str:
        text = path
    elif isinstance(path, (str, bytes, os.PathLike)):
        text = os.fsdecode(path)
    else:
        raise TypeError(f"a path must be a str, bytes or a path object, not {reprlib.repr(path)}")
    if "://" not in text:
        return text
    scheme = scheme_of(text)
    if scheme == "file":
        return _path_of_url(text)
    if scheme is not None:
        raise NotImplementedError(
            f"{text}: {scheme} URLs can only be read, and blosc2.open opens them; write a local file, and upload it"
        )
    return text


def absolute_path(path: str) -> str:
    """A path that means the same when the working directory changes; what is on a server has one.

    ``..`` stays where it is: behind a link it is another folder than the one that the link lies in.
    """
    if isinstance(path, RemotePath):
        return path
    if os.name == "nt":  # where the system takes it for the folder before it, too
        return os.path.abspath(path)
    full = path if path.startswith("/") else os.path.join(os.getcwd(), path)
    if "/.." not in full:
        return os.path.normpath(full)
    full = full.rstrip("/")
    return os.path.realpath(full) if full.endswith("/..") else full


def _path_of_url(url: str) -> str:
    """The path that a `file://` URL names, with its %-escapes resolved."""
    from urllib.parse import urlsplit  # few need them, and they are slow to import
    from urllib.request import url2pathname

    parts = urlsplit(url)
    if parts.netloc.lower() not in ("", "localhost"):
        raise ValueError(
            f"{legible(url)}: a file of another machine, {parts.netloc!r}; mount its folder, and give the path there"
        )
    if parts.query or parts.fragment:
        raise ValueError(
            f"{legible(url)}: a file has no query and no fragment; write '?' as %3F and '#' as %23 in its name"
        )
    return url2pathname(parts.path)
