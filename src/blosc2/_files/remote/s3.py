"""Objects of S3: each answer is checked to be of the version that was opened, as the ETag tells."""

from __future__ import annotations

import asyncio
from typing import Any

from blosc2._files.remote.answers import (
    Answer,
    Failure,
    Version,
    denied,
    failed,
    malformed,
    missing,
    parse_range,
    told,
    truncated,
)
from blosc2._files.remote.range_server import RangeServer
from blosc2.exceptions import RemoteError

# Names of the errors of botocore that tell of credentials: they have no class in common.
_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError", "NoAuthTokenError")


class S3Server(RangeServer):
    """An object at a path of an `S3FileSystem`."""

    async def _request(self, wanted: str, most: int, start: int | None) -> Answer:
        try:
            return await asyncio.wait_for(self._ask(wanted, most, start), self._timeout)
        except Failure:
            raise
        except TimeoutError:
            raise failed(self._shown, f"no answer within {self._timeout:g} seconds") from None
        except FileNotFoundError:
            raise missing(self._shown) from None
        except PermissionError as error:
            raise denied(self._shown, error) from None
        except Exception as error:  # noqa: BLE001 - botocore has classes of its own
            raise self._failure(error) from None

    async def _ask(self, wanted: str, most: int, start: int | None) -> Answer:
        bucket, key, version = self._system.split_path(self._name)
        more = {} if version is None else {"VersionId": version}
        try:
            answer = await self._system._call_s3(
                "get_object", Bucket=bucket, Key=key, Range=wanted, **more, **self._system.req_kw
            )
        except Exception as error:
            if "InvalidRange" in str(error) or "416" in str(error) or "not satisfiable" in str(error):
                return await self._behind_the_end(bucket, key, more)
            raise
        async with answer["Body"] as body:
            if answer.get("ContentRange") is None:
                # An object of S3 that is asked for as a whole anyway.
                size = int(answer["ContentLength"])
                first, stop = 0, size
            else:
                first, stop, size = parse_range(self._shown, answer["ContentRange"])
            if (first != start if start is not None else stop != size) or stop - first > most:
                raise malformed(self._shown, f"{wanted} was asked for, and bytes {first}-{stop - 1} of {size} came")
            data = await body.read()
        if len(data) < stop - first:
            raise truncated(self._shown, len(data), stop - first)
        if len(data) > stop - first:
            raise malformed(self._shown, f"{len(data)} bytes came where its header states {stop - first}")
        return Answer(first, bytes(data), _version(answer, size))

    async def _behind_the_end(self, bucket: str, key: str, more: dict[str, str]) -> Answer:
        """What there is of an object that has no such bytes: it became shorter, or is empty."""
        answer = await self._system._call_s3("head_object", Bucket=bucket, Key=key, **more, **self._system.req_kw)
        size = int(answer["ContentLength"])
        return Answer(size, b"", _version(answer, size))

    def _failure(self, error: Exception) -> Failure:
        name = type(error).__name__
        if name in _CREDENTIALS:
            return denied(self._shown, error)
        if isinstance(error, OSError) or name.endswith(("ConnectionError", "TimeoutError", "HTTPClientError")):
            return failed(self._shown, told(error))
        return Failure(RemoteError(f"the request failed ({told(error, 400)})", path=self._shown))


def _version(answer: dict[str, Any], size: int) -> Version:
    time = answer.get("LastModified")
    return Version(size, answer.get("ETag"), None if time is None else str(time))
