"""`ObjectArray`: a compressed list of Python values."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from blosc2._core.frame.frame import Frame
from blosc2._frames import FEW_BYTES, Together, encode, pack, unpack
from blosc2._lists import Chunk, ValueList, packed_value, readable, unreadable
from blosc2._options import Encoding, zstd_encoding
from blosc2.exceptions import FormatError, UnsupportedKindError
from blosc2.info import size_text
from blosc2.schunk import SChunk
from blosc2.storage import SChunkKeywords, takes

# The content of the metalayer.
_USUAL = pack({"version": 1, "serializer": "msgpack"})
# What is left of such a list where nothing may be compressed.
_STORED_AS_IT_IS = zstd_encoding(0)


@takes(SChunkKeywords)
class ObjectArray(ValueList):
    """A list of Python values, each compressed by itself, in memory or in a file.

    It has the methods of a list. Readers see each call that changes the list completely or not at all. A value that you
    read is a copy: to change the list, assign the value again.

    Parameters
    ----------
    chunksize : int, optional
        Accepted for compatibility: each value has a chunk of its own size.
    deserialize : {"full", "safe"}, optional
        Whether to open values that stand for an object. By default they are opened in a new list, and refused in a list
        from a file.
    **kwargs
        ``cparams``, ``dparams``, ``storage``, or the fields of `blosc2.Storage`. If ``urlpath`` exists, modes "a" and
        "r" open it, "w" replaces it, and "x" raises.

    Raises
    ------
    FileNotFoundError
        The mode is "r" and the file does not exist.
    FormatError
        The file contains something else.

    Notes
    -----
    Values are None, bool, int (-2**63 to 2**64 - 1), float, complex, str, bytes, lists, tuples, sets, dictionaries with
    str or bytes keys, NumPy arrays and scalars, and the arrays and lists of this package. NumPy scalars come back as
    Python scalars; store dates in arrays, or as strings. Nothing is pickled or unpickled.

    Examples
    --------
    >>> import blosc2
    >>> values = blosc2.ObjectArray()
    >>> values.append({"name": "first", "shape": (3, 4)})
    1
    >>> values.extend(["second", None, 3.5])
    >>> values[0]["shape"], values[-2:]
    ((3, 4), [None, 3.5])
    """

    __slots__ = ()
    _tag = "vlarray"
    _uses_dictionary: ClassVar[bool] = True

    def __init__(
        self, chunksize: int | None = None, _from_schunk: SChunk | None = None, deserialize: str | None = None,
        **kwargs: Unpack[SChunkKeywords],
    ) -> None:  # fmt: skip
        self._begin(_USUAL, chunksize, _from_schunk, deserialize, kwargs)

    def _read(self, frame: Frame, index: int, together: Together | None = None) -> Any:
        self._require_kind(frame)
        self._require_room(frame, index)
        return self._unpack(frame, index, frame.decode_chunk(index), together)

    def _require_kind(self, frame: Frame) -> None:
        """Refuse values that are packed in a way of which nothing is known."""
        content = frame.metalayer(self._tag)
        if content == _USUAL:
            return
        try:
            found = unpack(content or b"", location=f"the metalayer {self._tag}")
        except FormatError as error:
            raise FormatError(error.reason, path=self._handle.urlpath, key=self._handle.key) from None
        if not isinstance(found, dict):
            reason = f"the metalayer {self._tag} is not a map"
            raise FormatError(reason, path=self._handle.urlpath, key=self._handle.key)
        if found.get("serializer", "msgpack") != "msgpack" or found.get("version", 1) != 1:
            raise UnsupportedKindError(
                f"values packed as {found!r:.200} says cannot be read, only those of version 1 packed with 'msgpack'",
                path=self._handle.urlpath, key=self._handle.key,
            )  # fmt: skip

    def _encoding(self) -> Encoding:
        self._require_kind(self._handle.frame)
        return super()._encoding()

    def _change(self, index: int, removed: int, new: list[Any]) -> int:
        return self._handle.spliced(index, removed, new) or super()._change(index, removed, new)

    def _chunk_of(self, value: Any, encoding: Encoding) -> Chunk:
        return _stored(packed_value(value), encoding, self._handle.cparams.nthreads)

    def _compressed_anew(self, other: Any, frame: Frame, index: int, encoding: Encoding) -> Chunk:
        other._require_room(frame, index)
        return _stored(frame.decode_chunk(index), encoding, self._handle.cparams.nthreads)

    @property
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs."""
        frame = self._handle.frame
        count = int(frame.nchunks)
        items: list[tuple[str, Any]] = [("type", type(self).__name__), ("entries", count)]
        sizes = [frame.chunk_info(i)[1:3] for i in range(count)]
        for name, which in (("item_nbytes", 0), ("chunk_cbytes", 1)):
            each = [size[which] for size in sizes] or [0]
            items += [
                (f"{name}_min", min(each)), (f"{name}_max", max(each)), (f"{name}_avg", f"{sum(each) / len(each):.2f}"),
            ]  # fmt: skip
        return [
            *items, ("nbytes", size_text(self.nbytes)), ("cbytes", size_text(self.cbytes)),
            ("cratio", f"{self.cratio:.2f}x"), ("cparams", self.cparams), ("dparams", self.dparams),
            *self._handle.described_checks(),
        ]  # fmt: skip


def _stored(packed: bytes, encoding: Encoding, nthreads: int) -> Chunk:
    """The chunk of a packed value, from which it can be read again."""
    stored = encode(encoding, packed, nthreads)
    if len(packed) > FEW_BYTES and not readable([packed], len(stored)):
        # A file may make its reader hold so much for each of its bytes: of what shrinks that far, they are all kept.
        stored = encode(_STORED_AS_IT_IS, packed)
        if not readable([packed], len(stored)):
            raise unreadable("the value")
    return stored, len(packed)
