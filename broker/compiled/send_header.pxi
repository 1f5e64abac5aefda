# Reading the JSON header of a send from its bytes, for plain_sends.pyx.
#
# A header is read here only in the form in which clients write it: no white space between tokens,
# printable ASCII in strings (properties may have more, see properties.pxi), numbers without leading
# zeros, no name twice among those looked at. Everything else returns False, and the caller declines
# the frame. So whatever is accepted here means to any reader of JSON what it means here.
#
# `at` is where to read, `end` is behind the last byte of the header. No byte is read before it was
# compared with `end`.

cdef enum:
    PLAIN = 0  # stands for itself in a string
    SPECIAL = 1  # quote, backslash, control character or not ASCII
    WATCHED = 2  # plain, but may end a word that makes a message unusual, see properties.pxi

cdef enum:  # outer names, as bits
    CODE = 1
    OPAQUE = 2
    FLAG = 4
    FIELDS = 8

cdef enum:  # sys flags
    PREPARED = 4  # begins a transaction
    COMMITTED = 8
    ROLLED_BACK = 12

cdef enum:
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    REQUIRED_FIELDS = 0xFF  # a to h
    FIELD_BYTES_MIN = 5  # quotes of name and value, and a colon
    SIGNATURE_BYTES = 28
    UNUSUAL_SYS_FLAGS = ~(0x1 | 0x2 | 0x700)  # as in sends/fast.py

cdef unsigned char[256] KIND  # of each byte within a string

cdef int _byte
for _byte in range(256):
    KIND[_byte] = PLAIN if 0x20 <= _byte < 0x7F else SPECIAL
KIND[c'"'] = KIND[c'\\'] = SPECIAL
KIND[c"L"] = KIND[c"_"] = WATCHED

cdef struct SendHeader:
    int64_t opaque
    int64_t queue_id
    int64_t sys_flag
    int64_t born_timestamp
    int64_t flag
    Bytes topic
    Py_ssize_t topic_bytes
    Bytes properties  # still with their escapes
    Py_ssize_t properties_bytes  # 0 without any
    bint is_batch
    Bytes access_key  # NULL without one
    Py_ssize_t access_key_bytes
    Bytes signature  # likewise
    Bytes queue_id_at  # where these numbers stand
    Bytes opaque_at
    Bytes opaque_end


cdef struct Outer:  # of a header
    int64_t code
    int64_t opaque
    int64_t flag
    Bytes opaque_at  # where it stands
    Bytes opaque_end


ctypedef Bytes (*FieldsEnd)(void* into, Bytes at, Bytes end) noexcept nogil


cdef inline bint has_flags(SendHeader* header, int64_t unusual) noexcept nogil:
    """Say whether the flags are those of a plain send, but for these: 0 or PREPARED."""
    return (
        header.sys_flag & UNUSUAL_SYS_FLAGS == unusual
        and INT32_MIN <= header.flag <= INT32_MAX
    )


cdef inline Bytes string_end(Bytes at, Bytes end) noexcept nogil:
    """Return where the closing quote of a string without escapes is, NULL if there is none."""
    while at < end:
        if KIND[at[0]] == SPECIAL:
            return at if at[0] == c'"' else NULL
        at += 1
    return NULL


cdef inline Bytes escaped_string_end(Bytes at, Bytes end) noexcept nogil:
    """Return where the closing quote of a string is that may have escapes, NULL without one."""
    cdef Bytes quote = at
    cdef Bytes before
    while True:
        quote = <Bytes>memchr(quote, c'"', end - quote)
        if quote == NULL:
            return NULL
        before = quote
        while before > at and (before - 1)[0] == c"\\":
            before -= 1
        if not (quote - before) & 1:
            return quote
        quote += 1


cdef inline bint is_text(Bytes at, Bytes end, const char* text, Py_ssize_t size) noexcept nogil:
    return end - at == size and memcmp(at, text, size) == 0


cdef inline Bytes field_end(
    SendHeader* header, unsigned char name, Bytes at, Bytes end
) noexcept nogil:
    """Read the value of one field; return where its closing quote is, NULL if it is unusual."""
    cdef int64_t number = 0
    cdef int64_t* place = &number
    cdef Bytes value_end
    if c"d" <= name <= c"h":
        if name == c"e":
            place = &header.queue_id
            header.queue_id_at = at
        elif name == c"f":
            place = &header.sys_flag
        elif name == c"g":
            place = &header.born_timestamp
        elif name == c"h":
            place = &header.flag
        value_end = number_end(at, end, place)
        return value_end if value_end != NULL and value_end < end and value_end[0] == c'"' else NULL
    value_end = (escaped_string_end if name == c"i" else string_end)(at, end)
    if value_end == NULL:
        return NULL
    if name == c"b":
        header.topic, header.topic_bytes = at, value_end - at
    elif name == c"i":
        header.properties, header.properties_bytes = at, value_end - at
    elif name == c"j":
        return value_end if is_text(at, value_end, "0", 1) else NULL
    elif name == c"m":
        header.is_batch = is_text(at, value_end, "true", 4)
        return value_end if header.is_batch or is_text(at, value_end, "false", 5) else NULL
    return value_end


cdef void note_user(SendHeader* header, Bytes name, Bytes at, Bytes end) noexcept nogil:
    """Note who a request says that it is from, or where it says so with a signature."""
    cdef Bytes value_end = string_end(at, end)
    cdef Py_ssize_t size = value_end - at if value_end != NULL else 0
    if memcmp(name, b"AccessKey", 9) == 0:
        header.access_key, header.access_key_bytes = at, size
    elif memcmp(name, b"Signature", 9) == 0 and size == SIGNATURE_BYTES:
        header.signature = at


cdef Bytes fields_end(void* into, Bytes at, Bytes end) noexcept nogil:
    """Read extFields from behind its brace; return what is behind its last brace, or NULL."""
    cdef SendHeader* header = <SendHeader*>into
    cdef Bytes name_end
    cdef unsigned char name
    cdef unsigned int seen = 0, bit
    while True:
        if end - at < FIELD_BYTES_MIN or at[0] != c'"':
            return NULL
        name = at[1]
        if at[2] == c'"' and c"a" <= name <= c"z":
            bit = 1 << (name - c"a")
            if seen & bit:
                return NULL
            seen |= bit
            name_end = at + 2
        else:
            name = 0
            name_end = string_end(at + 1, end)
            if name_end == NULL or end - name_end < 3:
                return NULL
            if name_end - at == 10:  # both names have nine letters
                note_user(header, at + 1, name_end + 3, end)
        if name_end[1] != c":" or name_end[2] != c'"':
            return NULL
        at = field_end(header, name, name_end + 3, end)
        if at == NULL or end - at < 2:
            return NULL
        at += 1
        if at[0] == c"}":
            break
        if at[0] != c",":
            return NULL
        at += 1
    return at + 1 if seen & REQUIRED_FIELDS == REQUIRED_FIELDS else NULL


cdef Bytes other_value_end(Bytes at, Bytes end) noexcept nogil:
    """Return what is behind a value that nobody looks at: a string, an integer or null."""
    cdef int64_t number = 0
    cdef Bytes quote
    if at >= end:
        return NULL
    if at[0] == c'"':
        quote = string_end(at + 1, end)
        return quote + 1 if quote != NULL else NULL
    if at[0] == c"n":
        return at + 4 if end - at >= 4 and memcmp(at, "null", 4) == 0 else NULL
    return number_end(at, end, &number)


cdef inline unsigned int outer_bit(Bytes name, Bytes end) noexcept nogil:
    """Return the bit of an outer name that is looked at, 0 for any other."""
    if is_text(name, end, "code", 4):
        return CODE
    if is_text(name, end, "opaque", 6):
        return OPAQUE
    if is_text(name, end, "flag", 4):
        return FLAG
    if is_text(name, end, "extFields", 9):
        return FIELDS
    return 0


cdef bint read_outer(
    Outer* outer, FieldsEnd read_fields, void* into, Bytes at, Bytes end
) noexcept nogil:
    """Read a whole header, its fields by `read_fields`; False unless it has the usual form."""
    cdef Bytes name, name_end
    cdef unsigned int seen = 0, bit
    memset(outer, 0, sizeof(Outer))
    if at >= end or at[0] != c"{":
        return False
    while True:
        at += 1
        if at >= end or at[0] != c'"':
            return False
        name = at + 1
        name_end = string_end(name, end)
        if name_end == NULL or end - name_end < 3 or name_end[1] != c":":
            return False
        at = name_end + 2
        bit = outer_bit(name, name_end)
        if seen & bit:
            return False
        seen |= bit
        if bit == FIELDS:
            at = read_fields(into, at + 1, end) if at[0] == c"{" else NULL
        elif bit == OPAQUE:
            outer.opaque_at = at
            outer.opaque_end = at = number_end(at, end, &outer.opaque)
        elif bit == CODE:
            at = number_end(at, end, &outer.code)
        elif bit:
            at = number_end(at, end, &outer.flag)
        else:
            at = other_value_end(at, end)
        if at == NULL or at >= end:
            return False
        if at[0] == c"}":
            break
        if at[0] != c",":
            return False
    at += 1
    while at < end and (at[0] == c"\n" or at[0] == c" "):  # a line feed of C++ clients
        at += 1
    return at == end and bool(seen & FIELDS)


cdef bint read_header(SendHeader* header, Bytes at, Bytes end) noexcept nogil:
    """Read a whole header; False unless it is that of one message or a batch in the usual form."""
    cdef Outer outer
    memset(header, 0, sizeof(SendHeader))
    header.properties = at
    if not read_outer(&outer, fields_end, header, at, end) or outer.flag:
        return False
    header.opaque = outer.opaque
    header.opaque_at, header.opaque_end = outer.opaque_at, outer.opaque_end
    return outer.code == (SEND_BATCH_MESSAGE if header.is_batch else SEND_MESSAGE_V2)
