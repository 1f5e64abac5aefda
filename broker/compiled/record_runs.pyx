# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The records of a run of queue entries, copied out of the log by compiled code.

`storage/reading.py` says what a read finds and when it ends; here is the same done to bytes, for
records that all lie in one file, without an object for each of them. Whatever else a queue may hold
is declined and read there (tests/property/test_compiled_reads.py).

No position or size that an entry names is used before it was compared with what the file holds.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    ENTRY_BYTES = 20  # position, record size, tags code
    WANTED_MAX = 32  # tags codes that are compared one by one

include "packing.pxi"


cdef struct Run:
    Bytes entries
    Py_ssize_t count
    int64_t base, end  # of the records that may be taken
    Py_ssize_t messages_max
    int64_t bytes_max
    int wanted_count  # of the tags codes below; negative: all messages are wanted
    int64_t[WANTED_MAX] wanted
    Py_ssize_t looked, taken  # entries that are done with, and those of them that are wanted
    int64_t taken_bytes


cdef inline int64_t long_at(Bytes at) noexcept nogil:
    """Read eight bytes, the highest first."""
    return <int64_t>(<uint64_t>word_at(at) << 32 | word_at(at + 4))


cdef inline bint is_wanted(Run* run, Bytes entry) noexcept nogil:
    """Say whether an entry's tags code is among those that are wanted."""
    cdef int64_t code
    cdef int number
    if run.wanted_count < 0:
        return True
    code = long_at(entry + 12)
    for number in range(run.wanted_count):
        if run.wanted[number] == code:
            return True
    return False


cdef bint measure(Run* run) noexcept nogil:
    """Find out where the read ends; False where a record is not wholly within the file."""
    cdef Bytes entry = run.entries
    cdef int64_t position
    cdef int32_t size
    while run.looked < run.count:
        if is_wanted(run, entry):
            position, size = long_at(entry), <int32_t>word_at(entry + 8)
            if run.taken and (
                run.taken >= run.messages_max or run.taken_bytes + size > run.bytes_max
            ):
                break
            if size <= 0 or position < run.base or position > run.end - size:
                return False
            run.taken += 1
            run.taken_bytes += size
        run.looked += 1
        entry += ENTRY_BYTES
    return True


cdef void copy(Run* run, Bytes file, unsigned char* to) noexcept nogil:
    """Copy the records that `measure` has found."""
    cdef Bytes entry = run.entries
    cdef Bytes end = entry + run.looked * ENTRY_BYTES
    while entry < end:
        if is_wanted(run, entry):
            to = put_bytes(to, file + (long_at(entry) - run.base), word_at(entry + 8))
        entry += ENTRY_BYTES


cdef bint set_wanted(Run* run, wanted) except -1:
    """Note the tags codes; False where they are too many, or none that an entry could have."""
    if wanted is None:
        run.wanted_count = -1
        return True
    if len(wanted) > WANTED_MAX:
        return False
    run.wanted_count = 0
    for code in wanted:
        if not -(1 << 63) <= code < 1 << 63:
            return False
        run.wanted[run.wanted_count] = code
        run.wanted_count += 1
    return True


def gather(
    entries not None,
    Py_ssize_t at,
    Py_ssize_t count,
    file not None,
    int64_t base,
    int64_t end,
    Py_ssize_t messages_max,
    int64_t bytes_max,
    wanted,
):
    """Return records of `count` entries, how many they are, and how many entries were looked at.

    `entries` has the first one at byte `at`; `file` is log memory that begins at position `base`
    and may be read up to `end`. None: declined.
    """
    cdef Run run
    cdef Py_buffer queue, log
    cdef bytes found = None
    run.looked = run.taken = run.taken_bytes = 0
    run.base, run.end, run.count = base, end, count
    run.messages_max, run.bytes_max = messages_max, bytes_max
    if not set_wanted(&run, wanted):
        return None
    PyObject_GetBuffer(entries, &queue, PyBUF_SIMPLE)
    try:
        if at < 0 or count < 0 or at > queue.len or count > (queue.len - at) // ENTRY_BYTES:
            raise ValueError("outside of the queue's memory")
        run.entries = <Bytes>queue.buf + at
        PyObject_GetBuffer(file, &log, PyBUF_SIMPLE)
        try:
            if base < 0 or end - base > log.len:
                raise ValueError("outside of the log's memory")
            if measure(&run):
                found = PyBytes_FromStringAndSize(NULL, run.taken_bytes)
                copy(&run, <Bytes>log.buf, <unsigned char*>PyBytes_AS_STRING(found))
        finally:
            PyBuffer_Release(&log)
    finally:
        PyBuffer_Release(&queue)
    return None if found is None else (found, run.taken, run.looked)
