# Where the messages of a queue go that are served in one run, and what each record begins with, for
# plain_sends.pyx.

cdef extern from *:
    """
    #include <structmember.h>

    /* Where objects of a class have what a slot of theirs (`__slots__`) holds. By its name, as the
       interpreter does it, a value costs some 30 ns, and a queue has ten of them to look at or to
       change in each turn of the loop. -1 with an error where the class has no such slot. */
    static Py_ssize_t slot_at(PyObject *kind, const char *name) {
        PyObject *found = PyObject_GetAttrString(kind, name);
        Py_ssize_t at = -1;
        if (found == NULL)
            return -1;
        if (Py_TYPE(found) == &PyMemberDescr_Type) {
            PyMemberDef *member = ((PyMemberDescrObject *)found)->d_member;
            if (member->type == T_OBJECT_EX && member->flags == 0)
                at = member->offset;
        }
        Py_DECREF(found);
        if (at < 0)
            PyErr_Format(PyExc_TypeError, "%R has no slot %s", kind, name);
        return at;
    }

    #define slot_of(object, at) ((PyObject **)((char *)(object) + (at)))
    """
    Py_ssize_t slot_at(object, const char*) except -1
    PyObject** slot_of(object, Py_ssize_t) noexcept


cdef type TOPIC_QUEUE = TopicQueue
cdef Py_ssize_t MAX_OFFSET = slot_at(ConsumeQueue, "max_offset")
cdef Py_ssize_t BASE = slot_at(ConsumeQueue, "base")
cdef Py_ssize_t LIMIT = slot_at(ConsumeQueue, "limit")
cdef Py_ssize_t BUFFER = slot_at(ConsumeQueue, "buffer")
cdef Py_ssize_t LANE = slot_at(TopicQueue, "lane")
cdef Py_ssize_t ARRIVED_BYTES = slot_at(TopicQueue, "arrived_bytes")
cdef Py_ssize_t HOLDS = slot_at(TopicQueue, "holds")


cdef inline object slot(object holder, Py_ssize_t at):
    """Return what a slot holds, of an object that has it."""
    cdef PyObject* held = slot_of(holder, at)[0]
    if held == NULL:
        raise AttributeError("nothing was put there yet")
    return <object>held


cdef inline int put_number(object holder, Py_ssize_t at, int64_t number) except -1:
    """Let a slot hold a number."""
    cdef PyObject* before = slot_of(holder, at)[0]
    cdef object held = number
    Py_INCREF(held)
    slot_of(holder, at)[0] = <PyObject*>held
    Py_XDECREF(before)
    return 0


cdef enum:
    TOPICS_BITS = 31  # a mask: a run often has messages of fewer topics


cdef struct Listed:
    Bytes topic  # in the bytes that are read, as long as they are
    Py_ssize_t topic_bytes
    PyObject* queues


@cython.final
cdef class ListedTopics:
    """The queues of topics that have come in this run, by the bytes of their names."""

    cdef Listed[TOPICS_BITS + 1] listed
    cdef bint has_any

    cdef inline Listed* place(self, Bytes topic, Py_ssize_t size) noexcept:
        """Return where a topic is, or comes: names differ at their ends."""
        cdef unsigned int sum = size
        if size > 1:
            sum += topic[size - 1] + 7 * <unsigned int>topic[size - 2]
        return &self.listed[sum & TOPICS_BITS]

    cdef inline list find(self, Bytes topic, Py_ssize_t size):
        """Return the queues of a topic, None where it has not come, or another in its place."""
        cdef Listed* each = self.place(topic, size)
        if each.queues != NULL and is_word(
            topic, size, <const char*>each.topic, each.topic_bytes
        ):
            return <list>each.queues
        return None

    cdef void put(self, Bytes topic, Py_ssize_t size, list queues) noexcept:
        """Note what a topic has."""
        cdef Listed* each = self.place(topic, size)
        Py_INCREF(queues)
        Py_XDECREF(each.queues)
        each.topic, each.topic_bytes, each.queues = topic, size, <PyObject*>queues
        self.has_any = True

    cdef void clear(self) noexcept:
        """Forget all, for the next run may find other lists."""
        cdef Py_ssize_t at
        if self.has_any:
            self.has_any = False
            for at in range(TOPICS_BITS + 1):
                Py_XDECREF(self.listed[at].queues)
                self.listed[at].queues = NULL

    def __dealloc__(self):
        self.clear()


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
    cdef bytearray buffer  # the queue's, while it is loaded: nobody resizes one, all replace them
    cdef unsigned char* entries
    cdef bint loaded

    def __cinit__(self, queue):
        if not isinstance(queue, TOPIC_QUEUE) or not isinstance(queue.stored, ConsumeQueue):
            raise TypeError("no queue of a topic")
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
        cdef int64_t limit = slot(self.stored, LIMIT)
        self.arrived_bytes = 0
        self.offset = slot(self.stored, MAX_OFFSET)
        self.base = slot(self.stored, BASE)
        self.buffer = <bytearray?>slot(self.stored, BUFFER)
        self.entries = <unsigned char*>PyByteArray_AS_STRING(self.buffer)
        self.limit = min(limit, self.base + PyByteArray_GET_SIZE(self.buffer) // ENTRY_BYTES)
        self.loaded = True
        return 0

    cdef void release(self) noexcept:
        """Let the queue's memory go."""
        self.buffer = None
        self.loaded = False

    cdef int tell(self, queue) except -1:
        """Tell the queue what has come."""
        cdef int64_t arrived_bytes = slot(queue, ARRIVED_BYTES)
        put_number(self.stored, MAX_OFFSET, self.offset)
        put_number(queue, ARRIVED_BYTES, arrived_bytes + self.arrived_bytes)
        return 0


cdef inline Lane lane_of(queue):
    """Return the lane of a queue, which is made at need."""
    if not isinstance(queue, TOPIC_QUEUE):
        raise TypeError("no queue of a topic")
    held = slot(queue, LANE)
    if held is None:
        held = queue.lane = Lane(queue)
    return <Lane?>held


cdef inline bint has_holds(queue) except -1:
    """Say whether somebody waits for messages of a queue."""
    return len(<dict?>slot(queue, HOLDS)) > 0


cdef int64_t stored_ms(bytes stamp, int stamp_flag) except? -1:
    """Return the time of storing that a stamp has; see writing/stamps.py."""
    cdef Py_ssize_t at = HOST_V4_BYTES
    if stamp_flag >> HOST_BITS_SHIFT & 1:
        at += HOST_V6_MORE_BYTES
    if PyBytes_GET_SIZE(stamp) < at + 8:
        raise ValueError("a stamp has a host and a time")
    return <int64_t>long_at(<Bytes>PyBytes_AS_STRING(stamp) + at)


include "../../remoting/message/check_sum.pxi"


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
    cdef unsigned char* to = lane.entries + (lane.offset - lane.base) * ENTRY_BYTES
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
