/* The running count of one tensor on one thread: bins, extremes, and the sums of the current strip. */
#ifndef NETDEBUG_TALLY_H
#define NETDEBUG_TALLY_H

#include <stddef.h>
#include <stdint.h>

enum {
    BLOCK = 1024,  /* values handled at a time; part of the order of additions, so it never changes */
    LANES = 16,    /* likewise */
    BINS = 4096,
    COPIES = 4,    /* neighbouring values use different copies, so that equal ones do not wait for each other */
    CODE_BITS = 8, /* a value of a pair: sign, and 7 bits of exponent and mantissa relative to the window */
    CODES = 1 << CODE_BITS,
    PAIRS = CODES * CODES,
};

/* The result for any number of values: everything in a packed summary except the sums. */
typedef struct {
    uint64_t counts[BINS];    /* all zero between tensors */
    uint32_t lowest, highest; /* occupied bins of either sign lie between these magnitudes, except the zeros */
    double min, max;          /* of the finite values; min > max when there are none */
    uint64_t overflow;
} Folded;

/* Fast path: one store per cycle is the limit of any histogram, so two values share a store. A value is coded in 8
   bits relative to a window of 16 octaves; two codes together index `pairs`. Code 0 of either sign is zero.
   The few values outside the window are staged as zero, counted in `singles`, and corrected when folding; a block
   with many of them is counted value by value. */
typedef struct Tally Tally;
struct Tally {
    union {
        uint16_t one[PAIRS]; /* narrow counters: more of them fit into the cache, and there is less to fold */
        uint32_t two[PAIRS / 2];
    } pairs;
    uint32_t carried[CODES]; /* for each code, what overflowed from the counters of its pairs */
    uint32_t singles[COPIES][BINS];
    uint16_t staged[BLOCK / 2]; /* the pending block: codes of two values each */
    Folded folded;          /* where pairs and singles end up */
    uint32_t base;          /* first bin magnitude of the window */
    uint32_t blocks, misses; /* of the current strip: blocks seen, and those outside the window */
    uint64_t stand_ins;      /* zeros in `pairs` that stand for values outside the window */
    int placements;          /* how often the window was placed for this tensor */
    uint64_t unfolded;      /* values counted in 32-bit counters since the last fold */
    int use_pairs, pending, pairs_used, singles_used;
    double sum[LANES], squares[LANES]; /* of the current strip */
    void (*fold_pairs)(Tally *);
};

/* Resets it to no values; `counts` must be zero already. */
void folded_start(Folded *folded);
/* Widens the range of occupied bins. */
void folded_cover(Folded *folded, uint32_t lowest, uint32_t highest);
/* Moves what `from` holds into `to`. */
void folded_move(Folded *to, Folded *from);

/* `fold_pairs` empties the pair table into `folded`, at the speed of the instruction set in use. */
void tally_start(Tally *tally, size_t count, void (*fold_pairs)(Tally *));
void tally_start_strip(Tally *tally);
void tally_fold(Tally *tally);
/* The strip's sum and sum of squares, lanes folded in the fixed order. */
void tally_end_strip(Tally *tally, double sums[2]);

#endif
