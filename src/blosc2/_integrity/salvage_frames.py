"""Recovering one frame: as it is, in an older version, or with a value in place of lost items."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from blosc2._core.allocation import allowed
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_writer import special_chunk
from blosc2._core.io.source import Source
from blosc2._core.ndim.gaps import clear_gaps
from blosc2._frames import ZERO_OFFSET, FrameUpdate, frame_bytes, frame_size, stored_numbers, verify_frame
from blosc2._handles import array_of, make_plugin, vlmeta_chunk
from blosc2._integrity.check_frames import check_chunk, check_frame, check_packed, wrong_values
from blosc2._integrity.old_versions import Head, chain, filled_up, repaired_header, repaired_trailer, versions
from blosc2._integrity.report import FAULTS, Findings
from blosc2._lists import LENGTHS, packed_lengths
from blosc2.exceptions import FormatError, UnsupportedKindError

# Frames up to this size are copied to be repaired.
_MOST_COPIED: Final = 1 << 30
# Bytes that it takes to fill in a chunk.
_MISSING: Final = 512


class Recovered(NamedTuple):
    """What was recovered of a frame.

    Attributes
    ----------
    frame : Frame
        It, whole.
    update : FrameUpdate or None
        What is to be written in its place, if it has to be written anew.
    filled : bool
        Whether something of it is made up.
    """

    frame: Frame
    update: FrameUpdate | None = None
    filled: bool = False

    def stored(self) -> tuple[Source, int, int]:
        """A byte range of its bytes."""
        frame = self.frame
        if self.update is None and frame.serialised:
            return frame.source, frame.offset, frame.frame_len
        data = frame_bytes(FrameUpdate(frame) if self.update is None else self.update)
        return Source.of_buffer(data), 0, len(data)


def recover_frame(
    source: Source, offset: int, length: int, lost: Findings, key: str | None = None, fill: Any = None
) -> Recovered | None:
    """Recover the frame in a byte range, of which a note is taken if it is not the version that should be there.

    Parameters
    ----------
    source, offset, length
        The byte range; a length of -1 reaches to the end of the source.
    lost : Findings
        Where it is told what is lost, and why.
    key : str, optional
        The key in a store.
    fill : number, optional
        What to put into the place of items that are lost; without it, a frame that misses any is lost.
    """
    stop = source.size if length < 0 else min(offset + length, source.size)
    source, offset, length = put_right(source, offset, stop, length, lost, key)
    stop = source.size if length < 0 else min(offset + length, source.size)
    trouble = Findings(str(source.path))
    # Whether chunks that lie in a row are the chunks of the frame, as far as anybody knows.
    in_a_row = True
    try:
        frame = Frame.open(source, offset, length, key)
        check_frame(frame, trouble, key)
        if not any(one.kind == "damage" for one in trouble.found):
            return Recovered(frame)
        kept, in_a_row = _repaired(frame, lost, key, fill)
        if kept is not None:
            left = Findings(trouble.path)
            check_frame(kept.frame, left, key)
            # Of chunks it was told already what becomes of them.
            lost.found += [one for one in left.found if one.kind == "damage" and not kept.filled]
            return kept
    except FAULTS as error:
        trouble.caught(error, key=key, path=source.path)
    try:
        head = Head(source, offset)
        kept = _newest_whole(head, stop, lost, key) or (_in_a_row(head, stop, lost, key, fill) if in_a_row else None)
    except FAULTS as error:
        kept = None
        if not trouble.found:
            trouble.caught(error, key=key, path=source.path)
    if kept is None:
        lost.found += list(dict.fromkeys(one for one in trouble.found if one.kind == "damage"))
    return kept


def put_right(
    source: Source, offset: int, stop: int, length: int, lost: Findings, key: str | None = None
) -> tuple[Source, int, int]:
    """The same byte range; or a copy where one bit of header or trailer was wrong, and the checksums tell which."""
    if stop - offset > _MOST_COPIED:
        return source, offset, length
    header = repaired_header(source, offset, stop)
    trailer = repaired_trailer(source, offset, stop) if header is None else None
    if header is None and trailer is None:
        return source, offset, length
    data = bytearray(source.read(offset, stop - offset))
    if header is not None:
        data[: len(header)] = header
    else:
        end = frame_size(data)
        data[end - len(trailer or b"") : end] = trailer or b""
    what = "header" if header is not None else "trailer"
    lost.note(f"one bit of the {what} was wrong, and is right in what was recovered", key=key, path=source.path)
    return Source.of_buffer(data, source.path), 0, length


def _repaired(frame: Frame, lost: Findings, key: str | None, fill: Any) -> tuple[Recovered | None, bool]:
    """A frame that can be opened, and of which something is damaged.

    Besides, whether nothing is known to be wrong with its header and its chunks.
    """
    path = frame.source.path
    bad: set[int] = set()
    index = trailer = False
    for wrong in verify_frame(frame):
        if wrong.chunk is not None:
            bad.add(wrong.chunk)
        elif wrong.offset < frame.offset + frame.header_len:
            return None, False
        elif wrong.offset == frame.chunks_range[1]:
            index = True
        else:
            trailer = True
    if index:
        return None, True
    try:
        count = frame.nchunks
    except FAULTS:
        return None, True
    _prepare(frame)
    for number in stored_numbers(frame):
        try:
            check_chunk(frame, number)
        except FAULTS:
            bad.add(number)
    told = Findings(lost.path)
    metalayers = _metalayers(frame, told, key)
    lengths: dict[int, int] = {}
    dropped = _lost_entries(frame, metalayers, bad, told, key, lengths)
    if dropped is None:
        return None, False
    if bad and fill is None and not dropped:
        if len(bad) < count:
            lost.note(
                f"{len(bad)} of {count} chunks are damaged ({_numbers(bad)}); with fill=0 the others are recovered",
                key=key,
                path=path,
            )
        return None, False
    lost.found += told.found
    vlmeta = _entries(frame, lost, key)
    if "batcharray" in metalayers:
        _put_lengths_right(frame, vlmeta, dropped, lengths)
    if trailer:
        lost.note("the end of the frame is damaged: its metadata entries are recovered as they are now", key=key,
                  path=path)  # fmt: skip
    copy = _detached(frame, metalayers, vlmeta, dropped)
    update = FrameUpdate(copy)
    for number in sorted(bad - dropped):
        update.replace(number, _filling(copy, number, fill))
        lost.add(f"chunk {number} is lost; it is filled with {fill!r}", key=key, path=path)
    return Recovered(copy, update, bool(bad - dropped)), False


def _newest_whole(head: Head, stop: int, lost: Findings, key: str | None) -> Recovered | None:
    """The newest version that is whole, whatever the header says."""
    path = head.source.path
    bad: set[int] = set()  # where damaged chunks lie, which several versions may have
    for frame in versions(head, stop):
        if bad and np.isin(np.frombuffer(frame.offsets_bytes(), np.int64), list(bad)).any():
            continue
        trouble = Findings(str(path))
        check_frame(frame, trouble, key)
        bad.update(one.offset for one in trouble.found if one.offset is not None)
        if not any(one.kind == "damage" for one in trouble.found):
            lost.note(
                "a version that the header does not lead to was recovered; changes made after it, if any, are lost",
                key=key, path=path,
            )  # fmt: skip
            return Recovered(frame, FrameUpdate(frame))
    return None


def _in_a_row(head: Head, stop: int, lost: Findings, key: str | None, fill: Any) -> Recovered | None:
    """The chunks that follow the header, where there is no table of them."""
    path = head.source.path
    offsets, count = chain(head, stop)
    if not offsets:
        return None
    whole = len(offsets) == count
    if fill is not None and (count - len(offsets)) * _MISSING > allowed(head.source.size):
        lost.add(
            f"{len(offsets)} of {count} chunks are there, too few to fill in the others: the header is damaged",
            key=key, path=path, offset=head.offset + 30,
        )  # fmt: skip
        if head.empty.metalayer("b2nd") is not None:
            return None
        fill = None
    if not whole and fill is None and head.empty.metalayer("b2nd") is not None:
        lost.note(
            f"{len(offsets)} of {count} chunks are there; with fill=0 they are recovered, and the others are zeros",
            key=key,
            path=path,
        )
        return None
    if not whole and fill is None:
        frame = head.frame(offsets, len(offsets) * head.empty.chunksize, {})
    else:
        frame = head.frame(filled_up(offsets, count), head.nbytes, {})
    trouble = Findings(str(path))
    check_frame(frame, trouble, key)
    if any(one.kind == "damage" for one in trouble.found):
        lost.found += trouble.found
        return None
    update = FrameUpdate(frame)
    if not whole:
        what = "lost" if fill is None else f"lost; they are filled with {fill!r}"
        lost.add(f"the last {count - len(offsets)} of {count} chunks are {what}", key=key, path=path)
        if fill is not None:
            _fill_up(update, len(offsets), count, fill)
    lost.add("the offsets table and the metadata entries are lost: chunks were taken in the order in which they lie",
             key=key, path=path)  # fmt: skip
    return Recovered(frame, update)


def _prepare(frame: Frame) -> None:
    if frame.metalayer("b2nd") is not None:
        array_of(frame)
    elif frame.needs_geometry:
        frame.set_plugin(make_plugin(frame))


def _entries(frame: Frame, lost: Findings, key: str | None) -> dict[str, bytes]:
    """The metadata entries that can be read, as they are stored."""
    kept: dict[str, bytes] = {}
    try:
        names = frame.vlmeta_names()
    except FAULTS as error:
        lost.caught(error, key=key, path=frame.source.path)
        return kept
    for name in names:
        try:
            if _is_value(frame.vlmeta(name) or b"", f"the metadata entry {name!r}", frame, lost, key):
                kept[name] = frame.vlmeta_chunk(name) or b""
        except FAULTS as error:
            lost.caught(error, key=key, path=frame.source.path)
    return kept


def _metalayers(frame: Frame, lost: Findings, key: str | None) -> dict[str, bytes]:
    """The metalayers whose content is a value, and that of the array."""
    kept: dict[str, bytes] = {}
    for name, content in frame.metalayers().items():
        if "\0" in name:
            lost.add(f"a metalayer has the name {name!r}, with a NUL", key=key, path=frame.source.path)
        elif name == "b2nd" or _is_value(content, f"the metalayer {name!r}", frame, lost, key):
            kept[name] = content
    return kept


def _is_value(content: bytes, what: str, frame: Frame, lost: Findings, key: str | None) -> bool:
    """Whether packed metadata can be read; what cannot be is lost."""
    trouble = Findings(lost.path)
    if check_packed(content, what, None, frame, trouble, key):
        return True
    lost.found += trouble.found
    return False


def _lost_entries(
    frame: Frame, metalayers: dict[str, bytes], bad: set[int], lost: Findings, key: str | None, lengths: dict[int, int]
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
        for number, error in wrong_values(frame, key, bad, lengths):
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
            + (f": {why}" if why else ""),
            key=key, path=frame.source.path,
        )  # fmt: skip
    return wrong


def _put_lengths_right(frame: Frame, vlmeta: dict[str, bytes], without: set[int], lengths: dict[int, int]) -> None:
    """Write how many items each batch that is left has; readers count where that is not known."""
    left = [number for number in range(frame.nchunks) if number not in without]
    vlmeta.pop(LENGTHS, None)
    if left and all(number in lengths for number in left):
        vlmeta[LENGTHS] = vlmeta_chunk(packed_lengths([lengths[number] for number in left]))


def _detached(frame: Frame, metalayers: dict[str, bytes], vlmeta: dict[str, bytes], without: set[int]) -> Frame:
    """The same chunks but for some, as a frame that does not know of checksums."""
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


def _fill_up(update: FrameUpdate, start: int, count: int, fill: Any) -> None:
    """Fill chunks that are zeros: all are alike, but for the last."""
    frame = update.frame
    one, last = _filling(frame, start, fill), _filling(frame, count - 1, fill)
    if isinstance(one, bytes):
        update.new.update(dict.fromkeys(range(start, count - 1), one))
        update.replace(count - 1, last)


def _filling(frame: Frame, index: int, fill: Any) -> bytes | int:
    """A chunk of one value."""
    size = frame.chunksize
    if frame.variable:
        raise FormatError("chunks of different sizes cannot be filled", path=frame.source.path, key=frame.key)
    nbytes = min(size, frame.nbytes - index * size)
    if frame.metalayer("b2nd") is None:
        if fill:
            raise ValueError("what is lost of a super-chunk can only be filled with zeros: give fill=0")
        return ZERO_OFFSET
    dtype = array_of(frame)[1]
    item = clear_gaps(np.array(fill).astype(dtype)).tobytes()
    if not any(item):
        return ZERO_OFFSET
    return special_chunk(3, nbytes, frame.typesize, frame.blocksize, item)


def _numbers(bad: set[int]) -> str:
    some = sorted(bad)
    return ", ".join(map(str, some[:10])) + (", ..." if len(some) > 10 else "")
