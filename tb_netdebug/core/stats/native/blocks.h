/* Counting of a block into a tally: two values per store where they lie inside the window, else value by value; and
   folding of the pairs into bins. Part of passes.c. */
#ifndef NETDEBUG_BLOCKS_H
#define NETDEBUG_BLOCKS_H

#include "scan.h"

enum { MOST_STAND_INS = BLOCK / 16 }; /* per block; with more, counting value by value is no slower */

/* Counts the values outside the window if they are few and finite, and returns whether they are. */
static int replace_outside(Tally *tally, const float *values, const Look *look) {
    uint16_t places[MOST_STAND_INS], bins[MOST_STAND_INS];
    int n = 0;
    for (int i = 0; i < BLOCK / 64; i++)
        for (uint64_t mask = look->outside[i]; mask; mask &= mask - 1) {
            int place = 64 * i + __builtin_ctzll(mask);
            uint32_t bits = bits_at(values, place);
            if (n == MOST_STAND_INS || (bits & EXPONENT) == EXPONENT)
                return 0;
            places[n] = (uint16_t)place;
            bins[n++] = (uint16_t)bin_of(bits);
        }
    for (int i = 0; i < n; i++) {
        tally->staged[pair_of(places[i])] &= is_second(places[i]) ? 0x00FF : 0xFF00;
        tally->singles[0][bins[i]]++;
        folded_cover(&tally->folded, bins[i] & 0x7FF, bins[i] & 0x7FF);
    }
    tally->singles_used = tally->singles_used ? tally->singles_used : 1;
    tally->stand_ins += (uint64_t)n;
    return 1;
}

static uint32_t bin_of_code(uint32_t code, uint32_t base) {
    uint32_t magnitude = code & 0x7F, sign = code >> 7;
    return magnitude ? (sign << 11) | (base + magnitude) : sign << 11;
}

/* Folds two 16-bit counters at once: the first of each two into `even`, the other into `odd`. */
static void fold_row(uint32_t cells[CODES / 2], uint32_t even[CODES / 2], uint32_t odd[CODES / 2], uint32_t *total) {
    uint32_t any = 0, sum = 0;
    for (int i = 0; i < CODES / 2; i++)
        any |= cells[i];
    if (!any)
        return;
    for (int i = 0; i < CODES / 2; i++) {
        uint32_t first = cells[i] & 0xFFFF, second = cells[i] >> 16;
        even[i] += first;
        odd[i] += second;
        sum += first + second;
        cells[i] = 0;
    }
    *total += sum;
}

/* 32 bits are enough: the tally is folded long before they overflow. */
static void fold_pairs(Tally *tally) {
    uint32_t even[CODES / 2] = {0}, odd[CODES / 2] = {0}, *codes = tally->carried;
    if (tally->pending)
        count_staged(tally);
    for (int row = 0; row < CODES; row++)
        fold_row(tally->pairs.two + CODES / 2 * row, even, odd, codes + row);
    codes[0] -= (uint32_t)tally->stand_ins;
    for (uint32_t code = 0; code < CODES; code++) {
        uint32_t count = codes[code] + (code % 2 ? odd : even)[code / 2];
        if (count)
            tally->folded.counts[bin_of_code(code, tally->base)] += count;
    }
    folded_cover(&tally->folded, tally->base, tally->base + 127);
    memset(codes, 0, sizeof tally->carried);
    tally->stand_ins = 0;
    tally->pending = tally->pairs_used = 0;
}

/* Places the window at the largest values of the block, with one and a half octaves of room above. */
static void place_window(Tally *tally, const float *values) {
    uint32_t largest = 0;
    for (int i = 0; i < BLOCK; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        bits &= ~SIGN;
        bits = bits < EXPONENT ? bits >> 20 : 0;
        largest = bits > largest ? bits : largest;
    }
    if (largest == 0)
        largest = 1016; /* only zeros so far: expect values around one */
    largest += 12;
    if (largest > 0x7F7)
        largest = 0x7F7;
    tally->base = largest - 127 > 7 && largest > 127 ? largest - 127 : 7;
}

/* `ahead`: memory that will be read soon. */
static void full_block(Tally *tally, const float *values, const char *ahead) {
    tally->blocks++;
    if (!tally->use_pairs) {
        plain_floats(tally, values, BLOCK);
        return;
    }
    if (tally->base == 0)
        place_window(tally, values);
    Look look;
    if (tally->pending)
        scan(tally, values, ahead, 1, &look);
    else
        scan(tally, values, ahead, 0, &look);
    tally->pending = !look.any || replace_outside(tally, values, &look);
    if (tally->pending) {
        tally->pairs_used = 1;
        add_lanes(tally, look.sum, look.squares);
        widen(tally, look.low, look.high);
    } else {
        tally->misses++;
        plain_floats(tally, values, BLOCK);
    }
}

static void float_block(Tally *tally, const float *values, int n, const char *ahead) {
    if (n == BLOCK)
        full_block(tally, values, ahead);
    else
        plain_floats(tally, values, n);
}

static void double_block(Tally *tally, const double *values, int n) {
    double sum[LANES] = {0}, squares[LANES] = {0};
    uint16_t bins[BLOCK];
    for (int i = 0; i < n; i++) {
        double value = values[i];
        float narrow = (float)value;
        uint32_t bits;
        if (isfinite(value)) {
            sum[i % LANES] += value;
            squares[i % LANES] += value * value;
            tally->folded.min = value < tally->folded.min ? value : tally->folded.min;
            tally->folded.max = value > tally->folded.max ? value : tally->folded.max;
            if (isinf(narrow)) {
                tally->folded.overflow++;
                narrow = copysignf(3.402823466e+38f, narrow);
            }
            if (narrow == 0 && value != 0)
                narrow = copysignf(1.401298464e-45f, narrow);
        }
        memcpy(&bits, &narrow, sizeof bits);
        bins[i] = (uint16_t)bin_of(bits);
        if (bins[i] & 0x7FF)
            folded_cover(&tally->folded, bins[i] & 0x7FF, bins[i] & 0x7FF);
    }
    add_lanes(tally, sum, squares);
    count_singles(tally, bins, n);
}

#endif
