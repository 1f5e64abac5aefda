"""Runs of hashes to entries: what features/index/slices.py does for each run."""


cdef struct KeyHash:
    uint32_t behind  # the begin of its run, in bytes of the log: where its record stands
    int32_t hash


cdef struct KeyRun:  # in front of its hashes
    int64_t begin  # the position of its first record
    int64_t end  # behind its last one
    int64_t stamp  # when they were stored, ms
    int64_t count


cdef enum:
    KEY_RUN_BYTES = 32
    KEY_HASH_BYTES = 8


cdef int take_runs(
    Table* table, const uint8_t* runs, Py_ssize_t* place, Py_ssize_t until, Py_ssize_t length,
    int64_t* position, int64_t* done, int64_t log_end,
) noexcept nogil:
    """Add the keys of the runs from `place` on, which is moved; return why no more."""
    cdef KeyRun run
    cdef KeyHash each
    cdef Group group
    cdef Waiting* key_of
    cdef const uint8_t* hashes
    cdef Py_ssize_t at = place[0]
    cdef int64_t which, here, before, number
    cdef int why = MORE
    group.count = 0
    while at < until:
        if length - at < KEY_RUN_BYTES:
            why = OTHER
            break
        memcpy(&run, runs + at, KEY_RUN_BYTES)
        hashes = runs + at + KEY_RUN_BYTES
        if not 0 <= run.count <= (length - at - KEY_RUN_BYTES) // KEY_HASH_BYTES:
            why = OTHER
            break
        if run.end > log_end:
            break
        if run.end > position[0]:
            if run.begin > position[0]:
                why = OTHER
                break
            before, number = -1, 0
            for which in range(run.count):
                memcpy(&each, hashes + which * KEY_HASH_BYTES, KEY_HASH_BYTES)
                here = run.begin + each.behind
                number = number + 1 if here == before else 0
                before = here
                if here < position[0] or (here == position[0] and number < done[0]):
                    continue
                if group.count == GROUP_KEYS and not put_group(table, &group, 0):
                    why = FULL
                    break
                key_of = &group.waiting[group.count]
                key_of.hash = each.hash
                key_of.slot = <uint32_t>each.hash % <uint32_t>table.count_slots
                prefetch(table.slots + SLOT_BYTES * <int64_t>key_of.slot)
                key_of.stamp = run.stamp
                key_of.which = number
                key_of.at = here
                group.count += 1
            if why == MORE and group.count and not put_group(table, &group, 0):
                why = FULL
            if why == FULL:
                position[0], done[0] = group.waiting[0].at, group.waiting[0].which
                break
            position[0], done[0] = run.end, 0
        at += KEY_RUN_BYTES + run.count * KEY_HASH_BYTES
    place[0] = at
    return why
