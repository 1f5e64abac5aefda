# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The messages of a pull reply, made of its records by compiled code.

`client/cluster/decoding.py` says what a record is and what is wrong with one; here the same is done
for those with which nothing is wrong, and no more is asked of them than to be copied. At the first
that is anything else (packed, wrapped, damaged, cut off) a run ends, and Python goes on there
(tests/unit/client/compiled/test_records.py).

No length that a record names is used before it was compared with the bytes that are there.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBuffer_FillInfo,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from isal import isal_zlib

from aerobee.client.compiled.fields import FIELDS
from aerobee.remoting.codes import SysFlag
from aerobee.remoting.message import properties as _properties

cdef extern from *:
    """
    static inline uint32_t big32(const unsigned char *at) {
        return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    }
    static inline uint64_t big64(const unsigned char *at) {
        return (uint64_t)big32(at) << 32 | big32(at + 4);
    }
    /* An instance of a class whose base is compiled, without looking anything up. */
    static inline PyObject *made(PyObject *kind, PyObject *nothing) {
        return ((PyTypeObject *)kind)->tp_new((PyTypeObject *)kind, nothing, NULL);
    }
    /* What a class statement makes is looked at by the garbage collector, which costs 16 bytes and
       time for each message; where it adds no fields to what cannot be part of a cycle, in vain. */
    static inline void untrack(PyObject *kind) {
        PyTypeObject *type = (PyTypeObject *)kind, *base = type->tp_base;
        if (base && !PyType_HasFeature(base, Py_TPFLAGS_HAVE_GC)
            && type->tp_basicsize == base->tp_basicsize) {
            type->tp_flags &= ~Py_TPFLAGS_HAVE_GC;
            type->tp_traverse = NULL;
            type->tp_clear = NULL;
            type->tp_free = PyObject_Free;
            PyType_Modified(type);
        }
    }
    """
    uint32_t big32(const uint8_t*) noexcept nogil
    uint64_t big64(const uint8_t*) noexcept nogil
    object made(object, object)
    void untrack(object)

include "layout.pxi"

cdef enum:
    GROUP_RECORDS = 64  # whose properties are kept together, as far as there is room
    GROUP_BYTES_MAX = 4096  # of them, unless one message alone has more: a message that is kept
    #                         keeps its neighbours' properties, and not many of them

cdef int NAME_SEPARATOR = ord(_properties.NAME_SEPARATOR)
cdef int PROPERTY_SEPARATOR = ord(_properties.PROPERTY_SEPARATOR)
cdef object find_property = _properties.find_property
cdef int32_t NOT_PLAIN = SysFlag.COMPRESSED | WRAPPED
cdef object NOTHING = ()

ctypedef const uint8_t* Bytes

include "fields.pxi"
include "../../remoting/message/check_sum.pxi"


cdef struct Place:
    # One record: where its parts stand behind its begin, and how long they are.
    Bytes begin
    int32_t more_born, body_at, body_bytes, properties_at, properties_bytes


cdef inline bint locate(Bytes at, Bytes end, Place* place, int64_t* size) noexcept nogil:
    """Find the parts of the record there; False unless it is a plain one whose parts fit."""
    cdef int64_t topic_at, properties_at, behind
    cdef int32_t sys_flag, hosts
    cdef uint32_t magic
    if end - at < RECORD_BYTES_MIN:
        return False
    behind = <int32_t>big32(at)
    if behind < RECORD_BYTES_MIN or behind > end - at:
        return False
    sys_flag = <int32_t>big32(at + SYS_FLAG_AT)
    if (sys_flag & NOT_PLAIN & ~WRAPPED) or (sys_flag & WRAPPED) == WRAPPED:
        return False
    hosts = (at[SYS_FLAG_LAST_AT] >> HOST_BITS_SHIFT) & 3
    place.more_born = HOST_V6_MORE_BYTES * (hosts & 1)
    place.body_at = RECORD_HEAD_BYTES + HOST_V6_MORE_BYTES * ((hosts & 1) + (hosts >> 1))
    if place.body_at > behind:
        return False
    place.body_bytes = <int32_t>big32(at + place.body_at - BODY_LENGTH_BYTES)
    if place.body_bytes < 0:
        return False
    topic_at = <int64_t>place.body_at + place.body_bytes
    if topic_at + 2 > behind:
        return False
    magic = big32(at + MAGIC_AT)
    if magic == MAGIC_V1:
        properties_at = topic_at + 1 + at[topic_at] + PROPERTIES_LENGTH_BYTES
    elif magic == MAGIC_V2:
        properties_at = (
            topic_at + 2 + (at[topic_at] << 8 | at[topic_at + 1]) + PROPERTIES_LENGTH_BYTES
        )
    else:
        return False
    if properties_at > behind:
        return False
    place.properties_bytes = at[properties_at - 2] << 8 | at[properties_at - 1]
    if properties_at + place.properties_bytes != behind:
        return False
    place.properties_at = <int32_t>properties_at
    place.begin = at
    size[0] = behind
    return True


cdef Py_ssize_t gather(Bytes at, Bytes end, Place* places, Py_ssize_t* held) noexcept nogil:
    """Find plain records from there on, as many as share their properties; return how many."""
    cdef Py_ssize_t count = 0
    cdef int64_t size = 0
    held[0] = 0
    while count < GROUP_RECORDS and at < end and locate(at, end, &places[count], &size):
        if count and held[0] + places[count].properties_bytes > GROUP_BYTES_MAX:
            break
        held[0] += places[count].properties_bytes
        count += 1
        at += size
    return count


cdef Py_ssize_t tail_of(Place* places, Py_ssize_t count) noexcept nogil:
    """Return how many bytes of whole pairs the properties of all these records end with.

    A broker writes some behind each message's own: its region, its cluster, that it is traced.
    """
    cdef Bytes first = properties_end(places), other
    cdef Py_ssize_t common = places.properties_bytes, number, at
    if count < 2:
        return 0
    for number in range(1, count):
        common = min(common, places[number].properties_bytes)
        other = properties_end(&places[number])
        if memcmp(first - common, other - common, common):
            at = 0
            while first[-1 - at] == other[-1 - at]:
                at += 1
            common = at
    while common and first[-common] != PROPERTY_SEPARATOR:
        common -= 1
    return common - 1 if common else 0  # the separator ends what is before it


cdef inline Bytes properties_end(Place* place) noexcept nogil:
    return place.begin + place.properties_at + place.properties_bytes


cdef inline bytes copied(Bytes at, Py_ssize_t count):
    return PyBytes_FromStringAndSize(<const char*>at, count)


cdef inline bint is_alike(Bytes at, Py_ssize_t count, bytes other) noexcept:
    return other is not None and PyBytes_GET_SIZE(other) == count and not memcmp(
        PyBytes_AS_STRING(other), at, count
    )


cdef inline bint is_from(Place* place, Origin origin) noexcept:
    """Say whether a record has all that an origin says, and numbers that are near to its own."""
    cdef Bytes at = place.begin
    return (
        is_alike(at + BORN_HOST_AT, born_bytes(place), origin.born_host)
        and is_alike(at + store_host_at(place), store_bytes(place), origin.store_host)
        and <int32_t>big32(at + FLAG_AT) == origin.flag
        and <int32_t>big32(at + SYS_FLAG_AT) == origin.sys_flag
        and <int32_t>big32(at + reconsume_times_at(place)) == origin.reconsume_times
        and is_near(<int64_t>big64(at + QUEUE_OFFSET_AT), origin.queue_offset)
        and is_near(<int64_t>big64(at + POSITION_AT), origin.position)
        and is_near(<int64_t>big64(at + BORN_TIMESTAMP_AT), origin.born_timestamp_ms)
        and is_near(<int64_t>big64(at + store_timestamp_at(place)), origin.store_timestamp_ms)
    )


cdef inline int32_t born_bytes(Place* place) noexcept:
    return HOST_V4_BYTES + place.more_born


cdef inline int32_t store_timestamp_at(Place* place) noexcept:
    return STORE_TIMESTAMP_AT + place.more_born


cdef inline int32_t store_host_at(Place* place) noexcept:
    return STORE_HOST_AT + place.more_born


cdef inline int32_t store_bytes(Place* place) noexcept:
    return place.body_at - RECORD_HEAD_BYTES - place.more_born + HOST_V4_BYTES


cdef inline int32_t reconsume_times_at(Place* place) noexcept:
    return place.body_at - RECORD_HEAD_BYTES + RECONSUME_TIMES_AT


cdef bytes alike(Bytes at, Py_ssize_t count, bytes before):
    """Return bytes as an object: the one before, if it is the same."""
    return before if is_alike(at, count, before) else copied(at, count)


cdef bytes last_born_host = None, last_store_host = None, last_tail = None
# of the pulls before, mostly the same


cdef Origin origin_of(Place* place, object queue, object bounds, bytes properties, bytes tail):
    """Return what a record says, for itself and those behind it."""
    global last_born_host, last_store_host
    cdef Bytes at = place.begin
    cdef Origin origin = Origin.__new__(Origin)
    last_born_host = alike(at + BORN_HOST_AT, born_bytes(place), last_born_host)
    last_store_host = alike(at + store_host_at(place), store_bytes(place), last_store_host)
    origin.queue, origin.bounds = queue, bounds
    origin.properties, origin.tail = properties, tail
    origin.born_host, origin.store_host = last_born_host, last_store_host
    origin.queue_offset = <int64_t>big64(at + QUEUE_OFFSET_AT)
    origin.position = <int64_t>big64(at + POSITION_AT)
    origin.born_timestamp_ms = <int64_t>big64(at + BORN_TIMESTAMP_AT)
    origin.store_timestamp_ms = <int64_t>big64(at + store_timestamp_at(place))
    origin.flag = <int32_t>big32(at + FLAG_AT)
    origin.sys_flag = <int32_t>big32(at + SYS_FLAG_AT)
    origin.reconsume_times = <int32_t>big32(at + reconsume_times_at(place))
    origin.held_bytes = -1
    return origin


def decode_run(
    data not None, Py_ssize_t at, list records not None, type kind not None, queue, bounds
):
    """Append the messages of the plain records from byte `at` on; return where they end.

    They are made of `kind`, a class without fields of its own whose base is MessageFields.
    """
    global last_tail
    cdef Py_buffer held
    cdef Place places[GROUP_RECORDS]
    cdef Py_ssize_t count, number, properties_bytes, tail_bytes
    cdef Origin origin
    cdef MessageFields message
    cdef bytes properties, tail, body
    cdef uint8_t* to
    cdef int32_t used
    cdef uint32_t crc
    cdef Place* place
    cdef Bytes end
    if not issubclass(kind, MessageFields):
        raise TypeError(f"{kind} has other fields")
    PyObject_GetBuffer(data, &held, PyBUF_SIMPLE)
    try:
        if at < 0 or at > held.len:
            raise ValueError("outside of the bytes")
        end = <Bytes>held.buf + held.len
        while True:
            count = gather(<Bytes>held.buf + at, end, places, &properties_bytes)
            if not count:
                return at
            tail, tail_bytes = None, tail_of(places, count)
            if tail_bytes:
                last_tail = alike(properties_end(places) - tail_bytes, tail_bytes, last_tail)
                tail = last_tail
            properties = PyBytes_FromStringAndSize(NULL, properties_bytes - count * tail_bytes)
            to = <uint8_t*>PyBytes_AS_STRING(properties)
            used = 0
            for number in range(count):
                place = &places[number]
                place.properties_bytes -= <int32_t>tail_bytes
                memcpy(to + used, place.begin + place.properties_at, place.properties_bytes)
                used += place.properties_bytes
            used = 0
            origin = None
            for number in range(count):
                place = &places[number]
                crc = big32(place.begin + BODY_CRC_AT)
                if crc and check_sum(
                    place.begin + place.body_at, place.body_bytes
                ) != crc & 0x7FFF_FFFF:
                    return at
                body = copied(place.begin + place.body_at, place.body_bytes)
                if origin is None or not is_from(place, origin):
                    origin = origin_of(place, queue, bounds, properties, tail)
                message = <MessageFields>made(kind, NOTHING)
                message.origin, message.body = origin, body
                message.properties_at = <uint16_t>used
                message.properties_bytes = <uint16_t>place.properties_bytes
                message.stored_bytes = place.body_bytes
                used += place.properties_bytes
                fill(message, place, origin)
                records.append(message)
                at += <int32_t>big32(place.begin)
    finally:
        PyBuffer_Release(&held)


cdef inline void fill(MessageFields message, Place* place, Origin origin) noexcept:
    """Take over the numbers of a record, as how far they are from those of its origin."""
    cdef Bytes at = place.begin
    message.more_offset = how_far(<int64_t>big64(at + QUEUE_OFFSET_AT), origin.queue_offset)
    message.more_position = how_far(<int64_t>big64(at + POSITION_AT), origin.position)
    message.more_born_ms = how_far(
        <int64_t>big64(at + BORN_TIMESTAMP_AT), origin.born_timestamp_ms
    )
    message.more_store_ms = how_far(
        <int64_t>big64(at + store_timestamp_at(place)), origin.store_timestamp_ms
    )


def light(type kind not None):
    """Let the garbage collector leave alone a class that adds nothing to MessageFields."""
    untrack(kind)
    return kind


def rises(list messages not None, int64_t first, int64_t behind):
    """Say whether the offsets of messages rise from `first` on, and stay below `behind`."""
    cdef int64_t last, offset
    cdef Py_ssize_t number
    if not messages:
        return True
    for number in range(len(messages)):
        offset = offset_of(<MessageFields?>messages[number])
        if offset < first or offset >= behind:
            return False
        if number and offset <= last:
            return False
        last = offset
    return True


def measure(list messages not None):
    """Return how many bytes messages hold, and whether each offset is that before it plus one."""
    cdef int64_t total = 0, last = 0, offset
    cdef bint consecutive = True
    cdef Py_ssize_t number
    cdef MessageFields message
    for number in range(len(messages)):
        message = <MessageFields?>messages[number]
        total += held_of(message)
        offset = offset_of(message)
        if number and offset - 1 != last:
            consecutive = False
        last = offset
    return total, consecutive
