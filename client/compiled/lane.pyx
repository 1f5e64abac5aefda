# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Single sends by compiled code: what sending/offers.py and rings.py do, for many.

`offers.py`, `rings.py` and `handles.py` say what happens and why; here is the same done to bytes.
A message or a reply that is not as usual is declined, with nothing done, and served there or by the
checked path, so this code may decline at will, but what it does must be what is done there, to the
byte (tests/property/test_compiled_lane.py).

No length that a broker has sent is used before it was compared with what is there, and nothing is
written before room for the most that it can take was made.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_XDECREF, PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from asyncio import InvalidStateError
from collections import deque
from inspect import iscoroutinefunction

from aerobee.client.errors import wrong_argument

cdef extern from "Python.h":
    bint is_compact_ascii "PyUnicode_IS_COMPACT_ASCII"(object)
    Py_ssize_t text_size "PyUnicode_GET_LENGTH"(object)
    unsigned char* ascii_of "PyUnicode_1BYTE_DATA"(object)

cdef enum:
    OWN_OPAQUES = 0x4000_0000  # and all above it: requests of lanes
    OPAQUE_BITS = 0x3FFF_FFFF
    FLUSH_BYTES = 65_536  # are written within a turn
    SAID_BYTES_MAX = 30_000  # of properties that are written here
    ACK_HEADER_BYTES_MAX = 4_096
    ID_BEGIN_BYTES = 28  # of an id, before its number
    ID_BYTES = 32
    HANDLE_BYTES = 128  # that a message which waits takes beside its body
    SLOTS = 4_096  # of a ring
    TEXT_BYTES_MAX = 256  # of a text that many replies share

include "layout.pxi"
include "lane_bytes.pxi"
include "lane_block.pxi"
include "lane_acks.pxi"
include "lane_handle.pxi"
include "lane_ring.pxi"
include "lane_sender.pxi"
