# What a message is made of, in as few bytes as will do: 64 for itself, and its body.

cdef enum:
    ALL_PROPERTIES = 0xFFFF  # instead of how many bytes: all that the origin has


@cython.final
@cython.no_gc
cdef class Origin:
    """What messages of one pull have in common, and the numbers that theirs are counted from."""

    cdef object queue
    cdef object bounds
    cdef bytes born_host
    cdef bytes store_host
    cdef bytes properties  # of all these messages, one behind the other
    cdef bytes tail  # the pairs with which each of them ends, if there are any
    cdef int64_t queue_offset
    cdef int64_t position
    cdef int64_t born_timestamp_ms
    cdef int64_t store_timestamp_ms
    cdef int64_t held_bytes  # below 0: as many as a body has as it was stored
    cdef int32_t reconsume_times
    cdef int32_t flag
    cdef int32_t sys_flag


cdef inline Origin known(Origin origin):
    """Return it; raises AttributeError for a message that was made past its constructor."""
    if origin is None:
        raise AttributeError("a message without its fields: its constructor was not called")
    return origin


cdef Origin twin(Origin origin):
    """Return a copy; raises AttributeError where nothing is known yet."""
    cdef Origin other = Origin.__new__(Origin)
    origin = known(origin)
    other.queue, other.bounds = origin.queue, origin.bounds
    other.born_host, other.store_host = origin.born_host, origin.store_host
    other.properties, other.tail = origin.properties, origin.tail
    other.held_bytes = origin.held_bytes
    other.queue_offset, other.position = origin.queue_offset, origin.position
    other.born_timestamp_ms = origin.born_timestamp_ms
    other.store_timestamp_ms = origin.store_timestamp_ms
    other.reconsume_times = origin.reconsume_times
    other.flag, other.sys_flag = origin.flag, origin.sys_flag
    return other


cdef inline bint is_near(int64_t number, int64_t base) noexcept:
    """Say whether a number can be told by how far it is from another."""
    cdef uint64_t more = <uint64_t>number - <uint64_t>base
    return more + 0x8000_0000 <= 0xFFFF_FFFF


cdef inline int32_t how_far(int64_t number, int64_t base) noexcept:
    return <int32_t>(<uint64_t>number - <uint64_t>base)


cdef inline int64_t there(int64_t base, int32_t more) noexcept:
    return <int64_t>(<uint64_t>base + <uint64_t><int64_t>more)


@cython.no_gc
cdef class MessageFields:
    """The fields of a message; fields.py has what is done where this is not compiled."""

    cdef Origin origin
    cdef public object body
    cdef object rest  # None, the parsed properties, or with damage both in a tuple
    cdef int32_t more_offset  # than the origin's, and so on
    cdef int32_t more_position
    cdef int32_t more_born_ms
    cdef int32_t more_store_ms
    cdef int32_t stored_bytes
    cdef uint16_t properties_at
    cdef uint16_t properties_bytes

    def __init__(
        self,
        queue,
        body,
        int64_t queue_offset,
        int32_t reconsume_times,
        int64_t position,
        int64_t born_timestamp_ms,
        int64_t store_timestamp_ms,
        int32_t flag,
        int32_t sys_flag,
        int32_t body_bytes,
        bytes raw_properties not None,
        bytes raw_born_host not None,
        bytes raw_store_host not None,
        bounds=None,
        parsed=None,
        int64_t held_bytes=0,
        damage=None,
    ):
        cdef Origin origin = Origin.__new__(Origin)
        origin.queue, origin.bounds = queue, bounds
        origin.born_host, origin.store_host = raw_born_host, raw_store_host
        origin.queue_offset, origin.position = queue_offset, position
        origin.born_timestamp_ms, origin.store_timestamp_ms = born_timestamp_ms, store_timestamp_ms
        origin.reconsume_times, origin.flag, origin.sys_flag = reconsume_times, flag, sys_flag
        origin.properties, origin.held_bytes = raw_properties, held_bytes
        self.origin, self.body, self.stored_bytes = origin, body, body_bytes
        self.more_offset = self.more_position = self.more_born_ms = self.more_store_ms = 0
        self.properties_at, self.properties_bytes = 0, ALL_PROPERTIES
        self.rest = parsed if damage is None else (parsed, damage)

    def __repr__(self):
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in FIELDS)
        return f"{type(self).__qualname__}({values})"

    def __reduce__(self):
        return type(self), (
            self.queue, self.body, self.queue_offset, self.reconsume_times, self.position,
            self.born_timestamp_ms, self.store_timestamp_ms, self.flag, self.sys_flag,
            self.body_bytes, self.raw_properties, self.raw_born_host, self.raw_store_host,
            self.bounds, self.parsed, self.held_bytes, self.damage,
        )

    def find(self, str name not None):
        """Return one property without reading the others; None where there is none."""
        cdef Py_ssize_t wanted
        cdef const char* word = PyUnicode_AsUTF8AndSize(name, &wanted)
        cdef Origin origin = known(self.origin)
        cdef const char* begin = PyBytes_AS_STRING(origin.properties) + self.properties_at
        cdef const char* end = begin + count_properties(self)
        cdef const char* value = NULL
        cdef const char* behind
        cdef bint plain = True
        if origin.tail is not None:  # of a repeated name the last counts
            behind = PyBytes_AS_STRING(origin.tail)
            plain = last_value(
                behind, behind + PyBytes_GET_SIZE(origin.tail), word, wanted, &value
            )
            if value != NULL:
                end = behind + PyBytes_GET_SIZE(origin.tail)
        if plain and value == NULL:
            plain = last_value(begin, end, word, wanted, &value)
        if not plain:
            return find_property(self.raw_properties, name)
        if value == NULL:
            return None
        behind = <const char*>memchr(value, PROPERTY_SEPARATOR, end - value)
        if behind == NULL:
            behind = end
        return PyUnicode_DecodeUTF8(value, behind - value, "replace")

    @property
    def queue(self):
        return known(self.origin).queue

    @queue.setter
    def queue(self, queue):
        alone(self).queue = queue

    @property
    def bounds(self):
        return known(self.origin).bounds

    @bounds.setter
    def bounds(self, bounds):
        alone(self).bounds = bounds

    @property
    def raw_born_host(self):
        return known(self.origin).born_host

    @raw_born_host.setter
    def raw_born_host(self, bytes host not None):
        alone(self).born_host = host

    @property
    def raw_store_host(self):
        return known(self.origin).store_host

    @raw_store_host.setter
    def raw_store_host(self, bytes host not None):
        alone(self).store_host = host

    @property
    def queue_offset(self):
        return offset_of(self)

    @queue_offset.setter
    def queue_offset(self, int64_t offset):
        alone(self).queue_offset = offset
        self.more_offset = 0

    @property
    def position(self):
        return there(known(self.origin).position, self.more_position)

    @position.setter
    def position(self, int64_t position):
        alone(self).position = position
        self.more_position = 0

    @property
    def born_timestamp_ms(self):
        return there(known(self.origin).born_timestamp_ms, self.more_born_ms)

    @born_timestamp_ms.setter
    def born_timestamp_ms(self, int64_t timestamp_ms):
        alone(self).born_timestamp_ms = timestamp_ms
        self.more_born_ms = 0

    @property
    def store_timestamp_ms(self):
        return there(known(self.origin).store_timestamp_ms, self.more_store_ms)

    @store_timestamp_ms.setter
    def store_timestamp_ms(self, int64_t timestamp_ms):
        alone(self).store_timestamp_ms = timestamp_ms
        self.more_store_ms = 0

    @property
    def reconsume_times(self):
        return known(self.origin).reconsume_times

    @reconsume_times.setter
    def reconsume_times(self, int32_t times):
        alone(self).reconsume_times = times

    @property
    def flag(self):
        return known(self.origin).flag

    @flag.setter
    def flag(self, int32_t flag):
        alone(self).flag = flag

    @property
    def sys_flag(self):
        return known(self.origin).sys_flag

    @sys_flag.setter
    def sys_flag(self, int32_t sys_flag):
        alone(self).sys_flag = sys_flag

    @property
    def body_bytes(self):
        return self.stored_bytes

    @body_bytes.setter
    def body_bytes(self, int32_t body_bytes):
        cdef int64_t held_bytes = held_of(self)
        alone(self).held_bytes = held_bytes
        self.stored_bytes = body_bytes

    @property
    def held_bytes(self):
        return held_of(self)

    @held_bytes.setter
    def held_bytes(self, int64_t held_bytes):
        alone(self).held_bytes = held_bytes

    @property
    def raw_properties(self):
        cdef Origin origin = known(self.origin)
        cdef Py_ssize_t count = count_properties(self)
        cdef bytes mine = origin.properties
        if len(mine) != count:
            mine = PyBytes_FromStringAndSize(PyBytes_AS_STRING(mine) + self.properties_at, count)
        return mine if origin.tail is None else mine + origin.tail

    @raw_properties.setter
    def raw_properties(self, bytes properties not None):
        cdef Origin origin = alone(self)
        origin.properties, origin.tail = properties, None
        self.properties_at, self.properties_bytes = 0, ALL_PROPERTIES

    @property
    def parsed(self):
        return (<tuple>self.rest)[0] if type(self.rest) is tuple else self.rest

    @parsed.setter
    def parsed(self, parsed):
        damage = self.damage
        self.rest = parsed if damage is None else (parsed, damage)

    @property
    def damage(self):
        return (<tuple>self.rest)[1] if type(self.rest) is tuple else None

    @damage.setter
    def damage(self, damage):
        parsed = self.parsed
        self.rest = parsed if damage is None else (parsed, damage)


cdef Origin alone(MessageFields message):
    """Return an origin that no other message has, to be changed."""
    message.origin = twin(message.origin)
    return message.origin


cdef bint last_value(
    const char* at, const char* end, const char* word, Py_ssize_t wanted, const char** value
) noexcept:
    """Find the last value of a name; False where a pair has none, which does not count."""
    cdef const char* behind
    while at < end:
        behind = <const char*>memchr(at, PROPERTY_SEPARATOR, end - at)
        if behind == NULL:
            behind = end
        if behind - at > wanted and at[wanted] == NAME_SEPARATOR and not memcmp(at, word, wanted):
            value[0] = at + wanted + 1
            if value[0] == behind:
                return False
        at = behind + 1
    return True


cdef inline int64_t offset_of(MessageFields message) except? -1:
    return there(known(message.origin).queue_offset, message.more_offset)


cdef inline int64_t held_of(MessageFields message) except? -1:
    cdef int64_t held_bytes = known(message.origin).held_bytes
    return message.stored_bytes if held_bytes < 0 else held_bytes


cdef inline Py_ssize_t count_properties(MessageFields message) except -1:
    """Return how many bytes of the origin's properties are this message's, without their tail."""
    if message.properties_bytes == ALL_PROPERTIES:
        return len(known(message.origin).properties) - message.properties_at
    return message.properties_bytes
