# Numbers and texts in memory, read and written. Who writes has made room.

ctypedef const unsigned char* Bytes

cdef enum:
    NUMBER_BYTES_MAX = 20  # a decimal of 64 bits with its sign
    DIGITS_MAX = 18  # always fit in 64 bits
    POSITION_BYTES = 16  # a hexadecimal of 64 bits


cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    /* Whole numbers in one load or store: bytes that are put together by shifts are made a vector
       by compilers, by way of the stack, which waits for all stores before it. */
    #if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    #define high_first_16(value) (value)
    #define high_first_32(value) (value)
    #define high_first_64(value) (value)
    #else
    #define high_first_16(value) __builtin_bswap16(value)
    #define high_first_32(value) __builtin_bswap32(value)
    #define high_first_64(value) __builtin_bswap64(value)
    #endif

    static inline uint32_t load32(const unsigned char *at) {
        uint32_t value;
        memcpy(&value, at, sizeof value);
        return high_first_32(value);
    }

    static inline void store16(unsigned char *to, uint32_t low) {
        uint16_t value = high_first_16((uint16_t)low);
        memcpy(to, &value, sizeof value);
    }

    static inline void store32(unsigned char *to, uint32_t value) {
        value = high_first_32(value);
        memcpy(to, &value, sizeof value);
    }

    static inline void store64(unsigned char *to, uint64_t value) {
        value = high_first_64(value);
        memcpy(to, &value, sizeof value);
    }
    """
    uint32_t load32(const unsigned char*) noexcept nogil
    void store16(unsigned char*, uint32_t) noexcept nogil
    void store32(unsigned char*, uint32_t) noexcept nogil
    void store64(unsigned char*, uint64_t) noexcept nogil


cdef inline uint32_t word_at(Bytes at) noexcept nogil:
    """Read four bytes, the highest first."""
    return load32(at)


cdef inline unsigned char* put16(unsigned char* to, uint32_t value) noexcept nogil:
    """Write the low two bytes, the higher first; return what is behind them."""
    store16(to, value)
    return to + 2


cdef inline unsigned char* put32(unsigned char* to, uint32_t value) noexcept nogil:
    """Write four bytes."""
    store32(to, value)
    return to + 4


cdef inline unsigned char* put64(unsigned char* to, uint64_t value) noexcept nogil:
    """Write eight bytes."""
    store64(to, value)
    return to + 8


cdef inline unsigned char* put_bytes(
    unsigned char* to, Bytes begin, Py_ssize_t size
) noexcept nogil:
    """Copy bytes."""
    memcpy(to, begin, size)
    return to + size


cdef inline unsigned char* put_text(unsigned char* to, bytes text) noexcept:
    """Copy a bytes object."""
    return put_bytes(to, <Bytes>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef inline unsigned char* put_decimal(unsigned char* to, int64_t value) noexcept nogil:
    """Write a number as `%d` does."""
    cdef unsigned char[NUMBER_BYTES_MAX] digits
    cdef int at = NUMBER_BYTES_MAX
    cdef uint64_t rest = <uint64_t>value
    if value < 0:
        to[0] = c"-"
        to += 1
        rest = 0 - rest
    while True:
        at -= 1
        digits[at] = c"0" + rest % 10
        rest //= 10
        if not rest:
            return put_bytes(to, digits + at, NUMBER_BYTES_MAX - at)


cdef inline unsigned char* put_hex(unsigned char* to, uint64_t value) noexcept nogil:
    """Write a number as `%016X` does."""
    cdef int shift
    for shift in range(60, -4, -4):
        to[0] = b"0123456789ABCDEF"[value >> shift & 15]
        to += 1
    return to


cdef inline Bytes number_end(Bytes at, Bytes end, int64_t* value) noexcept nogil:
    """Read an integer; return where it ends, NULL where it is none of the usual form."""
    cdef bint negative = at < end and at[0] == c"-"
    cdef Bytes begin
    cdef int64_t found = 0
    at += negative
    begin = at
    while at < end and c"0" <= at[0] <= c"9":
        if at - begin == DIGITS_MAX:
            return NULL
        found = found * 10 + (at[0] - c"0")
        at += 1
    if at == begin or (begin[0] == c"0" and (negative or at - begin > 1)):
        return NULL
    value[0] = -found if negative else found
    return at
