// Sockets, clocks and the one way to end with an error.
#pragma once
#include <stddef.h>
#include <stdint.h>

// Prints "error: ..." and ends with status 1.
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

uint64_t now_ns(void);         // a clock that never goes back
uint64_t wall_ms(void);        // since 1970
double own_cpu_seconds(void);  // spent by this process so far
void pin_to_cpu(int cpu);      // nothing if cpu is negative
int connect_to(int port);      // to 127.0.0.1, blocking, without Nagle's delay
int listen_on(int *port);      // port 0 takes a free one and tells which
void make_nonblocking(int fd);
void write_all(int fd, const void *data, size_t length);
void read_all(int fd, void *data, size_t length);

static inline uint32_t read_u32(const char *at) {
    uint32_t value;
    __builtin_memcpy(&value, at, 4);
    return __builtin_bswap32(value);
}

static inline uint64_t read_u64(const char *at) {
    uint64_t value;
    __builtin_memcpy(&value, at, 8);
    return __builtin_bswap64(value);
}

static inline void put_u32(char *at, uint32_t value) {
    value = __builtin_bswap32(value);
    __builtin_memcpy(at, &value, 4);
}

static inline void put_u64(char *at, uint64_t value) {
    value = __builtin_bswap64(value);
    __builtin_memcpy(at, &value, 8);
}
