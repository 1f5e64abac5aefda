# Memory for the large tables of plain_sends.pyx.

cdef extern from *:
    """
    #include <stdlib.h>
    #ifdef __linux__
    #include <sys/mman.h>
    #endif

    #define HUGE_BYTES (2u << 20)

    /* Zeros that are there when they are touched, in huge pages where the kernel has them: the
       cells are all over the place, and a page that is touched for the first time costs some us. */
    static void *zeros(size_t size) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            return NULL;
        if (size >= 2 * HUGE_BYTES)
            (void)madvise(at, size, MADV_HUGEPAGE);
        return at;
    #else
        return calloc(1, size);
    #endif
    }

    static void give_back(void *at, size_t size) {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (at != NULL)
            (void)munmap(at, size);
    #else
        (void)size;
        free(at);
    #endif
    }
    """
    void* zeros(size_t) nogil
    void give_back(void*, size_t) nogil
