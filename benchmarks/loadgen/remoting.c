#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frames.h"
#include "net.h"
#include "run.h"

enum { TOPIC_BYTES_MAX = 128, CLOCK_EVERY = 64, SETTLE_LOOK_US = 2000, ENDS_AT_ONCE = 64 };

typedef struct {
    const Options *options;
    Template *templates;       // by topic * queues + queue
    uint64_t *ends, *cursors;  // of pulls: where a queue ends, where to read on
    uint32_t queues, turn;
    char born[14];
} Remoting;

static void topic_name(const Options *options, int topic, char name[TOPIC_BYTES_MAX]) {
    if (options->topics == 1)
        snprintf(name, TOPIC_BYTES_MAX, "%s", options->topic);
    else
        snprintf(name, TOPIC_BYTES_MAX, "%s%d", options->topic, topic);
}

static Reply read_end(int fd) {
    char head[8];
    read_all(fd, head, sizeof head);
    uint32_t length = read_u32(head) + 4;
    char *reply = malloc(length);
    if (!reply || length < sizeof head || length > FRAME_BYTES_MAX)
        die("a frame of %u bytes came", length);
    memcpy(reply, head, sizeof head);
    read_all(fd, reply + sizeof head, length - sizeof head);
    Frame frame;
    next_frame(reply, length, &frame);
    Reply answer = read_reply(&frame);
    if (answer.code || answer.offset < 0)
        die("a queue has no end: %.*s", (int)frame.header_length, frame.header);
    free(reply);
    return answer;
}

uint64_t ask_end(int fd, const char *topic, int queue) {
    char out[1024];
    write_all(fd, out, write_max_offset(out, topic, queue, 0));
    return (uint64_t)read_end(fd).offset;
}

// Asks for the ends of up to ENDS_AT_ONCE queues from one on, for a round trip each may take long
// on a busy machine; returns how many. Answers may come in any order.
static uint32_t ask_ends(int fd, const Remoting *remoting, uint32_t first, uint64_t *ends) {
    const Options *options = remoting->options;
    uint32_t left = remoting->queues - first, count = left < ENDS_AT_ONCE ? left : ENDS_AT_ONCE;
    for (uint32_t at = 0; at < count; at++) {
        int index = (int)(first + at);
        char out[1024], topic[TOPIC_BYTES_MAX];
        topic_name(options, index / options->queues, topic);
        write_all(fd, out, write_max_offset(out, topic, index % options->queues, at));
    }
    for (uint32_t at = 0; at < count; at++) {
        Reply answer = read_end(fd);
        if (answer.number >= count) die("an answer came that was not asked for");
        ends[answer.number] = (uint64_t)answer.offset;
    }
    return count;
}

static size_t ask(void *state, char *out, Asked *asked) {
    Remoting *remoting = state;
    uint32_t queue = remoting->turn++ % remoting->queues;
    asked->queue = queue;
    if (remoting->options->workload == PULL) {
        uint64_t count = (uint64_t)remoting->options->batch;
        if (remoting->cursors[queue] + count > remoting->ends[queue]) remoting->cursors[queue] = 0;
        asked->offset = remoting->cursors[queue];
        remoting->cursors[queue] += count;
        return write_pull(&remoting->templates[queue], out, asked->number, asked->offset);
    }
    if (remoting->turn % CLOCK_EVERY == 1)
        snprintf(remoting->born, sizeof remoting->born, "%013lu", wall_ms());
    return write_send(&remoting->templates[queue], out, asked->number, remoting->born);
}

static void check(const Remoting *remoting, const Frame *frame, const Reply *reply,
                  const Asked *asked, Ledger *ledger) {
    const Options *options = remoting->options;
    int queue = (int)asked->queue % options->queues;
    uint64_t count = options->workload == SEND ? 1 : (uint64_t)options->batch;
    if (reply->code) {
        ledger_error(ledger, "refused: %.*s", (int)frame->header_length, frame->header);
    } else if (options->workload == PULL) {
        const char *wrong =
            check_records(frame, asked->offset, options->batch, queue, (size_t)options->body_bytes);
        if (wrong)
            ledger_error(ledger, "queue %d from offset %lu: %s", queue, asked->offset, wrong);
        if (reply->next_offset != (int64_t)(asked->offset + count))
            ledger_error(ledger, "queue %d from offset %lu: the next is %ld", queue, asked->offset,
                         reply->next_offset);
    } else if (reply->queue != queue || reply->offset < 0) {
        ledger_error(ledger, "not as asked: %.*s", (int)frame->header_length, frame->header);
    } else {
        ledger_given(ledger, asked->queue, (uint64_t)reply->offset, count);
    }
}

static size_t take(void *state, const char *in, size_t length, uint32_t connection, Ledger *ledger,
                   Asked **asked, uint32_t *messages) {
    Remoting *remoting = state;
    Frame frame;
    if (!next_frame(in, length, &frame)) return 0;
    Reply reply = read_reply(&frame);
    if (!reply.number) {
        ledger_error(ledger, "no reply: %.*s", (int)frame.header_length, frame.header);
        return frame.length;
    }
    *asked = ledger_answer(ledger, reply.number, connection);
    *messages = remoting->options->workload == SEND ? 1 : (uint32_t)remoting->options->batch;
    if (*asked) check(remoting, &frame, &reply, *asked, ledger);
    return frame.length;
}

// RocketMQ puts messages into their queues behind their senders' backs, the later the busier it is.
// All of them have to get there, and before the next run asks where a queue ends.
static void settle(void *state, Ledger *ledger) {
    const Remoting *remoting = state;
    const Options *options = remoting->options;
    uint64_t deadline_ns = now_ns() + (uint64_t)(options->settle_s * 1e9);
    int fd = connect_to(options->port);
    uint64_t ends[ENDS_AT_ONCE];
    uint32_t known = 0, first = 0;
    for (uint32_t index = 0; index < remoting->queues; index++) {
        const QueueLedger *queue = &ledger->queues[index];
        char topic[TOPIC_BYTES_MAX];
        topic_name(options, (int)index / options->queues, topic);
        if (index == known) {
            first = known;
            known += ask_ends(fd, remoting, first, ends);
        }
        uint64_t end = ends[index - first];
        for (; end != queue->base + queue->count;
             end = ask_end(fd, topic, (int)index % options->queues)) {
            if (end > queue->base + queue->count || now_ns() > deadline_ns) {
                ledger_error(ledger, "queue %u ends at %lu, after offset %lu was given out", index,
                             end, queue->base + queue->count - 1);
                break;
            }
            usleep(SETTLE_LOOK_US);
        }
    }
    close(fd);
}

Protocol remoting_protocol(const Options *options, Ledger *ledger) {
    Remoting *remoting = calloc(1, sizeof *remoting);
    uint32_t queues = (uint32_t)(options->topics * options->queues);
    if (!remoting) die("out of memory");
    *remoting = (Remoting){.options = options,
                           .queues = queues,
                           .templates = calloc(queues, sizeof(Template)),
                           .ends = calloc(queues, sizeof(uint64_t)),
                           .cursors = calloc(queues, sizeof(uint64_t))};
    if (!remoting->templates || !remoting->ends || !remoting->cursors) die("out of memory");
    size_t largest = 0;
    int fd = connect_to(options->port);
    for (uint32_t known = 0; known < queues;)
        known += ask_ends(fd, remoting, known, remoting->ends + known);
    for (uint32_t index = 0; index < queues; index++) {
        char topic[TOPIC_BYTES_MAX];
        int queue = (int)index % options->queues;
        topic_name(options, (int)index / options->queues, topic);
        remoting->templates[index] =
            options->workload == SEND    ? send_template(options, topic, queue)
            : options->workload == BATCH ? batch_template(options, topic, queue)
                                         : pull_template(options, topic, queue, false);
        ledger->queues[index].base = remoting->ends[index];
        if (options->workload == PULL && remoting->ends[index] < (uint64_t)options->batch)
            die("topic %s queue %d ends at %lu: too few to pull", topic, queue,
                remoting->ends[index]);
        size_t length = remoting->templates[index].length + 24;
        largest = length > largest ? length : largest;
    }
    close(fd);
    return (Protocol){.state = remoting,
                      .request_bytes_max = largest,
                      .ask = ask,
                      .take = take,
                      .settle = options->workload == PULL ? NULL : settle};
}
