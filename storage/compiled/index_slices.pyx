# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The loops of the index of message keys, each without the interpreter's lock.

What they do is defined by features/index/slices.py, and is the same to the byte
(tests/property/test_index_slices.py). They make no objects: bytes come in, and arrays are changed.
The bytes may say anything: no length in them is used before it was compared with what is there,
and of an entry no number leads anywhere before it was compared with what there is.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy
from posix.unistd cimport pread

from isal import isal_zlib

cdef extern from *:
    """
    #include <string.h>
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define turned32(number) __builtin_bswap32(number)
    #define turned64(number) __builtin_bswap64(number)
    #else
    #define turned32(number) (number)
    #define turned64(number) (number)
    #endif
    static inline uint32_t big32(const unsigned char *at) {
        uint32_t number;
        memcpy(&number, at, 4);
        return turned32(number);
    }
    static inline uint64_t big64(const unsigned char *at) {
        uint64_t number;
        memcpy(&number, at, 8);
        return turned64(number);
    }
    static inline void put32(unsigned char *at, uint32_t number) {
        number = turned32(number);
        memcpy(at, &number, 4);
    }
    static inline void put64(unsigned char *at, uint64_t number) {
        number = turned64(number);
        memcpy(at, &number, 8);
    }
    #define prefetch(at) __builtin_prefetch(at, 1)
    """
    uint32_t big32(const uint8_t*) noexcept nogil
    uint64_t big64(const uint8_t*) noexcept nogil
    void put32(uint8_t*, uint32_t) noexcept nogil
    void put64(uint8_t*, uint64_t) noexcept nogil
    void prefetch(const uint8_t*) noexcept nogil

ctypedef const uint8_t* Bytes

include "layout.pxi"
include "../../remoting/message/check_sum.pxi"

cpdef enum:  # why `index_records` took no more
    MORE = 0  # the next record goes on behind the bytes
    FULL = 1  # the file has no room for the next key
    OTHER = 2  # what stands there is no whole record

cdef enum:
    WHOLE = 3  # a record
    RUNS_BYTES_FIRST = 1 << 18  # of memory
    RUNS_BYTES_KEPT = 1 << 22  # of it, while no runs wait, until `trim`
    KEYS_BYTES_MAX = 512  # of the KEYS of a record in a run
    RUN_HASHES = 1 << 10  # then another one begins: whole ones are taken

cdef enum:  # places in `state`
    BEGIN_MS = 0
    END_MS = 1
    BEGIN_POSITION = 2
    END_POSITION = 3
    SLOTS_USED = 4
    COUNT = 5
    COUNT_MAX = 6
    STATE_NUMBERS = 7

cdef enum:
    ROLLED_BACK = 12  # of the sys flag
    SLOT_BYTES = 4
    SLOT_PAGE_SHIFT = 10  # slots of a page of 4 KiB
    GROUP_KEYS = 64  # so many slots come from memory at a time


include "texts.pxi"
include "hashes.pxi"
include "keys.pxi"
include "runs.pxi"
include "key_runs.pxi"


cdef uint32_t sum_of(
    const uint8_t* begin, Py_ssize_t size, uint32_t before = 0
) except? 0 nogil:
    """Return the check sum of these bytes behind those of `before`, all 32 bits of it."""
    cdef uint32_t found
    if sum_in_c != NULL:
        found = sum_in_c(before, begin, size)
        clear_uppers()
        return found
    with gil:
        window.begin, window.size = begin, size
        found = isal_zlib.crc32(window, before)
        window.begin, window.size = NULL, 0
        return found


cdef Table table_of(
    uint8_t[::1] slots, uint8_t[::1] dirty, uint8_t[::1] entries, int64_t[::1] state
):
    cdef Table table
    assert state.shape[0] == STATE_NUMBERS and slots.shape[0] >= SLOT_BYTES, "as they are made"
    assert dirty.shape[0] > (slots.shape[0] // SLOT_BYTES - 1) >> SLOT_PAGE_SHIFT, "a byte a page"
    table.slots = &slots[0]
    table.dirty = &dirty[0]
    table.entries = &entries[0] if entries.shape[0] else NULL
    table.first = state[COUNT]
    table.room = entries.shape[0] // <Py_ssize_t>INDEX_ENTRY_BYTES
    table.count_slots = slots.shape[0] // <Py_ssize_t>SLOT_BYTES
    table.state = &state[0]
    return table


def index_records(
    const uint8_t[::1] data,
    Py_ssize_t at,
    Py_ssize_t length,
    int64_t base,
    int64_t keys_done,
    uint8_t[::1] slots,
    uint8_t[::1] dirty,
    uint8_t[::1] entries,
    int64_t[::1] state,
):
    """Add the keys of the records from `at` on; return the end, keys done there, and why."""
    cdef Table table = table_of(slots, dirty, entries, state)
    cdef int64_t done = keys_done
    cdef int why
    assert 0 <= at and 0 <= length <= data.shape[0], "within what there is"
    if at >= length:
        return at, done, MORE
    with nogil:
        why = take_records(&table, &data[0], &at, length, base, &done)
    return at, done, why


def index_log(
    int fd,
    int64_t base,
    int64_t position,
    int64_t until,
    int64_t keys_done,
    uint8_t[::1] buffer,
    uint8_t[::1] slots,
    uint8_t[::1] dirty,
    uint8_t[::1] entries,
    int64_t[::1] state,
):
    """Add the keys of the records of a log file that begins at `base`, from `position` to `until`.

    Reads it in pieces as large as `buffer`. Returns the position of the first record that was not
    taken, keys done there, and why; MORE also where a record is larger than the buffer, or the
    file cannot be read there.
    """
    cdef Table table = table_of(slots, dirty, entries, state)
    cdef int64_t done = keys_done, wanted
    cdef Py_ssize_t at = 0, got
    cdef int why = MORE
    assert 0 <= base <= position and buffer.shape[0] > 0, "within the file"
    with nogil:
        while position < until and why == MORE:
            wanted = min(until - position, <int64_t>buffer.shape[0])
            got = pread(fd, &buffer[0], wanted, position - base)
            if got <= 0:
                break
            at = 0
            why = take_records(&table, &buffer[0], &at, got, position, &done)
            position += at
            if at == 0:
                break
    return position, done, why


def index_runs(
    const uint8_t[::1] runs,
    Py_ssize_t at,
    Py_ssize_t until,
    int64_t position,
    int64_t keys_done,
    int64_t log_end,
    uint8_t[::1] slots,
    uint8_t[::1] dirty,
    uint8_t[::1] entries,
    int64_t[::1] state,
):
    """Add the keys of runs from `at` on that begin before `until`; see features/index/slices.py.

    Returns where the first run is that is not wholly taken, the position behind what was, keys done
    there, and why.
    """
    cdef Table table = table_of(slots, dirty, entries, state)
    cdef int64_t done = keys_done
    cdef int why
    assert 0 <= at and until <= runs.shape[0], "within what there is"
    if at >= until:
        return at, position, done, MORE
    with nogil:
        why = take_runs(&table, &runs[0], &at, until, runs.shape[0], &position, &done, log_end)
    return at, position, done, why


def add_sums(
    const uint8_t[::1] data, uint32_t begun, Py_ssize_t room, Py_ssize_t block_bytes,
    uint32_t[::1] sums,
):
    """Sum blocks, the first of which has room for `room` bytes behind those that `begun` sums.

    Notes in `sums` those of blocks that are full; returns how many, and the sum of what follows.
    """
    cdef Py_ssize_t at = 0, size = data.shape[0], count = 0, part
    assert 0 < room <= block_bytes and sums.shape[0] * block_bytes >= size + block_bytes - room
    if not size:
        return 0, begun
    with nogil:
        while at < size:
            part = min(room, size - at)
            begun = sum_of(&data[0] + at, part, begun)
            at += part
            if part < room:
                break
            sums[count] = begun
            count += 1
            begun, room = 0, block_bytes
    return count, begun


def link_entries(
    const uint8_t[::1] data,
    int64_t number,
    int64_t log_end,
    int64_t position,
    uint8_t[::1] slots,
):
    """Have slots lead to the entries of `data`, the first of which has a number.

    Returns how many are sound, the position of the last of them, and how many slots were empty.
    An entry is sound if it is not zeros, lies behind the one before it and before `log_end`, and
    names the entry that its slot led to.
    """
    cdef Py_ssize_t which = 0, count = data.shape[0] // INDEX_ENTRY_BYTES
    cdef int64_t slots_count = slots.shape[0] // SLOT_BYTES, used = 0, here, slot
    cdef int32_t key_hash, previous, before
    cdef const uint8_t* entry
    cdef uint8_t* place
    if count == 0:
        return 0, position, 0
    with nogil:
        while which < count:
            entry = &data[0] + INDEX_ENTRY_BYTES * which
            key_hash = <int32_t>big32(entry)
            here = <int64_t>big64(entry + INDEX_POSITION_AT)
            previous = <int32_t>big32(entry + INDEX_PREVIOUS_AT)
            if key_hash < 0 or here < position or here >= log_end:
                break
            if key_hash == 0 and here == 0 and previous == 0:
                break
            slot = key_hash % slots_count
            place = &slots[0] + SLOT_BYTES * slot
            before = <int32_t>big32(place)
            if previous != before:
                break
            used += before == 0
            put32(place, <uint32_t>(number + which))
            position = here
            which += 1
    return which, position, used


def unlink_entries(const uint8_t[::1] data, uint8_t[::1] slots):
    """Have slots lead to what they led to before these sound entries; return slots emptied."""
    cdef Py_ssize_t which = data.shape[0] // INDEX_ENTRY_BYTES
    cdef int64_t slots_count = slots.shape[0] // SLOT_BYTES, emptied = 0
    cdef int32_t key_hash, previous
    cdef const uint8_t* entry
    if which == 0:
        return 0
    with nogil:
        while which > 0:
            which -= 1
            entry = &data[0] + INDEX_ENTRY_BYTES * which
            key_hash = <int32_t>big32(entry)
            previous = <int32_t>big32(entry + INDEX_PREVIOUS_AT)
            if key_hash < 0:
                continue
            put32(&slots[0] + SLOT_BYTES * (key_hash % slots_count), <uint32_t>previous)
            emptied += previous == 0
    return emptied


def follow_chain(
    int fd,
    int64_t entries_at,
    int64_t number,
    int64_t count,
    int64_t key_hash,
    int64_t begin_ms,
    int64_t earliest_ms,
    int64_t latest_ms,
    int64_t entries_max,
    int64_t[::1] positions,
    const uint32_t[::1] sums,
):
    """Walk the entries of a slot from `number` back and note those of a hash and a time.

    Each is held against its block's sum, of which `sums` has those of all entries before `count`;
    where it has none, the file is believed. Returns how many were noted, the entry to go on with
    (0: there is none), how many were walked, and whether all of it is sound: False where the file
    ends, a block has another sum, or an entry does not lead back; without sums that ends it.
    """
    cdef int64_t walked = 0, found = 0, room = positions.shape[0], stamp
    cdef int64_t sums_count = sums.shape[0], begin = 0, end = 0, which, size
    cdef uint8_t block[INDEX_SUM_ENTRIES * INDEX_ENTRY_BYTES]
    cdef uint8_t* entry
    cdef int32_t previous
    cdef bint sound = True
    with nogil:
        while 0 < number < count and walked < entries_max and found < room:
            if not begin <= number < end:
                which = number // INDEX_SUM_ENTRIES
                begin, end = number, number + 1
                if sums_count:
                    begin = max(<int64_t>1, which * INDEX_SUM_ENTRIES)
                    end = min(count, (which + 1) * INDEX_SUM_ENTRIES)
                size = (end - begin) * INDEX_ENTRY_BYTES
                if pread(fd, block, size, entries_at + INDEX_ENTRY_BYTES * begin) != size or (
                    sums_count and (which >= sums_count or sum_of(block, size) != sums[which])
                ):
                    sound = False
                    break
            walked += 1
            entry = block + (number - begin) * INDEX_ENTRY_BYTES
            stamp = begin_ms
            if number > 1:
                stamp += <int64_t>(<int32_t>big32(entry + INDEX_SECONDS_AT)) * 1000
            if <int32_t>big32(entry) == key_hash and earliest_ms - 999 <= stamp <= latest_ms:
                positions[found] = <int64_t>big64(entry + INDEX_POSITION_AT)
                found += 1
            previous = <int32_t>big32(entry + INDEX_PREVIOUS_AT)
            if previous >= number or previous < 0:
                if sums_count:
                    sound = False
                    break
                previous = 0
            number = previous
    return found, number, walked, sound
