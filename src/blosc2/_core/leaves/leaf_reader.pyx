# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Opening and reading single leaves of an archive, with as few steps as possible."""

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t

from blosc2._core.io.ascii_text cimport ascii_text
from blosc2._core.zip.archive cimport Archive
from blosc2._core.zip.key_bytes cimport last_segment_is
from blosc2._core.zip.records cimport LOCAL_LENGTH, MEMBER_FINE, Member
from blosc2._core.io.checksum cimport zip_checksum
from blosc2._core.io.readahead cimport ask_near
from blosc2._core.io.source cimport Source
from blosc2._core.codec.codec cimport DecodeContext, borrow, give_back
from blosc2._core.codec.thread_pool cimport await_gil, is_quick, offer_gil
from blosc2._core.frame.frame cimport Frame, frame_of_member
from blosc2._core.ndim.geometry cimport MAX_DIM, Geometry, geometry_of
from blosc2._core.keys.keytable cimport KeyTable
from blosc2._core.leaves.leaf_template cimport LeafTemplate

cnp.import_array()

cdef extern from *:
    """
    /* What `kind.__new__(kind)` gives. */
    static inline PyObject *made(PyTypeObject *kind, PyObject *arguments) {
        return kind->tp_new(kind, arguments, NULL);
    }
    """
    object made(type kind, tuple arguments)

cdef extern from "leaves/slots.h":
    Py_ssize_t slot_of(type kind, str name) except -1
    void fill_slot(object made, Py_ssize_t offset, object value)

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int nd, cnp.npy_intp *dims, cnp.dtype dtype, int fortran)

cdef tuple _nothing = ()
# What `__init__` of a handle sets, in the order in which `open` does.
cdef tuple _slots = ("frame", "array", "options", "urlpath", "key", "verify", "version", "_cparams")

cdef enum:
    # Bytes of a small member that is read from a file, and of the extra field in its local header.
    LOADED = 8192
    PADDING = 128


cdef class LeafReader:
    """Reads leaves of an archive that nobody changes here.

    Parameters
    ----------
    table : KeyTable
        The keys of the archive.
    hidden : str, optional
        The last segment of keys that count as not there.
    arrays, handles : type
        Classes of an array and of its frame handle. A handle is made from a frame, the options, the path and the key;
        its `array` is set to geometry, dtype and frame. Where no chunk is to be checked, what its `__init__` sets is
        put into its slots here.
    dtype_of : callable
        Gives the dtype that a text stands for; `ValueError` for what it refuses.
    options : tuple
        How handles are opened; they check nothing if `check` is false. Its `verify` says which reads are checked.
    path : str or None
        Where the archive is.
    check : bool
        Whether what is read as a whole is checked against the checksums of members.
    """

    def __cinit__(self, KeyTable table not None, str hidden, type arrays not None, type handles not None, dtype_of,
                  options, path, bint check):
        self.table, self.archive = table, table.archive
        self.source = self.archive.source
        self.hidden = None if hidden is None else hidden.encode()
        self.arrays, self.handles, self.dtype_of = arrays, handles, dtype_of
        self.options, self.path = options, path
        self.check = check
        self.verify = options.verify
        self.fills = not self.verify
        for i in range(HANDLE_SLOTS):
            self.slots[i] = slot_of(handles, _slots[i])
            self.fills = self.fills and self.slots[i] > 0
        self.slots[HANDLE_SLOTS] = slot_of(arrays, "_handle")
        self.fills = self.fills and self.slots[HANDLE_SLOTS] > 0

    def learn(self, Frame frame not None, Geometry geometry not None, cnp.dtype dtype not None):
        """Take a leaf that was opened as the one that others are compared with when they are read."""
        cdef LeafTemplate template = LeafTemplate(frame, geometry, dtype)
        if template.fits and (<object> dtype).names is None:
            with cython.critical_section(self):
                self.template = template

    cdef int64_t find(self, str key) noexcept:
        """The offset of a key; negative where it is not there, or where others have to look."""
        cdef Py_ssize_t length
        cdef const uint8_t *text = ascii_text(<PyObject *> key, &length)
        if text == NULL or length < 2 or text[0] != 0x2F or (self.hidden is not None and last_segment_is(
                text + 1, length - 1, PyBytes_AS_STRING(self.hidden), PyBytes_GET_SIZE(self.hidden))):
            return -1
        return self.table.lookup(text + 1, length - 1)

    cdef object open(self, str key):
        """The leaf of a key: an object if it is an array like most, else its frame; None for `find` < 0."""
        cdef int64_t offset = self.find(key)
        cdef Py_ssize_t *slots = self.slots
        cdef Frame frame
        if offset < 0:
            return None
        frame = frame_of_member(<void *> self.archive, self.source, offset, key, self.check)
        if not frame.holds_only_array() or frame.wants_geometry():
            return frame
        array = geometry_of(frame, self.dtype_of)
        if not self.fills or frame.checksums_len:
            handle = self.handles(frame, self.options, self.path, key)
            handle.array = array
            leaf = made(self.arrays, _nothing)
            leaf._handle = handle
            return leaf
        handle = made(self.handles, _nothing)
        fill_slot(handle, slots[0], frame)
        fill_slot(handle, slots[1], array)
        fill_slot(handle, slots[2], self.options)
        fill_slot(handle, slots[3], self.path)
        fill_slot(handle, slots[4], key)
        fill_slot(handle, slots[5], self.verify)
        fill_slot(handle, slots[6], 0)
        fill_slot(handle, slots[7], None)
        leaf = made(self.arrays, _nothing)
        fill_slot(leaf, slots[HANDLE_SLOTS], handle)
        return leaf

    cpdef object read(self, key):
        """The items of a leaf as a new array; None for one that has to be opened."""
        cdef LeafTemplate template
        cdef Source source = self.source
        cdef const uint8_t *local
        cdef uint8_t loaded[LOADED]
        cdef int64_t room
        cdef int64_t offset, chunk, size, start
        cdef Member member
        cdef DecodeContext *context
        cdef cnp.npy_intp dims[MAX_DIM]
        cdef cnp.ndarray out
        cdef bint done
        cdef int d
        with cython.critical_section(self):
            template = self.template
        if template is None or type(key) is not str:
            return None
        offset = self.find(key)
        if offset < 0 or not self.archive.peek(offset, &member):
            return None
        if member.problem != MEMBER_FINE or member.header > self.archive.directory_offset - LOCAL_LENGTH:
            return None
        room = self.archive.directory_offset - member.header
        if source.base != NULL:
            ask_near(source, member.header)
            local = source.base + member.header
        else:       # all of it in one read
            room = min(room, LOCAL_LENGTH + <int64_t> member.record.name_length + PADDING + member.size)
            if room > LOADED or source.read_small(member.header, room, self.archive.directory_offset, loaded):
                return None
            local = loaded
        if not template.match(member.record.name, member.record.name_length, member.size, local, room, &chunk, &size):
            return None
        start = chunk - template.header_len
        for d in range(template.geometry.c.ndim):
            dims[d] = template.geometry.c.shape[d]
        Py_INCREF(template.dtype)    # the next call steals one reference
        out = PyArray_Empty(template.geometry.c.ndim, dims, template.dtype, 0)
        context = borrow(template.frame.blocksize)
        try:
            if is_quick(size, template.row):
                done = not self.check or zip_checksum(0, local + start, <size_t> member.size) == member.crc
                done = done and template.decode(context, local + chunk, size, <uint8_t *> cnp.PyArray_DATA(out))
            else:
                with nogil:
                    offer_gil()
                    done = not self.check or zip_checksum(0, local + start, <size_t> member.size) == member.crc
                    done = done and template.decode(context, local + chunk, size, <uint8_t *> cnp.PyArray_DATA(out))
                    await_gil()
        finally:
            give_back(context)
        return out if done else None
