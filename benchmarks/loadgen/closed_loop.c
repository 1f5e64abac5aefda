#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "net.h"
#include "run.h"

enum { READ_BYTES_MIN = 4 << 20, EVENTS_MAX = 64, SILENCE_MS_MAX = 15000 };

typedef enum { WARMING, MEASURING, DRAINING } Phase;

typedef struct {
    int fd;
    int open;         // requests without an answer
    uint32_t events;  // that epoll watches
    char *in, *out;
    size_t in_length, out_length, out_done;
} Connection;

typedef struct {
    const Options *options;
    Protocol *protocol;
    Result *result;
    Connection *connections;
    int epoll;
    size_t in_bytes, out_bytes;
    Phase phase;
    uint64_t began_ns, end_ns;  // of measuring
    uint64_t asked, open;
    double cpu_before_s;
} Loop;

void mark(const Options *options, const char *what) {
    char line[64];
    if (!options->marks) return;
    printf("%s\n", what);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) die("nobody reads the marks");
}

static void watch(Loop *loop, Connection *connection, uint32_t events) {
    if (connection->events == events) return;
    struct epoll_event event = {.events = events, .data.ptr = connection};
    int what = connection->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(loop->epoll, what, connection->fd, &event)) die("epoll: %s", strerror(errno));
    connection->events = events;
}

static void flush_out(Loop *loop, Connection *connection) {
    while (connection->out_done < connection->out_length) {
        ssize_t written = write(connection->fd, connection->out + connection->out_done,
                                connection->out_length - connection->out_done);
        if (written < 0 && errno == EAGAIN) {
            watch(loop, connection, EPOLLIN | EPOLLOUT);
            return;
        }
        if (written < 0) die("the server takes no more: %s", strerror(errno));
        connection->out_done += (size_t)written;
    }
    connection->out_length = connection->out_done = 0;
    watch(loop, connection, EPOLLIN);
}

// Fills the connection up with requests and writes them with one call.
static void ask(Loop *loop, Connection *connection, uint64_t time_ns) {
    const Options *options = loop->options;
    Protocol *protocol = loop->protocol;
    if (connection->out_done) {
        connection->out_length -= connection->out_done;
        memmove(connection->out, connection->out + connection->out_done, connection->out_length);
        connection->out_done = 0;
    }
    while (loop->phase != DRAINING && connection->open < options->outstanding) {
        if (options->requests_max && loop->asked == options->requests_max) break;
        if (connection->out_length + protocol->request_bytes_max > loop->out_bytes) break;
        Asked *asked = ledger_ask(&loop->result->ledger);
        asked->sent_ns = time_ns;
        asked->connection = (uint32_t)(connection - loop->connections);
        connection->out_length +=
            protocol->ask(protocol->state, connection->out + connection->out_length, asked);
        connection->open++;
        loop->open++;
        loop->asked++;
    }
    flush_out(loop, connection);
}

static void take_answers(Loop *loop, Connection *connection, uint64_t time_ns) {
    Protocol *protocol = loop->protocol;
    Result *result = loop->result;
    uint32_t index = (uint32_t)(connection - loop->connections);
    size_t at = 0;
    for (;;) {
        Asked *asked = NULL;
        uint32_t messages = 0;
        size_t length =
            protocol->take(protocol->state, connection->in + at, connection->in_length - at, index,
                           &result->ledger, &asked, &messages);
        if (!length) break;
        at += length;
        // After an answer that belongs to nothing, a request stays open for ever.
        if (!asked || result->ledger.errors > 100) die("%s", result->ledger.first_error);
        connection->open--;
        loop->open--;
        if (loop->phase != MEASURING) continue;
        result->answers++;
        result->messages += messages;
        result->bytes_in += length;
        if (asked->sent_ns >= loop->began_ns)
            histogram_add(&result->latencies, time_ns - asked->sent_ns);
    }
    connection->in_length -= at;
    memmove(connection->in, connection->in + at, connection->in_length);
}

static void read_in(Loop *loop, Connection *connection) {
    if (connection->in_length == loop->in_bytes)
        die("a reply is larger than %zu bytes", loop->in_bytes);
    ssize_t got = read(connection->fd, connection->in + connection->in_length,
                       loop->in_bytes - connection->in_length);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0)
        die("the server closed the connection%s%s", got ? ": " : "", got ? strerror(errno) : "");
    connection->in_length += (size_t)got;
    uint64_t time_ns = now_ns();
    take_answers(loop, connection, time_ns);
    ask(loop, connection, time_ns);
}

static void begin_measuring(Loop *loop) {
    mark(loop->options, "begin");
    loop->phase = MEASURING;
    loop->cpu_before_s = own_cpu_seconds();
    loop->began_ns = now_ns();
}

static void end_measuring(Loop *loop) {
    loop->result->seconds = (double)(now_ns() - loop->began_ns) / 1e9;
    loop->result->generator_cpu_s = own_cpu_seconds() - loop->cpu_before_s;
    mark(loop->options, "end");
    loop->phase = DRAINING;
}

// Warming and measuring end by the clock; measuring also when the last request is answered.
static void advance(Loop *loop, uint64_t started_ns) {
    const Options *options = loop->options;
    uint64_t warm_ns = (uint64_t)(options->warmup_s * 1e9),
             measured_ns = (uint64_t)(options->seconds * 1e9);
    bool all = options->requests_max && loop->asked == options->requests_max && !loop->open;
    if (loop->phase == WARMING && now_ns() - started_ns >= warm_ns) begin_measuring(loop);
    if (loop->phase == MEASURING && (all || now_ns() - loop->began_ns >= measured_ns))
        end_measuring(loop);
}

static void open_connections(Loop *loop) {
    const Options *options = loop->options;
    for (int index = 0; index < options->connections; index++) {
        Connection *connection = &loop->connections[index];
        connection->fd = connect_to(options->port);
        make_nonblocking(connection->fd);
        connection->in = malloc(loop->in_bytes);
        connection->out = malloc(loop->out_bytes);
        if (!connection->in || !connection->out) die("out of memory");
    }
}

static void serve(Loop *loop) {
    struct epoll_event events[EVENTS_MAX];
    uint64_t started_ns = now_ns();
    advance(loop, started_ns);
    for (int index = 0; index < loop->options->connections; index++)
        ask(loop, &loop->connections[index], now_ns());
    while (loop->phase != DRAINING || loop->open) {
        int count = epoll_wait(loop->epoll, events, EVENTS_MAX, SILENCE_MS_MAX);
        if (!count) die("no answer for %d ms, %lu requests are open", SILENCE_MS_MAX, loop->open);
        for (int index = 0; index < count; index++) {
            Connection *connection = events[index].data.ptr;
            if (events[index].events & EPOLLOUT) flush_out(loop, connection);
            if (events[index].events & ~(uint32_t)EPOLLOUT) read_in(loop, connection);
        }
        advance(loop, started_ns);
    }
}

void run_closed_loop(const Options *options, Protocol *protocol, Result *result) {
    size_t window = protocol->request_bytes_max * (size_t)options->outstanding;
    Loop loop = {.options = options,
                 .protocol = protocol,
                 .result = result,
                 .connections = calloc((size_t)options->connections, sizeof(Connection)),
                 .epoll = epoll_create1(EPOLL_CLOEXEC),
                 .in_bytes = READ_BYTES_MIN,
                 .out_bytes = window + protocol->request_bytes_max};
    if (!loop.connections || loop.epoll < 0) die("out of memory");
    open_connections(&loop);
    serve(&loop);
    ledger_check_dense(&result->ledger);
    if (protocol->settle && !result->ledger.errors)
        protocol->settle(protocol->state, &result->ledger);
    for (int index = 0; index < options->connections; index++) {
        close(loop.connections[index].fd);
        free(loop.connections[index].in);
        free(loop.connections[index].out);
    }
    free(loop.connections);
    close(loop.epoll);
}
