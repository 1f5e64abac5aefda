// A load generator for RocketMQ's remoting port: checks every reply and prints one line of JSON.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "net.h"
#include "options.h"
#include "run.h"
#include "sign.h"

static void print_text(const char *text) {
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 32)
            printf("\\u%04x", (unsigned char)*text);
        else
            putchar(*text);
    putchar('"');
}

static double us(const Histogram *latencies, double share) {
    return (double)histogram_at(latencies, share) / 1e3;
}

static void report(const Options *options, const Result *result) {
    const Histogram *latencies = &result->latencies;
    printf(
        "{\"workload\":\"%s\",\"connections\":%d,\"outstanding\":%d,\"body_bytes\":%d,\"seconds\":%"
        ".6f,"
        "\"answers\":%lu,\"messages\":%lu,\"bytes_in\":%lu,\"generator_cpu_s\":%.6f,\"p50_us\":%."
        "1f,"
        "\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"errors\":%lu,\"first_error\":",
        options->workload_name, options->connections, options->outstanding, options->body_bytes,
        result->seconds, result->answers, result->messages, result->bytes_in,
        result->generator_cpu_s, us(latencies, 0.5), us(latencies, 0.99), us(latencies, 0.999),
        (double)latencies->max / 1e3, result->ledger.errors);
    print_text(result->ledger.first_error);
    puts("}");
}

int main(int count, char **words) {
    signal(SIGPIPE, SIG_IGN);
    Options options = parse_options(count, words);
    pin_to_cpu(options.cpu);
    if (options.access_key) sign_as(options.access_key, options.secret_key);
    if (options.workload == FLOOR) run_floor(&options);
    if (options.workload == OVERLOAD) run_open_loop(&options);
    Result *result = calloc(1, sizeof *result);
    if (!result) die("out of memory");
    uint64_t outstanding = (uint64_t)options.connections * (uint64_t)options.outstanding;
    ledger_init(&result->ledger, outstanding, (uint32_t)(options.topics * options.queues));
    if (options.workload == WAKE) {
        run_wake(&options, result);
    } else {
        Protocol protocol =
            options.workload == XADD       ? redis_protocol(&options)
            : options.workload == TRANSACT ? transact_protocol(&options, &result->ledger)
                                           : remoting_protocol(&options, &result->ledger);
        run_closed_loop(&options, &protocol, result);
    }
    report(&options, result);
    return result->ledger.errors ? 1 : 0;
}
