# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
"""The fast answers of a store: whether a key exists, and a leaf that is already open or simple to open."""

cimport cython
from cpython.dict cimport PyDict_Size
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from blosc2._core.frame.frame cimport Frame
from blosc2._core.io.ascii_text cimport with_slash
from blosc2._core.io.sharing cimport find, hold
from blosc2._core.io.steps cimport number_get, number_set
from blosc2._core.leaves.leaf_reader cimport LeafReader
from blosc2._core.leaves.leaf_setter cimport LeafSetter
from blosc2._core.keys.listing cimport KeyListing, is_named

from blosc2._core.io.sharing import never_freed


cdef class LeafAccess:
    """The base class of stores: it answers without Python code if it can, and otherwise calls a method of the store.

    The store has the methods `_contains` (whether a key exists), `_open` (the leaf of a key), `_leaf_of` (the leaf of a
    frame, which it remembers), `_set` and `_delete` (which change a leaf), and `_sweep`, called when more than `_sweep_at`
    leaves are remembered.

    What it finds leaves by is replaced when another version is shown, or the store is closed, maybe by another thread: each
    method takes it once, and replaces it as a whole.
    """

    cdef KeyListing _listed
    cdef str _unseen
    cdef dict _alive, _remembered
    cdef LeafReader _leaves
    cdef Py_ssize_t _forgotten          # how often both were
    cdef LeafSetter _sets           # sets simple leaves; None where nothing may be set, or in a view
    cdef int64_t _most_held         # how many references to leaves there may be before the dead ones are removed

    @property
    def _sweep_at(self):
        return number_get(&self._most_held)

    @_sweep_at.setter
    def _sweep_at(self, int64_t most):
        number_set(&self._most_held, most)

    @property
    @cython.critical_section
    def _setter(self):
        """What sets simple leaves; None where nothing may be set, or in a view."""
        return self._sets

    @_setter.setter
    @cython.critical_section
    def _setter(self, LeafSetter setter):
        self._sets = setter

    @property
    @cython.critical_section
    def _has_listing(self):
        """Whether a listing answers `key in store`."""
        return self._listed is not None

    @property
    @cython.critical_section
    def _reader(self):
        """The reader that opens leaves and reads them; None if there is none."""
        return self._leaves

    @cython.critical_section
    def _use_listing(self, KeyListing listing not None, Py_ssize_t version):
        """Let a listing answer `key in store` from now on, unless another thread has forgotten answers since the version."""
        if version == self._forgotten:
            self._listed = listing

    @cython.final
    cdef object _remember(self, dict held, str key, leaf):
        leaf = hold(held, key, leaf)
        if PyDict_Size(held) > number_get(&self._most_held):
            self._sweep()
        return leaf

    @cython.critical_section
    def _use_open_leaves(self, dict held not None, str hidden, bint find=True):
        """Find open leaves in a dictionary of references by key from now on, and remember leaves there.

        Leaves whose last segment is `hidden` are not shown. If it is not None, groups are shown. Without `find` each
        leaf is asked for by `_open`.
        """
        self._unseen = hidden
        self._alive = held if find else None
        self._remembered = held

    @cython.critical_section
    def _use_reader(self, LeafReader reader not None, Py_ssize_t version):
        """Let a reader open leaves from now on, with the same condition."""
        if version == self._forgotten:
            self._leaves = reader

    @cython.critical_section
    def _forget_answers(self):
        """Use no listing and no reader any more."""
        # Counted first: when one of them goes, another thread may set one of the version before.
        self._forgotten += 1
        self._listed = None
        self._leaves = None

    @property
    @cython.critical_section
    def _answers_version(self):
        """How often answers were forgotten: to be taken before others are made."""
        return self._forgotten

    def _contains(self, key):
        """Whether a key exists, if no listing knows it; each kind of store has its own."""
        raise NotImplementedError(key)

    def __contains__(self, key):
        cdef int shown = -1
        cdef KeyListing listed
        cdef str unseen
        key = with_slash(key)
        with cython.critical_section(self):
            listed, unseen = self._listed, self._unseen
        if listed is not None:
            shown = listed.shows(key, unseen)
        if shown >= 0:
            return shown != 0
        return bool(self._contains(key))

    @property
    @cython.critical_section
    def _holding(self):
        """The dictionary in which open leaves are remembered.

        Take it before a leaf is opened. A refresh puts another one in its place, where a leaf of the old version is not found.
        """
        return self._remembered

    def _hold(self, str key not None, leaf, dict held not None):
        """Remember a leaf as long as somebody holds it. Returns the one that another thread has opened before."""
        return self._remember(held, key, leaf)

    def _open(self, key):
        """The leaf of a key, if it is not open and no reader opens it; each kind of store has its own."""
        raise NotImplementedError(key)

    def __getitem__(self, key):
        cdef dict held
        cdef LeafReader reader
        cdef str unseen
        key = with_slash(key)
        with cython.critical_section(self):
            held, reader, unseen = self._alive, self._leaves, self._unseen
        if type(key) is not str or held is None:
            return self._open(key)
        leaf = find(<PyObject *> held, key)
        if leaf is not None and not is_named(key, unseen):
            return leaf
        if reader is None:
            return self._open(key)
        leaf = reader.open(key)
        if leaf is None:
            return self._open(key)
        if type(leaf) is Frame:
            return self._leaf_of(key, leaf, held)
        return self._remember(held, key, leaf)

    def _read_simple(self, key):
        """The items of a leaf in one native step; None for a leaf that has to be opened, or is not there."""
        cdef LeafReader reader
        cdef LeafSetter setter
        found = None
        key = with_slash(key)
        with cython.critical_section(self):
            reader, setter = self._leaves, self._sets
        if reader is not None:
            found = reader.read(key)
        if found is None and setter is not None:
            found = setter.read(key)
        return found

    def _set(self, key, value):
        """Set a leaf that is not simple to set; each kind of store has its own."""
        raise NotImplementedError(key)

    def __setitem__(self, key, value):
        cdef LeafSetter setter
        with cython.critical_section(self):
            setter = self._sets
        key = with_slash(key)
        if setter is None or not setter.set(key, value):
            self._set(key, value)

    def _delete(self, key):
        """Delete a leaf; each kind of store has its own."""
        raise NotImplementedError(key)

    def __delitem__(self, key):
        cdef LeafSetter setter
        with cython.critical_section(self):
            setter = self._sets
        key = with_slash(key)
        if setter is None or not setter.remove(key):
            self._delete(key)


never_freed(LeafAccess)
