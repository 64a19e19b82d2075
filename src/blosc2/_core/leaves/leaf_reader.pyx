# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""Opening and reading leaves of an archive: single ones with as few steps as possible, many by several threads.

Leaves that are read together are mostly alike. One is opened on the slow path, and becomes the template that others are
compared with: its checks hold for each leaf whose header has the same bytes, except for the lengths of frame and chunk.
Other leaves are left to the caller, who makes one of them the template or opens them one by one. So everything that is
accepted here is accepted there too.
"""

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Size
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy

from blosc2._core.codec.chunk cimport CHUNK_HEADER, CHUNK_OK, KIND_RAW, Chunk, inspect
from blosc2._core.codec.codec cimport DecodeContext, borrow, decode_whole_chunk, give_back, reserve_stored
from blosc2._core.codec.thread_pool cimport (
    MOST_WORKERS, Job, WorkerGroup, acquire_group, await_gil, is_quick, offer_gil, release_group, run_in_group)
from blosc2._core.frame.frame cimport MIN_TRAILER, TRAILER_TAIL, Frame, frame_at, frame_of_member
from blosc2._core.io.ascii_text cimport ascii_text, with_slash
from blosc2._core.io.checksum cimport zip_checksum
from blosc2._core.io.endian cimport u32, u64
from blosc2._core.io.memory cimport prefetch, read_once, read_once_big
from blosc2._core.io.readahead cimport (
    LOCAL, PAGE, WHOLE_FRAME, Wanted, ask_near, begin_asking, end_asking, is_due, is_missed, want, want_frame)
from blosc2._core.io.sharing cimport Lock
from blosc2._core.io.source cimport Source
from blosc2._core.io.steps cimport atomic_state, item_of, state_change, state_get, state_set
from blosc2._core.keys.key_slots cimport is_far, is_near, lookup_far
from blosc2._core.keys.keytable cimport DAMAGED, NO_KEY, KeyTable
from blosc2._core.ndim.geometry cimport MAX_DIM, Geometry, geometry_of
from blosc2._core.zip.archive cimport Archive
from blosc2._core.zip.catalog cimport SLOT_LENGTH, Catalog, slot_home, slot_offset, slot_tag
from blosc2._core.zip.key_bytes cimport key_hash, last_segment_is
from blosc2._core.zip.records cimport CENTRAL_LENGTH, LOCAL_LENGTH, MEMBER_FINE, Member

cnp.import_array()

cdef enum:
    # Bytes of a table of offsets that is compared.
    MOST_INDEX = 4096
    # Fields of a header: length of the frame, and of its chunks.
    FRAME_LEN = 16
    CBYTES = 39
    # What the length of a trailer follows.
    TRAILER_MARK = 0xCE


cdef class LeafTemplate:
    """A leaf that others are compared with: a frame of one chunk, whose bytes are the items in order."""

    def __cinit__(self, Frame frame not None, Geometry geometry not None, cnp.dtype dtype not None):
        frame.load_index()
        if (frame.chunk_count != 1 or frame.header == NULL or frame.entry(0) != 0 or geometry.c.nchunks != 1
                or not geometry.c.in_order or geometry.c.size == 0 or frame.needs_geometry or frame.variable
                or geometry.c.chunk_nbytes != geometry.c.size * geometry.c.itemsize):
            return
        at = frame.chunks_stop - frame.offset
        room = frame.frame_len - frame.trailer_len - at
        if room > MOST_INDEX:
            return
        self.index_bytes = frame.source.read(frame.offset + at, room)
        self.index, self.index_len = <const uint8_t *> PyBytes_AS_STRING(self.index_bytes), room
        self.frame, self.geometry, self.dtype = frame, geometry, dtype
        self.header, self.header_len = frame.header, frame.header_len
        self.row = geometry.c.chunk_nbytes
        self.fits = True

    cdef bint match(self, const uint8_t *name, int64_t length, int64_t size, const uint8_t *p, int64_t room, int64_t *chunk,
                    int64_t *chunk_size) noexcept nogil:
        """Whether a member is like it, from its local header on; where its chunk is behind that."""
        cdef int64_t start
        cdef uint32_t lengths
        cdef int64_t trailer_len
        cdef uint64_t cbytes, tail
        cdef const uint8_t *trailer
        cdef const uint8_t *h = self.header
        if room < LOCAL_LENGTH or u32(p) != 0x04034B50:
            return False
        lengths = <uint32_t> (read_once(p + 22) >> 32)
        if <int64_t> (lengths & 0xFFFF) != length or length > room - LOCAL_LENGTH:
            return False
        if memcmp(p + LOCAL_LENGTH, name, <size_t> length):
            return False
        start = LOCAL_LENGTH + length + (lengths >> 16)
        if start > room or size > room - start or size < (
                self.header_len + CHUNK_HEADER + self.index_len + MIN_TRAILER):
            return False
        p += start
        if read_once_big(p + FRAME_LEN) != <uint64_t> size:
            return False
        cbytes = read_once_big(p + CBYTES)
        if cbytes < CHUNK_HEADER or cbytes > <uint64_t> (size - self.header_len - self.index_len - MIN_TRAILER):
            return False
        if memcmp(p, h, FRAME_LEN) or memcmp(p + FRAME_LEN + 8, h + FRAME_LEN + 8, CBYTES - FRAME_LEN - 8):
            return False
        if memcmp(p + CBYTES + 8, h + CBYTES + 8, <size_t> (self.header_len - CBYTES - 8)):
            return False
        # One chunk, right behind the header.
        if memcmp(p + self.header_len + cbytes, self.index, <size_t> self.index_len):
            return False
        # What the slow path looks at of a trailer: its length, at the end, and that it begins there.
        tail = read_once_big(p + size - TRAILER_TAIL) >> 24
        trailer_len = <uint32_t> tail
        if tail >> 32 != TRAILER_MARK or trailer_len < MIN_TRAILER or (
                trailer_len > size - self.header_len - <int64_t> cbytes - self.index_len):
            return False
        trailer = p + size - trailer_len
        if trailer[0] != 0x94 or trailer[1] != 1:
            return False
        chunk[0] = start + self.header_len
        chunk_size[0] = <int64_t> cbytes
        return True

    cdef bint decode(self, DecodeContext *context, const uint8_t *p, int64_t size, uint8_t *to) noexcept nogil:
        """Decode the chunk of such a leaf; False for one that takes the slow path."""
        cdef Chunk chunk
        if inspect(p, size, &chunk):
            return False
        if chunk.nbytes != self.row or chunk.variable or chunk.needs_geometry or chunk.kind < KIND_RAW:
            return False
        chunk.loaded = chunk.cbytes
        if chunk.kind == KIND_RAW:
            memcpy(to, p + CHUNK_HEADER, <size_t> self.row)
            return True
        return decode_whole_chunk(context, &chunk, to) == CHUNK_OK


# Leaves one after the other.


cdef extern from *:
    """
    /* What `kind.__new__(kind)` gives. */
    static inline PyObject *made(PyTypeObject *kind, PyObject *arguments) {
        return kind->tp_new(kind, arguments, NULL);
    }
    """
    object made(type kind, tuple arguments)

cdef extern from *:
    """
    /* Slots of Python classes (`__slots__`), filled where they lie: in an object that nobody else has seen yet, Python's own way of
     * setting them looks the name up in the class and, without a GIL, takes a lock, for each of them. */
    #include <structmember.h>

    /* Where objects of a class have a slot; 0 where that is no slot, -1 with an error. */
    static Py_ssize_t slot_of(PyTypeObject *kind, PyObject *name) {
      PyObject *found = PyObject_GetAttr((PyObject *)kind, name);
      PyMemberDef *member;
      Py_ssize_t offset = 0;
      if (found == NULL) return -1;
      if (Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        member = ((PyMemberDescrObject *)found)->d_member;
        if (member->type == T_OBJECT_EX) offset = member->offset;
      }
      Py_DECREF(found);
      return offset;
    }

    /* Fill an empty slot. */
    static inline void fill_slot(PyObject *object, Py_ssize_t offset, PyObject *value) {
      *(PyObject **)((char *)object + offset) = Py_NewRef(value);
    }
    """
    Py_ssize_t slot_of(type kind, str name) except -1
    void fill_slot(object made, Py_ssize_t offset, object value)

cdef extern from "numpy/arrayobject.h":
    object PyArray_Empty(int nd, cnp.npy_intp *dims, cnp.dtype dtype, int fortran)

cdef tuple _nothing = ()
# What `__init__` of a handle sets, those that each has for itself first, and where an array has its handle.
cdef tuple _slots = ("frame", "array", "key", "options", "urlpath", "verify", "version", "_cparams")
cdef object _offset = "offset", _length = "length"

cdef enum:
    # Bytes of a small member that is read from a file, and of the extra field in its local header.
    LOADED = 8192
    PADDING = 128


@cython.final
cdef class LeafMaker:
    """Makes leaves of frames: arrays without Python code, and the handles of leaves of other kinds."""

    def __cinit__(self, type arrays not None, type handles not None, dtype_of, options, path, dict more=None):
        self.arrays, self.handles, self.dtype_of = arrays, handles, dtype_of
        self.options, self.path, self.more = options, path, {} if more is None else more
        self.verify = options.verify
        names = [*_slots, *self.more]
        self.count = len(names)
        self.fills = not self.verify and self.count <= MOST_SLOTS
        for i in range(min(self.count, MOST_SLOTS)):
            self.slots[i] = slot_of(handles, names[i])
            self.fills = self.fills and self.slots[i] > 0
        self.array_slot = slot_of(arrays, "_handle")
        self.fills = self.fills and self.array_slot > 0
        self.values = (None, None, None, options, path, self.verify, 0, None, *self.more.values())
        # A handle that can be changed has a lock of its own.
        self.lock_slot = slot_of(handles, "_lock") if hasattr(handles, "_lock") else 0

    cdef object handle(self, Frame frame, str key, array):
        """A handle of a frame; `array` is what it has of an array."""
        cdef Py_ssize_t i
        if not self.fills:
            handle = self.handles(frame, self.options, self.path, key)
            for name, value in self.more.items():
                setattr(handle, name, value)
            handle.array = array
            return handle
        handle = made(self.handles, _nothing)
        fill_slot(handle, self.slots[0], frame)
        fill_slot(handle, self.slots[1], array)
        fill_slot(handle, self.slots[2], key)
        for i in range(OWN_SLOTS, self.count):
            fill_slot(handle, self.slots[i], <object> PyTuple_GET_ITEM(self.values, i))
        if self.lock_slot > 0:
            fill_slot(handle, self.lock_slot, Lock.__new__(Lock))
        return handle

    cdef object array_handle(self, Frame frame, str key):
        """The handle of an array like most; None for another kind, or one that takes more to open."""
        if not frame.holds_only_array() or frame.wants_geometry():
            return None
        self.check(frame)
        return self.handle(frame, key, geometry_of(frame, self.dtype_of))

    cdef int check(self, Frame frame) except -1:
        """Have checked what is read as a whole, and first its header, if handles check that."""
        if frame.checksums_len and self.verify is None:
            frame.check_wholes()
        return 0

    cdef object array_of(self, handle):
        """The array of a handle that has one."""
        leaf = made(self.arrays, _nothing)
        if self.array_slot > 0:
            fill_slot(leaf, self.array_slot, handle)
        else:
            leaf._handle = handle
        return leaf

    def handle_of(self, Frame frame not None, str key):
        """A handle of a frame, for who makes the leaf of it."""
        self.check(frame)
        return self.handle(frame, key, None)

    def leaf_of(self, Frame frame not None, str key):
        """The array that a frame is; None for another kind."""
        handle = self.array_handle(frame, key)
        return None if handle is None else self.array_of(handle)


cdef class LeafReader:
    """Finds and reads the leaves of one version of a store, which nobody changes."""

    def __cinit__(self, LeafMaker maker not None, str hidden, bint check, KeyTable table=None, Frame values=None,
                  dict entries=None):
        self.maker, self.table, self.check = maker, table, check
        self.values, self.entries = values, entries
        if table is not None:
            self.archive = table.archive
            self.source = self.archive.source
        self.hidden = None if hidden is None else hidden.encode()

    def learn(self, Frame frame not None, Geometry geometry not None, cnp.dtype dtype not None):
        """Take a leaf that was opened as the one that others are compared with when they are read."""
        cdef LeafTemplate template
        if frame.source is not self.source:
            return
        template = LeafTemplate(frame, geometry, dtype)
        if template.fits and (<object> dtype).names is None:
            with cython.critical_section(self):
                self.template = template

    cdef bint shows(self, str key) noexcept:
        """Whether a leaf that is shown may have a key."""
        cdef Py_ssize_t length
        cdef const uint8_t *text = ascii_text(<PyObject *> key, &length)
        return text != NULL and length >= 2 and text[0] == 0x2F and (self.hidden is None or not last_segment_is(
            text + 1, length - 1, PyBytes_AS_STRING(self.hidden), PyBytes_GET_SIZE(self.hidden)))

    cdef int64_t find(self, str key) noexcept:
        """The offset of a member; negative where it is not there, or where others have to look."""
        cdef Py_ssize_t length
        cdef const uint8_t *text
        if self.table is None or not self.shows(key):
            return -1
        text = ascii_text(<PyObject *> key, &length)
        return self.table.lookup(text + 1, length - 1)

    cdef Frame frame_of(self, str key):
        """The frame of a leaf; None for one that is not found here."""
        cdef int64_t offset = self.find(key)
        if offset >= 0:
            return frame_of_member(<void *> self.archive, self.source, offset, key, self.check)
        return None if self.values is None or not self.shows(key) else self._value(key)

    def finds(self, str key not None):
        """Whether the version has a leaf, as far as can be told without a closer look."""
        return self.find(key) >= 0 or (self.values is not None and self.shows(key) and key in self.entries)

    cdef Frame _value(self, str key):
        """The frame of an embedded value, if its bytes lie in the file as they are."""
        cdef int64_t start, size
        entry = item_of(self.entries, key, None)
        if type(entry) is not dict or PyDict_Size(entry) != 2:
            return None
        offset, length = item_of(entry, _offset, None), item_of(entry, _length, None)
        if type(offset) is not int or type(length) is not int:
            return None
        try:
            start, size = offset, length
        except OverflowError:
            return None
        start = self.values.verbatim_at(start, size, True)
        return None if start < 0 else frame_at(self.values.source, start, size, key)

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
        offset = self.find(<str> key)
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


# Many leaves at once: several threads find, compare and decode them, without a Python object for any.


cdef extern from *:
    """
    static inline PyObject *list_item(PyObject *list, Py_ssize_t i) { return PyList_GET_ITEM(list, i); }
    """
    PyObject *list_item(PyObject *list, Py_ssize_t i) nogil

cdef enum:
    # Leaves whose memory is asked for before the first of them is looked at.
    TOGETHER = 16
    # Small leaves that a thread takes at a time: what it writes of them shares few cache lines with what others write.
    DRAWN = 8 * TOGETHER
    # Leaves, or else bytes of items, that are worth another thread.
    WORTH_LEAVES = 2 * TOGETHER
    # Keys of a group for which a server is asked for the records of the group, and not for those of each.
    MANY_OF_GROUP = 16
    # Slots of a key that are looked at when a server is asked for records.
    SLOTS_TRIED = 8
    WORTH_BYTES = 1 << 16
    CACHE_LINE = 64
    # Bytes of a leaf that are asked for ahead.
    AHEAD = 512
    # Leaves that count as another request.
    MANY = 16
    # Leaves of a batch that is tried although all before it was in memory.
    TRIED_LEAVES = 256
    # Bytes of leaves that are asked for before the first of them is read.
    MOST_ASKED = 64 << 20
    # Larger members are not read whole by one positional read.
    LARGE = 1 << 20
    ALIGNMENT_ROOM = 80

# What a leaf has come to.
cdef enum State:
    FOUND = 0
    ALIKE = 1
    DONE = 2
    OTHER = 3       # than this template
    ALONE = 4       # like no template: to be opened on the slow path, which says what is wrong with it

cdef enum Stage:
    FINDING
    COMPARING
    DECODING


cdef struct Share:
    # What a thread has taken of its share, on a cache line of its own.
    atomic_state taken
    uint8_t behind[CACHE_LINE]


cdef class LeafBatch:
    """Leaves that are read together; nobody may change the list of keys meanwhile."""

    cdef KeyTable table
    cdef readonly Archive archive
    cdef list keys
    cdef Py_ssize_t count
    cdef int threads
    cdef readonly Py_ssize_t missing
    cdef readonly bint check
    cdef const uint8_t **names
    cdef Py_ssize_t *lengths
    cdef int64_t *offsets
    cdef int64_t *headers       # where local headers are; then, of a mapped file, where chunks are
    cdef int64_t *sizes         # of members; then of chunks
    cdef int64_t *frame_sizes   # of members
    cdef uint32_t *checksums         # of members
    cdef uint16_t *name_lengths     # in their records
    cdef uint8_t *states
    cdef const char *tail       # the last segment of keys that count as not there, or NULL
    cdef Py_ssize_t tail_length
    cdef bytes tail_bytes
    cdef Stage stage
    cdef Share *shares
    cdef Py_ssize_t share       # leaves of each
    cdef Py_ssize_t drawn       # leaves that are taken at a time
    cdef int parts
    cdef uint8_t *out
    cdef int64_t stride
    cdef LeafTemplate template

    def __cinit__(self, KeyTable table not None, list keys not None, int threads=1, str hidden=None, bint check=False):
        cdef Py_ssize_t i, length, tail = 0
        cdef const char *text
        cdef const char *end = NULL
        cdef bytes suffix = None
        if hidden is not None:
            suffix = hidden.encode()
            end, tail = PyBytes_AS_STRING(suffix), len(suffix)
        self.table, self.archive, self.keys = table, table.archive, keys
        self.count = len(keys)
        self.missing = -1
        self.check = check
        self.names = <const uint8_t **> PyMem_Calloc(max(1, self.count), sizeof(uint8_t *))
        self.lengths = <Py_ssize_t *> PyMem_Malloc(max(1, self.count) * sizeof(Py_ssize_t))
        self.offsets = <int64_t *> PyMem_Malloc(max(1, self.count) * sizeof(int64_t))
        self.headers = <int64_t *> PyMem_Calloc(max(1, self.count), sizeof(int64_t))
        self.sizes = <int64_t *> PyMem_Calloc(max(1, self.count), sizeof(int64_t))
        self.frame_sizes = <int64_t *> PyMem_Calloc(max(1, self.count), sizeof(int64_t))
        self.checksums = <uint32_t *> PyMem_Calloc(max(1, self.count), sizeof(uint32_t))
        self.name_lengths = <uint16_t *> PyMem_Calloc(max(1, self.count), sizeof(uint16_t))
        self.states = <uint8_t *> PyMem_Calloc(max(1, self.count), 1)
        self.threads = max(1, min(threads, MOST_WORKERS + 1))
        self.shares = <Share *> PyMem_Calloc(self.threads, sizeof(Share))
        if (self.names == NULL or self.lengths == NULL or self.offsets == NULL or self.headers == NULL
                or self.sizes == NULL or self.name_lengths == NULL or self.states == NULL or self.shares == NULL
                or self.frame_sizes == NULL or self.checksums == NULL):
            raise MemoryError
        self.tail, self.tail_length, self.tail_bytes = end, tail, suffix
        if self.archive.far and self.table.catalog is not None and self.count > 1:
            self._ask_for_records()
        self._run(FINDING)
        # Strings beyond ASCII have to be brought to UTF-8, which takes the interpreter.
        for i in range(self.count):
            if self.names[i] != NULL:
                continue
            if type(keys[i]) is str:
                try:
                    text = PyUnicode_AsUTF8AndSize(keys[i], &length)
                except UnicodeEncodeError:
                    pass
                else:
                    self.name(i, <const uint8_t *> text, length)
            if self.names[i] == NULL:
                self.missing = i
                return
            self.find(i, i + 1)
        for i in range(self.count):
            if self.offsets[i] == DAMAGED:
                # Once more, without the catalog.
                self.table = table.instead()
                self._run(FINDING)
                break
        for i in range(self.count):
            if self.offsets[i] < 0:
                self.missing = i
                return

    def __dealloc__(self):
        PyMem_Free(self.names)
        PyMem_Free(self.lengths)
        PyMem_Free(self.offsets)
        PyMem_Free(self.headers)
        PyMem_Free(self.sizes)
        PyMem_Free(self.frame_sizes)
        PyMem_Free(self.checksums)
        PyMem_Free(self.name_lengths)
        PyMem_Free(self.states)
        PyMem_Free(self.shares)

    def __len__(self):
        return self.count

    def record_offset(self, Py_ssize_t position):
        """Where the record of a leaf is in the directory."""
        if not 0 <= position < self.count:
            raise IndexError(f"there is no leaf {position}; the batch has {self.count}")
        return self.offsets[position]

    def left(self):
        """Positions of the leaves that were not decoded."""
        cdef Py_ssize_t i
        return [i for i in range(self.count) if self.states[i] != DONE]

    def unlike(self):
        """Positions of the leaves that are not like the template."""
        cdef Py_ssize_t i
        return [i for i in range(self.count) if self.states[i] != ALIKE]

    def compare(self, Frame frame not None, Geometry geometry not None, cnp.dtype dtype not None):
        """Take a frame as the template, if it can be one, and find the leaves that are like it; whether all are.

        Of a file that is not mapped they are found when they are decoded.
        """
        cdef Py_ssize_t i
        self.ask(False)
        self.template = LeafTemplate(frame, geometry, dtype)
        if not self.template.fits:
            self.template = None
            return False
        for i in range(self.count):
            if self.states[i] == OTHER:
                self.states[i] = FOUND
        if self.archive.source.base == NULL:
            return False
        self._run(COMPARING)
        for i in range(self.count):
            if self.states[i] != ALIKE and self.states[i] != DONE:
                return False
        return True

    def decode(self, cnp.ndarray out not None):
        """Decode the leaves that are like the template into rows of an array, each of which is one piece."""
        if self.template is None:
            return
        if (cnp.PyArray_NDIM(out) < 1 or cnp.PyArray_DIM(out, 0) != self.count or not cnp.PyArray_ISWRITEABLE(out)
                or cnp.PyArray_NBYTES(out) != self.template.row * self.count):
            raise ValueError("the result has another size than the leaves")
        self.out = <uint8_t *> cnp.PyArray_DATA(out)
        self.stride = cnp.PyArray_STRIDE(out, 0)
        self._run(DECODING)

    cdef int _ask_for_records(self) except -1:
        """Have a server send what tells where the leaves are: the slots of all keys, and then their records.

        Where many are of one group, the records of that come as a whole.
        """
        cdef Catalog catalog = self.table.catalog
        cdef Py_ssize_t length
        cdef const uint8_t *text
        cdef uint64_t hashed, found
        cdef int64_t slot, stop
        cdef set pages = set()
        cdef list slots = [], all_keys = [with_slash(key) for key in self.keys]
        cdef dict groups = {}
        for key in all_keys:
            if type(key) is str:
                groups.setdefault(key.rpartition("/")[0], []).append(key)
        for group, keys in groups.items():
            if group and len(keys) >= MANY_OF_GROUP:
                for key in sorted(keys):
                    text = ascii_text(<PyObject *> key, &length)
                    if text != NULL:
                        lookup_far(self.table, text + 1, length - 1, True)
        for key in all_keys:
            text = ascii_text(<PyObject *> key, &length) if type(key) is str else NULL
            if text != NULL and length >= 2 and not is_near(self.table, text + 1, length - 1):
                hashed = key_hash(self.table.seed0, self.table.seed1, text + 1, length - 1)
                slot = slot_home(hashed, self.table.homes)
                slots.append((slot, hashed))
                pages.add((catalog.slots_at + SLOT_LENGTH * slot) // PAGE)
        catalog.pages_of.ask(pages)
        pages.clear()
        for slot, hashed in slots:
            stop = min(slot + SLOTS_TRIED, self.table.slot_count)
            if catalog.bytes_at(catalog.slots_at + SLOT_LENGTH * slot, SLOT_LENGTH * (stop - slot)) == NULL:
                continue
            while slot < stop:
                found = u64(self.table.slots + SLOT_LENGTH * slot)
                if found and slot_tag(found) == slot_tag(hashed) and slot_offset(found) < self.archive.directory_size:
                    pages.add(slot_offset(found) // PAGE)
                slot = stop if found == 0 else slot + 1
        self.archive._pages.ask(pages)
        return 0

    cpdef ask(self, bint heads):
        """Ask for all leaves, if now is the time; or for their first and last bytes alone, which say what they are."""
        cdef Source source = self.archive.source
        cdef Wanted wanted
        cdef int64_t size, asked = 0
        cdef Py_ssize_t i
        if self.count < 2 or source.asking == NULL or not (is_due(source.asking + 1) or (
                self.count >= TRIED_LEAVES and is_missed(source, source.asking + 1, self.headers[self.count // 2]))):
            return
        with nogil:
            begin_asking(source, source.asking + 1, &wanted)
            for i in range(self.count):
                if self.states[i] == DONE or self.offsets[i] < 0:
                    continue
                size = LOCAL_LENGTH + self.name_lengths[i] + ALIGNMENT_ROOM + self.frame_sizes[i]
                if source.far:
                    size = want_frame(&wanted, self.headers[i], self.frame_sizes[i] + self.name_lengths[i] + LOCAL,
                                      WHOLE_FRAME if heads else LARGE)
                elif size > (2 * PAGE if heads else LARGE):
                    # Reading a large one asks for the rest.
                    want(&wanted, self.headers[i], PAGE // 2)
                    want(&wanted, self.headers[i] + size - PAGE // 2, PAGE // 2)
                    size = PAGE
                else:
                    want(&wanted, self.headers[i], size)
                asked += size
                if asked > MOST_ASKED:
                    break
            # What lies all over the file tells of the file.
            end_asking(&wanted, 1 + self.count // MANY)

    cdef int _run(self, Stage stage) except -1:
        cdef WorkerGroup group
        cdef int i
        self.stage = stage
        self._divide()
        for i in range(self.parts):
            state_set(&self.shares[i].taken, 0)
        try:
            acquire_group(&group, self.parts - 1, <void *> self, <Job> _work,
                   0 if self.template is None else self.template.frame.blocksize)
            for i in range(group.count):
                group.workers[i].tool = <void *> <size_t> (i + 1)
            with nogil:
                run_in_group(&group, <void *> self, <Job> _work, NULL)
        finally:
            release_group(&group)
        return 0

    cdef void _divide(self) noexcept:
        """Give each thread a share of the leaves, if there is enough to do for more than one."""
        cdef int64_t worth = 1 + self.count // WORTH_LEAVES, each = WORTH_BYTES
        self.drawn = DRAWN
        if self.stage == DECODING:
            each = max(1, each // self.template.row)
            self.drawn = min(self.drawn, each)
            worth = max(worth, self.count // each)
        self.parts = <int> max(1, min(self.threads, worth))
        # In a small batch others shall not wait for one that has taken the most of it.
        self.drawn = max(1, min(self.drawn, self.count // (4 * self.parts)))
        self.share = (self.count + self.parts - 1) // self.parts
        self.share = (self.share + self.drawn - 1) // self.drawn * self.drawn

    cdef void work(self, DecodeContext *context, int own) noexcept nogil:
        """Take leaves until none is left: those of a share first, which the thread has in its cache from stage to stage."""
        cdef Py_ssize_t first, stop, end
        cdef long taken
        cdef int i, part
        for i in range(self.parts):
            part = (own + i) % self.parts
            end = min((part + 1) * self.share, self.count)
            while True:
                taken = state_get(&self.shares[part].taken)
                first = part * self.share + <Py_ssize_t> taken * self.drawn
                if first >= end:
                    break
                if not state_change(&self.shares[part].taken, taken, taken + 1):
                    continue
                stop = min(first + self.drawn, end)
                while first < stop:
                    self.work_on(context, first, min(first + TOGETHER, stop))
                    first += TOGETHER

    cdef void work_on(self, DecodeContext *context, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
        """The stage for some leaves."""
        cdef Py_ssize_t i
        if self.stage == FINDING:
            self.take_names(first, stop)
            self.find(first, stop)
        elif self.stage == COMPARING:
            for i in range(first, stop):
                prefetch(self.archive.source.base + self.headers[i], AHEAD)
            for i in range(first, stop):
                if self.states[i] == FOUND:
                    self.match(i, self.archive.source.base + self.headers[i],
                               self.archive.directory_offset - self.headers[i])
        else:
            for i in range(first, stop):
                if self.archive.source.base == NULL:
                    if self.states[i] == FOUND:
                        self.read(context, i)
                elif self.states[i] == ALIKE:
                    self.decode_one(context, i, self.archive.source.base + self.headers[i])

    cdef void take_names(self, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
        """Where the bytes of keys are; strings are looked at without the GIL, which their list keeps alive."""
        cdef Py_ssize_t i, length
        cdef const uint8_t *text
        for i in range(first, stop):
            prefetch(<const uint8_t *> list_item(<PyObject *> self.keys, i), 128)
        for i in range(first, stop):
            text = ascii_text(list_item(<PyObject *> self.keys, i), &length)
            if text != NULL:
                self.name(i, text, length)

    cdef inline void name(self, Py_ssize_t i, const uint8_t *text, Py_ssize_t length) noexcept nogil:
        """Take note of a key, unless it cannot be that of a leaf."""
        if length and text[0] == 0x2F:
            text, length = text + 1, length - 1
        if length == 0 or (self.tail != NULL and last_segment_is(text, length, self.tail, self.tail_length)):
            return
        self.names[i], self.lengths[i] = text, length

    cdef void find(self, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
        """Offsets of keys, and what the directory says of their members."""
        cdef int64_t slots[TOGETHER]
        cdef int64_t offset
        cdef Member member
        cdef Py_ssize_t i
        for i in range(first, stop):
            if self.names[i] == NULL:
                slots[i - first] = 0
                continue
            slots[i - first] = SLOT_LENGTH * slot_home(
                key_hash(self.table.seed0, self.table.seed1, self.names[i], self.lengths[i]), self.table.homes)
            prefetch(self.table.slots + slots[i - first], 1)
        for i in range(first, stop):
            offset = slot_offset(u64(self.table.slots + slots[i - first]))
            if 0 <= offset < self.archive.directory_size:
                prefetch(self.archive._directory + offset, 65)
        for i in range(first, stop):
            if self.names[i] == NULL:
                self.offsets[i] = NO_KEY
                continue
            if is_far(self.table):      # records were asked for
                offset = lookup_far(self.table, self.names[i], self.lengths[i], False)
            else:
                offset = self.table.lookup(self.names[i], self.lengths[i])
            self.offsets[i] = offset
            if offset < 0 or not self.archive.peek(offset, &member) or member.problem != MEMBER_FINE or (
                    member.header > self.archive.directory_offset - LOCAL_LENGTH):
                self.states[i] = ALONE
            else:
                self.states[i] = FOUND
                self.headers[i], self.sizes[i] = member.header, member.size
                self.frame_sizes[i], self.checksums[i] = member.size, member.crc
                self.name_lengths[i] = member.record.name_length

    cdef void read(self, DecodeContext *context, Py_ssize_t i) noexcept nogil:
        """Read a leaf by its position, compare and decode it."""
        cdef int64_t at = self.headers[i], size = self.sizes[i], wanted
        cdef uint8_t *p
        self.states[i] = ALONE
        if size > LARGE:
            return
        wanted = min(LOCAL_LENGTH + self.name_lengths[i] + ALIGNMENT_ROOM + size, self.archive.directory_offset - at)
        p = reserve_stored(context, wanted)
        if p == NULL or self.archive.source.read_into(at, wanted, p):
            return
        self.match(i, p, wanted)
        if self.states[i] == ALIKE:
            self.decode_one(context, i, p + (self.headers[i] - at))

    cdef void match(self, Py_ssize_t i, const uint8_t *p, int64_t room) noexcept nogil:
        """Whether a leaf is like the template, from its local header on; where its chunk is."""
        cdef int64_t chunk, size
        # Where the name lay when its record was checked.
        cdef const uint8_t *name = self.archive._directory + self.offsets[i] + CENTRAL_LENGTH
        self.states[i] = OTHER
        if self.template.match(name, self.name_lengths[i], self.sizes[i], p, room, &chunk, &size):
            self.headers[i] += chunk
            self.sizes[i] = size
            self.states[i] = ALIKE

    cdef void decode_one(self, DecodeContext *context, Py_ssize_t i, const uint8_t *p) noexcept nogil:
        """Decode the chunk of a leaf into its row."""
        self.states[i] = ALONE
        if self.check and zip_checksum(0, p - self.template.header_len, <size_t> self.frame_sizes[i]) != self.checksums[i]:
            return
        if self.template.decode(context, p, self.sizes[i], self.out + i * self.stride):
            self.states[i] = DONE


cdef void _work(LeafBatch batch, DecodeContext *context, void *tool) noexcept nogil:
    batch.work(context, <int> <size_t> tool)
