# Reading the JSON header of an acknowledgement from its bytes, for lane.pyx.
#
# A header is read here only in the form in which brokers write it: no white space between tokens,
# plain ASCII without escapes in strings, numbers without leading zeros, no name twice. Everything
# else returns False, and the reply takes the checked path. So whatever is accepted here means to
# any reader of JSON what it means here. No byte is read before its place was compared with `end`.

cdef enum:  # names, as bits
    CODE = 1
    OPAQUE = 2
    FLAG = 4
    FIELDS = 8
    REMARK = 16
    LANGUAGE = 32
    SERIALIZE_TYPE = 64
    VERSION = 128
    MSG_ID = 256
    QUEUE_ID = 512
    QUEUE_OFFSET = 1_024
    TRANSACTION_ID = 2_048
    MSG_REGION = 4_096
    TRACE_ON = 8_192
    NEEDED = CODE | OPAQUE | FLAG | FIELDS | MSG_ID | QUEUE_ID | QUEUE_OFFSET

cdef struct AckHeader:
    int64_t code
    int64_t opaque
    int64_t flag
    int64_t queue_id
    int64_t queue_offset
    uint64_t position
    Bytes id  # without the position, which is its last digits
    Py_ssize_t id_bytes
    Bytes transaction_id
    Py_ssize_t transaction_id_bytes
    Bytes region
    Py_ssize_t region_bytes
    bint traced
    unsigned int seen


cdef inline bint read_id(AckHeader* header, Bytes at, Bytes end) noexcept nogil:
    """Read a broker's id of a message, in upper case; False where it is none."""
    cdef Bytes digits = end - POSITION_DIGITS
    cdef uint64_t position = 0
    if not POSITION_DIGITS < end - at <= TEXT_BYTES_MAX:
        return False
    header.id, header.id_bytes = at, digits - at
    while digits < end:
        if c"0" <= digits[0] <= c"9":
            position = position << 4 | <uint64_t>(digits[0] - c"0")
        elif c"A" <= digits[0] <= c"F":
            position = position << 4 | <uint64_t>(digits[0] - c"A" + 10)
        else:
            return False
        digits += 1
    header.position = position
    return True


cdef inline unsigned int field_bit(Bytes at, Bytes end) noexcept nogil:
    """Return the bit of a field's name, 0 for one that a plain acknowledgement does not have."""
    if is_word(at, end, b"msgId", 5):
        return MSG_ID
    if is_word(at, end, b"queueId", 7):
        return QUEUE_ID
    if is_word(at, end, b"queueOffset", 11):
        return QUEUE_OFFSET
    if is_word(at, end, b"MSG_REGION", 10):
        return MSG_REGION
    if is_word(at, end, b"TRACE_ON", 8):
        return TRACE_ON
    if is_word(at, end, b"transactionId", 13):
        return TRANSACTION_ID
    return 0


cdef inline bint read_field(
    AckHeader* header, unsigned int bit, Bytes at, Bytes end
) noexcept nogil:
    """Read the value of a field; False where it is unusual."""
    if bit == MSG_ID:
        return read_id(header, at, end)
    if bit == QUEUE_ID:
        return number_end(at, end, &header.queue_id) == end
    if bit == QUEUE_OFFSET:
        return number_end(at, end, &header.queue_offset) == end
    if bit == MSG_REGION:
        header.region, header.region_bytes = at, end - at
        return header.region_bytes <= TEXT_BYTES_MAX
    if bit == TRANSACTION_ID:
        header.transaction_id, header.transaction_id_bytes = at, end - at
        return True
    header.traced = not is_word(at, end, b"false", 5)
    return True


cdef Bytes fields_end(AckHeader* header, Bytes at, Bytes end) noexcept nogil:
    """Read extFields from behind its brace; return what is behind its last brace, or NULL."""
    cdef Bytes name, value
    cdef unsigned int bit
    while True:
        if end - at < 2 or at[0] != c'"':
            return NULL
        name = at + 1
        at = string_end(name, end)
        if at == NULL or end - at < 3 or at[1] != c":" or at[2] != c'"':
            return NULL
        bit = field_bit(name, at)
        if not bit or header.seen & bit:
            return NULL
        header.seen |= bit
        value = at + 3
        at = string_end(value, end)
        if at == NULL or not read_field(header, bit, value, at) or end - at < 2:
            return NULL
        at += 1
        if at[0] == c"}":
            return at + 1
        if at[0] != c",":
            return NULL
        at += 1


cdef inline unsigned int outer_bit(Bytes at, Bytes end) noexcept nogil:
    """Return the bit of an outer name, 0 for one that a plain acknowledgement does not have."""
    if is_word(at, end, b"code", 4):
        return CODE
    if is_word(at, end, b"opaque", 6):
        return OPAQUE
    if is_word(at, end, b"flag", 4):
        return FLAG
    if is_word(at, end, b"extFields", 9):
        return FIELDS
    if is_word(at, end, b"language", 8):
        return LANGUAGE
    if is_word(at, end, b"version", 7):
        return VERSION
    if is_word(at, end, b"serializeTypeCurrentRPC", 23):
        return SERIALIZE_TYPE
    return 0


cdef inline Bytes outer_end(
    AckHeader* header, unsigned int bit, Bytes at, Bytes end
) noexcept nogil:
    """Read an outer value; return what is behind it, NULL where it is unusual."""
    cdef int64_t ignored
    if bit == CODE:
        return number_end(at, end, &header.code)
    if bit == OPAQUE:
        return number_end(at, end, &header.opaque)
    if bit == FLAG:
        return number_end(at, end, &header.flag)
    if bit == VERSION:
        return number_end(at, end, &ignored)
    if bit == FIELDS:
        return fields_end(header, at + 1, end) if at < end and at[0] == c"{" else NULL
    if at >= end or at[0] != c'"':
        return NULL
    at = string_end(at + 1, end)
    return at + 1 if at != NULL else NULL


cdef bint read_ack(AckHeader* header, Bytes at, Bytes end) noexcept nogil:
    """Read a whole header; False unless it is that of a plain success."""
    cdef Bytes name
    cdef unsigned int bit
    header.seen = 0
    header.traced = True
    if end - at < 2 or at[0] != c"{":
        return False
    while True:
        at += 1
        if end - at < 2 or at[0] != c'"':
            return False
        name = at + 1
        at = string_end(name, end)
        if at == NULL or end - at < 2 or at[1] != c":":
            return False
        bit = outer_bit(name, at)
        if not bit or header.seen & bit:
            return False
        header.seen |= bit
        at = outer_end(header, bit, at + 2, end)
        if at == NULL or at >= end:
            return False
        if at[0] == c"}":
            break
        if at[0] != c",":
            return False
    return (
        at + 1 == end
        and header.seen & NEEDED == NEEDED
        and header.code == 0
        and header.flag == 1
    )
