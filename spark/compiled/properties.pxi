"""Properties found and taken apart: records/properties.py's loops over `name \x01 value \x02`."""

cdef enum:
    NAME_END = 1
    PIECE_END = 2
    NAMES_MAX = 64  # of one record that are compared with each other here
    NAME_BYTES = 4  # of those that are marked
    MARKED_MAX = 8
    WORD_BYTES = 8
    MOVED_BYTES = 32


cdef inline void move(
    uint8_t* to, const uint8_t* to_end, const uint8_t* at, const uint8_t* end, Py_ssize_t length
) noexcept nogil:
    """Copy some bytes; a few as one move of more, which what follows overwrites."""
    if length <= MOVED_BYTES and at + MOVED_BYTES <= end and to + MOVED_BYTES <= to_end:
        memcpy(to, at, MOVED_BYTES)
    else:
        memcpy(to, at, length)


def mark(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] lengths,
    bytes names,
    int64_t[:, ::1] marked,
):
    """Find the last value of some properties in each record's; False if one is not in the data.

    Each name has 4 bytes; `marked` gets two rows for each, where the values are and their
    lengths, -1 without one.
    """
    cdef const uint8_t* begin = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* piece
    cdef const uint8_t* piece_end
    cdef const uint8_t* end
    cdef const char* listed = names
    cdef uint32_t words[MARKED_MAX]
    cdef uint32_t word
    cdef Py_ssize_t row, which, count = len(names) // NAME_BYTES
    assert count <= MARKED_MAX and len(names) == count * NAME_BYTES, "names of 4 bytes"
    assert marked.shape[0] == 2 * count and marked.shape[1] == starts.shape[0], "rows for each"
    assert lengths.shape[0] == starts.shape[0], "an array for each column"
    memcpy(words, listed, len(names))
    for row in range(starts.shape[0]):
        for which in range(count):
            marked[2 * which, row] = 0
            marked[2 * which + 1, row] = -1
        if not within(data, starts[row], lengths[row]):
            return False
        piece = begin + starts[row]
        end = piece + lengths[row]
        while piece < end:
            piece_end = <const uint8_t*>memchr(piece, PIECE_END, end - piece)
            if piece_end == NULL:
                piece_end = end
            if piece_end - piece > NAME_BYTES + 1 and piece[NAME_BYTES] == NAME_END:
                memcpy(&word, piece, NAME_BYTES)
                for which in range(count):
                    if word == words[which]:
                        marked[2 * which, row] = piece + NAME_BYTES + 1 - begin
                        marked[2 * which + 1, row] = piece_end - piece - NAME_BYTES - 1
            piece = piece_end + 1
    return True


cdef struct Habit:
    # the names of the last record: the next one nearly always has the same, in the same order
    Py_ssize_t count
    Py_ssize_t length[NAMES_MAX]
    uint64_t word[NAMES_MAX]  # the first bytes of each
    uint64_t mask[NAMES_MAX]
    const uint8_t* rest[NAMES_MAX]  # those behind them


cdef inline bint is_habit(
    const Habit* habit, Py_ssize_t which, const uint8_t* piece, const uint8_t* end
) noexcept nogil:
    """Whether a piece begins with the name that is expected there, and the name's end."""
    cdef uint64_t word
    cdef Py_ssize_t length
    if which >= habit.count or end - piece < WORD_BYTES or end - piece <= habit.length[which]:
        return False
    memcpy(&word, piece, WORD_BYTES)
    length = habit.length[which]
    return (
        word & habit.mask[which] == habit.word[which]
        and piece[length] == NAME_END
        and (
            length <= WORD_BYTES
            or memcmp(piece + WORD_BYTES, habit.rest[which], length - WORD_BYTES) == 0
        )
    )


cdef inline void note_habit(
    Habit* habit, Py_ssize_t which, const uint8_t* name, Py_ssize_t length
) noexcept nogil:
    """Expect the name there in the next record; what was expected behind it is forgotten."""
    habit.length[which] = length
    habit.mask[which] = habit.word[which] = 0
    memset(&habit.mask[which], 0xFF, min(length, WORD_BYTES))
    memcpy(&habit.word[which], name, min(length, WORD_BYTES))
    habit.rest[which] = name + WORD_BYTES
    habit.count = which + 1


def take_apart(
    const uint8_t[::1] data,
    const int64_t[::1] starts,
    const int64_t[::1] lengths,
    int32_t[::1] first,
    int32_t[::1] name_offsets,
    uint8_t[::1] names,
    int32_t[::1] value_offsets,
    uint8_t[::1] values,
    int64_t[:, ::1] marked,
):
    """Copy names and values of all properties; return how many there are, -1 if it cannot be done.

    `first` gets the number of each record's first property, `marked` in its four rows where the
    values of TAGS and of KEYS are, each with its length, -1 without one. It cannot be done here
    where a record may hold a name twice, or has very many.
    """
    cdef const uint8_t* begin = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* data_end = begin + data.shape[0]
    cdef const uint8_t* piece
    cdef const uint8_t* piece_end
    cdef const uint8_t* name_end
    cdef const uint8_t* end
    cdef uint8_t* to
    cdef Py_ssize_t row, which, count = 0, name_bytes, other, other_bytes
    cdef int64_t names_at = 0, values_at = 0, value_bytes
    cdef bint usual
    cdef Habit habit
    assert first.shape[0] == starts.shape[0] + 1 and lengths.shape[0] == starts.shape[0]
    assert marked.shape[0] == 4 and marked.shape[1] == starts.shape[0], "an array for each column"
    habit.count = 0
    first[0] = name_offsets[0] = value_offsets[0] = 0
    for row in range(starts.shape[0]):
        marked[0, row] = marked[2, row] = 0
        marked[1, row] = marked[3, row] = -1
        if not within(data, starts[row], lengths[row]):
            return -1
        piece = begin + starts[row]
        end = piece + lengths[row]
        which = 0
        usual = True  # so far: its names differ, as the last record's do
        while piece < end:
            if is_habit(&habit, which, piece, end):
                name_end = piece + habit.length[which]
                piece_end = <const uint8_t*>memchr(name_end, PIECE_END, end - name_end)
                if piece_end == NULL:
                    piece_end = end
            else:
                usual = False
                piece_end = <const uint8_t*>memchr(piece, PIECE_END, end - piece)
                if piece_end == NULL:
                    piece_end = end
                name_end = <const uint8_t*>memchr(piece, NAME_END, piece_end - piece)
            if name_end != NULL and name_end > piece and name_end + 1 < piece_end:
                name_bytes = name_end - piece
                value_bytes = piece_end - name_end - 1
                if which >= NAMES_MAX or count + 1 >= name_offsets.shape[0]:
                    return -1
                if (
                    names_at + name_bytes > names.shape[0]
                    or values_at + value_bytes > values.shape[0]
                ):
                    return -1
                if not usual:
                    for other in range(first[row], count):
                        other_bytes = name_offsets[other + 1] - name_offsets[other]
                        if (
                            other_bytes == name_bytes
                            and memcmp(&names[name_offsets[other]], piece, name_bytes) == 0
                        ):
                            return -1
                to = &names[names_at]
                move(to, &names[0] + names.shape[0], piece, data_end, name_bytes)
                move(
                    &values[values_at], &values[0] + values.shape[0],
                    name_end + 1, data_end, value_bytes,
                )
                if not usual:
                    note_habit(&habit, which, to, name_bytes)
                if name_bytes == 4:
                    if memcmp(piece, <const char*>b"TAGS", 4) == 0:
                        marked[0, row] = name_end + 1 - begin
                        marked[1, row] = value_bytes
                    elif memcmp(piece, <const char*>b"KEYS", 4) == 0:
                        marked[2, row] = name_end + 1 - begin
                        marked[3, row] = value_bytes
                names_at += name_bytes
                values_at += value_bytes
                count += 1
                which += 1
                name_offsets[count] = <int32_t>names_at
                value_offsets[count] = <int32_t>values_at
            piece = piece_end + 1
        first[row + 1] = <int32_t>count
    return count
