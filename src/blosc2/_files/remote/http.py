"""Objects of HTTP servers: each answer is checked to be the range that was asked for, and tells its version."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from blosc2._files.remote.answers import (
    Answer,
    Failure,
    Version,
    failed,
    malformed,
    of_status,
    parse_range,
    told,
    truncated,
    without_ranges,
)
from blosc2._files.remote.range_server import RangeServer

# Bytes of an answer that may wait until they are taken: with 64 KiB a long one takes twice the processor time.
_BUFFER = 1 << 20


class HttpServer(RangeServer):
    """An object at a URL of an `HTTPFileSystem`."""

    async def _request(self, wanted: str, most: int, start: int | None) -> Answer:
        try:
            return await asyncio.wait_for(self._ask(wanted, most, start), self._timeout)
        except TimeoutError:
            raise failed(self._shown, f"no answer within {self._timeout:g} seconds") from None
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error, aiohttp.InvalidURL):
                raise Failure(ValueError(f"{self._shown}: this is no URL of an HTTP server")) from None
            raise failed(self._shown, told(error)) from None

    async def _ask(self, wanted: str, most: int, start: int | None) -> Answer:
        session = await self._system.set_session()
        more = {"read_bufsize": _BUFFER, **self._system.kwargs}
        # Compressed on the way, a range would be one of other bytes.
        headers = {**more.pop("headers", {}), "Range": wanted, "Accept-Encoding": "identity"}
        async with session.get(self._system.encode_url(self._name), headers=headers, **more) as answer:
            if answer.status == 416:
                return self._empty(answer.headers)
            if answer.status == 200:
                return await self._whole(answer, most, start)
            if answer.status != 206:
                raise of_status(self._shown, answer.status, answer.reason, answer.headers.get("Retry-After"))
            first, stop, size = parse_range(self._shown, answer.headers.get("Content-Range"))
            if (first != start if start is not None else stop != size) or stop - first > most:
                raise malformed(self._shown, f"{wanted} was asked for, and bytes {first}-{stop - 1} of {size} came")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise malformed(self._shown, f"it is compressed as {answer.headers['Content-Encoding']!r:.40}")
            data = await self._body(answer.content, stop - first)
            return Answer(first, data, _version(answer.headers, size))

    async def _body(self, content: Any, length: int) -> bytes:
        try:
            data: bytes = await content.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise truncated(self._shown, len(error.partial), length) from None
        except aiohttp.ClientPayloadError:
            raise truncated(self._shown, content.total_bytes, length) from None
        if await content.read(1):
            raise malformed(self._shown, f"more than the {length} bytes follow that its header states")
        return data

    def _empty(self, headers: Mapping[str, str]) -> Answer:
        """What is answered for a range behind the end, which says how long the object is."""
        size = (headers.get("Content-Range") or "").removeprefix("bytes */")
        if not (size.isascii() and size.isdecimal() and len(size) < 19):
            size = "0"
        return Answer(int(size), b"", _version(headers, int(size)))

    async def _whole(self, answer: Any, most: int, start: int | None) -> Answer:
        """An answer that is all of the object: taken if it is small; otherwise its bytes are not looked at."""
        length = answer.content_length
        if length is None or length > most or start or answer.headers.get("Content-Encoding", "identity") != "identity":
            raise without_ranges(self._shown)
        return Answer(0, await self._body(answer.content, length), _version(answer.headers, length))


def _version(headers: Mapping[str, str], size: int) -> Version:
    return Version(size, headers.get("ETag"), headers.get("Last-Modified"))
