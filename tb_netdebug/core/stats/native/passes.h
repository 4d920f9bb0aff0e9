/* The loops over values, compiled once for each instruction set. */
#ifndef NETDEBUG_PASSES_H
#define NETDEBUG_PASSES_H

#include "tally.h"

/* The memory of a tensor's values; contiguous when `strides` is null. */
typedef struct {
    const char *data;
    char *previous; /* for updates: a copy of `data` at the last sample; overwritten with `data` */
    size_t count;
    int dtype;
    int dims;               /* 0: contiguous */
    const int64_t *shape;   /* outermost first */
    const int64_t *strides; /* in items */
} View;

typedef struct {
    const char *name;
    /* Counts values [from, to) of the view; `update` counts current - previous and may be null. */
    void (*strip)(Tally *tally, Tally *update, const View *view, size_t from, size_t to);
    void (*fold_pairs)(Tally *tally);
    /* Computes the sum of squares of the finite values of a strip; returns the number of non-finite ones. */
    uint64_t (*squares)(const View *view, size_t from, size_t to, double *sum);
    /* Marks in `active` (one byte per unit) the units with a non-zero value inside (low, high). */
    void (*units)(const View *view, size_t units, size_t inner, double low, double high, uint8_t *active);
} Passes;

extern const Passes passes_baseline, passes_avx2, passes_avx512;

#endif
