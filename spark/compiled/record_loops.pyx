# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The loops over records that decoding consists of, each one pass over a block's memory.

What they do is defined by records/numpy_loops.py (for `bodies` by all of it), and is the same to
the byte (tests/property/test_spark_loops.py); records/compiled_loops.py calls them. They know no
Arrow and make no objects: arrays come in, and arrays that have room are filled.

The bytes may say anything. No length in them is used before it was compared with what is there;
where one does not fit, a loop stops and says so, and the numpy code finds out what is wrong.
"""

from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

cdef extern from *:
    """
    static inline uint32_t big32(const unsigned char *at) {
        return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    }
    static inline uint64_t big64(const unsigned char *at) {
        return (uint64_t)big32(at) << 32 | big32(at + 4);
    }
    """
    uint32_t big32(const uint8_t*) noexcept nogil
    uint64_t big64(const uint8_t*) noexcept nogil

include "layout.pxi"

cdef enum:
    SHORT_BYTES = 16
    HOSTS_KEPT = 64  # texts of hosts that come again, by a hash of the host
    HOST_ROOM = 32
    LEFT_OUT_MAX = 64  # topics

cpdef enum:  # why `bodies` took no more
    MORE = 0  # the next record goes on behind the bytes
    FULL = 1  # the next body has no room
    OTHER = 2  # what stands there is no whole record

HOST_TEXT_BYTES_MAX = 32  # 255.255.255.255:-2147483648 takes 27; each is written as 32


cdef inline bint within(const uint8_t[::1] data, int64_t start, int64_t length) noexcept nogil:
    """Whether the data have so many bytes from there on, whatever the numbers are."""
    return 0 <= start <= data.shape[0] and 0 <= length <= data.shape[0] - start


def walk(
    const uint8_t[::1] data,
    Py_ssize_t at,
    Py_ssize_t until,
    Py_ssize_t length,
    int64_t base,
    int64_t[::1] starts,
    int64_t[::1] sizes,
):
    """Note the records from `at` on whose heads stand before `until`; return count and end."""
    cdef const uint8_t* begin = &data[0] if data.shape[0] else NULL
    cdef Py_ssize_t count = 0, room = min(starts.shape[0], sizes.shape[0])
    cdef Py_ssize_t limit = min(until, min(length, data.shape[0]) - RECORD_PREFIX_BYTES + 1)
    cdef int32_t size
    cdef uint32_t magic
    while 0 <= at < limit and count < room:
        size = <int32_t>big32(begin + at)
        magic = big32(begin + at + MAGIC_AT)
        if magic != MAGIC_V1 and magic != MAGIC_V2:
            break
        if size < RECORD_BYTES_MIN or <int64_t>big64(begin + at + POSITION_AT) != base + at:
            break
        if at + size > length:
            break
        starts[count] = at
        sizes[count] = size
        count += 1
        at += size
    return count, at


def locate(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] sizes,
    uint8_t[::1] kinds,
    int64_t[:, ::1] places,
):
    """Find the variable parts of each record; return all kinds together, -1 if a length is wrong.

    `places` has six rows: where the bodies, topics and properties are, each with its length.
    """
    cdef const uint8_t* begin = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* record
    cdef Py_ssize_t row, count = starts.shape[0]
    cdef int64_t start, end, body_at, body, topic_at, topic, properties
    cdef int kind, seen = 0, prefix
    assert sizes.shape[0] == count and kinds.shape[0] == count, "an array for each column"
    assert places.shape[0] == 6 and places.shape[1] == count, "an array for each column"
    for row in range(count):
        start = starts[row]
        if start < 0 or start > data.shape[0] - RECORD_HEAD_BYTES_MAX:
            return -1
        if not within(data, start, sizes[row]):
            return -1
        end = start + sizes[row]
        record = begin + start
        kind = (record[SYS_FLAG_LAST_AT] >> HOST_BITS_SHIFT) & 3
        seen |= kind
        kinds[row] = kind
        body_at = start + RECORD_HEAD_BYTES + HOST_V6_MORE_BYTES * ((kind & 1) + (kind >> 1))
        body = <int32_t>big32(begin + body_at - BODY_LENGTH_BYTES)
        prefix = 2 if big32(record + MAGIC_AT) == MAGIC_V2 else 1
        topic_at = body_at + body + prefix
        if body < 0 or topic_at + 2 > end:
            return -1
        if prefix == 1:
            topic = begin[topic_at - 1]
        else:
            topic = <int16_t>(begin[topic_at - 2] << 8 | begin[topic_at - 1])
        if topic <= 0 or topic_at + topic + 2 > end:
            return -1
        properties = <int16_t>(begin[topic_at + topic] << 8 | begin[topic_at + topic + 1])
        if properties < 0 or topic_at + topic + 2 + properties != end:
            return -1
        places[0, row] = body_at
        places[1, row] = body
        places[2, row] = topic_at
        places[3, row] = topic
        places[4, row] = topic_at + topic + 2
        places[5, row] = properties
    return seen


include "queues.pxi"
include "bodies.pxi"


ctypedef fused Number:
    int32_t
    int64_t


def gather(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const uint8_t[::1] kinds,
    const int64_t[::1] offsets,
    Number[::1] out,
):
    """Read a field of each record, as long as `out`'s; `offsets` says where it stands, by kind."""
    cdef const uint8_t* begin = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* field
    cdef Py_ssize_t row
    assert kinds.shape[0] == starts.shape[0] == out.shape[0], "an array for each column"
    for row in range(starts.shape[0]):
        field = begin + starts[row] + offsets[kinds[row]]
        if Number is int32_t:
            out[row] = <int32_t>big32(field)
        else:
            out[row] = <int64_t>big64(field)


def place(const int64_t[::1] lengths, int32_t[::1] offsets):
    """Note where cells of these lengths start if they follow each other; return their sum.

    -1 where it is too large for a column, or a length is negative.
    """
    cdef Py_ssize_t row
    cdef int64_t total = 0
    offsets[0] = 0
    for row in range(lengths.shape[0]):
        if lengths[row] < 0 or lengths[row] > INT32_MAX:
            return -1
        total += lengths[row]
        if total > INT32_MAX:
            return -1
        offsets[row + 1] = <int32_t>total
    return total


def copy(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] lengths,
    uint8_t[::1] out,
):
    """Copy the cells one behind the other; return False where one is not in the data."""
    cdef const uint8_t* begin = &data[0] if data.shape[0] else NULL
    cdef Py_ssize_t row
    cdef int64_t at = 0, start, length
    for row in range(starts.shape[0]):
        start = starts[row]
        length = lengths[row]
        if not within(data, start, length):
            return False
        if length == 0:
            continue
        if length > out.shape[0] - at:
            return False
        if length <= SHORT_BYTES and start + SHORT_BYTES <= data.shape[0] and (
            at + SHORT_BYTES <= out.shape[0]
        ):
            memcpy(&out[at], begin + start, SHORT_BYTES)  # one move; the next cell overwrites it
        else:
            memcpy(&out[at], begin + start, length)
        at += length
    return True


cdef inline uint8_t* write_number(uint8_t* to, uint32_t number) noexcept nogil:
    cdef uint8_t digits[10]
    cdef int count = 0
    while True:
        digits[count] = 48 + number % 10
        count += 1
        number //= 10
        if not number:
            break
    while count:
        count -= 1
        to[0] = digits[count]
        to += 1
    return to


def host_texts(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    int64_t at,
    int32_t[::1] offsets,
    uint8_t[::1] out,
):
    """Write `ip:port` of the IPv4 hosts that stand at `at` in each record; return the bytes."""
    cdef const uint8_t* begin = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* host
    cdef uint8_t* to
    cdef uint8_t* text
    cdef Py_ssize_t row, written = 0
    cdef int part, slot
    cdef int32_t port
    cdef uint64_t key
    cdef uint64_t keys[HOSTS_KEPT]
    cdef uint8_t lengths[HOSTS_KEPT]
    cdef uint8_t texts[HOSTS_KEPT * HOST_ROOM]
    memset(lengths, 0, sizeof(lengths))
    offsets[0] = 0
    assert out.shape[0] >= starts.shape[0] * <Py_ssize_t>HOST_TEXT_BYTES_MAX, "room for all"
    for row in range(starts.shape[0]):
        host = begin + starts[row] + at
        key = big64(host)
        slot = <int>((key * <uint64_t>0x9E3779B97F4A7C15) >> 58)
        text = &texts[slot * HOST_ROOM]
        if lengths[slot] == 0 or keys[slot] != key:
            to = text
            for part in range(4):
                to = write_number(to, host[part])
                to[0] = 58 if part == 3 else 46
                to += 1
            port = <int32_t>big32(host + 4)
            if port < 0:
                to[0] = 45
                to += 1
                to = write_number(to, 0 - <uint32_t>port)
            else:
                to = write_number(to, <uint32_t>port)
            keys[slot] = key
            lengths[slot] = <uint8_t>(to - text)
        memcpy(&out[written], text, HOST_ROOM)
        written += lengths[slot]
        offsets[row + 1] = <int32_t>written
    return written


include "properties.pxi"
