// One sketch, and the predictor of counts along one half of it. See class Walk in codec_twin.py.
//
// Four predictions of the next count compete: the smoothed neighbours, their trend, the mirrored bin of the
// positive half, the same bin of the previous row. The one with the smallest recent error is taken.

#ifndef NETDEBUG_WALK_H
#define NETDEBUG_WALK_H

#include "bits.h"

enum { BINS = 4096, HALF = 2048, LAST_FINITE = 0x7F7, GUESSES = 4 };

static const uint64_t CAP = (uint64_t)1 << 40;  // guesses and averages stay far from overflow

typedef struct {
    uint64_t count[BINS];
    uint16_t bin[BINS];  // the occupied ones, ascending
    int used;
    int low[2], top[2];  // first and last occupied finite bin of each half, 0 if it is empty
} Row;

static inline uint64_t capped(uint64_t v) {
    return v < CAP ? v : CAP;
}

// All averages are fixed-point numbers, scaled by 16.
typedef struct {
    const uint64_t *mirror, *previous;  // NULL where there is none
    uint64_t last[3];                   // counts of the bins before, newest first
    uint64_t level, surprise, gap;
    uint64_t error[GUESSES], guess[GUESSES];
} Walk;

static inline uint64_t follow(uint64_t average, uint64_t v, int shift) {
    return average - (average >> shift) + (v << (4 - shift));
}

static inline int parameter(uint64_t average) {
    return bit_length(average * 5 >> 7);
}

// Bins of the next octave are twice as wide, so counts are expected to double.
static inline void enter_bin(Walk *w, int h) {
    if (h & 7) return;
    w->level *= 2;
    for (int i = 0; i < 3; i++) w->last[i] = capped(w->last[i] * 2);
}

static inline void forget(Walk *w) {
    w->level = 0;
    memset(w->last, 0, sizeof w->last);
}

// Without a mirror or a previous row, the twin repeats the first guess, which is never better.
static inline int is_there(const Walk *w, int guess) {
    return guess < 2 || (guess == 2 ? w->mirror : w->previous) != NULL;
}

static inline uint64_t best_guess(Walk *w, int h) {
    uint64_t up = 3 * w->last[0], *guess = w->guess;
    guess[0] = (w->level + 8) >> 4;
    guess[1] = up > w->last[2] ? (up - w->last[2]) >> 1 : 0;
    if (w->mirror) guess[2] = capped(w->mirror[h]);
    if (w->previous) guess[3] = capped(w->previous[h]);
    uint64_t best = guess[0], least = w->error[0];
    for (int i = 1; i < GUESSES; i++) {  // the winner is unpredictable, so no branches
        if (!is_there(w, i)) continue;
        best = w->error[i] < least ? guess[i] : best;
        least = w->error[i] < least ? w->error[i] : least;
    }
    return best;
}

static inline void learn(Walk *w, uint64_t count, uint64_t code) {
    uint64_t v = capped(count);
    for (int i = 0; i < GUESSES; i++) {
        if (!is_there(w, i)) continue;
        uint64_t off = v > w->guess[i] ? v - w->guess[i] : w->guess[i] - v;
        w->error[i] = follow(w->error[i], off, 3);
    }
    w->surprise = follow(w->surprise, capped(code), 2);
    w->level = follow(w->level, v, 2);
    w->last[2] = w->last[1];
    w->last[1] = w->last[0];
    w->last[0] = v;
}

static inline Walk begin(const Row *row, const Row *before, int half) {
    Walk w = {.surprise = 16, .gap = 16};
    w.mirror = half ? row->count : NULL;
    w.previous = before ? before->count + half * HALF : NULL;
    return w;
}

// The expected range of a half: that of the previous row, else of the other half, else bins around 1.
static inline void expected_range(const Row *row, const Row *before, int half, int *low, int *top) {
    *low = before ? before->low[half] : half ? row->low[0] : 800;
    *top = before ? before->top[half] : half ? row->top[0] : 1000;
}

#endif
