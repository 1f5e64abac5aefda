# The records of a run of queue entries, for record_runs.pyx: what storage/reads/reading.py finds.

cdef enum:
    WANTED_MAX = 32  # tags codes that are compared one by one
    PARTS_MAX = 64  # copied at once
    LONG_BYTES = 1 << 20  # longer records are looked at in Python before they are copied


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
