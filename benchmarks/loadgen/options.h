// What a run is asked to do.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { SEND, BATCH, PULL, WAKE, XADD, TRANSACT, FLOOR, OVERLOAD } Workload;

typedef struct {
    Workload workload;
    const char *workload_name;
    const char *topic;  // with several topics, their number is appended
    int port;           // on 127.0.0.1
    int connections;
    int outstanding;  // requests without an answer, per connection
    int topics;
    int queues;  // of each topic
    int body_bytes;
    int batch;        // messages of a batch, records of a pull
    bool tags_first;  // TAGS before the other properties, not behind them
    double warmup_s;
    double seconds;         // measured
    uint64_t requests_max;  // 0: until the time is over
    double settle_s;        // until the queues end behind the last message that was acknowledged
    const char *multiples;  // of the best rate that an overload offers: "1,1.5,2"
    const char *log;        // where a floor writes what it reads; NULL: nowhere
    int spread_mib;  // of records that the floor answers pulls with; 0: the same ones all the time
    bool gather;     // ... without copying them
    int log_mib;            // so much, then it begins anew
    int cpu;                // negative: any
    bool marks;             // tell on stdout when measuring begins and ends, and wait for a line
    const char *access_key, *secret_key;  // who signs; NULL: nobody
} Options;

Options parse_options(int count, char **words);
