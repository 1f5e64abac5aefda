// A closed loop over one server: as many requests are open as allowed, every answer is checked.
#pragma once
#include "histogram.h"
#include "ledger.h"
#include "options.h"

typedef struct {
    Histogram latencies;  // nanoseconds, of requests made and answered while measuring
    Ledger ledger;
    uint64_t answers;  // while measuring
    uint64_t messages;
    uint64_t bytes_in;
    double seconds;
    double generator_cpu_s;
} Result;

// How requests look on the wire. `state` is the protocol's own.
typedef struct Protocol {
    void *state;
    size_t request_bytes_max;
    // Writes a request to `out`, notes in `asked` what the answer has to match; returns its length.
    size_t (*ask)(void *state, char *out, Asked *asked);
    // Looks at the first reply in `in`, checks it, returns its length, 0 while it is incomplete.
    // The number of messages it stands for comes in `messages`, its request in `asked`.
    size_t (*take)(void *state, const char *in, size_t length, uint32_t connection, Ledger *ledger,
                   Asked **asked, uint32_t *messages);
    // Looks at what is to be seen when all is answered; NULL: nothing.
    void (*settle)(void *state, Ledger *ledger);
} Protocol;

// Tells whoever reads stdout, and goes on when he has answered with a line; see Options.marks.
void mark(const Options *options, const char *what);

void run_closed_loop(const Options *options, Protocol *protocol, Result *result);
void run_wake(const Options *options, Result *result);
// Prints a line of JSON for each phase.
void run_open_loop(const Options *options) __attribute__((noreturn));
void run_floor(const Options *options) __attribute__((noreturn));

// The offset behind a queue's last message.
uint64_t ask_end(int fd, const char *topic, int queue);

Protocol remoting_protocol(const Options *options, Ledger *ledger);
Protocol transact_protocol(const Options *options, Ledger *ledger);
Protocol redis_protocol(const Options *options);
