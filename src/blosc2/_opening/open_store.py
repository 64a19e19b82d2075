"""Opening what is on a server: arrays, super-chunks and stores that are one object there."""

from __future__ import annotations

import errno
import os
import re
import warnings
from typing import TYPE_CHECKING, Any, Final

from blosc2 import _files, _opening, _stores
from blosc2._backends import REGISTRY, TieredBackend, is_archive, missing
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import item_of
from blosc2._files import remote_source
from blosc2._frames import FrameHandle, HandleOptions
from blosc2._opening.open_path import opened_object
from blosc2._options import RemotePath, StoreOptions, absolute_path, of_another_format, store_options
from blosc2._stores import Store, backend_of, table_of, take_writer_lock
from blosc2.dict_store import DictStore
from blosc2.exceptions import FormatError, MissingFileError
from blosc2.tree_store import TreeStore

if TYPE_CHECKING:
    from blosc2.embed_store import EmbedStore


def opened_remote(
    path: RemotePath, offset: int, policy: str, how: dict[str, Any], store_how: dict[str, Any], cparams: Any
) -> Any:
    """What is at a URL, opened to be read. `how` and `store_how` are further options of handles and stores."""
    suffix = path.suffix if offset == 0 else ""
    if suffix == ".b2d":
        raise NotImplementedError(
            f"{path}: a .b2d is a folder of many files, which is not read from servers: pack it with "
            "DictStore.to_b2z, and upload that"
        )
    if suffix not in (".b2e", ".b2z"):
        try:
            source = remote_source(path)
        except MissingFileError as error:
            if inside := re.match(r"(.+?\.b2[ez])(/[^?#]+)$", str(error.filename)):
                error.strerror = f"{error.strerror}: a key is read by blosc2.open({inside[1]!r})[{inside[2]!r}]"
            raise
        if offset == 0 and is_archive(source):
            suffix = ".b2z"
        else:
            frame = Frame.open(source, offset)
            if "advise" in store_how:
                _files.advise_frame(store_how["advise"], frame)
            handle = FrameHandle(frame, HandleOptions("r", None, policy, **how), path)
            return opened_object(handle, "r", cparams)
    return _opening.opened_store(path, suffix, "r", None, policy, store_how, locking=False)


#: The classes by the tags of stores, which lie in a metalayer of the frame of embedded values.
KINDS: Final[dict[str, type[DictStore]]] = {cls._metalayer: cls for cls in (DictStore, TreeStore)}

# The leaf that describes a store which is one table.
_TABLE: Final = "/_meta"


def opened_store(
    path: str, suffix: str, mode: str, mmap_mode: str | None, policy: str, given: dict[str, Any], *, locking: bool
) -> Store:
    """Open the existing store at a path; its tag, which is read once, names the class.

    A store that is one table of another package has no tree, so it opens as a `DictStore`. `given` are further
    arguments of the class.
    """
    if "durable" in given:
        raise ValueError(
            "durable=True is for arrays; a store waits for the disk when it is told to: flush() waits, and close()"
        )
    options = store_options(
        mode, mmap_mode, policy, verify=given.get("verify"), advise=given.get("advise"),
        timeout=given.get("timeout", ...), exclusive=given.get("exclusive", True), locking=locking, path=path,
    )  # fmt: skip
    remote = isinstance(path, RemotePath)
    # Who reads an archive finds out when it is opened.
    if not remote and (mode != "r" or suffix == ".b2e") and not os.path.lexists(path):
        raise _missing(path)
    if suffix == ".b2e" and (remote or not os.path.isdir(path)):
        return _embed_store()(path, mode=mode, mmap_mode=mmap_mode, deserialize=policy, locking=locking, **given)
    lock = None
    if options.mode == "a":
        other = _stores.open_already(absolute_path(path), options)
        if other is not None:
            return item_of(KINDS, other._metalayer, DictStore)(path, mode=mode, deserialize=policy, **given)
        # Before anything is read: what is read must stay the newest.
        lock = take_writer_lock(absolute_path(path), options)
    try:
        backend = backend_of(path, options)
        backend.lock = lock
        backend.open()
        if backend.warns_early:
            backend.warn_early()
        if lock is not None:
            backend.cut_tail()
        return _store_of(backend, path, options, given)
    except BaseException as error:
        # Now: the traceback keeps the objects alive for a while.
        if lock is not None:
            lock.release()
        if isinstance(error, FileNotFoundError) and not os.path.lexists(path):
            raise _missing(path) from None
        if isinstance(error, FormatError) and not remote:
            raise of_another_format(error, path) from None
        raise


def _missing(path: str) -> MissingFileError:
    if isinstance(path, RemotePath):
        return MissingFileError(
            errno.ENOENT, "No such file or directory: the server has no such object, or does not show it", path
        )
    how = "blosc2.open opens what is there, TreeStore, DictStore and EmbedStore create it in modes 'a' and 'w'"
    return missing(path, how)


def _embed_store() -> type[EmbedStore]:
    """The class, with the backend that only it has."""
    from blosc2.embed_store import EmbedStore

    return EmbedStore


def store_in_memory(store: Store, deserialize: str) -> EmbedStore:
    kind = _embed_store()
    if not isinstance(store, kind):
        raise NotImplementedError("stores of several files cannot be loaded into memory; open them with mode='r'")
    return kind._from_buffer(store.to_cframe(), deserialize=deserialize)


def store_in_frame(frame: Frame, deserialize: str) -> EmbedStore:
    return _embed_store()._from_buffer(frame.source, deserialize=deserialize)


def _store_of(backend: TieredBackend, path: str, options: StoreOptions, given: dict[str, Any]) -> DictStore:
    embedded, members = backend.embedded, backend.members
    assert embedded is not None
    kind = item_of(KINDS, str(embedded.kind), DictStore)
    if options.mode in "wx":
        return kind(path, **given | options._asdict())
    # A catalog counts the leaves that could be one, so that the keys need not be looked at.
    catalog = None if members is None else members.archive.catalog
    may_hold_one = catalog is None or catalog.tables != 0
    listed = None if members is None else members.listed
    for cls in (kind, DictStore):
        store = cls.__new__(cls)
        backend.kind = cls._metalayer
        if given:
            store._set_parameters(given.get("cparams"), given.get("dparams"))
        store._set_up(path, options, backend)
        may_be_table = cls._hidden_name and (
            embedded.frame.vlmeta(REGISTRY) is not None
            or _TABLE in embedded.entries
            or (may_hold_one and (backend.has_file(_TABLE) if listed is None else listed.find(_TABLE) >= 0))
        )
        if not (may_be_table and store.is_table()):
            break
        warnings.warn(
            f"{path} is a table of another package; its parts are shown as leaves: change it only with that package",
            UserWarning,
            stacklevel=4,
        )
    if options.advise is not None and table_of(store).session.advice is None:
        _stores.advise_all(table_of(store), options.advise)
    return store
