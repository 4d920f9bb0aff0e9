/* Values of any element type and layout, read into a row of floats or doubles. Part of passes.c. */
#ifndef NETDEBUG_READING_H
#define NETDEBUG_READING_H

#include "bins.h"
#include "passes.h"
#include "values.h"

/* Copies items [from, from + n) of a strided view to `out`, in ascending order of the flat index. */
static void gather(const View *view, size_t from, int n, char *out) {
    const size_t item = ITEM_BYTES[view->dtype];
    int64_t index[64], offset = 0;
    size_t rest = from;
    for (int d = view->dims - 1; d >= 0; d--) {
        index[d] = (int64_t)(rest % (size_t)view->shape[d]);
        rest /= (size_t)view->shape[d];
        offset += index[d] * view->strides[d];
    }
    for (int i = 0; i < n; i++) {
        memcpy(out + (size_t)i * item, view->data + offset * (int64_t)item, item);
        for (int d = view->dims - 1; d >= 0; d--) {
            offset += view->strides[d];
            if (++index[d] < view->shape[d])
                break;
            offset -= index[d] * view->strides[d];
            index[d] = 0;
        }
    }
}

static const char *items(const View *view, size_t from, int n, char *buffer) {
    const size_t item = ITEM_BYTES[view->dtype];
    if (view->dims) {
        gather(view, from, n, buffer);
        return buffer;
    }
    const char *data = view->data + from * item;
    size_t alignment = item < 8 ? item : 8;
    if ((uintptr_t)data % alignment == 0)
        return data;
    memcpy(buffer, data, (size_t)n * item);
    return buffer;
}

/* Exact and without touching NaN payloads; multiplying by 2^112 also normalises subnormals. */
static void halves_to_floats(const uint16_t *in, float *out, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t half = in[i], magnitude = (half & 0x7FFFu) << 13, sign = (half & 0x8000u) << 16;
        float scaled = from_bits(magnitude) * 5.192296858534827628530496e33f;
        uint32_t bits;
        memcpy(&bits, &scaled, sizeof bits);
        bits = (half & 0x7C00u) == 0x7C00u ? magnitude | EXPONENT : bits;
        bits |= sign;
        memcpy(out + i, &bits, sizeof bits);
    }
}

static void bfloats_to_floats(const uint16_t *in, float *out, int n) {
    for (int i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)in[i] << 16;
        memcpy(out + i, &bits, sizeof bits);
    }
}

static const float *floats(int dtype, const char *raw, int n, float *buffer) {
    if (dtype == FLOAT32)
        return (const float *)(const void *)raw;
    if (dtype == FLOAT16)
        halves_to_floats((const uint16_t *)(const void *)raw, buffer, n);
    else
        bfloats_to_floats((const uint16_t *)(const void *)raw, buffer, n);
    return buffer;
}

/* Replaces a NaN by the default one: the sign of a NaN from arithmetic depends on the processor. */
static inline double plain_nan(double value) { return isnan(value) ? (double)NAN : value; }

static void magnitudes(int dtype, const char *raw, const char *minus, int n, double *out) {
    for (int i = 0; i < n; i++) {
        double re, im;
        if (dtype == COMPLEX64) {
            const float *z = (const float *)(const void *)raw + 2 * i, *w = (const float *)(const void *)minus + 2 * i;
            re = minus ? z[0] - w[0] : z[0];
            im = minus ? z[1] - w[1] : z[1];
            out[i] = plain_nan(sqrt(re * re + im * im));
        } else {
            const double *z = (const double *)(const void *)raw + 2 * i, *w = (const double *)(const void *)minus + 2 * i;
            re = minus ? z[0] - w[0] : z[0];
            im = minus ? z[1] - w[1] : z[1];
            out[i] = isnan(re) || isnan(im) ? (double)NAN : hypot(re, im);
        }
    }
}

#define WIDEN(type)                                             \
    for (int i = 0; i < n; i++)                                 \
        buffer[i] = (double)((const type *)(const void *)raw)[i]; \
    break

static const double *doubles(int dtype, const char *raw, int n, double *buffer) {
    switch (dtype) {
    case FLOAT64: return (const double *)(const void *)raw;
    case INT8: WIDEN(int8_t);
    case UINT8: WIDEN(uint8_t);
    case BOOL: WIDEN(uint8_t);
    case INT16: WIDEN(int16_t);
    case INT32: WIDEN(int32_t);
    case INT64: WIDEN(int64_t);
    default: magnitudes(dtype, raw, NULL, n, buffer);
    }
    return buffer;
}

#endif
