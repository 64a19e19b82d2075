"""A file system as a value, and every state of it that a crash may leave.

A `Tree` holds files and directories by number, so that a file that has lost its name, or not got it yet, is a file
all the same. Changes are `Op`s. A `Disk` takes the ops of a run one by one and knows which of them are certain to
be there after a crash (what was synced) and which are not; `Disk.crash_states` makes the trees.

Models of what may be lost:

- ``kill``: nothing. The program is gone, not the system.
- ``ext4``: names change in order, in a journal that any sync writes out; data of files are written when they like.
- ``free``: as little as POSIX promises. A name is certain once its directory was synced, data once its file was; of
  all else any part may be there, in any order. (A rename is one step: no system leaves half of it.)

Data that are not synced are written sector by sector: a prefix of a write, the rest of it without the first sector,
or nothing but the file's new length, with zeros in it.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

SECTOR = 512
ROOT = 0

Model = Literal["kill", "ext4", "free"]
Name = tuple[int, str]  # number of a directory, name in it


@dataclass(frozen=True, eq=False)
class Op:
    """One change, or a sync.

    Attributes
    ----------
    kind : str
        ``write``, ``truncate`` (of a file's data); ``create``, ``mkdir``, ``link``, ``unlink``, ``rmdir``, ``rename``
        (of names); ``chmod`` (of nothing that is modelled); ``fsync`` (of a file or directory), ``sync`` (of all).
    node : int
        The file or directory; of renames, the one that moves.
    name, other : tuple
        What gets or loses the name; of renames, from and to.
    offset : int
        Of a write; of a truncation, the new length.
    data : bytes
        Of a write.
    """

    kind: str
    node: int = -1
    name: Name | None = None
    other: Name | None = None
    offset: int = 0
    data: bytes = b""

    @property
    def is_data(self) -> bool:
        return self.kind in ("write", "truncate")

    @property
    def is_name(self) -> bool:
        return self.kind in ("create", "mkdir", "link", "unlink", "rmdir", "rename")

    @property
    def is_sync(self) -> bool:
        return self.kind in ("fsync", "sync")

    @property
    def names(self) -> set[Name]:
        return {name for name in (self.name, self.other) if name is not None}

    def __str__(self) -> str:
        what = f"[{self.offset}:{self.offset + len(self.data)}]" if self.kind == "write" else ""
        what = f" to {self.offset}" if self.kind == "truncate" else what
        names = " -> ".join(name[1] for name in (self.name, self.other) if name)
        return f"{self.kind} #{self.node}{what} {names}".rstrip()


class Tree:
    """Files (bytearrays) and directories (dictionaries of names) by number; number 0 is the directory of it all."""

    def __init__(self) -> None:
        self.nodes: dict[int, bytearray | dict[str, int]] = {ROOT: {}}
        self._shared: set[int] = set()

    def copy(self) -> Tree:
        """The same tree; file contents are copied when they are written to."""
        tree = Tree()
        tree.nodes = {
            number: node if isinstance(node, bytearray) else dict(node) for number, node in self.nodes.items()
        }
        tree._shared = {number for number, node in tree.nodes.items() if isinstance(node, bytearray)}
        self._shared = set(tree._shared)
        return tree

    @classmethod
    def load(cls, root: Path) -> tuple[Tree, dict[int, int]]:
        """What is on disk, and the number of each inode in it."""
        tree = cls()
        numbers = {os.stat(root).st_ino: ROOT}

        def walk(folder: str, node: dict[str, int]) -> None:
            for entry in sorted(os.scandir(folder), key=lambda e: e.name):
                inode = entry.inode()
                if inode not in numbers:
                    numbers[inode] = len(tree.nodes)
                    if entry.is_dir(follow_symlinks=False):
                        tree.nodes[numbers[inode]] = {}
                    else:
                        tree.nodes[numbers[inode]] = bytearray(Path(entry.path).read_bytes())
                node[entry.name] = numbers[inode]
                if entry.is_dir(follow_symlinks=False):
                    walk(entry.path, tree.folder(numbers[inode]))

        walk(str(root), tree.folder(ROOT))
        return tree, numbers

    def folder(self, number: int) -> dict[str, int]:
        node = self.nodes[number]
        assert isinstance(node, dict)
        return node

    def file(self, number: int) -> bytearray:
        """The content of a file, to be changed."""
        node = self.nodes[number]
        assert isinstance(node, bytearray)
        if number in self._shared:
            node = self.nodes[number] = bytearray(node)
            self._shared.discard(number)
        return node

    def size(self, number: int) -> int:
        return len(self.nodes[number])

    def apply(self, op: Op) -> None:
        """Make a change, also one whose forerunners were lost."""
        if op.kind == "write":
            content = self.file(op.node)
            if len(content) < op.offset:
                content.extend(bytes(op.offset - len(content)))
            content[op.offset : op.offset + len(op.data)] = op.data
        elif op.kind == "truncate":
            content = self.file(op.node)
            if len(content) < op.offset:
                content.extend(bytes(op.offset - len(content)))
            del content[op.offset :]
        elif op.kind in ("create", "mkdir", "link"):
            assert op.name is not None
            self.make(op)
            self.folder(op.name[0])[op.name[1]] = op.node
        elif op.kind in ("unlink", "rmdir"):
            assert op.name is not None
            if self.folder(op.name[0]).get(op.name[1]) == op.node:
                del self.folder(op.name[0])[op.name[1]]
        elif op.kind == "rename":
            assert op.name is not None
            assert op.other is not None
            if self.folder(op.name[0]).get(op.name[1]) == op.node:
                del self.folder(op.name[0])[op.name[1]]
            self.folder(op.other[0])[op.other[1]] = op.node

    def make(self, op: Op) -> None:
        """See that the file or directory exists, with a name or without."""
        if op.kind in ("create", "mkdir") and op.node not in self.nodes:
            self.nodes[op.node] = bytearray() if op.kind == "create" else {}

    def walk(self) -> Iterator[tuple[str, int]]:
        """Paths and numbers of all that has a name, in order."""

        def below(folder: dict[str, int], path: str) -> Iterator[tuple[str, int]]:
            for name in sorted(folder):
                number = folder[name]
                yield path + name, number
                node = self.nodes[number]
                if isinstance(node, dict):
                    yield from below(node, path + name + "/")

        return below(self.folder(ROOT), "")

    def content(self) -> dict[str, bytes | None]:
        """Path -> bytes; None for directories."""
        nodes = ((path, self.nodes[number]) for path, number in self.walk())
        return {path: None if isinstance(node, dict) else bytes(node) for path, node in nodes}

    def digest(self) -> bytes:
        """The same for trees of the same content."""
        sums = hashlib.blake2b(digest_size=16)
        for path, number in self.walk():
            node = self.nodes[number]
            sums.update(f"{path}\0{-1 if isinstance(node, dict) else len(node)}\0".encode())
            if isinstance(node, bytearray):
                sums.update(node)
        return sums.digest()

    def write_to(self, root: Path) -> None:
        """Make it on a real file system, in an empty directory."""
        for path, number in self.walk():
            node = self.nodes[number]
            if isinstance(node, dict):
                os.mkdir(f"{root}/{path}")
            else:
                with open(f"{root}/{path}", "wb", buffering=0) as file:
                    file.write(node)


@dataclass
class Disk:
    """What is certain to survive a crash, and what may.

    Attributes
    ----------
    model : {'ext4', 'free'}
        With `kill` there is nothing to know.
    certain : Tree
    pending : list of Op
        In order.
    """

    model: Model
    certain: Tree
    pending: list[Op] = field(default_factory=list)

    def take(self, op: Op) -> None:
        """One more call was made."""
        if op.is_data or op.is_name:
            self.certain.make(op)
            self.pending.append(op)
        elif op.is_sync:
            self._sync(op)

    def _sync(self, sync: Op) -> None:
        left: list[Op] = []
        settled: list[Op] = []
        for op in self.pending:
            (settled if self._settles(sync, op) else left).append(op)
        for op in settled:
            self.certain.apply(op)
        if self.model == "free":
            # What happened before to a name that is certain now is no longer of interest.
            position = {id(op): number for number, op in enumerate(self.pending)}
            last = {name: position[id(op)] for op in settled for name in op.names}
            left = [op for op in left if op.is_data or any(last.get(name, -1) < position[id(op)] for name in op.names)]
        self.pending = left

    def _settles(self, sync: Op, op: Op) -> bool:
        if sync.kind == "sync":
            return True
        if op.is_data:
            return op.node == sync.node
        if self.model == "ext4":
            return True
        # A rename is one step: it is there as soon as the new name is.
        where = op.other if op.kind == "rename" else op.name
        assert where is not None
        return where[0] == sync.node

    # ------------------------------------------------------------------ crashes
    def crash_states(self, rng: random.Random, limit: int, samples: int) -> Iterator[Tree]:
        """Trees that a crash now may leave; some come more than once.

        Parameters
        ----------
        rng : Random
            Chooses when there are too many.
        limit : int
            Up to so many pending changes all combinations of them are made.
        samples : int
            How many random combinations of more.
        """
        names = [op for op in self.pending if op.is_name]
        data = [op for op in self.pending if op.is_data]
        for chosen in self._choices(names, data, rng, limit, samples):
            yield self._tree(chosen)
        for op in data:
            yield from self._half_written(op, names, data, rng, limit)

    def _choices(
        self, names: list[Op], data: list[Op], rng: random.Random, limit: int, samples: int
    ) -> Iterator[list[Op]]:
        """Combinations of pending changes that were made."""
        if self.model == "ext4":
            if len(data) <= limit:
                for count, some in itertools.product(range(len(names) + 1), _subsets(data)):
                    yield names[:count] + some
                return
            for count in range(len(names) + 1):
                for some in _typical(data, rng, max(1, samples // (len(names) + 1))):
                    yield names[:count] + some
            return
        everything = names + data
        yield from _subsets(everything) if len(everything) <= limit else _typical(everything, rng, samples)

    def _tree(self, chosen: list[Op]) -> Tree:
        wanted = set(map(id, chosen))
        tree = self.certain.copy()
        for op in self.pending:
            if id(op) in wanted:
                tree.apply(op)
        return tree

    def _half_written(
        self, split: Op, names: list[Op], data: list[Op], rng: random.Random, limit: int
    ) -> Iterator[Tree]:
        """Trees in which a part of one write was made."""
        if split.kind != "write":
            return
        others = [op for op in names + data if op is not split]
        before = list(self.pending[: _position(self.pending, split)])
        companies = [others, before, [op for op in names if op not in before] + before, []]
        if len(others) <= max(2, limit // 2):
            companies = list(_subsets(others))
        elif self.model == "ext4":
            companies.append(names[: rng.randrange(len(names) + 1)] + [op for op in data if op is not split])
        for company in companies:
            if self.model == "ext4":  # only a beginning of the journal
                kept = {id(op) for op in company}
                count = next((n for n, op in enumerate(names) if id(op) not in kept), len(names))
                company = names[:count] + [op for op in company if op.is_data]
            for part in _parts(split, self.certain.size(split.node)):
                wanted = set(map(id, company))
                tree = self.certain.copy()
                for op in self.pending:
                    if op is split:
                        for piece in part:
                            tree.apply(piece)
                    elif id(op) in wanted:
                        tree.apply(op)
                yield tree


def _position(ops: list[Op], wanted: Op) -> int:
    return next(n for n, op in enumerate(ops) if op is wanted)


def _subsets(ops: list[Op]) -> Iterator[list[Op]]:
    for mask in range(1 << len(ops)):
        yield [op for n, op in enumerate(ops) if mask >> n & 1]


def _typical(ops: list[Op], rng: random.Random, samples: int) -> Iterator[list[Op]]:
    """Nothing, all, beginnings, ends, one alone, one missing, and random ones."""
    yield []
    yield list(ops)
    for n in range(len(ops)):
        if len(ops) > samples and rng.random() > samples / len(ops):
            continue
        yield ops[:n]
        yield ops[n:]
        yield [ops[n]]
        yield ops[:n] + ops[n + 1 :]
    for _ in range(samples):
        share = rng.random()
        yield [op for op in ops if rng.random() < share]


def _parts(write: Op, size: int) -> Iterator[list[Op]]:
    """Parts of one write, as a disk may be left with; `size` is that of the file without it."""
    start, stop = write.offset, write.offset + len(write.data)
    cuts = list(range((start // SECTOR + 1) * SECTOR, stop, SECTOR))
    if len(cuts) > 6:
        cuts = [*cuts[:2], cuts[len(cuts) // 2], *cuts[-2:]]
    grown = Op("truncate", write.node, offset=stop)
    grows = stop > size
    if grows:
        yield [grown]
    for cut in cuts:
        head = Op("write", write.node, offset=start, data=write.data[: cut - start])
        tail = Op("write", write.node, offset=cut, data=write.data[cut - start :])
        yield [head]
        if grows:
            yield [grown, head]
        yield [tail]
