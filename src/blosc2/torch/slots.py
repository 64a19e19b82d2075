"""Shared memory that worker processes make batches in, again and again.

A worker has a few slots of shared memory, made when they are first needed. It tells the process of the loop where in a
slot the tensors of a batch lie; the memory itself is handed over once. When nothing refers to the tensors of a batch
any more, that process says so in a table that both share, and the worker uses the slot again. So memory is neither
made, touched for the first time, handed over nor given back for each batch.

What a program keeps is never overwritten: the tensors of a batch, views of them and NumPy arrays over them refer to one
storage of PyTorch. As long as that is there its slot is not used, neither here nor by what the worker itself keeps. If
all slots of a worker are taken, its batch gets memory of its own; so does what other threads of a worker read.

One lock is for all that a fork must not come between. It is held while a process forks.
"""

from __future__ import annotations

import importlib
import itertools
import math
import os
import pickle
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from typing import Any, Final

import torch
from torch.multiprocessing import get_sharing_strategy
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.data._utils.collate import collate, default_collate_fn_map

# Bytes at whose multiples tensors begin.
_ALIGNED: Final = 64


def aligned(nbytes: int) -> int:
    return -(-nbytes // _ALIGNED) * _ALIGNED


def new_tensor(storage: Any, start: int, dtype: Any, shape: Any, stride: Any = None) -> Any:
    """A tensor over a part of a storage."""
    where = (tuple(shape),) if stride is None else (tuple(shape), tuple(stride))
    return torch.empty(0, dtype=dtype).set_(storage, start // dtype.itemsize, *where)


def storage_over(items: Any) -> Any:
    """A new storage over the memory of an array, which stays as long as the storage is there."""
    storage = torch.from_numpy(items).untyped_storage()
    # PyTorch moves a storage that is shared with a process, and then lets go of this memory. NumPy arrays over its
    # tensors stay where they are; they keep the storage.
    storage.blosc2_memory = items
    return storage


_lock = threading.RLock()


# ---------------------------------------------------------------------- in the process of the loop
_numbers = itertools.count(1)
_known: weakref.WeakValueDictionary[int, Slots] = weakref.WeakValueDictionary()


class Slots:
    """What the process of a loop knows of the slots of its workers, of which each has at most so many."""

    def __init__(self, workers: int, most: int) -> None:
        self._shape = (workers, most)
        self.number = 0
        #: For each slot its last use that nobody needs any more; negative if the slot must not be used again.
        self.table: Any = None
        self._released: Any = None  # the same as an array
        self.end()

    def begin(self) -> None:
        """Know nothing of earlier workers: new ones are begun."""
        self.end()
        importlib.import_module("numpy.random")  # workers seed it; imported by the parent, its memory is shared
        self.table = torch.zeros(self._shape, dtype=torch.int64).share_memory_()
        self._released = self.table.numpy()
        self._process = os.getpid()
        self.number = next(_numbers)
        _known[self.number] = self

    def end(self) -> None:
        """Let go of the memory of all slots; batches that somebody has keep theirs."""
        with _lock:
            _known.pop(self.number, None)
            self.number, self.table, self._released = 0, None, None
            self._memory: dict[tuple[int, int], Any] = {}
            self._held: dict[tuple[int, int], tuple[int, StorageWeakRef]] = {}

    def take(self, number: int, worker: int, slot: int, use: int, memory: Any) -> Any:
        """The memory of a slot, as a storage that lives as long as anything refers to it.

        `memory` is what the slot consists of, the first time; then None. `number` is of the workers that made it.
        """
        with _lock:
            if number != self.number:
                raise RuntimeError("a batch of worker processes that were ended")
            if memory is not None:
                self._memory[worker, slot] = memory.numpy()
            storage = storage_over(self._memory[worker, slot])
            self._held[worker, slot] = use, StorageWeakRef(storage)
            return storage

    def release(self) -> None:
        """Give back the slots whose batches nobody refers to any more."""
        if self.table is None or os.getpid() != self._process:
            return
        with _lock:
            for place, (use, storage) in list(self._held.items()):
                if not storage.expired():
                    continue
                del self._held[place]
                self._released[place] = use

    def give_up(self) -> None:
        """Never have slots used again whose batches are there: a child that is forked now has them, too."""
        self.release()
        with _lock:
            for place, (use, _) in self._held.items():
                self._released[place] = -use
                self._memory.pop(place, None)
            self._held.clear()


#: The slots of this process, if it is a worker.
own: OwnSlots | None = None


def _before_fork() -> None:
    _lock.acquire()  # until the fork is done: the child would have what is taken before
    for slots in list(_known.values()):
        slots.give_up()
    if own is not None:
        own.give_up()


def _in_parent() -> None:
    with suppress(RuntimeError):  # the wait for it was interrupted
        _lock.release()


def _in_child() -> None:
    global own, _lock
    _lock = threading.RLock()
    _known.clear()
    own = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)


def _taken(number: int, worker: int, slot: int, use: int, memory: Any) -> Any:
    slots = _known.get(number)
    if slots is None:
        raise RuntimeError("a batch of worker processes that were ended")
    return slots.take(number, worker, slot, use, None if memory is None else pickle.loads(memory))


# ---------------------------------------------------------------------- in a worker
class _Slot:
    """A slot of this worker, with its shared memory and the storage of its last batch."""

    def __init__(self, nbytes: int) -> None:
        self.strategy = get_sharing_strategy()
        self.memory = torch.empty(0, dtype=torch.uint8).set_(torch.UntypedStorage._new_shared(nbytes))
        self.items = self.memory.numpy()
        self.address = self.memory.data_ptr()
        self.use = 0
        self.was_sent = False
        self.last: StorageWeakRef | None = None


class _Use:
    """One use of a slot: pickled into the memory of the slot for the process of the loop."""

    def __init__(self, place: tuple[int, int, int], use: int, memory: Any) -> None:
        self.place, self.use, self.memory = place, use, memory

    def __reduce__(self) -> Any:
        return _taken, (*self.place, self.use, self.memory)


class _Part:
    """A tensor in a slot, pickled into one over the memory of the slot."""

    use: _Use  # set when all parts are known

    def __init__(self, start: int, tensor: Any) -> None:
        self.about = start, tensor.dtype, tuple(tensor.shape), tuple(tensor.stride())

    def __reduce__(self) -> Any:
        return new_tensor, (self.use, *self.about)


class OwnSlots:
    """The slots of this worker process, made in the thread that makes batches.

    `number` is that of the `Slots` that know them, `released` the row of the table.
    """

    def __init__(self, number: int, worker: int, released: Any) -> None:
        self._number, self._worker, self._released = number, worker, released
        self._thread = threading.get_ident()
        self._is_busy = False
        self._slots: list[_Slot | None] = [None] * len(released)
        self._uses = itertools.count(1)
        self._current: tuple[int, _Slot, Any] | None = None  # its position, itself and its storage in this use
        self._full = False  # whether there is no slot for the batch that is being made
        self._filled = self._needed = self._usual = 0
        #: Whether samples are read that make up a batch.
        self.reads_batch = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Have what this thread reads be a batch, which is handed over as it is."""
        if threading.get_ident() != self._thread:
            yield
            return
        before, self.reads_batch = self.reads_batch, True
        try:
            yield
        finally:
            self.reads_batch = before

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Have no fork come between, nor what this thread may do in between."""
        with _lock:
            self._is_busy = True
            try:
                yield
            finally:
                self._is_busy = False

    def _begin(self, nbytes: int) -> None:
        """Find a slot for a batch that needs so many bytes, or make one."""
        position = None
        for i, slot in enumerate(self._slots):
            if slot is not None and self._released[i] == -slot.use:
                self._slots[i] = slot = None
            if slot is None:
                position = i if position is None else position
            elif self._released[i] == slot.use and (slot.last is None or slot.last.expired()):
                position = i
                if len(slot.items) >= nbytes:
                    break
        self._full = position is None
        if position is None:
            return
        slot = self._slots[position]
        if slot is None or len(slot.items) < nbytes:
            self._slots[position] = None  # first of all let go of memory that is too small
            self._slots[position] = slot = _Slot(nbytes)
        storage = storage_over(slot.items)
        slot.use, slot.last = next(self._uses), StorageWeakRef(storage)
        self._current, self._filled = (position, slot, storage), 0

    def _room(self, nbytes: int) -> int | None:
        """Where in the slot of the batch that is being made there is room for so many bytes; None if there is none."""
        room = aligned(nbytes)
        self._needed += room
        if self._current is None and not self._full:
            self._begin(max(room, self._usual, _ALIGNED))
        if self._current is None or self._filled + room > len(self._current[1].items):
            return None
        start = self._filled
        self._filled += room
        return start

    def place(self, nbytes: int) -> tuple[Any, int] | None:
        """Room for so many bytes of the batch that is being made: a storage, and where in it; None if there is none.

        There is none for other threads, nor for what reads in the middle of this: a handler of signals, a finalizer.
        """
        if threading.get_ident() != self._thread or self._is_busy:
            return None
        with self._busy():
            start = self._room(nbytes)
            if start is None or self._current is None:
                return None
            _, slot, storage = self._current
            return (storage, start) if storage.data_ptr() == slot.address else None  # it was moved

    def forget(self) -> None:
        """Leave a batch that could not be made; its slot may be used again."""
        with self._busy():
            if self._current is not None:
                position, slot, _ = self._current
                self._released[position] = slot.use
            self._current, self._full, self._needed = None, False, 0

    def give_up(self) -> None:
        """Never use slots again whose memory something here refers to: a child that is forked now does so, too.

        The batch that is being made goes on in the room of its slot that is left.
        """
        for position, slot in enumerate(self._slots):
            if slot is not None and slot.last is not None and not slot.last.expired():
                self._slots[position] = None

    def hand_over(self, batch: Any) -> Any:
        """What to send for a batch. The next one then gets another slot."""
        with self._busy():
            known: dict[int, _Part] = {}
            found = self._parts(batch, known)
            current, self._current, self._full = self._current, None, False
            self._usual, self._needed = self._needed, 0
            if current is None:
                return batch
            position, slot, _ = current
            if not known:
                self._released[position] = slot.use
                return batch
            memory = None
            if not slot.was_sent:
                if slot.strategy != get_sharing_strategy():
                    self._slots[position] = None  # PyTorch would move its memory
                    return batch
                try:
                    memory = bytes(ForkingPickler.dumps(slot.memory))  # at once, while the strategy is the same
                except BaseException:
                    self._slots[position] = None
                    raise
                slot.was_sent = True
            use = _Use((self._number, self._worker, position), slot.use, memory)
            for part in known.values():
                part.use = use
            return found

    def _parts(self, batch: Any, known: dict[int, _Part]) -> Any:
        """A batch with parts of the slot for its tensors, as far as there is room."""
        if type(batch) is dict:
            return {name: self._parts(item, known) for name, item in batch.items()}
        if type(batch) is list:
            return [self._parts(item, known) for item in batch]
        if isinstance(batch, tuple):
            items = [self._parts(item, known) for item in batch]
            return type(batch)(*items) if hasattr(batch, "_fields") else tuple(items)
        if type(batch) is not torch.Tensor:
            return batch
        if id(batch) not in known:
            part = self._part(batch)
            if part is None:
                return batch
            known[id(batch)] = part
        return known[id(batch)]

    def _part(self, tensor: Any) -> _Part | None:
        """Where a tensor lies in the slot. One that lies elsewhere is copied there, if there is room."""
        if not is_plain(tensor) or not tensor.numel():
            return None
        if self._current is not None and tensor.untyped_storage().data_ptr() == self._current[1].address:
            return _Part(tensor.storage_offset() * tensor.element_size(), tensor)
        start = self._room(tensor.numel() * tensor.element_size())
        if start is None or self._current is None:
            return None
        # Straight into the memory of the slot: its storage may have been moved.
        memory = self._current[1].memory.untyped_storage()
        return _Part(start, new_tensor(memory, start, tensor.dtype, tensor.shape).copy_(tensor))


def is_plain(tensor: Any) -> bool:
    """Whether a tensor is nothing but items in memory."""
    return (
        type(tensor) is torch.Tensor and tensor.device.type == "cpu" and tensor.layout == torch.strided
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
    )  # fmt: skip


def _stack(tensors: Any, *, collate_fn_map: Any = None) -> Any:
    """Tensors of samples stacked in the slot of this worker, if they are alike and there is room."""
    first = tensors[0]
    about = first.dtype, first.shape
    if own is not None and all(is_plain(one) and (one.dtype, one.shape) == about for one in tensors):
        shape = (len(tensors), *first.shape)
        place = own.place(math.prod(shape) * first.element_size()) if first.numel() else None
        if place is not None:
            return torch.stack(tensors, out=new_tensor(*place, first.dtype, shape))
    return default_collate_fn_map[torch.Tensor](tensors, collate_fn_map=collate_fn_map)


def collated(samples: Any) -> Any:
    """What `default_collate` makes of samples, in the slot of this worker."""
    return collate(samples, collate_fn_map={**default_collate_fn_map, torch.Tensor: _stack})


def _leave() -> None:
    """Let go of the slots at the end of a worker: its process ends without that, and files of memory would stay."""
    global own
    own = None


def _begin(number: int, table: Any, function: Any, worker: int) -> None:
    """Give a worker its slots, and call a function with its number."""
    global own
    own = OwnSlots(number, worker, table[worker].numpy())
    Finalize(None, _leave, exitpriority=0)
    function(worker)


class Begin:
    """What prepares a worker: with the slots that are known when it begins."""

    def __init__(self, slots: Slots, function: Any) -> None:
        self._slots, self._function = slots, function

    def __reduce__(self) -> Any:
        return partial, (_begin, self._slots.number, self._slots.table, self._function)

    def __call__(self, worker: int) -> None:
        _begin(self._slots.number, self._slots.table, self._function, worker)
