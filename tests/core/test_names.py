"""Names of members as keys: what a look-up by a catalog checks, and those that others wrote."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.leaves.catalog_writer import write_cataloged
from blosc2._core.zip.archive import Archive
from blosc2._core.zip.archive_writer import ArchiveWriter
from blosc2.exceptions import FormatError

FRAME = blosc2.asarray(np.arange(3)).to_cframe()
SUFFIXES = (b".b2nd", b".b2f", b".b2b")


def cataloged(path: Path, keys: list[str]) -> KeyTable:
    """The keys of an archive with a catalog, of which nothing has been read yet."""
    with path.open("wb") as file:
        writer = ArchiveWriter(file.fileno(), 0, 8, file_checksum=0)
        for key in keys:
            writer.append(key[1:].encode() + SUFFIXES[len(key) % 3], b"", description=b"")
        runs, others = writer.collect()
        write_cataloged(writer, None, runs, others, b"embed.b2e")
        writer.write_end()
    archive = Archive(Source.open(str(path)))
    assert archive.catalog is not None
    return KeyTable.of_archive(archive, SUFFIXES, (b".b2/", b"embed.b2e"))


@pytest.mark.parametrize("part", ["//", "/../", "/./", "\0", "é/../"])
def test_names_that_no_key_may_have(part: str, tmp_path: Path) -> None:
    """A catalog's slots lead to names that were not checked: a look-up that matches one checks it."""
    for before in range(20):
        for after in (1, 9):
            key = f"/{'p' * before}{part}{'q' * after}"
            table = cataloged(tmp_path / "x.b2z", ["/a", key])
            with pytest.raises(FormatError, match=r"empty, '\.' or '\.\.' segment or a NUL"):
                table.find(key)
            assert table.find("/a") >= 0


@pytest.mark.parametrize("filler", ["k", ".k", "k/", "é", "\\"])
def test_names_of_every_length(filler: str, tmp_path: Path) -> None:
    keys = ["/" + (filler * n)[:n] for n in range(1, 40)]
    keys = [key for key in keys if not key.endswith(("/", "."))]
    table = cataloged(tmp_path / "x.b2z", keys)
    assert table.archive is not None
    for key in keys:
        assert table.archive.name_at(table.find(key)).startswith(key[1:] + ".b2")
        assert table.find(key + "x") == table.find(key + ".") == table.find(key[:-1] + "?") == -1
    assert table.cataloged


# ---------------------------------------------------------------------- archives that others wrote
def keys_of(path: Path, members: list[tuple[str, bytes]]) -> list[str]:
    with zipfile.ZipFile(path, "w") as z:
        for name, data in members:
            z.writestr(name, data)
    with blosc2.DictStore(str(path), mode="r") as store:
        return list(store)


@pytest.mark.filterwarnings("ignore:.*suffix")
def test_suffixes_are_cut_once(tmp_path: Path) -> None:
    names = ["embed.b2nd", "a.b2nd", "d/a.b.c.b2f", "d/.b2nd", "x..b2b", "d/e.f/g.b2nd"]
    # A name that begins with its only dot has no suffix: a file with an unknown suffix, which is a frame.
    expected = ["/a", "/d/.b2nd", "/d/a.b.c", "/d/e.f/g", "/embed", "/x."]
    assert (
        keys_of(tmp_path / "x.b2z", [("embed.b2e", blosc2.EmbedStore().to_cframe()), *((n, FRAME) for n in names)])
        == expected
    )


@pytest.mark.filterwarnings("ignore:.*(suffix|more than one)")
def test_of_several_members_for_a_key_the_suffix_decides(tmp_path: Path) -> None:
    """Whichever of them comes first."""
    names = ["a.b2b", "a.b2nd", "a.b2f", "b.unknown", "b.b2b"]
    members = [(name, blosc2.asarray(np.arange(n)).to_cframe()) for n, name in enumerate(names, 1)]
    embed = "embed.b2e", blosc2.EmbedStore().to_cframe()
    for order in (members, members[::-1]):
        path = tmp_path / "x.b2z"
        assert keys_of(path, [embed, *order]) == ["/a", "/b"]
        with blosc2.DictStore(str(path), mode="r") as store:
            assert (store["/a"].shape, store["/b"].shape) == ((2,), (5,))
