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


cdef inline uint32_t hash_topic(
    Topic* last, const uint8_t* topic, Py_ssize_t length
) noexcept nogil:
    """Have `last` be a topic, and return the hash with which its keys begin."""
    if last.name.length != length or memcmp(last.name.at, topic, length) != 0:
        last.hash = hashed(0, topic, length) * 31 + <uint32_t>c'#'
        last.name.at = topic
        last.name.length = length
    return last.hash


cdef struct Record:
    Py_ssize_t size
    int64_t stamp
    bint indexed  # whether its keys are
    const uint8_t* topic
    Py_ssize_t topic_bytes
    const uint8_t* properties
    Py_ssize_t properties_bytes


cdef inline int put_keys(
    Table* table, Group* group, Topic* last, Record* read, int64_t base, Py_ssize_t at,
    int64_t which,
) noexcept nogil:
    """Have the keys of a record wait, but the first `which`; add those that wait if they are many.

    Returns MORE, or FULL where the first one that waits has no room.
    """
    cdef Text uniq, keys, tags
    cdef Hashes hashes
    cdef Waiting* key_of
    cdef uint32_t prefix
    find_keys(read.properties, read.properties_bytes, &uniq, &keys, &tags)
    if not (uniq.length or keys.length or tags.length):
        return MORE
    prefix = hash_topic(last, read.topic, read.topic_bytes)
    hash_found(&hashes, prefix, &uniq, &keys, &tags)
    while which < hashes.count:
        if group.count == GROUP_KEYS and not put_group(table, group, base):
            return FULL
        key_of = &group.waiting[group.count]
        key_of.hash = hashes.hash[which]
        key_of.slot = <uint32_t>key_of.hash % <uint32_t>table.count_slots
        prefetch(table.slots + SLOT_BYTES * <int64_t>key_of.slot)
        key_of.stamp = read.stamp
        key_of.which = which
        key_of.at = at
        group.count += 1
        which += 1
    return MORE


cdef inline int read_record(
    Record* read, const uint8_t* record, Py_ssize_t left, int64_t position
) noexcept nogil:
    """Read where what stands, of a record whose position that is; return whether it is whole.

    MORE where `left` bytes are not all of it, OTHER where it is none.
    """
    cdef int64_t body, topic_at, topic, properties, size
    cdef Py_ssize_t head_bytes
    cdef uint32_t magic
    cdef int kind, prefix
    if left < <Py_ssize_t>RECORD_BYTES_MIN:
        return MORE
    size = <int32_t>big32(record)
    magic = big32(record + MAGIC_AT)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return OTHER
    if size < RECORD_BYTES_MIN or <int64_t>big64(record + POSITION_AT) != position:
        return OTHER
    if size > left:
        return MORE
    kind = (record[SYS_FLAG_LAST_AT] >> HOST_BITS_SHIFT) & 3
    head_bytes = RECORD_HEAD_BYTES + HOST_V6_MORE_BYTES * ((kind & 1) + (kind >> 1))
    if head_bytes > size:
        return OTHER
    body = <int32_t>big32(record + head_bytes - BODY_LENGTH_BYTES)
    prefix = 2 if magic == MAGIC_V2 else 1
    topic_at = head_bytes + body + prefix
    if body < 0 or topic_at + 2 > size:
        return OTHER
    if prefix == 1:
        topic = record[topic_at - 1]
    else:
        topic = <int16_t>(record[topic_at - 2] << 8 | record[topic_at - 1])
    if topic < 0 or topic_at + topic + 2 > size:
        return OTHER
    properties = <int16_t>(record[topic_at + topic] << 8 | record[topic_at + topic + 1])
    if properties < 0 or topic_at + topic + 2 + properties != size:
        return OTHER
    read.size = size
    read.indexed = (record[SYS_FLAG_LAST_AT] & ROLLED_BACK) != ROLLED_BACK
    read.stamp = <int64_t>big64(record + STORE_TIMESTAMP_AT + HOST_V6_MORE_BYTES * (kind & 1))
    read.topic, read.topic_bytes = record + topic_at, topic
    read.properties, read.properties_bytes = record + topic_at + topic + 2, properties
    return WHOLE


cdef int take_records(
    Table* table, const uint8_t* data, Py_ssize_t* place, Py_ssize_t length, int64_t base,
    int64_t* done,
) noexcept nogil:
    """Add the keys of the records from `place` on, which is moved; return why no more."""
    cdef Record read
    cdef Py_ssize_t at = place[0]
    cdef int64_t skip = done[0]
    cdef Group group
    cdef Topic last
    cdef int why = MORE
    group.count = 0
    last.name.length = -1
    while True:
        why = read_record(&read, data + at, length - at, base + at)
        if why != WHOLE:
            break
        if read.indexed:
            why = put_keys(table, &group, &last, &read, base, at, skip)
            if why != MORE:
                break
        skip = 0
        at += read.size
    if group.count and not put_group(table, &group, base):
        why = FULL
        at = group.waiting[0].at
        skip = group.waiting[0].which
    place[0] = at
    done[0] = skip
    return why
