"""Which protocol reaches an object; and objects whose file systems do not say of which version an answer is.

Such a file system is asked for the version after each read; where that is a request of its own, there are twice as
many.
"""

from __future__ import annotations

from typing import Any, Final

from blosc2._core.io.sharing import item_of
from blosc2._files.remote.answers import Answer, Failure, Server, Version, changed, denied, failed, missing, truncated
from blosc2._options import RemotePath, lacking
from blosc2.exceptions import RemoteError

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

    def get(self, start: int, stop: int) -> Answer:
        """See `Server`."""
        return self._get(start, stop)

    def get_end(self, count: int) -> Answer:
        """See `Server`."""
        return self._get(-count, None)

    def _get(self, start: int, stop: int | None) -> Answer:
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
            raise Failure(
                RemoteError(f"it cannot be read ({type(error).__name__}: {error})", path=self._shown)
            ) from None
        except (OSError, TimeoutError) as error:
            raise failed(self._shown, f"{type(error).__name__}: {error}"[:200]) from None
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


def server_of(path: RemotePath) -> Server:
    """What reaches an object, in this process: connections are those of one process."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(lacking(f"{path}: reading from servers", "fsspec", "remote")) from None
    try:
        system: Any
        system, name = url_to_fs(path.url, **path.storage_options)
    except ImportError as error:
        package = item_of(_PACKAGES, path.url.partition(":")[0])
        if package is None:
            raise ImportError(f"{path}: {error}") from None
        raise ImportError(lacking(f"{path}: reading from it", package, "remote")) from None
    protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    timeout = path.options.timeout
    if "http" in protocols and hasattr(system, "set_session") and hasattr(system, "encode_url"):
        from blosc2._files.remote.http import HttpServer

        return HttpServer(system, name, str(path), timeout)
    if "s3" in protocols and hasattr(system, "_call_s3"):
        from blosc2._files.remote.s3 import S3Server

        return S3Server(system, name, str(path), timeout)
    return PlainServer(system, name, str(path))
