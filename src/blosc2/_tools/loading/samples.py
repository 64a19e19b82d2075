"""A map-style dataset: samples of one or several fields, read in batches."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from blosc2._indexing import Items
from blosc2._options import get_nthreads
from blosc2._tools.loading.batch_memory import large_memory
from blosc2._tools.loading.fields import FieldNames, Source, StoreLeaves, source_of
from blosc2._tools.loading.order import mixed_all

#: The number of a sample, or an epoch and a number.
Number = int | tuple[int, int]
#: A shape and a dtype.
Like = tuple[tuple[int, ...], np.dtype[Any]]


class BatchList(Sequence[Any]):
    """A batch as a sequence of samples, which are made when somebody takes them; a collate function may need none.

    Parameters
    ----------
    count : int
    sample : callable
        Gives a sample by its position.
    whole : array, dict of arrays, or None
        The batch that they are rows of, if there is one.
    """

    def __init__(self, count: int, sample: Callable[[int], Any], whole: Any) -> None:
        self._positions, self._sample, self.whole = range(count), sample, whole

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, position: Any) -> Any:
        found = self._positions[position]
        return [self._sample(i) for i in found] if isinstance(found, range) else self._sample(found)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)})"


class Dataset:
    """What `Samples` and `PatchSampler` share: numbers, transforms, and how batches are put together.

    Subclasses read: `_read` gives the arrays of some samples by field.
    """

    _source: Source
    seed: int = 0
    #: Whether numbers may be pairs of an epoch and a number.
    takes_epochs = True

    def _prepare(self, source: Any, fields: FieldNames, keys: Any, transform: Any, rng: bool, seed: int) -> None:
        self._source = source_of(source, fields, keys)
        if not self._source.length:
            raise ValueError("there are no samples: the arrays have no rows")
        if transform is not None and not callable(transform):
            raise TypeError("transform must be callable")
        if rng and transform is None:
            raise ValueError("rng=True gives random numbers to a transform, and there is none")
        self.transform: Callable[..., Any] | None = transform
        self.rng, self.seed = bool(rng), operator.index(seed)

    # ------------------------------------------------------------------ what joins other libraries replaces
    def _new(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, Items]:
        """Memory for a batch: what callers get, and the same memory as a NumPy array."""
        memory = large_memory(math.prod(shape) * dtype.itemsize)
        items = np.empty(shape, dtype) if memory is None else memory.view(dtype).reshape(shape)
        return items, items

    def _new_fields(self, like: Mapping[str | None, Like]) -> dict[str | None, tuple[Any, Items]]:
        """The same for each field of a batch, of some shape and dtype."""
        return {name: self._new(shape, dtype) for name, (shape, dtype) in like.items()}

    def _as_sample(self, items: Items) -> Any:
        """What a transform gets of an array that was read by itself."""
        return items

    def _stacked(self, samples: list[Any]) -> Any:
        """A batch of what a transform gave."""
        return stacked(samples)

    def _fields_shown(self) -> str:
        named = [name for name in self._source.names if name is not None]
        return f", fields {', '.join(map(repr, named))}" if named else ""

    # ------------------------------------------------------------------ samples
    def __len__(self) -> int:
        raise NotImplementedError

    def _read(self, epochs: list[int], numbers: list[int], nthreads: int) -> dict[str | None, Any]:
        """The items of samples by their epochs and numbers: by field what callers get of a batch, or a list."""
        raise NotImplementedError

    def _label(self, epoch: int, number: int) -> str:  # noqa: ARG002 - patches of an epoch are of other volumes
        return self._source.label(number)

    def __getitem__(self, number: Number) -> Any:
        """A sample: an array, or a dict of arrays by field; or what the transform makes of it."""
        return self._samples(*self._split([number]), get_nthreads())[0]

    def __getitems__(self, numbers: Sequence[Number]) -> BatchList:
        """Several samples, read in one call for each field. They are rows of one batch, if there is no transform."""
        return self._samples(*self._split(numbers), get_nthreads())

    def read_batch(self, numbers: Sequence[Number], nthreads: int | None = None) -> Any:
        """A batch: an array, or a dict of arrays by field, with a first axis of the samples.

        Parameters
        ----------
        numbers : sequence of int, or of tuple of int
            Numbers of samples, or pairs of an epoch and a number.
        nthreads : int, optional
            Threads that may share the decoding.
        """
        return self._batch(*self._split(numbers), get_nthreads() if nthreads is None else nthreads)

    def _split(self, numbers: Sequence[Number]) -> tuple[list[int], list[int]]:
        """Epochs and numbers of samples, checked."""
        if not len(numbers):
            raise ValueError("a batch needs at least one sample")
        length = len(self)
        epochs, checked = [], []
        for number in numbers:
            epoch, given = number if isinstance(number, tuple) else (0, number)
            index = operator.index(given)
            index += length if index < 0 else 0
            if not 0 <= index < length:
                raise IndexError(f"sample {given} of a dataset of {length}")
            epochs.append(operator.index(epoch))
            checked.append(index)
        return epochs, checked

    def _batch(self, epochs: list[int], numbers: list[int], nthreads: int) -> Any:
        if self.transform is not None:
            return self._stacked(list(self._samples(epochs, numbers, nthreads)))
        found = self._read(epochs, numbers, nthreads)
        return found.get(None, found)

    def _samples(self, epochs: list[int], numbers: list[int], nthreads: int) -> BatchList:
        found = self._read(epochs, numbers, nthreads)
        whole = found.get(None, found)

        def sample(i: int) -> Any:
            return whole[i] if None in found else {name: rows[i] for name, rows in found.items()}

        if self.transform is None:
            return BatchList(len(numbers), sample, whole)
        made = []
        for i, (epoch, number) in enumerate(zip(epochs, numbers, strict=True)):
            with naming(f"sample {number}, {self._label(epoch, number)}"):
                made.append(self.transform(sample(i), *self._random(epoch, number)))
        return BatchList(len(made), made.__getitem__, None)

    def _random(self, epoch: int, number: int) -> tuple[Any, ...]:
        """The generator that a transform gets, which depends on the seed and the sample alone."""
        return (np.random.Generator(np.random.PCG64(mixed_all(self.seed, epoch, number, 1))),) if self.rng else ()


class Samples(Dataset):
    """Samples of a store, or rows of arrays: a map-style dataset, which needs no other library.

    A batch is read in one call for each field, in several threads, into new memory that nothing copies any more.

    Parameters
    ----------
    source : NDArray, dict of NDArray, store or path
        An array has a sample in each row; a dict has arrays of one length by field. A store must be open with
        ``mode="r"``; a path is opened so, mapped.
    fields : sequence of str or dict of str, optional
        Of a store: names of the leaves below the key of a sample, such as ``("image", "mask")``, or patterns by field,
        such as ``{"image": "/images/{}", "mask": "/masks/{}"}``. By default each leaf is a sample.
    keys : iterable of str, optional
        The keys of the samples; by default all that have the first field, in the order of the store.
    transform : callable, optional
        Called with each sample; what it returns is the sample then. Threads call it at the same time.
    rng : bool
        Give `transform` a second argument: a `numpy.random.Generator` that depends on the seed, the epoch and the
        number of the sample alone.
    seed : int
        For `rng`, and for the order of a `Loader`.

    Raises
    ------
    KeyError
        A sample lacks a field, or a key does not exist; the error says which.
    ValueError
        There are no samples; or, when a batch is read, a sample has another shape or dtype than the first one and there
        is no `transform`. The error names its key.
    StaleHandleError
        When a sample is read: the store was replaced, changed or refreshed since the dataset was made, so that a
        batch would mix versions.

    Examples
    --------
    >>> import numpy as np
    >>> import blosc2
    >>> images = blosc2.asarray(np.arange(24, dtype="u1").reshape(6, 2, 2))
    >>> labels = blosc2.asarray(np.arange(6))
    >>> samples = blosc2.Samples({"image": images, "label": labels})
    >>> len(samples)
    6
    >>> int(samples[5]["label"])
    5
    >>> batch = samples.read_batch([4, 1])
    >>> batch["image"].shape, batch["label"]
    ((2, 2, 2), array([4, 1]))
    """

    def __init__(
        self, source: Any, fields: FieldNames = None, *, keys: Iterable[str] | None = None,
        transform: Callable[..., Any] | None = None, rng: bool = False, seed: int = 0,
    ) -> None:  # fmt: skip
        self._prepare(source, fields, keys, transform, rng, seed)
        self._like = {name: self._source.like(name) for name in self._source.names}

    def __len__(self) -> int:
        return self._source.length

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} samples{self._fields_shown()})"

    def _read(self, epochs: list[int], numbers: list[int], nthreads: int) -> dict[str | None, Any]:  # noqa: ARG002
        found: dict[str | None, Any] = {}
        count = len(numbers)
        new = self._new_fields({name: ((count, *shape), dtype) for name, (shape, dtype) in self._like.items()})
        for name, (given, out) in new.items():
            try:
                self._source.read(numbers, name, out, nthreads)
            except ValueError:
                unlike = self._unlike(numbers, name)
                if unlike is None:
                    raise
                if self.transform is None:
                    raise unlike from None
                rows = self._source.read(numbers, name, None, nthreads)
                given = [self._as_sample(row) for row in rows]
            found[name] = given
        return found

    def _unlike(self, numbers: list[int], name: str | None) -> ValueError | None:
        """An error that names the first sample which is not like the first of all; None if there is none."""
        source, (shape, dtype) = self._source, self._like[name]
        if not isinstance(source, StoreLeaves):
            return None
        for number in numbers:
            leaf = source.leaf(number, name)
            if (leaf.shape, leaf.dtype) != (shape, dtype):
                return ValueError(
                    f"sample {number}: key {source.key(number, name)!r} has shape {leaf.shape} and dtype {leaf.dtype}, "
                    f"and sample 0, {source.key(0, name)!r}, has {shape} and {dtype}: they do not fit into one batch "
                    "without a transform that makes them alike"
                )
        return None


@contextmanager
def naming(where: str) -> Any:
    """Add to errors where they were raised."""
    try:
        yield
    except Exception as error:
        error.add_note(where)
        raise


def stacked(samples: list[Any]) -> Any:
    """A batch of samples: arrays and numbers are stacked, dicts and tuples field by field; other things stay a list."""
    first = samples[0]
    if isinstance(first, dict):
        return {name: stacked([sample[name] for sample in samples]) for name in first}
    if isinstance(first, tuple):
        parts = [stacked(list(part)) for part in zip(*samples, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if isinstance(first, (np.ndarray, np.generic, int, float)):
        return np.stack([np.asarray(sample) for sample in samples])
    return samples
