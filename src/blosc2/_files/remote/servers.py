"""Which protocol reaches an object."""

from __future__ import annotations

from typing import Any

from blosc2._files.remote.answers import Server
from blosc2._files.remote.plain import PlainServer
from blosc2._options import RemotePath

_EXTRA = "pip install 'python-blosc2[remote]' brings what http and s3 need"


def server_of(path: RemotePath) -> Server:
    """What reaches an object, in this process: connections are those of one process."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(
            f"{path}: objects on servers are read through the package 'fsspec': "
            "pip install 'python-blosc2[remote]' brings it"
        ) from None
    try:
        system: Any
        system, name = url_to_fs(path.url, **path.storage_options)
    except ImportError as error:
        raise ImportError(f"{path}: {error}; {_EXTRA}") from None
    protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    timeout = path.options.timeout
    if "http" in protocols and hasattr(system, "set_session") and hasattr(system, "encode_url"):
        from blosc2._files.remote.http import HttpServer

        return HttpServer(system, name, str(path), timeout)
    if "s3" in protocols and hasattr(system, "_call_s3"):
        from blosc2._files.remote.s3 import S3Server

        return S3Server(system, name, str(path), timeout)
    return PlainServer(system, name, str(path))
