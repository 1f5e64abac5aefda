# The messages of a batch, for plain_sends.pyx: all of them are stored, or none.
#
# `_split` and `send_batch` of sends/fast.py say what is done. First the lengths alone are read and
# their sum is compared with the room, then each message is written; what counts is moved on behind
# the last one, so that a message that is not as usual takes nothing back but the queue's entries.


cdef struct Batch:
    Py_ssize_t count
    int64_t records_bytes


cdef inline uint32_t properties_length(Bytes at) noexcept nogil:
    return <uint32_t>at[0] << 8 | at[1]


cdef bint measure_batch(
    Batch* found, Bytes at, Bytes end, Py_ssize_t around_bytes
) noexcept nogil:
    """Read the lengths of a body; False where one is wrong. Records have `around_bytes` more."""
    cdef int64_t left, whole, body_bytes, properties_bytes
    found.count = found.records_bytes = 0
    while at < end:
        left = end - at
        if left < BATCH_HEAD_BYTES + PROPERTIES_LENGTH_BYTES:
            return False
        body_bytes = word_at(at + BATCH_BODY_BYTES_AT)
        whole = BATCH_HEAD_BYTES + body_bytes + PROPERTIES_LENGTH_BYTES
        if not body_bytes or whole > left:
            return False
        properties_bytes = properties_length(at + BATCH_HEAD_BYTES + body_bytes)
        whole += properties_bytes
        if whole != word_at(at) or whole > left:
            return False
        at += whole
        if properties_bytes and (at - 1)[0] != PROPERTY_SEPARATOR:
            properties_bytes += 1
        if properties_bytes > PROPERTIES_BYTES_MAX:
            return False
        found.count += 1
        found.records_bytes += around_bytes + body_bytes + properties_bytes
    return found.count > 0


cdef bint is_plain_text(Bytes at, Bytes end) noexcept nogil:
    """Say whether a header's properties are text that does not speak of inner messages.

    No letter may be written as an escape, or a word could hide.
    """
    cdef Bytes begin = at
    cdef unsigned char byte
    cdef int size
    while at < end:
        byte = at[0]
        size = 1
        if byte >= 0x80:
            size = character_bytes(at, end)
        elif byte == c"\\":
            size = escape(at, end, &byte)
            if KIND[byte] != SPECIAL:
                return False
        elif byte < 0x20 or (byte == c"_" and ends_with(begin, at, "INNER", 5)):
            return False
        if not size:
            return False
        at += size
    return True


cdef bint put_batched_properties(
    unsigned char* to, Bytes at, Bytes end, int32_t* tags_code
) noexcept nogil:
    """Copy the properties of one message, with a separator behind the last one.

    False where they are not pairs of names and values, are no text, or have a word that a plain
    message does not have. `tags_code` is Java's hash of the value of TAGS, 0 without.
    """
    cdef Bytes begin = at, name = at, value = NULL, tags = NULL
    cdef uint32_t code = 0
    cdef int size
    put_bytes(to, at, end - at)
    while True:
        while at < end and KIND[at[0]] == PLAIN:  # nearly all
            at += 1
        if at == end:
            break
        size = 1
        if at[0] >= 0x80:
            size = character_bytes(at, end)
            if not size:
                return False
        elif at[0] == NAME_SEPARATOR:
            if value != NULL or at == name:
                return False
            value = at + 1
            if is_word(name, at - name, "TAGS", 4):
                if tags != NULL:
                    return False
                tags = value
        elif at[0] == PROPERTY_SEPARATOR:
            if value == NULL or at == value:
                return False
            name, value = at + 1, NULL
        elif KIND[at[0]] == WATCHED and is_unusual(begin, at, at[0]):
            return False
        at += size
    if name != end:
        if value == NULL or value == end:
            return False
        to[end - begin] = PROPERTY_SEPARATOR
    while tags != NULL and tags < end and tags[0] != PROPERTY_SEPARATOR:
        if tags[0] >= 0x80:
            return False  # Java's hash is over UTF-16
        code = 31 * code + tags[0]
        tags += 1
    tags_code[0] = <int32_t>code
    return True


cdef Outcome pack_batch(
    PlainSends sends, Lane lane, SendHeader* header, Bytes at, Bytes end, Py_ssize_t left
) except? FULL:
    """Pack the messages of a body; `left` bytes were read from the frame's first on."""
    cdef Batch batch
    cdef Py_ssize_t around_bytes = (
        RECORD_AROUND_BYTES + PyBytes_GET_SIZE(sends.stamp) + PyBytes_GET_SIZE(lane.prefix)
    )
    cdef Py_ssize_t ack_bytes_max = lane.batch_ack_bytes_max
    cdef int64_t first_position = sends.position, first_offset = lane.offset
    if not is_plain_text(header.properties, header.properties + header.properties_bytes):
        return DECLINED
    if not measure_batch(&batch, at, end, around_bytes):
        return DECLINED
    if batch.count > lane.limit - lane.offset:
        return sends.crowd(lane, batch.count)
    if batch.records_bytes > sends.limit - sends.position:
        return DECLINED
    ack_bytes_max += batch.count * (PyBytes_GET_SIZE(lane.host_hex) + POSITION_BYTES + 1)
    if not sends.records.has_room(
        batch.records_bytes, batch.records_bytes + left + SPARE_BYTES
    ):
        return FULL
    if not sends.acks.has_room(ack_bytes_max, ack_bytes_max + left // 2 + SPARE_BYTES):
        return FULL
    if not put_messages(sends, lane, header, at, end):
        if sends.seen is not None:
            sends.seen.take_back(first_position)
        memset(
            lane.entries + (first_offset - lane.base) * ENTRY_BYTES,
            0,
            (lane.offset - first_offset) * ENTRY_BYTES,
        )
        sends.position, lane.offset = first_position, first_offset
        return DECLINED
    sends.records.size += batch.records_bytes
    lane.arrived_bytes += batch.records_bytes
    sends.acks.size += put_batch_ack(sends, lane, header.opaque, first_position, first_offset)
    return SERVED


cdef bint put_messages(
    PlainSends sends, Lane lane, SendHeader* header, Bytes at, Bytes end
) except -1:
    """Write records and entries of messages that were measured; False where one is unusual."""
    cdef unsigned char* record = sends.records.end()
    cdef unsigned char* tail
    cdef Bytes properties, properties_end
    cdef Py_ssize_t body_bytes, tail_bytes
    cdef int32_t tags_code = 0
    cdef int has_key = 0
    while at < end:
        body_bytes = word_at(at + BATCH_BODY_BYTES_AT)
        header.flag = word_at(at + BATCH_FLAG_AT)
        at += BATCH_HEAD_BYTES
        properties = at + body_bytes + PROPERTIES_LENGTH_BYTES
        tail_bytes = properties_length(at + body_bytes)
        properties_end = properties + tail_bytes
        tail = record + head_bytes(lane, sends.stamp, body_bytes)
        if not put_batched_properties(
            tail + PROPERTIES_LENGTH_BYTES, properties, properties_end, &tags_code
        ):
            return False
        if sends.seen is not None:
            has_key = look_key(sends, properties, properties_end)
            if has_key < 0:
                return False
        if tail_bytes and (properties_end - 1)[0] != PROPERTY_SEPARATOR:
            tail_bytes += 1
        put16(tail, tail_bytes)
        tail += PROPERTIES_LENGTH_BYTES + tail_bytes
        sends.put_head(record, lane, header, at, body_bytes, tail - record)
        if has_key and not sends.note():
            return False
        put_entry(lane, sends.position, tail - record, tags_code)
        sends.position += tail - record
        lane.offset += 1
        record, at = tail, properties_end
    return True


cdef int look_key(PlainSends sends, Bytes at, Bytes end) except -2:
    """Read the unique key of a message; 0 where it has none, -1 where it has two."""
    cdef Bytes key = NULL, name = at, pair_end
    while name < end:
        pair_end = <Bytes>memchr(name, PROPERTY_SEPARATOR, end - name)
        if pair_end == NULL:
            pair_end = end
        if pair_end - name > 9 and memcmp(name, b"UNIQ_KEY\x01", 9) == 0:
            if key != NULL:
                return -1
            key, at = name + 9, pair_end
        name = pair_end + 1
    if key == NULL:
        return 0
    sends.look(key, at - key)
    return 1


cdef Py_ssize_t put_batch_ack(
    PlainSends sends, Lane lane, int64_t opaque, int64_t position, int64_t offset
) noexcept:
    """Write the acknowledgement of the messages from a position on; return its size."""
    cdef unsigned char* begin = sends.acks.end()
    cdef unsigned char* to = put_text(begin + FRAME_WORDS_BYTES, lane.batch_begin)
    cdef Bytes record = sends.records.end() - (sends.position - position)
    while position < sends.position:
        to = put_hex(put_text(to, lane.host_hex), position)
        to[0] = c","
        to += 1
        position += word_at(record)
        record += word_at(record)
    to = put_text(to - 1, lane.batch_offset)
    to = put_text(put_decimal(to, offset), lane.batch_opaque)
    to = put_text(put_decimal(to, opaque), lane.batch_end)
    put32(put32(begin, to - begin - FRAME_LENGTH_BYTES), to - begin - FRAME_WORDS_BYTES)
    return to - begin
