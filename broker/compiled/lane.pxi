# Where the messages of a queue go that are served in one run, for plain_sends.pyx.


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
