# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The records of a run of queue entries, copied out of the log by compiled code.

`storage/reads/reading.py` says what a read finds and when it ends; here is the same done to bytes,
for records that all lie in one file, without an object for each of them. Whatever else a queue may
hold is declined and read there (tests/property/test_compiled_reads.py).

No position or size that an entry names is used before it was compared with what the file holds, and
nothing is given out that does not begin as the record of its entry does (storage/log/heads.py).
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy

cdef extern from "<sys/mman.h>" nogil:
    int mincore(void*, size_t, unsigned char*)

cdef extern from *:
    """
    #include <setjmp.h>
    #include <signal.h>
    #include <string.h>
    #include <sys/uio.h>

    /* A page that the disk does not give is SIGBUS to who touches it, and the end of a process. So
       who copies says where to go on then; what others touch ends the process as before. */
    static __thread sigjmp_buf *volatile guard_of_thread;
    static struct sigaction bus_before;

    static void on_bus(int number, siginfo_t *info, void *context) {
        sigjmp_buf *guard = guard_of_thread;
        (void)context;
        if (guard != NULL && info->si_code > 0) {
            guard_of_thread = NULL;
            siglongjmp(*guard, 1);
        }
        sigaction(SIGBUS, &bus_before, NULL);  /* the touch is tried again, and ends it */
        if (info->si_code <= 0)
            raise(number);
    }

    static void watch_bus(void) {
        static int watched = 0;
        struct sigaction action;
        if (watched)
            return;
        watched = 1;
        memset(&action, 0, sizeof(action));
        action.sa_sigaction = on_bus;
        action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, &bus_before);
    }

    /* Copies pieces of mapped memory one behind the other; returns how many bytes of whole pieces
       there were before one that the disk does not give. */
    static Py_ssize_t copy_parts(void *to, struct iovec *parts, int number) {
        sigjmp_buf here;
        volatile Py_ssize_t done = 0;
        volatile int at;
        if (sigsetjmp(here, 0))
            return done;
        guard_of_thread = &here;
        __asm__ volatile("" ::: "memory");
        for (at = 0; at < number; at++) {
            memcpy((char *)to + done, parts[at].iov_base, parts[at].iov_len);
            __asm__ volatile("" ::: "memory");
            done += (Py_ssize_t)parts[at].iov_len;
        }
        guard_of_thread = NULL;
        return done;
    }
    """
    struct iovec:
        void* iov_base
        size_t iov_len
    void watch_bus() nogil
    Py_ssize_t copy_parts(void*, iovec*, int) nogil

cdef extern from "<unistd.h>" nogil:
    long sysconf(int)
    int _SC_PAGESIZE

cdef uintptr_t PAGE_BYTES = sysconf(_SC_PAGESIZE)

cdef enum:
    PAGES = 64  # asked for at once
    WANTED_MAX = 32  # tags codes that are compared one by one
    PARTS_MAX = 64  # copied at once
    LONG_BYTES = 1 << 20  # longer records are looked at in Python before they are copied

include "layout.pxi"
include "packing.pxi"

watch_bus()


cdef struct Run:
    Bytes entries, file
    int64_t hot  # from this position on all is in memory
    int64_t warm_begin, warm_end  # positions between which all is, too
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
    code = long_at(entry + ENTRY_TAGS_CODE_AT)
    for number in range(run.wanted_count):
        if run.wanted[number] == code:
            return True
    return False


cdef Py_ssize_t resident_bytes(Bytes at, Py_ssize_t count, Py_ssize_t room) noexcept nogil:
    """Return how many bytes from `at` on are in memory; `count` are wanted, `room` are mapped.

    It may be more than `count`: a few pages more are asked about. Where the system cannot tell, all
    are.
    """
    cdef unsigned char[PAGES] states
    cdef uintptr_t begin = <uintptr_t>at, page = begin & ~(PAGE_BYTES - 1)
    cdef uintptr_t end = begin + count, last = begin + room
    cdef Py_ssize_t pages, number
    while page < end:
        pages = min(<uintptr_t>PAGES, (last - page + PAGE_BYTES - 1) // PAGE_BYTES)
        if mincore(<void*>page, pages * PAGE_BYTES, states):
            return room
        for number in range(pages):
            if not states[number] & 1:
                page += number * PAGE_BYTES
                return 0 if page <= begin else page - begin
        page += pages * PAGE_BYTES
    return min(page - begin, <uintptr_t>room)


cdef inline bint is_warm(Run* run, int64_t position, int32_t size) noexcept nogil:
    """Say whether a record is in memory."""
    if position >= run.hot or (
        run.warm_begin <= position and position + size <= run.warm_end
    ):
        return True
    run.warm_begin = position
    run.warm_end = position + resident_bytes(
        run.file + (position - run.base), size, run.end - position
    )
    return position + size <= run.warm_end


cdef bint measure(Run* run) noexcept nogil:
    """Find out where the read ends; False where a record is not wholly within the file."""
    cdef Bytes entry = run.entries
    cdef int64_t position
    cdef int32_t size
    while run.looked < run.count:
        if is_wanted(run, entry):
            position, size = long_at(entry), <int32_t>word_at(entry + ENTRY_SIZE_AT)
            if run.taken and (
                run.taken >= run.messages_max or run.taken_bytes + size > run.bytes_max
            ):
                break
            if size < RECORD_BYTES_MIN or size > LONG_BYTES:
                return False
            if position < run.base or position > run.end - size:
                return False
            if not is_warm(run, position, size):
                break
            run.taken += 1
            run.taken_bytes += size
        run.looked += 1
        entry += ENTRY_BYTES
    return True


cdef int64_t copy(Run* run, Bytes file, unsigned char* to) noexcept nogil:
    """Copy the records that `measure` has found; return how many bytes could be."""
    cdef iovec[PARTS_MAX] parts  # waiting to be copied, to the place `begin`
    cdef int number = 0
    cdef unsigned char* begin = to
    cdef unsigned char* start = to
    cdef Bytes entry = run.entries, record, behind = NULL
    cdef Bytes end = entry + run.looked * ENTRY_BYTES
    cdef Py_ssize_t size, done
    while True:
        if number == PARTS_MAX or entry == end or long_at(entry) >= run.hot:
            if number:
                done = copy_parts(begin, parts, number)
                if done < to - begin:
                    return begin - start + done
                number = 0
            begin = to
            if entry == end:
                return to - start
        if is_wanted(run, entry):
            record, size = file + (long_at(entry) - run.base), word_at(entry + ENTRY_SIZE_AT)
            if long_at(entry) >= run.hot:
                begin = to = put_bytes(to, record, size)
            else:
                if number and record == behind:
                    parts[number - 1].iov_len += size
                else:
                    parts[number].iov_base, parts[number].iov_len = <void*>record, size
                    number += 1
                behind = record + size
                to += size
        entry += ENTRY_BYTES


cdef void cut(Run* run, int64_t copied) noexcept nogil:
    """End the read before the first record of which not all bytes were copied."""
    cdef Bytes entry = run.entries
    cdef int64_t whole = 0
    cdef Py_ssize_t looked = 0, taken = 0
    while looked < run.looked:
        if is_wanted(run, entry):
            if whole + word_at(entry + ENTRY_SIZE_AT) > copied:
                break
            whole += word_at(entry + ENTRY_SIZE_AT)
            taken += 1
        looked += 1
        entry += ENTRY_BYTES
    run.looked, run.taken, run.taken_bytes = looked, taken, whole


cdef bint are_records(Run* run, Bytes record) noexcept nogil:
    """Say whether the bytes that were copied are the records that their entries name."""
    cdef Bytes entry = run.entries
    cdef Bytes end = entry + run.looked * ENTRY_BYTES
    cdef uint32_t size, magic
    while entry < end:
        if is_wanted(run, entry):
            size, magic = word_at(entry + ENTRY_SIZE_AT), word_at(record + MAGIC_AT)
            if word_at(record) != size or long_at(record + POSITION_AT) != long_at(entry):
                return False
            if magic != MAGIC_V1 and magic != MAGIC_V2:
                return False
            record += size
        entry += ENTRY_BYTES
    return True


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
