"""Publishing changes of a `.b2d`: a whole new tree in one step, or files that are renamed into the tree."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from blosc2._backends.directory.leaf_files import folders_between, in_steps, write_new
from blosc2._backends.embedded.frame_layout import EmbeddedChanges
from blosc2._backends.layout import EMBED, LEAF_SUFFIXES, ByteRange, Renamed, suffix_of, taken
from blosc2._files import (
    FileMoves,
    Progress,
    check_same_file,
    file_identity,
    sync_files,
    sync_folder,
    temporary_name,
    told,
)
from blosc2._options import absolute_path

if TYPE_CHECKING:
    from blosc2._backends.directory.backend import DirectoryBackend


def in_the_way(backend: DirectoryBackend, changes: dict[str, ByteRange | None], paths: list[str]) -> list[str]:
    """Files of removed keys where new paths need a folder, or their folder lies: of "/b", for "/b.b2nd/x"."""
    if not any(suffix + "/" in key for key in changes for suffix in LEAF_SUFFIXES):
        return []  # no folder has the name of a file
    wanted = set(paths)
    folders = {folder for path in paths for folder in folders_between(backend.root, os.path.dirname(path))}
    removed = {path for key, new in changes.items() if new is None for path in backend.files.files_of(key)}
    return sorted(
        path
        for path in removed
        if path in folders or not wanted.isdisjoint(folders_between(backend.root, os.path.dirname(path)))
    )


def _files_in(folders: set[str]) -> list[str]:
    return [entry.path for folder in folders for entry in list(os.scandir(folder)) if entry.is_file()]


def anew(
    backend: DirectoryBackend,
    changes: dict[str, ByteRange | None],
    embed: EmbeddedChanges | None,
    durable: bool,
    progress: Progress | None,
) -> None:
    """Build a whole tree beside its place and move it there in one step."""
    parent, name = os.path.split(absolute_path(backend.root))
    backend.owner.makedirs(parent)
    tree = temporary_name(os.path.join(parent, name))
    identity = None
    try:
        backend.owner.mkdir(tree)
        identity = file_identity(tree)
        folders = {tree}
        for key, byte_range in told(changes, changes, progress):
            path = tree + key + suffix_of(byte_range)
            folder = os.path.dirname(path)
            if folder not in folders:
                backend.owner.makedirs(folder)
                folders.update(folders_between(tree, folder))
            staged = backend.aside.staged_path(byte_range)
            if staged is None:
                write_new(path, byte_range, backend.owner)
            else:
                backend.owner.rename(staged, path)
        if embed is not None:
            with backend.owner.open(os.path.join(tree, EMBED), "xb") as file:
                embed.write(file)
        if durable:
            sync_files(_files_in(folders), folders)
        _take_over(backend, tree)
        backend.was_there = backend.behind = True
    except BaseException:
        now = file_identity(backend.root)
        if identity is not None and now is not None and now[:2] == identity[:2]:  # it has its name
            backend.was_there = backend.behind = True
        else:
            backend.owner.remove_tree(tree)
        raise
    if durable:
        sync_folder(backend.root)


def _take_over(backend: DirectoryBackend, tree: str) -> None:
    """Give a whole tree the path of the store, where at most an empty directory lies."""
    lock = backend.lock if os.name == "posix" else None
    if lock is not None:
        descriptor = os.open(tree, os.O_RDONLY)
        try:
            lock.take(descriptor, tree)
        finally:
            os.close(descriptor)
    elif os.path.isdir(backend.root):
        backend.owner.rmdir(backend.root)
    try:
        backend.owner.keep_access(tree, backend.root)
        backend.owner.rename(tree, backend.root)
    except BaseException as error:
        if lock is not None:
            lock.adopt_if_current()
        if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            raise taken(backend.root, "somebody else has created something at this path meanwhile") from None
        raise
    if lock is not None:
        lock.adopt()


def into(
    backend: DirectoryBackend,
    changes: dict[str, ByteRange | None],
    embed: EmbeddedChanges | None,
    fresh: bool,
    durable: bool,
    settles: bool = False,
) -> dict[str, str]:
    """Move new files into the existing tree, and remove old ones; returns the suffix of each key's new file.

    With `settles` this waits for the disk only where something durable could be lost; `placing` knows the rest.
    """
    backend.half_done = False
    if fresh and not backend.was_there:
        raise taken(backend.root, "somebody else has created something at this path meanwhile")
    if not fresh:
        check_same_file(os.path.join(backend.root, EMBED), backend.identity)
    stale = set(backend.files.all()) if fresh else set()
    files = _new_files(backend, changes)
    renamed = {key: new.origin for key, new in changes.items() if isinstance(new, Renamed) and new.aside is not None}
    paths = [path for _, path in files.values()]
    placing = backend.placing
    lost = {key for key in changes if placing.replaces(key)} if settles else set()
    unsynced = {
        path
        for key, (_, path) in files.items()
        if settles and key not in lost and not isinstance(changes[key], Renamed)
    }
    ordered = durable or settles
    if ordered:
        backend.aside.sync([
            aside
            for key, (aside, path) in files.items()
            # Only what is moved may be a link.
            if path not in unsynced and not (isinstance(changes[key], Renamed) and os.path.islink(aside))
        ])  # fmt: skip
    backend.embed_file.was_there = True
    backend.embed_file.beside = backend.beside_embedded()
    done = FileMoves(backend.aside.keep, backend.owner)
    gone: set[str] = set()
    try:
        # A fresh store replaces another one, to which nothing can be appended.
        new_embed = None if embed is None else backend.embed_file.prepare(embed, durable=durable, anew=fresh)
        for path in in_the_way(backend, changes, paths):
            done.remove(path)
            gone.add(path)
            backend.tree.remove_empty(os.path.dirname(path))
        touched, occupied = backend.tree.prepare(paths)
        touched.update(folder for folder in map(os.path.dirname, gone) if os.path.isdir(folder))
        for key in () if fresh else changes:
            known = files[key][1] if key in files and files[key][1] in occupied else None
            stale.update(backend.files.files_of(key, known))
        if settles:  # first of all: what is not noted counts as durable
            placing.came(unsynced, touched, set(), lost)
        for number, step in enumerate(in_steps(list(files), renamed)):
            if number and ordered:
                backend.tree.sync(touched)
            _put(backend, done, {key: files[key] for key in step}, occupied, stale)
        if ordered and files and (new_embed is not None or stale):
            backend.tree.sync(touched)
        # A value that changes its tier is in both for a moment, never in neither: each step is durable first.
        if new_embed is not None:
            backend.new_entries = new_embed.commit()
            done.forget()
        _remove(backend, done, stale, touched, final=new_embed is not None)
        if durable:
            backend.tree.sync(touched)
        placing.came(set(), touched if settles else set(), stale | gone, set())
        if durable:
            placing.new.difference_update(paths)
    except BaseException as error:
        backend.embed_file.end_change()
        # The file of a value that moved out of the new map is its only place.
        if done.is_final or backend.embed_file.behind:
            backend.half_done = True
            error.add_note(f"{backend.root}: all values are published, but some files that they replace may be there")
        else:
            _take_back(backend, done, paths, error, durable=durable)
        raise
    backend.mark()
    return {key: os.path.splitext(path)[1] for key, (_, path) in files.items()}


def _new_files(backend: DirectoryBackend, changes: dict[str, ByteRange | None]) -> dict[str, tuple[str, str]]:
    """Write or link a file aside for each new frame; it, and the path where it belongs, by key."""
    files = {}
    for key, byte_range in changes.items():
        if isinstance(byte_range, Renamed) and byte_range.aside is not None:
            path = backend.tree.path_for(key, os.path.splitext(byte_range.aside)[1])
            # The file aside stays, in case that this fails and is tried again.
            files[key] = (backend.aside.link(byte_range.aside, path), path)
        elif byte_range is not None:
            path = backend.tree.path_for(key, suffix_of(byte_range))
            files[key] = (backend.aside.write(byte_range), path)
    return files


def _put(
    backend: DirectoryBackend, done: FileMoves, files: dict[str, tuple[str, str]], occupied: set[str], stale: set[str]
) -> None:
    """Move some new files to where they belong; they are not stale."""
    done.begin_step()
    for key, (aside, path) in files.items():
        done.put(aside, path, taken=path in occupied)
        occupied.add(path)
        stale.difference_update((path, backend.root + key + os.path.splitext(path)[1]))


def _remove(backend: DirectoryBackend, done: FileMoves, stale: set[str], touched: set[str], *, final: bool) -> None:
    """Remove files that are not needed any more; with `final` they could not be brought back."""
    done.begin_step()
    for path in sorted(stale):
        if final:
            backend.owner.unlink(path)
        else:
            done.remove(path)
        touched.add(backend.tree.remove_empty(os.path.dirname(path)))


def _take_back(
    backend: DirectoryBackend, done: FileMoves, paths: list[str], error: BaseException, *, durable: bool
) -> None:
    """Bring back the files that were replaced before an error, and remove those that came, with their folders."""

    def sync(paths: list[str]) -> None:
        if durable:
            backend.tree.sync({os.path.dirname(path) for path in paths})

    undone, left = done.take_back(sync)
    folders = {backend.tree.remove_empty(os.path.dirname(path)) for path in paths + undone}
    with suppress(OSError):  # what is there is whole either way
        backend.tree.sync(folders if durable else set())
    if left:
        backend.half_done = True
        error.add_note(f"{backend.root}: {len(left)} files are new already, and could not be brought back: {left[:5]}")
