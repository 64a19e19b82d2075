"""What is opened on a server: its URL, what fsspec needs to reach it, and how much is kept and asked at a time."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

# Compiled when it is needed, which takes a while: few programs open what is on a server.
_SCHEME: Final = r"([A-Za-z][A-Za-z0-9+.-]+)(::[A-Za-z][A-Za-z0-9+.-]*)*://"


class RemoteOptions(NamedTuple):
    """How an object on a server is read.

    Attributes
    ----------
    memory : int
        Bytes of fetched blocks that are kept in memory.
    disk : str or None
        A folder in which fetched blocks are kept, for other processes, too.
    disk_bytes : int
        How many bytes of them.
    requests : int
        How many requests are under way at a time.
    retries : int
        How often a request is repeated where that can help.
    timeout : float
        Seconds that one request may take.
    """

    memory: int = 64 << 20
    disk: str | None = None
    disk_bytes: int = 4 << 30
    requests: int = 16
    retries: int = 4
    timeout: float = 60.0


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
        shown = re.sub(r"\?.*", "?...", re.sub(r"://[^/@]*@", "://", url), flags=re.DOTALL)
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
        """The same without what reads it: it shows the newest version, or refuses all but the one that is wanted."""
        return self.called(str(self), self.url, self.storage_options, self.options, wanted)

    @property
    def suffix(self) -> str:
        """The suffix of the object's name."""
        return os.path.splitext(re.sub(r"[?#].*", "", self.url, flags=re.DOTALL))[1].lower()

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


def scheme_of(text: str) -> str | None:
    """The scheme of a URL; None of what is a path."""
    found = re.match(_SCHEME, text) if "://" in text else None
    return None if found is None else found[1].lower()


def remote_path(url: str, storage_options: object = None, remote: object = None) -> RemotePath:
    """Check the keywords `storage_options` and `remote` of `blosc2.open`.

    Examples
    --------
    >>> remote_path("memory://a.b2nd", None, {"retries": 2}).options.retries
    2
    """
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
    for name, least in (("memory", 1 << 20), ("disk_bytes", 1 << 20), ("requests", 1), ("retries", 0)):
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
