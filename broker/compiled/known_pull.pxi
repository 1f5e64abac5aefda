# A pull that is known, for repeated_pulls.pxi: what it wants, and where its queue's entries are.
#
# What its checks have found holds as long as the versions of topics, groups and members are the
# same objects, each of which any change replaces by another one.


@cython.final
cdef class Repeat:
    """A pull that is known: how it is read and answered, and what was done in this run."""

    cdef bytes key
    cdef object known  # what Python knows it by
    cdef tuple pieces  # of the reply's header, around its numbers
    cdef Py_ssize_t pieces_bytes
    cdef Run run  # its limits and tags
    cdef Py_ssize_t look_max
    cdef bint commits
    cdef object topics, groups, members  # the versions for which the checks were made
    cdef object stored  # the queue, None before the first check
    cdef object mapped  # weakly, a file of it, for maps are let go when they are many
    cdef int64_t mapped_base, mapped_end
    cdef str topic_and_group
    cdef tuple topic_group
    cdef object queue_id
    cdef Py_buffer entries
    cdef bint is_open
    cdef int64_t base, end, low, high, synced  # as the queue was when it was opened
    cdef int64_t committed, next_offset, pulls, messages, bytes

    cdef void release(self) noexcept:
        """Let the queue's memory go."""
        if self.is_open:
            PyBuffer_Release(&self.entries)
            self.is_open = False

    def __dealloc__(self):
        self.release()

    cdef int note_file(self, memory) except -1:
        """Take note of a file of the queue that is mapped, to find it again while it is."""
        if memory is not self.stored.buffer:
            self.mapped = ref(memory)
            self.mapped_base = self.base
            self.mapped_end = self.base + len(memory) // ENTRY_BYTES
        return 0

    cdef object memory(self, int64_t offset, bint writable):
        """Return the memory of the entries at an offset; None where it has to be found again."""
        stored = self.stored
        cdef int64_t tail_base = stored.base
        self.low, self.high = stored.min_offset, stored.max_offset
        self.synced = stored.flushed_offset if writable else self.high
        if offset >= tail_base:
            self.base, self.end = tail_base, self.high
            return stored.buffer
        if self.mapped is None or stored.lost:
            return None
        if not self.mapped_base <= offset < self.mapped_end:
            return None
        self.base, self.end = self.mapped_base, min(self.mapped_end, tail_base)
        return self.mapped()

    cdef int hold(self, memory) except -1:
        """Have the memory of entries that begin with `base`, until it is released."""
        PyObject_GetBuffer(memory, &self.entries, PyBUF_SIMPLE)
        self.is_open = True
        self.end = min(self.end, self.high, self.base + self.entries.len // ENTRY_BYTES)
        return 0
