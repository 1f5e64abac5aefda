# Half messages and their ENDs, many at once, for plain_sends.pyx.
#
# `features/transactions/fast_halves.py` says what happens and why. What commits a half is made with
# it, for most are committed a moment later: then it is copied, and told where it is. Which
# transactions are open is the feature's; it is told of a run's when their records are in the log.

cdef enum:
    KEPT_AROUND_BYTES = 400  # of what is kept of a half, beside its record
    STAMP_AT = STORE_TIMESTAMP_AT - HOST_V4_BYTES
    PREPARED_OFFSET_BYTES = 8


@cython.final
cdef class KeptHalf:
    """A half message that was stored a moment ago, and the record that commits it."""

    cdef object half  # of the feature
    cdef object queue  # where it goes
    cdef bytes record, group, topic
    cdef int64_t position
    cdef Py_ssize_t stamp_bytes
    cdef Py_ssize_t store_time_at
    cdef int32_t tags_code


@cython.final
cdef class HalfRuns:
    """Serves the half messages and ENDs at the start of what was read."""

    cdef object queues, log, tick, half_queue
    cdef object make_key, make_half, told
    cdef dict fast, open_keys, open_offsets
    cdef tuple unusual
    cdef Py_ssize_t body_bytes_max, properties_bytes_max, kept_bytes_max, kept_bytes
    cdef dict kept  # by offset; most end a moment later
    cdef bytes suffix, stamp, half_topic, group, topic_text
    cdef object group_text, now
    cdef int64_t now_ms
    cdef int stamp_flag
    cdef Py_ssize_t room  # how many more may be open
    cdef list used  # queues with loaded lanes
    cdef dict opened, offsets  # of this run, by key and by offset
    cdef list ended, outcomes  # of this run
    cdef Before before
    cdef Bytes topic
    cdef Py_ssize_t topic_bytes
    cdef list topic_queues
    cdef Lane half_lane
    cdef int64_t position, limit
    cdef Block records, acks

    def __cinit__(self, queues, world):
        self.queues, self.fast = queues, queues.fast
        self.log, self.tick, self.told = world.log, world.tick, world.told
        self.make_key, self.make_half = world.key, world.half
        self.open_keys, self.open_offsets = world.by_key, world.by_offset
        self.unusual = world.unusual
        self.body_bytes_max = world.body_bytes_max
        self.properties_bytes_max = world.properties_bytes_max
        self.kept_bytes_max = world.kept_bytes_max
        self.kept, self.used = {}, []
        self.opened, self.offsets, self.ended, self.outcomes = {}, {}, [], []
        self.group = b""
        self.group_text = ""
        self.records, self.acks = Block(), Block()

    def begin(self, half_queue, bytes suffix not None, Py_ssize_t room, now_ms):
        """Take what holds for the next run: `room` is how many more transactions may be open."""
        self.half_queue, self.suffix, self.room = half_queue, suffix, room
        self.half_topic = half_queue.name.encode()
        self.now = now_ms
        self.now_ms = now_ms

    def serve(
        self,
        bytes data not None,
        Py_ssize_t at,
        Py_ssize_t frames_max,
        Py_ssize_t frame_bytes_max,
        bytes stamp not None,
        int stamp_flag,
        list acks not None,
    ):
        """Serve frames from `at` on; return where the first is that is not served, and how many."""
        cdef Py_ssize_t frames = 0, length
        cdef Bytes begin = <Bytes>PyBytes_AS_STRING(data), frame
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
        cdef uint32_t word
        cdef Outcome outcome
        if not 0 <= at <= end or PyBytes_GET_SIZE(stamp) < PREPARED_OFFSET_BYTES:
            raise ValueError("outside of what was read")
        self.stamp, self.stamp_flag = stamp, stamp_flag
        try:
            while frames < frames_max and end - at >= FRAME_WORDS_BYTES:
                frame = begin + at
                length, word = word_at(frame), word_at(frame + FRAME_LENGTH_BYTES)
                if (
                    length > end - at - FRAME_LENGTH_BYTES
                    or length > frame_bytes_max
                    or word >= FRAME_HEADER_BYTES_MAX
                    or length < FRAME_LENGTH_BYTES + <Py_ssize_t>word
                ):
                    break
                frame += FRAME_WORDS_BYTES
                if length == FRAME_LENGTH_BYTES + <Py_ssize_t>word:
                    outcome = self.serve_end(frame, frame + word, end - at)
                else:
                    outcome = self.serve_half(
                        frame, frame + word, length - FRAME_LENGTH_BYTES - word, end - at
                    )
                if outcome == FULL:
                    self.hand_over(acks)
                    continue
                if outcome == DECLINED:
                    break
                at += FRAME_LENGTH_BYTES + length
                frames += 1
            self.hand_over(acks)
        finally:
            if self.used or self.ended:
                self.abandon()
            self.topic_queues, self.topic_bytes, self.before.begin = None, 0, NULL
            self.half_lane = None
        return at, frames

    cdef Lane loaded(self, queue):
        """Return the lane of a queue, which the log is about to have records of."""
        cdef Lane lane = lane_of(queue)
        if not lane.loaded:
            if not self.used:
                self.position, self.limit = self.log.position, self.log.limit
            self.used.append(queue)
            lane.load()
        return lane

    cdef object queue(self, SendHeader* header):
        """Return where a message goes, None if the queue's checks have not passed."""
        if not is_word(
            header.topic, header.topic_bytes, <const char*>self.topic, self.topic_bytes
        ):
            self.topic, self.topic_bytes = header.topic, header.topic_bytes
            name = PyUnicode_DecodeASCII(<const char*>header.topic, header.topic_bytes, NULL)
            self.topic_queues, self.topic_text = self.fast.get(name), name.encode()
        if self.topic_queues is None or not 0 <= header.queue_id < len(self.topic_queues):
            return None
        return self.topic_queues[header.queue_id]

    cdef Outcome serve_half(
        self, Bytes at, Bytes body, Py_ssize_t body_bytes, Py_ssize_t left
    ) except? FULL:
        """Pack one half message; `left` bytes were read from its first on."""
        cdef SendHeader header
        cdef HalfProperties found
        cdef Py_ssize_t size_max, ack_bytes_max, size, own, place_bytes
        cdef unsigned char* record
        cdef unsigned char* tail
        cdef unsigned char* to
        cdef Lane lane
        cdef KeptHalf kept
        cdef object offset, position
        if not self.room or body_bytes > self.body_bytes_max:
            return DECLINED
        if not read_next_header(&self.before, &header, at, body) or header.is_batch:
            return DECLINED
        if not has_flags(&header, PREPARED):
            return DECLINED
        queue = self.queue(&header)
        if queue is None:
            return DECLINED
        lane = lane_of(queue)
        if self.half_lane is None or not self.half_lane.loaded:
            self.half_lane = self.loaded(self.half_queue)
        if not self.half_lane.base <= self.half_lane.offset < self.half_lane.limit:
            return DECLINED
        size_max = head_bytes(self.half_lane, self.stamp, body_bytes)
        size_max += 2 + 2 * header.properties_bytes + PyBytes_GET_SIZE(self.suffix)
        size_max += header.topic_bytes + 128  # the names of what is added, and a number
        ack_bytes_max = lane.ack_bytes_max + header.properties_bytes
        if not self.records.has_room(size_max, size_max + left + more_bytes(left)):
            return FULL
        if not self.acks.has_room(ack_bytes_max, ack_bytes_max + left // 2 + SPARE_BYTES):
            return FULL
        record = self.records.end()
        tail = record + head_bytes(self.half_lane, self.stamp, body_bytes)
        if not put_half_properties(
            &found, self.unusual, tail + 2,
            header.properties, header.properties + header.properties_bytes,
        ):
            return DECLINED
        to = put_text(tail + 2 + found.size, self.suffix)
        own = to - tail - 2
        to = put_bytes(to, b"REAL_TOPIC\x01", 11)
        to = put_bytes(put_bytes(to, header.topic, header.topic_bytes), b"\x02REAL_QID\x01", 10)
        to = put_bytes(put_decimal(to, header.queue_id), b"\x02", 1)
        place_bytes = to - tail - 2 - own
        to = put_bytes(to, b"__transactionId__\x01", 18)
        to = put_bytes(put_bytes(to, found.key, found.key_bytes), b"\x02", 1)
        put16(tail, to - tail - 2)
        size = to - record
        if (
            to - tail - 2 > self.properties_bytes_max
            or size > INT32_MAX
            or size > self.limit - self.position
        ):
            return DECLINED
        key = self.key(&found, queue)
        if key in self.open_keys or key in self.opened:
            return DECLINED
        self.put_half(record, lane, &header, body, body_bytes, size)
        offset, position = self.half_lane.offset, self.position
        half = self.make_half(
            key, offset, position, header.queue_id, self.now, self.now, 0, None, None, position
        )
        self.opened[key] = self.offsets[offset] = half
        if self.has_place(size + KEPT_AROUND_BYTES):
            kept = self.kept_of(record, lane, body_bytes, own, place_bytes, size)
            kept.half, kept.queue, kept.group = half, queue, self.group
            kept.topic, kept.tags_code = self.topic_text, found.tags_code
            self.kept[offset] = kept
        put_entry(self.half_lane, self.position, size, found.tags_code)
        self.acks.size += put_ack(
            self.acks.end(), lane, self.position, self.half_lane.offset, found.key,
            found.key_bytes, header.opaque,
        )
        self.room -= 1
        self.count(self.half_lane, size)
        return SERVED

    cdef object key(self, HalfProperties* found, queue):
        """Return which transaction it is."""
        if not is_bytes(found.group, found.group_bytes, self.group):
            group = found.group[: found.group_bytes]
            self.group_text = group.decode()
            self.group = group
        unique_key = PyUnicode_DecodeASCII(<const char*>found.key, found.key_bytes, NULL)
        return self.make_key(self.group_text, unique_key, queue.name)

    cdef int put_half(
        self,
        unsigned char* record,
        Lane lane,
        SendHeader* header,
        Bytes body,
        Py_ssize_t body_bytes,
        Py_ssize_t size,
    ) except -1:
        """Write a half's record up to its properties."""
        cdef Place place
        place.offset, place.position = self.half_lane.offset, self.position
        place.sys_flag = header.sys_flag & ~ROLLED_BACK | self.stamp_flag
        place.size, place.crc = size, check_sum(body, body_bytes)
        record = put_record_head(record, self.half_lane, header, &place, self.stamp, body_bytes)
        put_text(put_bytes(record, body, body_bytes), self.half_lane.prefix)
        return 0

    cdef KeptHalf kept_of(
        self,
        Bytes record,
        Lane lane,
        Py_ssize_t body_bytes,
        Py_ssize_t own,
        Py_ssize_t place_bytes,
        Py_ssize_t half_size,
    ):
        """Make the committed record of a half's: `own` bytes of its properties stay, and its key.

        Its offset, position and times are not known yet.
        """
        cdef KeptHalf kept = KeptHalf.__new__(KeptHalf)
        cdef Py_ssize_t to_body = head_bytes(lane, self.stamp, 0) - PyBytes_GET_SIZE(lane.prefix)
        cdef Py_ssize_t text_at = head_bytes(self.half_lane, self.stamp, body_bytes) + 2
        cdef Py_ssize_t end_at = text_at + own + place_bytes
        cdef Py_ssize_t text_bytes = own + half_size - end_at
        cdef Py_ssize_t size = head_bytes(lane, self.stamp, body_bytes) + 2 + text_bytes
        kept.record = PyBytes_FromStringAndSize(NULL, size)
        cdef unsigned char* begin = <unsigned char*>PyBytes_AS_STRING(kept.record)
        cdef unsigned char* to = put_bytes(begin, record, to_body + body_bytes)
        to = put16(put_text(to, lane.prefix), text_bytes)
        to = put_bytes(put_bytes(to, record + text_at, own), record + end_at, half_size - end_at)
        put32(put32(begin, size), lane.magic)
        put32(begin + QUEUE_ID_AT, lane.queue_id)
        begin[SYS_FLAG_LAST_AT] |= COMMITTED
        kept.position = self.position
        kept.stamp_bytes = PyBytes_GET_SIZE(self.stamp)
        kept.store_time_at = STORE_TIMESTAMP_AT
        if self.stamp_flag >> HOST_BITS_SHIFT & 1:
            kept.store_time_at += HOST_V6_MORE_BYTES
        return kept

    cdef bint has_place(self, Py_ssize_t size) except -1:
        """Make place for what commits a half; whoever is large, or slow, is read from the log."""
        if size > self.kept_bytes_max:
            return False
        self.kept_bytes += size
        if self.kept_bytes > self.kept_bytes_max:
            self.kept.clear()
            self.kept_bytes = size
        return True

    cdef Outcome serve_end(self, Bytes at, Bytes end, Py_ssize_t left) except? FULL:
        """End one transaction; `left` bytes were read from its END on."""
        cdef EndHeader header
        cdef KeptHalf kept
        cdef Outcome outcome
        cdef object offset
        if not read_end(&header, at, end):
            return DECLINED
        offset = header.offset
        found = self.kept.get(offset)
        if found is None:
            return DECLINED
        kept = <KeptHalf>found
        if (
            header.position != kept.position
            or self.open_offsets.get(offset) is not kept.half
            or not is_bytes(header.group, header.group_bytes, kept.group)
            or not self.names(&header, kept)
        ):
            return DECLINED
        if header.outcome == COMMITTED:
            outcome = self.commit(kept, left)
            if outcome != SERVED:
                return outcome
        self.ended.append(kept.half)
        self.outcomes.append(header.outcome)
        del self.kept[offset]
        return SERVED

    cdef bint names(self, EndHeader* header, KeptHalf kept):
        """Say whether an END names a half's topic, or the half topic, or none."""
        return (
            header.topic == NULL
            or is_bytes(header.topic, header.topic_bytes, kept.topic)
            or is_bytes(header.topic, header.topic_bytes, self.half_topic)
        )

    cdef Outcome commit(self, KeptHalf kept, Py_ssize_t left) except? FULL:
        """Pack the message of a half."""
        cdef Lane lane
        cdef unsigned char* record
        cdef Py_ssize_t size = PyBytes_GET_SIZE(kept.record)
        lane = kept.queue.lane
        if lane is None or not lane.loaded:
            if self.queues.find(kept.queue.name, kept.queue.queue_id) is not kept.queue:
                return DECLINED  # its topic was deleted
            lane = self.loaded(kept.queue)
        if not lane.base <= lane.offset < lane.limit or size > self.limit - self.position:
            return DECLINED
        if not self.records.has_room(size, size + left + more_bytes(left)):
            return FULL
        record = self.records.end()
        put_text(record, kept.record)
        put64(record + QUEUE_OFFSET_AT, lane.offset)
        put64(record + POSITION_AT, self.position)
        put64(record + kept.store_time_at, self.now_ms)
        put64(record + STAMP_AT + kept.stamp_bytes - PREPARED_OFFSET_BYTES, kept.position)
        put_entry(lane, self.position, size, kept.tags_code)
        self.count(lane, size)
        return SERVED

    cdef inline void count(self, Lane lane, Py_ssize_t size) noexcept:
        """Let a record that was written count."""
        self.records.size += size
        self.position += size
        lane.offset += 1
        lane.arrived_bytes += size

    cdef int hand_over(self, list acks) except -1:
        """Give the log its records, the queues their ends, and the feature what it has to know."""
        cdef Lane lane
        if self.records.size:
            self.log.append_packed(self.records.take())
            for queue in self.used:
                lane = lane_of(queue)
                if lane.arrived_bytes:
                    lane.tell(queue)
                    if has_holds(queue) and queue is not self.half_queue:
                        self.tick.woken.append(queue)
        if self.opened or self.ended:
            self.told(self.opened, self.offsets, self.ended, self.outcomes)
        if self.acks.size:
            acks.append(self.acks.take())
        self.abandon()
        return 0

    cdef int abandon(self) except -1:
        """Forget what is packed and not handed over."""
        for queue in self.used:
            lane_of(queue).release()
        self.used.clear()
        self.opened, self.offsets, self.ended, self.outcomes = {}, {}, [], []
        self.records.drop()
        self.acks.drop()
        return 0
