# Memory that is mapped from files: what of it is here, and copies that survive what is not.

cdef extern from "<sys/mman.h>" nogil:
    int mincore(void*, size_t, unsigned char*)

cdef extern from *:
    """
    #include <setjmp.h>
    #include <signal.h>
    #include <string.h>
    #include <sys/uio.h>
    #include <unistd.h>

    /* A page that the disk does not give is SIGBUS to who touches it, and the end of a process. So
       who copies says where to go on then; what others touch ends the process as before. */
    static __thread sigjmp_buf *volatile guard_of_thread;
    static struct sigaction bus_before;

    /* A handler that came to stand above this one, as Python's faulthandler, raises the signal
       again for this one; who copies raises none. */
    static int is_of_a_copy(siginfo_t *info) {
    #ifdef SI_TKILL
        if (info->si_code == SI_TKILL)
            return info->si_pid == getpid();
    #endif
        return info->si_code > 0;
    }

    static void on_bus(int number, siginfo_t *info, void *context) {
        struct sigaction before = bus_before;
        sigjmp_buf *guard = guard_of_thread;
        (void)context;
        if (guard != NULL && is_of_a_copy(info)) {
            guard_of_thread = NULL;
            siglongjmp(*guard, 1);
        }
        memset(&bus_before, 0, sizeof(bus_before));  /* the default, if it is handed back to here */
        sigaction(SIGBUS, &before, NULL);  /* the touch is tried again, and ends it */
        if (info->si_code <= 0)
            raise(number);
    }

    /* Stands above all others from now on. */
    static void watch_bus(void) {
        struct sigaction action;
        if (sigaction(SIGBUS, NULL, &action) == 0 && action.sa_flags & SA_SIGINFO
            && action.sa_sigaction == on_bus)
            return;
        memset(&action, 0, sizeof(action));
        action.sa_sigaction = on_bus;
        action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        sigaction(SIGBUS, &action, &bus_before);
    }

    /* Copies pieces of mapped memory one behind the other; returns how many bytes of whole pieces
       there were before one that the disk does not give. */
    static Py_ssize_t copy_parts(void *to, struct iovec *parts, int number) {
        sigjmp_buf here;
        volatile Py_ssize_t done = 0;
        volatile int at;
        if (sigsetjmp(here, 0))
            return done;
        guard_of_thread = &here;
        __asm__ volatile("" ::: "memory");
        for (at = 0; at < number; at++) {
            memcpy((char *)to + done, parts[at].iov_base, parts[at].iov_len);
            __asm__ volatile("" ::: "memory");
            done += (Py_ssize_t)parts[at].iov_len;
        }
        guard_of_thread = NULL;
        return done;
    }
    """
    struct iovec:
        void* iov_base
        size_t iov_len
    void watch_bus() nogil
    Py_ssize_t copy_parts(void*, iovec*, int) nogil

cdef extern from "<unistd.h>" nogil:
    long sysconf(int)
    int _SC_PAGESIZE

cdef uintptr_t PAGE_BYTES = sysconf(_SC_PAGESIZE)

cdef enum:
    PAGES = 64  # asked for at once

watch_bus()


cdef Py_ssize_t resident_bytes(Bytes at, Py_ssize_t count, Py_ssize_t room) noexcept nogil:
    """Return how many bytes from `at` on are in memory; `count` are wanted, `room` are mapped.

    It may be more than `count`: a few pages more are asked about. Where the system cannot tell, all
    are.
    """
    cdef unsigned char[PAGES] states
    cdef uintptr_t begin = <uintptr_t>at, page = begin & ~(PAGE_BYTES - 1)
    cdef uintptr_t end = begin + count, last = begin + room
    cdef Py_ssize_t pages, number
    while page < end:
        pages = min(<uintptr_t>PAGES, (last - page + PAGE_BYTES - 1) // PAGE_BYTES)
        if mincore(<void*>page, pages * PAGE_BYTES, states):
            return room
        for number in range(pages):
            if not states[number] & 1:
                page += number * PAGE_BYTES
                return 0 if page <= begin else page - begin
        page += pages * PAGE_BYTES
    return min(page - begin, <uintptr_t>room)
