// A sketch as a row of bits: whether it equals the previous row, its bins of zeros, infinities and NaNs, and its
// finite bins. See codec_twin.py.

#ifndef NETDEBUG_ROWS_H
#define NETDEBUG_ROWS_H

#include "walk.h"

enum { NAN_COUNT = 1, POS_INF = 2, NEG_INF = 3, ZEROS = 4 };  // words of a summary's header

// The bins of zeros, infinities and NaNs, whose counts nearly always follow from the header.
static int is_special(int bin) {
    int h = bin & (HALF - 1);
    return h == 0 || h > LAST_FINITE;
}

static uint64_t expected_special(const uint8_t *header, int bin) {
    int word = bin == 0 ? ZEROS : bin == 0x7F8 ? POS_INF : bin == 0xFF8 ? NEG_INF : bin == 0x7FC ? NAN_COUNT : -1;
    return word < 0 ? 0 : read_word(header + 8 * word);
}

static int next_special(int bin) {
    return (bin & (HALF - 1)) == 0 ? bin + 0x7F8 : bin + 1;
}

static int specials_as_expected(const Row *row, const uint8_t *header) {
    for (int bin = 0; bin < BINS; bin = next_special(bin))
        if (row->count[bin] != expected_special(header, bin)) return 0;
    return 1;
}

static void put_specials(Writer *w, const Row *row, const uint8_t *header) {
    int plain = specials_as_expected(row, header);
    put(w, (uint64_t)plain, 1);
    for (int bin = 0; bin < BINS && !plain; bin = next_special(bin)) {
        int n = bit_length(row->count[bin]);
        put(w, (uint64_t)n, 7);
        put_wide(w, row->count[bin], n);
    }
}

static void get_specials(Reader *r, Row *row, const uint8_t *header) {
    int plain = (int)get(r, 1);
    for (int bin = 0; bin < BINS; bin = next_special(bin)) {
        int n = plain ? 0 : (int)get(r, 7);
        if (n > 64) r->failed = 1;
        if (r->failed) return;
        row->count[bin] = plain ? expected_special(header, bin) : get_wide(r, n);
    }
}

static int same_sketch(const Row *a, const Row *b) {
    if (a->used != b->used || memcmp(a->bin, b->bin, sizeof a->bin[0] * (size_t)a->used)) return 0;
    for (int i = 0; i < a->used; i++)
        if (a->count[a->bin[i]] != b->count[a->bin[i]]) return 0;
    return 1;
}

// A bin takes at most 94 bits, a gap before it 24 more, a special bin 71; and eight bytes are stored at a time.
enum { MOST_CODED_BYTES = BINS * 15 + 1024 };

// Inlined once for each half, with the writer in registers.
static inline __attribute__((always_inline)) void put_half(Writer *out, const Row *row, const Row *before, int half) {
    Writer copy = *out, *w = &copy;
    const uint64_t *count = row->count + half * HALF;
    int low, top;
    expected_range(row, before, half, &low, &top);
    put_golomb(w, zigzag(row->low[half] - low), 2);
    put_golomb(w, zigzag(row->top[half] - top), 1);
    Walk walk = begin(row, before, half);
    for (int h = row->low[half]; h && h <= row->top[half]; h++) {
        uint64_t occupied = h == row->low[half] || h == row->top[half];
        enter_bin(&walk, h);
        if (!occupied && walk.last[0] == 0) {
            uint64_t gap = 0;
            while (!count[h]) h++, gap++;
            put_golomb(w, gap, parameter(walk.gap));
            walk.gap = follow(walk.gap, gap, 2);
            if (gap) forget(&walk);
            occupied = 1;
        }
        uint64_t guess = best_guess(&walk, h);
        uint64_t code = fold(count[h] - occupied, guess && occupied ? guess - 1 : guess);
        put_rice(w, code, parameter(walk.surprise));
        learn(&walk, count[h], code);
    }
    *out = copy;
}

static void get_half(Reader *r, Row *row, const Row *before, int half) {
    uint64_t *count = row->count + half * HALF;
    int low, top;
    expected_range(row, before, half, &low, &top);
    int64_t from = low + unzigzag(get_golomb(r, 2)), to = top + unzigzag(get_golomb(r, 1));
    if (r->failed || from < 0 || to > LAST_FINITE || from > to || (from == 0) != (to == 0)) {
        r->failed = 1;
        return;
    }
    row->low[half] = (int)from;
    row->top[half] = (int)to;
    Walk walk = begin(row, before, half);
    for (int h = row->low[half]; h && h <= row->top[half]; h++) {
        uint64_t occupied = h == row->low[half] || h == row->top[half];
        enter_bin(&walk, h);
        if (!occupied && walk.last[0] == 0) {
            uint64_t gap = get_golomb(r, parameter(walk.gap));
            if (r->failed || gap > (uint64_t)(row->top[half] - h)) {
                r->failed = 1;
                return;
            }
            h += (int)gap;
            walk.gap = follow(walk.gap, gap, 2);
            if (gap) forget(&walk);
            occupied = 1;
        }
        uint64_t guess = best_guess(&walk, h);
        uint64_t code = get_rice(r, parameter(walk.surprise));
        count[h] = unfold(code, guess && occupied ? guess - 1 : guess) + occupied;
        if (r->failed || (occupied && !count[h])) {
            r->failed = 1;
            return;
        }
        learn(&walk, count[h], code);
    }
}

static void list_half(Row *row, int half) {
    for (int h = row->low[half]; h && h <= row->top[half]; h++)
        if (row->count[half * HALF + h]) row->bin[row->used++] = (uint16_t)(half * HALF + h);
}

static void list_bins(Row *row) {
    for (int half = 0; half < 2; half++) {
        if (row->count[half * HALF]) row->bin[row->used++] = (uint16_t)(half * HALF);
        list_half(row, half);
        for (int h = LAST_FINITE + 1; h < HALF; h++)
            if (row->count[half * HALF + h]) row->bin[row->used++] = (uint16_t)(half * HALF + h);
    }
}

static void empty(Row *row) {
    for (int i = 0; i < row->used; i++) row->count[row->bin[i]] = 0;
    row->used = row->low[0] = row->low[1] = row->top[0] = row->top[1] = 0;
}

static void copy(Row *row, const Row *from) {
    for (int i = 0; i < from->used; i++) row->count[from->bin[i]] = from->count[from->bin[i]];
    memcpy(row->bin, from->bin, sizeof row->bin[0] * (size_t)from->used);
    memcpy(row->low, from->low, sizeof row->low);
    memcpy(row->top, from->top, sizeof row->top);
    row->used = from->used;
}

static void encode_row(Writer *w, const Row *row, const Row *before, const uint8_t *header) {
    if (reserve(w, MOST_CODED_BYTES)) return;
    if (before) {
        int same = same_sketch(row, before);
        put(w, (uint64_t)same, 1);
        if (same) return;
    }
    put_specials(w, row, header);
    put_half(w, row, before, 0);
    put_half(w, row, before, 1);
}

static void decode_row(Reader *r, Row *row, const Row *before, const uint8_t *header) {
    if (before && get(r, 1)) {
        copy(row, before);
        return;
    }
    get_specials(r, row, header);
    if (!r->failed) get_half(r, row, before, 0);
    if (!r->failed) get_half(r, row, before, 1);
    list_bins(row);
}

#endif
