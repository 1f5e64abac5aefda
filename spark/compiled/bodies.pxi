"""Bodies copied while the chain of records is walked: what log_reads.py gives out, in one pass."""


cdef struct Names:
    int count
    const char* text[LEFT_OUT_MAX]
    Py_ssize_t length[LEFT_OUT_MAX]
    bint whole[LEFT_OUT_MAX]  # else it is how names begin
    bint first[256]  # the bytes that any of them begins with


cdef Names listed(tuple pairs):
    cdef Names names
    cdef int number
    assert len(pairs) <= LEFT_OUT_MAX, "room for all"
    memset(&names, 0, sizeof(names))
    for text, whole in pairs:
        number = names.count
        names.text[number] = text
        names.length[number] = len(text)
        names.whole[number] = whole
        names.first[<uint8_t>names.text[number][0]] = True
        names.count += 1
    return names


cdef bint has(const Names* names, const uint8_t* name, Py_ssize_t length) noexcept nogil:
    cdef int number
    cdef Py_ssize_t compared
    for number in range(names.count):
        compared = names.length[number]
        if length == compared or (length > compared and not names.whole[number]):
            if memcmp(name, names.text[number], compared) == 0:
                return True
    return False


def bodies(
    const uint8_t[::1] data,
    Py_ssize_t at,
    Py_ssize_t length,
    int64_t base,
    tuple left_out,
    int32_t[::1] offsets,
    uint8_t[::1] out,
    Py_ssize_t row,
    int64_t known_before,
    const uint8_t[::1] names,
    const int64_t[:, ::1] known,
    const int32_t[::1] slots,
):
    """Copy the bodies of the records from `at` on behind those of `row` records before them.

    It is `walk`, `locate`, `place` and `copy` at once. `left_out` has pairs: a topic and True, or
    how topics begin and False; before the log position `known_before` topics that are not known
    (see `known_topics`) are left out too. Returns the end, how many rows there are then, and why
    no more.
    """
    cdef const uint8_t* begin = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* record
    cdef Names unwanted = listed(left_out)
    cdef Py_ssize_t rows = offsets.shape[0] - 1
    cdef Py_ssize_t limit = min(length, data.shape[0] - RECORD_HEAD_BYTES_MAX)
    cdef int64_t filled, body_at, body, topic_at, topic, properties, end
    cdef int32_t size
    cdef uint32_t magic
    cdef int kind, prefix
    assert at >= 0 and 0 <= row <= rows, "within what there is"
    filled = offsets[row]
    assert 0 <= filled <= out.shape[0], "within what there is"
    while row < rows:
        if at > limit - RECORD_PREFIX_BYTES:
            return at, row, MORE
        record = begin + at
        size = <int32_t>big32(record)
        magic = big32(record + MAGIC_AT)
        if magic != MAGIC_V1 and magic != MAGIC_V2:
            return at, row, OTHER
        if size < RECORD_BYTES_MIN or <int64_t>big64(record + POSITION_AT) != base + at:
            return at, row, OTHER
        if record[SYS_FLAG_LAST_AT] & WRAPPED == WRAPPED:  # several messages
            return at, row, OTHER
        end = at + size
        if end > limit:
            return at, row, MORE
        kind = (record[SYS_FLAG_LAST_AT] >> HOST_BITS_SHIFT) & 3
        body_at = at + RECORD_HEAD_BYTES + HOST_V6_MORE_BYTES * ((kind & 1) + (kind >> 1))
        body = <int32_t>big32(begin + body_at - BODY_LENGTH_BYTES)
        prefix = 2 if magic == MAGIC_V2 else 1
        topic_at = body_at + body + prefix
        if body < 0 or topic_at + 2 > end:
            return at, row, OTHER
        if prefix == 1:
            topic = begin[topic_at - 1]
        else:
            topic = <int16_t>(begin[topic_at - 2] << 8 | begin[topic_at - 1])
        if topic <= 0 or topic_at + topic + 2 > end:
            return at, row, OTHER
        properties = <int16_t>(begin[topic_at + topic] << 8 | begin[topic_at + topic + 1])
        if properties < 0 or topic_at + topic + 2 + properties != end:
            return at, row, OTHER
        if unwanted.first[begin[topic_at]] and has(&unwanted, begin + topic_at, topic):
            at = end
            continue
        if base + at < known_before:
            if not is_known(begin + topic_at, topic, &names[0], known, slots):
                at = end
                continue
        if body > min(out.shape[0], INT32_MAX) - filled:
            return at, row, FULL
        if body:
            memcpy(&out[filled], begin + body_at, body)
        filled += body
        row += 1
        offsets[row] = <int32_t>filled
        at = end
    return at, row, FULL
