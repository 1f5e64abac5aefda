// What was asked and what came back: each request answered once, each queue offset given out once.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t sent_ns;
    uint64_t number;  // of the request; 0: free
    uint64_t offset;  // of a pull: where it starts
    uint32_t queue;   // topic * queues + queue
    uint32_t connection;
} Asked;

typedef struct {
    uint64_t base;      // the queue's end before the first request
    uint64_t count;     // offsets given out since
    uint64_t capacity;  // of `given`, in offsets
    uint64_t *given;    // a bit for each offset
} QueueLedger;

typedef struct {
    Asked *open;  // by number modulo the capacity
    uint64_t open_mask;
    uint64_t last_number;
    uint64_t errors;
    char first_error[400];
    QueueLedger *queues;
    uint32_t queue_count;
} Ledger;

void ledger_init(Ledger *ledger, uint64_t outstanding_max, uint32_t queues);
void ledger_free(Ledger *ledger);
void ledger_error(Ledger *ledger, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Gives the next request its number, counting up from 1; the caller fills in the rest.
Asked *ledger_ask(Ledger *ledger);
// Returns the request that a reply belongs to; NULL and an error if it was never made or is
// answered already. The entry stays valid until the next call of ledger_ask.
Asked *ledger_answer(Ledger *ledger, uint64_t number, uint32_t connection);
// Notes that a queue gave out `count` offsets from `offset`; an error if one was given out before.
void ledger_given(Ledger *ledger, uint32_t queue, uint64_t offset, uint64_t count);
// Looks for gaps in what the queues gave out; call it when everything is answered.
void ledger_check_dense(Ledger *ledger);
