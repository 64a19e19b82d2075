"""Several files and folders as one source: each is a group, or one array, under its own name."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

from blosc2._options import RemotePath
from blosc2._tools.converting import conversion
from blosc2._tools.converting.conversion import GroupItem, Item, Source
from blosc2._tools.converting.report import WHOLE, Changed, LeftOut
from blosc2.exceptions import ConversionError, legible

#: The keys of the first files of sets that were given.
Sets = dict[frozenset[str], str]


class Folder(Source):
    """A directory tree: each file of a known format under its name, each directory as a group."""

    reads_late = False

    def __init__(self, path: str) -> None:
        if not os.path.isdir(path):
            raise ConversionError(f"{path} is no directory")
        self._path = path

    def items(self) -> Iterator[Item]:
        yield from self._below(self._path, "", {})

    def _below(self, folder: str, group: str, sets: Sets) -> Generator[Item, None, None]:
        yield GroupItem(group or "/", {})
        names = sorted(os.listdir(folder))
        for name in names:
            path, key = os.path.join(folder, name), f"{group}/{name}"
            is_folder = os.path.isdir(path)
            if is_folder and os.path.islink(path):
                yield LeftOut(key, "a linked directory", "links are not followed")
            elif conversion.format_within(path) is not None:
                if not _is_header(name, names):
                    yield from conversion.alone(key, _opened(path, key, None, sets))
            elif is_folder:
                yield from conversion.alone(key, self._below(path, key, sets))
            else:
                yield LeftOut(key, WHOLE, "no format that is known")


class Several(Source):
    """Files and directories, in the order in which they were named."""

    reads_late = False

    def __init__(self, paths: Sequence[str], name: str | None) -> None:
        self._paths: dict[str, str] = {}
        self._format = name
        if not paths:
            raise ConversionError("there is no source")
        for path in paths:
            own = os.path.basename(os.path.abspath(path))
            if isinstance(path, RemotePath):
                own = os.path.basename(path.partition("?")[0].rstrip("/"))
            if conversion.within_store(path) is not None:
                conversion.open_source(path, name).close()  # what is not there is no part that is left out
            elif not os.path.exists(path):
                raise FileNotFoundError(f"{legible(path)} does not exist")
            else:
                conversion.format_of(path, name)
            if own in self._paths:
                raise ConversionError(
                    f"{self._paths[own]} and {path} have one name: convert a folder of both, or each with into="
                )
            self._paths[own] = path

    def items(self) -> Iterator[Item]:
        yield GroupItem("/", {})
        sets: Sets = {}
        for name, path in self._paths.items():
            yield from conversion.alone(f"/{name}", _opened(path, f"/{name}", self._format, sets))


def _opened(path: str, key: str, name: str | None, sets: Sets) -> Generator[Item, None, None]:
    """What is in one of the files, which is open so long; what another one of its set has given is not given again."""
    with closing(conversion.open_source(path, name)) as source:
        files = source.files_of_set()
        if files in sets:
            yield Changed(key, "a file of a set", f"its images are those of {sets[files]!r}")
            return
        yield from conversion.below(key, source)
        if files:
            sets[files] = key


def _is_header(name: str, names: Sequence[str]) -> bool:
    """Whether a file belongs to the values of a volume beside it."""
    stem, dot, suffix = name.partition(".hdr")
    return dot != "" and suffix in ("", ".gz") and not {f"{stem}.img", f"{stem}.img.gz"}.isdisjoint(names)
