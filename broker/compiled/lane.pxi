# Where the messages of a queue go that are served in one run, and what each record begins with, for
# plain_sends.pyx.


@cython.final
cdef class Lane:
    """The end of one queue while messages are put there; the queue itself is told afterwards."""

    cdef object stored
    cdef bytes prefix, ack_begin, ack_offset, ack_key, ack_opaque, ack_end
    cdef Py_ssize_t ack_bytes_max  # without the unique key
    cdef bytes host_hex, batch_begin, batch_offset, batch_opaque, batch_end
    cdef Py_ssize_t batch_ack_bytes_max  # without the ids of its messages
    cdef uint32_t magic
    cdef int32_t queue_id
    cdef int64_t offset, limit, base, arrived_bytes
    cdef Py_buffer entries
    cdef bint loaded

    def __cinit__(self, queue):
        stored = self.stored = queue.stored
        self.prefix = stored.prefix
        self.magic = stored.magic
        self.queue_id = stored.queue_id
        self.ack_begin, rest = queue.ack.split(b"%016X")
        self.ack_offset, middle, self.ack_end = rest.split(b"%d")
        self.ack_key, self.ack_opaque = middle.split(b"%b")
        self.ack_bytes_max = (
            FRAME_WORDS_BYTES + len(queue.ack) + POSITION_BYTES + 2 * NUMBER_BYTES_MAX
        )
        self.host_hex = self.ack_begin.rpartition(b'"')[2]  # an id begins with it
        self.batch_begin, rest = queue.batch_ack.split(b"%b")
        self.batch_offset, self.batch_opaque, self.batch_end = rest.split(b"%d")
        self.batch_ack_bytes_max = (
            FRAME_WORDS_BYTES + len(queue.batch_ack) + 2 * NUMBER_BYTES_MAX
        )

    cdef int load(self) except -1:
        """Look where the queue ends."""
        stored = self.stored
        self.arrived_bytes = 0
        self.offset = stored.max_offset
        self.base = stored.base
        PyObject_GetBuffer(stored.buffer, &self.entries, PyBUF_SIMPLE | PyBUF_WRITABLE)
        self.loaded = True
        self.limit = min(<int64_t>stored.limit, self.base + self.entries.len // ENTRY_BYTES)
        return 0

    cdef void release(self) noexcept:
        """Let the queue's memory go."""
        if self.loaded:
            PyBuffer_Release(&self.entries)
            self.loaded = False

    def __dealloc__(self):
        self.release()


cdef int64_t stored_ms(bytes stamp, int stamp_flag) except? -1:
    """Return the time of storing that a stamp has; see writing/stamps.py."""
    cdef Py_ssize_t at = HOST_V4_BYTES
    if stamp_flag >> HOST_BITS_SHIFT & 1:
        at += HOST_V6_MORE_BYTES
    if PyBytes_GET_SIZE(stamp) < at + 8:
        raise ValueError("a stamp has a host and a time")
    return <int64_t>long_at(<Bytes>PyBytes_AS_STRING(stamp) + at)


cdef extern from *:
    """
    /* isal's module for Python has its library in it. The sum of a body is that library's, called
       where it is found and gives what everybody's does: an object for each message and a call by
       way of the interpreter cost as much as half of all else here. */
    #include <dlfcn.h>
    #include <stddef.h>
    #include <stdint.h>

    typedef uint32_t (*sum_function)(uint32_t, const unsigned char *, uint64_t);

    static sum_function sum_in_c = NULL;

    static void find_sum(const char *module) {
        void *loaded = dlopen(module, RTLD_LAZY | RTLD_NOLOAD);  /* and it stays */
        sum_function found = loaded == NULL ? NULL : (sum_function)dlsym(loaded, "crc32_gzip_refl");
        if (found != NULL && found(0, (const unsigned char *)"123456789", 9) == 0xCBF43926u)
            sum_in_c = found;
    }
    """
    uint32_t (*sum_in_c)(uint32_t, const unsigned char*, uint64_t) noexcept nogil
    void find_sum(const char*) noexcept nogil


find_sum(isal_zlib.__file__.encode())


@cython.final
cdef class Window:
    """Bytes in the middle of others as an object, for the length of one call."""

    cdef Bytes begin
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*>self.begin, self.size, True, flags)


cdef Window window = Window()


cdef inline uint32_t check_sum(Bytes begin, Py_ssize_t size) except? 0:
    """Return the check sum of these bytes as a record has it."""
    cdef uint32_t found
    if sum_in_c != NULL:
        found = sum_in_c(0, begin, size)
    else:
        window.begin, window.size = begin, size
        found = isal_zlib.crc32(window)
        window.begin, window.size = NULL, 0
    return found & 0x7FFF_FFFF


cdef inline Py_ssize_t head_bytes(Lane lane, bytes stamp, Py_ssize_t body_bytes) noexcept:
    """Return the size of a record without its properties and their length."""
    return (
        RECORD_AROUND_BYTES - PROPERTIES_LENGTH_BYTES
        + PyBytes_GET_SIZE(stamp)
        + body_bytes
        + PyBytes_GET_SIZE(lane.prefix)
    )


cdef struct Place:  # what a record says of itself
    int64_t offset
    int64_t position
    int64_t sys_flag
    Py_ssize_t size
    uint32_t crc


cdef inline unsigned char* put_record_head(
    unsigned char* to,
    Lane lane,
    SendHeader* header,
    Place* place,
    bytes stamp,
    Py_ssize_t body_bytes,
) noexcept:
    """Write a record up to its body (CommitLog.append); return where that goes."""
    to = put32(put32(to, place.size), lane.magic)
    to = put32(put32(to, place.crc), lane.queue_id)
    to = put64(put32(to, <uint32_t>header.flag), place.offset)
    to = put32(put64(to, place.position), <uint32_t>place.sys_flag)
    return put32(put_text(put64(to, header.born_timestamp), stamp), body_bytes)


cdef inline void put_entry(
    Lane lane, int64_t position, Py_ssize_t size, int32_t tags_code
) noexcept:
    """Write the entry into the queue, where it is beyond the end until the queue is told."""
    cdef unsigned char* to = <unsigned char*>lane.entries.buf
    to += (lane.offset - lane.base) * ENTRY_BYTES
    put64(put32(put64(to, position), size), <uint64_t><int64_t>tags_code)


cdef inline Py_ssize_t put_ack(
    unsigned char* begin,
    Lane lane,
    int64_t position,
    int64_t offset,
    Bytes key,
    Py_ssize_t key_bytes,
    int64_t opaque,
) noexcept:
    """Write the acknowledgement; return its size."""
    cdef unsigned char* to = put_text(begin + FRAME_WORDS_BYTES, lane.ack_begin)
    to = put_text(put_hex(to, position), lane.ack_offset)
    to = put_text(put_decimal(to, offset), lane.ack_key)
    to = put_text(put_bytes(to, key, key_bytes), lane.ack_opaque)
    to = put_text(put_decimal(to, opaque), lane.ack_end)
    put32(put32(begin, to - begin - FRAME_LENGTH_BYTES), to - begin - FRAME_WORDS_BYTES)
    return to - begin
