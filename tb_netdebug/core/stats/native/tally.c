#include "tally.h"

#include <math.h>
#include <string.h>

/* With fewer values than this, clearing and folding the pair table costs more than it saves. */
static const size_t PAIRS_PAY_OFF = 8192;

/* A tensor whose values fit no window after so many tries is counted value by value. */
enum { MOST_PLACEMENTS = 3 };

/* Far below the limit of a 32-bit counter, however many values one strip adds. */
static const uint64_t FOLD_AFTER = UINT64_C(1) << 31;

void folded_start(Folded *folded) {
    folded->lowest = BINS / 2;
    folded->highest = 0;
    folded->min = INFINITY;
    folded->max = -INFINITY;
    folded->overflow = 0;
}

void folded_cover(Folded *folded, uint32_t lowest, uint32_t highest) {
    folded->lowest = lowest < folded->lowest ? lowest : folded->lowest;
    folded->highest = highest > folded->highest ? highest : folded->highest;
}

static void move_range(Folded *to, Folded *from, uint32_t first, uint32_t end) {
    for (uint32_t bin = first; bin < end; bin++)
        to->counts[bin] += from->counts[bin];
    memset(from->counts + first, 0, (end - first) * sizeof *from->counts);
}

void folded_move(Folded *to, Folded *from) {
    for (uint32_t sign = 0; sign < BINS; sign += BINS / 2) {
        move_range(to, from, sign, sign + 1);
        if (from->lowest <= from->highest)
            move_range(to, from, sign + from->lowest, sign + from->highest + 1);
    }
    folded_cover(to, from->lowest, from->highest);
    to->min = from->min < to->min ? from->min : to->min;
    to->max = from->max > to->max ? from->max : to->max;
    to->overflow += from->overflow;
}

void tally_start(Tally *tally, size_t count, void (*fold_pairs)(Tally *)) {
    tally->fold_pairs = fold_pairs;
    tally->use_pairs = count >= PAIRS_PAY_OFF;
    tally->base = 0;
    tally->placements = 0;
    tally->blocks = tally->misses = 0;
    tally->pending = 0;
    tally->stand_ins = 0;
    tally->unfolded = 0;
    folded_start(&tally->folded);
    tally_start_strip(tally);
}

/* If too many blocks of the last strip lay outside the window, places it anew or gives up pairs. */
static void reconsider_window(Tally *tally) {
    if (4 * tally->misses <= tally->blocks)
        return;
    tally_fold(tally); /* pairs of the old window */
    tally->base = 0;
    tally->use_pairs = ++tally->placements < MOST_PLACEMENTS;
}

void tally_start_strip(Tally *tally) {
    if (tally->use_pairs)
        reconsider_window(tally);
    if (tally->unfolded > FOLD_AFTER)
        tally_fold(tally);
    tally->blocks = tally->misses = 0;
    memset(tally->sum, 0, sizeof tally->sum);
    memset(tally->squares, 0, sizeof tally->squares);
}

static void fold_range(Tally *tally, uint32_t from, uint32_t to) {
    for (int copy = 0; copy < tally->singles_used; copy++) {
        uint32_t *singles = tally->singles[copy];
        for (uint32_t bin = from; bin < to; bin++)
            tally->folded.counts[bin] += singles[bin];
        memset(singles + from, 0, (to - from) * sizeof *singles);
    }
}

static void fold_singles(Tally *tally) {
    for (uint32_t sign = 0; sign < BINS; sign += BINS / 2) {
        fold_range(tally, sign, sign + 1);
        if (tally->folded.lowest <= tally->folded.highest)
            fold_range(tally, sign + tally->folded.lowest, sign + tally->folded.highest + 1);
    }
    tally->singles_used = 0;
}

void tally_fold(Tally *tally) {
    if (tally->pairs_used)
        tally->fold_pairs(tally);
    if (tally->singles_used)
        fold_singles(tally);
    tally->unfolded = 0;
}

static double fold_lanes(const double lanes[LANES]) {
    double folded[LANES];
    memcpy(folded, lanes, sizeof folded);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            folded[j] += folded[j + half];
    return folded[0];
}

void tally_end_strip(Tally *tally, double sums[2]) {
    sums[0] = fold_lanes(tally->sum);
    sums[1] = fold_lanes(tally->squares);
}
