"""What a server answers, and what a failed request means: whether to repeat it, and which error it becomes."""

from __future__ import annotations

import errno
from typing import Final, NamedTuple, Protocol

from blosc2._options import without_secrets
from blosc2.exceptions import MissingFileError, RemoteAccessError, RemoteChangedError, RemoteError

# Answers of HTTP that tell of a server that has too much to do, or failed: the next request may succeed.
_PASSING: Final = (408, 425, 429, 500, 502, 503, 504)
_DENIED: Final = (401, 403, 407)
_GONE: Final = (404, 410)


class Version(NamedTuple):
    """By what a server tells one version of an object from another."""

    size: int
    tag: str | None = None  # an ETag, or what stands for one
    time: str | None = None  # when it was changed last

    @property
    def is_certain(self) -> bool:
        """Whether another version of the same size would be noticed."""
        return self.tag is not None or self.time is not None

    def is_as(self, other: Version) -> bool:
        """Whether two answers may be of the same version: what both tell is the same."""
        return self.size == other.size and all(
            None in pair or pair[0] == pair[1] for pair in ((self.tag, other.tag), (self.time, other.time))
        )


class Answer(NamedTuple):
    """Bytes of an object."""

    start: int
    data: bytes
    version: Version


class Server(Protocol):
    """How an object is reached by one protocol. A request that fails raises `Failure`."""

    def get(self, start: int, stop: int) -> Answer:
        """Bytes ``start .. stop``, or fewer where the object ends."""

    def get_end(self, count: int) -> Answer:
        """The last bytes, or all where there are fewer."""


_REPEATED: Final = ", and so it did when"


class Failure(Exception):  # noqa: N818 - never seen outside of this package
    """A request that failed.

    Attributes
    ----------
    error : Exception
        What the caller is told, if it stays so.
    passing : bool
        Whether another request may succeed.
    wait : float or None
        Seconds that the server asks to wait before.
    """

    def __init__(self, error: Exception, *, passing: bool = False, wait: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.passing, self.wait = error, passing, wait

    @property
    def first(self) -> str:
        """The error in words, for a request that was not repeated yet."""
        return str(self.error).partition(_REPEATED)[0]

    def after(self, repeats: int) -> Exception:
        """The error for the caller, which says nothing of repeating where the request was not repeated."""
        if repeats or not isinstance(self.error, RemoteError):
            return self.error
        return type(self.error)(self.error.reason.partition(_REPEATED)[0], path=self.error.path)


def told(error: BaseException, most: int = 200) -> str:
    """What an error of another library says, which may name a URL."""
    return without_secrets(f"{type(error).__name__}: {error}")[:most]


def missing(url: str) -> Failure:
    """The object does not exist."""
    return Failure(MissingFileError(errno.ENOENT, "The server has no object of this name", url))


def denied(url: str, why: object) -> Failure:
    """The server refuses access."""
    text = f"the server refuses access ({without_secrets(str(why))}): give other credentials in storage_options"
    return Failure(RemoteAccessError(text, path=url))


def changed(url: str) -> RemoteChangedError:
    """The error for another version than the one that was opened."""
    return RemoteChangedError(
        "the object was replaced or changed since it was opened, and parts of two versions must not be mixed: "
        "open it again, or call refresh()",
        path=url,
    )


def changed_since_pickled(url: str) -> RemoteChangedError:
    """The error for another version than the one of which a handle was pickled."""
    return RemoteChangedError(
        "the object was replaced or changed since this handle was pickled, and parts of two versions must not be "
        "mixed: open it in the process that needs it, or hand over a handle that shows the newer version",
        path=url,
    )


def failed(url: str, why: object) -> Failure:
    """A connection that failed, or a server that did: another request may succeed."""
    return Failure(RemoteError(f"the request failed ({why}){_REPEATED} it was repeated", path=url), passing=True)


def truncated(url: str, got: int, wanted: int) -> Failure:
    """An answer that ended too early."""
    why = f"the answer ended after {got} of {wanted} bytes"
    return Failure(RemoteError(f"{why}{_REPEATED} the request was repeated", path=url), passing=True)


def malformed(url: str, why: str) -> Failure:
    """An answer that is not what the protocol asks for."""
    return Failure(RemoteError(f"the server's answer makes no sense: {why}", path=url))


def without_ranges(url: str) -> Failure:
    """A server that only sends whole objects."""
    return Failure(
        RemoteError(
            "the server does not answer requests for parts of an object (HTTP range requests; python -m "
            "http.server has none): download the file with another program, such as curl, or put it where ranges are "
            "served",
            path=url,
        )
    )


def of_status(url: str, status: int, reason: object, retry_after: str | None = None) -> Failure:
    """What a status of HTTP means that is no success."""
    if status in _GONE:
        return missing(url)
    reason = without_secrets(str(reason))
    if status in _DENIED:
        return denied(url, f"{status} {reason}")
    if status == 412:
        return Failure(changed(url))
    if status in _PASSING:
        failure = failed(url, f"{status} {reason}")
        if retry_after is not None and retry_after.isdecimal():
            failure.wait = float(retry_after)
        return failure
    return Failure(RemoteError(f"the server answers {status} {reason}", path=url))


def parse_range(url: str, text: str | None) -> tuple[int, int, int]:
    """Start, stop and size of ``Content-Range``, checked against each other."""
    unit, _, rest = (text or "").partition(" ")
    span, _, size = rest.partition("/")
    first, _, last = span.partition("-")
    if unit != "bytes" or not all(
        part.isascii() and part.isdecimal() and len(part) < 19 for part in (first, last, size)
    ):
        raise malformed(url, f"its Content-Range is {str(text)[:80]!r}")
    start, stop, total = int(first), int(last) + 1, int(size)
    if not start < stop <= total:
        raise malformed(url, f"its Content-Range is {str(text)[:80]!r}")
    return start, stop, total
