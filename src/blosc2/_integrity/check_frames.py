"""`check`: what is at a path, and who looks at it; and checking what is one frame.

That is an array, super-chunk or list: in a file, a directory of chunk files, or open. `check_stores` checks stores, and
is imported for these alone.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Container, Iterator
from typing import Any, Final

import numpy as np

from blosc2 import _frames, _integrity
from blosc2._backends import APPLE_DOUBLE, EMBED, FRAME_MAGIC, is_archive, may_be_attributes
from blosc2._core.allocation import allowed, too_much
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.frame_checksums import check_chunk as check_stored_chunk
from blosc2._core.io.source import Source
from blosc2._frames import CHUNK_HEADER, CHUNK_SIZES, HEADER_FILE, Fields, FrameHandle, HandleOptions, Integers
from blosc2._functions import wrap
from blosc2._integrity.report import ARCHIVE, DIRECTORY, EMBEDDED, FAULTS, FRAME, MOST, CheckReport, Findings
from blosc2._lists import LENGTHS, stored_lengths
from blosc2._options import OPAQUE_KINDS, absolute_path, is_remote, kind_in_words, local_path
from blosc2.exceptions import FormatError, MissingFileError, UnsafeDeserializationError, UnsupportedKindError


def check(path: str | bytes | os.PathLike[Any], *, progress: Callable[[int, int], object] | None = None) -> CheckReport:
    """Read all of an array or store, and report what is damaged.

    It checks the structure, the checksums, and that every chunk decodes to its size. In a file that this package wrote
    and no other program changed, a wrong bit anywhere is found. Files of other programs are checked as far as possible,
    and listed as unverified. Nothing is modified, and memory is bounded by the largest chunk.

    Parameters
    ----------
    path : str, bytes or path
        A file or directory of any kind that `open` takes, however damaged.
    progress : callable, optional
        Called from time to time with the bytes checked so far and the bytes in all. An exception that it raises ends
        the check.

    Returns
    -------
    CheckReport
        A sequence of findings, empty if nothing is wrong. Each names file, key, byte and problem. Its attributes
        `unverified` and `notes` list findings that are not damage.

    Raises
    ------
    FileNotFoundError
        There is nothing at this path.
    MemoryError, OSError
        There is too little memory or no permission, or there are too many open files: this says nothing of the bytes.

    See Also
    --------
    salvage : Copy what is whole of a damaged file.

    Examples
    --------
    >>> import os, tempfile
    >>> import blosc2
    >>> path = os.path.join(tempfile.mkdtemp(), "ones.b2nd")
    >>> _ = blosc2.ones((2, 3), urlpath=path)
    >>> blosc2.check(path).ok
    True
    >>> with open(path, "r+b") as file:
    ...     _ = file.truncate(150)
    >>> for finding in blosc2.check(path):
    ...     print(finding.offset, finding.problem)
    16 the frame says it has ... bytes and there are 150: cut short or damaged; restore the file from a copy: ...
    """
    if is_remote(path):
        raise NotImplementedError(
            f"{path}: check reads files of this machine; 'blosc2 check URL' reads what is on a server into "
            "a temporary file, and checks that"
        )
    name = absolute_path(local_path(path))
    found = Findings(name, progress)
    kind = kind_of_path(name)
    if kind == DIRECTORY:
        _integrity.check_directory_store(name, found)
    elif kind == ARCHIVE:
        found.of_one_version(name, lambda: _integrity.check_archive_file(name, found))
    elif kind == EMBEDDED:
        found.total = os.path.getsize(name)
        found.of_one_version(name, lambda: _integrity.check_embedded_file(name, found))
    else:
        found.of_one_version(name, lambda: check_path(name, found))
    return found.report()


def check_store(store: str | bytes, progress: Callable[[int, int], object] | None = None) -> CheckReport:
    """Check a store: the file or directory at a path, or the bytes of the frame of a store in memory."""
    if isinstance(store, str):
        return check(store, progress=progress)
    found = Findings("in memory", progress)
    found.total = len(store)
    _integrity.check_embedded((Source.of_buffer(store), 0, -1), found)
    return found.report()


def kind_of_path(path: str) -> str:
    """What is at a path, or should be by its name; `FileNotFoundError` where nothing is.

    Whoever reads files without opening them comes here first: what waits for them in this process is published.
    """
    _frames.publish_waiting(path)
    if not os.path.exists(path):
        raise MissingFileError(errno.ENOENT, "No such file or directory: there is nothing to look at", path)
    suffix = os.path.splitext(path)[1]
    if os.path.isdir(path):
        store = suffix in (".b2d", ".b2z", ".b2e") or os.path.exists(os.path.join(path, EMBED))
        return FRAME if _frames.is_directory_frame(path) and not store else DIRECTORY
    if suffix in (".b2d", ".b2z"):
        return ARCHIVE
    if suffix == ".b2e":
        return EMBEDDED
    return _kind_of_file(path)


def _kind_of_file(path: str) -> str:
    try:
        if is_archive(open_regular(path)):
            return ARCHIVE
    except FAULTS:
        pass
    return FRAME


def check_path(path: str, found: Findings) -> None:
    """Check what is one array, super-chunk or list: a file, or a directory frame."""
    if os.path.isdir(path) and _frames.is_directory_frame(path):
        check_directory_frame(path, found)
    else:
        found.total = size_of(path)
        source = opened(path, found)
        frame = None if source is None else check_byte_range(source, 0, -1, found)
        if frame is not None:
            check_whole_file(frame, found.at(path))


def check_opened(handle: FrameHandle, progress: Callable[[int, int], object] | None = None) -> CheckReport:
    """Check what is below an open array or super-chunk: all of its file, or its frame in a store or in memory."""
    frame = handle.frame
    # The first that stays right when the process goes to another folder.
    path = getattr(handle, "_path", None) or frame.source.path or handle.urlpath
    if path is not None and handle.key is None and frame.offset == 0 and os.path.exists(path):
        found = Findings(absolute_path(path), progress)
        check_path(found.path, found)
        return found.report()
    found = Findings(path or "in memory", progress)
    found.total = frame.frame_len or frame.cbytes
    if frame.needs_geometry and frame.plugin is None:
        # What checking needs goes to a frame of its own: others may be reading this one.
        source, at = (frame.source, frame.offset) if frame.serialised else (Source.of_buffer(handle.to_cframe()), 0)
        check_byte_range(source, at, -1, found, handle.key)
    else:
        check_frame(frame, found.at(frame.source.path, handle.key))
    return found.report()


# ------------------------------------------------------------------ directories of chunk files
def check_directory_frame(path: str, found: Findings) -> None:
    """Check a frame whose chunks are files, one after the other."""
    name = os.path.join(path, HEADER_FILE)
    try:
        source = open_regular(name)
        frame, numbers = _frames.frame_of_head(name, source.read(0, source.size))
    except FAULTS as error:
        found.caught(error, path=name)
        return
    sound = check_metadata(frame, found.at(frame.source.path))
    with os.scandir(path) as entries:
        there = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in entries}
    there.pop(HEADER_FILE, None)
    found.total = sum(there.values())
    extras = sorted(name for name in there if name.endswith((".chunk", ".tmp")))
    theirs = [-1 if number is None else number for number in map(_frames.chunk_number, extras)]
    for extra, known in zip(extras, np.isin(theirs, numbers[numbers >= 0]).tolist(), strict=True):
        if not known:
            found.note("no version refers to this file; it may be deleted", path=os.path.join(path, extra))
    _check_files(path, frame, numbers, found, sound)


def _check_files(path: str, frame: Frame, numbers: Integers, found: Findings, sound: bool) -> None:
    total = faults = 0
    for index in map(int, np.flatnonzero(numbers >= 0)):
        rest = frame.nbytes - index * frame.chunksize
        name = _frames.chunk_file(path, int(numbers[index]))
        try:
            total += _check_chunk_file(name, frame, None if frame.variable else min(frame.chunksize, rest))
        except FAULTS as error:
            if isinstance(error, FileNotFoundError):
                found.add(f"the file of chunk {index} is missing: restore it from a copy", path=name)
            else:
                found.caught(error, path=name)
            faults += 1
            if faults == MOST:
                return
        found.advance(size_of(name))
    if sound and not faults and frame.variable and total != frame.nbytes:
        found.add(
            f"the chunks hold {total} bytes, the header says {frame.nbytes}", path=os.path.join(path, HEADER_FILE)
        )


def _check_chunk_file(name: str, like: Frame, nbytes: int | None) -> int:
    """Decode a file that is one chunk; how many bytes that gives."""
    source = open_regular(name)
    stored = source.read(0, source.size)
    size: int
    size, _, cbytes = CHUNK_SIZES.unpack_from(stored) if len(stored) >= CHUNK_HEADER else (0, 0, -1)
    if cbytes != len(stored):
        raise FormatError("the file is not one chunk: cut short, or damaged", path=name, offset=12)
    if size < 0 or (nbytes is not None and size != nbytes):
        raise FormatError(f"the chunk has {size} bytes, and should have {nbytes}", path=name, offset=4)
    if size == 0:
        return 0
    chunksize = size if nbytes is None else like.chunksize
    fields = Fields(like, chunksize, vlblocks=bool(like.vlblocks))
    one = Frame.assemble(
        Source.of_buffer(stored, name), np.zeros(1, np.int64), 1, size, chunksize, fields, like.metalayers(), {},
        vlblocks=bool(like.vlblocks),
    )  # fmt: skip
    if like.needs_geometry:
        one.set_plugin(like.plugin or _frames.make_plugin(like))
    check_chunk(one, 0)
    return size


# How many times what the rule of allocation gives is unpacked of values, one after the other.
_WORK: Final = 16


def size_of(path: str) -> int:
    """Bytes of a file; 0 where nobody can say."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def is_frame_at(source: Source, offset: int, length: int) -> bool:
    """Whether so many bytes begin like a frame."""
    return length >= len(FRAME_MAGIC) and source.read(offset, len(FRAME_MAGIC)) == FRAME_MAGIC


def holds_attributes(source: Source, offset: int, name: str) -> bool:
    """Whether a file or member of this name is an AppleDouble file of macOS, and no leaf."""
    return may_be_attributes(name) and source.read(offset, min(4, source.size - offset)) == APPLE_DOUBLE


def open_regular(path: str) -> Source:
    """A file for positional reads; `FormatError` where something else bears its name, which might never answer."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise FormatError("it is no regular file", path=path)
    return Source.open(path)


def opened(path: str, found: Findings) -> Source | None:
    """A file for positional reads; None where it cannot be read, which is told."""
    try:
        return open_regular(path)
    except FAULTS as error:
        found.caught(error, path=path)
        return None


def check_whole_file(frame: Frame, found: Findings) -> None:
    """What there is to say of a frame that is all of a file: bytes behind it, and whether it carries checksums."""
    try:
        summed = _frames.is_verifiable(frame)
    except FAULTS:  # told already
        summed = True
    if not summed:
        found.unverified(
            "the frame carries no checksums of this package for its last version: it was written or changed by another "
            "program, or is what to_cframe() gave. It decodes, which damage of raw bytes would not change"
        )
    _check_tail(frame, found)


def check_byte_range(source: Source, offset: int, length: int, found: Findings, key: str | None = None) -> Frame | None:
    """Check the frame in a byte range of a source; the frame, if its header is sound."""
    found = found.at(source.path, key)
    try:
        frame = Frame.open(source, offset, length, key)
    except FAULTS as error:
        found.caught(error)
        return None
    check_frame(frame, found)
    return frame


def is_whole_frame(source: Source, offset: int, length: int) -> bool:
    trouble = Findings("")
    check_byte_range(source, offset, length, trouble)
    return not trouble.damage


def check_frame(frame: Frame, found: Findings) -> None:
    """Check a frame whose header was found sound. `found` is for its file and key, here and in what follows."""
    known = _check_checksums(frame, found)
    sound = check_metadata(frame, found)
    if _check_chunks(frame, found, known) and sound:
        _check_values(frame, found)


def _check_checksums(frame: Frame, found: Findings) -> set[int]:
    """Check a frame against the checksums that it carries; where chunks are damaged."""
    known = set()
    try:
        for wrong in _frames.verify_frame(frame):
            found.add(wrong.what, offset=wrong.offset)
            if wrong.chunk is not None:
                known.add(wrong.offset)
    except FAULTS as error:
        found.caught(error)
    return known


def _check_tail(frame: Frame, found: Findings) -> None:
    """Tell of what lies behind a frame in its file."""
    end = stop = frame.offset + frame.frame_len
    size = frame.source.size
    if size == end:
        return
    for _, last in _frames.trailers(frame.source, end, size):
        stop = last
    if stop > end:
        found.note(
            f"{stop - end} bytes behind the end of the frame end in a whole trailer: they may have been a version that "
            "was taken back, or are one whose header is damaged; they stay until the frame is written anew",
            offset=end,
        )
    if size > stop:
        found.note(
            f"{size - stop} bytes behind the end of the frame belong to no version; they are what an append left that "
            "was not finished, and the next change overwrites them",
            offset=stop,
        )


def check_metadata(frame: Frame, found: Findings) -> bool:
    """Check all but the chunks: metalayers, geometry, variable-length metadata. Whether chunks can be made sense of."""
    sound = _check_metalayers(frame, found)
    try:
        prepare(frame)
    except FAULTS as error:
        found.caught(error)
        sound = False
    _check_vlmeta(frame, found)
    return sound


def prepare(frame: Frame) -> None:
    """Check the geometry of an array, and have the frame know what its codecs need of that."""
    if frame.metalayer("b2nd") is not None:
        _frames.array_of(frame)
    elif frame.needs_geometry:
        frame.set_plugin(_frames.make_plugin(frame))


def _check_metalayers(frame: Frame, found: Findings) -> bool:
    sound = True
    for name, content in frame.metalayers().items():
        if name == "b2nd":
            continue
        if "\0" in name:
            found.add(f"a metalayer has the name {name!r}, with a NUL")
            sound = False
            continue
        at = frame.offset + frame.metalayer_offset(name) if frame.serialised else None
        sound &= check_packed(content, f"the metalayer {name!r}", frame, found, at)
    return sound


def check_packed(content: bytes, what: str, frame: Frame, found: Findings, at: int | None = None) -> bool:
    """Whether bytes are one packed value."""
    try:
        try:
            _frames.unpack(content, location=what, file_size=frame.file_size)
        except UnsafeDeserializationError as error:
            _frames.unpack(
                content, deserialize="full", location=what, frame_opener=_open_inner, file_size=frame.file_size
            )
            found.unverified(f"{what} holds an active value ({error.kind}), which is not followed", offset=at)
    except FormatError as error:
        reason = error.reason if what in error.reason else f"{what}: {error.reason}"
        found.add(reason, offset=at)
        return False
    return True


def _open_inner(data: bytes) -> Frame:
    """A frame that is a value of metadata; not what it holds in turn, which could go on for ever."""
    frame = Frame.open(Source.of_buffer(data))
    trouble = Findings("")
    _check_chunks(frame, trouble, set())
    frame.vlmeta_names()
    for one in trouble.found:
        raise FormatError(one.problem)
    return frame


def _check_vlmeta(frame: Frame, found: Findings) -> None:
    try:
        names = frame.vlmeta_names()
    except FAULTS as error:
        found.caught(error)
        return
    at = frame.offset + frame.frame_len - frame.trailer_len if frame.serialised else None
    work = _WORK * allowed(frame.file_size)
    for name in names:
        try:
            content = frame.vlmeta(name)
            work -= len(content or b"")
            if work < 0:
                found.unverified("its metadata is far larger than the file: entries that follow are not unpacked")
                return
        except FAULTS as error:
            found.caught(error)
            continue
        check_packed(content or b"", f"the metadata entry {name!r}", frame, found, at)


def _check_chunks(frame: Frame, found: Findings, known: set[int]) -> bool:
    """Whether every stored chunk decodes to its size, and lies apart from the others."""
    try:
        repeated = frame.repeated_offset
        if frame.nbytes == 0 or (repeated is not None and repeated < 0):
            return True
        table = frame.offsets_bytes()
    except FAULTS as error:
        found.caught(error)
        return False
    offsets = np.frombuffer(table, np.int64) if table else np.array([repeated], np.int64)
    stored = (offsets >= 0).nonzero()[0]
    # What lies upon something else is not decoded: any number of chunks can share the same bytes.
    sizes, faults = _stored_sizes(frame, stored, found, known)
    apart = _check_apart(frame, offsets[stored], sizes, found)
    if faults == MOST:
        return False
    for index in stored[apart & (sizes > 0)].tolist():
        try:
            size = check_chunk(frame, index)
        except FAULTS as error:
            size = 0
            if getattr(error, "offset", None) not in known:
                found.caught(error)
            faults += 1
            if _are_too_many(faults, found):
                return False
        found.advance(size)
    if faults or not apart.all():
        return False
    try:
        if frame.variable:
            frame.chunk_sizes()  # add up to the size that the header states
    except FAULTS as error:
        found.caught(error)
        return False
    return True


def _stored_sizes(frame: Frame, stored: Any, found: Findings, known: set[int]) -> tuple[Any, int]:
    """The stored size of each chunk, 0 where its header is damaged; and how many of these there are."""
    sizes = np.zeros(len(stored), np.int64)
    faults = 0
    for row, index in enumerate(stored.tolist()):
        try:
            sizes[row] = frame.chunk_info(index)[2]
        except FAULTS as error:
            if getattr(error, "offset", None) not in known:
                found.caught(error)
            faults += 1
            if _are_too_many(faults, found):
                break
    return sizes, faults


def _are_too_many(faults: int, found: Findings) -> bool:
    if faults == MOST:
        found.add("there are more chunks that are damaged; no more are looked at")
    return faults == MOST


def _check_apart(frame: Frame, starts: Any, sizes: Any, found: Findings) -> Any:
    """Which chunks lie upon no other that begins before them."""
    if len(starts) < 2:  # as of most leaves
        return np.ones(len(starts), bool)
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], (starts + sizes)[order]
    apart = np.ones(len(starts), bool)
    apart[order[1:]] = starts[1:] >= np.maximum.accumulate(ends)[:-1]
    shared = np.flatnonzero(~apart[order])
    if len(shared):
        found.add(
            f"{len(shared)} chunks lie upon others, which no writer does: the offsets table is damaged",
            offset=int(frame.chunks_range[0] + starts[shared[0]]),
        )
    return apart


def check_chunk(frame: Frame, index: int) -> int:
    """Decode a stored chunk, as far as it takes to know that it is whole; its stored size."""
    if frame.variable or frame.vlblocks:
        # One value, or one batch of them, is decoded at once.
        nbytes, most = frame.chunk_info(index)[1], allowed(frame.file_size)
        if nbytes > most and any(name in frame.metalayers() for name in ("vlarray", "batcharray")):
            reason = too_much(nbytes, f"chunk {index}", most)
            raise FormatError(reason, path=frame.source.path, key=frame.key, offset=frame.chunk_info(index)[0])
    return check_stored_chunk(frame, index)


def _check_values(frame: Frame, found: Findings) -> None:
    """What a frame holds besides an array or plain bytes."""
    names = frame.metalayers()
    if any(name in names for name in OPAQUE_KINDS):
        kind = next(name for name in OPAQUE_KINDS if name in names)
        found.unverified(f"an object of kind {kind_in_words(kind)}, of another package: its frame is whole")
        return
    if "vlarray" not in names and "batcharray" not in names:
        return
    faults = 0
    lengths: dict[int, int] = {}
    try:
        for _, error in wrong_values(frame, lengths=lengths):
            if error is None:
                found.unverified("its values are far larger than the file: those that follow are not unpacked")
                break
            found.caught(error)
            faults += 1
            if faults == MOST:
                break
        if "batcharray" in names:
            _check_lengths(frame, lengths, found)
    except FAULTS as error:
        found.caught(error)


def _check_lengths(frame: Frame, lengths: dict[int, int], found: Findings) -> None:
    told = stored_lengths(frame)
    if told is None:
        return
    wrong = [index for index, length in lengths.items() if index >= len(told) or told[index] != length]
    if wrong or len(told) != frame.nchunks:
        which = f"that of batch {wrong[0]} is wrong" if wrong else f"there are {frame.nchunks} batches"
        found.add(f"variable metadata {LENGTHS!r} has the lengths of {len(told)} batches, and {which}")


def wrong_values(
    frame: Frame, known: Container[int] = (), lengths: dict[int, int] | None = None
) -> Iterator[tuple[int, Exception | None]]:
    """The numbers of the chunks of a list whose values cannot be unpacked, and why; None where it would take too long.

    Those whose numbers are `known` are not looked at. `lengths` is told how many items there are in each other one.
    """
    work = _WORK * allowed(frame.file_size)
    values = wrap(FrameHandle(frame, HandleOptions(deserialize="full"), frame.source.path, frame.key))
    count, repeated = len(values), frame.repeated_offset
    # Of any number of chunks that are one and the same, the last may be shorter.
    alike = repeated is not None and repeated < 0
    for index in dict.fromkeys((0, count - 1)) if alike and count else range(count):
        if index in known:
            continue
        try:
            work -= frame.chunk_info(index)[1]
            if work < 0:
                yield index, None
                return
            value = values._entry(index)
            if lengths is not None and isinstance(value, list):
                lengths[index] = len(value)
        except UnsupportedKindError:
            raise
        except FAULTS as error:
            yield index, error
