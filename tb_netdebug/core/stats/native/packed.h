/* The packed summary: ten numbers, then the occupied bins (see core/stats/packed.py). */
#ifndef NETDEBUG_PACKED_H
#define NETDEBUG_PACKED_H

#include "tally.h"

enum {
    HEADER_BYTES = 80,
    MOST_PACKED_BYTES = HEADER_BYTES + BINS * (2 + 10),
};

/* Writes the summary to `out` (room for MOST_PACKED_BYTES), returns its size, and clears the bins. */
size_t pack(Folded *folded, double sum, double squares, uint8_t *out);

/* Adds a packed summary; false when the bytes are damaged. */
int unpack_into(const uint8_t *packed, size_t bytes, Folded *folded, double sums[2]);

#endif
