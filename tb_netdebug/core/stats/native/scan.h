/* One scan of a full block of floats: its sums and extremes, its values staged as pairs of codes, and which of them lie
   outside the window. Part of passes.c; the hottest loop, so it is spelled out for AVX-512. */
#ifndef NETDEBUG_SCAN_H
#define NETDEBUG_SCAN_H

#include "bins.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

/* Checking whether the counter has wrapped costs nothing beside the store. */
static inline __attribute__((always_inline)) void count_pair(Tally *tally, uint16_t pair) {
    if (__builtin_expect(++tally->pairs.one[pair] == 0, 0)) {
        tally->carried[pair & 0xFF] += 1u << 16;
        tally->carried[pair >> 8] += 1u << 16;
    }
}

/* Counts the pairs of LANES values; spelled out, because the compiler would not unroll it. */
static inline __attribute__((always_inline)) void count_pairs(Tally *tally, const uint16_t *staged) {
    count_pair(tally, staged[0]);
    count_pair(tally, staged[1]);
    count_pair(tally, staged[2]);
    count_pair(tally, staged[3]);
    count_pair(tally, staged[4]);
    count_pair(tally, staged[5]);
    count_pair(tally, staged[6]);
    count_pair(tally, staged[7]);
}

static void count_staged(Tally *tally) {
    for (size_t i = 0; i < BLOCK / 2; i += LANES / 2)
        count_pairs(tally, tally->staged + i);
}

/* The result of scanning a block: the sums, the extremes, and which values lie outside the window. */
typedef struct {
    double sum[LANES], squares[LANES];
    float low[LANES], high[LANES];
    uint64_t outside[BLOCK / 64]; /* one bit per value */
    int any;
} Look;

/* Values i and i + LANES make a pair, because vector registers hold them at the same place. */
static inline int pair_of(int place) { return place / (2 * LANES) * LANES + place % LANES; }
static inline int is_second(int place) { return place / LANES % 2; }

static inline uint32_t bits_at(const float *values, int i) {
    uint32_t bits;
    memcpy(&bits, values + i, sizeof bits);
    return bits;
}

/* All ones unless the value is zero; without a branch, which would be mispredicted half of the time. */
static inline uint32_t if_nonzero(uint32_t bits) { return 0u - (uint32_t)((bits & ~SIGN) != 0); }

/* The window: SPAN magnitudes, starting with `first`. */
#define SPAN (127u << 20)

static inline uint32_t first_inside(const Tally *tally) { return (tally->base + 1) << 20; }

static inline uint32_t is_outside(uint32_t bits, uint32_t first) {
    uint32_t magnitude = bits & ~SIGN;
    return (magnitude != 0) & (magnitude - first >= SPAN);
}

#ifdef __AVX512F__
/* The loop is bound by the two units that shift, shuffle, compare and convert. So it uses few of these operations:
   sums are made by multiplying by one, extremes and windows by integer minima, and codes on halves of values. */
typedef struct {
    __m512d sum0, sum1, squares0, squares1;
    __m512i least, greatest, most_negative; /* of the bits as unsigned, signed and unsigned numbers */
    __m512i smallest, largest;              /* of non-zero magnitudes, less one; of upper halves of magnitudes */
} Lanes;

static inline __attribute__((always_inline)) void add_values(Lanes *lanes, const float *values, __m512i bits) {
    const __m512d one = _mm512_set1_pd(1.0);
    __m512d first = _mm512_cvtps_pd(_mm512_castps512_ps256(_mm512_castsi512_ps(bits)));
    __m512d second = _mm512_cvtps_pd(_mm256_loadu_ps(values + 8));
    lanes->sum0 = _mm512_fmadd_pd(first, one, lanes->sum0);
    lanes->sum1 = _mm512_fmadd_pd(second, one, lanes->sum1);
    lanes->squares0 = _mm512_fmadd_pd(first, first, lanes->squares0); /* the product is exact: */
    lanes->squares1 = _mm512_fmadd_pd(second, second, lanes->squares1); /* fusing changes nothing */
    lanes->least = _mm512_min_epu32(lanes->least, bits);
    lanes->greatest = _mm512_max_epi32(lanes->greatest, bits);
    lanes->most_negative = _mm512_max_epu32(lanes->most_negative, bits);
    __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF));
    lanes->smallest = _mm512_min_epu32(lanes->smallest, _mm512_add_epi32(magnitude, _mm512_set1_epi32(-1)));
}

static inline uint64_t outside_lanes(const float *values, __m512i first) {
    __m512i magnitude = _mm512_and_si512(_mm512_loadu_si512(values), _mm512_set1_epi32(0x7FFFFFFF));
    __mmask16 nonzero = _mm512_test_epi32_mask(magnitude, magnitude);
    return _mm512_mask_cmpge_epu32_mask(nonzero, _mm512_sub_epi32(magnitude, first), _mm512_set1_epi32(SPAN));
}

static void mark_outside(const float *values, uint32_t first, Look *look) {
    const __m512i firsts = _mm512_set1_epi32((int)first);
    for (int i = 0; i < BLOCK; i += 64)
        look->outside[i / 64] =
            outside_lanes(values + i, firsts) | outside_lanes(values + i + LANES, firsts) << LANES |
            outside_lanes(values + i + 2 * LANES, firsts) << 2 * LANES |
            outside_lanes(values + i + 3 * LANES, firsts) << 3 * LANES;
}

/* Returns the pairs of codes for values i and i + LANES, for the next LANES of i. */
static inline __attribute__((always_inline)) __m256i stage_lanes(Lanes *lanes, const float *values, __m512i base) {
    __m512i first = _mm512_loadu_si512(values), second = _mm512_loadu_si512(values + LANES);
    add_values(lanes, values, first);
    add_values(lanes, values + LANES, second);
    /* the upper half of each first value, beside that of its partner */
    __m512i upper = _mm512_mask_blend_epi16(0x55555555, second, _mm512_srli_epi32(first, 16));
    __m512i magnitude = _mm512_and_si512(upper, _mm512_set1_epi16(0x7FFF));
    lanes->largest = _mm512_max_epu16(lanes->largest, magnitude);
    __m512i code = _mm512_srli_epi16(_mm512_sub_epi16(_mm512_max_epu16(magnitude, base), base), 4);
    __m512i sign = _mm512_srli_epi16(upper, 8);
    return _mm512_cvtepi16_epi8(_mm512_ternarylogic_epi32(_mm512_set1_epi16(0x80), sign, code, 0xEA));
}

/* The extremes as floats: the signs that occur decide which of the integers they are. */
static inline __attribute__((always_inline)) void store_extremes(const Lanes *lanes, Look *look) {
    __m512i low = _mm512_mask_mov_epi32(lanes->least, _mm512_movepi32_mask(lanes->most_negative), lanes->most_negative);
    __m512i high = _mm512_mask_mov_epi32(lanes->greatest, _mm512_movepi32_mask(lanes->greatest), lanes->least);
    _mm512_storeu_si512(look->low, low);
    _mm512_storeu_si512(look->high, high);
}

/* Stages a block. The scalar stores of the histogram and the vector arithmetic use different parts of the core, so the
   pairs of the previous block are counted in the same loop. Stores are its limit, so there are no others. */
static inline __attribute__((always_inline)) void scan(Tally *tally, const float *values, const char *ahead,
                                                       int with_pending, Look *look) {
    const __m512d zero = _mm512_setzero_pd();
    const __m512i none = _mm512_setzero_si512(), all = _mm512_set1_epi32(-1);
    Lanes lanes = {zero, zero, zero, zero, all, _mm512_set1_epi32(INT32_MIN), none, all, none};
    const __m512i base = _mm512_set1_epi16((short)(tally->base << 4));
    uint16_t *codes = tally->staged;
    for (size_t i = 0; i < BLOCK; i += 2 * LANES, codes += LANES) {
        __builtin_prefetch(ahead + i * sizeof *values);
        __builtin_prefetch(ahead + (i + LANES) * sizeof *values);
        __m256i pairs = stage_lanes(&lanes, values + i, base);
        if (with_pending) {
            count_pairs(tally, codes);
            count_pairs(tally, codes + LANES / 2);
        }
        _mm256_storeu_si256((__m256i *)(void *)codes, pairs);
    }
    const uint32_t first = first_inside(tally);
    const __m512i end = _mm512_set1_epi16((short)((first + SPAN) >> 16));
    look->any = _mm512_cmplt_epu32_mask(lanes.smallest, _mm512_set1_epi32((int)first - 1)) != 0;
    look->any |= _mm512_cmpge_epu16_mask(lanes.largest, end) != 0;
    if (look->any)
        mark_outside(values, first, look);
    _mm512_storeu_pd(look->sum, lanes.sum0);
    _mm512_storeu_pd(look->sum + 8, lanes.sum1);
    _mm512_storeu_pd(look->squares, lanes.squares0);
    _mm512_storeu_pd(look->squares + 8, lanes.squares1);
    store_extremes(&lanes, look);
}
#else
static void mark_outside(const float *values, uint32_t first, Look *look) {
    memset(look->outside, 0, sizeof look->outside);
    for (int i = 0; i < BLOCK; i += LANES) {
        uint32_t mask = 0;
        for (int j = 0; j < LANES; j++)
            mask |= is_outside(bits_at(values, i + j), first) << j;
        look->outside[i / 64] |= (uint64_t)mask << i % 64;
    }
}

static void stage(Tally *tally, const float *values, Look *look) {
    const uint32_t base = tally->base << 20, first = first_inside(tally);
    uint32_t codes[BLOCK], any = 0;
    for (int i = 0; i < BLOCK; i++) {
        uint32_t bits = bits_at(values, i), staged = bits - (base & if_nonzero(bits));
        any |= is_outside(bits, first);
        codes[i] = ((staged >> 20) & 0x7F) | ((staged >> 24) & 0x80);
    }
    for (int i = 0; i < BLOCK; i += 2 * LANES)
        for (int j = 0; j < LANES; j++)
            tally->staged[i / 2 + j] = (uint16_t)(codes[i + j] | (codes[i + LANES + j] << 8));
    look->any = any != 0;
    if (any)
        mark_outside(values, first, look);
}

static inline void scan(Tally *tally, const float *values, const char *ahead, int with_pending, Look *look) {
    (void)ahead; /* hardware prefetching suffices for sequential reads */
    double sum[LANES] = {0}, squares[LANES] = {0};
    float low[LANES], high[LANES];
    if (with_pending)
        count_staged(tally);
    stage(tally, values, look);
    for (int j = 0; j < LANES; j++) {
        low[j] = INFINITY;
        high[j] = -INFINITY;
    }
    for (int i = 0; i < BLOCK; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float value = values[i + j];
            double wide = value;
            sum[j] += wide;
            squares[j] += wide * wide;
            low[j] = value < low[j] ? value : low[j];
            high[j] = value > high[j] ? value : high[j];
        }
    memcpy(look->sum, sum, sizeof sum);
    memcpy(look->squares, squares, sizeof squares);
    memcpy(look->low, low, sizeof low);
    memcpy(look->high, high, sizeof high);
}
#endif

#endif
