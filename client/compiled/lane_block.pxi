# Frames that are written one behind the other and leave as bytes, for lane.pyx.

cdef extern from "Python.h":
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char*, Py_ssize_t) except NULL
    char* bytes_begin "PyBytes_AS_STRING"(PyObject*)
    int resize_bytes "_PyBytes_Resize"(PyObject**, Py_ssize_t) except -1

cdef enum:
    BLOCK_BYTES = 8_192  # of a block at first: a few small frames


@cython.final
cdef class Block:
    """Memory that grows at its end and leaves as a bytes object."""

    cdef PyObject* memory
    cdef Py_ssize_t size, room

    cdef unsigned char* end_with_room(self, Py_ssize_t wanted) except NULL:
        """Return where to write so much."""
        if self.memory == NULL:
            self.room = max(wanted, BLOCK_BYTES)
            self.memory = new_bytes(NULL, self.room)
        elif self.room - self.size < wanted:
            self.room = max(4 * self.room, self.size + wanted)
            resize_bytes(&self.memory, self.room)
        return <unsigned char*>bytes_begin(self.memory) + self.size

    cdef bytes take(self):
        """Return what was written and begin anew."""
        if not self.size:
            return b""
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
