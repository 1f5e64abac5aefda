# Taking the properties of a plain send out of its header, for plain_sends.pyx.

cdef struct Properties:
    Py_ssize_t size
    Bytes key  # the value of UNIQ_KEY
    Py_ssize_t key_bytes
    int32_t tags_code  # Java's hash of the value of TAGS, 0 without


cdef inline bint ends_with(
    Bytes begin, Bytes end, const char* word, Py_ssize_t size
) noexcept nogil:
    """Say whether the bytes before `end` are a word."""
    return end - begin >= size and memcmp(end - size, word, size) == 0


cdef inline bint is_unusual(Bytes begin, Bytes end, unsigned char byte) noexcept nogil:
    """Say whether a word ends, or goes on, with this byte that a plain send does not have.

    They are DEL, TRAN_, POP_CK and INNER_MULTI_, wherever they stand; POP_ and MULTI_ alone are
    declined, too.
    """
    if byte == c"L":
        return ends_with(begin, end, "DE", 2)
    return (
        ends_with(begin, end, "TRAN", 4)
        or ends_with(begin, end, "POP", 3)
        or ends_with(begin, end, "MULTI", 5)
    )


cdef inline int hex_digit(unsigned char digit) noexcept nogil:
    """Return the value of a hexadecimal digit, -1 for anything else."""
    if c"0" <= digit <= c"9":
        return digit - c"0"
    digit |= 0x20
    return digit - c"a" + 10 if c"a" <= digit <= c"f" else -1


cdef inline int escape(Bytes at, Bytes end, unsigned char* value) noexcept nogil:
    """Read an escape of an ASCII character; return how long it is, 0 for any other."""
    cdef int high, low
    if end - at < 2:
        return 0
    if at[1] == c'"' or at[1] == c"\\" or at[1] == c"/":
        value[0] = at[1]
        return 2
    if end - at < 6 or memcmp(at + 1, b"u00", 3):
        return 0
    if at[4] == c"0" and (at[5] == c"1" or at[5] == c"2"):  # nearly all
        value[0] = at[5] - c"0"
        return 6
    high, low = hex_digit(at[4]), hex_digit(at[5])
    if not 0 <= high < 8 or low < 0:
        return 0
    value[0] = high << 4 | low
    return 6


cdef inline bint is_alnum(Bytes at, Py_ssize_t size) noexcept nogil:
    """Say what bytes.isalnum says."""
    cdef Py_ssize_t place
    for place in range(size):
        if not (
            c"0" <= at[place] <= c"9" or c"A" <= at[place] <= c"Z" or c"a" <= at[place] <= c"z"
        ):
            return False
    return size > 0


cdef enum:
    NAMES_MAX = 32  # of one message


cdef struct Names:
    Bytes[NAMES_MAX] begin
    Py_ssize_t[NAMES_MAX] size
    int count


cdef inline bint is_word(
    Bytes at, Py_ssize_t size, const char* word, Py_ssize_t length
) noexcept nogil:
    """Say whether these bytes are a word."""
    return size == length and memcmp(at, word, length) == 0


cdef inline bint is_bytes(Bytes at, Py_ssize_t size, bytes text) noexcept:
    """Say whether these bytes are those of an object."""
    return is_word(at, size, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef inline bint add_name(Names* names, Bytes at, Py_ssize_t size) noexcept nogil:
    """Note a name; False where it is empty, comes again, or is one that a broker looks at."""
    cdef int number
    if (
        not size
        or names.count == NAMES_MAX
        or is_word(at, size, "INNER_NUM", 9)
        or is_word(at, size, "MSG_REGION", 10)
        or is_word(at, size, "TRACE_ON", 8)
        or is_word(at, size, "CLUSTER", 7)
    ):
        return False
    for number in range(names.count):
        if names.size[number] == size and memcmp(names.begin[number], at, size) == 0:
            return False
    names.begin[names.count] = at
    names.size[names.count] = size
    names.count += 1
    return True


cdef inline int character_bytes(Bytes at, Bytes end) noexcept nogil:
    """Return the size of a UTF-8 character that is not ASCII, 0 where there is none."""
    cdef unsigned char first = at[0], low = 0x80, high = 0xBF  # which its second byte is between
    cdef int size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    if first < 0xC2 or first > 0xF4 or end - at < size:
        return 0
    if first == 0xE0:
        low = 0xA0  # below are characters that have a shorter form
    elif first == 0xED:
        high = 0x9F  # above are halves of UTF-16 pairs
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F  # above is no character
    if not low <= at[1] <= high:
        return 0
    if size > 2 and not 0x80 <= at[2] <= 0xBF or size > 3 and not 0x80 <= at[3] <= 0xBF:
        return 0
    return size


cdef bint put_properties(
    Properties* found, unsigned char* to, Bytes at, Bytes end
) noexcept nogil:
    """Write the properties without their escapes; False where they are not those of a plain send.

    Each has a name, which none before it has, and a value: others would not be stored as they are.
    `to` has room for `end - at + 1` bytes: a separator is added where the last one is missing. At
    `end` is the closing quote.
    """
    cdef unsigned char* begin = to
    cdef unsigned char* name = to  # of the property that is read
    cdef unsigned char* value = NULL  # its value, as soon as the name has ended
    cdef unsigned char byte
    cdef Bytes key = NULL, tags = NULL
    cdef Names names
    cdef int size
    cdef uint32_t tags_code = 0
    names.count = 0
    if at == end:
        return False
    while True:
        while KIND[at[0]] == PLAIN:  # nearly all; the quote is not
            to[0] = at[0]
            to += 1
            at += 1
        if at == end:
            break
        byte = at[0]
        if byte >= 0x80:
            size = character_bytes(at, end)
            if not size:
                return False
            to = put_bytes(to, at, size)
            at += size
            continue
        if KIND[byte] == WATCHED:
            if is_unusual(begin, to, byte):
                return False
            at += 1
        else:
            size = escape(at, end, &byte) if byte == c"\\" else 0
            if not size or KIND[byte] == WATCHED:
                return False
            at += size
            if byte == NAME_SEPARATOR and value == NULL:
                if not add_name(&names, name, to - name):
                    return False
                value = to + 1
                if is_word(name, to - name, "UNIQ_KEY", 8):
                    key = value
                elif is_word(name, to - name, "TAGS", 4):
                    tags = value
            elif byte == PROPERTY_SEPARATOR:
                if value == NULL or to == value:
                    return False
                name, value = to + 1, NULL
        to[0] = byte
        to += 1
    if key == NULL:
        return False
    if name != to:  # the last one has no separator behind it
        if value == NULL or to == value:
            return False
        to[0] = PROPERTY_SEPARATOR
        to += 1
    found.size = to - begin
    found.key = key
    found.key_bytes = <Bytes>memchr(key, PROPERTY_SEPARATOR, to - key) - key
    while tags != NULL and tags[0] != PROPERTY_SEPARATOR:
        if tags[0] >= 0x80:
            return False  # Java's hash is over UTF-16
        tags_code = 31 * tags_code + tags[0]
        tags += 1
    found.tags_code = <int32_t>tags_code
    return is_alnum(key, found.key_bytes)
