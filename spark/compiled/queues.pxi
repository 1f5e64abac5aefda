"""Records told apart by their queues, and what each queue has had: records/tally.py's loop."""

cdef enum:  # the rows of `seen`
    LOW = 0  # offsets from here on are wanted
    HIGH = 1  # ... up to and without this one
    ROWS = 2
    FIRST = 3  # the smallest offset met
    LAST = 4  # the largest one
    NEXT = 5  # the offset behind the last one met
    BREAKS = 6  # how often another one than that came next
    SEEN_ROWS = 7


cdef inline uint64_t topic_hash(
    const uint8_t* name, int64_t length, int64_t* first, int64_t* last
) noexcept nogil:
    """The hash of a topic, and two words that together are all of one of up to 16 bytes."""
    cdef uint32_t word
    if length >= 8:
        memcpy(first, name, 8)
        memcpy(last, name + length - 8, 8)
    elif length >= 4:
        memcpy(&word, name, 4)
        first[0] = word
        memcpy(&word, name + length - 4, 4)
        last[0] = word
    else:
        first[0] = last[0] = 0
        if length > 0:
            first[0] = name[0] | <int64_t>name[length >> 1] << 8
            last[0] = name[length - 1]
    cdef uint64_t mixed = <uint64_t>first[0] * <uint64_t>0x9E3779B97F4A7C15
    mixed ^= <uint64_t>last[0] * <uint64_t>0xFF51AFD7ED558CCD + <uint64_t>length
    cdef uint64_t inner
    while length > 16:  # names may begin and end alike, and differ between
        memcpy(&inner, name + length - 16, 8)
        mixed = (mixed ^ inner ^ mixed >> 32) * <uint64_t>0x9E3779B97F4A7C15
        length -= 8
    return mixed ^ mixed >> 29 ^ mixed >> 47


cdef inline uint64_t queue_hash(
    const uint8_t* name, int64_t length, int32_t queue, int64_t* first, int64_t* last
) noexcept nogil:
    """The same of one of the topic's queues."""
    cdef uint64_t mixed = topic_hash(name, length, first, last)
    mixed ^= <uint64_t><uint32_t>queue * <uint64_t>0x9E3779B97F4A7C15
    return mixed ^ mixed >> 32


cdef inline bint is_known(
    const uint8_t* name,
    int64_t length,
    const uint8_t* names,
    const int64_t[:, ::1] known,
    const int32_t[::1] slots,
) noexcept nogil:
    """Whether a topic is among those that `place_topic` has placed."""
    cdef int64_t first, last
    cdef uint64_t mask = slots.shape[0] - 1
    cdef uint64_t slot = topic_hash(name, length, &first, &last) & mask
    cdef int32_t number
    while slots[slot] >= 0:
        number = slots[slot]
        if known[1, number] == length and known[2, number] == first and known[3, number] == last:
            if length <= 16 or memcmp(names + known[0, number], name, length) == 0:
                return True
        slot = (slot + 1) & mask
    return False


def place_topic(
    const uint8_t[::1] names, int64_t at, int64_t length, int64_t[:, ::1] known, int32_t number,
    int32_t[::1] slots
):
    """Make a topic known, by a free slot that leads to its number; there must be one.

    `known` has four rows: where in `names` each topic is, its length, and its two words.
    """
    cdef uint64_t mask = slots.shape[0] - 1
    assert known.shape[0] == 4 and 0 <= number < known.shape[1] and within(names, at, length)
    known[0, number], known[1, number] = at, length
    cdef uint64_t slot = topic_hash(
        &names[0] + at, length, &known[2, number], &known[3, number]
    ) & mask
    while slots[slot] >= 0:
        slot = (slot + 1) & mask
    slots[slot] = number


def known_topics(
    const uint8_t[::1] data,
    const int64_t[::1] topic_at,
    const int64_t[::1] topic_bytes,
    const uint8_t[::1] names,
    const int64_t[:, ::1] known,
    const int32_t[::1] slots,
    uint8_t[::1] found,
):
    """Note of each record whether its topic is a known one; return how many are not."""
    cdef Py_ssize_t row, others = 0
    assert topic_at.shape[0] == topic_bytes.shape[0] == found.shape[0], "an array for each column"
    for row in range(topic_at.shape[0]):
        found[row] = 0
        if within(data, topic_at[row], topic_bytes[row]):
            found[row] = is_known(
                &data[0] + topic_at[row], topic_bytes[row], &names[0], known, slots
            )
        others += not found[row]
    return others


def number_queues(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] topic_at,
    const int64_t[::1] topic_bytes,
    Py_ssize_t row,
    const uint8_t[::1] names,
    const int64_t[:, ::1] known,
    Py_ssize_t count,
    int32_t[::1] slots,
    int64_t[:, ::1] seen,
    int32_t[::1] numbers,
    bint closed,
):
    """Number the queues of the records from `row` on; return the first record of an unknown one.

    If `closed`, those of unknown queues have the number -1 instead.

    `known` has five rows: where in `names` the topic of each known queue is, how long it is, the
    queue's id, and the topic's two words, of `place_queue`. `slots`, as many as a power of two,
    lead to them by hash, and are at most half full; -1 is a free one. An offset outside of its
    queue's limits has the number -1 too.
    """
    cdef const uint8_t* begin = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* record
    cdef const uint8_t* name
    cdef Py_ssize_t records = starts.shape[0]
    cdef uint64_t mask = slots.shape[0] - 1, slot
    cdef int64_t length, offset, first, last
    cdef int32_t queue, number
    assert topic_at.shape[0] == topic_bytes.shape[0] == numbers.shape[0] == records
    assert known.shape[0] == 5 and seen.shape[0] == SEEN_ROWS, "a row for each number"
    assert count <= known.shape[1] and count <= seen.shape[1] and count * 2 <= slots.shape[0]
    while row < records:
        if not within(data, starts[row], RECORD_BYTES_MIN):
            return -1
        if not within(data, topic_at[row], topic_bytes[row]):
            return -1
        record = begin + starts[row]
        name = begin + topic_at[row]
        length = topic_bytes[row]
        queue = <int32_t>big32(record + QUEUE_ID_AT)
        slot = queue_hash(name, length, queue, &first, &last) & mask
        while True:
            number = slots[slot]
            if number < 0 or number >= count:
                number = -1
                break
            if (
                known[2, number] == queue
                and known[1, number] == length
                and known[3, number] == first
                and known[4, number] == last
                and (length <= 16 or memcmp(&names[known[0, number]], name, length) == 0)
            ):
                break
            slot = (slot + 1) & mask
        if number < 0 and not closed:
            return row
        numbers[row] = -1
        offset = <int64_t>big64(record + QUEUE_OFFSET_AT)
        if number >= 0 and seen[LOW, number] <= offset < seen[HIGH, number]:
            numbers[row] = number
            seen[ROWS, number] += 1
            seen[FIRST, number] = min(seen[FIRST, number], offset)
            seen[LAST, number] = max(seen[LAST, number], offset)
            seen[BREAKS, number] += offset != seen[NEXT, number]
            seen[NEXT, number] = offset + 1
        row += 1
    return row


def place_queue(
    const uint8_t[::1] name,
    int32_t queue,
    int32_t number,
    int64_t[:, ::1] known,
    int32_t[::1] slots,
):
    """Make a free slot lead to a queue, there must be one; `known` gets its topic's two words."""
    cdef uint64_t mask = slots.shape[0] - 1
    assert known.shape[0] == 5 and 0 <= number < known.shape[1], "a row for each number"
    cdef uint64_t slot = queue_hash(
        &name[0], name.shape[0], queue, &known[3, number], &known[4, number]
    ) & mask
    while slots[slot] >= 0:
        slot = (slot + 1) & mask
    slots[slot] = number
