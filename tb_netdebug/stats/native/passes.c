/* The loops over values. Compiled once for each instruction set, with VARIANT naming the result; the plain loops
   are written so that the compiler turns them into vectors, the hottest one is spelled out for AVX-512. */
#include "passes.h"

#include <math.h>
#include <string.h>

#include "values.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)
#define TEXT(a) #a
#define QUOTED(a) TEXT(a)

#define SIGN 0x80000000u
#define EXPONENT 0x7F800000u
#define QUIET_NAN 0x7FC00000u

/* ---- bins ---------------------------------------------------------------------------------------------- */

/* The top 12 bits; subnormals and NaN whose upper mantissa bits are zero move up one bin, away from 0 and Inf. */
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

/* ---- a block of floats, whatever its values ------------------------------------------------------------ */

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
        bits[i] = QUIET_NAN; /* left out of everything like any NaN, and not counted below */
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

/* ---- a full block of floats inside the window: two values a store -------------------------------------- */

/* Asking whether the counter has wrapped around costs nothing beside the store. */
static inline __attribute__((always_inline)) void count_pair(Tally *tally, uint16_t pair) {
    if (__builtin_expect(++tally->pairs.one[pair] == 0, 0)) {
        tally->carried[pair & 0xFF] += 1u << 16;
        tally->carried[pair >> 8] += 1u << 16;
    }
}

/* The pairs of LANES values: spelled out, as the compiler would not unroll it. */
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

/* What one look at a block found: the sums, the extremes, and which values lie outside the window. */
typedef struct {
    double sum[LANES], squares[LANES];
    float low[LANES], high[LANES];
    uint64_t outside[BLOCK / 64]; /* a bit a value */
    int any;
} Look;

/* Values i and i + LANES make a pair: this is where vectors have them. */
static inline int pair_of(int place) { return place / (2 * LANES) * LANES + place % LANES; }
static inline int is_second(int place) { return place / LANES % 2; }

static inline uint32_t bits_at(const float *values, int i) {
    uint32_t bits;
    memcpy(&bits, values + i, sizeof bits);
    return bits;
}

/* All ones unless the value is zero; arithmetic, because a jump here would be guessed wrong half of the time. */
static inline uint32_t if_nonzero(uint32_t bits) { return 0u - (uint32_t)((bits & ~SIGN) != 0); }

/* The window: magnitudes from `first` on, SPAN of them. */
#define SPAN (127u << 20)

static inline uint32_t first_inside(const Tally *tally) { return (tally->base + 1) << 20; }

static inline uint32_t is_outside(uint32_t bits, uint32_t first) {
    uint32_t magnitude = bits & ~SIGN;
    return (magnitude != 0) & (magnitude - first >= SPAN);
}

#ifdef __AVX512F__
/* The loop is bound by the two units that shift, shuffle, compare and convert. So it asks for little of that: sums
   are made by multiplying with one, extremes and windows by integer minima, and codes on halves of values. */
typedef struct {
    __m512d sum0, sum1, squares0, squares1;
    __m512i least, greatest, most_negative; /* of the bits as unsigned, signed and unsigned numbers */
    __m512i smallest, largest;              /* magnitudes but for the zeros, less one; upper halves of magnitudes */
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

/* Stages values i and i + LANES as pairs, for the next LANES of i: their codes. */
static inline __attribute__((always_inline)) __m256i stage_lanes(Lanes *lanes, const float *values, __m512i base) {
    __m512i first = _mm512_loadu_si512(values), second = _mm512_loadu_si512(values + LANES);
    add_values(lanes, values, first);
    add_values(lanes, values + LANES, second);
    /* the upper halves of the first values, each beside that of its partner */
    __m512i upper = _mm512_mask_blend_epi16(0x55555555, second, _mm512_srli_epi32(first, 16));
    __m512i magnitude = _mm512_and_si512(upper, _mm512_set1_epi16(0x7FFF));
    lanes->largest = _mm512_max_epu16(lanes->largest, magnitude);
    __m512i code = _mm512_srli_epi16(_mm512_sub_epi16(_mm512_max_epu16(magnitude, base), base), 4);
    __m512i sign = _mm512_srli_epi16(upper, 8);
    return _mm512_cvtepi16_epi8(_mm512_ternarylogic_epi32(_mm512_set1_epi16(0x80), sign, code, 0xEA));
}

/* The extremes as floats: which of the integers they are depends on the signs there are. */
static inline __attribute__((always_inline)) void store_extremes(const Lanes *lanes, Look *look) {
    __m512i low = _mm512_mask_mov_epi32(lanes->least, _mm512_movepi32_mask(lanes->most_negative), lanes->most_negative);
    __m512i high = _mm512_mask_mov_epi32(lanes->greatest, _mm512_movepi32_mask(lanes->greatest), lanes->least);
    _mm512_storeu_si512(look->low, low);
    _mm512_storeu_si512(look->high, high);
}

/* Stages a block. The histogram's scalar stores and the vector arithmetic use different parts of the core: so the
   pairs of the block before are counted in the same loop. Stores are what limits it, so there are no others. */
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
    (void)ahead; /* the processor sees by itself what is read in such a plain order */
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

enum { MOST_STAND_INS = BLOCK / 16 }; /* in a block; with more, counting value by value is no slower */

/* True when the values outside the window are few and finite; they are then counted here. */
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

/* Two counters at once: the first of each two in `even`, the other in `odd`. */
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

/* Puts the window where the block's largest values are, with one and a half octaves of room above. */
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
        largest = 1016; /* nothing but zeros so far: expect values around one */
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

/* ---- a block of doubles -------------------------------------------------------------------------------- */

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

/* ---- reading values ------------------------------------------------------------------------------------ */

/* Copies items [from, from + n) of a strided view to `out`, in rising order of the flat index. */
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

/* A NaN that arithmetic made has no sign of its own: processors differ. */
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

/* ---- strips -------------------------------------------------------------------------------------------- */

typedef struct {
    _Alignas(64) char raw[BLOCK * 16], raw_previous[BLOCK * 16];
    float floats[BLOCK], floats_previous[BLOCK];
    double doubles[BLOCK], doubles_previous[BLOCK];
} Buffers;

/* Leaves `before` equal to `now`, while both are at hand. */
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

enum { AHEAD = 2 * BLOCK }; /* how many values before they are needed memory is asked for them */

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

/* The float f for which "v > f" (or "v < f" upwards) says of every float v what `bound` says. */
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
