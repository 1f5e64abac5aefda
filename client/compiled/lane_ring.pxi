# What was sent on one connection and is not answered, for lane.pyx: `Ring` of rings.py.

cdef double FOREVER = float("inf")
cdef double LOOK_S = 0.001  # between two looks at the clock of the day


@cython.final
cdef class Ring:
    """Single sends of one connection; see rings.py."""

    cdef list slots
    cdef object waiting  # a deque: those for which there is no room yet
    cdef readonly object lane
    cdef object clock_ms, clock_s
    cdef readonly int64_t turn
    cdef readonly Py_ssize_t unanswered, unanswered_bytes
    cdef readonly double earliest_s
    cdef Py_ssize_t unanswered_max, unanswered_bytes_max
    cdef readonly bint closed
    cdef bint dirty
    cdef uint32_t count
    cdef int64_t now_ms
    cdef double now_s, looked_s
    cdef Block block
    cdef str region, id_begin  # of the reply before

    def __init__(self, lane, clock_s, clock_ms, limits):
        self.lane, self.clock_s, self.clock_ms = lane, clock_s, clock_ms
        self.unanswered_max, self.unanswered_bytes_max = limits
        if not 0 < self.unanswered_max < SLOTS:
            raise ValueError("a ring has fewer slots")
        self.slots = [None] * SLOTS
        self.waiting = deque()
        self.block = Block()
        self.looked_s = -FOREVER
        self.earliest_s = FOREVER
        self.region = self.id_begin = ""

    def close(self):
        """Its connection has ended: nobody is to offer anything any more."""
        self.closed = True

    @property
    def waiting_count(self):
        return len(self.waiting)

    cdef int offer(self, Handle handle, double timeout_s) except -1:
        """Have a message sent when its turn comes."""
        self.look()  # a program may take its time between two messages of a turn
        if not self.dirty:
            self.lane.begin_turn()
            self.dirty = True
        handle.deadline_s = self.now_s + timeout_s
        if self.waiting or not self.has_room():
            self.waiting.append(handle)
        else:
            self.pack(handle)
        if handle.deadline_s < self.earliest_s:
            self.earliest_s = handle.deadline_s
        return 0

    cdef int look(self) except -1:
        """Look at the clocks."""
        self.now_s = self.clock_s()
        if self.now_s - self.looked_s >= LOOK_S:
            self.now_ms, self.looked_s = self.clock_ms(), self.now_s
        return 0

    cdef inline bint has_room(self) noexcept:
        return (
            self.unanswered < self.unanswered_max
            and self.unanswered_bytes < self.unanswered_bytes_max
        )

    cdef int pack(self, Handle handle) except -1:
        """Write the request of a message; it is unanswered from now on."""
        cdef uint32_t count = self.count
        cdef Head head = handle.head
        cdef Sender sender = head.sender
        cdef bytes body = handle.body
        cdef Py_ssize_t size = head.size, body_bytes = PyBytes_GET_SIZE(body), header_bytes
        cdef unsigned char* begin
        cdef unsigned char* to
        while self.slots[count % SLOTS] is not None:  # its answer is late
            count += 1
        handle.opaque = OWN_OPAQUES | count & OPAQUE_BITS
        if handle.bits & WHOLE_ID:
            frame = <bytes?>head.encode(handle.more, head.queue, handle.opaque)
            to = self.block.end_with_room(PyBytes_GET_SIZE(frame))
            put_bytes(to, frame)
            self.block.size += PyBytes_GET_SIZE(frame)
        else:
            if sender.id_ms != self.now_ms or sender.id_begin is None:
                sender.id_begin = (<str?>sender.ids.at(self.now_ms))[:ID_BEGIN_BYTES]
                sender.id_ms = self.now_ms
            if handle.more is not None:
                size += PyBytes_GET_SIZE(<bytes?>handle.more)
            if handle.keys is not None:
                size += text_size(handle.keys)
            if handle.tags is not None:
                size += text_size(handle.tags)
            begin = self.block.end_with_room(size + body_bytes + 256)
            handle.begin, handle.number = sender.id_begin, sender.number
            sender.number += 1
            to = put_bytes(begin + FRAME_WORDS_BYTES, head.before_time)
            to = put_bytes(put_decimal(to, self.now_ms), head.before_properties)
            to = put(to, b'"', 1)
            if handle.more is not None:
                to = put_bytes(to, <bytes>handle.more)
            to = put(to, b"UNIQ_KEY\\u0001", 14)
            to = put(to, ascii_of(handle.begin), ID_BEGIN_BYTES)
            to = put(put_number(to, handle.number), b"\\u0002", 6)
            if handle.keys is not None:
                to = put_property(to, b"KEYS", 4, handle.keys)
            if handle.tags is not None:
                to = put_property(to, b"TAGS", 4, handle.tags)
            to = put_bytes(put(to, b'"', 1), head.before_opaque)
            to = put_bytes(put_decimal(to, handle.opaque), head.behind)
            header_bytes = to - begin - FRAME_WORDS_BYTES
            to = put(to, PyBytes_AS_STRING(body), body_bytes)
            put_word(put_word(begin, to - begin - FRAME_LENGTH_BYTES), header_bytes)
            self.block.size += to - begin
        self.slots[count % SLOTS] = handle
        self.count = count + 1
        handle.state = SENT
        self.unanswered += 1
        self.unanswered_bytes += body_bytes
        return 0

    def take(self):
        """Return the requests that were written since the last time."""
        self.turn += 1
        self.dirty = False
        return self.block.take()

    def admit(self):
        """Write the requests of those that wait, as far as there is room now."""
        if self.waiting and self.has_room():
            self.look()
            while self.waiting and self.has_room():
                self.pack(self.waiting[0])
                self.waiting.popleft()

    def feed(self, bytes data not None, Py_ssize_t at):
        """Settle what plain acknowledgements answer; return where the first other frame begins."""
        cdef Bytes begin = <Bytes>PyBytes_AS_STRING(data), frame
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data), length, size
        cdef AckHeader header
        cdef Handle handle
        if not 0 <= at <= end:
            raise ValueError("outside of what was read")
        while end - at > FRAME_WORDS_BYTES:
            frame = begin + at
            length, size = word_at(frame), word_at(frame + FRAME_LENGTH_BYTES)
            if (
                size > ACK_HEADER_BYTES_MAX  # another codec makes it large, too
                or length != size + FRAME_WORDS_BYTES - FRAME_LENGTH_BYTES  # it has a body
                or length > end - at - FRAME_LENGTH_BYTES
            ):
                break
            frame += FRAME_WORDS_BYTES
            if not read_ack(&header, frame, frame + size):
                break
            if not OWN_OPAQUES <= header.opaque <= OWN_OPAQUES + OPAQUE_BITS:
                break
            found = self.slots[header.opaque % SLOTS]
            if found is None:
                break
            handle = <Handle>found
            if (
                handle.opaque != header.opaque
                or handle.head.queue_id != header.queue_id
                or header.seen & TRANSACTION_ID and not self.is_own(handle, &header)
            ):
                break
            at += FRAME_LENGTH_BYTES + length
            self.store(handle, &header)
        return at

    cdef bint is_own(self, Handle handle, AckHeader* header) except -1:
        """Say whether a reply names the message by its own id."""
        cdef unsigned char[4] number
        if handle.bits & WHOLE_ID:
            return handle.begin.isascii() and is_text(
                header.transaction_id, header.transaction_id_bytes, handle.begin
            )
        put_number(number, handle.number)
        return (
            header.transaction_id_bytes == ID_BYTES
            and not memcmp(header.transaction_id, ascii_of(handle.begin), ID_BEGIN_BYTES)
            and not memcmp(header.transaction_id + ID_BEGIN_BYTES, number, 4)
        )

    cdef int store(self, Handle handle, AckHeader* header) except -1:
        """Settle a message by its plain acknowledgement."""
        if not is_text(header.id, header.id_bytes, self.id_begin):
            self.id_begin = PyUnicode_DecodeASCII(<char*>header.id, header.id_bytes, NULL)
        if header.seen & MSG_REGION and not is_text(
            header.region, header.region_bytes, self.region
        ):
            self.region = PyUnicode_DecodeASCII(<char*>header.region, header.region_bytes, NULL)
        self.forget(handle)
        handle.queue_offset, handle.position = header.queue_offset, header.position
        handle.keys = self.id_begin
        handle.tags = self.region if header.seen & MSG_REGION else None
        handle.body = handle.more = None
        if header.seen & TRANSACTION_ID:
            handle.bits |= IN_TRANSACTION
        if header.traced:
            handle.bits |= TRACED
        handle.state = STORED
        settled(handle)
        return 0

    cdef int forget(self, Handle handle) except -1:
        """Take a message out of its slot."""
        self.slots[handle.opaque % SLOTS] = None
        self.unanswered -= 1
        self.unanswered_bytes -= PyBytes_GET_SIZE(handle.body)
        return 0

    def pop(self, int64_t opaque):
        """Take out the message that an unusual reply is for; None where nobody waits for it."""
        cdef Handle handle
        if not OWN_OPAQUES <= opaque <= OWN_OPAQUES + OPAQUE_BITS:
            return None
        found = self.slots[opaque % SLOTS]
        if found is None:
            return None
        handle = <Handle>found
        if handle.opaque != opaque:
            return None
        self.forget(handle)
        return handle

    def expire(self, double now_s):
        """Take out those whose time is up, in the order in which they were offered."""
        cdef Handle handle
        cdef list gone = []
        self.earliest_s = FOREVER
        for handle in self.in_order():
            if handle.deadline_s <= now_s:
                self.forget(handle)
                gone.append(handle)
            elif handle.deadline_s < self.earliest_s:
                self.earliest_s = handle.deadline_s
        for _ in range(len(self.waiting)):
            handle = self.waiting.popleft()
            if handle.deadline_s <= now_s:
                gone.append(handle)
            else:
                self.waiting.append(handle)
                if handle.deadline_s < self.earliest_s:
                    self.earliest_s = handle.deadline_s
        return gone

    def drain(self):
        """Take out all, in the order in which they were offered."""
        cdef Handle handle
        cdef list gone = self.in_order()
        for handle in gone:
            self.forget(handle)
        gone.extend(self.waiting)
        self.waiting.clear()
        self.earliest_s = FOREVER
        return gone

    cdef list in_order(self):
        """Return those that are unanswered, the first one first."""
        cdef uint32_t at
        cdef Py_ssize_t place
        found = []
        for place in range(SLOTS):  # from the slot that is used next: the longest ago is behind it
            at = self.count + <uint32_t>place
            handle = self.slots[at % SLOTS]
            if handle is not None:
                found.append(handle)
        return found
