# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The records of a run of queue entries, copied out of the log by compiled code; repeated pulls.

`storage/reads/reading.py` says what a read finds and when it ends; here is the same done to bytes,
for records that all lie in one file, without an object for each of them. Whatever else a queue may
hold is declined and read there (tests/property/test_compiled_reads.py).

No position or size that an entry names is used before it was compared with what the file holds, and
nothing is given out that does not begin as the record of its entry does (storage/log/heads.py).
"""

from weakref import ref

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_XDECREF, PyObject
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy

include "layout.pxi"
include "packing.pxi"
include "mapped_memory.pxi"
include "records.pxi"
include "block.pxi"
include "pull_header.pxi"
include "known_pull.pxi"
include "repeated_pulls.pxi"


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
    int64_t hot=0,
):
    """Return records of `count` entries, how many they are, and how many entries were looked at.

    They end before a record that lies below position `hot` and is not in memory.

    `entries` has the first one at byte `at`; `file` is log memory that begins at position `base`
    and may be read up to `end`. None: declined, as where one of them is not what its entry says.
    """
    cdef Run run
    cdef Py_buffer queue, log
    cdef bytes found = None
    cdef int64_t done
    run.looked = run.taken = run.taken_bytes = 0
    run.base, run.end, run.count = base, end, count
    run.messages_max, run.bytes_max = messages_max, bytes_max
    run.hot, run.warm_begin, run.warm_end = hot, -1, -1
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
            run.file = <Bytes>log.buf
            if measure(&run):
                found = PyBytes_FromStringAndSize(NULL, run.taken_bytes)
                done = copy(&run, <Bytes>log.buf, <unsigned char*>PyBytes_AS_STRING(found))
                if done < run.taken_bytes:
                    cut(&run, done)
                    found = found[:run.taken_bytes]
                if not are_records(&run, <Bytes>PyBytes_AS_STRING(found)):
                    found = None
        finally:
            PyBuffer_Release(&log)
    finally:
        PyBuffer_Release(&queue)
    return None if found is None else (found, run.taken, run.looked)


def resident(memory not None, Py_ssize_t at, Py_ssize_t count):
    """Return how many bytes of mapped memory from `at` on are in memory, at most `count`."""
    cdef Py_buffer held
    PyObject_GetBuffer(memory, &held, PyBUF_SIMPLE)
    try:
        if at < 0 or count < 0 or count > held.len - at:
            raise ValueError("outside of the memory")
        return min(count, resident_bytes(<Bytes>held.buf + at, count, held.len - at))
    finally:
        PyBuffer_Release(&held)


def guard_copies():
    """Survive copies of memory that the disk does not give, whatever else handles SIGBUS by now."""
    watch_bus()


def copied(memory not None, Py_ssize_t at, Py_ssize_t count):
    """Return `count` bytes of mapped memory, None where the disk does not give them."""
    cdef Py_buffer held
    cdef iovec part
    cdef bytes found
    PyObject_GetBuffer(memory, &held, PyBUF_SIMPLE)
    try:
        if at < 0 or count < 0 or count > held.len - at:
            raise ValueError("outside of the memory")
        found = PyBytes_FromStringAndSize(NULL, count)
        part.iov_base, part.iov_len = <void*>(<Bytes>held.buf + at), count
        if copy_parts(PyBytes_AS_STRING(found), &part, 1) < count:
            return None
        return found
    finally:
        PyBuffer_Release(&held)
