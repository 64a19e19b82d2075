"""Servers for tests of remote reads: one of HTTP on this machine, which counts, delays and fails requests; and fsspec's
file system in memory, from which tests of local files can read the same bytes.
"""

from __future__ import annotations

import hashlib
import http.server
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest


class Request(NamedTuple):
    """One request that came: what it asked for, and how many bytes it was sent."""

    method: str
    name: str
    range: str | None
    sent: int


class RangeServer:
    """An HTTP server with ranges.

    Attributes
    ----------
    objects : dict of str to bytes
        What it has, by name.
    requests : list of Request
        All that came.
    most : int
        How many were under way at a time.
    delay : float
        Seconds that each takes.
    spoil : callable, optional
        Called with the handler, the bytes and the range before an answer; True where it has answered itself.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[Request] = []
        self.most = self._now = 0
        self.delay = 0.0
        self.etags = True
        self.ranges = True
        self.spoil: Callable[[Any, bytes, slice], bool] | None = None
        self._lock = threading.Lock()
        self._tags: dict[int, tuple[bytes, str]] = {}  # of large objects it takes long
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # an answer is sent at once
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                server._count(1)
                try:
                    time.sleep(server.delay)
                    server._answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True
                finally:
                    server._count(-1)

            def log_message(self, *_: object) -> None:
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Listener(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def put(self, name: str, path: os.PathLike[str] | str) -> str:
        """Serve a file; returns its URL."""
        with open(path, "rb") as file:
            self.objects[name] = file.read()
        return f"{self.url}/{name}"

    def forget(self) -> None:
        """Count anew."""
        self.requests, self.most = [], 0

    @property
    def sent(self) -> int:
        return sum(request.sent for request in self.requests)

    def _count(self, step: int) -> None:
        with self._lock:
            self._now += step
            self.most = max(self.most, self._now)

    def _answer(self, handler: Any) -> None:
        name, wanted = handler.path.lstrip("/").partition("?")[0], handler.headers.get("Range")
        data = self.objects.get(name)
        if data is None:
            self._log(handler, 0)
            reply(handler, 404, b"")
            return
        part = _part(wanted, len(data)) if wanted and self.ranges else None
        self._log(handler, 0 if part is None or part.start >= len(data) else part.stop - part.start)
        if self.spoil is not None and self.spoil(handler, data, part or slice(0, len(data))):
            return
        if part is None:
            reply(handler, 200, data, self.version(data))
        elif part.start >= len(data):
            reply(handler, 416, b"", {"Content-Range": f"bytes */{len(data)}"})
        else:
            reply(handler, 206, data[part], self.version(data) | content_range(part, data))

    def version(self, data: bytes) -> dict[str, str]:
        if not self.etags:
            return {}
        known = self._tags.get(id(data))
        if known is None or known[0] is not data:
            self._tags[id(data)] = known = data, f'"{hashlib.md5(data).hexdigest()}"'
        return {"ETag": known[1]}

    def _log(self, handler: Any, sent: int) -> None:
        with self._lock:
            self.requests.append(Request(handler.command, handler.path, handler.headers.get("Range"), sent))


def content_range(part: slice, data: bytes) -> dict[str, str]:
    return {"Content-Range": f"bytes {part.start}-{part.stop - 1}/{len(data)}"}


def reply(handler: Any, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def _part(wanted: str, size: int) -> slice:
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    if not first:
        return slice(max(0, size - int(last)), size)
    return slice(int(first), min(int(last) + 1, size))


@contextmanager
def running() -> Iterator[RangeServer]:
    server = RangeServer()
    try:
        yield server
    finally:
        server.close()


# --------------------------------------------------------------------------- local files, read as if they were far
_serial = itertools.count()


def in_memory(path: os.PathLike[str] | str) -> Any:
    """A copy of a file in fsspec's file system in memory, as a path that `blosc2.open` and the stores take."""
    import fsspec

    from blosc2._options import RemoteOptions, RemotePath

    name = f"/read/{next(_serial)}/{os.path.basename(path)}"
    with open(path, "rb") as file:
        fsspec.filesystem("memory").pipe_file(name, file.read())
    # Messages name the file, as tests expect it.
    return RemotePath.called(os.fspath(path), f"memory:/{name}", {}, RemoteOptions())


def read_remotely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have whatever opens a local file to read it, from here on, read a copy of it on a server."""
    import blosc2
    from blosc2._options import RemotePath

    plain_open = blosc2.open
    _ = blosc2.TreeStore  # copies the signature of `DictStore` when it is loaded, so before that is replaced

    def remote(path: Any, mode: str, given: dict[str, Any]) -> Any:
        name = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
        if isinstance(path, RemotePath):
            return path
        if mode != "r" or given.get("mmap_mode") is not None or given.get("locking") or not os.path.isfile(name):
            return path
        return in_memory(name)

    def opened(urlpath: Any, mode: str = "r", *args: Any, **given: Any) -> Any:
        return plain_open(remote(urlpath, mode, given), mode, *args, **given)

    monkeypatch.setattr(blosc2, "open", opened)
    for kind in (blosc2.DictStore, blosc2.EmbedStore):
        begin = kind.__init__

        def made(self: Any, path: Any = None, mode: str = "a", *args: Any, begin: Any = begin, **given: Any) -> None:
            begin(self, remote(path, mode, given), mode, *args, **given)

        monkeypatch.setattr(kind, "__init__", made)
