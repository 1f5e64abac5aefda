"""Records to keys, and keys to entries: what features/index/slices.py does for each record."""


cdef struct Text:
    const uint8_t* at
    Py_ssize_t length


cdef struct Table:
    uint8_t* slots
    uint8_t* dirty
    uint8_t* entries  # room for the first new one
    int64_t first  # the number of that
    int64_t room
    int64_t count_slots
    int64_t* state


cdef inline bint hashed(uint32_t* value, const uint8_t* at, Py_ssize_t length) noexcept nogil:
    """Go on with Java's hash over the UTF-16 units of some UTF-8; False where it is none."""
    cdef uint32_t total = value[0]
    cdef const uint8_t* end = at + length
    cdef uint32_t point
    cdef uint8_t byte
    cdef int more
    while at < end:
        while end - at >= 4 and not (big32(at) & <uint32_t>0x80808080):
            total = (
                total * <uint32_t>923521 + at[0] * <uint32_t>29791
                + at[1] * <uint32_t>961 + at[2] * <uint32_t>31 + at[3]
            )
            at += 4
        if at == end:
            break
        byte = at[0]
        if byte < 0x80:
            total = total * 31 + byte
            at += 1
            continue
        if byte < 0xC2 or byte > 0xF4:
            return False
        more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        if end - at <= more:
            return False
        point = byte & (0x3F >> more)
        at += 1
        while more:
            if (at[0] & 0xC0) != 0x80:
                return False
            point = point << 6 | (at[0] & 0x3F)
            at += 1
            more -= 1
        if byte >= 0xF0:
            if point < 0x10000 or point > 0x10FFFF:
                return False
            point -= 0x10000
            total = total * 31 + (0xD800 | point >> 10)
            total = total * 31 + (0xDC00 | (point & 0x3FF))
        else:
            if byte >= 0xE0 and (point < 0x800 or 0xD800 <= point <= 0xDFFF):
                return False
            total = total * 31 + point
    value[0] = total
    return True


cdef inline int32_t positive(uint32_t value) noexcept nogil:
    """Return what a slot is found by: the absolute value, 0 for the one that has none."""
    cdef int32_t signed_value = <int32_t>value
    if signed_value == -INT32_MAX - 1:
        return 0
    return -signed_value if signed_value < 0 else signed_value


cdef inline bint put(
    Table* table, int32_t key_hash, int64_t slot, int64_t position, int64_t stamp
) noexcept nogil:
    """Add an entry; False where there is no room."""
    cdef int64_t* state = table.state
    cdef int64_t count = state[COUNT], seconds
    cdef int32_t previous
    cdef uint8_t* entry
    if count >= state[COUNT_MAX] or count - table.first >= table.room:
        return False
    previous = <int32_t>big32(table.slots + SLOT_BYTES * slot)
    if previous <= 0 or previous >= count:
        previous = 0
        state[SLOTS_USED] += 1
    if count <= 1:
        state[BEGIN_MS] = stamp
        state[BEGIN_POSITION] = position
    seconds = 0
    if state[BEGIN_MS] > 0 and stamp > state[BEGIN_MS]:
        seconds = min((stamp - state[BEGIN_MS]) // 1000, <int64_t>INT32_MAX)
    entry = table.entries + INDEX_ENTRY_BYTES * (count - table.first)
    put32(entry, <uint32_t>key_hash)
    put64(entry + INDEX_POSITION_AT, <uint64_t>position)
    put32(entry + INDEX_SECONDS_AT, <uint32_t>seconds)
    put32(entry + INDEX_PREVIOUS_AT, <uint32_t>previous)
    put32(table.slots + SLOT_BYTES * slot, <uint32_t>count)
    table.dirty[slot >> SLOT_PAGE_SHIFT] = 1
    state[COUNT] = count + 1
    state[END_POSITION] = position
    if stamp > state[END_MS]:
        state[END_MS] = stamp
    return True


cdef inline void find_keys(
    const uint8_t* piece, const uint8_t* end, Text* uniq, Text* keys, Text* tags
) noexcept nogil:
    """Find three properties; of a repeated name the last value that is not empty counts."""
    cdef const uint8_t* piece_end
    cdef Py_ssize_t length
    uniq.length = keys.length = tags.length = 0
    while piece < end:
        piece_end = <const uint8_t*>memchr(piece, PIECE_END, end - piece)
        if piece_end == NULL:
            piece_end = end
        length = piece_end - piece
        if length > SHORT_NAME + 1 and piece[SHORT_NAME] == NAME_END:
            if memcmp(piece, <const char*>b"KEYS", SHORT_NAME) == 0:
                keys.at = piece + SHORT_NAME + 1
                keys.length = length - SHORT_NAME - 1
            elif memcmp(piece, <const char*>b"TAGS", SHORT_NAME) == 0:
                tags.at = piece + SHORT_NAME + 1
                tags.length = length - SHORT_NAME - 1
        elif length > LONG_NAME + 1 and piece[LONG_NAME] == NAME_END:
            if memcmp(piece, <const char*>b"UNIQ_KEY", LONG_NAME) == 0:
                uniq.at = piece + LONG_NAME + 1
                uniq.length = length - LONG_NAME - 1
        piece = piece_end + 1


cdef struct Hashes:
    int count
    int32_t hash[KEYS_MAX]


cdef inline bint note(
    Hashes* hashes, uint32_t value, const uint8_t* at, Py_ssize_t length
) noexcept nogil:
    """Hash a key; False for what Python has to do."""
    cdef int which = hashes.count
    if which >= KEYS_MAX or not hashed(&value, at, length):
        return False
    hashes.hash[which] = positive(value)
    hashes.count = which + 1
    return True


cdef struct Waiting:
    int32_t hash
    int64_t slot
    int64_t stamp
    int64_t which  # of the keys of its record
    Py_ssize_t at  # where that stands


cdef struct Ring:  # of keys whose slots are on their way from memory
    int64_t first
    int64_t last
    Waiting waiting[RING_KEYS]


cdef inline bint put_first(Table* table, Ring* ring, int64_t base) noexcept nogil:
    """Add the key that has waited longest; False where there is no room, and it goes on waiting."""
    cdef Waiting* first = &ring.waiting[ring.first & (RING_KEYS - 1)]
    if not put(table, first.hash, first.slot, base + first.at, first.stamp):
        return False
    ring.first += 1
    return True


cdef inline int put_keys(
    Table* table, Ring* ring, const uint8_t* topic, Py_ssize_t topic_bytes,
    const uint8_t* properties, Py_ssize_t properties_bytes, int64_t base, Py_ssize_t at,
    int64_t stamp, int64_t which,
) noexcept nogil:
    """Have the keys of a record wait, but the first `which`, and add those that have waited.

    Returns MORE, FULL where the first one that waits has no room, or ODD with none of this record.
    """
    cdef Text uniq, keys, tags
    cdef Hashes hashes
    cdef Waiting* last
    cdef uint32_t prefix = 0
    cdef const uint8_t* key
    cdef const uint8_t* key_end
    cdef const uint8_t* end
    find_keys(properties, properties + properties_bytes, &uniq, &keys, &tags)
    hashes.count = 0
    if uniq.length or keys.length or tags.length:
        if not hashed(&prefix, topic, topic_bytes):
            return ODD
        prefix = prefix * 31 + <uint32_t>c'#'
    if uniq.length and not note(&hashes, prefix, uniq.at, uniq.length):
        return ODD
    if keys.length:
        key = keys.at
        end = key + keys.length
        while key < end:
            key_end = <const uint8_t*>memchr(key, KEY_SEPARATOR, end - key)
            if key_end == NULL:
                key_end = end
            if key_end > key and not note(&hashes, prefix, key, key_end - key):
                return ODD
            key = key_end + 1
    if tags.length:
        prefix = (prefix * 31 + <uint32_t>c'T') * 31 + <uint32_t>c'#'
        if not note(&hashes, prefix, tags.at, tags.length):
            return ODD
    while which < hashes.count:
        last = &ring.waiting[ring.last & (RING_KEYS - 1)]
        last.hash = hashes.hash[which]
        last.slot = <uint32_t>last.hash % <uint32_t>table.count_slots
        prefetch(table.slots + SLOT_BYTES * last.slot)
        last.stamp = stamp
        last.which = which
        last.at = at
        ring.last += 1
        which += 1
        if ring.last - ring.first == RING_KEYS and not put_first(table, ring, base):
            return FULL
    return MORE


cdef int take_records(
    Table* table, const uint8_t* data, Py_ssize_t* place, Py_ssize_t length, int64_t base,
    int64_t* done,
) noexcept nogil:
    """Add the keys of the records from `place` on, which is moved; return why no more."""
    cdef const uint8_t* record
    cdef int64_t body, topic_at, topic, properties, stamp, size
    cdef Py_ssize_t head_bytes, at = place[0]
    cdef int64_t skip = done[0]
    cdef Ring ring
    cdef uint32_t magic
    cdef int why = MORE, kind, prefix
    ring.first = ring.last = 0
    while True:
        if at > length - <Py_ssize_t>RECORD_BYTES_MIN:
            break
        record = data + at
        size = <int32_t>big32(record)
        magic = big32(record + MAGIC_AT)
        if magic != MAGIC_V1 and magic != MAGIC_V2:
            why = OTHER
            break
        if size < RECORD_BYTES_MIN or <int64_t>big64(record + POSITION_AT) != base + at:
            why = OTHER
            break
        if size > length - at:
            break
        kind = (record[SYS_FLAG_LAST_AT] >> HOST_BITS_SHIFT) & 3
        head_bytes = RECORD_HEAD_BYTES + HOST_V6_MORE_BYTES * ((kind & 1) + (kind >> 1))
        if head_bytes > size:
            why = OTHER
            break
        body = <int32_t>big32(record + head_bytes - BODY_LENGTH_BYTES)
        prefix = 2 if magic == MAGIC_V2 else 1
        topic_at = head_bytes + body + prefix
        if body < 0 or topic_at + 2 > size:
            why = OTHER
            break
        if prefix == 1:
            topic = record[topic_at - 1]
        else:
            topic = <int16_t>(record[topic_at - 2] << 8 | record[topic_at - 1])
        if topic < 0 or topic_at + topic + 2 > size:
            why = OTHER
            break
        properties = <int16_t>(record[topic_at + topic] << 8 | record[topic_at + topic + 1])
        if properties < 0 or topic_at + topic + 2 + properties != size:
            why = OTHER
            break
        if (record[SYS_FLAG_LAST_AT] & ROLLED_BACK) != ROLLED_BACK:
            stamp = <int64_t>big64(record + STORE_TIMESTAMP_AT + HOST_V6_MORE_BYTES * (kind & 1))
            why = put_keys(
                table, &ring, record + topic_at, topic, record + topic_at + topic + 2,
                properties, base, at, stamp, skip,
            )
            if why != MORE:
                break
        skip = 0
        at += size
    while ring.first != ring.last and put_first(table, &ring, base):
        pass
    if ring.first != ring.last:
        why = FULL
        at = ring.waiting[ring.first & (RING_KEYS - 1)].at
        skip = ring.waiting[ring.first & (RING_KEYS - 1)].which
    place[0] = at
    done[0] = skip
    return why
