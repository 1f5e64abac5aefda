# One message on its way, and what it goes by: `Handle` of handles.py, `Head` of offers.py.

cdef enum State:
    WAITING  # for its turn
    SENT  # and not answered
    ELSEWHERE  # on the checked path
    STORED
    FAILED

cdef enum:  # bits of a handle
    CHOSEN = 1  # its queue was the user's choice
    COUNTED = 2  # among what its producer holds
    TRACED = 4
    IN_TRANSACTION = 8  # as the reply says, by the message's own id
    WHOLE_ID = 16  # `begin` is all of the id


@cython.final
cdef class Head:
    """The parts of a request that all messages to one queue share."""

    cdef Sender sender
    cdef readonly object queue
    cdef int64_t queue_id
    cdef bytes before_time, before_properties, before_opaque, behind
    cdef Py_ssize_t size
    cdef object encode
    cdef Ring ring
    cdef int64_t turn

    def __init__(self, Sender sender not None, queue, tuple parts, encode):
        self.sender, self.queue, self.encode = sender, queue, encode
        self.queue_id = queue.queue_id if queue is not None else -1
        self.before_time, self.before_properties, self.before_opaque, self.behind = parts
        self.size = sum(map(len, parts))

    @property
    def owner(self):
        """Who is told of what becomes of its messages."""
        return self.sender.owner


cdef extern from "Python.h":
    void track "PyObject_GC_Track"(object)
    void untrack "PyObject_GC_UnTrack"(object)


@cython.final
@cython.no_gc_clear  # the error and its frames let go of each other
@cython.freelist(2048)
cdef class Handle:
    """A message that was sent soon; see handles.py.

    The garbage collector looks at those alone that have failed: whoever was told of the error, as
    its traceback has them, may have the handle, and the handle has the error.
    """

    cdef readonly Head head
    cdef bytes body  # until it is stored
    cdef str tags  # the region, when it is stored
    cdef str keys  # the begin of the broker's id, when it is stored
    cdef object more  # JSON of properties, an Outgoing, the outcome
    cdef object waiters  # in the end the traceback that an error came with
    cdef str begin  # of the id
    cdef readonly double deadline_s
    cdef int64_t queue_offset
    cdef uint64_t position
    cdef uint32_t opaque
    cdef uint32_t cost
    cdef uint16_t number
    cdef uint8_t state
    cdef uint8_t bits

    def __init__(self):
        raise TypeError("handles are made by Producer.send_soon")

    def __reduce__(self):
        raise TypeError("a handle is that of one message, and is not copied")

    @property
    def done(self):
        return self.state >= STORED

    @property
    def error(self):
        return self.more if self.state == FAILED else None

    @property
    def queue(self):
        return self.head.queue

    @property
    def message_id(self):
        if self.state == STORED and self.more is not None:
            return self.more.message_id
        if self.begin is None:
            return ""
        return self.begin if self.bits & WHOLE_ID else f"{self.begin}{self.number:04X}"

    @property
    def chosen(self):
        return bool(self.bits & CHOSEN)

    @property
    def counted(self):
        return bool(self.bits & COUNTED)

    @property
    def sent(self):
        return self.state == SENT

    def exception(self):
        if self.state < STORED:
            raise InvalidStateError(f"{self!r} is not done")
        return self.more if self.state == FAILED else None

    def result(self):
        if self.state == STORED:
            return self.more if self.more is not None else stored_result(self)
        if self.state == FAILED:
            raise self.more.with_traceback(self.waiters)
        raise InvalidStateError(f"{self!r} is not done")

    def add_done_callback(self, callback):
        if not callable(callback) or iscoroutinefunction(callback):
            raise wrong_argument("callback", "a plain function of the handle", callback)
        if self.state >= STORED:
            self.head.sender.loop.call_soon(callback, self)
        else:
            add_waiter(self, (callback,))

    def __await__(self):
        if self.state < STORED:
            future = self.head.sender.loop.create_future()
            add_waiter(self, future)
            yield from future
        return self.result()

    def __repr__(self):
        state = ("waits", "sent", "sent", "stored", "failed")[self.state]
        return f"<SendHandle {state} queue={self.head.queue} id={self.message_id!r}>"

    def _hold(self, more):
        """Leave the lane: `more` is what the checked path needs; what is kept here is let go."""
        self.state, self.more = ELSEWHERE, more
        self.body = self.tags = self.keys = None

    @property
    def _held(self):
        """What `_hold` was given, or the Outgoing of a message that was made ready in Python."""
        return self.more

    def _parts(self):
        """Return body, tags, keys, the JSON text of the properties and the id."""
        return self.body, self.tags, self.keys, self.more, self.message_id

    def _settle(self, outcome):
        """End it, by a result or an error."""
        if self.state >= STORED:
            return
        failed = isinstance(outcome, BaseException)
        self.body = self.tags = self.keys = None
        self.more = outcome
        self.state = FAILED if failed else STORED
        if failed and self.bits & COUNTED and not is_heard(self.waiters):
            self.head.sender.owner.unheard(self, outcome)
        settled(self)
        if failed:
            self.waiters = outcome.__traceback__
            track(self)


cdef Handle new_handle(Head head, bytes body, str tags, str keys, object more, int bits):
    cdef Handle handle = Handle.__new__(Handle)
    untrack(handle)
    handle.head, handle.body, handle.tags, handle.keys = head, body, tags, keys
    handle.more, handle.bits, handle.state = more, bits, WAITING
    return handle


cdef int add_waiter(Handle handle, object waiter) except -1:
    if handle.waiters is None:
        handle.waiters = waiter
    elif type(handle.waiters) is list:
        (<list>handle.waiters).append(waiter)
    else:
        handle.waiters = [handle.waiters, waiter]
    return 0


cdef bint is_heard(object waiters) except -1:
    """Say whether anybody still waits for the outcome."""
    if type(waiters) is list:
        return any([is_heard(waiter) for waiter in <list>waiters])
    return waiters is not None and (type(waiters) is tuple or not waiters.done())


cdef int wake(Handle handle, object waiter) except -1:
    if type(waiter) is tuple:
        handle.head.sender.loop.call_soon((<tuple>waiter)[0], handle)
    elif not waiter.done():  # else who waited was cancelled
        waiter.set_result(None)
    return 0


cdef int settled(Handle handle) except -1:
    """Tell those who wait for a handle, and those who wait for room."""
    cdef Sender sender = handle.head.sender
    waiters, handle.waiters = handle.waiters, None
    if handle.bits & COUNTED:
        sender.held -= 1
        sender.held_bytes -= handle.cost
        if sender.held_bytes <= sender.wake_bytes:
            sender.owner.less()
    if waiters is not None:
        if type(waiters) is list:
            for waiter in <list>waiters:
                wake(handle, waiter)
        else:
            wake(handle, waiters)
    return 0


cdef object stored_result(Handle handle):
    """Return the result of a message whose plain acknowledgement was read."""
    cdef Sender sender = handle.head.sender
    message_id = handle.message_id
    return sender.result(
        sender.success,
        message_id,
        f"{handle.keys}{handle.position:016X}",
        handle.head.queue,
        handle.queue_offset,
        message_id if handle.bits & IN_TRANSACTION else None,
        handle.tags,
        None,
        bool(handle.bits & TRACED),
    )
