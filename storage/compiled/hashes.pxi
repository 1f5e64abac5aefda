"""What a record is found by: its three properties, and their hashes."""

cdef enum:
    NAME_END = 1
    PIECE_END = 2
    SHORT_NAME = 4  # of KEYS and TAGS
    LONG_NAME = 8  # of UNIQ_KEY
    KEY_SEPARATOR = 32
    KEYS_MAX = 1 << 14  # of a record, of whose properties 32,767 bytes are keys and spaces


cdef inline int32_t positive(uint32_t value) noexcept nogil:
    """Return what a slot is found by: the absolute value, 0 for the one that has none."""
    cdef int32_t signed_value = <int32_t>value
    if signed_value == -INT32_MAX - 1:
        return 0
    return -signed_value if signed_value < 0 else signed_value


cdef struct Hashes:
    int count
    int32_t hash[KEYS_MAX]


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


cdef inline void hash_found(
    Hashes* hashes, uint32_t topic_hash, Text* uniq, Text* keys, Text* tags
) noexcept nogil:
    """Hash what was found, in the order of the entries; `topic_hash` is of the topic and a sign."""
    cdef const uint8_t* key = keys.at
    cdef const uint8_t* end = keys.at + keys.length
    cdef const uint8_t* key_end
    hashes.count = 0
    if uniq.length:
        note(hashes, topic_hash, uniq.at, uniq.length)
    while key < end:
        key_end = <const uint8_t*>memchr(key, KEY_SEPARATOR, end - key)
        if key_end == NULL:
            key_end = end
        if key_end > key:
            note(hashes, topic_hash, key, key_end - key)
        key = key_end + 1
    if tags.length:
        topic_hash = (topic_hash * 31 + <uint32_t>c'T') * 31 + <uint32_t>c'#'
        note(hashes, topic_hash, tags.at, tags.length)
