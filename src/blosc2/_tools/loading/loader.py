"""Threads that make numbered results ahead of who takes them, in order."""

from __future__ import annotations

import atexit
import operator
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

from blosc2._core.io.sharing import item_of
from blosc2._files import no_thread
from blosc2._options import get_nthreads
from blosc2._stores import Store
from blosc2._tools.loading.samples import Dataset, Order, begin_loop, end_loop, in_epoch, naming, stacked
from blosc2.storage import NoKeywords, takes, unexpected_keyword


class _Shared:
    """What threads and consumer share. It does not hold the latter: an iterator that nobody holds ends its threads."""

    def __init__(self, make: Callable[[int], Any], first: int, stop: int, limit: int) -> None:
        self.make = make
        self.drawn = self.taken = first  # numbers that threads have begun with, and that were handed out
        self.stop, self.limit = stop, limit
        self.results: dict[int, tuple[Any, BaseException | None]] = {}  # with what was raised instead
        # A finalizer may run in a thread that has the lock.
        lock = threading.RLock()
        self.ended, self.process = False, os.getpid()
        self.threads: list[threading.Thread] = []
        self.ready, self.not_full = threading.Condition(lock), threading.Condition(lock)

    def work(self) -> None:
        while True:
            with self.not_full:
                self.not_full.wait_for(lambda: self.drawn >= self.stop or self.drawn - self.taken < self.limit)
                if self.drawn >= self.stop:
                    return
                number = self.drawn
                self.drawn += 1
            result: tuple[Any, BaseException | None]
            try:
                result = self.make(number), None
            except BaseException as error:  # noqa: BLE001 - whatever it is, the consumer raises it
                result = None, error
            with self.ready:
                self.results[number] = result
                if result[1] is not None:
                    self.stop = min(self.stop, number + 1)  # nobody takes what comes after it
                    self.not_full.notify_all()
                self.ready.notify_all()
            del result

    def end(self) -> None:
        """Tell the threads to end. It waits for nothing: a collector may call it in a thread that has the lock."""
        # What has ended when the program ends may be told again when even `os` is gone.
        if self.ended or os.getpid() != self.process:  # the threads are those of a parent
            return
        with self.not_full:
            self.stop = self.drawn
            self.ended = True
            self.results.clear()
            end_loop(self)
            self.not_full.notify_all()
            self.ready.notify_all()

    def close(self) -> None:
        """End the threads, each after the result that it is making, and wait for them."""
        self.end()
        if self.threads and os.getpid() == self.process:
            for thread in self.threads:
                if thread is not threading.current_thread():
                    thread.join()
            self.threads = []


_running: weakref.WeakSet[_Shared] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """End all threads while Python can still run them."""
    for shared in list(_running):
        shared.close()


class ReadAhead(Iterator[Any]):
    """The results of a function for the numbers ``first .. stop``, made by threads in any order, given in this one."""

    def __init__(self, make: Callable[[int], Any], first: int, stop: int, workers: int, prefetch: int) -> None:
        self._stop = stop
        self._shared = shared = _Shared(make, first, stop, workers * prefetch)
        # Daemons, so that a program that ends in the middle of a loop gets to its exit handlers, which end them.
        shared.threads += [
            threading.Thread(target=shared.work, name=f"blosc2-loader-{number}", daemon=True)
            for number in range(min(workers, max(stop - first, 0)))
        ]
        _running.add(shared)
        begin_loop(shared)
        weakref.finalize(self, shared.end).atexit = False
        for number, thread in enumerate(shared.threads):
            try:
                thread.start()
            except RuntimeError as error:
                del shared.threads[number:]
                if not number:  # else those that there are do all
                    shared.end()
                    raise no_thread(error) from None
                break

    def __next__(self) -> Any:
        shared = self._shared
        if os.getpid() != shared.process:
            raise RuntimeError("a loop over a loader does not go on in a forked process: begin one there")
        with shared.ready:
            number = shared.taken
            shared.ready.wait_for(lambda: number >= self._stop or shared.ended or number in shared.results)
            is_over = number not in shared.results
            result, error = shared.results.pop(number, (None, None))
            shared.taken += 1
            shared.not_full.notify()
        if is_over:
            self.close()
            raise StopIteration
        if error is not None:
            self.close()
            try:
                raise error
            finally:
                del error  # or it would refer to itself by its traceback
        return result

    def close(self) -> None:
        """End the threads, each after the result that it is making."""
        self._shared.close()


#: Keywords of PyTorch's `DataLoader`.
_OF_TORCH: Final = {
    "num_workers": "; it is workers= here.",
    "prefetch_factor": "; it is prefetch= here: batches that each worker may be ahead.",
    "sampler": ": shuffle=, seed=, rank= and replicas= say the order.",
    "batch_sampler": ": batch_size=, shuffle= and drop_last= say what is in a batch.",
    "generator": "; it is seed= here.",
    "pin_memory": ": torch.utils.data.DataLoader pins, and takes a dataset of blosc2.torch.",
    "persistent_workers": ": workers stay as long as the loader is iterated.",
    "worker_init_fn": ": transform= of Samples runs in the workers, with a generator of its own if rng=True.",
}


def unstacked(samples: Sequence[Any], one_by_one: bool, collate: Callable[..., Any] | None) -> Any:
    """A single sample, or what a function makes of it or of a list of samples."""
    given = samples[0] if one_by_one else list(samples)
    return given if collate is None else collate(given)


@takes(NoKeywords)
class Loader:
    """The batches of a dataset. Each ``for`` loop over it is one epoch.

    Threads of this process read ahead: reading needs no GIL, so that they take all cores, without worker processes,
    without copies between these, and with one mapping and one block cache. The batches come in their order, and are the
    same for any number of workers.

    Leaving a loop early ends it, and waits for the batches that threads are just making.

    Parameters
    ----------
    dataset : Samples, PatchSampler, or another one with ``__len__`` and ``__getitem__``
    batch_size : int, optional
        None gives samples one by one, as they are.
    shuffle : bool
        Take the samples of each epoch in another order, which is computed (`Permutation`) and takes no memory.
    seed : int, optional
        Chooses the orders; by default the seed of the dataset.
    drop_last : bool
        Leave out samples that do not fill the last batch.
    workers : int
        Threads that read ahead; 0 reads each batch when it is asked for, with all threads of `set_nthreads`.
    prefetch : int
        Batches that each worker may be ahead.
    rank, replicas : int
        Of several processes that train together, which one this is: each gets its share of every epoch. Shares are
        of one length: if it does not divide, the first samples come twice, or the last are left out with `drop_last`.
    collate_fn : callable, optional
        Makes a batch of a list of samples, which may differ in shape; ``list`` leaves them as they are. By default the
        samples are stacked. Threads call it at the same time.

    Raises
    ------
    Exception
        What reading a batch or a transform raises comes from the loop, when that batch is due; it names the sample
        and its key. Batches before it come first.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> loader = blosc2.Loader(blosc2.Samples(blosc2.asarray(np.arange(10))), 4, shuffle=True, workers=2)
    >>> batches = list(loader)
    >>> [len(batch) for batch in batches], sorted(int(n) for batch in batches for n in batch)
    ([4, 4, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])

    A training that stops in the middle of an epoch goes on exactly there:

    >>> for batch in loader:
    ...     state = loader.state_dict()
    ...     break
    >>> rest = list(loader)  # doctest: +SKIP
    >>> loader.load_state_dict(state)
    >>> len(list(loader))
    2
    """

    #: What workers are.
    kind = "threads"
    # Datasets that read batches, and what makes a batch of the samples of others.
    _reading: Any = Dataset
    _stack: Callable[[Any], Any] = staticmethod(stacked)

    def __init__(
        self, dataset: Any, batch_size: int | None = 1, *, shuffle: bool = False, seed: int | None = None,
        drop_last: bool = False, workers: int = 0, prefetch: int = 2, rank: int = 0, replicas: int = 1,
        collate_fn: Callable[..., Any] | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        for name in kwargs:
            raise unexpected_keyword(name, (), item_of(_OF_TORCH, name) or "")
        if collate_fn is not None and not callable(collate_fn):
            raise TypeError("collate_fn must be callable")
        if isinstance(dataset, (str, os.PathLike, Store)):
            shown = "store" if isinstance(dataset, Store) else repr(os.fspath(dataset))
            raise TypeError(f"dataset must be a dataset, such as blosc2.Samples({shown})")
        self.dataset = dataset
        self.collate_fn, self._one_by_one = collate_fn, batch_size is None
        self.workers, self.prefetch = operator.index(workers), operator.index(prefetch)
        if self.workers < 0 or self.prefetch < 1:
            raise ValueError(f"workers={workers} and prefetch={prefetch}: at least 0 and 1 are needed")
        seed = getattr(dataset, "seed", 0) if seed is None else seed
        self._order = Order(
            len(dataset), 1 if batch_size is None else batch_size, shuffle=shuffle, seed=seed, drop_last=drop_last,
            rank=rank, replicas=replicas,
        )  # fmt: skip
        # The epoch and the batch that the next loop begins with, and where the current one is.
        self._next = (0, 0)
        self._at = (0, 0)

    @property
    def batch_size(self) -> int | None:
        """Samples in a batch; None if they come one by one."""
        return None if self._one_by_one else self._order.batch_size

    @property
    def epoch(self) -> int:
        """The epoch of the current or else of the next loop."""
        return self._at[0]

    def set_epoch(self, epoch: int) -> None:
        """Begin the next loop with this epoch, which is at least 0."""
        epoch = operator.index(epoch)
        if epoch < 0:
            raise ValueError(f"epoch must be at least 0, not {epoch}")
        self._next = self._at = (epoch, 0)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return self._order.batches

    def __iter__(self) -> Iterator[Any]:
        epoch, first = self._next
        self._next = (epoch + 1, 0)
        self._at = (epoch, first)
        return self._count(epoch, first, self._batches(epoch, first))

    def _count(self, epoch: int, first: int, batches: Iterator[Any]) -> Iterator[Any]:
        """Note how far the loop is, so that its state does not depend on what is read ahead."""
        try:
            for number, batch in enumerate(batches, first + 1):
                self._at = (epoch, number) if number < len(self) else (epoch + 1, 0)
                yield batch
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()

    # ------------------------------------------------------------------ batches
    def _batches(self, epoch: int, first: int) -> Iterator[Any]:
        make = self._maker(epoch, max(1, get_nthreads() // max(1, self.workers)))
        if self.workers == 0:
            return map(make, range(first, len(self)))
        return ReadAhead(make, first, len(self), self.workers, self.prefetch)

    def _maker(self, epoch: int, nthreads: int) -> Callable[[int], Any]:
        order, dataset, batch_of = self._order, self.dataset, self._form()

        def make(number: int) -> Any:
            with naming(f"batch {number} of epoch {epoch}"):
                try:
                    return batch_of(dataset, epoch, order.numbers(epoch, number).tolist(), nthreads)
                except StopIteration as error:  # which would end the loop as if the epoch were over
                    raise RuntimeError("a sample or its transform raised StopIteration") from error

        return make

    def _form(self) -> Callable[[Any, int, list[int], int], Any]:
        """What reads a batch of a dataset in the form that the caller of this loader wants. It does not hold this."""
        reading, stack, samples_of = self._reading, self._stack, self._samples_of
        one_by_one, collate = self._one_by_one, self.collate_fn
        is_stacked = collate is None and not one_by_one

        def made(dataset: Any, epoch: int, numbers: list[int], nthreads: int) -> Any:
            if is_stacked and isinstance(dataset, reading):
                return dataset._batch([epoch] * len(numbers), numbers, nthreads)
            samples = samples_of(dataset, epoch, numbers, nthreads)
            return stack(samples) if is_stacked else unstacked(samples, one_by_one, collate)

        return made

    @staticmethod
    def _samples_of(dataset: Any, epoch: int, numbers: list[int], nthreads: int) -> Sequence[Any]:
        if isinstance(dataset, Dataset):
            return dataset._samples([epoch] * len(numbers), numbers, nthreads)
        with in_epoch(epoch):
            return [dataset[n] for n in numbers]

    # ------------------------------------------------------------------ state
    def state_dict(self) -> dict[str, Any]:
        """Where the loop is: the epoch, the batches that it has taken, and what the order depends on.

        Called in a loop, it counts the batch at hand as taken.
        """
        epoch, batch = self._at
        return {"epoch": epoch, "batch": batch, "dataset_seed": getattr(self.dataset, "seed", None),
                **self._order.state()}  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Begin the next loop where another one was.

        Raises
        ------
        ValueError
            The other loader had another length, batch size, seed or order, so that batches would come twice or never;
            or the state is incomplete.
        """
        mine = self.state_dict()
        if not isinstance(state, Mapping):
            raise TypeError(f"the state must be one of state_dict(), not {type(state).__name__}")
        missing = [name for name in mine if name not in state]
        if missing:
            raise ValueError(f"the state has no {missing[0]!r}: it is not one of state_dict()")
        for name in (*self._order.state(), "dataset_seed"):
            if state[name] != mine[name]:
                raise ValueError(
                    f"the state was saved with {name}={state[name]!r}, and this loader has {mine[name]!r}: "
                    "it cannot go on from there"
                )
        epoch, batch = operator.index(state["epoch"]), operator.index(state["batch"])
        if epoch < 0 or not 0 <= batch < len(self):
            raise ValueError(f"the state is at batch {batch} of epoch {epoch}, and an epoch has {len(self)}")
        self._next = self._at = (epoch, batch)

    # ------------------------------------------------------------------ end
    def close(self) -> None:
        """End workers that outlast a loop, of which threads have none; the loader can still be used."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        workers = f"workers={self.workers}, kind={self.kind!r}" if self.workers else "workers=0"
        return f"Loader({type(self.dataset).__name__} of {self._order.length}, {self.batch_size}, {workers})"
