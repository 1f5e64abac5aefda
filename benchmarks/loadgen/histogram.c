#include "histogram.h"

#include <math.h>

// Values under 64 have a bucket each; above, each power of two is cut into 64 equal parts.
static unsigned bucket_of(uint64_t value) {
    if (value < PARTS) return (unsigned)value;
    unsigned power = 63u - (unsigned)__builtin_clzll(value);  // at least 6
    unsigned part = (unsigned)(value >> (power - 6)) - PARTS;
    return (power - 5) * PARTS + part;
}

static uint64_t end_of(unsigned bucket) {
    if (bucket < PARTS) return bucket;
    unsigned power = bucket / PARTS + 5, part = bucket % PARTS;
    return ((uint64_t)(PARTS + part + 1) << (power - 6)) - 1;
}

void histogram_add(Histogram *histogram, uint64_t value) {
    histogram->counts[bucket_of(value)]++;
    histogram->total++;
    if (value > histogram->max) histogram->max = value;
}

uint64_t histogram_at(const Histogram *histogram, double share) {
    uint64_t wanted = (uint64_t)ceil(share * (double)histogram->total), seen = 0;
    if (!histogram->total) return 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        seen += histogram->counts[bucket];
        if (seen >= wanted && seen) {
            uint64_t end = end_of(bucket);
            return end < histogram->max ? end : histogram->max;
        }
    }
    return histogram->max;
}
