"""Checking frames: header, metadata and tables, and that every chunk decodes to its size.

Nothing is written and no byte is believed: what is wrong becomes a finding, and the check goes on with what is left.
Memory stays within a few pieces of `_PIECE` bytes, and one chunk where that can only be decoded whole.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Final

import numpy as np

from blosc2._core.frame import Frame
from blosc2._core.source import Source
from blosc2.carrier import Carrier, array_of, make_plugin
from blosc2.exceptions import FormatError, UnsafeDeserializationError, UnsupportedKindError
from blosc2.findings import FAULTS, MOST, Findings
from blosc2.objects import OPAQUE_KINDS
from blosc2.recognise import wrap
from blosc2.serialization import unpack
from blosc2.sums import is_verifiable, verify_frame

# Chunks up to this size are decoded at once; of larger ones, as much at a time.
_PIECE: Final = 8 << 20
_CHUNK_HEADER: Final = 32
# Filters and codecs whose blocks do not stand alone (FORMATS 2.3 and 2.4).
_DELTA: Final = 3
_FIRST_PLUGIN: Final = 32


def open_regular(path: str) -> Source:
    """A file for positional reads; `FormatError` where something else bears its name, which might never answer."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise FormatError("it is no regular file", path=path)
    return Source.open(path)


def check_frame_file(path: str, found: Findings) -> Frame | None:
    """Check a file that is to be one frame; the frame, if its header is sound."""
    try:
        source = open_regular(path)
    except FAULTS as error:
        found.caught(error, path=path)
        return None
    frame = check_window(source, 0, -1, found)
    if frame is not None:
        check_whole_file(frame, found)
    return frame


def check_whole_file(frame: Frame, found: Findings, key: str | None = None) -> None:
    """What there is to say of a frame that is all of a file: bytes behind it, and whether it carries checksums."""
    try:
        summed = is_verifiable(frame)
    except FAULTS:  # told already
        summed = True
    if not summed:
        found.unverified(
            "the frame carries no checksums of this package for its last version: it was written or changed by another "
            "program. It decodes, which damage of raw bytes would not change",
            key=key,
            path=frame.source.path,
        )
    rest = frame.source.size - frame.offset - frame.frame_len
    if rest:
        found.note(
            f"{rest} bytes behind the end of the frame belong to no version; they are what an append left that was not "
            "finished, and the next change overwrites them",
            key=key,
            offset=frame.offset + frame.frame_len,
            path=frame.source.path,
        )


def check_window(source: Source, offset: int, length: int, found: Findings, key: str | None = None) -> Frame | None:
    """Check the frame in a window of a source; the frame, if its header is sound."""
    try:
        frame = Frame.open(source, offset, length, key)
    except FAULTS as error:
        found.caught(error, key=key, path=source.path)
        return None
    check_frame(frame, found, key)
    return frame


def check_frame(frame: Frame, found: Findings, key: str | None = None) -> None:
    """Check a frame whose header was found sound."""
    known = _check_sums(frame, found, key)
    sound = check_metadata(frame, found, key)
    if _check_chunks(frame, found, key, known) and sound:
        _check_values(frame, found, key)


def _check_sums(frame: Frame, found: Findings, key: str | None) -> set[int]:
    """Check a frame against the checksums that it carries; where chunks are damaged."""
    known = set()
    try:
        for wrong in verify_frame(frame):
            found.add(wrong.what, key=key, offset=wrong.offset, path=frame.source.path)
            if wrong.chunk is not None:
                known.add(wrong.offset)
    except FAULTS as error:
        found.caught(error, key=key, path=frame.source.path)
    return known


def check_metadata(frame: Frame, found: Findings, key: str | None) -> bool:
    """Check all but the chunks: metalayers, geometry, variable-length metadata. Whether chunks can be made sense of."""
    sound = _check_metalayers(frame, found, key)
    try:
        if frame.metalayer("b2nd") is not None:
            array_of(frame)
        elif frame.needs_geometry:
            frame.set_plugin(make_plugin(frame))
    except FAULTS as error:
        found.caught(error, key=key, path=frame.source.path)
        sound = False
    _check_vlmeta(frame, found, key)
    return sound


def _check_metalayers(frame: Frame, found: Findings, key: str | None) -> bool:
    """Whether the content of each metalayer is a value."""
    sound = True
    for name, content in frame.metalayers().items():
        if name == "b2nd":
            continue
        if "\0" in name:
            found.add(f"a metalayer has the name {name!r}, with a NUL", key=key, path=frame.source.path)
            sound = False
            continue
        at = frame.offset + frame.metalayer_place(name) if frame.serialised else None
        sound &= _check_packed(content, f"the metalayer {name!r}", at, frame, found, key)
    return sound


def _check_packed(content: bytes, what: str, at: int | None, frame: Frame, found: Findings, key: str | None) -> bool:
    """Whether bytes are one packed value."""
    path = frame.source.path
    try:
        try:
            unpack(content, location=what)
        except UnsafeDeserializationError as error:
            unpack(content, deserialize="full", location=what, frame_opener=_open_inner)
            found.unverified(f"{what} holds an active value ({error.kind}), which is not followed", key=key, offset=at,
                             path=path)  # fmt: skip
    except FormatError as error:
        found.add(error.reason, key=key, offset=at, path=path)
        return False
    return True


def _open_inner(data: bytes) -> Frame:
    """A frame that is a value of metadata; not what it holds in turn, which could go on for ever."""
    frame = Frame.open(Source.of_buffer(data))
    frame.check_all()
    return frame


def _check_vlmeta(frame: Frame, found: Findings, key: str | None) -> None:
    path = frame.source.path
    try:
        names = frame.vlmeta_names()
    except FAULTS as error:
        found.caught(error, key=key, path=path)
        return
    at = frame.offset + frame.frame_len - frame.trailer_len if frame.serialised else None
    for name in names:
        try:
            content = frame.vlmeta(name)
        except FAULTS as error:
            found.caught(error, key=key, path=path)
            continue
        _check_packed(content or b"", f"the metadata entry {name!r}", at, frame, found, key)


def _check_chunks(frame: Frame, found: Findings, key: str | None, known: set[int]) -> bool:
    """Whether every stored chunk decodes to its size, and lies apart from the others."""
    try:
        repeated = frame.repeated_offset
        if frame.nbytes == 0 or (repeated is not None and repeated < 0):
            return True
        table = frame.offsets_bytes()
    except FAULTS as error:
        found.caught(error, key=key, path=frame.source.path)
        return False
    offsets = np.frombuffer(table, np.int64) if table else np.array([repeated], np.int64)
    stored = np.flatnonzero(offsets >= 0)
    sizes = np.zeros(len(stored), np.int64)
    faults = 0
    for place, index in enumerate(stored.tolist()):
        try:
            sizes[place] = check_chunk(frame, index)
        except FAULTS as error:
            if getattr(error, "offset", None) not in known:
                found.caught(error, key=key, path=frame.source.path)
            faults += 1
            if faults == MOST:
                found.add("there are more chunks that are damaged; no more are looked at", key=key,
                          path=frame.source.path)  # fmt: skip
                return False
        found.advance(int(sizes[place]))
    if faults:
        return False
    try:
        if frame.variable:
            frame.chunk_sizes()  # add up to the size that the header states
    except FAULTS as error:
        found.caught(error, key=key, path=frame.source.path)
        return False
    return _check_apart(frame, offsets[stored], sizes, found, key)


def _check_apart(frame: Frame, starts: Any, sizes: Any, found: Findings, key: str | None) -> bool:
    """Whether no two chunks share bytes."""
    order = np.argsort(starts, kind="stable")
    starts, sizes = starts[order], sizes[order]
    shared = np.flatnonzero(starts[1:] < (starts + sizes)[:-1])
    if not len(shared):
        return True
    at = int(frame.chunks_window[0] + starts[1:][shared[0]])
    found.add(
        f"{len(shared)} chunks lie upon others, which no writer does: the offsets table is damaged",
        key=key,
        offset=at,
        path=frame.source.path,
    )
    return False


def check_chunk(frame: Frame, index: int) -> int:
    """Decode a stored chunk; its stored size."""
    at, nbytes, cbytes, special, _, _ = frame.chunk_info(index)
    if special or at is None:
        return cbytes
    if nbytes <= _PIECE or frame.variable or _is_one_piece(frame.source.read(at, _CHUNK_HEADER)):
        frame.decode_chunk(index)
        return cbytes
    room = memoryview(bytearray(_PIECE))
    start = index * frame.chunksize
    for begin in range(start, start + nbytes, _PIECE):
        stop = min(begin + _PIECE, start + nbytes)
        frame.read_into(begin, stop, room[: stop - begin])
    return cbytes


def _is_one_piece(header: bytes) -> bool:
    """Whether a part of the chunk could only be had by decoding all of it."""
    filters = header[16:22]
    return bool(
        header[31] & 1
        or header[30] & 1
        or header[22] >= _FIRST_PLUGIN
        or any(one == _DELTA or one >= _FIRST_PLUGIN for one in filters)
    )


def _check_values(frame: Frame, found: Findings, key: str | None) -> None:
    """What a frame holds besides an array or plain bytes."""
    path = frame.source.path
    names = frame.metalayers()
    if any(name in names for name in OPAQUE_KINDS):
        kind = next(name for name in OPAQUE_KINDS if name in names)
        found.unverified(f"an object of kind {kind!r}, of another package: its frame is whole", key=key, path=path)
        return
    if "vlarray" not in names and "batcharray" not in names:
        return
    faults = 0
    try:
        values = wrap(Carrier(frame, "r", path, None, key, "full"))
        for index in range(len(values)):
            try:
                values._entry(index)
            except UnsupportedKindError:
                raise
            except FAULTS as error:
                found.caught(error, key=key, path=path)
                faults += 1
                if faults == MOST:
                    break
    except FAULTS as error:
        found.caught(error, key=key, path=path)
