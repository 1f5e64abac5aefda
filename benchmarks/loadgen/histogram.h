// Latencies in buckets that are at most 1.6 % wide, so percentiles cost neither memory nor sorting.
#pragma once
#include <stdint.h>

enum { PARTS = 64, BUCKETS = 64 * PARTS };

typedef struct {
    uint64_t counts[BUCKETS];
    uint64_t total;
    uint64_t max;
} Histogram;

void histogram_add(Histogram *histogram, uint64_t value);
// The least value that `share` (0..1) of all values do not exceed, to 1.6 %; 0 if there are none.
uint64_t histogram_at(const Histogram *histogram, double share);
