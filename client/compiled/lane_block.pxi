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
        """Return where to write so much; what was written stays where there is no more memory."""
        cdef PyObject* larger
        cdef Py_ssize_t room
        if self.memory == NULL:
            room = max(wanted, BLOCK_BYTES)
            self.memory = new_bytes(NULL, room)
            self.room = room
        elif self.room - self.size < wanted:
            room = max(4 * self.room, self.size + wanted)
            larger = new_bytes(NULL, room)
            memcpy(bytes_begin(larger), bytes_begin(self.memory), self.size)
            Py_XDECREF(self.memory)
            self.memory, self.room = larger, room
        return <unsigned char*>bytes_begin(self.memory) + self.size

    cdef bytes take(self):
        """Return what was written and begin anew."""
        cdef Py_ssize_t size = self.size
        if not size:
            return b""
        self.size = 0  # without memory it is gone, and nothing is written behind it
        resize_bytes(&self.memory, size)
        taken = <bytes><object>self.memory
        self.drop()
        return taken

    cdef void drop(self) noexcept:
        Py_XDECREF(self.memory)
        self.memory = NULL
        self.size = 0

    def __dealloc__(self):
        self.drop()
