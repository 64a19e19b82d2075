"""Samples, patches and batches as tensors of PyTorch, read by threads or by worker processes.

The classes are those of `blosc2` with tensors for arrays: a batch is decoded straight into the memory of its tensors.
In a worker process that is shared memory, which is used again when nobody has the batch any more. The datasets also
work with `torch.utils.data.DataLoader`, given `collate`.

Needs ``pip install 'python-blosc2[torch]'``.

Examples
--------
>>> import numpy as np
>>> import blosc2, blosc2.torch
>>> images = blosc2.asarray(np.arange(48, dtype="u1").reshape(12, 2, 2))
>>> samples = blosc2.torch.Samples({"image": images, "label": blosc2.asarray(np.arange(12))})
>>> for batch in blosc2.torch.Loader(samples, batch_size=6, shuffle=True, workers=2):
...     print(batch["image"].shape, batch["label"].dtype)
torch.Size([6, 2, 2]) torch.int64
torch.Size([6, 2, 2]) torch.int64
"""

from __future__ import annotations

import copy
import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final

import numpy as np

from blosc2 import _tools
from blosc2._core.io.sharing import remembered
from blosc2._options import get_nthreads, lacking, set_nthreads
from blosc2._tools import BatchList

try:
    import torch
    from torch.utils import data
    from torch.utils.data._utils import signal_handling
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(lacking("blosc2.torch", "torch", "torch"), name="torch") from None

from blosc2.storage import NoKeywords, takes
from blosc2.torch import slots

__all__ = ["Loader", "PatchSampler", "Samples", "collate", "seed_worker"]

_KINDS: Final = ("threads", "fork", "spawn", "forkserver")


@remembered(64)
def _torch_dtype(dtype: np.dtype[Any]) -> Any:
    try:
        return torch.from_numpy(np.empty(0, dtype.newbyteorder("="))).dtype
    except (TypeError, ValueError):
        numbered = "; numpy.unique(labels, return_inverse=True)[1] numbers texts" if dtype.kind in "US" else ""
        raise TypeError(
            f"PyTorch has no tensors of dtype {dtype}: read NumPy arrays with the classes of blosc2, and convert them"
            + numbered
        ) from None


class _Tensors:
    """Batches whose memory is that of tensors."""

    _pinned = False
    transform: Any

    def _new_counter(self) -> Any:
        return torch.zeros(1, dtype=torch.int64).share_memory_()

    def _new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, Any]:
        kind = _torch_dtype(dtype)
        memory = None if self._pinned else _tools.large_memory(math.prod(shape) * dtype.itemsize)
        if memory is None:
            tensor = torch.empty(shape, dtype=kind, pin_memory=self._pinned)
        else:
            tensor = slots.new_tensor(slots.storage_over(memory), 0, kind, shape)
        return tensor, tensor.numpy().view(dtype)

    def _new_fields(self, like: Any) -> dict[str | None, tuple[Any, Any]]:
        starts, end = {}, 0
        for name, (shape, dtype) in like.items():
            starts[name] = end
            end += slots.aligned(math.prod(shape) * dtype.itemsize)
        # What a transform gets is not handed over.
        if not end or self.transform is not None or data.get_worker_info() is None:
            return {name: self._new(*one) for name, one in like.items()}
        # What a worker process hands over is not copied if it lies in shared memory: default_collate does the same. All
        # fields share a slot. Without one each has memory of its own, so that a program may keep one of them alone.
        own = slots.own
        place = own.place(end) if own is not None and own.reads_batch else None
        found: dict[str | None, tuple[Any, Any]] = {}
        for name, (shape, dtype) in like.items():
            if place is None:
                nbytes = slots.aligned(math.prod(shape) * dtype.itemsize)
                memory, start = torch.UntypedStorage._new_shared(nbytes), 0
            else:
                memory, start = place[0], place[1] + starts[name]
            tensor = slots.new_tensor(memory, start, _torch_dtype(dtype), shape)
            found[name] = tensor, tensor.numpy().view(dtype)
        return found

    def _filled(self, items: Any) -> None:
        if not items.dtype.isnative:  # tensors have the order of bytes of the machine
            items.byteswap(inplace=True)

    def __getitems__(self, numbers: Any) -> Any:
        """See `blosc2.Samples`."""
        with nullcontext() if slots.own is None else slots.own.reading():
            return super().__getitems__(numbers)  # type: ignore[misc]  # of the class beside this one

    def _as_sample(self, items: Any) -> Any:
        _torch_dtype(items.dtype)
        items = np.asarray(items, items.dtype.newbyteorder("="), order="C")
        return torch.from_numpy(items).reshape(items.shape)

    def _stacked(self, samples: list[Any]) -> Any:
        with _advising():
            return data.default_collate(samples)


class Samples(_Tensors, _tools.Samples, data.Dataset):  # type: ignore[misc]  # of torch, which type checkers skip
    """Samples of a store, or rows of arrays, as tensors: a dataset of `torch.utils.data`.

    The parameters are those of `blosc2.Samples`. A transform gets tensors.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2, blosc2.torch
    >>> samples = blosc2.torch.Samples(blosc2.asarray(np.eye(3, dtype="f4")))
    >>> samples[1]
    tensor([0., 1., 0.])
    """


class PatchSampler(_Tensors, _tools.PatchSampler, data.Dataset):  # type: ignore[misc]  # see Samples
    """Random patches of volumes as tensors: a dataset of `torch.utils.data`.

    The parameters are those of `blosc2.PatchSampler`. A transform gets tensors.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2, blosc2.torch
    >>> volumes = blosc2.asarray(np.ones((2, 8, 9, 10), "f4"))
    >>> patches = blosc2.torch.PatchSampler(volumes, (4, 4, 4), count=16)
    >>> len(patches), patches[7].shape
    (16, torch.Size([4, 4, 4]))
    """


def collate(samples: Any) -> Any:
    """Make the batch of a `torch.utils.data.DataLoader`: the tensors that were read into, without a copy.

    Samples that a transform has made are stacked as PyTorch does by default.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2, blosc2.torch
    >>> from torch.utils.data import DataLoader
    >>> samples = blosc2.torch.Samples(blosc2.asarray(np.arange(4)))
    >>> list(DataLoader(samples, batch_size=2, collate_fn=blosc2.torch.collate))
    [tensor([0, 1]), tensor([2, 3])]
    """
    if isinstance(samples, BatchList):
        if samples.whole is not None:
            return data.default_convert(samples.whole)  # of datasets of `blosc2` they are arrays
        if samples.unlike is not None:
            raise samples.unlike
        samples = list(samples)
    with _advising():
        return data.default_collate(samples)


@contextmanager
def _advising() -> Iterator[None]:
    """Have PyTorch's error about tensors that are not alike say what a loader can do with them."""
    try:
        yield
    except RuntimeError as error:
        if "equal size" in str(error):
            error.add_note(f"a transform can make samples alike; {_tools.UNSTACKED}")
        raise


class _HandOver:
    """Makes the batches of a `Loader` in its workers, whose memory is used again."""

    def __init__(self, one_by_one: bool, function: Any) -> None:
        self.one_by_one, self.function = one_by_one, function

    def __call__(self, samples: Any) -> Any:
        own = slots.own
        try:
            batch = self._batch(samples)
            return batch if own is None else own.hand_over(batch)
        except BaseException:
            if own is not None:
                own.forget()
            raise

    def _batch(self, samples: Any) -> Any:
        if self.one_by_one or self.function is not None:
            return _tools.unstacked(samples, self.one_by_one, self.function)
        is_known = isinstance(samples, BatchList) and (samples.whole is not None or samples.unlike is not None)
        if slots.own is None or is_known:
            return collate(samples)
        with _advising():
            return slots.collated(list(samples))


def seed_worker(number: int) -> None:
    """Prepare a worker process of a `torch.utils.data.DataLoader`; give it as `worker_init_fn`.

    The cores are shared out to the workers, and the global generators of `numpy.random` and `random` get seeds of
    their own, which follow from PyTorch's: it differs for each worker and, without persistent workers, for each epoch.

    Parameters
    ----------
    number : int
        The number of the worker.
    """
    info = data.get_worker_info()
    set_nthreads(max(1, get_nthreads() // (1 if info is None else info.num_workers)))
    seed = (torch.initial_seed() + (number if info is None else 0)) % (1 << 32)
    np.random.seed(seed)  # noqa: NPY002 - the generator that transforms of others use
    random.seed(seed)


def _forget_workers(iterator: Any) -> None:
    """Have PyTorch's handler of signals know nothing of the workers of a DataLoader, which are to be ended.

    When a child ends, it raises an error for each dead worker that it knows, wherever the main thread is: in the middle
    of ending the others, which then stay, and again in whatever the program does when they end.
    """
    if iterator._worker_pids_set:
        with suppress(ValueError):  # they are removed already, and an error came just behind that
            signal_handling._remove_worker_pids(id(iterator))
        iterator._worker_pids_set = False


class _Batches:
    """The numbers of batches for a DataLoader, each with its epoch, from a batch of an epoch on."""

    def __init__(self, order: Any) -> None:
        self.order = order
        self.epoch = self.first = 0

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for number in range(self.first, self.order.batches):
            yield [(self.epoch, int(n)) for n in self.order.numbers(self.epoch, number)]

    def __len__(self) -> int:
        return int(self.order.batches) - self.first


class _InEpochs:
    """A dataset of somebody else: its numbers come with their epoch, which datasets of ours below it take."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, numbers: list[tuple[int, int]]) -> Any:
        together = getattr(self.dataset, "__getitems__", None)
        with _tools.in_epoch(numbers[0][0]):
            plain = [number for _, number in numbers]
            return together(plain) if together else [self.dataset[number] for number in plain]


@takes(NoKeywords)
class Loader(_tools.Loader):
    """Batches of tensors, epoch after epoch, by threads or by processes; they are the same for all kinds of workers.

    Parameters
    ----------
    dataset : Samples, PatchSampler, or another map-style dataset
    batch_size, shuffle, seed, drop_last, workers, prefetch, rank, replicas, collate_fn : see `blosc2.Loader`
    kind : {"threads", "fork", "spawn", "forkserver"}
        What workers are: threads of this process, which share its mapping and its block cache and copy nothing; or
        processes, for transforms that hold the GIL. Processes are those of `torch.utils.data.DataLoader`, begun with
        the first loop, and kept until `close`. They serve one loop at a time: a new one ends the one before. They use
        the memory of a batch again when nothing refers to it, to a view of it or to an array over it.
    pin_memory : bool
        Batches in pinned memory, which threads decode into. Without CUDA it has no effect.
    timeout : float
        Seconds to wait for a batch of a process; 0 for as long as the process lives.

    Raises
    ------
    RuntimeError
        A worker process died; PyTorch's error has its number. The next loop begins with new ones. Or another loop over
        the same processes has begun.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2, blosc2.torch
    >>> samples = blosc2.torch.Samples(blosc2.asarray(np.arange(6)))
    >>> [batch.tolist() for batch in blosc2.torch.Loader(samples, 2, workers=2, kind="threads")]
    [[0, 1], [2, 3], [4, 5]]
    """

    _reading = _Tensors
    _stack = staticmethod(collate)

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, *, shuffle: bool = False, seed: int | None = None,
        drop_last: bool = False, workers: int = 0, prefetch: int = 2, rank: int = 0, replicas: int = 1,
        collate_fn: Any = None, kind: str = "threads", pin_memory: bool = False, timeout: float = 0, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            dataset, batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last, workers=workers, prefetch=prefetch,
            rank=rank, replicas=replicas, collate_fn=collate_fn, **kwargs,
        )  # fmt: skip
        if kind not in _KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, _KINDS))}, not {kind!r}")
        self.kind = kind
        self._processes: Any = None
        self._slots: slots.Slots | None = None
        self._loop = 0
        seeds = torch.Generator().manual_seed(self._order.seed % (1 << 63))
        pinned = bool(pin_memory) and torch.cuda.is_available()
        if workers and kind != "threads":
            self._numbers = _Batches(self._order)
            given = dataset if isinstance(dataset, _Tensors) else _InEpochs(dataset)
            # Batches of a worker: those ahead, the one that it makes, and the one that the loop has.
            self._slots = slots.Slots(workers, prefetch + 2)
            self._processes = data.DataLoader(
                given, batch_sampler=self._numbers, num_workers=workers, multiprocessing_context=kind,
                collate_fn=_HandOver(self._one_by_one, collate_fn), prefetch_factor=prefetch, pin_memory=pinned,
                worker_init_fn=slots.Begin(self._slots, seed_worker),
                timeout=timeout, persistent_workers=True, generator=seeds,
            )  # fmt: skip
        elif pinned and isinstance(dataset, _Tensors):
            self.dataset = copy.copy(dataset)
            self.dataset._pinned = True

    def _batches(self, epoch: int, first: int) -> Iterator[Any]:
        if self._processes is None:
            return super()._batches(epoch, first)
        workers = self._processes._iterator and self._processes._iterator._workers
        if workers and not all(worker.is_alive() for worker in workers):
            self.close()  # one died between two loops, or while the caller was busy
        self._loop += 1
        self._numbers.epoch, self._numbers.first = epoch, first
        assert self._slots is not None
        if self._processes._iterator is None:
            self._slots.begin()
        self._slots.release()
        with self._closing(self._loop):
            return self._of_processes(self._loop, iter(self._processes), len(self) - first)

    def _of_processes(self, loop: int, batches: Iterator[Any], count: int) -> Iterator[Any]:
        for _ in range(count):
            # PyTorch has one iterator for all loops over processes that stay.
            if loop != self._loop:
                raise RuntimeError("another loop over this loader has begun, or the loader was closed")
            self._slots.release()  # type: ignore[union-attr]  # there are some for processes
            with self._closing(loop):
                batch = next(batches)
            yield batch
            del batch  # so that its memory may be used again

    @contextmanager
    def _closing(self, loop: int) -> Iterator[None]:
        """End the processes after an error that may be of their end, so that the next loop begins with new ones."""
        try:
            yield
        except RuntimeError as error:
            if loop == self._loop:  # otherwise they were ended, and those of a new loop may be there
                self._end(kill="timed out" in str(error))  # PyTorch waits for each, and one of them hangs
            raise
        except (OSError, EOFError) as error:
            # What a dead worker was about to hand over; an error of a dataset says that a worker caught it.
            dead = None if "DataLoader worker process" in str(error) else self._dead_worker()
            if dead is None or loop != self._loop:
                raise
            self.close()
            raise RuntimeError(
                f"DataLoader worker (pid {dead}) exited unexpectedly while it handed over a batch"
            ) from error

    def _dead_worker(self) -> int | None:
        """The process id of a worker that has died, or does so just now; None if all live."""
        workers = self._processes._iterator._workers if self._processes._iterator else []
        until = time.monotonic() + 1
        while time.monotonic() < until:
            for worker in workers:
                if not worker.is_alive():
                    return int(worker.pid)
            time.sleep(0.01)
        return None

    @staticmethod
    def _samples_of(dataset: Any, epoch: int, numbers: list[int], nthreads: int) -> Any:
        if isinstance(dataset, _Tensors):
            return _tools.Loader._samples_of(dataset, epoch, numbers, nthreads)
        return _InEpochs(dataset).__getitems__([(epoch, n) for n in numbers])

    def close(self) -> None:
        """End worker processes, and the loop over them, if there is one. The next loop begins them anew."""
        self._end()

    def _end(self, *, kill: bool = False) -> None:
        self._loop += 1
        iterator = None if self._processes is None else self._processes._iterator
        while iterator is not None and self._processes._iterator is iterator:
            try:
                _forget_workers(iterator)
                self._processes._iterator = None
            except RuntimeError:  # of PyTorch's handler
                continue
            for worker in iterator._workers if kill else ():
                worker.terminate()
            iterator._shutdown_workers()
        if self._slots is not None:
            self._slots.end()
