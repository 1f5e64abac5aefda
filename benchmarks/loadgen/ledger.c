#include "ledger.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

static const uint64_t OFFSETS_MAX = 1ull << 32;  // of one queue in one run

void ledger_init(Ledger *ledger, uint64_t outstanding_max, uint32_t queues) {
    uint64_t capacity = 1 << 16;
    while (capacity < outstanding_max * 4) capacity *= 2;
    memset(ledger, 0, sizeof *ledger);
    ledger->open = calloc(capacity, sizeof *ledger->open);
    ledger->open_mask = capacity - 1;
    ledger->queues = calloc(queues, sizeof *ledger->queues);
    ledger->queue_count = queues;
    if (!ledger->open || !ledger->queues) die("out of memory");
}

void ledger_free(Ledger *ledger) {
    for (uint32_t index = 0; index < ledger->queue_count; index++)
        free(ledger->queues[index].given);
    free(ledger->queues);
    free(ledger->open);
}

void ledger_error(Ledger *ledger, const char *format, ...) {
    if (ledger->errors++) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ledger->first_error, sizeof ledger->first_error, format, arguments);
    va_end(arguments);
}

Asked *ledger_ask(Ledger *ledger) {
    Asked *asked;
    do {  // a request that is answered very late keeps its place: its neighbour is taken
        asked = &ledger->open[++ledger->last_number & ledger->open_mask];
    } while (asked->number);
    asked->number = ledger->last_number;
    return asked;
}

Asked *ledger_answer(Ledger *ledger, uint64_t number, uint32_t connection) {
    Asked *asked = &ledger->open[number & ledger->open_mask];
    if (!number || asked->number != number) {
        ledger_error(ledger, "an answer to request %lu, which is not open", number);
        return NULL;
    }
    if (asked->connection != connection)
        ledger_error(ledger, "the answer to request %lu came on another connection", number);
    asked->number = 0;
    return asked;
}

static void make_room(QueueLedger *queue, uint64_t end) {
    uint64_t capacity = queue->capacity ? queue->capacity : 4096;
    while (capacity < end) capacity *= 2;
    queue->given = realloc(queue->given, capacity / 8);
    if (!queue->given) die("out of memory");
    memset((char *)queue->given + queue->capacity / 8, 0, (capacity - queue->capacity) / 8);
    queue->capacity = capacity;
}

void ledger_given(Ledger *ledger, uint32_t index, uint64_t offset, uint64_t count) {
    QueueLedger *queue = &ledger->queues[index];
    uint64_t first = offset - queue->base;
    if (offset < queue->base || first + count > OFFSETS_MAX) {
        ledger_error(ledger, "queue %u gave out offset %lu, it began at %lu", index, offset,
                     queue->base);
        return;
    }
    if (first + count > queue->capacity) make_room(queue, first + count);
    for (uint64_t at = first; at < first + count; at++) {
        uint64_t bit = 1ull << (at & 63);
        if (queue->given[at >> 6] & bit)
            ledger_error(ledger, "queue %u gave out offset %lu twice", index, queue->base + at);
        queue->given[at >> 6] |= bit;
    }
    queue->count += count;
}

void ledger_check_dense(Ledger *ledger) {
    for (uint64_t at = 0; at <= ledger->open_mask; at++)
        if (ledger->open[at].number)
            ledger_error(ledger, "request %lu was never answered", ledger->open[at].number);
    for (uint32_t index = 0; index < ledger->queue_count; index++) {
        QueueLedger *queue = &ledger->queues[index];
        for (uint64_t at = 0; at < queue->count; at++)
            if (at >= queue->capacity || !(queue->given[at >> 6] & 1ull << (at & 63))) {
                ledger_error(ledger, "queue %u gave out %lu offsets, but not %lu", index,
                             queue->count, queue->base + at);
                break;
            }
    }
}
