/* The bin of a value, and counting of floats value by value. Part of passes.c. */
#ifndef NETDEBUG_BINS_H
#define NETDEBUG_BINS_H

#include <math.h>
#include <string.h>

#include "tally.h"

#define SIGN 0x80000000u
#define EXPONENT 0x7F800000u
#define QUIET_NAN 0x7FC00000u

/* The top 12 bits; subnormals and NaNs with zero upper mantissa bits move up one bin, away from 0 and Inf. */
static inline uint32_t bin_of(uint32_t bits) {
    uint32_t exponent = bits & 0x7FF00000u;
    uint32_t moved = ((exponent == 0) | (exponent == EXPONENT)) & ((bits & 0xFFFFFu) != 0);
    return (bits >> 20) + moved;
}

static void count_singles(Tally *tally, const uint16_t *bins, int n) {
    int copies = n <= 256 && tally->singles_used < 2 ? 1 : COPIES;
    if (copies > tally->singles_used)
        tally->singles_used = copies;
    int i = 0;
    if (copies == COPIES)
        for (; i + COPIES <= n; i += COPIES)
            for (int copy = 0; copy < COPIES; copy++)
                tally->singles[copy][bins[i + copy]]++;
    for (; i < n; i++)
        tally->singles[0][bins[i]]++;
}

static void add_lanes(Tally *tally, const double sum[LANES], const double squares[LANES]) {
    for (int j = 0; j < LANES; j++) {
        tally->sum[j] += sum[j];
        tally->squares[j] += squares[j];
    }
}

static void widen(Tally *tally, const float low[LANES], const float high[LANES]) {
    float min = low[0], max = high[0];
    for (int j = 1; j < LANES; j++) {
        min = low[j] < min ? low[j] : min;
        max = high[j] > max ? high[j] : max;
    }
    tally->folded.min = min < tally->folded.min ? min : tally->folded.min;
    tally->folded.max = max > tally->folded.max ? max : tally->folded.max;
}

static inline float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void plain_floats(Tally *tally, const float *values, int n) {
    double sum[LANES] = {0}, squares[LANES] = {0};
    float low[LANES], high[LANES];
    uint32_t bits[BLOCK], lowest[LANES], highest[LANES] = {0};
    uint16_t bins[BLOCK];
    int padded = (n + LANES - 1) / LANES * LANES;
    memcpy(bits, values, (size_t)n * sizeof *bits);
    for (int i = n; i < padded; i++)
        bits[i] = QUIET_NAN; /* padding: ignored in sums and extremes like any NaN, and not counted below */
    for (int j = 0; j < LANES; j++) {
        low[j] = INFINITY;
        high[j] = -INFINITY;
        lowest[j] = ~SIGN;
    }
    for (int i = 0; i < padded; i += LANES)
        for (int j = 0; j < LANES; j++) {
            uint32_t word = bits[i + j], magnitude = word & ~SIGN, nonzero = magnitude ? magnitude : ~SIGN;
            lowest[j] = nonzero < lowest[j] ? nonzero : lowest[j];
            highest[j] = magnitude > highest[j] ? magnitude : highest[j];
            uint32_t finite = (word & EXPONENT) == EXPONENT ? 0 : ~0u;
            double value = from_bits(word & finite);
            float at_least = from_bits((word & finite) | (EXPONENT & ~finite));
            float at_most = from_bits((word & finite) | ((EXPONENT | SIGN) & ~finite));
            sum[j] += value;
            squares[j] += value * value;
            low[j] = at_least < low[j] ? at_least : low[j];
            high[j] = at_most > high[j] ? at_most : high[j];
        }
    for (int i = 0; i < padded; i++)
        bins[i] = (uint16_t)bin_of(bits[i]);
    add_lanes(tally, sum, squares);
    widen(tally, low, high);
    for (int j = 1; j < LANES; j++) {
        lowest[0] = lowest[j] < lowest[0] ? lowest[j] : lowest[0];
        highest[0] = highest[j] > highest[0] ? highest[j] : highest[0];
    }
    folded_cover(&tally->folded, lowest[0] >> 20, bin_of(highest[0]));
    count_singles(tally, bins, n);
}

#endif
