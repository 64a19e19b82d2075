"""`salvage`: recovering a frame, or a store of any kind, and writing it to a new file.

A frame is recovered as it is, without its end, in an older version, or with a value in place of lost items. A file that
was appended to keeps its older versions (FORMATS 8.1). Each ends in a trailer, whose checksums tell which offsets table
and which header belong to it; so a version is found without the header of the file."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from blosc2 import _backends, _frames
from blosc2._backends import EMBED, FRAME_MAGIC, LEAF_SUFFIXES, LOCK, MAX_SEGMENTS, RESERVED, STORE_KINDS, ByteRange
from blosc2._core.allocation import allowed, too_much
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_writer import pack_trailer, special_chunk
from blosc2._core.io.checksum import crc32c
from blosc2._core.io.source import Source
from blosc2._core.ndim.gaps import clear_gaps
from blosc2._core.zip.archive import Archive, told_name
from blosc2._files import NewFile, Owner, TemporaryFile, write_parts
from blosc2._frames import CBYTES_AT, CHUNK_HEADER, FRAME_HEADER, MARK_AT, TRAILER_TAIL, ZERO_OFFSET, FrameUpdate
from blosc2._integrity import check_frames, check_stores
from blosc2._integrity.check_stores import DESCRIPTOR, LOCAL
from blosc2._integrity.report import ARCHIVE, CUT_SHORT, DIRECTORY, EMBEDDED, FAULTS, Finding, Findings, Report
from blosc2._lists import LENGTHS, packed_lengths
from blosc2._options import absolute_path, check_new_name, local_path
from blosc2._stores import Store, changes, table_of
from blosc2.dict_store import DictStore
from blosc2.embed_store import EmbedStore
from blosc2.exceptions import FormatError, UnsupportedKindError, legible
from blosc2.tree_store import TreeStore

_VARIABLE: Final = 0x40
_LARGEST_TABLE: Final = 64 << 20
_LARGEST_TRAILER: Final = 16 << 20
_PIECE: Final = 4 << 20
_MOST_VERSIONS: Final = 20_000
_MOST_HEADERS: Final = 16
# How many times what the rule of allocation gives is decoded of offsets tables.
_WORK: Final = 16


class Recovered(NamedTuple):
    """A frame that was recovered, whole; what is written in its place if that is not it; whether a part is made up."""

    frame: Frame
    update: FrameUpdate | None = None
    filled: bool = False

    def stored(self) -> tuple[Source, int, int]:
        """A byte range of its bytes."""
        frame = self.frame
        if self.update is None and frame.serialised:
            return frame.source, frame.offset, frame.frame_len
        data = _frames.frame_bytes(FrameUpdate(frame) if self.update is None else self.update)
        return Source.of_buffer(data), 0, len(data)


def recover_frame(
    source: Source, offset: int, length: int, lost: Findings, key: str | None = None, fill: Any = None
) -> Recovered | None:
    """Recover the frame in a byte range, of which a note is taken if it is not the version that should be there.

    `lost` is told what is lost, and why. `fill` is put into the place of items that are lost; without it, a frame that
    misses any is lost.
    """
    lost = lost.at(source.path, key)
    trouble, ending = lost.apart(), lost.apart()
    byte_range = source, offset, length
    frame = kept = None
    try:
        try:
            frame = Frame.open(*byte_range, key)
        except FAULTS as error:
            trouble.caught(error)
        kept = _newest(frame, trouble, lost, fill) if frame is not None else None
        kept = kept or _newest_whole(byte_range, lost)
        # Without its end there are no checksums to compare with, so a version that has some comes first.
        if kept is None and frame is None and (frame := without_end(byte_range, ending)) is not None:
            kept = _newest(frame, trouble, lost, fill)
            if kept is not None:
                lost.found += ending.found
                kept = kept._replace(update=kept.update or FrameUpdate(frame))
    except FAULTS as error:
        if not trouble.found:
            trouble.caught(error)
    if kept is None:
        lost.found += list(dict.fromkeys(trouble.damage))
    return kept


def _newest(frame: Frame, trouble: Findings, lost: Findings, fill: Any) -> Recovered | None:
    """The version that the header leads to, with a value in place of damaged chunks."""
    found = lost.apart()
    try:
        check_frames.check_frame(frame, found)
        if not found.damage:
            return Recovered(frame)
        trouble.found += found.found
        kept = _repaired(frame, lost, fill)
        if kept is not None:
            left = lost.apart()
            check_frames.check_frame(kept.frame, left)
            # Of chunks it was told already what becomes of them.
            lost.found += [] if kept.filled else left.damage
    except FAULTS as error:
        if not trouble.found:
            trouble.caught(error)
        return None
    return kept


def _repaired(frame: Frame, lost: Findings, fill: Any) -> Recovered | None:
    """What is left of a frame that can be opened, and of which something is damaged."""
    bad: set[int] = set()
    trailer = False
    for wrong in _frames.verify_frame(frame):
        if wrong.chunk is not None:
            bad.add(wrong.chunk)
        elif wrong.offset < frame.offset + frame.header_len or wrong.offset == frame.chunks_range[1]:
            return None  # the header or the offsets table is not the one that was written
        else:
            trailer = True
    count = frame.nchunks
    check_frames.prepare(frame)
    for number in _frames.stored_numbers(frame):
        try:
            check_frames.check_chunk(frame, number)
        except FAULTS:
            bad.add(number)
    told = lost.apart()
    metalayers = _metalayers(frame, told)
    lengths: dict[int, int] = {}
    dropped = _lost_entries(frame, metalayers, bad, told, lengths)
    if dropped is None:
        return None
    if bad and fill is None and not dropped:
        if len(bad) < count:
            lost.note(
                f"{len(bad)} of {count} chunks are damaged ({_numbers(bad)}); with fill=0 the others are recovered"
            )
        return None
    lost.found += told.found
    vlmeta = _entries(frame, lost)
    if "batcharray" in metalayers:
        _put_lengths_right(frame, vlmeta, dropped, lengths)
    if trailer:
        lost.note("the end of the frame is damaged: its metadata entries are recovered as they are now")
    copy = _detached(frame, metalayers, vlmeta, dropped)
    update = FrameUpdate(copy)
    for number in sorted(bad - dropped):
        update.replace(number, _filling(copy, number, fill))
        lost.add(f"chunk {number} is lost; it is filled with {fill!r}")
    return Recovered(copy, update, bool(bad - dropped))


def _newest_whole(byte_range: ByteRange, lost: Findings) -> Recovered | None:
    """The newest version that is whole, whatever the header says."""
    bad: set[int] = set()  # where damaged chunks lie, which several versions may have
    for frame in older_versions(byte_range):
        if bad and np.isin(np.frombuffer(frame.offsets_bytes(), np.int64) + frame.chunks_range[0], list(bad)).any():
            continue
        trouble = lost.apart()
        check_frames.check_frame(frame, trouble)
        bad.update(wrong.offset for wrong in _frames.verify_frame(frame) if wrong.chunk is not None)
        if not trouble.damage:
            lost.note(
                "a version that the header does not lead to was recovered; changes made after it, if any, are lost"
            )
            return Recovered(frame, FrameUpdate(frame))
    return None


# ------------------------------------------------------------------ versions without a header that leads to them
def without_end(byte_range: ByteRange, lost: Findings) -> Frame | None:
    """The chunks of a frame by the offsets table that its header leads to, where its end is not where it should be.

    None where no table is there; also where a whole version ends behind it, whose checksums tell more than the header.
    """
    source, offset, stop, header = _with_header(byte_range)
    start = offset + len(header)
    nbytes, cbytes = _frames.frame_nbytes(header), int.from_bytes(header[CBYTES_AT : CBYTES_AT + 8], signed=True)
    end = start
    if nbytes:
        end += cbytes
        if cbytes < 0 or end > stop - CHUNK_HEADER:
            return None
        end += _frames.CHUNK_SIZES.unpack_from(source.read(end, CHUNK_HEADER))[2]
        if not start + cbytes + CHUNK_HEADER <= end <= stop:
            return None
    behind = deque(_frames.trailers(source, end, stop), 1)
    if behind and _frames.stated_at(source, behind[0][1]) is not None:
        return None
    begin = behind[0][0] if behind else end
    trailer = source.read(begin, min(stop - begin, _LARGEST_TRAILER))
    lost.note(
        "the frame does not end where its header says: its chunks were found by the offsets table"
        + (", and could not be compared with their checksums, which are lost" if header[MARK_AT] else "")
    )
    header[MARK_AT] = 0
    if trailer.startswith(_frames.TRAILER_START):
        size = len(trailer) + TRAILER_TAIL
        trailer += b"\xce" + size.to_bytes(4) + b"\xd8" + bytes(17)
        try:
            _frames.set_frame_fields(header, end + size - offset, nbytes, cbytes, has_vlmeta=True)
            frame = _joined(header, (source, start, end - start), trailer)
            frame.vlmeta_chunks()
            return frame
        except FAULTS:
            pass
    trailer = pack_trailer({})
    lost.add("the metadata entries are lost, with the end of the frame")
    _frames.set_frame_fields(header, end + len(trailer) - offset, nbytes, cbytes, has_vlmeta=False)
    return _joined(header, (source, start, end - start), trailer)


def older_versions(byte_range: ByteRange) -> Iterator[Frame]:
    """Versions whose trailer and offsets table are there, and whose header is, but for its sizes.

    That is the one of now, or one that was kept before the table of a version that came later. The newest comes first.
    The checksums in the trailer tell which table, which sizes and which header these are.
    """
    source, offset, stop, header = _with_header(byte_range)
    start = offset + len(header)
    found = list(deque(_frames.trailers(source, start, stop), _MOST_VERSIONS))
    tables: dict[int, tuple[int, int] | None] = {}
    headers = {_but_for_sizes(header): header}
    # Bytes of tables that are decoded, one after the other: there may be many that claim much.
    work = _WORK * allowed(source.size)
    for number in reversed(range(len(found))):
        begin, end = found[number]
        stated = _frames.stated_at(source, end)
        if stated is None:
            continue
        table = None
        # A version that only changed metadata has no table of its own, but that of one before it.
        for n in range(number if begin > start else -1, -1, -1):
            if n not in tables:
                tables[n] = _table_before(source, found[n - 1][1] if n else start, found[n][0])
                kept = _header_before(tables[n], (source, offset, len(header)))
                if kept is not None and len(headers) < _MOST_HEADERS:
                    headers[_but_for_sizes(kept)] = kept
            at = tables[n]
            if at is not None and at[1] == stated[0]:
                table = at[0]
                break
        if table is None and begin > start:
            continue
        try:
            for one in headers.values():
                if table is not None:
                    work -= int.from_bytes(source.read(table + 4, 4), "little")
                    if work < 0:
                        return
                frame = _version(one, (source, start, end - start), table)
                if crc32c(frame.header_bytes()) == stated[1]:
                    yield frame
                    break
        except FAULTS:
            continue


def _header_before(table: tuple[int, int] | None, header: ByteRange) -> bytearray | None:
    """The header that was kept before a table, if one was: as long as the one that lies in this byte range."""
    source, offset, length = header
    if table is None or table[0] - length < offset + length:
        return None
    kept = bytearray(source.read(table[0] - length, length))
    return kept if kept.startswith(FRAME_MAGIC) and _frames.header_size(kept) == length else None


def _but_for_sizes(header: bytearray) -> bytes:
    header = header[:]
    _frames.set_frame_fields(header, 0, 0, 0, has_vlmeta=False)
    header[MARK_AT] = 0
    return bytes(header)


def _with_header(byte_range: ByteRange) -> tuple[Source, int, int, bytearray]:
    """A byte range as source, start and end, and the header of the frame in it, of which only the size is believed."""
    source, offset, length = byte_range
    stop = source.size if length < 0 else min(offset + length, source.size)
    fixed = source.read(offset, min(FRAME_HEADER, max(stop - offset, 0)))
    if len(fixed) < FRAME_HEADER or not fixed.startswith(FRAME_MAGIC):
        raise FormatError("not the header of a frame", path=source.path, offset=offset)
    size = _frames.header_size(fixed)
    if not FRAME_HEADER <= size <= stop - offset:
        raise FormatError(
            f"header length {size} does not fit the file", path=source.path, offset=offset + _frames.HEADER_SIZE_AT
        )
    return source, offset, stop, bytearray(source.read(offset, size))


def _joined(header: bytearray, rest: ByteRange, trailer: bytes = b"") -> Frame:
    """The frame of a header, of bytes of a file, and of a trailer, where that is not the one of the file."""
    parts = [(Source.of_buffer(bytes(header)), 0, len(header))]
    if rest[2]:
        parts.append(rest)
    if trailer:
        parts.append((Source.of_buffer(trailer), 0, len(trailer)))
    return Frame.open(Source.joined(parts, rest[0].path, False))


def _version(header: bytearray, rest: ByteRange, table: int | None) -> Frame:
    """The version in all bytes behind a header, with its offsets table at this offset of the file."""
    source, start, length = rest
    header = header[:]
    nbytes = cbytes = 0
    if table is not None:
        cbytes = table - start
        chunksize = 0 if header[_frames.FLAGS_AT] & _VARIABLE else _frames.frame_chunksize(header)
        count = int.from_bytes(source.read(table + 4, 4), "little") // 8
        _frames.set_frame_fields(header, len(header) + length, count * max(chunksize, 1), cbytes, has_vlmeta=True)
        frame = _joined(header, rest)
        nbytes = frame.nbytes
        if frame.repeated_offset is None:
            entries = np.frombuffer(frame.offsets_bytes(), np.int64)
            last = entries if not chunksize else entries[-1:]
            nbytes = (count - len(last)) * chunksize
            for entry in last.tolist():
                at = start + entry + 4  # in the header of a stored chunk
                nbytes += chunksize if entry < 0 else int.from_bytes(source.read(at, 4), "little", signed=True)
    _frames.set_frame_fields(header, len(header) + length, nbytes, cbytes, has_vlmeta=True)
    has_vlmeta = bool(_joined(header, rest).vlmeta_names())
    _frames.set_frame_fields(header, len(header) + length, nbytes, cbytes, has_vlmeta=has_vlmeta)
    header[MARK_AT] = _frames.MARK
    return _joined(header, rest)


def _table_before(source: Source, start: int, end: int) -> tuple[int, int] | None:
    """Where the chunk begins that ends at an offset, by the size that its header states, and its checksum."""
    start = max(start, end - _LARGEST_TABLE)
    stop = end - CHUNK_HEADER + 1
    while stop > start:
        first = max(start, stop - _PIECE)
        # The stored size of a chunk that begins at each of these bytes.
        sizes = np.ndarray((stop - first,), "<i4", source.read(first + 12, stop - first + 3), strides=(1,))
        for at in (first + np.flatnonzero(sizes == end - np.arange(first, stop))[::-1]).tolist():
            versions, flags, nbytes = (
                int.from_bytes(source.read(at + i, n), "little") for i, n in ((0, 2), (2, 1), (4, 4))
            )
            if versions in (0x105, 0x106) and flags & 5 == 5 and 0 < nbytes < 1 << 31 and not nbytes % 8:
                return at, crc32c(source.read(at, end - at))
        stop = first
    return None


# ------------------------------------------------------------------ parts of a frame
def _entries(frame: Frame, lost: Findings) -> dict[str, bytes]:
    kept: dict[str, bytes] = {}
    try:
        names = frame.vlmeta_names()
    except FAULTS as error:
        lost.caught(error)
        return kept
    for name in names:
        try:
            if _is_value(frame.vlmeta(name) or b"", f"the metadata entry {name!r}", frame, lost):
                kept[name] = frame.vlmeta_chunk(name) or b""
        except FAULTS as error:
            lost.caught(error)
    return kept


def _metalayers(frame: Frame, lost: Findings) -> dict[str, bytes]:
    kept: dict[str, bytes] = {}
    for name, content in frame.metalayers().items():
        if "\0" in name:
            lost.add(f"a metalayer has the name {name!r}, with a NUL")
        elif name == "b2nd" or _is_value(content, f"the metalayer {name!r}", frame, lost):
            kept[name] = content
    return kept


def _is_value(content: bytes, what: str, frame: Frame, lost: Findings) -> bool:
    """Whether packed metadata can be read; what cannot be is lost."""
    trouble = lost.apart()
    fits = check_frames.check_packed(content, what, frame, trouble)
    lost.found += [] if fits else trouble.found
    return fits


def _lost_entries(
    frame: Frame, metalayers: dict[str, bytes], bad: set[int], lost: Findings, lengths: dict[int, int]
) -> set[int] | None:
    """The entries of a list of values that are left out, as their chunks or values are damaged; None if all are.

    `lengths` is told how many items others have, if they are batches.
    """
    wrong: set[int] = set()
    if "vlarray" not in metalayers and "batcharray" not in metalayers:
        return wrong
    why = ""
    wrong.update(bad)
    try:
        for number, error in check_frames.wrong_values(frame, bad, lengths):
            if error is None:
                break
            wrong.add(number)
            why = why or str(getattr(error, "reason", error))
    except UnsupportedKindError:  # nobody can say of what is in it
        pass
    count, repeated = frame.nchunks, frame.repeated_offset
    if wrong and (len(wrong) == count or (repeated is not None and repeated < 0)):
        return None
    if wrong:
        lost.add(
            f"{len(wrong)} of {count} entries are damaged and left out ({_numbers(wrong)}); those behind them move up"
            + (f": {why}" if why else "")
        )
    return wrong


def _put_lengths_right(frame: Frame, vlmeta: dict[str, bytes], without: set[int], lengths: dict[int, int]) -> None:
    """Write how many items each batch that is left has; readers count where that is not known."""
    left = [number for number in range(frame.nchunks) if number not in without]
    vlmeta.pop(LENGTHS, None)
    if left and all(number in lengths for number in left):
        vlmeta[LENGTHS] = _frames.vlmeta_chunk(packed_lengths([lengths[number] for number in left]))


def _detached(frame: Frame, metalayers: dict[str, bytes], vlmeta: dict[str, bytes], without: set[int]) -> Frame:
    """A frame without some of its chunks, as one that does not know of checksums."""
    repeated = frame.repeated_offset
    start = frame.chunks_range[0]
    count, nbytes = frame.nchunks, frame.nbytes
    entries: Any
    if repeated is not None and repeated < 0:
        entries = int(repeated)
    else:
        entries = np.frombuffer(frame.offsets_bytes(), np.int64).copy()
        entries[entries >= 0] += start
        if without:
            entries = np.delete(entries, sorted(without))
            nbytes = sum(frame.chunk_info(number)[1] for number in range(count) if number not in without)
            count = len(entries)
    return Frame.assemble(
        frame.source, entries, count, nbytes, frame.chunksize, frame, metalayers, vlmeta,
        vlblocks=bool(frame.vlblocks), variable=bool(frame.variable),
    )  # fmt: skip


def _filling(frame: Frame, index: int, fill: Any) -> bytes | int:
    size = frame.chunksize
    if frame.variable:
        raise FormatError("chunks of different sizes cannot be filled", path=frame.source.path, key=frame.key)
    nbytes = min(size, frame.nbytes - index * size)
    if frame.metalayer("b2nd") is None:
        if fill:
            raise ValueError("what is lost of a super-chunk can only be filled with zeros: give fill=0")
        return ZERO_OFFSET
    dtype = _frames.array_of(frame)[1]
    item = clear_gaps(np.array(fill).astype(dtype)).tobytes()
    if not any(item):
        return ZERO_OFFSET
    return special_chunk(3, nbytes, frame.typesize, frame.blocksize, item)


def _numbers(bad: set[int]) -> str:
    some = sorted(bad)
    return ", ".join(map(str, some[:10])) + (", ..." if len(some) > 10 else "")


_STORES: Final = (".b2z", ".b2d", ".b2e")


class SalvageReport(Report):
    """The result of `salvage`: what it recovered, and what it did not.

    Attributes
    ----------
    path, out : str
        The damaged file, and the new one.
    recovered : tuple of str
        The keys in `out`; "/" for a single array.
    lost : tuple of Finding
        What was not recovered, and why. It includes keys that were recovered in part.
    notes : tuple of Finding
        Facts about what was recovered, for instance that it is an older version.
    """

    __slots__ = ("lost", "notes", "out", "path", "recovered")

    def __init__(self, path: str, out: str, recovered: tuple[str, ...], found: list[Finding]) -> None:
        self.path = path
        self.out = out
        self.recovered = recovered
        self.lost = tuple(one for one in found if one.kind == "damage")
        self.notes = tuple(one for one in found if one.kind != "damage")

    @property
    def complete(self) -> bool:
        """Whether nothing is known to be lost."""
        return not self.lost

    def _lines(self) -> list[str]:
        where = legible(f"{self.path} -> {self.out}")
        lines = [f"<SalvageReport {where}: {len(self.recovered)} recovered, {len(self.lost)} lost>"]
        lines += [str(one).replace("damage: ", "lost: ", 1) for one in self.lost]
        return [*lines, *map(str, self.notes)]


def salvage(
    path: str | bytes | os.PathLike[Any], out: str | bytes | os.PathLike[Any], *, fill: Any = None,
    progress: Callable[[int, int], object] | None = None,
) -> SalvageReport:  # fmt: skip
    """Copy what is whole of a damaged array or store to a new one.

    The damaged file is only read. If its directory or map is lost, it is searched for members and frames by their
    signatures. If the newest version is damaged, an older one is used. Nothing is invented: what
    cannot be recovered is listed with the reason. In a list of values, damaged entries are left out, and the entries
    behind them move up. A key that the new store cannot have is left out, too.

    Parameters
    ----------
    path : str, bytes or path
        A file or directory of any kind that `open` takes.
    out : str, bytes or path
        The new file or directory, which must not exist. A store needs the suffix ``.b2z``, ``.b2d`` or ``.b2e``, a
        single array any other one.
    fill : number, optional
        Recover arrays with damaged chunks too, with this value for the lost items.
    progress : callable, optional
        Called from time to time with the bytes done so far and the bytes in all. An exception that it raises ends the
        work.

    Returns
    -------
    SalvageReport
        The keys that were recovered, and what was not recovered.

    Raises
    ------
    FormatError
        Nothing could be recovered, with the reason. Nothing is written.
    FileExistsError
        `out` exists.
    ValueError
        `out` has the suffix of a store and `path` is a single array, or the other way round.
    MemoryError, OSError
        There is too little memory or no permission, or there are too many open files or threads. Nothing is written:
        what could not be read for that reason may be whole.

    See Also
    --------
    check : Report what is damaged.

    Examples
    --------
    >>> import os, tempfile
    >>> import blosc2
    >>> folder = tempfile.mkdtemp()
    >>> path = os.path.join(folder, "scans.b2z")
    >>> with blosc2.TreeStore(path, mode="w") as store:
    ...     store["/a"], store["/g/b"] = [1, 2], [3, 4]
    >>> with open(path, "r+b") as file:
    ...     _ = file.truncate(os.path.getsize(path) - 100)
    >>> report = blosc2.salvage(path, os.path.join(folder, "saved.b2z"))
    >>> sorted(report.recovered), report.lost
    (['/a', '/g/b'], ())
    """
    name, target = absolute_path(local_path(path)), absolute_path(local_path(out))
    kind = check_frames.kind_of_path(name)
    if os.path.lexists(target):
        raise _backends.taken(target, "salvage only writes something new, and there is something already")
    is_store = os.path.splitext(target)[1] in _STORES
    if is_store != (kind in (ARCHIVE, DIRECTORY, EMBEDDED)):
        what = "a store: give it the suffix .b2z, .b2d or .b2e" if not is_store else "no store: give it another suffix"
        raise ValueError(f"{out!r} cannot hold what is recovered of {legible(name)}, which is {what}")
    check_new_name(target, _STORES if is_store else (".b2nd", ".b2frame"))
    lost = Findings(name, progress)
    owner = Owner()
    if is_store:
        if kind == DIRECTORY:
            values = _recover_directory(name, lost, fill, target)
        else:
            source = _source_of(name, lost)
            embedded = kind == EMBEDDED
            values = recover_embedded((source, 0, -1), lost, fill) if embedded else recover_archive(source, lost, fill)
        lost.finish()
        owner.check(target)  # who is told of progress may have forked
        recovered = write_store_to(target, values, lost)
    else:
        kept = recover_single(name, lost, fill)
        lost.finish()
        owner.check(target)
        write_frame_to(target, kept)
        recovered = ("/",)
    return SalvageReport(name, target, recovered, lost.found)


# Frames that are looked at, to see whether one of them is that of the values.
_MOST_FRAMES: Final = 1000


class Values(NamedTuple):
    """What a store held, as far as it was recovered: the metalayer that marks the kind of store, None where that is
    lost; where the frame of each key lies; and objects of other kinds.
    """

    kind: str | None
    leaves: dict[str, ByteRange]
    registry: dict[str, Any]


def recover_embedded(
    byte_range: ByteRange, lost: Findings, fill: Any = None, *, again: bool = True, is_sound: bool = True
) -> Values:
    """The values of a frame of embedded values; what of it is lost is told.

    `is_sound` says whether a checksum of the whole frame, if there is one, is right.
    """
    source, offset, length = byte_range
    stop = source.size if length < 0 else min(source.size, offset + length)
    lost = lost.at(source.path)
    leaves: dict[str, ByteRange] = {}
    wanted: dict[str, str] | None = None
    kind: str | None = None
    registry: dict[str, Any] = {}
    for frame, current in _outer_frames(byte_range, lost):
        entries = _map_of(frame, _backends.MAP, "full").get("embed_map")
        if not isinstance(entries, dict):
            continue
        entries = {key: entry for key, entry in entries.items() if _backends.is_safe(key) and isinstance(entry, dict)}
        if wanted is None:
            wanted = dict.fromkeys(entries, "")
            kind = next(filter(frame.metalayer, STORE_KINDS), None)
            objects = _map_of(frame, _backends.REGISTRY, "safe")
            registry = {key: value for key, value in objects.items() if _backends.is_safe(key)}
            if not current:
                lost.note("a map of values that the header does not lead to was used; later changes are lost")
        bad, sound = _damaged_chunks(frame)
        if not sound or (not is_sound and not _has_checksums(frame)):
            bad = set(range(frame.nchunks))  # nothing tells which of them are right
        if not sound:
            lost.add("the map of values is not the one that was written: keys are as it has them now")
        for key in [key for key in wanted if key in entries]:
            found = _recover_value(frame, entries[key], key, bad, wanted, lost, fill)
            if found is not None:
                leaves[key] = found
                if wanted[key]:
                    lost.note(f"an older value was recovered; the newest is damaged ({wanted[key]})", key=key)
                del wanted[key]
        if not wanted:
            break
    moved = _moved(source, offset, stop) if wanted is None and again else None
    if moved is not None:
        lost.note("the frame does not begin where it should", offset=moved[1])
        return recover_embedded(moved, lost, fill, again=False, is_sound=is_sound)
    if wanted is None:
        lost.add("the map of values is lost, and with it the keys", offset=offset)
        leaves = _scan(source, offset, stop, lost)
    for key, why in (wanted or {}).items():
        lost.add(why, key=key)
    return Values(kind, leaves, registry)


def _outer_frames(byte_range: ByteRange, lost: Findings) -> Iterator[tuple[Frame, bool]]:
    """The frame as it is, and versions that its header does not lead to, the newest first; which of both it is."""
    with suppress(*FAULTS):
        frame: Frame | None
        try:
            frame = Frame.open(*byte_range)
        except FAULTS:
            frame = without_end(byte_range, lost)
        if frame is not None:
            yield frame, True
    with suppress(*FAULTS):
        for frame in older_versions(byte_range):
            yield frame, False


def _map_of(frame: Frame, name: str, deserialize: str) -> dict[Any, Any]:
    """A metadata entry that is a map; an empty one where it cannot be read."""
    try:
        content = _frames.unpack(frame.vlmeta(name) or b"", deserialize=deserialize, file_size=frame.file_size)
    except FAULTS:
        return {}
    return content if isinstance(content, dict) else {}


def _damaged_chunks(frame: Frame) -> tuple[set[int], bool]:
    """Chunks whose checksum is wrong, and whether that of the map is not."""
    bad: set[int] = set()
    sound = True
    try:
        for wrong in _frames.verify_frame(frame):
            if wrong.chunk is not None:
                bad.add(wrong.chunk)
            elif wrong.offset >= frame.offset + frame.frame_len - frame.trailer_len or not frame.nbytes:
                sound = False
    except FAULTS:
        sound = False
    return bad, sound


def _recover_value(
    frame: Frame, entry: dict[str, Any], key: str, bad: set[int], wanted: dict[str, str], lost: Findings, fill: Any
) -> ByteRange | None:
    """Where the frame of a value lies; None where it is not whole, and why in `wanted`."""
    try:
        byte_range = _locate(frame, entry)
        trouble = lost.apart()
        value = check_frames.check_byte_range(*byte_range, trouble, key)
        if trouble.damage:
            told = lost.apart()
            kept = recover_frame(*byte_range, told, key, fill)
            if kept is None:
                wanted[key] = wanted[key] or trouble.damage[0].problem
                return None
            lost.found += told.found
            byte_range = kept.stored()
    except FAULTS as error:
        wanted[key] = wanted[key] or (error.reason if isinstance(error, FormatError) else str(error))
        return None
    chunks = _backends.chunks_of_value(frame, entry["offset"], entry["length"])
    if bad.isdisjoint(chunks) or (value is not None and _has_checksums(value)):
        return byte_range
    doubt = "the value has no checksum of its own, and that of the bytes around it is wrong"
    if fill is None:
        wanted[key] = wanted[key] or f"{doubt}; with fill= it is taken as it decodes"
        return None
    lost.unverified(f"{doubt}: it decodes, but may not be what was stored", key=key)
    return byte_range


def _has_checksums(frame: Frame) -> bool:
    try:
        return _frames.is_verifiable(frame)
    except FAULTS:
        return False


def _locate(frame: Frame, entry: dict[str, Any]) -> ByteRange:
    offset, length = entry.get("offset"), entry.get("length")
    if "urlbase" in entry:
        raise FormatError(f"the entry refers to {entry['urlbase']!r}, a server", path=frame.source.path)
    if type(offset) is not int or type(length) is not int or not 0 <= offset <= frame.nbytes - length or length < 1:
        raise FormatError("the map leads outside of the frame", path=frame.source.path)
    start = frame.byte_range_of(offset, length)
    if start is not None:
        return frame.source, start, length
    joined = _backends.joined_value(frame, offset, length)
    if joined is not None:
        return joined, 0, length
    if length > allowed(frame.source.size):
        raise FormatError(too_much(length, "the value", allowed(frame.source.size)))
    if frame.read_bytes(offset, min(offset + len(FRAME_MAGIC), offset + length)) != FRAME_MAGIC:
        raise FormatError("no frame begins where the value should", path=frame.source.path)
    return Source.of_buffer(frame.read_bytes(offset, offset + length)), 0, length


def _moved(source: Source, offset: int, stop: int) -> ByteRange | None:
    """The frame of embedded values, if it begins somewhere else."""
    for at in islice(_occurrences(FRAME_MAGIC, source, offset, stop), _MOST_FRAMES):
        try:
            frame = Frame.open(source, at)
            if any(map(frame.metalayer, STORE_KINDS)) and frame.frame_len <= stop - at and at != offset:
                return source, at, frame.frame_len
        except FAULTS:
            continue
    return None


def _scan(source: Source, offset: int, stop: int, lost: Findings) -> dict[str, ByteRange]:
    """Frames that lie verbatim somewhere, under new keys."""
    leaves: dict[str, ByteRange] = {}
    work, behind = _MOST_WORK * source.size, 0
    for at in _occurrences(FRAME_MAGIC, source, offset + 1, stop):
        if at < behind:
            continue
        try:
            frame = Frame.open(source, at)
        except FAULTS:
            continue
        work -= frame.frame_len
        if work < 0:
            lost.add("too much of the file looks like frames and is none: the search was ended", offset=at)
            break
        if frame.frame_len <= stop - at and check_frames.is_whole_frame(source, at, frame.frame_len):
            key = f"/recovered/{len(leaves) + 1:04}"
            leaves[key] = (source, at, frame.frame_len)
            if not _has_checksums(frame):
                lost.unverified("it has no checksum of its own: it decodes, but may not be what was stored", key=key)
            behind = at + frame.frame_len
    return leaves


def _occurrences(what: bytes, source: Source, start: int, stop: int) -> Iterator[int]:
    """Where some bytes occur."""
    for at in range(start, stop, _PIECE):
        piece = source.read(at, min(_PIECE + len(what) - 1, stop - at))
        found = piece.find(what)
        while found >= 0:
            yield at + found
            found = piece.find(what, found + 1)


# ------------------------------------------------------------------ archives
_SIGNATURE: Final = b"PK\3\4"
_FULL: Final = 0xFFFFFFFF
_MOST_WORK: Final = 64


class Found(NamedTuple):
    """A member by its local header: where that and its data begin, and the checksum of these if the header has it.

    `name` is what the bytes that are stored as the name stand for, as far as that header tells.
    """

    name: str
    stored: bytes
    header: int
    data: int
    size: int
    crc: int | None


def recover_archive(source: Source, lost: Findings, fill: Any = None) -> Values:
    try:
        archive = Archive(source, False)
    except FAULTS as error:
        lost.note(f"the directory of the archive is lost ({error}): members were looked for one by one")
        archive = None
    start = 0 if archive is None else archive.end
    records = [] if archive is None else check_stores.read_directory(source, archive)
    listed = {record.name: record for record in records}
    wanted: dict[str, Found] = {}
    missing: dict[str, str] = {}
    names = {record.stored: name for name, record in listed.items()}
    for name, record in listed.items():
        one = _member_at(source, record.header)
        if one is None or one.stored != record.stored:
            missing[name] = "there is no local header where the directory says"
        else:
            wanted[name] = one._replace(name=name, crc=record.repeated[5])
    behind = list(_members(source, start, lost))
    if behind and archive is not None:
        lost.note("members that were added after the last directory that is whole were recovered; what was deleted "
                  "after it is back")  # fmt: skip
    elif start < source.size:
        lost.note("leaves that were deleted may be back")
    for one in behind:
        one = one._replace(name=names.get(one.stored, one.name))  # as the directory has it for these bytes
        if _is_whole(source, one) or (archive is None and one.name not in wanted):
            wanted[one.name] = one
        elif archive is not None:
            lost.note("a member behind the end of the archive is not whole; it was not published, or is damaged",
                      key=_key_of(one.name), offset=one.header)  # fmt: skip
    return _recover_members(source, wanted, missing, names, lost, fill)


def _recover_members(
    source: Source, wanted: dict[str, Found], missing: dict[str, str], names: dict[bytes, str], lost: Findings,
    fill: Any,
) -> Values:  # fmt: skip
    leaves: dict[str, ByteRange] = {}
    older: dict[str, list[Found]] | None = None
    embed: ByteRange | None = None
    for name in [*wanted, *missing]:
        if name.endswith("/") or name == LOCK or name.startswith(RESERVED):
            continue
        trouble = lost.apart()
        byte_range = None
        if name in wanted:
            lost.advance(wanted[name].size)
            byte_range = _recover(source, wanted[name], trouble, fill)
        else:
            trouble.add(missing[name], key=_key_of(name))
        if byte_range is None and _is_leaf(source, name, wanted.get(name)):
            if older is None:
                older = {}
                for one in _members(source, 0, lost):
                    older.setdefault(names.get(one.stored, one.name), []).append(one)
            for one in reversed(older.get(name, [])):
                if one != wanted.get(name) and _is_whole(source, one):
                    byte_range = (source, one.data, one.size)
                    trouble.found.clear()
                    trouble.note("an older version of the leaf was recovered; the newest is damaged", key=_key_of(name))
                    break
        lost.found += trouble.found
        if byte_range is None:
            continue
        if name == EMBED:
            embed = byte_range
        elif _is_leaf(source, name, wanted.get(name)):
            leaves[_key_of(name)] = byte_range
    damaged = embed is None and EMBED in wanted
    if damaged:
        embed = (source, wanted[EMBED].data, min(wanted[EMBED].size, source.size - wanted[EMBED].data))
    if embed is None:
        lost.note(f"{EMBED} is lost, and embedded values with it, if there were any")
        return Values(None, leaves, {})
    values = recover_embedded(embed, lost, fill, is_sound=not damaged)
    return Values(values.kind, {**values.leaves, **leaves}, values.registry)


def _key_of(name: str) -> str:
    return check_stores.member_key(name) or "/" + name.rpartition(".")[0]


def _is_leaf(source: Source, name: str, one: Found | None) -> bool:
    """Whether a member is a leaf, or should be, or has the embedded values."""
    if one is not None and check_frames.holds_attributes(source, one.data, name):
        return False
    if name == EMBED or check_stores.member_key(name) is not None:
        return True
    return one is not None and one.size >= 112 and check_frames.is_frame_at(source, one.data, one.size)


def _recover(source: Source, one: Found, lost: Findings, fill: Any) -> ByteRange | None:
    key = None if one.name == EMBED else _key_of(one.name)
    lost = lost.at(None, key)
    if one.data + one.size > source.size:
        lost.add("the file ends within the member", offset=one.data)
        return None
    if one.name == EMBED and _sum_fits(source, one):
        return source, one.data, one.size
    if not _is_leaf(source, one.name, one):
        return None
    if _sum_fits(source, one):
        kept = recover_frame(source, one.data, one.size, lost, key, fill)
        return None if kept is None else kept.stored()
    if fill is not None and one.name != EMBED:
        kept = recover_frame(source, one.data, one.size, lost, key, fill)
        if kept is not None:
            lost.add(
                "the checksum of the member is wrong: what was not filled decodes, but may not be what was stored",
                offset=one.data,
            )
            return kept.stored()
    lost.add("the checksum of the member is wrong", offset=one.data)
    return None


def _sum_fits(source: Source, one: Found) -> bool:
    return one.crc is None or check_stores.crc32_of(source, one.data, one.size) == one.crc


def _is_whole(source: Source, one: Found) -> bool:
    """Whether a member has its checksum, and a leaf is a frame that is whole."""
    if one.data + one.size > source.size or not _sum_fits(source, one):
        return False
    if one.name == EMBED or not _is_leaf(source, one.name, one):
        return True
    return check_frames.is_whole_frame(source, one.data, one.size)


# ------------------------------------------------------------------ without a directory
def _members(source: Source, start: int, lost: Findings) -> Iterator[Found]:
    """Members by their local headers, from an offset on, in the order in which they lie."""
    work = _MOST_WORK * source.size
    behind = start
    for at in _occurrences(_SIGNATURE, source, start, source.size):
        if at < behind:
            continue
        one = _member_at(source, at)
        if one is None:
            continue
        work -= one.size
        if work < 0:
            lost.add("too much of the file looks like members and is none: the search was ended", offset=at)
            return
        if one.data + one.size <= source.size and _sum_fits(source, one):
            behind = one.data + one.size
        yield one


def _member_at(source: Source, at: int) -> Found | None:
    """The member whose local header is at an offset; None where there is none that a store would have."""
    if at < 0 or at + LOCAL.size > source.size:
        return None
    fields = LOCAL.unpack(source.read(at, LOCAL.size))
    signature, _, flags, method, _, _, crc, csize, size, name_length, extra_length = fields
    data = at + LOCAL.size + name_length + extra_length
    if signature != _SIGNATURE or method or not name_length or data > source.size:
        return None
    raw = source.read(at + LOCAL.size, name_length + extra_length)
    try:
        name = told_name(raw[:name_length], raw[name_length:], flags).decode()
    except UnicodeDecodeError:
        return None
    if not _backends.is_safe("/" + name.rstrip("/")):
        return None
    if flags & DESCRIPTOR and not size:
        try:
            size = Frame.open(source, data).frame_len
        except FAULTS:
            return None
        return Found(name, raw[:name_length], at, data, size, None)
    if size == _FULL:
        size = csize = check_stores.far(raw[name_length:], (size,))[0]
    if size != csize or size == _FULL:
        return None
    return Found(name, raw[:name_length], at, data, size, crc)


# What the name of a member may have.
_MOST_IN_ARCHIVE: Final = 0xFFFF
# What names and paths of files may have where the system does not tell, and what a new directory has besides.
_MOST_IN_NAME: Final = 255
_MOST_IN_PATH: Final = 4095
_BESIDE: Final = 64


def _source_of(path: str, lost: Findings) -> Source:
    """A file to recover from; `FormatError` if it cannot be read."""
    source = check_frames.opened(path, lost)
    if source is None:
        raise _nothing(lost)
    lost.total = source.size
    return source


def _nothing(lost: Findings) -> FormatError:
    reasons = [one.problem for one in lost.damage or lost.found]
    first = next((one for one in lost.found if one.offset is not None), None)
    notes = [one.problem for one in lost.found if one.kind == "note" and "fill=0" in one.problem]
    why = "; ".join(dict.fromkeys([*notes, *reasons[:3]]))
    if len(lost.found) == 1 and why.endswith(CUT_SHORT):
        why += ": without its end, nothing says where its chunks belong, and fill= does not help"
    return FormatError(
        f"nothing could be recovered: {why}", path=lost.path, offset=None if first is None else first.offset
    )


# ------------------------------------------------------------------ single arrays
def recover_single(path: str, lost: Findings, fill: Any) -> Recovered:
    """The array or super-chunk in a file; `FormatError` where nothing can be recovered."""
    if os.path.isdir(path) and _frames.is_directory_frame(path):
        raise ValueError(
            f"{legible(path)}: each chunk of this array is a file of its own; check() tells which are damaged, and "
            "only copies of these bring them back"
        )
    source = _source_of(path, lost)
    kept = recover_frame(source, 0, -1, lost, fill=fill)
    if kept is None:
        raise _nothing(lost)
    return kept


def write_frame_to(path: str, kept: Recovered) -> None:
    frame = kept.frame
    owner = Owner()
    owner.makedirs(os.path.dirname(path))
    with NewFile(path, replace=False, owner=owner) as file:
        if kept.update is None and frame.serialised:
            write_parts(file, _frames.parts_with_checksums(frame))
        else:
            _frames.write_frame(file, kept.update or FrameUpdate(frame))


# ------------------------------------------------------------------ stores
# So many files stay open until the new store is written: a process may have no more than some hundreds.
_MOST_OPEN: Final = 256


def _recover_directory(root: str, lost: Findings, fill: Any, target: str) -> Values:
    while not os.path.isdir(os.path.dirname(target)):
        target = os.path.dirname(target)
    waiting = TemporaryFile(target)
    files = list(check_stores.walk(root, lost))
    sizes = {name: os.path.getsize(os.path.join(root, name)) for name in files}
    lost.total = sum(sizes.values())
    values = Values(None, {}, {})
    if EMBED in sizes:
        try:
            values = recover_embedded((check_frames.open_regular(os.path.join(root, EMBED)), 0, -1), lost, fill)
        except FAULTS as error:
            lost.caught(error, path=os.path.join(root, EMBED))
    else:
        lost.note(f"{EMBED} is lost, and embedded values with it, if there were any")
    leaves: dict[str, ByteRange] = {}
    # From the last suffix to the first, so that of two files of one key the right one stays.
    order = {suffix: number for number, suffix in enumerate(LEAF_SUFFIXES)}
    for name in sorted(files, key=lambda name: -order.get(os.path.splitext(name)[1], len(order))):
        byte_range = None if name in (EMBED, LOCK) else _recover_file(root, name, lost, fill)
        if byte_range is not None:
            leaves[check_stores.key_of(name)] = byte_range if len(leaves) < _MOST_OPEN else waiting.add(byte_range)
        lost.advance(sizes[name])
    return Values(values.kind, {**values.leaves, **leaves}, values.registry)


def _recover_file(root: str, name: str, lost: Findings, fill: Any) -> ByteRange | None:
    path = os.path.join(root, name)
    key = check_stores.key_of(name)
    try:
        key.encode()
        source = check_frames.open_regular(path)
        if check_frames.holds_attributes(source, 0, name):
            return None
        if not name.endswith(LEAF_SUFFIXES) and not check_frames.is_frame_at(source, 0, source.size):
            return None
        kept = recover_frame(source, 0, -1, lost, key, fill)
    except UnicodeEncodeError:
        lost.add("its name is not UTF-8, so it cannot be a key", path=path)
        return None
    except FAULTS as error:
        lost.caught(error, key=key, path=path)
        return None
    return None if kept is None else kept.stored()


def write_store_to(path: str, values: Values, lost: Findings) -> tuple[str, ...]:
    """Write what was recovered to a new store; its keys. `FormatError` where that is nothing."""
    leaves = {}
    for key, byte_range in values.leaves.items():
        reason = why_not(path, key, _backends.suffix_of(byte_range))
        if reason is None:
            leaves[key] = byte_range
        else:
            lost.add(f"it can be read, but {reason}", key=key)
    if not leaves and (values.kind is None or lost.damage):
        raise _nothing(lost)
    recovered = []
    # All of it or nothing: a part of what is whole would look like all of it.
    with _new_store(path, values._replace(leaves=leaves)) as store, store.transaction():
        for key, byte_range in leaves.items():
            try:
                changes.put(table_of(store), key, byte_range)
                recovered.append(key)
            except ValueError as error:  # keys that exclude each other
                lost.add(str(error), key=key)
        if values.registry and isinstance(store, DictStore):
            table_of(store).pending.registry = values.registry
    return tuple(recovered)


def _new_store(path: str, values: Values) -> Store:
    if path.endswith(".b2e"):
        return EmbedStore(path, mode="x")
    keys = values.leaves
    nested = any(key[:end] in keys for key in keys for end, one in enumerate(key) if one == "/" and end)
    kind = DictStore if nested or values.kind in ("b2dict", "b2embed") else TreeStore
    store: Store = kind(path, mode="x")
    # In an archive a key is no name of a file: what differs in case only was in one place before too.
    table_of(store).names.unchecked = path.endswith(".b2z")
    return store


# ------------------------------------------------------------------ which keys a new store can have
# They are more than the keys that are allowed for new values, so that nothing is lost that can be read and written.
def why_not(path: str, key: str, suffix: str) -> str | None:
    """Why a new store cannot have a key, None where it can: by the suffixes of the store, and of the leaf's file."""
    if not _backends.is_safe(key):
        return "no store can have its key, which has an empty segment, '.' or '..', or a NUL"
    try:
        name = (key + suffix).encode()
    except UnicodeEncodeError:
        return "its key has a character that UTF-8 cannot express"
    if path.endswith(".b2e"):
        return None
    if key.startswith("/" + RESERVED):
        return f"its key begins with {RESERVED!r}, which is reserved for the store itself; recover it into a .b2e"
    if path.endswith(".b2z"):
        return "its key is too long for an archive; recover it into a .b2e" if len(name) > _MOST_IN_ARCHIVE else None
    return _why_no_file(path, key, name)


def _why_no_file(root: str, key: str, name: bytes) -> str | None:
    """Why a key can be no file of a `.b2d`, where it is the name of one; None if it can."""
    other = "recover it into a .b2z or .b2e"
    if not _backends.is_path(key):
        return f"no file can be named like its key on this system; {other}"
    first, slash, _ = key[1:].partition("/")
    if slash and _backends.is_own(first):
        return f"its key begins with the name of a file of the store itself; {other}"
    if key.count("/") > MAX_SEGMENTS:
        return f"its key has more than {MAX_SEGMENTS} segments; {other}"
    most = _longest_name(root)
    if max(map(len, name.split(b"/"))) > most or len(os.fsencode(root)) + _BESIDE + len(name) > _MOST_IN_PATH:
        return f"its key is too long for the name of a file; {other}"
    return None


def _longest_name(path: str) -> int:
    """Bytes that the name of a file may have beside a path."""
    folder = os.path.dirname(path)
    if hasattr(os, "pathconf"):
        with suppress(OSError, ValueError):
            most = os.pathconf(folder, "PC_NAME_MAX")
            return most if most > 0 else _MOST_IN_NAME
    return _MOST_IN_NAME
