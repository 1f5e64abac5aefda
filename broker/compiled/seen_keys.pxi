# Which unique keys came within the windows of their topics, for plain_sends.pyx.
#
# `features/dedup/seen_keys.py` says what is done, and is what this is held against
# (tests/property/test_seen_keys.py). Here it is done over C structs. An entry stays where it is
# until it is dropped; it is in two lists in the order of the log, that of all and that of its
# topic, and found by `cells`: open addressing, each cell with 32 bits of the hash and the entry's
# number, at most half of them full. The hash has a seed of this process, so that nobody can choose
# keys that collide; entries are told apart by the whole key.

cdef extern from *:
    """
    #include <stdint.h>

    /* Eight capital hexadecimal digits in the low 32 bits; more than that for any other text. */
    static inline uint64_t eight_digits(const unsigned char *at) {
        uint64_t text, letters, digits, ones = 0x0101010101010101u;
        memcpy(&text, at, sizeof text);
        text = high_first_64(text);
        letters = text >> 6 & ones;
        digits = (text & 15 * ones) + 9 * letters;
        if ((text & 0xF0 * ones) != (3 * ones + letters) << 4 || (digits & 16 * ones) ||
            ((digits + 6 * ones) >> 4 & ones) != letters)
            return ~(uint64_t)0;
        digits = (digits | digits >> 4) & 0x00FF00FF00FF00FFu;
        digits = (digits | digits >> 8) & 0x0000FFFF0000FFFFu;
        return (digits | digits >> 16) & 0xFFFFFFFFu;
    }

    static inline void fetch_soon(const void *at) {
    #ifdef __GNUC__
        __builtin_prefetch(at);
    #else
        (void)at;
    #endif
    }

    static inline uint64_t mixed(uint64_t one, uint64_t other) {
    #ifdef __SIZEOF_INT128__
        unsigned __int128 product = (unsigned __int128)one * other;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    #else
        uint64_t low = one * other, high = (one >> 32) * (other >> 32);
        high ^= ((one & 0xFFFFFFFFu) * (other >> 32)) ^ ((one >> 32) * (other & 0xFFFFFFFFu));
        return low ^ high ^ (low >> 29);
    #endif
    }
    """
    uint64_t mixed(uint64_t, uint64_t) nogil
    void fetch_soon(const void*) nogil
    uint64_t eight_digits(const unsigned char*) nogil

cdef extern from "<stdlib.h>" nogil:
    void* realloc(void*, size_t)
    void free(void*)

cdef enum:
    KEY_BYTES = 16
    KEY_DIGITS = 32
    SEEN_ENTRIES_MAX = 1 << 28
    SEEN_ROW_BYTES = KEY_BYTES + 2 * sizeof(int64_t) + sizeof(uint32_t)  # of the snapshot
    LEFT_EACH_TIME = 2  # entries of a topic that go when one comes, if their time is over

cdef struct Seen:
    uint64_t first, second  # halves of the key
    int64_t position
    int64_t seen_ms
    uint32_t topic  # 0: nothing is here
    uint32_t older, newer  # among all; `newer` of one that is free is the next free one
    uint32_t topic_older, topic_newer
    uint32_t mark  # of the hash; fills the 56 bytes

cdef struct SeenKey:
    uint64_t first, second
    uint32_t topic, mark


cdef struct SeenTopic:
    int64_t window_ms
    int64_t evicted_ms
    uint32_t oldest, newest
    uint32_t count


cdef inline uint64_t long_at(Bytes at) noexcept nogil:
    return <uint64_t>word_at(at) << 32 | word_at(at + 4)


cdef inline bint read_key(Bytes at, Py_ssize_t size, SeenKey* key) noexcept nogil:
    """Read a unique key of 32 capital hexadecimal digits; False for any other text."""
    cdef uint64_t one, two, three, four
    if size != KEY_DIGITS:
        return False
    one, two = eight_digits(at), eight_digits(at + 8)
    three, four = eight_digits(at + 16), eight_digits(at + 24)
    if (one | two | three | four) >> 32:
        return False
    key.first, key.second = one << 32 | two, three << 32 | four
    return True


@cython.final
cdef class SeenKeys:
    """Unique keys of topics with the positions of their messages, the newest `entries_max`."""

    cdef Seen* entries
    cdef uint64_t* cells
    cdef SeenTopic* topics
    cdef uint64_t mask
    cdef uint64_t[2] seed
    cdef readonly int64_t entries_max, evicted
    cdef readonly int64_t clock_ms, put_count
    cdef uint32_t topics_count, topics_room
    cdef readonly uint32_t count
    cdef uint32_t oldest, newest, free_one, used, cursor

    def __cinit__(self, int64_t entries_max):
        cdef uint64_t cells = 4
        if not 0 < entries_max <= SEEN_ENTRIES_MAX:
            raise ValueError(f"{entries_max} entries, allowed: 1 to {SEEN_ENTRIES_MAX}")
        while cells < <uint64_t>(2 * entries_max):
            cells *= 2
        self.entries_max, self.mask = entries_max, cells - 1
        self.entries = <Seen*>zeros((entries_max + 1) * sizeof(Seen))
        self.cells = <uint64_t*>zeros(cells * sizeof(uint64_t))
        if self.entries == NULL or self.cells == NULL:
            raise MemoryError(f"no memory for {entries_max} unique keys")
        self.seed[0] = int.from_bytes(urandom(8), "big")
        self.seed[1] = int.from_bytes(urandom(8), "big")

    def __dealloc__(self):
        give_back(self.entries, (self.entries_max + 1) * sizeof(Seen))
        give_back(self.cells, (self.mask + 1) * sizeof(uint64_t))
        free(self.topics)

    def add_topic(self, int64_t window_ms):
        """Return the number of one more topic."""
        cdef uint32_t room
        cdef SeenTopic* topics
        if self.topics_count + 1 >= self.topics_room:
            room = max(16, 2 * self.topics_room)
            topics = <SeenTopic*>realloc(self.topics, room * sizeof(SeenTopic))
            if topics == NULL:
                raise MemoryError("no memory for one more topic")
            memset(topics + self.topics_room, 0, (room - self.topics_room) * sizeof(SeenTopic))
            self.topics, self.topics_room = topics, room
        self.topics_count += 1
        self.topics[self.topics_count].window_ms = window_ms
        self.topics[self.topics_count].evicted_ms = -1
        return self.topics_count

    def set_window(self, int64_t topic, int64_t window_ms):
        """Let a topic's keys be known for so long (ms) from now on; negative: not at all."""
        self.topic_at(topic).window_ms = window_ms

    def find(self, int64_t topic, bytes key not None, int64_t now_ms):
        """Return the position of the message that has a key, -1 where none had it in time."""
        cdef uint32_t number
        cdef SeenKey asked
        self.read(&asked, topic, key)
        self.see(now_ms)
        number = self.number_of(&asked)
        return self.entries[number].position if number and self.is_fresh(number) else -1

    def put(self, int64_t topic, bytes key not None, int64_t position, int64_t now_ms):
        """Note the key of a message; `position` lies behind all others."""
        cdef SeenKey noted
        self.read(&noted, topic, key)
        self.see(now_ms)
        self.add(&noted, self.number_of(&noted), position, self.clock_ms)

    def forget(self, int64_t topic, bytes key not None):
        """Drop a key."""
        cdef uint32_t number
        cdef SeenKey asked
        self.read(&asked, topic, key)
        number = self.number_of(&asked)
        if number:
            self.drop(number)

    def take_back(self, int64_t position):
        """Drop all keys of messages from a position on."""
        while self.newest and self.entries[self.newest].position >= position:
            self.drop(self.newest)

    def expire(self, int64_t topic, int64_t now_ms, Py_ssize_t count_max):
        """Drop up to so many keys of a topic whose time is over; return how many went."""
        cdef SeenTopic* of = self.topic_at(topic)
        cdef Py_ssize_t gone = 0
        self.see(now_ms)
        while gone < count_max and of.oldest and not self.is_fresh(of.oldest):
            self.drop(of.oldest)
            gone += 1
        return gone

    def trim(self, int64_t begin, Py_ssize_t count_max):
        """Drop up to so many keys of messages before a position; return how many went."""
        cdef Py_ssize_t gone = 0
        while gone < count_max and self.oldest and self.entries[self.oldest].position < begin:
            self.drop(self.oldest)
            gone += 1
        return gone

    def state(self, int64_t topic):
        """Return of a topic how many keys it has, when (ms) its oldest came, and the last that
        went before its time; -1 for none."""
        cdef SeenTopic* of = self.topic_at(topic)
        oldest_ms = self.entries[of.oldest].seen_ms if of.oldest else -1
        return of.count, oldest_ms, of.evicted_ms

    def rewind(self):
        """Let `rows` begin with the oldest key."""
        self.cursor = self.oldest

    def rows(self, Py_ssize_t count_max):
        """Return up to so many keys more as the snapshot has them, b"" behind the last one."""
        cdef Block block = Block()
        cdef unsigned char* to
        cdef Seen* each
        if not self.cursor or count_max <= 0:
            return b""
        block.has_room(0, count_max * SEEN_ROW_BYTES)
        while self.cursor and count_max > 0:
            each = &self.entries[self.cursor]
            to = put64(put64(block.end(), each.first), each.second)
            put32(put64(put64(to, each.position), each.seen_ms), each.topic)
            block.size += SEEN_ROW_BYTES
            self.cursor = each.newer
            count_max -= 1
        return block.take()

    def load(self, bytes rows not None, Py_ssize_t begin, Py_ssize_t end, topics):
        """Take rows from one byte to another; `topics` has the numbers here by those there."""
        cdef Bytes at = <Bytes>PyBytes_AS_STRING(rows) + begin
        cdef Bytes behind = <Bytes>PyBytes_AS_STRING(rows) + end
        cdef uint32_t there, last_there = 0
        cdef SeenKey key
        cdef int64_t here = 0, seen_ms
        if not 0 <= begin <= end <= PyBytes_GET_SIZE(rows) or (end - begin) % SEEN_ROW_BYTES:
            raise ValueError("outside of the rows")
        while at < behind:
            there = word_at(at + SEEN_ROW_BYTES - sizeof(uint32_t))
            if there != last_there:
                last_there, here = there, topics.get(there, 0)
                if here:
                    self.topic_at(here)
            if here:
                seen_ms = <int64_t>long_at(at + 24)
                self.see(seen_ms)
                key.topic, key.first, key.second = here, long_at(at), long_at(at + 8)
                self.mark(&key)
                self.add(&key, self.number_of(&key), <int64_t>long_at(at + 16), seen_ms)
            at += SEEN_ROW_BYTES

    cdef SeenTopic* topic_at(self, int64_t topic) except NULL:
        if not 0 < topic <= self.topics_count:
            raise ValueError(f"no topic has the number {topic}")
        return &self.topics[topic]

    cdef uint64_t half(self, bytes key, int at) except? 0:
        if PyBytes_GET_SIZE(key) != KEY_BYTES:
            raise ValueError("a key has 16 bytes")
        return long_at(<Bytes>PyBytes_AS_STRING(key) + at)

    cdef inline void see(self, int64_t now_ms) noexcept nogil:
        """Move the clock on, which never goes back."""
        if now_ms > self.clock_ms:
            self.clock_ms = now_ms

    cdef inline void mark(self, SeenKey* key) noexcept nogil:
        """Work out the hash of a key."""
        cdef uint64_t half = mixed(key.first ^ self.seed[0], key.second ^ self.seed[1])
        key.mark = <uint32_t>mixed(half ^ key.topic, self.seed[1] | 1)
        fetch_soon(&self.cells[key.mark & self.mask])

    cdef int read(self, SeenKey* to, int64_t topic, bytes key) except -1:
        """Take what Python gives for a key."""
        self.topic_at(topic)
        to.topic, to.first, to.second = topic, self.half(key, 0), self.half(key, 8)
        self.mark(to)
        return 0

    cdef inline void fetch_cell(self, uint32_t number) noexcept nogil:
        """Have the cell fetched of the entry that goes next, which may be far away."""
        fetch_soon(&self.cells[self.entries[number].mark & self.mask])

    cdef inline bint is_fresh(self, uint32_t number) noexcept nogil:
        """Say whether a key is known: its window has not passed."""
        cdef Seen* each = &self.entries[number]
        return self.clock_ms - each.seen_ms <= self.topics[each.topic].window_ms

    cdef inline uint32_t number_of(self, SeenKey* key) noexcept nogil:
        """Return where a key is, 0 where it is not."""
        cdef uint64_t at = key.mark & self.mask, cell
        cdef Seen* each
        while True:
            cell = self.cells[at]
            if not cell:
                return 0
            if cell >> 32 == key.mark:
                each = &self.entries[<uint32_t>cell]
                if (
                    each.first == key.first
                    and each.second == key.second
                    and each.topic == key.topic
                ):
                    return <uint32_t>cell
            at = (at + 1) & self.mask

    cdef void add(
        self, SeenKey* key, uint32_t number, int64_t position, int64_t seen_ms
    ) noexcept nogil:
        """Note a key behind all others; `number` is where it is, which goes, or 0."""
        cdef SeenTopic* of = &self.topics[key.topic]
        cdef uint32_t left = LEFT_EACH_TIME
        cdef uint64_t at = key.mark & self.mask
        cdef Seen* each
        if number:
            self.drop(number)
        while left and of.oldest and not self.is_fresh(of.oldest):
            self.drop(of.oldest)
            left -= 1
            self.fetch_cell(of.oldest)
        if self.count == self.entries_max:
            each = &self.entries[self.oldest]
            if self.is_fresh(self.oldest):
                self.topics[each.topic].evicted_ms = each.seen_ms
                self.evicted += 1
            self.drop(self.oldest)
            self.fetch_cell(self.oldest)
        number = self.free_one
        if number:
            self.free_one = self.entries[number].newer
        else:
            self.used += 1
            number = self.used
        each = &self.entries[number]
        each.first, each.second, each.topic = key.first, key.second, key.topic
        each.mark = key.mark
        each.position, each.seen_ms = position, seen_ms
        each.older, each.newer = self.newest, 0
        each.topic_older, each.topic_newer = of.newest, 0
        if self.newest:
            self.entries[self.newest].newer = number
        else:
            self.oldest = number
        if of.newest:
            self.entries[of.newest].topic_newer = number
        else:
            of.oldest = number
        self.newest = of.newest = number
        self.count += 1
        of.count += 1
        self.put_count += 1
        while self.cells[at]:
            at = (at + 1) & self.mask
        self.cells[at] = <uint64_t>key.mark << 32 | number

    cdef void drop(self, uint32_t number) noexcept nogil:
        """Let an entry go."""
        cdef Seen* each = &self.entries[number]
        cdef SeenTopic* of = &self.topics[each.topic]
        self.drop_cell(number)
        if each.older:
            self.entries[each.older].newer = each.newer
        else:
            self.oldest = each.newer
        if each.newer:
            self.entries[each.newer].older = each.older
        else:
            self.newest = each.older
        if each.topic_older:
            self.entries[each.topic_older].topic_newer = each.topic_newer
        else:
            of.oldest = each.topic_newer
        if each.topic_newer:
            self.entries[each.topic_newer].topic_older = each.topic_older
        else:
            of.newest = each.topic_older
        if self.cursor == number:
            self.cursor = each.newer
        self.count -= 1
        of.count -= 1
        each.topic, each.newer = 0, self.free_one
        self.free_one = number

    cdef void drop_cell(self, uint32_t number) noexcept nogil:
        """Empty an entry's cell; those behind it move up, where that is nearer to their place."""
        cdef uint64_t hole, home, at = self.entries[number].mark & self.mask
        while <uint32_t>self.cells[at] != number:
            at = (at + 1) & self.mask
        hole = at
        while True:
            at = (at + 1) & self.mask
            if not self.cells[at]:
                break
            home = (self.cells[at] >> 32) & self.mask
            if ((at - home) & self.mask) >= ((at - hole) & self.mask):
                self.cells[hole] = self.cells[at]
                hole = at
        self.cells[hole] = 0
