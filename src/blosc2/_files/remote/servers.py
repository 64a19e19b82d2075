"""Which protocol reaches an object."""

from __future__ import annotations

from typing import Any, Final

from blosc2._core.io.sharing import item_of
from blosc2._files.remote.answers import Server
from blosc2._files.remote.plain import PlainServer
from blosc2._options import RemotePath, lacking

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
