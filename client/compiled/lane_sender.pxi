# Taking messages from a program, for lane.pyx: `Heads` and `Sender` of offers.py.

cdef set SAID = {"UNIQ_KEY", "KEYS", "TAGS", "DELAY", "TRAN_MSG", "MSG_TYPE"}


@cython.final
cdef class Heads:
    """The queues of a topic, as one route has them."""

    cdef readonly object route
    cdef list all
    cdef dict by_queue
    cdef object turns

    def __init__(self, route, list all not None, turns):
        self.route, self.all, self.turns = route, all, turns
        self.by_queue = {head.queue: head for head in all}

    @property
    def heads(self):
        return self.by_queue


@cython.final
cdef class Sender:
    """What one producer sends in the plain way; see offers.py."""

    cdef readonly object owner, loop
    cdef object kind, result, success, ids
    cdef dict routes, heads, lines
    cdef readonly Py_ssize_t held, held_bytes
    cdef public Py_ssize_t wake_bytes
    cdef Py_ssize_t held_bytes_max, body_bytes_max
    cdef double timeout_s
    cdef int64_t id_ms
    cdef str id_begin
    cdef uint16_t number

    def __init__(self, owner, loop, tuple tables, tuple limits, tuple kinds):
        self.owner, self.loop = owner, loop
        self.routes, self.heads, self.lines = tables
        self.held_bytes_max, self.body_bytes_max, self.timeout_s = limits
        self.kind, self.result, self.success, self.ids = kinds
        self.wake_bytes = -1

    def forget_id(self):
        """Ids begin in another way from now on: this is the child of a fork."""
        self.id_begin = None

    def begin(self, message, queue, key, selector, timeout_ms, bint counted):
        """Send a message in the plain way; None where that is not possible."""
        cdef Head head
        cdef Heads heads
        cdef Ring ring
        cdef Handle handle
        cdef Py_ssize_t cost
        cdef int bits = COUNTED if counted else 0
        cdef double timeout_s = self.timeout_s
        if selector is not None or self.lines or type(message) is not self.kind:
            return None
        topic, body = message.topic, message.body
        tags, keys, properties = message.tags, message.keys, message.properties
        if type(body) is not bytes or type(topic) is not str:
            return None
        cost = PyBytes_GET_SIZE(<bytes>body)
        if not 0 < cost <= self.body_bytes_max or message.flag or message.delay_level:
            return None
        cost += HANDLE_BYTES
        if counted and self.held_bytes >= self.held_bytes_max:
            return None  # refused there
        found = self.heads.get(topic)
        if found is None:
            return None
        heads = <Heads>found
        if self.routes.get(topic) is not heads.route:
            return None
        if timeout_ms is not None:
            if type(timeout_ms) is not int or timeout_ms <= 0:
                return None
            timeout_s = timeout_ms / 1000
        if tags is not None:
            if type(tags) is not str or not is_plain(tags) or " " in tags or "|" in tags:
                return None
            if not text_size(tags):
                tags = None
        if type(keys) is str:
            if not is_plain(keys):
                return None
            if not text_size(keys):
                keys = None
        elif type(keys) is tuple and not <tuple>keys:
            keys = None
        else:
            return None
        if (tags is not None and text_size(tags) > SAID_BYTES_MAX // 4) or (
            keys is not None and text_size(keys) > SAID_BYTES_MAX // 4
        ):
            return None
        more = None
        if properties:
            more = written(properties)
            if more is None:
                return None
        if queue is not None:
            if key is not None or type(queue) is not type((<Head>heads.all[0]).queue):
                return None
            found = heads.by_queue.get(queue)
            if found is None:
                return None
            head = <Head>found
            bits |= CHOSEN
        elif key is not None:
            place = place_of(key, len(heads.all))
            if place < 0:
                return None
            head = <Head>heads.all[place]
            bits |= CHOSEN
        else:
            turn = heads.turns.turn + 1
            head = <Head>heads.all[turn % len(heads.all)]
        ring = head.ring
        if ring is None or head.turn != ring.turn or ring.closed:
            ring = head.ring = self.owner.ring_of(head.queue)
            if ring is None:
                return None
            head.turn = ring.turn
        if not bits & CHOSEN:
            heads.turns.turn = turn
        handle = new_handle(head, <bytes>body, <str>tags, <str>keys, more, bits)
        self.place(ring, handle, cost, timeout_s)
        return handle

    def offer(self, Head head not None, Ring ring not None, outgoing, Handle handle, int bits,
              double timeout_s):
        """Send what was made ready in Python, under a new handle or one that waited elsewhere."""
        cdef Py_ssize_t cost = 0
        if handle is None:
            handle = new_handle(head, outgoing.body, None, None, outgoing, bits | WHOLE_ID)
            cost = PyBytes_GET_SIZE(handle.body) + HANDLE_BYTES
        else:
            handle.head, handle.body, handle.more = head, outgoing.body, outgoing
            handle.bits |= WHOLE_ID
            handle.state = WAITING
        handle.begin = outgoing.message_id
        self.place(ring, handle, cost, timeout_s)
        return handle

    def hold(self, Head head not None, more, Py_ssize_t body_bytes, int bits, double deadline_s):
        """Return the handle of a message that waits elsewhere, which is counted from now on."""
        cdef Handle handle = new_handle(head, None, None, None, more, bits | COUNTED)
        handle.state, handle.deadline_s = ELSEWHERE, deadline_s
        handle.cost = body_bytes + HANDLE_BYTES
        self.held += 1
        self.held_bytes += handle.cost
        return handle

    cdef int place(self, Ring ring, Handle handle, Py_ssize_t cost, double timeout_s) except -1:
        """Give a message to its connection, and count it."""
        ring.offer(handle, timeout_s)
        if cost and handle.bits & COUNTED:
            handle.cost = cost
            self.held += 1
            self.held_bytes += cost
        if ring.block.size >= FLUSH_BYTES:
            ring.lane.flush()
        return 0


cdef Py_ssize_t place_of(object key, Py_ssize_t count) except -2:
    """Return the place of a key's queue as `selectors.by_key` finds it; -1 for an unusual key."""
    cdef uint32_t number = 0
    cdef Py_ssize_t place
    cdef Bytes at
    if type(key) is int:
        return abs(key) % count
    if type(key) is not str or not is_compact_ascii(key):
        return -1
    at = ascii_of(key)
    for place in range(text_size(key)):
        number = 31 * number + at[place]
    return abs(<int64_t><int32_t>number) % count


cdef bytes written(object properties):
    """Return the JSON text of a user's properties; None where they are not plain."""
    cdef Py_ssize_t size = 0
    cdef unsigned char* to
    cdef bytes text
    if type(properties) is not dict:
        return None
    for name, value in (<dict>properties).items():
        if (
            type(name) is not str or type(value) is not str
            or not is_plain(name) or not is_plain(value)
            or not text_size(name) or not text_size(value)
            or name in SAID
        ):
            return None
        size += text_size(name) + text_size(value) + 12
        if size > SAID_BYTES_MAX // 2:
            return None
    text = PyBytes_FromStringAndSize(NULL, size)
    to = <unsigned char*>PyBytes_AS_STRING(text)
    for name, value in (<dict>properties).items():
        to = put(put(to, ascii_of(name), text_size(name)), b"\\u0001", 6)
        to = put(put(to, ascii_of(value), text_size(value)), b"\\u0002", 6)
    return text
