# The check sum of a body, for compiled code that writes records or reads them. Who includes this
# has `isal_zlib`, `cython`, PyBuffer_FillInfo and the type Bytes.

cdef extern from *:
    """
    /* isal's module for Python has its library in it. The sum of a body is that library's, called
       where it is found and gives what everybody's does: an object for each message and a call by
       way of the interpreter cost as much as half of all else here. */
    #include <dlfcn.h>
    #include <stddef.h>
    #include <stdint.h>

    typedef uint32_t (*sum_function)(uint32_t, const unsigned char *, uint64_t);

    static sum_function sum_in_c = NULL;

    /* isal returns with the upper halves of the wide registers in use. On some CPUs an SSE
       instruction behind that waits 0.1 us and more, and compilers put some where they like, so
       they are cleared at once: with it a message of 128 bytes whose key is noted takes 0.65 us,
       without 0.95 (a Sapphire Rapids). */
    #if defined(__GNUC__) && defined(__x86_64__)
    static inline void clear_uppers(void) {
        if (__builtin_cpu_supports("avx"))  /* whoever keeps something in them is told */
            __asm__ volatile("vzeroupper" ::: "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
                             "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
                             "xmm13", "xmm14", "xmm15");
    }
    #else
    static inline void clear_uppers(void) {}
    #endif

    static void find_sum(const char *module) {
        void *loaded = dlopen(module, RTLD_LAZY | RTLD_NOLOAD);  /* and it stays */
        sum_function found = loaded == NULL ? NULL : (sum_function)dlsym(loaded, "crc32_gzip_refl");
        if (found != NULL && found(0, (const unsigned char *)"123456789", 9) == 0xCBF43926u)
            sum_in_c = found;
    }
    """
    uint32_t (*sum_in_c)(uint32_t, const unsigned char*, uint64_t) noexcept nogil
    void find_sum(const char*) noexcept nogil
    void clear_uppers() noexcept nogil


find_sum(isal_zlib.__file__.encode())


@cython.final
cdef class Window:
    """Bytes in the middle of others as an object, for the length of one call."""

    cdef Bytes begin
    cdef Py_ssize_t size

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*>self.begin, self.size, True, flags)


cdef Window window = Window()


cdef inline uint32_t check_sum(Bytes begin, Py_ssize_t size) except? 0:
    """Return the check sum of these bytes as a record has it."""
    cdef uint32_t found
    if sum_in_c != NULL:
        found = sum_in_c(0, begin, size)
        clear_uppers()
    else:
        window.begin, window.size = begin, size
        found = isal_zlib.crc32(window)
        window.begin, window.size = NULL, 0
    return found & 0x7FFF_FFFF
