# Memory that is written from its front to its end, and leaves as bytes.

cdef extern from "Python.h":
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char*, Py_ssize_t) except NULL
    char* bytes_begin "PyBytes_AS_STRING"(PyObject*)
    int resize_bytes "_PyBytes_Resize"(PyObject**, Py_ssize_t) except -1


@cython.final
cdef class Block:
    """Memory that grows at its end and leaves as a bytes object."""

    cdef PyObject* memory
    cdef Py_ssize_t size, room

    cdef bint has_room(self, Py_ssize_t wanted, Py_ssize_t first_room) except -1:
        """Say whether so much fits; a new block gets `first_room`, which is enough."""
        if self.memory == NULL:
            self.memory = new_bytes(NULL, first_room)
            self.room = first_room
        return self.room - self.size >= wanted

    cdef int make_room(self, Py_ssize_t wanted, Py_ssize_t first_room) except -1:
        """Have room for so much; a block that has too little grows."""
        if not self.has_room(wanted, first_room):
            self.room = max(2 * self.room, self.size + wanted)
            resize_bytes(&self.memory, self.room)
        return 0

    cdef inline unsigned char* end(self) noexcept:
        return <unsigned char*>bytes_begin(self.memory) + self.size

    cdef bytes take(self):
        """Return what was written and begin anew."""
        resize_bytes(&self.memory, self.size)
        taken = <bytes><object>self.memory
        self.drop()
        return taken

    cdef void drop(self) noexcept:
        Py_XDECREF(self.memory)
        self.memory = NULL
        self.size = 0

    def __dealloc__(self):
        self.drop()
