"""Commands that write: cp, mv, rm, pack, unpack, compact, import, export."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import click

from blosc2._display import human_size, number, one_line
from blosc2._files import Progress, uploaded
from blosc2._frames import is_directory_frame
from blosc2._options import RemotePath, scheme_of
from blosc2._stores import Store, has_leaf, has_object
from blosc2._tools.cli import locations
from blosc2._tools.cli.locations import STORAGE, WAIT, Location, LocationError
from blosc2._tools.cli.output import QUIET, VERBOSE, is_quiet, name_leaf, note, progress_bar, say, sum_up
from blosc2._tools.cli.tuning import GOAL_NAMES
from blosc2._tools.converting.conversion import FORMATS, convert
from blosc2._tools.stores import STORES, attributes_of, new_store, opened, same_value
from blosc2.embed_store import EmbedStore
from blosc2.exceptions import ExistingFileError
from blosc2.storage import Codec
from blosc2.tree_store import TreeStore

_FORCE = click.option("-f", "--force", is_flag=True, help="Replace what exists.")


def writer(path: str, timeout: float) -> Any:
    """A store open for changes; made if it does not exist."""
    if not path.endswith(STORES) and not os.path.exists(path):
        raise LocationError(f"{path} does not exist, and a new store ends in {', '.join(STORES)}")
    if os.path.exists(path):
        return locations.need_store(locations.opened_to_change(path, timeout), Location(path, ""))
    return new_store(path, "a", **({"timeout": timeout} if timeout else {}))


# ------------------------------------------------------------------ cp
@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.argument("target")
@_FORCE
@WAIT
@STORAGE
@QUIET
@VERBOSE
def cp(sources: tuple[str, ...], target: str, force: bool, timeout: float) -> None:
    """Copy arrays, leaves and groups into a store, or one array to a file.

    TARGET is a store or a group, which takes each SOURCE under its last name, a new key in a store, or a file such
    as scan.b2nd. A target that ends in '/' is a group. Compressed chunks are copied as they are. A SOURCE may be a URL,
    and so may TARGET: what is there is written as a whole, and replaces no store.
    """
    place = locations.path_of(target)
    if not isinstance(place, RemotePath):
        _copy(sources, locations.with_slashes(place), force=force, timeout=timeout)
        return
    where = locations.located(target)
    if where.key:
        raise LocationError(f"{where.path} is on a server, where nothing is changed: put a whole new store there")
    is_store = place.suffix in STORES
    try:
        with uploaded(place, replace=force and not is_store) as local:
            _copy(sources, local, force=force, timeout=timeout, shown=str(place))
    except ExistingFileError as error:
        if not is_store:
            raise
        raise LocationError(
            f"{place}: the store exists, and cp would add to it, which is not done on a server: 'blosc2 pack --force' "
            "replaces a .b2z; or give the new store another name"
        ) from error


def _copy(sources: tuple[str, ...], target: str, *, force: bool, timeout: float, shown: str = "") -> None:
    where = locations.located(target)
    is_ours = locations.may_be_store(where.path) or is_directory_frame(where.path)
    if not where.key and os.path.isdir(where.path) and not is_ours:
        name = locations.file_name(locations.path_of(sources[0])) or "x"
        named = name.endswith((".b2nd", ".b2frame", *STORES))
        example = os.path.join(target, "all.b2z" if len(sources) > 1 else name if named else f"{name}.b2nd")
        raise LocationError(f"{target} is a folder, and no store: name the file or store to make, such as {example}")
    if not where.key and not _is_store_path(where.path):
        _copy_to_file(sources, where.path, force=force)
        return
    with ExitStack() as sources_open, writer(where.path, timeout) as store:
        copies: list[_Copied] = []
        for text in sources:
            source = locations.located(text)
            both = source.path, where.path
            is_own = all(map(os.path.exists, both)) and os.path.samefile(*both)
            found = store if is_own else sources_open.enter_context(opened(source.path))
            into = target.endswith("/") or len(sources) > 1 or locations.is_group(store, where.key)
            copies += _planned(found, source, where.key, into=into)
        _check_targets(store, where.path, copies, force=force)
        with store.transaction():
            _write(store, copies, where.path)
    leaves = [copy for copy in copies if copy.attributes is None]
    sum_up(f"{number(len(leaves), 'leaf', 'leaves')} copied to {shown or where.path}")
    lost = 0 if isinstance(store, TreeStore) else len(copies) - len(leaves)
    if lost:
        note(f"the attributes of {number(lost, 'group')} were left out: only a TreeStore has them")


def _write(store: Store, copies: list[_Copied], path: str) -> None:
    with progress_bar(path) as progress:
        for done, copy in enumerate(copies, 1):
            if copy.attributes is None:
                name_leaf(copy.new_key)
                if has_object(store, copy.new_key):
                    del store[copy.new_key]  # as --force says
                store[copy.new_key] = copy.found if copy.key is None else copy.found[copy.key]
            elif isinstance(store, TreeStore):
                store.get_subtree(copy.new_key or "/").attrs[:] = copy.attributes
            progress(done, len(copies))


def _check_targets(store: Store, path: str, copies: list[_Copied], *, force: bool) -> None:
    """Refuse to lose anything: two sources for one key, and, without `force`, what exists."""
    taken: set[str] = set()
    read = {copy.key for copy in copies if copy.found is store and copy.attributes is None}
    for copy in copies:
        if copy.attributes is not None:
            if force or not isinstance(store, TreeStore):
                continue
            there = attributes_of(store, copy.new_key)
            for name, value in copy.attributes.items():
                if name in there and not same_value(there[name], value):
                    raise LocationError(
                        f"{path}: the group {copy.new_key or '/'!r} has another attribute {name!r}; --force replaces it"
                    )
            continue
        if copy.new_key in taken:
            raise LocationError(f"{path}: two of the sources would become {copy.new_key!r}; copy them one by one")
        taken.add(copy.new_key)
        if copy.new_key in read:
            raise LocationError(f"{path}: {copy.new_key!r} is a source, which nothing can replace at the same time")
        if locations.is_leaf(store, copy.new_key) and not force:
            raise LocationError(f"{path}: {copy.new_key!r} exists; --force replaces it")


class _Copied(NamedTuple):
    """What is copied, and its new key: a leaf of a store, all of `found` if `key` is None, or attributes of a group."""

    found: Any
    key: str | None
    new_key: str
    attributes: Any = None


def _is_store_path(path: str) -> bool:
    if not os.path.exists(path):
        return path.endswith(STORES)
    with opened(path) as found:
        return isinstance(found, Store)


def _planned(found: Any, source: Location, target: str, *, into: bool) -> Iterator[_Copied]:
    """What is copied of one source, which is `found` at its path, to a key of the target, "" for the root.

    With `into` the target is a group that takes the source under its own name. Otherwise it is the new name.
    """
    if not isinstance(found, Store):
        if source.key:
            locations.need_store(found, source)
        name = os.path.splitext(locations.file_name(source.path))[0]
        yield _Copied(found, None, f"{target}/{name}" if into else target)
        return
    keys = list(locations.matches(found, source))
    for key in keys:
        kept = len(key.rpartition("/")[0] if into or len(keys) > 1 else key)
        for leaf in locations.leaves_below(found, key):
            yield _Copied(found, leaf, target + leaf[kept:])
        if isinstance(found, TreeStore) and not locations.is_leaf(found, key):
            for group, _, _ in found.walk(key or "/"):
                if attributes := attributes_of(found, group):
                    yield _Copied(found, group, target + group.rstrip("/")[kept:], attributes)


def _copy_to_file(sources: tuple[str, ...], path: str, *, force: bool) -> None:
    if len(sources) != 1:
        raise LocationError(f"{path} is one file, and there are {len(sources)} sources; a store takes several")
    if os.path.lexists(path) and not force:
        raise LocationError(f"{path} exists; --force replaces it")
    source = locations.located(sources[0])
    with opened(source.path) as found:
        leaf = found
        if source.key:
            store = locations.need_store(found, source)
            keys = list(locations.matches(store, source))
            if len(keys) != 1 or not has_leaf(store, keys[0]):
                raise LocationError(f"{source}: a file takes one array, this is {number(len(keys), 'key')} or a group")
            leaf = store[keys[0]]
        elif isinstance(found, Store):
            raise LocationError(f"{source.path} is a store; a copy of it ends in .b2z or .b2d: use pack or unpack")
        leaf.copy(urlpath=path, mode="w", contiguous=True)


# ------------------------------------------------------------------ mv, rm
@click.command()
@click.argument("source")
@click.argument("target")
@WAIT
@QUIET
def mv(source: str, target: str, timeout: float) -> None:
    """Rename a leaf or a group inside of a store: mv scans.b2z/old scans.b2z/new, or mv scans.b2z/old /new.

    A target that ends in '/' is a group, which takes the source under its last name.
    """
    where = locations.located(source)
    if not where.key:
        raise LocationError(f"{where}: name a key in a store")
    path = _existing(where.path)
    new_key = _key_of_target(target, path)
    with writer(path, timeout) as store:
        key = locations.one_key(store, where)
        if target.endswith("/") or new_key == "/":
            new_key = f"{new_key.rstrip('/')}/{key.rpartition('/')[2]}"
        store.rename(key, new_key)
    sum_up(f"{path}: {key} is now /{new_key.strip('/')}")


def _key_of_target(target: str, path: str) -> str:
    """The new key that the target of a rename in the store at a path means: it names the store, too, or only a key."""
    place = locations.located(target)
    if os.path.exists(place.path) and os.path.samefile(place.path, path):
        return place.key or "/"
    if scheme_of(target) is None and not place.path.endswith((*STORES, ".b2nd", ".b2frame")):
        return target
    raise LocationError(f"{place}: mv renames inside of a store, and this names another one; use cp, then rm")


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="LOCATION...")
@click.option("-r", "--recursive", is_flag=True, help="Groups too, with everything below them.")
@WAIT
@QUIET
def rm(places: tuple[str, ...], recursive: bool, timeout: float) -> None:
    """Remove leaves and groups from stores. Their space becomes free with 'blosc2 compact'."""
    wanted: dict[str, dict[str, None]] = {}
    for text in places:  # all are looked at before the first one is removed
        where = locations.located(text)
        if not where.key:
            raise LocationError(f"{where}: name a key in a store; files are removed with the tools of the system")
        with opened(_existing(where.path)) as found:
            store = locations.need_store(found, where)
            for key in locations.matches(store, where):
                if not locations.is_leaf(store, key) and not recursive:
                    raise LocationError(f"{where.path}: {key!r} is a group; --recursive removes it with all its leaves")
                wanted.setdefault(where.path, {})[key] = None
    count = 0
    for path, keys in wanted.items():
        with writer(path, timeout) as store, store.transaction():
            for key in sorted(keys):
                count += _remove(store, key)
    sum_up(f"{number(count, 'leaf', 'leaves')} removed")


def _remove(store: Store, key: str) -> int:
    """Remove a leaf or a group; how many leaves that were."""
    if not (locations.is_leaf(store, key) or locations.is_group(store, key)):
        return 0  # it was below a group that is gone
    leaves = list(locations.leaves_below(store, key))
    if isinstance(store, TreeStore):
        del store[key]
    else:
        for leaf in leaves:
            del store[leaf]
    return len(leaves)


def _existing(text: str) -> str:
    where = locations.whole(text)
    path = locations.path_here(where, f"download it with 'blosc2 cp {where} FILE', and change that")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist")
    return path


# ------------------------------------------------------------------ whole stores
@click.command()
@click.argument("source")
@click.argument("target", required=False)
@_FORCE
@STORAGE
@QUIET
def pack(source: str, target: str | None, force: bool) -> None:
    """Make one .b2z file of a store, with the keys and bytes of its leaves."""
    path = _new_path(source, target, ".b2z", force=force)
    _convert(source, lambda store, progress: store.to_b2z(overwrite=force, filename=path, progress=progress))


@click.command()
@click.argument("source")
@click.argument("target", required=False)
@_FORCE
@STORAGE
@QUIET
def unpack(source: str, target: str | None, force: bool) -> None:
    """Make a .b2d directory of a store, with a file for each leaf."""
    path = _new_path(source, target, ".b2d", force=force)
    _convert(source, lambda store, progress: store.to_b2d(path, overwrite=force, progress=progress))


def _new_path(source: str, target: str | None, suffix: str, *, force: bool) -> str:
    found = locations.whole(source)
    if target is None and isinstance(found, RemotePath):
        raise LocationError(f"{found} is on a server: name the file here as a second argument, such as copy{suffix}")
    path = locations.path_of(target or os.path.splitext(locations.with_slashes(found).rstrip("/"))[0] + suffix)
    if isinstance(path, RemotePath) and suffix == ".b2z":
        return path
    path = locations.path_here(path)
    if os.path.lexists(path) and not force:
        raise LocationError(f"{path} exists; --force replaces it, a second argument names another")
    return path


def _convert(source: str, convert: Callable[[Any, Progress], str]) -> None:
    source = locations.whole(source)
    with opened(source) as found:
        store = locations.need_store(found, Location(source, ""))
        if isinstance(store, EmbedStore):
            raise LocationError(f"{source} is an EmbedStore: copy its leaves: blosc2 cp {source} TARGET.b2z")
        with progress_bar(source) as progress:
            made = convert(store, progress)
    if not is_quiet():
        say(made)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@WAIT
@QUIET
def compact(paths: tuple[str, ...], timeout: float) -> None:
    """Rewrite arrays and stores without the bytes that changes left behind."""
    for path in [_existing(path) for path in paths]:  # all, before one is changed
        found = locations.opened_to_change(path, timeout)
        if isinstance(found, Store):
            with found, progress_bar(path) as progress:
                before, after = found.compact(progress)
        else:
            before, after = found.compact()
        if not is_quiet():
            say(f"{path}: {human_size(before)} -> {human_size(after)}")


_OURS = FORMATS["blosc2"].suffixes
# Those of C-Blosc2 itself: the others are for pictures, or lose something.
_CODECS = [codec.name.lower() for codec in (Codec.BLOSCLZ, Codec.LZ4, Codec.LZ4HC, Codec.ZLIB, Codec.ZSTD)]
_OPTIONS = [
    click.argument("target"),
    click.option("-f", "--force", is_flag=True, help="Replace a target that exists."),
    click.option("--verify", is_flag=True, help="Read all back, and compare it with the source."),
    QUIET,
    STORAGE,
]
_COMPRESSION = [
    click.option("--codec", type=click.Choice(_CODECS), help="What compresses arrays; HDF5 calls zlib gzip."),
    click.option("--level", type=click.IntRange(0, 9), help="How hard it tries; 0 does not compress."),
]
_WRITTEN = sorted(found.name for found in FORMATS.values() if found.target)


def _with_options(formats: list[str]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    name = click.option("--format", "name", type=click.Choice(formats), help="The other format, if no suffix tells.")

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        for option in reversed([*_OPTIONS, name, *_COMPRESSION]):
            command = option(command)
        return command

    return decorate


@click.command("import")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@_with_options(sorted(FORMATS))
@click.option("--into", metavar="KEY", help="Put it there in a store, which may exist; in 'KEY/' under its own name.")
@click.option("--rename", is_flag=True,
              help="Keep leaves whose names stores refuse: 'kernel:0' becomes 'kernel%3A0'.")  # fmt: skip
@click.option("--chunks", type=click.Choice(["auto", "keep", "new"]), default="auto", show_default=True,
              help="Whether chunk shapes of the source are kept.")  # fmt: skip
@click.option("--cparams", "goal", type=GOAL_NAMES, help="Choose the compression of each array from its data.")
@click.option("--no-resume", is_flag=True, help="Begin anew, even if an interrupted run left something.")
def import_(sources: tuple[str, ...], goal: str | None, **options: Any) -> int:
    """Convert HDF5, netCDF, zarr, npz, images and other formats to a store or an array.

    A SOURCE is a file, or a directory of files. Of several, and of a directory, each file is a group or an array under
    its own name. TARGET ends in .b2z, .b2d, .b2e or .b2nd. What is lost is listed, and the exit code is 1 then. What
    only has another form is listed, too.
    """
    if not options["target"].rstrip("/").endswith(_OURS):
        raise LocationError(_no_target(list(map(locations.path_of, sources)), locations.path_of(options["target"])))
    cparams = _cparams(options)
    if goal is not None and cparams:
        raise LocationError("--cparams chooses codec and level: leave out --codec and --level")
    return _convert_files(
        sources, options, chunks=options["chunks"], cparams=goal or cparams, into=options["into"],
        rename="escape" if options["rename"] else None, resume=not options["no_resume"],
        source_format=options["name"],
    )  # fmt: skip


@click.command()
@click.argument("source", metavar="LOCATION")
@_with_options(_WRITTEN)
def export(source: str, **options: Any) -> int:
    """Convert a store or an array to HDF5, netCDF, zarr 3, npz or safetensors, or one array to NIfTI or TIFF.

    LOCATION is a file, a URL, or a key in a store, such as study.b2z/mri: a group becomes the whole of the new file.
    What is lost is listed, and the exit code is 1 then. What only has another form is listed, too.

    HDF5 files are compressed by Blosc2, and h5py reads them after `import hdf5plugin`. With --codec zlib (gzip) or
    --level 0 any program reads them. Other formats take neither option.
    """
    return _convert_files((source,), options, target_format=options["name"], cparams=_cparams(options))


def _cparams(options: dict[str, Any]) -> dict[str, Any] | None:
    codec, level = options["codec"], options["level"]
    cparams: dict[str, Any] = {} if codec is None else {"codec": Codec[codec.upper()]}
    return (cparams | ({} if level is None else {"clevel": level})) or None


def _no_target(sources: Sequence[str], target: str) -> str:
    """What to say of a target that is no new store or array."""
    if sources[-1].endswith(_OURS):
        return f"{target}: the target, such as {sources[-1]}, comes last; flags such as --rename take no value"
    store = next((target[: target.find(s) + len(s)] for s in _OURS if f"{s}/" in target), "")
    if store:
        what = _to_add(sources[0], store, target[len(store) :])
        return f"{target}: import takes a store, and this is a place in one; {what}"
    return f"{target}: the target of import ends in {', '.join(_OURS)}; `blosc2 export` writes other formats"


def _to_add(source: str, target: str, place: str | None = None) -> str:
    """How a source gets into a store that there is."""
    if not target.rstrip("/").endswith(_OURS) or scheme_of(target) not in (None, "file"):
        return "name another one"
    name = os.path.splitext(locations.file_name(locations.path_of(source)))[0]
    words = ["blosc2", "import", source, target, "--into", place or f"/{name}"]
    return f"to add to it: {shlex.join(words)}"


def _convert_files(sources: tuple[str, ...], options: dict[str, Any], **how: Any) -> int:
    target, paths = options["target"], list(map(locations.path_of, sources))
    try:
        with progress_bar(paths[0] if len(paths) == 1 else number(len(paths), "source")) as progress:
            report = convert(
                paths[0] if len(paths) == 1 else paths, target, overwrite=options["force"],
                verify=options["verify"], progress=progress, **how,
            )  # fmt: skip
    except FileExistsError as error:
        if how.get("into") is not None:
            raise
        where = locations.path_of(target)
        raise FileExistsError(f"{where} exists: -f replaces it; {_to_add(paths[0], where)}") from error
    except EOFError as error:  # which click would take for an interrupt
        raise LocationError(one_line(error)) from error
    if not (is_quiet() and report.complete):
        click.echo(str(report))
    return 0 if report.complete else 1


COMMANDS = (cp, mv, rm, pack, unpack, compact, import_, export)
