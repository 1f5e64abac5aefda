#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

static const char *const USAGE =
    "loadgen WORKLOAD --port PORT [--connections N] [--outstanding N] [--topic NAME] [--topics N]\n"
    "  [--queues N] [--body BYTES] [--batch N] [--tags-first] [--warmup S] [--seconds S]\n"
    "  [--requests N] [--settle S] [--cpu N] [--marks]\n"
    "  [--multiples N,N,...] [--log FILE] [--log-mib N]\n"
    "  [--spread-mib N [--gather]] [--access-key NAME --secret-key TEXT]\n"
    "WORKLOAD: send, batch, pull, wake, xadd (Redis), transact, floor: a server that only pretends,\n"
    "  or overload: multiples of the best rate by the clock, and the best rate in between\n";

static const char *const NAMES[] = {"send", "batch", "pull", "wake", "xadd", "transact", "floor", "overload"};

static Workload workload_of(const char *name) {
    for (int at = 0; at <= OVERLOAD; at++)
        if (!strcmp(name, NAMES[at])) return (Workload)at;
    die("no workload %s\n%s", name, USAGE);
}

static long whole(const char *name, const char *text, long least, long most) {
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end || value < least || value > most)
        die("--%s is %s, allowed: %ld to %ld", name, text, least, most);
    return value;
}

Options parse_options(int count, char **words) {
    if (count < 2) die("what to do?\n%s", USAGE);
    Options options = {.workload = workload_of(words[1]),
                       .workload_name = words[1],
                       .topic = "BenchTopic",
                       .connections = 1,
                       .outstanding = 1,
                       .topics = 1,
                       .queues = 4,
                       .body_bytes = 1024,
                       .batch = 32,
                       .warmup_s = 1,
                       .seconds = 3,
                       .settle_s = 15,
                       .multiples = "2",
                       .log_mib = 1024,
                       .cpu = -1};
    enum {
        PORT = 1,
        CONNS,
        OUT,
        TOPIC,
        TOPICS,
        QUEUES,
        BODY,
        NUMBER,
        TAGS,
        WARM,
        SECS,
        REQS,
        SETTLE,
        CPU,
        MARKS,
        MULTIPLES,
        LOG,
        LOG_MIB,
        SPREAD_MIB,
        GATHER,
        ACCESS_KEY,
        SECRET_KEY
    };
    static const struct option known[] = {
        {"port", 1, 0, PORT},   {"connections", 1, 0, CONNS}, {"outstanding", 1, 0, OUT},
        {"topic", 1, 0, TOPIC}, {"topics", 1, 0, TOPICS},     {"queues", 1, 0, QUEUES},
        {"body", 1, 0, BODY},   {"batch", 1, 0, NUMBER},      {"tags-first", 0, 0, TAGS},
        {"warmup", 1, 0, WARM}, {"seconds", 1, 0, SECS},      {"requests", 1, 0, REQS},
        {"cpu", 1, 0, CPU},     {"marks", 0, 0, MARKS},       {"settle", 1, 0, SETTLE},
        {"multiples", 1, 0, MULTIPLES}, {"log", 1, 0, LOG}, {"log-mib", 1, 0, LOG_MIB},
        {"spread-mib", 1, 0, SPREAD_MIB}, {"gather", 0, 0, GATHER},
        {"access-key", 1, 0, ACCESS_KEY}, {"secret-key", 1, 0, SECRET_KEY},
        {0}};
    int found, at = 0;
    while ((found = getopt_long(count - 1, words + 1, "", known, &at)) != -1) {
        const char *name = known[at].name;
        switch (found) {
            case PORT: options.port = (int)whole(name, optarg, 0, 65535); break;
            case CONNS: options.connections = (int)whole(name, optarg, 1, 1024); break;
            case OUT: options.outstanding = (int)whole(name, optarg, 1, 4096); break;
            case TOPIC: options.topic = optarg; break;
            case TOPICS: options.topics = (int)whole(name, optarg, 1, 1 << 17); break;
            case QUEUES: options.queues = (int)whole(name, optarg, 1, 64); break;
            case BODY: options.body_bytes = (int)whole(name, optarg, 1, 1 << 22); break;
            case NUMBER: options.batch = (int)whole(name, optarg, 1, 1024); break;
            case TAGS: options.tags_first = true; break;
            case WARM: options.warmup_s = atof(optarg); break;
            case SECS: options.seconds = atof(optarg); break;
            case REQS: options.requests_max = (uint64_t)whole(name, optarg, 1, 1L << 40); break;
            case SETTLE: options.settle_s = atof(optarg); break;
            case CPU: options.cpu = (int)whole(name, optarg, -1, 1023); break;
            case MARKS: options.marks = true; break;
            case MULTIPLES: options.multiples = optarg; break;
            case LOG: options.log = optarg; break;
            case LOG_MIB: options.log_mib = (int)whole(name, optarg, 16, 1 << 20); break;
            case SPREAD_MIB: options.spread_mib = (int)whole(name, optarg, 1, 1 << 16); break;
            case GATHER: options.gather = true; break;
            case ACCESS_KEY: options.access_key = optarg; break;
            case SECRET_KEY: options.secret_key = optarg; break;
            default: die("%s", USAGE);
        }
    }
    if (optind != count - 1) die("what is %s?\n%s", words[optind + 1], USAGE);
    if (options.workload != FLOOR && !options.port) die("--port is missing\n%s", USAGE);
    if (options.gather && !options.spread_mib) die("--gather without --spread-mib");
    if (!options.access_key != !options.secret_key) die("--access-key goes with --secret-key");
    if (strlen(options.topic) > 100) die("--topic is longer than 100 characters");
    return options;
}
