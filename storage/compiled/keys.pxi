"""Records to keys, and keys to entries: what features/index/slices.py does for each record."""


cdef struct Table:
    uint8_t* slots
    uint8_t* dirty
    uint8_t* entries  # room for the first new one
    int64_t first  # the number of that
    int64_t room
    int64_t count_slots
    int64_t* state


cdef struct Waiting:
    int32_t hash
    uint32_t slot
    int64_t stamp
    int64_t which  # of the keys of its record
    int64_t at  # where that stands


cdef struct Group:  # of keys whose slots are on their way from memory
    int count
    Waiting waiting[GROUP_KEYS]


cdef struct Topic:  # of the record before: most are followed by one of the same
    Text name
    uint32_t hash  # of its name and the sign behind it


cdef struct Hashes:
    int count
    int32_t hash[KEYS_MAX]


cdef inline int32_t positive(uint32_t value) noexcept nogil:
    """Return what a slot is found by: the absolute value, 0 for the one that has none."""
    cdef int32_t signed_value = <int32_t>value
    if signed_value == -INT32_MAX - 1:
        return 0
    return -signed_value if signed_value < 0 else signed_value


cdef bint put_group(Table* table, Group* group, int64_t base) noexcept nogil:
    """Add the keys that wait; False where there is no room: the first one without stands first."""
    cdef int64_t* state = table.state
    cdef int64_t count = state[COUNT], begin_ms = state[BEGIN_MS], end_ms = state[END_MS]
    cdef int64_t room = min(state[COUNT_MAX], table.first + table.room)
    cdef int64_t stamp = 0, seconds = 0, last_ms = -1, used = 0
    cdef int32_t previous
    cdef uint8_t* slots = table.slots
    cdef uint8_t* dirty = table.dirty
    cdef uint8_t* entry = table.entries + INDEX_ENTRY_BYTES * (count - table.first)
    cdef uint8_t* slot
    cdef Waiting* key = &group.waiting[0]
    cdef Waiting* end = key + group.count
    while key < end and count < room:
        stamp = key.stamp
        if count <= 1:
            begin_ms = state[BEGIN_MS] = stamp
            state[BEGIN_POSITION] = base + key.at
        if stamp != last_ms:
            last_ms = stamp
            seconds = 0
            if begin_ms > 0 and stamp > begin_ms:
                seconds = min((stamp - begin_ms) // 1000, <int64_t>INT32_MAX)
            end_ms = max(end_ms, stamp)
        slot = slots + SLOT_BYTES * <int64_t>key.slot
        previous = <int32_t>big32(slot)
        if previous <= 0 or previous >= count:
            previous = 0
            used += 1
        put32(entry, <uint32_t>key.hash)
        put64(entry + INDEX_POSITION_AT, <uint64_t>(base + key.at))
        put32(entry + INDEX_SECONDS_AT, <uint32_t>seconds)
        put32(entry + INDEX_PREVIOUS_AT, <uint32_t>previous)
        put32(slot, <uint32_t>count)
        dirty[key.slot >> SLOT_PAGE_SHIFT] = 1
        entry += INDEX_ENTRY_BYTES
        count += 1
        key += 1
    if key != &group.waiting[0]:
        state[END_POSITION] = base + (key - 1).at
    state[COUNT], state[END_MS] = count, end_ms
    state[SLOTS_USED] += used
    group.count = <int>(end - key)
    if group.count:
        group.waiting[0] = key[0]
    return group.count == 0


cdef inline void note_piece(
    const uint8_t* piece, const uint8_t* end, Text* uniq, Text* keys, Text* tags
) noexcept nogil:
    """Note a property if it is one of three and not empty."""
    cdef Py_ssize_t length = end - piece
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


cdef inline void find_keys(
    const uint8_t* properties, Py_ssize_t length, Text* uniq, Text* keys, Text* tags
) noexcept nogil:
    """Find three properties; of a repeated name the last value that is not empty counts."""
    cdef const uint8_t* piece = properties
    cdef const uint8_t* end = properties + length
    cdef const uint8_t* at = properties + (length & (BLOCK_BYTES - 1)) - BLOCK_BYTES
    cdef uint64_t ends = 0
    uniq.at = keys.at = tags.at = properties
    uniq.length = keys.length = tags.length = 0
    if at + BLOCK_BYTES != properties:
        ends = ends_of_pieces(at) >> (properties - at) << (properties - at)
    while True:
        while ends:
            note_piece(piece, at + first_bit(ends), uniq, keys, tags)
            piece = at + first_bit(ends) + 1
            ends &= ends - 1
        at += BLOCK_BYTES
        if at == end:
            break
        ends = ends_of_pieces(at)
    if piece < end:
        note_piece(piece, end, uniq, keys, tags)


cdef inline void note(
    Hashes* hashes, uint32_t value, const uint8_t* at, Py_ssize_t length
) noexcept nogil:
    """Hash a key."""
    hashes.hash[hashes.count] = positive(hashed(value, at, length))
    hashes.count += 1


cdef inline uint32_t hash_topic(
    Topic* last, const uint8_t* topic, Py_ssize_t length
) noexcept nogil:
    """Have `last` be a topic, and return the hash with which its keys begin."""
    if last.name.length != length or memcmp(last.name.at, topic, length) != 0:
        last.hash = hashed(0, topic, length) * 31 + <uint32_t>c'#'
        last.name.at = topic
        last.name.length = length
    return last.hash


cdef inline int put_keys(
    Table* table, Group* group, Topic* last, const uint8_t* topic, Py_ssize_t topic_bytes,
    const uint8_t* properties, Py_ssize_t properties_bytes, int64_t base, Py_ssize_t at,
    int64_t stamp, int64_t which,
) noexcept nogil:
    """Have the keys of a record wait, but the first `which`; add those that wait if they are many.

    Returns MORE, or FULL where the first one that waits has no room.
    """
    cdef Text uniq, keys, tags
    cdef Hashes hashes
    cdef Waiting* key_of
    cdef uint32_t prefix
    cdef const uint8_t* key
    cdef const uint8_t* key_end
    cdef const uint8_t* end
    find_keys(properties, properties_bytes, &uniq, &keys, &tags)
    if not (uniq.length or keys.length or tags.length):
        return MORE
    prefix = hash_topic(last, topic, topic_bytes)
    hashes.count = 0
    if uniq.length:
        note(&hashes, prefix, uniq.at, uniq.length)
    if keys.length:
        key = keys.at
        end = key + keys.length
        while key < end:
            key_end = <const uint8_t*>memchr(key, KEY_SEPARATOR, end - key)
            if key_end == NULL:
                key_end = end
            if key_end > key:
                note(&hashes, prefix, key, key_end - key)
            key = key_end + 1
    if tags.length:
        prefix = (prefix * 31 + <uint32_t>c'T') * 31 + <uint32_t>c'#'
        note(&hashes, prefix, tags.at, tags.length)
    while which < hashes.count:
        if group.count == GROUP_KEYS and not put_group(table, group, base):
            return FULL
        key_of = &group.waiting[group.count]
        key_of.hash = hashes.hash[which]
        key_of.slot = <uint32_t>key_of.hash % <uint32_t>table.count_slots
        prefetch(table.slots + SLOT_BYTES * <int64_t>key_of.slot)
        key_of.stamp = stamp
        key_of.which = which
        key_of.at = at
        group.count += 1
        which += 1
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
    cdef Group group
    cdef Topic last
    cdef uint32_t magic
    cdef int why = MORE, kind, prefix
    group.count = 0
    last.name.length = -1
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
                table, &group, &last, record + topic_at, topic, record + topic_at + topic + 2,
                properties, base, at, stamp, skip,
            )
            if why != MORE:
                break
        skip = 0
        at += size
    if group.count and not put_group(table, &group, base):
        why = FULL
        at = group.waiting[0].at
        skip = group.waiting[0].which
    place[0] = at
    done[0] = skip
    return why
