"""Runs of hashes, made of records on their way to the log, which the CPU's cache has then.

Not while a record is packed: to read what was written a moment ago waits for all writes before it.
Nor when a turn is over: of a million bytes that it has brought the cache has the last ones alone.
features/index/slices.py has what they are for.
"""


@cython.final
cdef class KeyRuns:
    """Runs that wait for the index, some `bytes_max` bytes at most.

    What comes while there is no room is left out, and has to be read from the log; and a record
    with very many keys, which are nothing for the loop. Its buffer are the runs that wait, until a
    method is called.
    """

    cdef uint8_t* memory
    cdef readonly Py_ssize_t waiting_bytes
    cdef readonly Py_ssize_t bytes_max
    cdef readonly int64_t left_out  # times that records were
    cdef Py_ssize_t taken, size, room  # of the memory

    def __cinit__(self, Py_ssize_t bytes_max):
        self.bytes_max = bytes_max

    def note(self, bytes records not None, int64_t position):
        """Hash the keys of whole records that the log has taken in at a position."""
        cdef const uint8_t* begin = <const uint8_t*>PyBytes_AS_STRING(records)
        cdef Py_ssize_t size = self.size
        if size >= self.bytes_max or not self.hash_records(
            begin, PyBytes_GET_SIZE(records), position
        ):
            self.left_out += 1
            self.size = size
        self.waiting_bytes = self.size - self.taken

    cdef bint has_room(self, Py_ssize_t wanted) noexcept:
        """Have room for so much more; False where there is no memory."""
        cdef Py_ssize_t room = self.room
        cdef uint8_t* memory
        if self.size + wanted <= room:
            return True
        room = max(2 * room, self.size + wanted, <Py_ssize_t>RUNS_BYTES_FIRST)
        memory = <uint8_t*>realloc(self.memory, room)
        if memory == NULL:
            return False
        self.memory, self.room = memory, room
        return True

    cdef bint hash_records(self, const uint8_t* records, Py_ssize_t length, int64_t base) noexcept:
        """Add their runs; False where they are no records, or there is no memory."""
        cdef KeyRun* run
        cdef KeyHash* to
        cdef Record read
        cdef Topic last
        cdef Hashes hashes
        cdef Text uniq, keys, tags
        cdef uint32_t topic_hash
        cdef Py_ssize_t at = 0, run_at = -1
        cdef int number
        last.name.at, last.name.length, last.hash = NULL, -1, 0
        while at < length:
            if read_record(&read, records + at, length - at, base + at) != WHOLE:
                return False
            keys.length = 0
            if read.indexed:
                find_keys(read.properties, read.properties_bytes, &uniq, &keys, &tags)
            if keys.length > KEYS_BYTES_MAX:
                self.left_out += 1
                run_at = -1
                at += read.size
                continue
            if (
                run_at < 0
                or read.stamp != (<KeyRun*>(self.memory + run_at)).stamp
                or (<KeyRun*>(self.memory + run_at)).count >= RUN_HASHES
            ):
                if not self.has_room(KEY_RUN_BYTES):
                    return False
                run_at = self.size
                run = <KeyRun*>(self.memory + run_at)
                run.begin, run.stamp, run.count = base + at, read.stamp, 0
                self.size += KEY_RUN_BYTES
            if read.indexed:
                topic_hash = hash_topic(&last, read.topic, read.topic_bytes)
                hash_found(&hashes, topic_hash, &uniq, &keys, &tags)
                if not self.has_room(hashes.count * KEY_HASH_BYTES):
                    return False
                to = <KeyHash*>(self.memory + self.size)
                run = <KeyRun*>(self.memory + run_at)
                for number in range(hashes.count):
                    to[number].behind = <uint32_t>(base + at - run.begin)
                    to[number].hash = hashes.hash[number]
                run.count += hashes.count
                self.size += hashes.count * KEY_HASH_BYTES
            at += read.size
            (<KeyRun*>(self.memory + run_at)).end = base + at
        return True

    def take(self, Py_ssize_t count):
        """Forget the first `count` bytes of what waits, which are whole runs."""
        if not 0 <= count <= self.waiting_bytes:
            raise ValueError("more than there is")
        self.taken += count
        self.waiting_bytes -= count
        if not self.waiting_bytes:
            self.taken = self.size = 0
            if self.room > RUNS_BYTES_KEPT:
                self.let_go()

    def swap(self, KeyRuns other not None):
        """Have what waits in another one, which gets what waits in this one."""
        self.memory, other.memory = other.memory, self.memory
        self.taken, other.taken = other.taken, self.taken
        self.size, other.size = other.size, self.size
        self.room, other.room = other.room, self.room
        self.waiting_bytes, other.waiting_bytes = other.waiting_bytes, self.waiting_bytes

    def trim(self):
        """Let go of memory, if nothing waits in it."""
        if not self.waiting_bytes:
            self.let_go()

    cdef void let_go(self) noexcept:
        free(self.memory)
        self.memory, self.room = NULL, 0
        self.taken = self.size = 0

    def __len__(self):
        return self.waiting_bytes

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        cdef char* begin = <char*>b""
        if self.waiting_bytes:
            begin = <char*>self.memory + self.taken
        PyBuffer_FillInfo(buffer, self, begin, self.waiting_bytes, True, flags)

    def __dealloc__(self):
        free(self.memory)
