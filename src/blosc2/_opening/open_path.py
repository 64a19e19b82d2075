"""`open`, `load` and `from_cframe`: recognise the kind of object, check the request, and call the right class."""

from __future__ import annotations

import errno
import os
import stat
import warnings
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from blosc2 import _arrays, _files, _frames, _opening
from blosc2 import schunk as schunk_module
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import environment_has
from blosc2._core.io.source import Source
from blosc2._frames import FrameHandle, HandleOptions, Stored, is_directory_frame, open_handle, recent_frame
from blosc2._functions import wrap
from blosc2._options import (
    RemotePath,
    check_open_modes,
    check_remote,
    check_timeout,
    deserialize_mode,
    local_path,
    of_another_format,
    remote_path,
    scheme_of,
    shares_by_environment,
    tell_of_mapping,
)
from blosc2.exceptions import ExistingFileError, FormatError, MissingFileError, legible
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk
from blosc2.storage import CParams, OpenKeywords, closest, cparams_from, dparams_from, takes

if TYPE_CHECKING:
    from blosc2._frames import MemoryHandle
    from blosc2.embed_store import EmbedStore
    from blosc2.objectarray import ObjectArray

_STORE_SUFFIXES = (".b2d", ".b2z", ".b2e")
# Keywords of features that this package does not have; None and False ask for nothing.
_WRITER_KEYWORDS = ("timeout", "exclusive")
_OUT_OF_SCOPE = ("dataset", "hdf5_index", "path", "shared_cache")
_KNOWN = ("cparams", "dparams", "locking", "durable", "initial_mapping_size", *_WRITER_KEYWORDS)
_NOT_IGNORED = (*_KNOWN, *_OUT_OF_SCOPE)
_TAKEN = ("urlpath", "mode", "offset", "mmap_mode", "deserialize", "verify", "advise", *sorted(_KNOWN))


@takes(OpenKeywords, exclusive=True)
def open(
    urlpath: str | bytes | os.PathLike[Any], mode: str = "r", offset: int = 0, dataset: Any = None,
    hdf5_index: Any = None, *, mmap_mode: str | None = None, path: Any = None, shared_cache: bool = False,
    deserialize: str = "safe", verify: bool | None = None, advise: str | None = None,
    storage_options: dict[str, Any] | None = None, remote: dict[str, Any] | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """Open an array, a super-chunk or a store.

    Parameters
    ----------
    urlpath : str, bytes or path
        The content decides what it is; the suffix only decides between kinds of stores, if the content does not. A path
        that does not exist is also tried with ``.b2d``, ``.b2z`` and ``.b2e``. A URL (``https://``, ``s3://``, or
        another one that fsspec knows) is read from its server, in mode "r"; what is not a ``.b2d`` can be there.
    mode : {"r", "a", "w"}
        Read; read and write; empty it, then write. Arrays keep their items in mode "w". "r+" is the same as "a".
    offset : int
        Where a frame starts in a file. Frames that do not start at 0 can only be read.
    mmap_mode : {None, "r", "r+", "c"}
        Map the file instead of reading it by position. "r" makes the mode "r", "r+" and "c" make it "a"; with "c"
        changes stay in memory. Stores take None and "r", and "r" only together with ``mode="r"``.
    deserialize : {"safe", "full"}
        Whether frames in metadata are opened.
    verify : bool, optional
        What to verify against the checksums in files of this package. By default, whatever is read as a whole: headers,
        tables, metadata, whole chunks, and small leaves of stores. True verifies reads of parts of chunks too (each
        such read loads the whole chunk), and leaves of a ``.b2z`` when they are opened. False verifies nothing. Files
        that other programs wrote or changed have no checksums, except for leaves of a ``.b2z``. `check` verifies all
        bytes of a file at once.
    advise : {None, "normal", "random", "sequential", "willneed", "dontneed"}
        How the file will be read, as advice to the operating system; see `NDArray.advise` and `DictStore.advise`.
    storage_options : dict, optional
        For URLs: what fsspec needs to reach the server, such as credentials.
    remote : dict, optional
        For URLs: ``memory``, the bytes of fetched blocks that are kept (64 MiB); ``disk``, a folder that keeps fetched
        blocks for other processes too, up to ``disk_bytes`` (4 GiB); ``ahead``, bytes that may be fetched with others
        and never be needed (8 MiB); ``requests`` under way at a time (16); ``retries`` of a request that failed (4);
        ``timeout`` of a request, in seconds (60).
    **kwargs
        The fields of `OpenKeywords`. Others are ignored with a warning.

    Returns
    -------
    NDArray, SChunk, ObjectArray, BatchArray, EmbedStore, DictStore or TreeStore

    Raises
    ------
    FileNotFoundError
        There is nothing at this path.
    FormatError
        The file is damaged, or not a file of this format; the error gives file, byte and reason. Later reads may raise
        it too.
    RemoteError
        A server does not give what it should; later reads may raise it too.
    ValueError
        The modes do not fit together. This is raised before any file is touched.

    Examples
    --------
    >>> import os, tempfile
    >>> import blosc2
    >>> name = os.path.join(tempfile.mkdtemp(), "ones.b2nd")
    >>> _ = blosc2.ones((2, 3), urlpath=name)
    >>> blosc2.open(name, mmap_mode="r")[1]
    array([1., 1., 1.])
    """
    if mode == "r" and offset == 0 and type(urlpath) is str and not urlpath.endswith(_STORE_SUFFIXES):
        asked = (verify, advise is not None, dataset, hdf5_index, path, shared_cache, storage_options, remote)
        if not any(asked) and (again := _opened_again(urlpath, mmap_mode, verify, deserialize, kwargs)) is not None:
            return again
    mode = "a" if mode == "r+" else mode  # as NumPy and h5py call it
    given = {"dataset": dataset, "hdf5_index": hdf5_index, "path": path, "shared_cache": shared_cache}
    kwargs |= filter(itemgetter(1), given.items())
    how = _check_keywords(kwargs) if kwargs else {}
    how |= {} if verify is None else {"verify": bool(verify)}
    store_how = how
    if advise is not None:
        _files.check_advice(advise)
        store_how = how | {"advise": advise}
    policy = deserialize if deserialize == "safe" else str(deserialize_mode(deserialize))
    locking, exclusive = bool(kwargs.get("locking")), bool(how.get("exclusive", True))
    mapped = kwargs.get("initial_mapping_size")
    if isinstance(urlpath, str) and (
        isinstance(urlpath, RemotePath) or ("://" in urlpath and scheme_of(urlpath) not in (None, "file"))
    ):
        path_there = remote_path(urlpath, storage_options, remote)
        check_remote(path_there, mode, mmap_mode, mapped, locking=locking)
        return _opening.opened_remote(path_there, offset, policy, how, store_how, kwargs.get("cparams"))
    if storage_options or remote:
        raise ValueError("storage_options and remote are for URLs, and this is the path of a file: leave them out")
    name = urlpath if type(urlpath) is str and "://" not in urlpath else local_path(urlpath)
    effective = mode
    if mode != "r" or mmap_mode not in (None, "r") or offset != 0 or mapped is not None or locking:
        effective = check_open_modes(
            mode, mmap_mode, mapped, path=name, offset=offset, locking=locking, exclusive=exclusive
        )
    if environment_has(b"BLOSC_LOCKING") and not locking:
        locking = shares_by_environment(name, mmap_mode, offset, exclusive=exclusive)
    if name.endswith(_STORE_SUFFIXES) and offset == 0:
        return _opening.opened_store(name, name[-4:], mode, mmap_mode, policy, store_how, locking=locking)
    try:
        status = os.stat(name)
    except (OSError, ValueError):  # what is wrong is said below
        status = None
    if status is not None and stat.S_ISDIR(status.st_mode):
        if offset:
            raise ValueError(f"offset is for a frame in a file, and {legible(name)} is a folder: leave it out")
        if is_directory_frame(name) and effective != "x":
            options = HandleOptions(effective, mmap_mode, policy, locking=locking, **how)
            handle = open_handle(name, options, directory=True)
            return opened_object(handle, effective, kwargs.get("cparams"))
        end = os.path.splitext(name)[1]
        return _opening.opened_store(name, end, mode, mmap_mode, policy, store_how, locking=locking)
    if status is None and not os.path.lexists(name):
        suffix = _suffix_there(name)
        return _opening.opened_store(name + suffix, suffix, mode, mmap_mode, policy, store_how, locking=locking)
    if effective == "x":
        raise ExistingFileError(
            errno.EEXIST, "mode='x' only creates, and the file exists: mode='r' or 'a' opens it", name
        )
    try:
        options = HandleOptions(effective, mmap_mode, policy, locking=locking, **how)
        handle = open_handle(
            name, options, offset, directory=False, advice=None if advise is None else _files.lasting(advise),
            status=status,
        )  # fmt: skip
    except FormatError as error:
        from blosc2._backends import is_archive  # which opening an array does not need

        if offset != 0 or not is_archive(Source.open(name)):
            raise of_another_format(error, name) from None
        return _opening.opened_store(name, ".b2z", mode, mmap_mode, policy, store_how, locking=locking)
    tell_of_mapping(name, mmap_mode, mapped, handle.frame.source.size)
    if advise is not None:
        _files.advise_frame(advise, handle.frame)
    return opened_object(handle, effective, kwargs.get("cparams"))


schunk_module.open = open


def _suffix_there(name: str) -> str:
    for suffix in _STORE_SUFFIXES:
        if os.path.lexists(name + suffix):
            return suffix
    advice = "blosc2.open opens what is there; blosc2.asarray(..., urlpath=...) makes a file"
    from pathlib import Path  # for errors only

    for store in Path(name).parents:
        if store.suffix in _STORE_SUFFIXES and store.exists():
            advice = f"a key is read by blosc2.open({str(store)!r})[{'/' + Path(name).relative_to(store).as_posix()!r}]"
    raise MissingFileError(errno.ENOENT, f"No such file or directory: {advice}", name)


def _opened_again(
    urlpath: str, mmap_mode: str | None, verify: bool | None, deserialize: str, kwargs: dict[str, Any]
) -> Any:
    """What `open` gives for a file that is still kept open, without what it looks at otherwise; None for any other."""
    if mmap_mode not in (None, "r") or deserialize != "safe" or (kwargs and [*kwargs] != ["dparams"]):
        return None
    frame = recent_frame(urlpath, mmap_mode, verify)
    if frame is None:
        return None
    tell_of_mapping(urlpath, mmap_mode, None, frame.source.size)
    dparams = kwargs.get("dparams")
    parameters = None if dparams is None else dparams_from(dparams)
    options = HandleOptions("r", mmap_mode, "safe", parameters, None, None if verify is None else False)
    return wrap(FrameHandle(frame, options, urlpath))


def _check_keywords(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keywords that count, checked; warns about those that do not."""
    if "storage" in kwargs:
        raise AttributeError("open takes no `storage`: pass urlpath, mode and mmap_mode themselves")
    for name in _OUT_OF_SCOPE:
        if kwargs.get(name):
            raise NotImplementedError(f"{name!r} is for remote and foreign data, which this package does not open")
    unknown = sorted({*kwargs}.difference(_NOT_IGNORED))
    if unknown:
        meant = [(name, closest(name, _TAKEN)) for name in unknown]
        ignored = ", ".join(f"{name!r} ({close})" if close else repr(name) for name, close in meant)
        warnings.warn(f"open() ignores {ignored}: it takes {', '.join(_TAKEN)}", UserWarning, stacklevel=3)
    how = {name: kwargs[name] for name in _WRITER_KEYWORDS if kwargs.get(name, ...) is not ...}
    check_timeout(how.get("timeout"))
    if kwargs.get("durable"):
        how["durable"] = True
    if kwargs.get("cparams") is not None:
        how["cparams"] = cparams_from(kwargs["cparams"])
    if kwargs.get("dparams") is not None:
        how["dparams"] = dparams_from(kwargs["dparams"])
    return how


def opened_object(handle: FrameHandle, mode: str, cparams: Any) -> Any:
    """The object of a handle, emptied where the mode says so."""
    if cparams is not None and (isinstance(cparams, CParams) or "typesize" not in cparams):
        handle.cparams.typesize = int(handle.frame.typesize)  # nobody asked for another one
    if handle.writable:
        _arrays.ready_to_change()
    found = wrap(handle)
    if mode == "w":
        handle.options = handle.options._replace(mode="a")
        if type(found) is SChunk:
            _empty(handle)
    return found


def _empty(handle: FrameHandle) -> None:
    """Remove the chunks of a super-chunk that is opened with mode 'w'."""
    with handle.editing():
        update = _frames.FrameUpdate(handle.frame)
        if handle.frame.nchunks:
            update.splice(0, int(handle.frame.nchunks), [])
            handle.publish(update)


def load(urlpath: str | bytes | os.PathLike[Any], offset: int = 0, *, deserialize: str = "safe", **kwargs: Any) -> Any:
    """Read an array or super-chunk into memory. Changes do not affect the file.

    Parameters are those of `open`.

    Examples
    --------
    >>> import os, tempfile
    >>> import blosc2
    >>> name = os.path.join(tempfile.mkdtemp(), "ones.b2nd")
    >>> _ = blosc2.ones(3, urlpath=name)
    >>> array = blosc2.load(name)
    >>> array[0] = 5
    >>> float(blosc2.open(name)[0])
    1.0
    """
    found = open(urlpath, "r", offset, deserialize=deserialize, **kwargs)
    if not isinstance(found, Stored):
        return _opening.store_in_memory(found, deserialize)
    frame = Frame.open(Source.of_buffer(found.to_cframe()))
    policy = str(deserialize_mode(deserialize))
    _arrays.ready_to_change()
    options = HandleOptions("a", deserialize=policy, dparams=found._handle.dparams)
    return wrap(_frames.MemoryHandle(frame, options))


def from_cframe(cframe: Any, copy: bool = True, *, deserialize: str = "safe") -> Any:
    """Open the object in the bytes of a frame, as returned by `to_cframe`.

    Parameters
    ----------
    cframe : bytes-like
    copy : bool
        False keeps the buffer instead of copying it; the buffer must not change then.
    deserialize : {"safe", "full"}

    Returns
    -------
    EmbedStore, NDArray, SChunk, ObjectArray or BatchArray

    Raises
    ------
    FormatError
        The bytes do not contain an object, or are damaged.

    Examples
    --------
    >>> import blosc2
    >>> blosc2.from_cframe(blosc2.full(3, 2.5).to_cframe())[:]
    array([2.5, 2.5, 2.5])
    """
    handle = _handle_of(cframe, copy, deserialize)
    if handle.frame.metalayer("b2embed") is not None:
        return _opening.store_in_frame(handle.frame, deserialize)
    return wrap(handle)


def open_value(cframe: Any) -> Any:
    return from_cframe(cframe, copy=False, deserialize="full")


def _handle_of(cframe: Any, copy: bool, deserialize: str) -> MemoryHandle:
    if isinstance(cframe, (str, int)):  # an int would become as many zeros
        raise TypeError(f"cframe must be bytes, not {type(cframe).__name__}")
    buffer = bytes(cframe) if copy and not isinstance(cframe, bytes) else cframe
    try:
        frame = Frame.open(Source.of_buffer(buffer))
    except FormatError as error:
        raise FormatError(f"Could not get the schunk from the cframe: {error.reason}", offset=error.offset) from None
    _arrays.ready_to_change()
    return _frames.MemoryHandle(frame, HandleOptions("a", deserialize=str(deserialize_mode(deserialize))))


def ndarray_from_cframe(cframe: Any, copy: bool = False, *, deserialize: str = "safe") -> NDArray:
    """Open the array in the bytes of a frame; see `from_cframe`."""
    handle = _handle_of(cframe, copy, deserialize)
    if handle.frame.metalayer("b2nd") is None:
        raise FormatError("Could not get the NDArray from the cframe: it has no b2nd metalayer")
    found: NDArray = wrap(handle)
    return found


def schunk_from_cframe(cframe: Any, copy: bool = False, *, deserialize: str = "safe") -> SChunk:
    """Open the super-chunk in the bytes of a frame, also that of an array; see `from_cframe`."""
    return SChunk._of(_handle_of(cframe, copy, deserialize))


def estore_from_cframe(cframe: Any, copy: bool = False, *, deserialize: str = "safe") -> EmbedStore:
    """Open the store in the bytes of a frame; see `from_cframe`."""
    handle = _handle_of(cframe, copy, deserialize)
    if handle.frame.metalayer("b2embed") is None:
        raise FormatError("the cframe is not an EmbedStore: it has no b2embed metalayer")
    return _opening.store_in_frame(handle.frame, deserialize)


def objectarray_from_cframe(cframe: Any, copy: bool = True, *, deserialize: str = "safe") -> ObjectArray:
    """Open the list of values in the bytes of a frame; see `from_cframe`."""
    from blosc2.objectarray import ObjectArray

    found = from_cframe(cframe, copy, deserialize=deserialize)
    if not isinstance(found, ObjectArray):
        raise FormatError("the cframe is not tagged as an ObjectArray")
    return found
