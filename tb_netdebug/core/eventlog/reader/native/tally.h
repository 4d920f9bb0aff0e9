// Adds packed summaries (core/stats/packed.py) bin by bin.

#ifndef NETDEBUG_TALLY_H
#define NETDEBUG_TALLY_H

#include "bytes.h"

enum { BINS = 4096, SUMMARY_HEADER = 80 };

// Reads the next number. Returns 0 if there is none in its shortest form.
static int read_number(Span *s, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 70 && s->at < s->end; shift += 7) {
        uint64_t byte = *s->at++;
        if (shift == 63 && byte > 1) return 0;
        *value |= (byte & 127) << shift;
        if (byte < 128) return byte || !shift;
    }
    return 0;
}

// Adds the counts of one summary, or with no `counts` only checks that it is one.
static int add_summary(Span packed, double *counts) {
    uint64_t bin = 0, gap, count;
    if (size_of(packed) < SUMMARY_HEADER) return 0;
    for (packed.at += SUMMARY_HEADER; packed.at < packed.end; bin++) {
        if (!read_number(&packed, &gap) || gap >= BINS || (bin += gap) >= BINS) return 0;
        if (!read_number(&packed, &count) || !count) return 0;
        if (counts) counts[bin] += (double)count;
    }
    return 1;
}

#endif
