/* The element types that the kernel reads, by number; shared with core/stats/dtypes.py. */
#ifndef NETDEBUG_VALUES_H
#define NETDEBUG_VALUES_H

#include <stddef.h>
#include <stdint.h>

enum dtype {
    FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT8, UINT8, INT16, INT32, INT64, BOOL, COMPLEX64, COMPLEX128, DTYPES
};

static const uint8_t ITEM_BYTES[DTYPES] = {4, 8, 2, 2, 1, 1, 2, 4, 8, 1, 8, 16};

/* float32, float16 and bfloat16 are read as floats; everything else as doubles. */
static inline int is_float_path(int dtype) { return dtype == FLOAT32 || dtype == FLOAT16 || dtype == BFLOAT16; }

#endif
