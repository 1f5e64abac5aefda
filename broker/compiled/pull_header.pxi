# The three numbers of a pull's header that change from one to the next, for repeated_pulls.pxi.

cdef enum:
    HEADER_BYTES_MAX = 1024  # longer ones are not remembered
    NUMBERS = 3

cdef enum:  # the numbers, by their places in the array below
    OFFSET
    COMMITTED
    OPAQUE

cdef const char *NUMBER_NAMES[NUMBERS]
NUMBER_NAMES[OFFSET] = b'"queueOffset":"'
NUMBER_NAMES[COMMITTED] = b'"commitOffset":"'
NUMBER_NAMES[OPAQUE] = b'"opaque":'

cdef extern from "<string.h>" nogil:
    void* memmem(const void*, size_t, const void*, size_t)
    size_t strlen(const char*)


cdef struct Ask:
    int64_t[NUMBERS] numbers
    Bytes[NUMBERS + 1] begin  # of what stands around the numbers, in the order of the header
    Py_ssize_t[NUMBERS + 1] size
    Py_ssize_t rest_bytes  # all of that


cdef bint read_ask(Ask* ask, Bytes at, Bytes end) noexcept nogil:
    """Find the numbers of a header; False where one is missing, or is not written as usual."""
    cdef Bytes[NUMBERS] begins, ends
    cdef Bytes begin, behind
    cdef int number, place
    if end - at > HEADER_BYTES_MAX:
        return False
    for number in range(NUMBERS):
        begin = <Bytes>memmem(
            at, end - at, NUMBER_NAMES[number], strlen(NUMBER_NAMES[number])
        )
        if begin == NULL:
            return False
        begin += strlen(NUMBER_NAMES[number])
        behind = number_end(begin, end, &ask.numbers[number])
        if behind == NULL:
            return False
        place = number
        while place and begins[place - 1] > begin:
            begins[place], ends[place] = begins[place - 1], ends[place - 1]
            place -= 1
        begins[place], ends[place] = begin, behind
    ask.rest_bytes = 0
    for number in range(NUMBERS + 1):
        behind = end if number == NUMBERS else begins[number]
        ask.begin[number], ask.size[number] = at, behind - at
        ask.rest_bytes += behind - at
        if number < NUMBERS:
            at = ends[number]
    return True


cdef bytes key_of(Ask* ask):
    """Return the header without its numbers."""
    cdef bytes key = PyBytes_FromStringAndSize(NULL, ask.rest_bytes)
    cdef unsigned char* to = <unsigned char*>PyBytes_AS_STRING(key)
    cdef int number
    for number in range(NUMBERS + 1):
        to = put_bytes(to, ask.begin[number], ask.size[number])
    return key


cdef bint is_key(Ask* ask, bytes key) noexcept:
    """Say whether `key_of` would return this."""
    cdef Bytes at = <Bytes>PyBytes_AS_STRING(key)
    cdef int number
    if PyBytes_GET_SIZE(key) != ask.rest_bytes:
        return False
    for number in range(NUMBERS + 1):
        if memcmp(at, ask.begin[number], ask.size[number]):
            return False
        at += ask.size[number]
    return True
