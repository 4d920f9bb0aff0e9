/* Many tensors in one call, divided among threads. */
#ifndef NETDEBUG_BATCH_H
#define NETDEBUG_BATCH_H

#include "passes.h"

typedef struct {
    View view;
    /* results: packed summaries of the values, and of the change when `view.previous` is set */
    const uint8_t *packed[2];
    size_t packed_bytes[2];
    /* results of batch_squares */
    double squares;
    uint64_t others;
} Item;

/* Call once, before anything else. */
void batch_prepare(void);

/* One batch at a time: take the lock before the call and keep it until the results are copied. */
int batch_try_lock(void);
void batch_lock(void);
void batch_unlock(void);

/* Return false when out of memory. Results stay valid until the lock is released. */
int batch_summarize(const Passes *passes, Item *items, size_t count, int threads);
int batch_squares(const Passes *passes, Item *items, size_t count, int threads);

#endif
