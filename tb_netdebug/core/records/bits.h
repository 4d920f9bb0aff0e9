// Bit-level writer and reader, least significant bit first, with Rice and Golomb codes. See codec_bits.py.

#ifndef NETDEBUG_BITS_H
#define NETDEBUG_BITS_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { UNARY_LIMIT = 24, GOLOMB_LIMIT = 32 };

static inline uint64_t read_word(const uint8_t *p) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static inline int bit_length(uint64_t v) {
    return v ? 64 - __builtin_clzll(v) : 0;
}

static inline void write_word(uint8_t *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}

// Every number stores eight bytes, and the position advances by those that are complete. So there is no branch to
// mispredict. `reserve` makes room beforehand.
typedef struct {
    uint8_t *data;
    size_t size, room;
    uint64_t held;
    int bits;  // fewer than 8 between numbers
    int failed;
} Writer;

static int reserve(Writer *w, size_t bytes) {
    if (w->size + bytes <= w->room) return 0;
    size_t room = w->room * 2 + bytes;
    uint8_t *data = PyMem_RawRealloc(w->data, room);
    if (!data) return w->failed = 1;
    w->data = data;
    w->room = room;
    return 0;
}

static inline void put(Writer *w, uint64_t v, int n) {  // n <= 56 and v < 2^n
    w->held |= v << w->bits;
    w->bits += n;
    write_word(w->data + w->size, w->held);
    w->size += (size_t)w->bits >> 3;
    w->held >>= w->bits & ~7;
    w->bits &= 7;
}

static inline void put_wide(Writer *w, uint64_t v, int n) {
    if (n > 32) {
        put(w, v & 0xFFFFFFFF, 32);
        put(w, v >> 32, n - 32);
    } else {
        put(w, v, n);
    }
}

static void finish_row(Writer *w) {
    w->size += w->bits > 0;  // the held bits are stored already
    w->held = 0;
    w->bits = 0;
}

typedef struct {
    const uint8_t *data;
    size_t bit, end;  // positions in bits
    int failed;
} Reader;

static inline uint64_t peek(const Reader *r) {  // at least 57 bits, zeros beyond the end
    size_t at = r->bit >> 3, left = (r->end >> 3) - at;
    uint8_t tail[8] = {0};
    if (left < 8) memcpy(tail, r->data + at, left);
    return read_word(left < 8 ? tail : r->data + at) >> (r->bit & 7);
}

static inline uint64_t get(Reader *r, int n) {  // n <= 57
    if (r->failed || (size_t)n > r->end - r->bit) {
        r->failed = 1;
        return 0;
    }
    uint64_t v = peek(r) & (((uint64_t)1 << n) - 1);
    r->bit += (size_t)n;
    return v;
}

static inline uint64_t get_wide(Reader *r, int n) {
    if (n <= 32) return get(r, n);
    uint64_t low = get(r, 32);
    return low | get(r, n - 32) << 32;
}

static inline int get_unary(Reader *r, int limit) {  // ones, then a zero unless the limit is reached
    int n = __builtin_ctzll(~peek(r) | (uint64_t)1 << limit);
    get(r, n < limit ? n + 1 : n);
    return n;
}

static inline void put_rice(Writer *w, uint64_t v, int k) {
    uint64_t quotient = v >> k;
    if (quotient < UNARY_LIMIT && k <= 32) {
        uint64_t rest = v & (((uint64_t)1 << k) - 1);
        put(w, (((uint64_t)1 << quotient) - 1) | rest << (quotient + 1), (int)quotient + 1 + k);
    } else if (quotient < UNARY_LIMIT) {
        put(w, ((uint64_t)1 << quotient) - 1, (int)quotient + 1);
        put_wide(w, v & (((uint64_t)1 << k) - 1), k);
    } else {
        int n = bit_length(v);
        put(w, ((uint64_t)1 << UNARY_LIMIT) - 1, UNARY_LIMIT);
        put(w, (uint64_t)n - 1, 6);
        put_wide(w, v, n);
    }
}

static inline uint64_t get_rice(Reader *r, int k) {
    int quotient = get_unary(r, UNARY_LIMIT);
    if (quotient < UNARY_LIMIT) return (uint64_t)quotient << k | get_wide(r, k);
    return get_wide(r, (int)get(r, 6) + 1);
}

static inline void put_golomb(Writer *w, uint64_t v, int k) {  // exponential Golomb code; v below 2^32
    uint64_t x = (v >> k) + 1;
    int n = bit_length(x) - 1;
    put(w, ((uint64_t)1 << n) - 1, n + 1);
    put_wide(w, x & (((uint64_t)1 << n) - 1), n);
    put(w, v & (((uint64_t)1 << k) - 1), k);
}

static inline uint64_t get_golomb(Reader *r, int k) {
    int n = get_unary(r, GOLOMB_LIMIT);
    uint64_t x = ((uint64_t)1 << n | get(r, n)) - 1;
    return x << k | get(r, k);
}

static inline uint64_t zigzag(int64_t v) {
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v) {
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

// A count is never negative: above twice the guess only one side is left.
static inline uint64_t fold(uint64_t v, uint64_t guess) {
    uint64_t above = 2 * (v - guess), near = v >= guess ? above : ~above;
    return v > 2 * guess ? v : near;
}

static inline uint64_t unfold(uint64_t code, uint64_t guess) {
    if (code > 2 * guess) return code;
    return code & 1 ? guess - (code >> 1) - 1 : guess + (code >> 1);
}

#endif
