"""Paths and addresses of servers, as users give them."""

from __future__ import annotations

import operator
import os
import re
import reprlib
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self, TypeGuard

from blosc2._core.io.checksum import crc32c
from blosc2._core.io.sharing import environment_has, item_of
from blosc2.exceptions import FormatError, legible

# Bytes that the C library maps at first for writing.
_MAPPING_SIZE = 1 << 30


def how_to_change(path: object, what: str) -> str:
    """What to do with something that was opened to be read only; `what` it is, "it" or "the store"."""
    if not isinstance(path, RemotePath):
        return f"open {what} with mode='a', and without mmap_mode='r'"
    saved = "save it there with mode='w'" if what == "it" else "write it there with to_b2z"
    return f"what is on a server is written as a whole: change a local copy, and {saved}"


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

    `ValueError` for a `file://` URL with the name of another machine, `NotImplementedError` for one of something
    remote.
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
            f"{text}: what is on a server can be read, by blosc2.open, and written as a whole, by to_b2z, save and "
            "asarray(urlpath=...): make a local file, and put it there in the end"
        )
    return text


def new_path(path: object) -> str:
    """Where something new is written as a whole: a path, or a `RemotePath`."""
    if is_remote(path) and not isinstance(path, RemotePath):
        return remote_path(path)
    return local_path(path, remote=True)


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


# Bytes that the name of a file may have.
_MOST_NAME_BYTES: Final = 255


def shortened(name: str, more: int = 24) -> str:
    """The name of a file to which up to `more` bytes are added; cut, with a checksum, where that would be too long.

    Examples
    --------
    >>> shortened("scans.b2z")
    'scans.b2z'
    >>> len(shortened("n" * 250 + ".b2z"))
    231
    """
    raw = os.fsencode(name)
    if len(raw) + more <= _MOST_NAME_BYTES:
        return name
    checksum = f"~{crc32c(raw):08x}"
    return raw[: _MOST_NAME_BYTES - more - len(checksum)].decode(errors="ignore") + checksum


#: What files of other formats are called: the ends of their names, in small letters. `convert` reads all but the last.
OTHER_FORMATS: Final = {
    ".h5": "an HDF5 file", ".hdf5": "an HDF5 file", ".he5": "an HDF5 file", ".h5ad": "an HDF5 file",
    ".nc": "a netCDF file", ".nc4": "a netCDF file", ".cdf": "a netCDF file", ".mat": "a MATLAB file",
    ".zarr": "a zarr group", ".zarr.zip": "a zarr group", ".npy": "a NumPy array", ".npz": "NumPy arrays",
    ".safetensors": "a safetensors file", ".nii": "a NIfTI file", ".nii.gz": "a NIfTI file",
    ".img": "a NIfTI or ANALYZE file", ".img.gz": "a NIfTI or ANALYZE file", ".hdr": "a NIfTI or ANALYZE file",
    ".hdr.gz": "a NIfTI or ANALYZE file", ".mgh": "an MGH file", ".mgz": "an MGH file", ".tif": "a TIFF file",
    ".tiff": "a TIFF file", ".png": "a picture", ".jpg": "a picture", ".jpeg": "a picture", ".bmp": "a picture",
    ".gif": "a picture", ".webp": "a picture", ".parquet": "a Parquet file", ".lmdb": "an LMDB environment",
    ".mdb": "an LMDB environment", ".tar": "a tar file", ".tar.gz": "a tar file", ".tgz": "a tar file",
    ".csv": "a table as text",
}  # fmt: skip
NOT_CONVERTED: Final = (".csv",)
_LONGEST_FIRST: Final = sorted(OTHER_FORMATS, key=len, reverse=True)
_OWN: Final = {
    ".b2z": "a store in one file", ".b2d": "a store in a folder", ".b2e": "an EmbedStore", ".b2nd": "an array",
    ".b2frame": "a super-chunk",
}  # fmt: skip


def check_new_name(path: str, fitting: tuple[str, ...]) -> None:
    """Refuse a name whose end means something else than what is made; the first of the `fitting` ones is usual."""
    path = path.rstrip("/")
    stem, suffix = split_other_format(path)
    what = item_of(OTHER_FORMATS, suffix.lower())
    if what is None:
        stem, suffix = os.path.splitext(path)
        what = item_of(_OWN, suffix.lower()) if suffix not in fitting else None
    if what is not None:
        new = suffix.lower() if suffix.lower() in fitting else fitting[0]
        raise ValueError(
            f"{legible(path)}: a name that ends in {suffix} is that of {what}; call it {legible(stem)}{new}"
        )


def split_other_format(path: str) -> tuple[str, str]:
    """A path without the end that is that of another format, and this end, "" where there is none.

    Examples
    --------
    >>> split_other_format("ct.nii.gz"), split_other_format("ct.b2z"), split_other_format(".h5")
    (('ct', '.nii.gz'), ('ct.b2z', ''), ('.h5', ''))
    """
    name = os.path.basename(path).lower()
    suffix = next((end for end in _LONGEST_FIRST if name.endswith(end) and name != end), "")
    return path[: len(path) - len(suffix)], path[len(path) - len(suffix) :]


def of_another_format(error: FormatError, name: str) -> FormatError:
    """An error, with what to do if the name is that of a format that can be converted."""
    stem, suffix = split_other_format(os.path.basename(name.rstrip("/")))
    if suffix.lower() in ("", *NOT_CONVERTED) or "blosc2.convert(" in error.reason:
        return error
    what = f"{error.reason}; to make a store of it: blosc2.convert({stem + suffix!r}, {stem + '.b2z'!r})"
    return FormatError(what, path=error.path, key=error.key, offset=error.offset)


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


# Compiled when it is needed, which takes a while: few programs open what is on a server.
_SCHEME: Final = r"([A-Za-z][A-Za-z0-9+.-]+)(::[A-Za-z][A-Za-z0-9+.-]*)*://"


class RemoteOptions(NamedTuple):
    """How an object on a server is read.

    `memory` and `disk_bytes` are the bytes of fetched blocks that are kept, in memory and in the folder `disk`, where
    other processes find them, too; up to `ahead` bytes may come that are never needed; `requests` are under way at a
    time, and each is repeated up to `retries` times where that can help, and may take `timeout` seconds.
    """

    memory: int = 64 << 20
    disk: str | None = None
    disk_bytes: int = 4 << 30
    requests: int = 16
    retries: int = 4
    timeout: float = 60.0
    ahead: int = 8 << 20


class RemotePath(str):
    """An object on a server, with what is needed to open it, here or in another process.

    As a str it is the URL without passwords and signatures, which messages may show; `url` has all of it.
    """

    url: str
    storage_options: Mapping[str, Any]
    options: RemoteOptions
    #: What reads the object now, for all that was opened by this path; no part of a pickle.
    reader: Any
    #: In a pickle: what the server told of the version that a handle shows. No other one is opened.
    wanted: tuple[Any, ...] | None

    __slots__ = ("options", "reader", "storage_options", "url", "wanted")

    def __new__(
        cls, url: str, storage_options: Mapping[str, Any] | None = None, options: RemoteOptions | None = None
    ) -> Self:
        shown = re.sub(r"\?.*", "?...", re.sub(r"://[^/]*@", "://", url), flags=re.DOTALL)
        return cls.called(shown, url, dict(storage_options or {}), options or RemoteOptions())

    @classmethod
    def called(
        cls, name: str, url: str, storage_options: Mapping[str, Any], options: RemoteOptions,
        wanted: tuple[Any, ...] | None = None,
    ) -> Self:  # fmt: skip
        """A path that messages call by a name."""
        self = super().__new__(cls, name)
        self.url, self.storage_options, self.options = url, storage_options, options
        self.reader, self.wanted = None, wanted
        return self

    def anew(self, wanted: tuple[Any, ...] | None = None) -> RemotePath:
        """This path without what reads it: it shows the newest version, or refuses all but the one that is wanted."""
        return self.called(str(self), self.url, self.storage_options, self.options, wanted)

    @property
    def file_name(self) -> str:
        """The last name of the URL, without what follows a path."""
        return os.path.basename(re.sub(r"[?#].*", "", self.url, flags=re.DOTALL))

    @property
    def suffix(self) -> str:
        return os.path.splitext(self.file_name)[1].lower()

    @property
    def recipe(self) -> tuple[Any, ...]:
        """What two paths have in common that lead to the same."""
        return self.url, repr(self.storage_options), self.options, self.wanted

    def __reduce__(self) -> tuple[Any, ...]:
        return RemotePath.called, (str(self), self.url, self.storage_options, self.options, self.wanted)

    def __copy__(self) -> RemotePath:
        return self

    def __deepcopy__(self, memo: Any) -> RemotePath:
        return self


def without_secrets(text: str) -> str:
    """A text of a server or of another library, whose URLs may have passwords and signatures, without these.

    Examples
    --------
    >>> without_secrets("404, url='https://me:word@host/a.b2nd?signature=abc'")
    "404, url='https://host/a.b2nd?...'"
    """
    return re.sub(r"\?[^\s'\")]+", "?...", re.sub(r"://[^/\s]*@", "://", text))


def scheme_of(text: str) -> str | None:
    """The scheme of a URL; None of what is a path."""
    found = re.match(_SCHEME, text) if "://" in text else None
    return None if found is None else found[1].lower()


def is_remote(path: object) -> TypeGuard[str]:
    """Whether this is something on a server, by its URL."""
    return isinstance(path, str) and (isinstance(path, RemotePath) or scheme_of(path) not in (None, "file"))


def remote_path(url: str, storage_options: object = None, remote: object = None) -> RemotePath:
    """Check the keywords `storage_options` and `remote` of `blosc2.open`."""
    if isinstance(url, RemotePath):  # of a pickle; not what reads it for others
        return url.anew(url.wanted)
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise TypeError(f"storage_options must be a dict, as fsspec takes it, not {type(storage_options).__name__}")
    return RemotePath(url, storage_options, _options(remote))


def _options(given: object) -> RemoteOptions:
    if given is None:
        return RemoteOptions()
    if isinstance(given, RemoteOptions):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"remote must be a dict, not {type(given).__name__}")
    unknown = set(given) - set(RemoteOptions._fields)
    if unknown:
        raise ValueError(
            f"remote has no {', '.join(sorted(map(repr, unknown)))}; it takes {', '.join(RemoteOptions._fields)}"
        )
    values = dict(given)
    for name, least in (("memory", 1 << 20), ("disk_bytes", 1 << 20), ("ahead", 0), ("requests", 1), ("retries", 0)):
        if name in values:
            values[name] = operator.index(values[name])
            if values[name] < least:
                raise ValueError(f"remote[{name!r}] must be at least {least}, not {values[name]}")
    if values.get("disk") is not None:
        values["disk"] = os.fspath(values["disk"])
    if "timeout" in values:
        values["timeout"] = float(values["timeout"])
        if not values["timeout"] > 0:
            raise ValueError(f"remote['timeout'] must be more than 0 seconds, not {values['timeout']}")
    return RemoteOptions(**values)


def check_remote(
    path: RemotePath, mode: object, mmap_mode: object, initial_mapping_size: object, *, locking: bool
) -> None:
    """Check how something on a server is to be opened: it can be read, and nothing else."""
    if mode != "r":
        raise ValueError(f"{path}: what is on a server can only be read: mode='r', not {mode!r}; write a local file")
    if mmap_mode is not None or initial_mapping_size is not None:
        raise ValueError(f"{path}: what is on a server cannot be mapped: leave out mmap_mode")
    if locking:
        raise ValueError(f"{path}: servers have no locks: leave out locking")
