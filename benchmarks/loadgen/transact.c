// Half messages and their commits: each answered half is committed by a one-way END, as Java's
// client does it. A message counts when its half is answered; at the end all have to be there.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frames.h"
#include "net.h"
#include "run.h"

enum { CLOCK_EVERY = 64, SETTLE_LOOK_US = 2000, END_BYTES_MAX = 512, ENDS_PER_ASK = 2 };

static const char HALF_TOPIC[] = "RMQ_SYS_TRANS_HALF_TOPIC";

typedef struct {
    uint64_t offset, position;
} Half;

// What is answered and not yet committed, of one connection.
typedef struct {
    Half *halves;
    uint64_t begun, ended, mask;
} Waiting;

typedef struct {
    const Options *options;
    Template *templates;  // by queue of the one topic
    uint64_t *bases;
    uint64_t half_base;
    Waiting *waiting;  // by connection
    uint32_t turn;
    char born[14];
} Transact;

static size_t write_end(const Transact *transact, char *out, Half half) {
    int length = sprintf(
        out + 8,
        "{\"code\":37,\"extFields\":{\"topic\":\"%s\",\"producerGroup\":\"ProducerGroupName\","
        "\"tranStateTableOffset\":\"%lu\",\"commitLogOffset\":\"%lu\",\"commitOrRollback\":\"8\","
        "\"fromTransactionCheck\":\"false\",\"bname\":\"broker-a\"},\"flag\":2,"
        "\"language\":\"JAVA\",\"opaque\":%d,\"serializeTypeCurrentRPC\":\"JSON\","
        "\"version\":513}",
        transact->options->topic, half.offset, half.position, OPAQUE_BASE - 1);
    put_u32(out, (uint32_t)length + 4);
    put_u32(out + 4, (uint32_t)length);
    return (size_t)length + 8;
}

static size_t ask(void *state, char *out, Asked *asked) {
    Transact *transact = state;
    Waiting *waiting = &transact->waiting[asked->connection];
    char *at = out;
    for (int ends = 0; ends < ENDS_PER_ASK && waiting->ended < waiting->begun; ends++)
        at += write_end(transact, at, waiting->halves[waiting->ended++ & waiting->mask]);
    asked->queue = transact->turn++ % (uint32_t)transact->options->queues;
    if (transact->turn % CLOCK_EVERY == 1)
        snprintf(transact->born, sizeof transact->born, "%013lu", wall_ms());
    at += write_send(&transact->templates[asked->queue], at, asked->number, transact->born);
    return (size_t)(at - out);
}

static uint64_t position_of(const Frame *frame) {
    static const char name[] = "\"msgId\":\"";
    const char *found = NULL;
    size_t length = sizeof name - 1;
    for (size_t at = 0; at + length + 32 < frame->header_length && !found; at++)
        if (!memcmp(frame->header + at, name, length)) found = frame->header + at;
    char digits[17] = {0};
    if (found) memcpy(digits, found + length + 16, 16);
    return strtoull(digits, NULL, 16);
}

static size_t take(void *state, const char *in, size_t length, uint32_t connection, Ledger *ledger,
                   Asked **asked, uint32_t *messages) {
    Transact *transact = state;
    Frame frame;
    if (!next_frame(in, length, &frame)) return 0;
    Reply reply = read_reply(&frame);
    *messages = 1;
    *asked = ledger_answer(ledger, reply.number, connection);
    if (reply.code || reply.offset < 0 || !*asked || reply.queue != (int64_t)(*asked)->queue) {
        ledger_error(ledger, "not as asked: %.*s", (int)frame.header_length, frame.header);
        return frame.length;
    }
    ledger_given(ledger, 0, (uint64_t)reply.offset, 1);
    Waiting *waiting = &transact->waiting[connection];
    if (waiting->begun - waiting->ended > waiting->mask) die("too many halves wait");
    waiting->halves[waiting->begun++ & waiting->mask] =
        (Half){.offset = (uint64_t)reply.offset, .position = position_of(&frame)};
    return frame.length;
}

static uint64_t committed(const Transact *transact, int fd) {
    uint64_t count = 0;
    for (int queue = 0; queue < transact->options->queues; queue++)
        count += ask_end(fd, transact->options->topic, queue) - transact->bases[queue];
    return count;
}

// Commits what the last answers left open, and waits until every message is in its own queue.
static void settle(void *state, Ledger *ledger) {
    Transact *transact = state;
    const Options *options = transact->options;
    uint64_t deadline_ns = now_ns() + (uint64_t)(options->settle_s * 1e9);
    int fd = connect_to(options->port);
    char out[END_BYTES_MAX];
    for (int index = 0; index < options->connections; index++) {
        Waiting *waiting = &transact->waiting[index];
        while (waiting->ended < waiting->begun)
            write_all(fd, out, write_end(transact, out,
                                         waiting->halves[waiting->ended++ & waiting->mask]));
    }
    uint64_t count;
    while ((count = committed(transact, fd)) != ledger->queues[0].count) {
        if (count > ledger->queues[0].count || now_ns() > deadline_ns) {
            ledger_error(ledger, "%lu messages were committed of %lu", count,
                         ledger->queues[0].count);
            break;
        }
        usleep(SETTLE_LOOK_US);
    }
    close(fd);
}

Protocol transact_protocol(const Options *options, Ledger *ledger) {
    Transact *transact = calloc(1, sizeof *transact);
    size_t queues = (size_t)options->queues, connections = (size_t)options->connections;
    if (!transact || options->topics != 1) die("transactions take one topic");
    *transact = (Transact){.options = options,
                           .templates = calloc(queues, sizeof(Template)),
                           .bases = calloc(queues, sizeof(uint64_t)),
                           .waiting = calloc(connections, sizeof(Waiting))};
    if (!transact->templates || !transact->bases || !transact->waiting) die("out of memory");
    uint64_t capacity = 64;
    while (capacity < 4 * (uint64_t)options->outstanding) capacity *= 2;
    for (size_t index = 0; index < connections; index++) {
        transact->waiting[index] =
            (Waiting){.halves = calloc(capacity, sizeof(Half)), .mask = capacity - 1};
        if (!transact->waiting[index].halves) die("out of memory");
    }
    int fd = connect_to(options->port);
    size_t largest = 0;
    for (size_t queue = 0; queue < queues; queue++) {
        transact->templates[queue] = half_template(options, options->topic, (int)queue);
        transact->bases[queue] = ask_end(fd, options->topic, (int)queue);
        largest = transact->templates[queue].length;
    }
    ledger->queues[0].base = ask_end(fd, HALF_TOPIC, 0);
    close(fd);
    return (Protocol){.state = transact,
                      .request_bytes_max = largest + 24 + ENDS_PER_ASK * END_BYTES_MAX,
                      .ask = ask,
                      .take = take,
                      .settle = settle};
}
