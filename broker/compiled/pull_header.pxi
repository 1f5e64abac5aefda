# What of a pull's header changes from one to the next, for repeated_pulls.pxi: three numbers, and
# the signature of who has to sign.

cdef enum:
    HEADER_BYTES_MAX = 1024  # longer ones are not remembered
    NUMBERS = 3
    CUTS_MAX = NUMBERS + 1
    PULL_SIGNATURE_BYTES = 28  # in base64

cdef enum:  # the numbers, by their places in the array below
    OFFSET
    COMMITTED
    OPAQUE

cdef const char *NUMBER_NAMES[NUMBERS]
NUMBER_NAMES[OFFSET] = b'"queueOffset":"'
NUMBER_NAMES[COMMITTED] = b'"commitOffset":"'
NUMBER_NAMES[OPAQUE] = b'"opaque":'
cdef const char *SIGNATURE_NAME = b'"Signature":"'

cdef extern from "<string.h>" nogil:
    void* memmem(const void*, size_t, const void*, size_t)
    size_t strlen(const char*)


cdef struct Ask:
    int64_t[NUMBERS] numbers
    int cuts  # what is left out of the key: the numbers, and a signature
    Bytes[CUTS_MAX + 1] begin  # of what stands around them, in the order of the header
    Py_ssize_t[CUTS_MAX + 1] size
    Py_ssize_t rest_bytes  # all of that


cdef Bytes signature_at(Bytes at, Bytes end) noexcept nogil:
    """Return where a signature stands in a header, NULL without one that is written as usual."""
    cdef Bytes begin = <Bytes>memmem(at, end - at, SIGNATURE_NAME, strlen(SIGNATURE_NAME))
    cdef int place
    if begin == NULL:
        return NULL
    begin += strlen(SIGNATURE_NAME)
    if end - begin <= PULL_SIGNATURE_BYTES or begin[PULL_SIGNATURE_BYTES] != c'"':
        return NULL
    for place in range(PULL_SIGNATURE_BYTES):
        if begin[place] < 0x21 or begin[place] > 0x7E or begin[place] == c'"':
            return NULL
        if begin[place] == c"\\":
            return NULL
    return begin


cdef bint read_ask(Ask* ask, Bytes at, Bytes end, bint signs) noexcept nogil:
    """Find the numbers of a header; False where one is missing, or is not written as usual.

    Where its sender `signs`, what he has signed with is left out, too, if it is written as usual.
    """
    cdef Bytes[CUTS_MAX] begins, ends
    cdef Bytes begin, behind
    cdef int cut, place
    if end - at > HEADER_BYTES_MAX:
        return False
    ask.cuts = NUMBERS
    for cut in range(CUTS_MAX if signs else NUMBERS):
        if cut < NUMBERS:
            begin = <Bytes>memmem(at, end - at, NUMBER_NAMES[cut], strlen(NUMBER_NAMES[cut]))
            if begin == NULL:
                return False
            begin += strlen(NUMBER_NAMES[cut])
            behind = number_end(begin, end, &ask.numbers[cut])
            if behind == NULL:
                return False
        else:
            begin = signature_at(at, end)
            if begin == NULL:
                break
            behind = begin + PULL_SIGNATURE_BYTES
            ask.cuts = CUTS_MAX
        place = cut
        while place and begins[place - 1] > begin:
            begins[place], ends[place] = begins[place - 1], ends[place - 1]
            place -= 1
        begins[place], ends[place] = begin, behind
    ask.rest_bytes = 0
    for cut in range(ask.cuts + 1):
        behind = end if cut == ask.cuts else begins[cut]
        ask.begin[cut], ask.size[cut] = at, behind - at
        ask.rest_bytes += behind - at
        if cut < ask.cuts:
            at = ends[cut]
    return True


cdef bytes key_of(Ask* ask):
    """Return the header without its numbers, and its signature."""
    cdef bytes key = PyBytes_FromStringAndSize(NULL, ask.rest_bytes)
    cdef unsigned char* to = <unsigned char*>PyBytes_AS_STRING(key)
    cdef int cut
    for cut in range(ask.cuts + 1):
        to = put_bytes(to, ask.begin[cut], ask.size[cut])
    return key


cdef bint is_key(Ask* ask, bytes key) noexcept:
    """Say whether `key_of` would return this."""
    cdef Bytes at = <Bytes>PyBytes_AS_STRING(key)
    cdef int cut
    if PyBytes_GET_SIZE(key) != ask.rest_bytes:
        return False
    for cut in range(ask.cuts + 1):
        if memcmp(at, ask.begin[cut], ask.size[cut]):
            return False
        at += ask.size[cut]
    return True
