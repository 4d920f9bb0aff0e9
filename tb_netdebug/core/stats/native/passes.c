/* The loops over values, compiled once for each instruction set, with VARIANT naming the result. The plain loops are
   written so that the compiler vectorizes them; the hottest one is spelled out for AVX-512. The headers hold code, so
   that the compiler sees one unit. */
#include "passes.h"

#include "blocks.h"
#include "reading.h"

#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)
#define TEXT(a) #a
#define QUOTED(a) TEXT(a)

/* ---- strips -------------------------------------------------------------------------------------------- */

typedef struct {
    _Alignas(64) char raw[BLOCK * 16], raw_previous[BLOCK * 16];
    float floats[BLOCK], floats_previous[BLOCK];
    double doubles[BLOCK], doubles_previous[BLOCK];
} Buffers;

/* Counts the change, and copies `now` to `before` while both are in the cache. */
static void update_floats(Tally *update, const float *restrict now, float *restrict before, int n,
                          const char *ahead) {
    float change[BLOCK];
    for (int i = 0; i < n; i++) {
        float difference = now[i] - before[i];
        uint32_t bits;
        memcpy(&bits, &difference, sizeof bits);
        bits = (bits & ~SIGN) > EXPONENT ? QUIET_NAN : bits;
        memcpy(change + i, &bits, sizeof bits);
        memcpy(before + i, now + i, sizeof *before);
    }
    float_block(update, change, n, ahead);
}

static void update_doubles(Tally *update, const View *view, const char *raw, const char *raw_previous,
                           const double *now, Buffers *buffers, int n) {
    double change[BLOCK];
    if (view->dtype == COMPLEX64 || view->dtype == COMPLEX128) {
        magnitudes(view->dtype, raw, raw_previous, n, change);
    } else {
        const double *before = doubles(view->dtype, raw_previous, n, buffers->doubles_previous);
        for (int i = 0; i < n; i++)
            change[i] = plain_nan(now[i] - before[i]);
    }
    double_block(update, change, n);
}

enum { AHEAD = 2 * BLOCK }; /* how many values ahead to prefetch */

static void one_block(Tally *tally, Tally *update, const View *view, size_t from, int n, Buffers *buffers) {
    const size_t item = ITEM_BYTES[view->dtype];
    const char *raw = items(view, from, n, buffers->raw), *raw_previous = NULL;
    if (update) {
        View previous = {.data = view->previous, .count = view->count, .dtype = view->dtype};
        raw_previous = items(&previous, from, n, buffers->raw_previous);
    }
    if (is_float_path(view->dtype)) {
        const float *now = floats(view->dtype, raw, n, buffers->floats);
        if (update)
            update_floats(update, now, (float *)floats(view->dtype, raw_previous, n, buffers->floats_previous), n,
                          raw_previous + AHEAD * item);
        float_block(tally, now, n, raw + AHEAD * item);
    } else {
        const double *now = doubles(view->dtype, raw, n, buffers->doubles);
        if (update)
            update_doubles(update, view, raw, raw_previous, now, buffers, n);
        double_block(tally, now, n);
    }
    const int is_done = view->dtype == FLOAT32 && raw_previous != buffers->raw_previous; /* by update_floats */
    if (update && !is_done)
        memcpy(view->previous + from * item, raw, (size_t)n * item);
}

static void strip(Tally *tally, Tally *update, const View *view, size_t from, size_t to) {
    Buffers buffers;
    for (size_t at = from; at < to; at += BLOCK)
        one_block(tally, update, view, at, to - at < BLOCK ? (int)(to - at) : BLOCK, &buffers);
    tally->unfolded += to - from;
    if (update)
        update->unfolded += to - from;
}

/* ---- sum of squares ------------------------------------------------------------------------------------ */

static void add_squares(const float *values, double lanes[LANES]) {
    double block[LANES] = {0};
    for (int i = 0; i < BLOCK; i += LANES)
        for (int j = 0; j < LANES; j++) {
            double value = values[i + j];
            block[j] += value * value;
        }
    for (int j = 0; j < LANES; j++)
        lanes[j] += block[j];
}

static uint64_t add_finite_squares(const double *values, int n, double lanes[LANES]) {
    double block[LANES] = {0};
    uint64_t others = 0;
    for (int i = 0; i < n; i++) {
        if (isfinite(values[i]))
            block[i % LANES] += values[i] * values[i];
        else
            others++;
    }
    for (int j = 0; j < LANES; j++)
        lanes[j] += block[j];
    return others;
}

static int all_finite(const double lanes[LANES]) {
    int finite = 1;
    for (int j = 0; j < LANES; j++)
        finite &= isfinite(lanes[j]) != 0;
    return finite;
}

static uint64_t squares(const View *view, size_t from, size_t to, double *sum) {
    Buffers buffers;
    double lanes[LANES] = {0};
    uint64_t others = 0;
    for (size_t at = from; at < to; at += BLOCK) {
        int n = to - at < BLOCK ? (int)(to - at) : BLOCK;
        const char *raw = items(view, at, n, buffers.raw);
        if (is_float_path(view->dtype)) {
            const float *values = floats(view->dtype, raw, n, buffers.floats);
            double with_block[LANES];
            memcpy(with_block, lanes, sizeof lanes);
            if (n == BLOCK)
                add_squares(values, with_block);
            if (n == BLOCK && all_finite(with_block)) { /* squares of floats cannot overflow a double */
                memcpy(lanes, with_block, sizeof lanes);
                continue;
            }
            for (int i = 0; i < n; i++)
                buffers.doubles[i] = values[i];
            others += add_finite_squares(buffers.doubles, n, lanes);
        } else {
            others += add_finite_squares(doubles(view->dtype, raw, n, buffers.doubles), n, lanes);
        }
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    *sum = lanes[0];
    return others;
}

/* ---- units --------------------------------------------------------------------------------------------- */

static void mark_floats(const float *values, int n, float low, float high, uint8_t *active) {
    for (int i = 0; i < n; i++)
        active[i] |= (uint8_t)((values[i] > low) & (values[i] < high) & (values[i] != 0));
}

static void mark_doubles(const double *values, int n, double low, double high, uint8_t *active) {
    for (int i = 0; i < n; i++)
        active[i] |= (uint8_t)((values[i] > low) & (values[i] < high) & (values[i] != 0));
}

/* The float f for which every float v compares as with `bound`: v > f, or v < f when `upwards`. */
static float bound_as_float(double bound, int upwards) {
    float narrow = (float)bound;
    if (upwards ? narrow < bound : narrow > bound)
        narrow = nextafterf(narrow, upwards ? INFINITY : -INFINITY);
    return narrow;
}

static void mark(const View *view, size_t from, int n, double low, double high, uint8_t *active, Buffers *buffers) {
    const char *raw = items(view, from, n, buffers->raw);
    if (is_float_path(view->dtype))
        mark_floats(floats(view->dtype, raw, n, buffers->floats), n, bound_as_float(low, 0),
                    bound_as_float(high, 1), active);
    else
        mark_doubles(doubles(view->dtype, raw, n, buffers->doubles), n, low, high, active);
}

static void units_in_rows(const View *view, size_t units, double low, double high, uint8_t *active) {
    Buffers buffers;
    for (size_t row = 0; row * units < view->count; row++) {
        for (size_t unit = 0; unit < units; unit += BLOCK) {
            int n = units - unit < BLOCK ? (int)(units - unit) : BLOCK;
            mark(view, row * units + unit, n, low, high, active + unit, &buffers);
        }
        if (row % 8 == 7 && memchr(active, 0, units) == NULL)
            return;
    }
}

static int any_active(const View *view, size_t from, size_t n, double low, double high, Buffers *buffers) {
    uint8_t active[BLOCK];
    for (size_t at = 0; at < n; at += BLOCK) {
        int part = n - at < BLOCK ? (int)(n - at) : BLOCK;
        memset(active, 0, sizeof active);
        mark(view, from + at, part, low, high, active, buffers);
        if (memchr(active, 1, (size_t)part))
            return 1;
    }
    return 0;
}

static void units(const View *view, size_t count, size_t inner, double low, double high, uint8_t *active) {
    Buffers buffers;
    if (inner == 1) {
        units_in_rows(view, count, low, high, active);
        return;
    }
    size_t plane = count * inner;
    for (size_t from = 0; from < view->count; from += plane) {
        for (size_t unit = 0; unit < count; unit++)
            if (!active[unit])
                active[unit] = (uint8_t)any_active(view, from + unit * inner, inner, low, high, &buffers);
        if (memchr(active, 0, count) == NULL)
            return;
    }
}

const Passes NAMED(passes_, VARIANT) = {QUOTED(VARIANT), strip, fold_pairs, squares, units};
