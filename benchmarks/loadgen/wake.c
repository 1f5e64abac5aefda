// How long a message takes from its producer's write to a consumer whose pull is held.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "frames.h"
#include "net.h"
#include "run.h"

enum { REPLY_BYTES_MAX = 4 << 20, SETTLE_US = 1000 };

typedef struct {
    int fd;
    char *buffer;
} Peer;

static Peer connect_peer(int port) {
    Peer peer = {.fd = connect_to(port), .buffer = malloc(REPLY_BYTES_MAX)};
    struct timeval limit = {.tv_sec = 20};
    setsockopt(peer.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (!peer.buffer) die("out of memory");
    return peer;
}

static Frame receive(Peer *peer) {
    read_all(peer->fd, peer->buffer, 8);
    size_t length = (size_t)read_u32(peer->buffer) + 4;
    if (length < 8 || length > REPLY_BYTES_MAX) die("a frame of %zu bytes came", length);
    read_all(peer->fd, peer->buffer + 8, length - 8);
    Frame frame;
    next_frame(peer->buffer, length, &frame);
    return frame;
}

static void expect(const Frame *frame, uint64_t number, const char *what) {
    Reply reply = read_reply(frame);
    if (reply.number != number || reply.code)
        die("%s was answered by %.*s", what, (int)frame->header_length, frame->header);
}

// One message: hold a pull, let the broker come to rest, send, wait for both replies.
static uint64_t wake_once(const Options *options, Peer *producer, Peer *consumer,
                          const Template *send, const Template *pull, char *out, uint64_t number,
                          uint64_t offset, Ledger *ledger) {
    char born[14];
    write_all(consumer->fd, out, write_pull(pull, out, number, offset));
    usleep(SETTLE_US);
    snprintf(born, sizeof born, "%013lu", wall_ms());
    size_t length = write_send(send, out, number, born);
    uint64_t sent_ns = now_ns();
    write_all(producer->fd, out, length);
    Frame frame = receive(consumer);
    uint64_t taken_ns = now_ns() - sent_ns;
    expect(&frame, number, "the held pull");
    const char *wrong = check_records(&frame, offset, 1, 0, (size_t)options->body_bytes);
    if (wrong) ledger_error(ledger, "offset %lu: %s", offset, wrong);
    frame = receive(producer);
    expect(&frame, number, "the message");
    if (read_reply(&frame).offset != (int64_t)offset)
        ledger_error(ledger, "not stored at offset %lu", offset);
    return taken_ns;
}

void run_wake(const Options *given, Result *result) {
    Options options = *given;
    options.batch = 32;
    Peer producer = connect_peer(options.port), consumer = connect_peer(options.port);
    Template send = send_template(&options, options.topic, 0),
             pull = pull_template(&options, options.topic, 0, true);
    char *out = malloc(send.length + pull.length + 64);
    if (!out) die("out of memory");
    write_all(producer.fd, out, write_max_offset(out, options.topic, 0, 0));
    Frame frame = receive(&producer);
    Reply reply = read_reply(&frame);
    if (reply.code || reply.offset < 0) die("no end: %.*s", (int)frame.header_length, frame.header);
    uint64_t offset = (uint64_t)reply.offset, started_ns = now_ns(), began_ns = 0, number = 0;
    bool measuring = false;
    double cpu_s = 0;
    for (;;) {
        uint64_t time_ns = now_ns();
        if (!measuring && time_ns - started_ns >= (uint64_t)(options.warmup_s * 1e9)) {
            mark(&options, "begin");
            measuring = true;
            cpu_s = own_cpu_seconds();
            began_ns = now_ns();
        }
        bool all = options.requests_max && number == options.requests_max;
        if (measuring && (all || now_ns() - began_ns >= (uint64_t)(options.seconds * 1e9))) break;
        number++;
        uint64_t taken_ns = wake_once(&options, &producer, &consumer, &send, &pull, out, number,
                                      offset++, &result->ledger);
        if (!measuring) continue;
        histogram_add(&result->latencies, taken_ns);
        result->answers++;
        result->messages++;
    }
    result->seconds = (double)(now_ns() - began_ns) / 1e9;
    result->generator_cpu_s = own_cpu_seconds() - cpu_s;
    mark(&options, "end");
    template_free(&send);
    template_free(&pull);
}
