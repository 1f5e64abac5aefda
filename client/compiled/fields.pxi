# What a message is made of, in as few bytes as will do: 112 for itself, and its body.

@cython.final
@cython.no_gc
cdef class Origin:
    """What the messages of one pull mostly have in common."""

    cdef object queue
    cdef object bounds
    cdef bytes born_host
    cdef bytes store_host


cdef inline Origin known(Origin origin):
    """Return it; raises AttributeError for a message that was made past its constructor."""
    if origin is None:
        raise AttributeError("a message without its fields: its constructor was not called")
    return origin


cdef Origin changed(Origin origin):
    """Return a copy, for one message alone; raises AttributeError where nothing is known yet."""
    cdef Origin other = Origin.__new__(Origin)
    origin = known(origin)
    other.queue, other.bounds = origin.queue, origin.bounds
    other.born_host, other.store_host = origin.born_host, origin.store_host
    return other


@cython.no_gc
cdef class MessageFields:
    """The fields of a message; fields.py has what is done where this is not compiled."""

    cdef Origin origin
    cdef public object body
    cdef bytes properties  # those of some messages of the pull, one behind the other
    cdef object rest  # None, the parsed properties, or with damage both in a tuple
    cdef public int64_t queue_offset
    cdef public int64_t position
    cdef public int64_t born_timestamp_ms
    cdef public int64_t store_timestamp_ms
    cdef public int64_t held_bytes
    cdef public int32_t reconsume_times
    cdef public int32_t flag
    cdef public int32_t sys_flag
    cdef public int32_t body_bytes
    cdef int32_t properties_at
    cdef int32_t properties_bytes

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
        self.origin, self.body = origin, body
        self.queue_offset, self.position = queue_offset, position
        self.born_timestamp_ms, self.store_timestamp_ms = born_timestamp_ms, store_timestamp_ms
        self.reconsume_times, self.flag, self.sys_flag = reconsume_times, flag, sys_flag
        self.body_bytes, self.held_bytes = body_bytes, held_bytes
        self.properties, self.properties_at = raw_properties, 0
        self.properties_bytes = <int32_t>len(raw_properties)
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
        cdef const char* begin = PyBytes_AS_STRING(self.properties) + self.properties_at
        cdef const char* end = begin + self.properties_bytes
        cdef const char* at = begin
        cdef const char* value = NULL
        cdef const char* behind
        while at < end:  # one pair after the other: of a repeated name the last counts
            behind = <const char*>memchr(at, PROPERTY_SEPARATOR, end - at)
            if behind == NULL:
                behind = end
            if (
                behind - at > wanted and at[wanted] == NAME_SEPARATOR
                and not memcmp(at, word, wanted)
            ):
                value = at + wanted + 1
                if value == behind:  # a pair without value does not count
                    value = NULL
                    break
            at = behind + 1
        else:
            if value == NULL:
                return None
            behind = <const char*>memchr(value, PROPERTY_SEPARATOR, end - value)
            if behind == NULL:
                behind = end
            return PyUnicode_DecodeUTF8(value, behind - value, "replace")
        return find_property(self.raw_properties, name)

    @property
    def queue(self):
        return known(self.origin).queue

    @queue.setter
    def queue(self, queue):
        self.origin = changed(self.origin)
        self.origin.queue = queue

    @property
    def bounds(self):
        return known(self.origin).bounds

    @bounds.setter
    def bounds(self, bounds):
        self.origin = changed(self.origin)
        self.origin.bounds = bounds

    @property
    def raw_born_host(self):
        return known(self.origin).born_host

    @raw_born_host.setter
    def raw_born_host(self, bytes host not None):
        self.origin = changed(self.origin)
        self.origin.born_host = host

    @property
    def raw_store_host(self):
        return known(self.origin).store_host

    @raw_store_host.setter
    def raw_store_host(self, bytes host not None):
        self.origin = changed(self.origin)
        self.origin.store_host = host

    @property
    def raw_properties(self):
        if len(self.properties) == self.properties_bytes:
            return self.properties
        return PyBytes_FromStringAndSize(
            PyBytes_AS_STRING(self.properties) + self.properties_at, self.properties_bytes
        )

    @raw_properties.setter
    def raw_properties(self, bytes properties not None):
        self.properties, self.properties_at = properties, 0
        self.properties_bytes = <int32_t>len(properties)

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
