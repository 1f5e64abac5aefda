#define _GNU_SOURCE
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void die(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
uint64_t wall_ms(void) { return clock_ns(CLOCK_REALTIME) / 1000000u; }
double own_cpu_seconds(void) { return (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9; }

void pin_to_cpu(int cpu) {
    if (cpu < 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        die("cannot run on CPU %d: %s", cpu, strerror(errno));
}

static struct sockaddr_in local(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

int connect_to(int port) {
    struct sockaddr_in address = local(port);
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        die("cannot connect to 127.0.0.1:%d: %s", port, strerror(errno));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

int listen_on(int *port) {
    struct sockaddr_in address = local(*port);
    socklen_t length = sizeof address;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 1024))
        die("cannot listen on 127.0.0.1:%d: %s", *port, strerror(errno));
    getsockname(fd, (struct sockaddr *)&address, &length);
    *port = ntohs(address.sin_port);
    return fd;
}

void make_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

void write_all(int fd, const void *data, size_t length) {
    const char *at = data;
    while (length) {
        ssize_t written = write(fd, at, length);
        if (written <= 0) die("the server takes no more: %s", strerror(errno));
        at += written;
        length -= (size_t)written;
    }
}

void read_all(int fd, void *data, size_t length) {
    char *at = data;
    while (length) {
        ssize_t got = read(fd, at, length);
        if (got == 0) die("the server closed the connection");
        if (got < 0) die("cannot read from the server: %s", strerror(errno));
        at += got;
        length -= (size_t)got;
    }
}
