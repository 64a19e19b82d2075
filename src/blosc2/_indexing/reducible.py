"""The methods of arrays and fields that reduce their items."""

from __future__ import annotations

from typing import Any


class Reducible:
    """Base of `NDArray` and `NDField`: reductions, whose parameters are those of the functions of `blosc2`."""

    __slots__ = ()

    def _reduced(self, name: str, axis: Any, keepdims: bool, absent: dict[str, Any], **options: Any) -> Any:
        """What the methods do; keywords that they do not know are in `absent`."""
        raise NotImplementedError

    def sum(
        self,
        axis: Any = None,
        dtype: Any = None,
        keepdims: bool = False,
        *,
        out: Any = None,
        initial: Any = None,
        where: Any = None,
        **absent: Any,
    ) -> Any:
        """The sum of the items, of all or along axes. See `blosc2.sum`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).sum(axis=0)
        array([3, 5, 7])
        """
        return self._reduced("sum", axis, keepdims, absent, dtype=dtype, out=out, initial=initial, where=where)

    def prod(
        self,
        axis: Any = None,
        dtype: Any = None,
        keepdims: bool = False,
        *,
        out: Any = None,
        initial: Any = None,
        where: Any = None,
        **absent: Any,
    ) -> Any:
        """The product of the items, of all or along axes. See `blosc2.prod`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).prod(axis=0)
        array([ 0,  4, 10])
        """
        return self._reduced("prod", axis, keepdims, absent, dtype=dtype, out=out, initial=initial, where=where)

    def mean(
        self,
        axis: Any = None,
        dtype: Any = None,
        keepdims: bool = False,
        *,
        out: Any = None,
        where: Any = None,
        **absent: Any,
    ) -> Any:
        """The mean of the items, of all or along axes. See `blosc2.mean`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).mean(axis=1)
        array([1., 4.])
        """
        return self._reduced("mean", axis, keepdims, absent, dtype=dtype, out=out, where=where)

    def var(
        self,
        axis: Any = None,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        out: Any = None,
        where: Any = None,
        **absent: Any,
    ) -> Any:
        """The variance of the items, of all or along axes. See `blosc2.var`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).var(axis=0)
        array([2.25, 2.25, 2.25])
        """
        return self._reduced("var", axis, keepdims, absent, dtype=dtype, ddof=ddof, out=out, where=where)

    def std(
        self,
        axis: Any = None,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        out: Any = None,
        where: Any = None,
        **absent: Any,
    ) -> Any:
        """The standard deviation of the items, of all or along axes. See `blosc2.std`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).std(axis=0)
        array([1.5, 1.5, 1.5])
        """
        return self._reduced("std", axis, keepdims, absent, dtype=dtype, ddof=ddof, out=out, where=where)

    def min(
        self,
        axis: Any = None,
        keepdims: bool = False,
        *,
        out: Any = None,
        initial: Any = None,
        where: Any = None,
        **absent: Any,
    ) -> Any:
        """The smallest of the items, of all or along axes. See `blosc2.min`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).min(axis=1)
        array([0, 3])
        """
        return self._reduced("min", axis, keepdims, absent, out=out, initial=initial, where=where)

    def max(
        self,
        axis: Any = None,
        keepdims: bool = False,
        *,
        out: Any = None,
        initial: Any = None,
        where: Any = None,
        **absent: Any,
    ) -> Any:
        """The largest of the items, of all or along axes. See `blosc2.max`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).max(axis=1)
        array([2, 5])
        """
        return self._reduced("max", axis, keepdims, absent, out=out, initial=initial, where=where)

    def any(
        self, axis: Any = None, keepdims: bool = False, *, out: Any = None, where: Any = None, **absent: Any
    ) -> Any:
        """Whether any item is true, of all or along axes. See `blosc2.any`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).any(axis=1)
        array([ True,  True])
        """
        return self._reduced("any", axis, keepdims, absent, out=out, where=where)

    def all(
        self, axis: Any = None, keepdims: bool = False, *, out: Any = None, where: Any = None, **absent: Any
    ) -> Any:
        """Whether all items are true, of all or along axes. See `blosc2.all`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).all(axis=1)
        array([False,  True])
        """
        return self._reduced("all", axis, keepdims, absent, out=out, where=where)

    def argmin(self, axis: Any = None, keepdims: bool = False, *, out: Any = None, **absent: Any) -> Any:
        """The index of the smallest item, of all or along an axis; of several the first. See `blosc2.argmin`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).argmin(axis=1)
        array([0, 0])
        """
        return self._reduced("argmin", axis, keepdims, absent, out=out)

    def argmax(self, axis: Any = None, keepdims: bool = False, *, out: Any = None, **absent: Any) -> Any:
        """The index of the largest item, of all or along an axis; of several the first. See `blosc2.argmax`.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.arange(6, shape=(2, 3)).argmax(axis=1)
        array([2, 2])
        """
        return self._reduced("argmax", axis, keepdims, absent, out=out)
