# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Plain sends and batches served by compiled code: what sends/fast.py does, for a run of frames.

`sends/fast.py` says what happens and why; here is the same done to bytes, without an object for
each frame. Whatever is not accepted here is served there, so this code may decline at will, but
what it does must be what is done there, to the byte (tests/property/test_compiled_sends.py).

No length that a peer has sent is used before it was compared with what is there, and nothing is
written before room for the most that it can take was made.
"""

cimport cython
from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from os import urandom

from isal import isal_zlib

from aerobee.broker.writing.firsts import digest
from aerobee.broker.writing.queues import TopicQueue
from aerobee.storage.errors import StoreError
from aerobee.storage.queues.consume_queue import ConsumeQueue

cdef enum Outcome:
    SERVED
    DECLINED
    FULL  # try again after what is packed has been handed over
    CROWDED  # try again after its queue has made room for `wanted` entries

cdef enum:
    NAME_SEPARATOR = 1
    PROPERTY_SEPARATOR = 2
    PROPERTIES_BYTES_MAX = 32_767
    SPARE_BYTES = 16_384  # what the records of a read may take more than their frames, at first

include "layout.pxi"
include "packing.pxi"
include "send_header.pxi"
include "header_alike.pxi"
include "properties.pxi"
include "block.pxi"
include "huge_pages.pxi"
include "seen_keys.pxi"
include "lane.pxi"
include "batches.pxi"


@cython.final
cdef class PlainSends:
    """Serves the plain sends at the start of what was read."""

    cdef dict fast, once, watched
    cdef object log, tick
    cdef bytes suffix, stamp, access_key
    cdef int stamp_flag
    cdef Py_ssize_t body_bytes_max
    cdef list used  # queues whose lanes are loaded, which they are during `serve` alone
    cdef object crowded  # of them, the one without room
    cdef Py_ssize_t wanted
    cdef Before before  # the header of a frame that was served, in the same read
    cdef Bytes topic  # of the frame before
    cdef Py_ssize_t topic_bytes
    cdef list queues  # its
    cdef ListedTopics topics  # of this run
    cdef SeenKeys seen  # those of its messages, None where they are not asked for
    cdef SeenKeys noted  # those of any message of this run
    cdef uint32_t number  # of the topic there
    cdef SeenKey key
    cdef int64_t now_ms
    cdef int64_t position, limit
    cdef Block records, acks

    def __cinit__(self, queues, log, tick, bytes suffix, Py_ssize_t body_bytes_max):
        self.fast, self.once, self.watched = queues.fast, queues.once, queues.watched
        self.access_key = queues.access_key
        if self.access_key is not None:
            self.before.access_key = <Bytes>PyBytes_AS_STRING(self.access_key)
            self.before.access_key_bytes = PyBytes_GET_SIZE(self.access_key)
        self.log, self.tick = log, tick
        self.suffix, self.body_bytes_max = suffix, body_bytes_max
        self.used, self.topics = [], ListedTopics()
        self.records, self.acks = Block(), Block()

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
        cdef Py_ssize_t frames = 0, length, extended_at = -1
        cdef Bytes begin = <Bytes>PyBytes_AS_STRING(data), frame
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
        cdef Outcome outcome
        if not 0 <= at <= end:
            raise ValueError("outside of what was read")
        self.stamp, self.stamp_flag = stamp, stamp_flag
        try:
            while frames < frames_max and end - at >= FRAME_WORDS_BYTES:
                frame = begin + at
                length = word_at(frame)
                if length > end - at - FRAME_LENGTH_BYTES or length > frame_bytes_max:
                    break  # not complete, or refused
                outcome = self.serve_frame(frame, length, end - at)
                if outcome == FULL:
                    self.hand_over(acks)
                    continue
                if outcome == CROWDED and extended_at != at and self.extend(acks):
                    extended_at = at
                    continue
                if outcome != SERVED:
                    break
                at += FRAME_LENGTH_BYTES + length
                frames += 1
            if self.used:
                self.hand_over(acks)
        finally:
            if self.used:
                self.abandon()
            self.queues, self.topic_bytes, self.before.begin = None, 0, NULL
            self.topics.clear()
            self.crowded = None
            self.seen = self.noted = None
        return at, frames

    cdef Outcome serve_frame(
        self, Bytes frame, Py_ssize_t length, Py_ssize_t left
    ) except? FULL:
        """Pack what one send brings; `left` bytes were read from its first on, `length` are its."""
        cdef SendHeader header
        cdef Lane lane
        cdef uint32_t word = word_at(frame + FRAME_LENGTH_BYTES)
        cdef Py_ssize_t body_bytes = length - FRAME_LENGTH_BYTES - <Py_ssize_t>word
        cdef Py_ssize_t size_max, ack_bytes_max
        # the codec is in the same word; below the limit it is JSON, which is 0
        if word >= FRAME_HEADER_BYTES_MAX or not 0 < body_bytes <= self.body_bytes_max:
            return DECLINED
        frame += FRAME_WORDS_BYTES
        if not read_next_header(&self.before, &header, frame, frame + word):
            return DECLINED
        if not has_flags(&header, 0):
            return DECLINED
        lane = self.lane(&header)
        if lane is None or lane.offset < lane.base:
            return DECLINED
        if lane.offset >= lane.limit:
            return self.crowd(lane, 1)
        if header.is_batch:
            return pack_batch(self, lane, &header, frame + word, frame + word + body_bytes, left)
        size_max = head_bytes(lane, self.stamp, body_bytes)
        size_max += 2 + header.properties_bytes + 1 + PyBytes_GET_SIZE(self.suffix)
        ack_bytes_max = lane.ack_bytes_max + header.properties_bytes
        if not self.records.has_room(size_max, size_max + left + SPARE_BYTES):
            return FULL
        if not self.acks.has_room(ack_bytes_max, ack_bytes_max + left // 2 + SPARE_BYTES):
            return FULL
        return self.pack(lane, &header, frame + word, body_bytes)

    cdef Lane lane(self, SendHeader* header):
        """Return where a message goes, None if the queue's checks have not passed."""
        if not is_word(
            header.topic, header.topic_bytes, <const char*>self.topic, self.topic_bytes
        ):
            self.turn_to(header.topic, header.topic_bytes)
        if self.queues is None or not 0 <= header.queue_id < len(self.queues):
            return None
        queue = self.queues[header.queue_id]
        if queue is None:
            return None
        cdef Lane lane = lane_of(queue)
        if not lane.loaded:
            if not self.used:
                self.position, self.limit = self.log.position, self.log.limit
            self.used.append(queue)
            lane.load()
        return lane

    cdef int turn_to(self, Bytes topic, Py_ssize_t size) except -1:
        """Have the queues of another topic than before; none where it is on no list."""
        self.topic, self.topic_bytes = topic, size
        self.queues, self.seen = self.topics.find(topic, size), None
        if self.queues is None:
            name = PyUnicode_DecodeASCII(<const char*>topic, size, NULL)
            self.queues = self.fast.get(name)
            if self.queues is None:
                self.watch(name)
            else:
                self.topics.put(topic, size, self.queues)
        return 0

    cdef int watch(self, name) except -1:
        """Have the queues of a topic that stores a retry once, and the keys that it knows."""
        queues = self.once.get(name)
        if queues is not None:
            keys, number = self.watched[name]
            if isinstance(keys, SeenKeys):
                self.queues, self.seen, self.number = queues, keys, number
                self.noted, self.now_ms = keys, stored_ms(self.stamp, self.stamp_flag)
        return 0

    cdef int look(self, Bytes key, Py_ssize_t key_bytes) except -1:
        """Read the key of a message, and have its place fetched, which may be far away."""
        cdef Bytes read
        if not read_key(key, key_bytes, &self.key):
            digested = digest(key[:key_bytes])
            read = <Bytes>PyBytes_AS_STRING(digested)
            self.key.first, self.key.second = long_at(read), long_at(read + 8)
        self.key.topic = self.number
        self.seen.mark(&self.key)
        return 0

    cdef bint note(self) noexcept:
        """Note the key that was read, of the message that goes to `position`; False: known."""
        cdef uint32_t number
        self.seen.see(self.now_ms)
        number = self.seen.number_of(&self.key)
        if number and self.seen.is_fresh(number):
            return False
        self.seen.add(&self.key, number, self.position, self.seen.clock_ms)
        return True

    cdef Outcome pack(
        self, Lane lane, SendHeader* header, Bytes body, Py_ssize_t body_bytes
    ) except? FULL:
        """Write record, entry and acknowledgement; they count from when all of them are there."""
        cdef Properties properties
        cdef unsigned char* record = self.records.end()
        cdef unsigned char* tail = record + head_bytes(lane, self.stamp, body_bytes)
        cdef Py_ssize_t tail_bytes, size
        if not put_properties(
            &properties,
            tail + 2,
            header.properties,
            header.properties + header.properties_bytes,
        ):
            return DECLINED
        tail_bytes = properties.size + PyBytes_GET_SIZE(self.suffix)
        size = tail + 2 + tail_bytes - record
        if (
            tail_bytes > PROPERTIES_BYTES_MAX
            or size > INT32_MAX
            or size > self.limit - self.position
        ):
            return DECLINED
        if self.seen is not None:
            self.look(properties.key, properties.key_bytes)
        put_text(put16(tail, tail_bytes) + properties.size, self.suffix)
        self.put_head(record, lane, header, body, body_bytes, size)
        if self.seen is not None and not self.note():
            return DECLINED
        put_entry(lane, self.position, size, properties.tags_code)
        self.acks.size += put_ack(
            self.acks.end(), lane, self.position, lane.offset, properties.key, properties.key_bytes,
            header.opaque,
        )
        self.records.size += size
        self.position += size
        lane.offset += 1
        lane.arrived_bytes += size
        return SERVED

    cdef int put_head(
        self,
        unsigned char* to,
        Lane lane,
        SendHeader* header,
        Bytes body,
        Py_ssize_t body_bytes,
        Py_ssize_t size,
    ) except -1:
        """Write a record up to its topic (CommitLog.append)."""
        cdef Place place
        place.offset, place.position = lane.offset, self.position
        place.sys_flag, place.size = header.sys_flag | self.stamp_flag, size
        place.crc = check_sum(body, body_bytes)
        to = put_record_head(to, lane, header, &place, self.stamp, body_bytes)
        put_text(put_bytes(to, body, body_bytes), lane.prefix)
        return 0

    cdef Outcome crowd(self, Lane lane, Py_ssize_t count) noexcept:
        """Note which queue has no room for so many entries in memory."""
        self.crowded, self.wanted = lane.stored, count
        return CROWDED

    cdef bint extend(self, list acks) except -1:
        """Hand over what is packed, and have the queue make room; False where it refuses."""
        self.hand_over(acks)
        try:
            self.crowded.extend(self.wanted)
        except StoreError:  # whoever is declined asks again, and is told
            return False
        return True

    cdef int hand_over(self, list acks) except -1:
        """Give the log its records and the queues their ends."""
        cdef Lane lane
        if self.records.size:
            self.log.append_packed(self.records.take())
            for queue in self.used:
                lane = lane_of(queue)
                if lane.arrived_bytes:
                    lane.tell(queue)
                    if has_holds(queue):
                        self.tick.woken.append(queue)
            acks.append(self.acks.take())
        self.abandon()
        return 0

    cdef int abandon(self) except -1:
        """Forget what is packed and not handed over."""
        if self.noted is not None:
            self.noted.take_back(self.log.position)
        for queue in self.used:
            lane_of(queue).release()
        self.used.clear()
        self.records.drop()
        self.acks.drop()
        return 0


def refuse_run(
    bytes data not None, Py_ssize_t at, Py_ssize_t end, bytes before not None, bytes after not None
):
    """Answer the plain sends that stand at `at`, each by `before`, its opaque and `after`.

    Stops at the first frame that is none, or does not end within `end`. Returns where that is, the
    answers as frames, and how many they are.
    """
    cdef Bytes begin = <Bytes>PyBytes_AS_STRING(data), frame
    cdef SendHeader header
    cdef Py_ssize_t length, refused, frames = 0, next_at = at
    cdef Py_ssize_t each = PyBytes_GET_SIZE(before) + PyBytes_GET_SIZE(after)
    cdef uint32_t word
    cdef unsigned char* to
    cdef unsigned char* answer
    cdef Block answers = Block()
    if not 0 <= at <= end <= PyBytes_GET_SIZE(data):
        raise ValueError("outside of what was read")
    while (
        end - next_at >= FRAME_WORDS_BYTES
        and word_at(begin + next_at) <= end - next_at - FRAME_LENGTH_BYTES
    ):
        next_at += FRAME_LENGTH_BYTES + word_at(begin + next_at)
        frames += 1
    if not frames:
        return at, b"", 0
    each += FRAME_WORDS_BYTES + NUMBER_BYTES_MAX
    answers.has_room(0, frames * each)
    for refused in range(frames):
        frame = begin + at
        length, word = word_at(frame), word_at(frame + FRAME_LENGTH_BYTES)
        if word >= FRAME_HEADER_BYTES_MAX or length < FRAME_LENGTH_BYTES + <Py_ssize_t>word:
            frames = refused
            break
        frame += FRAME_WORDS_BYTES
        if not read_header(&header, frame, frame + word) or not has_flags(&header, 0):
            frames = refused
            break
        answer = answers.end()
        to = put_text(answer + FRAME_WORDS_BYTES, before)
        to = put_text(put_decimal(to, header.opaque), after)
        put32(put32(answer, to - answer - FRAME_LENGTH_BYTES), to - answer - FRAME_WORDS_BYTES)
        answers.size += to - answer
        at += FRAME_LENGTH_BYTES + length
    return at, answers.take(), frames


include "half_properties.pxi"
include "end_header.pxi"
include "half_runs.pxi"
