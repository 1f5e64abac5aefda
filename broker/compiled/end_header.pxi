# Reading the JSON header of an END_TRANSACTION from its bytes, for half_runs.pxi.
#
# As send_header.pxi does it: whatever has not the form in which clients write it is declined.

cdef enum:
    END_TRANSACTION = 37
    ONEWAY = 2
    MORE_BYTES_MAX = 1 << 20  # what a run's records may take more than its frames, at first

cdef enum:  # names, as bits
    END_GROUP = 1
    END_OFFSET = 2
    END_POSITION = 4
    END_OUTCOME = 8
    END_NEEDED = 15
    END_TOPIC = 16
    END_CHECK = 32

cdef struct EndHeader:
    Bytes topic  # NULL without any
    Py_ssize_t topic_bytes
    Bytes group
    Py_ssize_t group_bytes
    int64_t offset  # of the half topic
    int64_t position
    int64_t outcome


cdef inline unsigned int end_bit(Bytes name, Bytes end) noexcept nogil:
    """Return the bit of a name that is looked at, 0 for any other."""
    if is_text(name, end, "topic", 5):
        return END_TOPIC
    if is_text(name, end, "producerGroup", 13):
        return END_GROUP
    if is_text(name, end, "tranStateTableOffset", 20):
        return END_OFFSET
    if is_text(name, end, "commitLogOffset", 15):
        return END_POSITION
    if is_text(name, end, "commitOrRollback", 16):
        return END_OUTCOME
    if is_text(name, end, "fromTransactionCheck", 20):
        return END_CHECK
    return 0


cdef inline bint take_end_field(
    EndHeader* header, unsigned int bit, Bytes value, Bytes end
) noexcept nogil:
    """Take the value of one field; False where it is unusual."""
    if bit == END_TOPIC:
        header.topic, header.topic_bytes = value, end - value
    elif bit == END_GROUP:
        header.group, header.group_bytes = value, end - value
    elif bit == END_OFFSET:
        return number_end(value, end, &header.offset) == end
    elif bit == END_POSITION:
        return number_end(value, end, &header.position) == end
    elif bit == END_OUTCOME:
        return number_end(value, end, &header.outcome) == end
    elif bit == END_CHECK:
        return is_text(value, end, "true", 4) or is_text(value, end, "false", 5)
    return True


cdef Bytes end_fields_end(void* into, Bytes at, Bytes end) noexcept nogil:
    """Read extFields from behind its brace; return what is behind its last brace, or NULL."""
    cdef EndHeader* header = <EndHeader*>into
    cdef Bytes name, name_end, value
    cdef unsigned int seen = 0, bit
    while True:
        if end - at < FIELD_BYTES_MIN or at[0] != c'"':
            return NULL
        name = at + 1
        name_end = string_end(name, end)
        if name_end == NULL or end - name_end < 3 or memcmp(name_end, b'":"', 3):
            return NULL
        bit = end_bit(name, name_end)
        if seen & bit:
            return NULL
        seen |= bit
        value = name_end + 3
        at = string_end(value, end)
        if at == NULL or end - at < 2 or not take_end_field(header, bit, value, at):
            return NULL
        at += 1
        if at[0] == c"}":
            break
        if at[0] != c",":
            return NULL
        at += 1
    return at + 1 if seen & END_NEEDED == END_NEEDED else NULL


cdef inline bint read_end(EndHeader* header, Bytes at, Bytes end) noexcept nogil:
    """Read a whole header; False unless it commits or rolls back, and wants no answer."""
    cdef Outer outer
    memset(header, 0, sizeof(EndHeader))
    return (
        read_outer(&outer, end_fields_end, header, at, end)
        and outer.code == END_TRANSACTION
        and outer.flag == ONEWAY
        and (header.outcome == COMMITTED or header.outcome == ROLLED_BACK)
    )


cdef inline Py_ssize_t more_bytes(Py_ssize_t left) noexcept nogil:
    """Return what records may take more than their frames: an END brings a whole one."""
    return min(3 * left + SPARE_BYTES, MORE_BYTES_MAX)
