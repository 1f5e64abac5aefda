# Pulls that come again with other numbers, for record_runs.pyx, as pulls/server.py answers them.
#
# A consumer's pull differs from its last one in where it reads, what it commits, the number of the
# request, and its signature, if it signs. What is left of its header without these is the key
# under which a pull is known that Python has served (pulls/repeats.py, known_pull.pxi). Its checks
# are asked again as soon as a topic, a group or a member has changed. Whatever is unusual is
# declined, and served there one by one.

cdef enum:
    REPEATS_MAX = 4096  # of the young, and of the old ones
    SEEN_MAX = 8192  # headers that came once
    LOOK_MAX = 1024  # entries that one pull looks at


@cython.final
cdef class RepeatedPulls:
    """Answers repeated pulls at the start of what was read; `world` is a pulls.repeats.Repeats."""

    cdef object world, topics, groups, members, metrics
    cdef dict last_pulled, outgoing
    cdef bint steady, fresh, signs
    cdef dict young, old  # by key; who is used among the old becomes young again
    cdef set seen
    cdef Repeat last
    cdef list opened
    cdef Block replies
    cdef bytes missed_key, missed_header
    cdef int64_t[NUMBERS] missed_numbers
    cdef int64_t hot, warm_from
    cdef Py_buffer file
    cdef bint has_file
    cdef int64_t file_base, file_end
    cdef Py_ssize_t[2] counts_max  # of old records, of recent ones
    cdef int64_t[2] bytes_max
    cdef unsigned char[LOOK_MAX * ENTRY_BYTES] copied

    def __cinit__(self, world):
        self.world = world
        self.young, self.old, self.seen, self.opened = {}, {}, set(), []
        self.replies = Block()
        self.topics, self.groups, self.members = world.tables
        self.steady, self.last_pulled, self.metrics = world.steady, world.last_pulled, world.metrics
        self.outgoing, self.signs = self.metrics.outgoing, world.signs
        (
            self.counts_max[0], self.bytes_max[0], self.counts_max[1], self.bytes_max[1]
        ) = world.limits

    def __dealloc__(self):
        if self.has_file:
            PyBuffer_Release(&self.file)

    def __len__(self):
        return len(self.young) + len(self.old)

    def serve(
        self,
        connection,
        bytes data not None,
        Py_ssize_t at,
        Py_ssize_t frames_max,
        int64_t bytes_max,
        list replies not None,
    ):
        """Answer pulls from `at` on, until their replies have more than `bytes_max` bytes.

        Returns where the first is that is not answered, how many were, and the bytes of the reply;
        None where there was none.
        """
        cdef Py_ssize_t frames = 0, length, expected, reply_bytes = 0
        cdef Bytes begin = <Bytes>PyBytes_AS_STRING(data), frame
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
        cdef Ask ask
        cdef Repeat repeat
        if not 0 <= at <= end:
            raise ValueError("outside of what was read")
        self.missed_key = None
        try:
            while frames < frames_max and end - at >= FRAME_WORDS_BYTES:
                frame = begin + at
                length = word_at(frame)
                # a header alone; the codec is in the same word, and JSON is 0
                if (
                    length > end - at - FRAME_LENGTH_BYTES
                    or length != FRAME_LENGTH_BYTES + <Py_ssize_t>word_at(frame + 4)
                    or not read_ask(&ask, frame + FRAME_WORDS_BYTES, frame + 4 + length, self.signs)
                ):
                    break
                repeat = self.find(&ask)
                if repeat is None or not (frames or self.begin(connection)):
                    break
                expected = min(frames_max - frames, (end - at) // (FRAME_LENGTH_BYTES + length))
                if not self.answer(repeat, connection, &ask, expected, bytes_max):
                    break
                at += FRAME_LENGTH_BYTES + length
                frames += 1
                if self.replies.size > bytes_max:
                    break
            if frames:
                reply_bytes = self.replies.size
                replies.append(self.replies.take())
                self.account()
        finally:
            self.end()
        return (at, frames, reply_bytes) if frames else None

    def missed(self, int64_t offset, int64_t committed, int64_t opaque):
        """Return the header that was not known, if it is this pull's, to be learned; else None."""
        if self.missed_key is None:
            return None
        if (
            self.missed_numbers[OFFSET] != offset
            or self.missed_numbers[COMMITTED] != committed
            or self.missed_numbers[OPAQUE] != opaque
        ):
            return None
        return self.missed_header

    def learn(
        self,
        known,
        tuple names not None,
        tuple pieces not None,
        wanted,
        Py_ssize_t messages_max,
        int64_t bytes_max,
        Py_ssize_t look_max,
        bint commits,
    ):
        """Know the pull that was missed last from now on."""
        cdef Repeat made = Repeat()
        if self.missed_key is None or look_max > LOOK_MAX or len(pieces) != 5:
            return
        if not set_wanted(&made.run, wanted):
            return
        made.key, made.known, made.pieces = self.missed_key, known, pieces
        made.topic_and_group, made.topic_group, made.queue_id = names
        made.pieces_bytes = sum([len(<bytes?>piece) for piece in pieces])
        made.run.messages_max, made.run.bytes_max = messages_max, bytes_max
        made.look_max, made.commits = look_max, commits
        self.keep(made)
        self.last, self.missed_key = made, None

    cdef int keep(self, Repeat repeat) except -1:
        """Put a pull among the young; when they are many, they are the old ones."""
        if len(self.young) >= REPEATS_MAX:
            self.old, self.young = self.young, {}
        self.young[repeat.key] = repeat
        return 0

    cdef Repeat find(self, Ask* ask):
        """Return the pull that this is again; None, and what was missed is noted."""
        cdef bytes key
        if self.last is not None and is_key(ask, self.last.key):
            return self.last
        key = key_of(ask)
        found = self.young.get(key)
        if found is None:
            found = self.old.pop(key, None)
            if found is None:
                if hash(key) in self.seen:
                    self.miss(ask, key)
                else:
                    if len(self.seen) >= SEEN_MAX:
                        self.seen.clear()
                    self.seen.add(hash(key))
                return None
            self.keep(<Repeat>found)
        self.last = <Repeat>found
        return self.last

    cdef int miss(self, Ask* ask, bytes key) except -1:
        """Note a header that is not known, or not any more."""
        cdef Bytes begin = ask.begin[0]
        cdef Bytes end = ask.begin[ask.cuts] + ask.size[ask.cuts]
        self.missed_key = key
        self.missed_header = PyBytes_FromStringAndSize(<const char*>begin, end - begin)
        memcpy(self.missed_numbers, ask.numbers, sizeof(ask.numbers))
        return 0

    cdef bint begin(self, connection) except -1:
        """Begin a run; False where each pull has to be looked at."""
        self.hot = self.world.begin(connection)
        self.fresh = self.world.fresh
        self.warm_from = INT64_MAX
        return self.hot >= 0

    cdef bint open(self, Repeat repeat, connection, Ask* ask) except -1:
        """Have the checks made where they may come out otherwise, and look at the queue.

        False where Python has to.
        """
        cdef int64_t offset = ask.numbers[OFFSET]
        repeat.release()
        if self.fresh and not self.world.is_settled(connection, repeat.known):
            return False
        memory = None
        if self.holds(repeat):
            memory = repeat.memory(offset, self.world.writable)
        if memory is None:
            repeat.topics, repeat.groups = self.topics.data_version, self.groups.data_version
            repeat.members, repeat.stored, repeat.mapped = self.members.version, None, None
            found = self.world.open(connection, repeat.known, offset)
            if found is None:
                self.miss(ask, repeat.key)
                return False
            (
                memory, repeat.base, repeat.end, repeat.low, repeat.high, repeat.synced,
                repeat.stored,
            ) = found
            repeat.note_file(memory)
        repeat.hold(memory)
        self.opened.append(repeat)
        return True

    cdef bint holds(self, Repeat repeat) except -1:
        """Say whether what the checks have found holds, for whoever asks."""
        return (
            self.steady
            and repeat.stored is not None
            and repeat.topics is self.topics.data_version
            and repeat.groups is self.groups.data_version
            and repeat.members is self.members.version
        )

    cdef bint load_file(self, int64_t position) except -1:
        """Have the file of the log that a position is in; False where it cannot be read."""
        if self.has_file:
            PyBuffer_Release(&self.file)
            self.has_file = False
        found = self.world.file_at(position)
        if found is None:
            return False
        memory, self.file_base, self.file_end = found
        PyObject_GetBuffer(memory, &self.file, PyBUF_SIMPLE)
        self.has_file = True
        return 0 <= self.file_base <= position < self.file_end <= self.file_base + self.file.len

    cdef bint answer(
        self, Repeat repeat, connection, Ask* ask, Py_ssize_t expected, int64_t bytes_max
    ) except -1:
        """Write the reply to one pull behind the others; False, and nothing is done, where not.

        Perhaps `expected` pulls like it are answered, with little more than `bytes_max` in all.
        """
        cdef Run* run = &repeat.run
        cdef int64_t offset = ask.numbers[OFFSET], first
        cdef unsigned char* begin
        cdef unsigned char* to
        cdef Py_ssize_t reply_max = FRAME_WORDS_BYTES + repeat.pieces_bytes + 4 * NUMBER_BYTES_MAX
        if not (repeat.is_open and repeat.base <= offset < repeat.end):
            if not self.open(repeat, connection, ask):
                return False
        if not max(repeat.low, repeat.base) <= offset < repeat.end:
            return False
        if not self.have_entries(repeat, offset, min(repeat.end - offset, repeat.look_max)):
            return False
        first = long_at(run.entries)
        if not (self.has_file and self.file_base <= first < self.file_end):
            if not self.load_file(first):
                return False
        if not self.measure(repeat, first):
            return False
        reply_max += run.taken_bytes
        self.replies.make_room(reply_max, min(expected * reply_max, bytes_max + 2 * reply_max))
        begin = self.replies.end()
        to = self.put_head(repeat, begin, offset + run.looked, ask.numbers[OPAQUE])
        if copy(run, run.file, to) < run.taken_bytes or not are_records(run, to):
            return False
        if repeat.commits and (not repeat.pulls or ask.numbers[COMMITTED] != repeat.committed):
            repeat.committed = ask.numbers[COMMITTED]
            self.world.commit(repeat.known, repeat.committed)
        self.replies.size += to + run.taken_bytes - begin
        repeat.next_offset = offset + run.looked
        repeat.pulls += 1
        repeat.messages += run.taken
        repeat.bytes += run.taken_bytes
        return True

    cdef bint have_entries(self, Repeat repeat, int64_t offset, Py_ssize_t count) noexcept:
        """Point to the entries from an offset on; what was synced is copied, as far as it is there.

        False where none is (Reader._run).
        """
        cdef iovec part
        cdef Bytes at = <Bytes>repeat.entries.buf + (offset - repeat.base) * ENTRY_BYTES
        cdef Py_ssize_t left = <Bytes>repeat.entries.buf + repeat.entries.len - at
        repeat.run.entries, repeat.run.count = at, count
        if offset >= repeat.synced:
            return True
        count = min(count * ENTRY_BYTES, resident_bytes(at, count * ENTRY_BYTES, left))
        count //= ENTRY_BYTES
        part.iov_base, part.iov_len = <void*>at, count * ENTRY_BYTES
        if not count or copy_parts(self.copied, &part, 1) < count * ENTRY_BYTES:
            return False
        repeat.run.entries, repeat.run.count = self.copied, count
        return True

    cdef bint measure(self, Repeat repeat, int64_t first) except -1:
        """Find out what is read; False where Python has to, or nothing is found."""
        cdef Run* run = &repeat.run
        cdef Py_ssize_t messages_max = run.messages_max
        cdef int64_t bytes_max = run.bytes_max
        cdef bint recent = first >= self.warm_from or <bint>self.world.in_memory(first)
        cdef bint measured
        if recent and first < self.warm_from:
            self.warm_from = first
        run.looked = run.taken = run.taken_bytes = 0
        run.file, run.base, run.end = <Bytes>self.file.buf, self.file_base, self.file_end
        run.hot, run.warm_begin, run.warm_end = self.hot, -1, -1
        run.messages_max = min(messages_max, self.counts_max[recent])
        run.bytes_max = min(bytes_max, self.bytes_max[recent])
        measured = measure(run)
        run.messages_max, run.bytes_max = messages_max, bytes_max
        return measured and run.taken > 0

    cdef unsigned char* put_head(
        self, Repeat repeat, unsigned char* begin, int64_t next_offset, int64_t opaque
    ) noexcept:
        """Write a reply up to its records; return what is behind it."""
        cdef tuple pieces = repeat.pieces
        cdef unsigned char* to = put_text(begin + FRAME_WORDS_BYTES, <bytes>pieces[0])
        to = put_text(put_decimal(to, repeat.high), <bytes>pieces[1])
        to = put_text(put_decimal(to, repeat.low), <bytes>pieces[2])
        to = put_text(put_decimal(to, next_offset), <bytes>pieces[3])
        to = put_text(put_decimal(to, opaque), <bytes>pieces[4])
        put32(
            put32(begin, to - begin - FRAME_LENGTH_BYTES + repeat.run.taken_bytes),
            to - begin - FRAME_WORDS_BYTES,
        )
        return to

    cdef int account(self) except -1:
        """Note how far each pull has got, and what it was given, as `World.served` does."""
        cdef Repeat repeat
        cdef int64_t pulls = 0, messages = 0
        for repeat in self.opened:
            if repeat.pulls:
                offsets = self.last_pulled.get(repeat.topic_and_group)
                given = self.outgoing.get(repeat.topic_group)
                if given is None or offsets is None or repeat.queue_id not in <dict>offsets:
                    self.world.served(
                        repeat.known, repeat.next_offset, repeat.pulls, repeat.messages,
                        repeat.bytes,
                    )
                else:
                    (<dict>offsets)[repeat.queue_id] = repeat.next_offset
                    given.messages += repeat.messages
                    given.size_bytes += repeat.bytes
                    pulls += repeat.pulls
                    messages += repeat.messages
                repeat.pulls = repeat.messages = repeat.bytes = 0
        if pulls:
            self.metrics.found += pulls
            self.metrics.transferred += messages
        return 0

    cdef void end(self) noexcept:
        """Let all memory go that belongs to others."""
        cdef Repeat repeat
        for repeat in self.opened:
            repeat.release()
            repeat.pulls = repeat.messages = repeat.bytes = 0
        self.opened.clear()
        self.replies.drop()
        if self.has_file:
            PyBuffer_Release(&self.file)
            self.has_file = False
