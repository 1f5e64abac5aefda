# Reading the header of a send that is like the one before it, for plain_sends.pyx.
#
# A producer's next header differs from its last one in the topic, the numbers `e` to `h`, the
# properties that follow them as `i`, and the opaque; and in its signature, where it has one.
# Reading goes by bytes alone, so where the stretches before, between and behind these are the same
# bytes, they mean the same, and are not read again.

cdef struct Before:  # a header that was read, NULL where it has not the usual order
    Bytes begin
    Bytes end
    SendHeader header
    Bytes access_key  # that each must have, NULL where nobody is asked who he is
    Py_ssize_t access_key_bytes


cdef inline Bytes next_number(
    Bytes at, Bytes end, const char* before, Py_ssize_t size, int64_t* value
) noexcept nogil:
    """Read a number behind these bytes; return where it ends, NULL where it is not as usual."""
    if at == NULL or end - at < size or memcmp(at, before, size):
        return NULL
    return number_end(at + size, end, value)


cdef inline Bytes numbers_end(SendHeader* header, Bytes at, Bytes end) noexcept nogil:
    """Read `e` to `h` from the first digit on; return where the properties begin, or NULL."""
    at = number_end(at, end, &header.queue_id)
    at = next_number(at, end, b'","f":"', 7, &header.sys_flag)
    at = next_number(at, end, b'","g":"', 7, &header.born_timestamp)
    at = next_number(at, end, b'","h":"', 7, &header.flag)
    if at == NULL or end - at < 7 or memcmp(at, b'","i":"', 7):
        return NULL
    return at + 7


cdef inline void remember(
    Before* before, SendHeader* header, Bytes begin, Bytes end
) noexcept nogil:
    """Note a header that was read in full, if the next one can be compared with it."""
    cdef SendHeader again
    before.begin = NULL
    if (
        header.queue_id_at == NULL
        or header.topic > header.queue_id_at
        or header.opaque_at < header.properties
        or numbers_end(&again, header.queue_id_at, end) != header.properties
    ):
        return
    before.begin, before.end, before.header = begin, end, header[0]


cdef inline Bytes topic_end(SendHeader* known, Bytes at, Bytes end) noexcept nogil:
    """Return where the quote behind a topic is, which often is the one before."""
    cdef Py_ssize_t size = known.topic_bytes
    if end - at > size and at[size] == c'"' and memcmp(at, known.topic, size) == 0:
        return at + size
    return string_end(at, end)


cdef inline bint is_alike(
    Before* before, SendHeader* header, Bytes begin, Bytes end
) noexcept nogil:
    """Read a header by the one before; False where they differ in more than was said."""
    cdef SendHeader* known = &before.header
    cdef Py_ssize_t size = known.topic - before.begin
    cdef Bytes at = begin, behind
    if end - at < size or memcmp(at, before.begin, size):
        return False
    header.topic = at + size
    at = topic_end(known, header.topic, end)
    if at == NULL:
        return False
    header.topic_bytes = at - header.topic
    behind = known.topic + known.topic_bytes
    size = known.queue_id_at - behind
    if end - at < size or memcmp(at, behind, size):
        return False
    header.is_batch = known.is_batch
    header.queue_id_at = at + size
    header.properties = at = numbers_end(header, at + size, end)
    if at == NULL:
        return False
    at = escaped_string_end(at, end)
    if at == NULL:
        return False
    header.properties_bytes = at - header.properties
    behind = known.properties + known.properties_bytes
    size = known.opaque_at - behind
    if end - at < size or memcmp(at, behind, size):
        return False
    header.opaque_at = at + size
    header.opaque_end = at = number_end(at + size, end, &header.opaque)
    size = before.end - known.opaque_end
    return at != NULL and end - at == size and memcmp(at, known.opaque_end, size) == 0


cdef inline bint is_same(Bytes at, Bytes known, Py_ssize_t size, Bytes hole) noexcept nogil:
    """Compare a stretch with a known one, but for a signature that the known one may have."""
    cdef Py_ssize_t place, each
    if hole < known or hole - known > size - SIGNATURE_BYTES:
        return memcmp(at, known, size) == 0
    place = hole - known
    if memcmp(at, known, place):
        return False
    for each in range(place, place + SIGNATURE_BYTES):
        if KIND[at[each]] == SPECIAL:
            return False
    place += SIGNATURE_BYTES
    return memcmp(at + place, known + place, size - place) == 0


cdef bint is_alike_signed(
    Before* before, SendHeader* header, Bytes begin, Bytes end
) noexcept nogil:
    """Do what `is_alike` does, but for the signature: apart, so that others pay nothing for it."""
    cdef SendHeader* known = &before.header
    cdef Bytes hole = known.signature
    cdef Py_ssize_t size = known.topic - before.begin
    cdef Bytes at = begin, behind
    if end - at < size or not is_same(at, before.begin, size, hole):
        return False
    header.topic = at + size
    at = topic_end(known, header.topic, end)
    if at == NULL:
        return False
    header.topic_bytes = at - header.topic
    behind = known.topic + known.topic_bytes
    size = known.queue_id_at - behind
    if end - at < size or not is_same(at, behind, size, hole):
        return False
    header.is_batch = known.is_batch
    header.queue_id_at = at + size
    header.properties = at = numbers_end(header, at + size, end)
    if at == NULL:
        return False
    at = escaped_string_end(at, end)
    if at == NULL:
        return False
    header.properties_bytes = at - header.properties
    behind = known.properties + known.properties_bytes
    size = known.opaque_at - behind
    if end - at < size or not is_same(at, behind, size, hole):
        return False
    header.opaque_at = at + size
    header.opaque_end = at = number_end(at + size, end, &header.opaque)
    size = before.end - known.opaque_end
    return at != NULL and end - at == size and is_same(at, known.opaque_end, size, hole)


cdef inline bint read_next_header(
    Before* before, SendHeader* header, Bytes at, Bytes end
) noexcept nogil:
    """Read a header as `read_header` does, by the one before it where that is possible."""
    if before.begin == NULL or not is_alike(before, header, at, end):
        if before.begin != NULL and before.header.signature != NULL:
            if is_alike_signed(before, header, at, end):
                return True
        if not read_header(header, at, end):
            return False
        if before.access_key != NULL and not is_text(
            header.access_key,
            header.access_key + header.access_key_bytes,
            <const char*>before.access_key,
            before.access_key_bytes,
        ):
            return False
        remember(before, header, at, end)
    return True
