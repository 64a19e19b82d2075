# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False
"""The fast answers of a store: whether a key is there, and a leaf that is already open or simple to open."""

from cpython.dict cimport PyDict_GetItem, PyDict_Size
from cpython.object cimport PyObject

from blosc2._core.frame.frame cimport Frame
from blosc2._core.leaves.weak_cache cimport alive, hold
from blosc2._core.leaves.leaf_reader cimport LeafReader
from blosc2._core.keys.listing cimport KeyListing
from blosc2._core.keys.membership cimport is_named


cdef class LeafLookup:
    """A mapping that asks its class only when what it was given here does not know.

    A class that is made from it has a method `_contains` for whether a key is there, `_open` for the leaf of a key,
    `_leaf_of` for the leaf that a frame is, which it remembers, and `_sweep`, called when more than `_sweep_at` leaves are remembered.
    """

    cdef KeyListing _listed
    cdef str _unseen
    cdef dict _alive
    cdef LeafReader _leaves
    cdef public Py_ssize_t _sweep_at    # references to leaves, dead or alive, above which they are looked through

    @property
    def _looks_up(self):
        """Whether a listing is asked."""
        return self._listed is not None

    @property
    def _reader(self):
        """What opens leaves and reads them, None where nothing does."""
        return self._leaves

    def _look_up_in(self, KeyListing listing not None):
        """Ask a listing from now on."""
        self._listed = listing

    def _look_among(self, dict held not None, str hidden):
        """Ask references to leaves by key from now on, and note those that are opened here there.

        Leaves whose last segment is `hidden` are not shown; where there are such, groups are shown.
        """
        self._unseen = hidden
        self._alive = held

    def _read_by(self, LeafReader reader not None):
        """Open leaves by a reader from now on."""
        self._leaves = reader

    def _forget_answers(self):
        """Ask no listing and no reader any more."""
        self._listed = None
        self._leaves = None

    def _contains(self, key):
        """What says it where no listing does; classes have their own."""
        raise NotImplementedError(key)

    def __contains__(self, key):
        cdef int shown
        cdef KeyListing listed = self._listed
        if listed is not None:
            shown = listed.shows(key, self._unseen)
            if shown >= 0:
                return shown != 0
        return bool(self._contains(key))

    def _open(self, key):
        """What opens the leaf of a key where no reader does; classes have their own."""
        raise NotImplementedError(key)

    def __getitem__(self, key):
        cdef dict held = self._alive
        cdef LeafReader reader = self._leaves
        cdef PyObject *found
        if type(key) is not str or held is None:
            return self._open(key)
        found = PyDict_GetItem(held, key)
        if found != NULL:
            leaf = alive(<object> found)
            if leaf is not None and not is_named(key, self._unseen):
                return leaf
        if reader is None:
            return self._open(key)
        leaf = reader.open(key)
        if leaf is None:
            return self._open(key)
        if type(leaf) is Frame:
            return self._leaf_of(key, leaf)
        leaf = hold(held, key, leaf)
        if PyDict_Size(held) > self._sweep_at:
            self._sweep()
        return leaf
