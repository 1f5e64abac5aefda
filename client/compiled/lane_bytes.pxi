# Numbers and texts in memory, read and written, for lane.pyx. Who writes has made room.

ctypedef const unsigned char* Bytes

cdef enum:
    DIGITS_MAX = 18  # always fit in 64 bits
    NUMBER_BYTES_MAX = 20
    POSITION_DIGITS = 16

cdef bint[256] PLAIN  # stands for itself in a JSON string, and is ASCII

cdef int _byte
for _byte in range(256):
    PLAIN[_byte] = 0x20 <= _byte < 0x7F and _byte != c'"' and _byte != c"\\"


cdef inline uint32_t word_at(Bytes at) noexcept nogil:
    """Read four bytes, the highest first."""
    return <uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3]


cdef inline unsigned char* put_word(unsigned char* to, uint32_t value) noexcept nogil:
    """Write four bytes, the highest first; return what is behind them."""
    to[0], to[1] = value >> 24, value >> 16 & 0xFF
    to[2], to[3] = value >> 8 & 0xFF, value & 0xFF
    return to + 4


cdef inline unsigned char* put(
    unsigned char* to, const void* begin, Py_ssize_t size
) noexcept nogil:
    """Copy bytes."""
    memcpy(to, begin, size)
    return to + size


cdef inline unsigned char* put_bytes(unsigned char* to, bytes text) noexcept:
    """Copy a bytes object."""
    return put(to, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef inline unsigned char* put_decimal(unsigned char* to, uint64_t value) noexcept nogil:
    """Write a number as `%d` does."""
    cdef unsigned char[NUMBER_BYTES_MAX] digits
    cdef int at = NUMBER_BYTES_MAX
    while True:
        at -= 1
        digits[at] = c"0" + value % 10
        value //= 10
        if not value:
            return put(to, digits + at, NUMBER_BYTES_MAX - at)


cdef inline unsigned char* put_number(unsigned char* to, uint16_t value) noexcept nogil:
    """Write a number as `%04X` does."""
    cdef int shift
    for shift in range(12, -4, -4):
        to[0] = b"0123456789ABCDEF"[value >> shift & 15]
        to += 1
    return to


cdef inline bint is_plain(object text) noexcept:
    """Say whether a text is written in JSON as it is; it has to be a str."""
    cdef Py_ssize_t place, size
    cdef Bytes at
    if not is_compact_ascii(text):
        return False
    size, at = text_size(text), ascii_of(text)
    for place in range(size):
        if not PLAIN[at[place]]:
            return False
    return True


cdef inline unsigned char* put_property(
    unsigned char* to, const char* name, Py_ssize_t size, object value
) noexcept:
    """Write a property whose value is plain, with the separators as JSON has them."""
    to = put(put(put(to, name, size), b"\\u0001", 6), ascii_of(value), text_size(value))
    return put(to, b"\\u0002", 6)


cdef inline Bytes number_end(Bytes at, Bytes end, int64_t* value) noexcept nogil:
    """Read a number that is not negative; return where it ends, NULL where it is not as usual."""
    cdef Bytes begin = at
    cdef int64_t found = 0
    while at < end and c"0" <= at[0] <= c"9":
        if at - begin == DIGITS_MAX:
            return NULL
        found = found * 10 + (at[0] - c"0")
        at += 1
    if at == begin or (begin[0] == c"0" and at - begin > 1):
        return NULL
    value[0] = found
    return at


cdef inline Bytes string_end(Bytes at, Bytes end) noexcept nogil:
    """Return where the closing quote of a string of plain characters is, NULL without one."""
    while at < end and PLAIN[at[0]]:
        at += 1
    return at if at < end and at[0] == c'"' else NULL


cdef inline bint is_word(Bytes at, Bytes end, const char* word, Py_ssize_t size) noexcept nogil:
    """Say whether these bytes are a word."""
    return end - at == size and memcmp(at, word, size) == 0


cdef inline bint is_text(Bytes at, Py_ssize_t size, object text) noexcept:
    """Say whether these bytes are those of an ASCII text."""
    return text_size(text) == size and memcmp(at, ascii_of(text), size) == 0
