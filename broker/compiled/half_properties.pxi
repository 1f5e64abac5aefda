# Taking the properties of a half message out of its header, for half_runs.pxi.

cdef struct HalfProperties:
    Py_ssize_t size
    Bytes key  # the value of UNIQ_KEY
    Py_ssize_t key_bytes
    Bytes group  # the value of PGROUP
    Py_ssize_t group_bytes
    int32_t tags_code


cdef unsigned char* put_unescaped(unsigned char* to, Bytes at, Bytes end) noexcept nogil:
    """Write a string's text; return what is behind it, NULL where it has what is unusual.

    At `end` is its closing quote. What is written is not longer than what is read.
    """
    cdef unsigned char byte
    cdef int size
    while True:
        while KIND[at[0]] != SPECIAL:  # nearly all; the quote is not
            to[0] = at[0]
            to += 1
            at += 1
        if at == end:
            return to
        byte = at[0]
        if byte >= 0x80:
            size = character_bytes(at, end)
            if not size:
                return NULL
            to = put_bytes(to, at, size)
        else:
            size = escape(at, end, &byte) if byte == c"\\" else 0
            if not size:
                return NULL
            to[0] = byte
            to += 1
        at += size


cdef inline bint is_one_of(tuple words, Bytes at, Py_ssize_t size):
    """Say whether these bytes are one of some words."""
    for word in words:
        if is_bytes(at, size, <bytes>word):
            return True
    return False


cdef bint java_hash(Bytes at, Bytes end, int32_t* code) noexcept nogil:
    """Hash a tag; False where it is not ASCII: Java's hash is over UTF-16."""
    cdef uint32_t found = 0
    while at < end:
        if at[0] >= 0x80:
            return False
        found = 31 * found + at[0]
        at += 1
    code[0] = <int32_t>found
    return True


cdef bint put_half_properties(
    HalfProperties* found, tuple unusual, unsigned char* to, Bytes at, Bytes end
):
    """Write the properties without their escapes; False where they are not those of a plain half.

    Each has a name, which none before it has and which is not `unusual`, and a value; key, group
    and TRAN_MSG are there. `to` has room for `end - at + 1` bytes.
    """
    cdef unsigned char* begin = to
    cdef Bytes name = to, value, behind
    cdef Py_ssize_t size
    cdef bint prepared = False
    cdef Names names
    names.count = 0
    found.key = found.group = NULL
    found.tags_code = 0
    to = put_unescaped(to, at, end)
    if to == NULL or to == begin:
        return False
    if (to - 1)[0] != PROPERTY_SEPARATOR:
        to[0] = PROPERTY_SEPARATOR
        to += 1
    while name < to:
        behind = <Bytes>memchr(name, PROPERTY_SEPARATOR, to - name)
        value = <Bytes>memchr(name, NAME_SEPARATOR, behind - name)
        if value == NULL:
            return False
        size, value = value - name, value + 1
        if value == behind or not add_name(&names, name, size) or is_one_of(unusual, name, size):
            return False
        if is_word(name, size, "UNIQ_KEY", 8):
            found.key, found.key_bytes = value, behind - value
        elif is_word(name, size, "PGROUP", 6):
            found.group, found.group_bytes = value, behind - value
        elif is_word(name, size, "TRAN_MSG", 8):
            prepared = is_word(value, behind - value, "true", 4)
        elif is_word(name, size, "TAGS", 4) and not java_hash(value, behind, &found.tags_code):
            return False
        name = behind + 1
    found.size = to - begin
    if not prepared or found.group == NULL or found.key == NULL:
        return False
    name = begin
    while True:  # fast_halves.py takes the first that looks like the key's name
        name = <Bytes>memchr(name, NAME_SEPARATOR, to - name) + 1
        if name == found.key:
            return is_alnum(found.key, found.key_bytes)
        if ends_with(begin, name - 1, "UNIQ_KEY", 8):
            return False
