// Preloaded into a server (LD_PRELOAD), counts the calls that make its files durable.
//
// SYNC_COUNTS names a file that every process of the server maps: one 64-bit count each of
// fsync, fdatasync, msync(MS_SYNC), syncs by Linux AIO, sync_file_range. Servers that do not call
// through the C library (Go) are not seen.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FSYNC, FDATASYNC, MSYNC, AIO, RANGE, KINDS };

static uint64_t nowhere[KINDS];
static uint64_t *counts = nowhere;

static void __attribute__((constructor)) open_counts(void) {
    const char *name = getenv("SYNC_COUNTS");
    int fd = name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || ftruncate(fd, sizeof nowhere)) return;
    void *mapped = mmap(NULL, sizeof nowhere, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) counts = mapped;
    close(fd);
}

static void count(int kind) { __atomic_fetch_add(&counts[kind], 1, __ATOMIC_RELAXED); }

// The function that would have been called without us.
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int fd) {
    count(FSYNC);
    return NEXT(fsync)(fd);
}

int fdatasync(int fd) {
    count(FDATASYNC);
    return NEXT(fdatasync)(fd);
}

int msync(void *at, size_t length, int flags) {
    if (flags & MS_SYNC) count(MSYNC);
    return NEXT(msync)(at, length, flags);
}

int sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags) {
    count(RANGE);
    return NEXT(sync_file_range)(fd, offset, length, flags);
}

static void count_aio(long blocks, struct iocb **list) {
    for (long at = 0; at < blocks; at++)
        if (list[at]->aio_lio_opcode == IOCB_CMD_FSYNC ||
            list[at]->aio_lio_opcode == IOCB_CMD_FDSYNC)
            count(AIO);
}

long syscall(long number, ...) {
    static long (*next)(long, ...);
    long word[6];
    va_list arguments;
    va_start(arguments, number);
    for (int at = 0; at < 6; at++) word[at] = va_arg(arguments, long);
    va_end(arguments);
    if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_io_submit) count_aio(word[1], (struct iocb **)word[2]);
    return next(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}
