"""Which protocol reaches an object; and objects whose file systems do not say of which version an answer is.

Such a file system is asked for the version after each read; where that is a request of its own, there are twice as
many.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any, Final

from blosc2._core.io.sharing import item_of
from blosc2._files.blocks import as_block
from blosc2._files.remote.answers import (
    Answer,
    Failure,
    Server,
    Version,
    changed,
    denied,
    failed,
    missing,
    told,
    truncated,
)
from blosc2._options import RemotePath, lacking, without_secrets
from blosc2.exceptions import ExistingFileError, RemoteAccessError, RemoteError

# What file systems call that which differs between versions.
_TELLING: Final = (
    "ETag", "etag", "md5Hash", "content_md5", "generation", "version_id", "ino", "mtime", "LastModified",
    "last_modified", "updated", "modified", "created",
)  # fmt: skip


class PlainServer:
    """An object at a path of any file system."""

    def __init__(self, system: Any, path: str, shown: str) -> None:
        self._system, self._path, self._shown = system, path, shown
        self._last: Version | None = None

    def get_end(self, count: int) -> Answer:
        """See `Server`."""
        return self.get(-count, None)

    def get(self, start: int, stop: int | None) -> Answer:
        """See `Server`; without `stop`, up to the end of the object."""
        try:
            before = self._last or self._version()
            if stop is None:
                start, stop = max(0, before.size + start), before.size
            stop = min(stop, before.size)
            data = b"" if start >= stop else self._system.cat_file(self._path, start=start, end=stop)
            self._last = after = self._version()
        except FileNotFoundError:
            raise missing(self._shown) from None
        except PermissionError as error:
            raise denied(self._shown, error) from None
        except (NotImplementedError, ValueError, TypeError) as error:
            raise Failure(RemoteError(f"it cannot be read ({told(error)})", path=self._shown)) from None
        except (OSError, TimeoutError) as error:
            raise failed(self._shown, told(error)) from None
        if not before.is_as(after):
            raise Failure(changed(self._shown))
        if len(data) != max(stop - start, 0):
            raise truncated(self._shown, len(data), stop - start)
        return Answer(start, bytes(data), after)

    def _version(self) -> Version:
        self._system.invalidate_cache(self._system._parent(self._path))
        about = self._system.info(self._path)
        if about.get("type") == "directory":
            raise Failure(RemoteError("it is a folder, not a file", path=self._shown))
        if about.get("size") is None:
            raise Failure(RemoteError("the file system does not know how long it is", path=self._shown))
        telling = [f"{name}={about[name]}" for name in _TELLING if about.get(name) is not None]
        return Version(int(about["size"]), " ".join(telling) or None)


#: What fsspec needs for the protocols that the extra is for. Of others it says itself what to install.
_PACKAGES: Final = {"http": "aiohttp", "https": "aiohttp", "s3": "s3fs", "s3a": "s3fs"}


def _system_of(path: RemotePath) -> tuple[Any, str]:
    """The file system of fsspec that has an object, and the name of the object there."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(lacking(f"{path}: what is on servers", "fsspec", "remote")) from None
    try:
        found: tuple[Any, str] = url_to_fs(path.url, **path.storage_options)
    except ImportError as error:
        package = item_of(_PACKAGES, path.url.partition(":")[0])
        if package is None:
            raise ImportError(f"{path}: {error}") from None
        raise ImportError(lacking(f"{path}: what is there", package, "remote")) from None
    except MemoryError:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {_open(path, error)}") from None
    except Exception as error:  # noqa: BLE001 - each file system has its own
        why = f"its file system cannot be reached ({type(error).__name__}: {_open(path, error)})"
        raise RemoteError(f"{why}; see its protocol, its host and storage_options", path=str(path)) from None
    return found


@as_block
def uploaded(path: RemotePath, *, replace: bool) -> Iterator[str]:
    """The name of a local file to write, which becomes an object on a server, as a whole, at the end of the block.

    Raises
    ------
    ExistingFileError
        The object exists, and is not to be replaced.
    RemoteError
        The server takes nothing.
    """
    system, name = _asked(path, lambda: _system_of(path))

    def check() -> None:
        if not replace and _asked(path, lambda: system.exists(name)):
            text = "the object exists; mode='w' or overwrite=True replaces it"
            raise ExistingFileError(errno.EEXIST, text, str(path))

    check()
    with TemporaryDirectory(prefix="blosc2-") as folder:
        local = os.path.join(folder, f"object{path.suffix}")
        yield local
        if os.path.isdir(local):
            raise RemoteError("a folder is not written to a server: take one file, such as a .b2z", path=str(path))
        check()  # somebody may have made one meanwhile
        _asked(path, lambda: _put(system, local, name))
        system.invalidate_cache()


def _put(system: Any, local: str, name: str) -> None:
    """Send a file. Where others could see a part of it, it gets its name when it is whole."""
    protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    if not _AT_ONCE.isdisjoint(protocols):
        system.put_file(local, name)
        return
    partial = f"{name}.partial-{os.urandom(4).hex()}"
    try:
        system.put_file(local, partial)
        system.mv(partial, name)
    except BaseException:
        with suppress(Exception):
            system.rm(partial)
        raise


#: Protocols whose objects appear when all of them was sent.
_AT_ONCE: Final = frozenset(
    {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "http", "https", "hf", "oci", "oss", "memory"}
)


def _asked(path: RemotePath, ask: Callable[[], Any]) -> Any:
    """What a server answers to one who writes."""
    try:
        return ask()
    except (ImportError, MemoryError, RemoteError):
        raise
    except PermissionError as error:
        raise RemoteAccessError(f"it must not be written ({_open(path, error)})", path=str(path)) from None
    except Exception as error:  # noqa: BLE001 - each file system has its own
        why = f"its server did not take it ({type(error).__name__}: {_open(path, error)})"
        raise RemoteError(f"{why}; write a local file, and bring it there by other means", path=str(path)) from None


def _open(path: RemotePath, error: Exception) -> str:
    """What an error says, without what only the caller may know."""
    text = re.sub(r"\.partial-[0-9a-f]{8}", "", str(error)).replace(path.url, str(path))
    for secret in (value for value in path.storage_options.values() if isinstance(value, str) and len(value) > 3):
        text = text.replace(secret, "...")
    return without_secrets(text)[:200]


def server_of(path: RemotePath) -> Server:
    """What reaches an object, in this process: connections are those of one process."""
    system, name = _system_of(path)
    protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    timeout = path.options.timeout
    if "http" in protocols and hasattr(system, "set_session") and hasattr(system, "encode_url"):
        from blosc2._files.remote.http import HttpServer

        return HttpServer(system, name, str(path), timeout)
    if "s3" in protocols and hasattr(system, "_call_s3"):
        from blosc2._files.remote.s3 import S3Server

        return S3Server(system, name, str(path), timeout)
    return PlainServer(system, name, str(path))
