#define _GNU_SOURCE
// XADD over Redis's own protocol: replies come in the order of the requests of a connection.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"
#include "run.h"

typedef struct {
    uint64_t *numbers;  // of the open requests, oldest first, as a ring
    uint32_t first, count;
} Order;

typedef struct {
    char **requests;  // by stream
    size_t *lengths;
    uint32_t streams, turn, ring;
    Order *orders;  // by connection
} Redis;

static size_t ask(void *state, char *out, Asked *asked) {
    Redis *redis = state;
    Order *order = &redis->orders[asked->connection];
    asked->queue = redis->turn++ % redis->streams;
    order->numbers[(order->first + order->count++) % redis->ring] = asked->number;
    memcpy(out, redis->requests[asked->queue], redis->lengths[asked->queue]);
    return redis->lengths[asked->queue];
}

// An answer is "$15\r\n1700000000000-0\r\n", the entry's id; an error begins with "-".
static size_t take(void *state, const char *in, size_t length, uint32_t connection, Ledger *ledger,
                   Asked **asked, uint32_t *messages) {
    Redis *redis = state;
    Order *order = &redis->orders[connection];
    const char *line = memmem(in, length, "\r\n", 2);
    if (!line) return 0;
    size_t used = (size_t)(line - in) + 2;
    if (*in == '$') {
        long size = strtol(in + 1, NULL, 10);
        if (size < 3 || size > 64) die("a reply of %ld bytes to XADD", size);
        if (length < used + (size_t)size + 2) return 0;
        used += (size_t)size + 2;
    } else {
        ledger_error(ledger, "refused: %.*s", (int)(line - in), in);
    }
    if (!order->count) {
        ledger_error(ledger, "an answer without a request");
        return used;
    }
    uint64_t number = order->numbers[order->first];
    order->first = (order->first + 1) % redis->ring;
    order->count--;
    *asked = ledger_answer(ledger, number, connection);
    *messages = 1;
    return used;
}

Protocol redis_protocol(const Options *options) {
    Redis *redis = calloc(1, sizeof *redis);
    uint32_t streams = (uint32_t)(options->topics * options->queues);
    size_t bytes = (size_t)options->body_bytes + 512;
    if (!redis) die("out of memory");
    *redis = (Redis){.requests = calloc(streams, sizeof(char *)),
                     .lengths = calloc(streams, sizeof(size_t)),
                     .streams = streams,
                     .ring = (uint32_t)options->outstanding,
                     .orders = calloc((size_t)options->connections, sizeof(Order))};
    for (uint32_t stream = 0; stream < streams; stream++) {
        char name[160];
        int name_length = snprintf(name, sizeof name, "%s-%u", options->topic, stream);
        char *at = redis->requests[stream] = malloc(bytes);
        at += sprintf(at, "*5\r\n$4\r\nXADD\r\n$%d\r\n%s\r\n$1\r\n*\r\n$4\r\nbody\r\n$%d\r\n",
                      name_length, name, options->body_bytes);
        for (int index = 0; index < options->body_bytes; index++) *at++ = (char)('a' + index % 26);
        at += sprintf(at, "\r\n");
        redis->lengths[stream] = (size_t)(at - redis->requests[stream]);
    }
    for (int index = 0; index < options->connections; index++)
        redis->orders[index].numbers = calloc(redis->ring, sizeof(uint64_t));
    return (Protocol){.state = redis, .request_bytes_max = bytes, .ask = ask, .take = take};
}
