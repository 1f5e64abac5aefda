"""Java's hash of texts, and where properties end: many bytes at a time where the processor can.

Both look at bytes in front of what they are given, fewer than BLOCK_BYTES: whatever they are asked
about lies behind the head of a record, which is longer.
"""

cdef extern from *:
    """
    #define BLOCK_BYTES 64
    #define first_bit(bits) __builtin_ctzll(bits)
    #if defined(__SSE2__) && !defined(AEROBEE_BYTE_BY_BYTE)
    #include <emmintrin.h>
    /* The hashes of the first and of the last eight bytes, of ASCII. */
    static inline __m128i hashes_of_eight(__m128i bytes) {
        __m128i even = _mm_and_si128(bytes, _mm_set1_epi16(0xFF));
        __m128i odd = _mm_srli_epi16(bytes, 8);
        __m128i twos = _mm_add_epi16(_mm_sub_epi16(_mm_slli_epi16(even, 5), even), odd);
        __m128i fours = _mm_madd_epi16(twos, _mm_set1_epi32(1 << 16 | 961));
        __m128i first = _mm_mul_epu32(fours, _mm_set1_epi32(923521));
        return _mm_add_epi64(first, _mm_srli_epi64(fours, 32));
    }
    /* Go on with a hash; 0 where the text is not ASCII, and the hash none. */
    static inline int hashed_ascii(uint32_t *value, const unsigned char *at, long length) {
        static const uint32_t powers[16] = {  /* of 31 */
            1u, 31u, 961u, 29791u, 923521u, 28629151u, 887503681u, 1742810335u, 2487512833u,
            4098453791u, 2498015937u, 129082719u, 4001564289u, 3789408671u, 1507551809u, 3784433119u
        };
        static const unsigned char mask[32] = {
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255
        };
        const unsigned char *end = at + length;
        long more = length & 15;
        __m128i seen = _mm_setzero_si128(), bytes;
        __m128i total = _mm_slli_si128(_mm_cvtsi32_si128((int)(*value * powers[more])), 8);
        if (more) {  /* zeros in front add nothing */
            bytes = _mm_loadu_si128((const __m128i *)(at + more - 16));
            seen = _mm_and_si128(bytes, _mm_loadu_si128((const __m128i *)(mask + more)));
            total = _mm_add_epi64(total, hashes_of_eight(seen));
        }
        for (at += more; at < end; at += 16) {
            bytes = _mm_loadu_si128((const __m128i *)at);
            seen = _mm_or_si128(seen, bytes);
            total = _mm_mul_epu32(total, _mm_set1_epi32(1353309697));  /* 31 to the 16th */
            total = _mm_add_epi64(total, hashes_of_eight(bytes));
        }
        *value = (uint32_t)_mm_cvtsi128_si32(total) * powers[8]
            + (uint32_t)_mm_cvtsi128_si32(_mm_unpackhi_epi64(total, total));
        return !_mm_movemask_epi8(seen);
    }
    /* A bit for each byte of a block that ends a property. */
    static inline uint64_t ends_of_pieces(const unsigned char *at) {
        const __m128i *part = (const __m128i *)at, end = _mm_set1_epi8(2);
        uint64_t ends = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128(part), end));
        for (int which = 1; which < 4; which++)
            ends |= (uint64_t)(uint32_t)_mm_movemask_epi8(
                _mm_cmpeq_epi8(_mm_loadu_si128(part + which), end)) << 16 * which;
        return ends;
    }
    #else
    static inline int hashed_ascii(uint32_t *value, const unsigned char *at, long length) {
        unsigned char seen = 0;
        for (const unsigned char *end = at + length; at < end; at++) {
            *value = *value * 31 + *at;
            seen |= *at;
        }
        return seen < 0x80;
    }
    static inline uint64_t ends_of_pieces(const unsigned char *at) {
        uint64_t ends = 0;
        for (int which = 0; which < BLOCK_BYTES; which++)
            ends |= (uint64_t)(at[which] == 2) << which;
        return ends;
    }
    #endif
    """
    enum: BLOCK_BYTES
    bint hashed_ascii(uint32_t*, const uint8_t*, Py_ssize_t) noexcept nogil
    uint64_t ends_of_pieces(const uint8_t*) noexcept nogil
    int first_bit(uint64_t) noexcept nogil


cdef struct Text:
    const uint8_t* at
    Py_ssize_t length


cdef inline int follows(const uint8_t* at, Py_ssize_t left) noexcept nogil:
    """Return how many bytes behind the first one of a character go with it, three at most.

    Of what is no UTF-8 so many as could begin a character, whose place U+FFFD takes.
    """
    cdef uint8_t first = at[0], least = 0x80, most = 0xBF
    cdef int wanted = 0 if first < 0xC2 or first > 0xF4 else 1 if first < 0xE0 else 2
    cdef int found = 0
    if first >= 0xF0 and wanted:
        wanted = 3
    if first == 0xE0:
        least = 0xA0
    elif first == 0xED:
        most = 0x9F  # what follows would be a surrogate
    elif first == 0xF0:
        least = 0x90
    elif first == 0xF4:
        most = 0x8F
    while found < wanted and found + 1 < left and least <= at[found + 1] <= most:
        found += 1
        least, most = 0x80, 0xBF
    return found


cdef uint32_t hashed_utf8(uint32_t value, const uint8_t* at, Py_ssize_t length) noexcept nogil:
    """Go on with Java's hash over UTF-16 units; what is no UTF-8 is U+FFFD, as in Python."""
    cdef uint32_t total = value
    cdef const uint8_t* end = at + length
    cdef uint32_t point
    cdef int more, which
    while at < end:
        if at[0] < 0x80:
            total = total * 31 + at[0]
            at += 1
            continue
        more = follows(at, end - at)
        point = 0xFFFD
        if more and more == (1 if at[0] < 0xE0 else 2 if at[0] < 0xF0 else 3):
            point = at[0] & (0x3F >> more)
            for which in range(1, more + 1):
                point = point << 6 | (at[which] & 0x3F)
        at += more + 1
        if point >= 0x10000:
            point -= 0x10000
            total = total * 31 + (0xD800 | point >> 10)
            point = 0xDC00 | (point & 0x3FF)
        total = total * 31 + point
    return total


cdef inline uint32_t hashed(uint32_t value, const uint8_t* at, Py_ssize_t length) noexcept nogil:
    """Go on with Java's hash over a text."""
    cdef uint32_t total = value
    return total if hashed_ascii(&total, at, length) else hashed_utf8(value, at, length)
