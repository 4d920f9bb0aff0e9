// Sketches of packed summaries as a bit stream: every count is predicted, and only the surprise is stored.
//
// `codec_twin.py` is the specification in plain Python; both give the same bytes. A row is one summary. Its
// finite bins are walked from small to large magnitude, first the positive half, then the negative one. Four
// guesses of the next count compete: the smoothed neighbours, their trend, the mirrored bin of the positive
// half, the same bin of the previous row of the same series. The one that was right most lately is taken, and
// the difference goes out as a Rice code whose parameter follows the size of the last differences.

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { HEADER = 80, BINS = 4096, HALF = 2048, LAST_FINITE = 0x7F7, MOST_ROW_BYTES = 1 << 16, UNARY_LIMIT = 24, GUESSES = 4 };
enum { COUNT = 0, NAN_COUNT = 1, POS_INF = 2, NEG_INF = 3, ZEROS = 4 };  // words of the header

static const uint64_t CAP = (uint64_t)1 << 40;  // guesses and averages stay far from overflow

typedef struct {
    uint64_t count[BINS];
    uint16_t bin[BINS];  // the occupied ones, rising
    int used;
    int low[2], top[2];  // occupied finite range of each half, 0 when there is none
} Row;

typedef struct {
    Row rows[2];
    int turn;  // which of the two is the current row
} Pair;

static inline uint64_t read_word(const uint8_t *p) {
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static inline int bit_length(uint64_t v) {
    return v ? 64 - __builtin_clzll(v) : 0;
}

static inline uint64_t capped(uint64_t v) {
    return v < CAP ? v : CAP;
}

// ---- bits, least significant first

typedef struct {
    uint8_t *data;
    size_t size, room;
    uint64_t held;
    int bits;
    int failed;
} Writer;

static void spill(Writer *w) {
    if (w->size + 8 > w->room) {
        size_t room = w->room * 2 + 4096;
        uint8_t *data = PyMem_RawRealloc(w->data, room);
        if (!data) {
            w->failed = 1;
            w->bits = 0;
            return;
        }
        w->data = data;
        w->room = room;
    }
    while (w->bits >= 8) {
        w->data[w->size++] = (uint8_t)w->held;
        w->held >>= 8;
        w->bits -= 8;
    }
}

static inline void put(Writer *w, uint64_t v, int n) {  // n <= 32 and v < 2^n
    w->held |= v << w->bits;
    w->bits += n;
    if (w->bits >= 32) spill(w);
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
    w->bits = (w->bits + 7) & ~7;
    spill(w);
    w->held = 0;
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

// ---- numbers

static inline void put_rice(Writer *w, uint64_t v, int k) {
    uint64_t quotient = v >> k;
    if (quotient < UNARY_LIMIT) {
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
    int n = get_unary(r, 32);
    uint64_t x = ((uint64_t)1 << n | get(r, n)) - 1;
    return x << k | get(r, k);
}

static inline uint64_t zigzag(int64_t v) {
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v) {
    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

// A count is never negative, so that far from a small guess only one side is left.
static inline uint64_t fold(uint64_t v, uint64_t guess) {
    if (v > 2 * guess) return v;
    return v >= guess ? 2 * (v - guess) : 2 * (guess - v) - 1;
}

static inline uint64_t unfold(uint64_t code, uint64_t guess) {
    if (code > 2 * guess) return code;
    return code & 1 ? guess - (code >> 1) - 1 : guess + (code >> 1);
}

// ---- what the coder knows while it walks a half; all averages are 16 times too large

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

// Bins of the next octave are twice as wide.
static inline void enter_bin(Walk *w, int h) {
    if (h & 7) return;
    w->level *= 2;
    for (int i = 0; i < 3; i++) w->last[i] = capped(w->last[i] * 2);
}

static inline void forget(Walk *w) {
    w->level = 0;
    memset(w->last, 0, sizeof w->last);
}

static inline uint64_t best_guess(Walk *w, int h) {
    uint64_t up = 3 * w->last[0], *guess = w->guess;
    guess[0] = (w->level + 8) >> 4;
    guess[1] = up > w->last[2] ? (up - w->last[2]) >> 1 : 0;
    guess[2] = w->mirror ? capped(w->mirror[h]) : guess[0];
    guess[3] = w->previous ? capped(w->previous[h]) : guess[0];
    int best = 0;
    for (int i = 1; i < GUESSES; i++)
        if (w->error[i] < w->error[best]) best = i;
    return guess[best];
}

static inline void learn(Walk *w, uint64_t count, uint64_t code) {
    uint64_t v = capped(count);
    for (int i = 0; i < GUESSES; i++) {
        uint64_t off = v > w->guess[i] ? v - w->guess[i] : w->guess[i] - v;
        w->error[i] = follow(w->error[i], off, 3);
    }
    w->surprise = follow(w->surprise, capped(code), 2);
    w->level = follow(w->level, v, 2);
    w->last[2] = w->last[1];
    w->last[1] = w->last[0];
    w->last[0] = v;
}

static Walk begin(const Row *row, const Row *before, int half) {
    Walk w = {.surprise = 16, .gap = 16};
    w.mirror = half ? row->count : NULL;
    w.previous = before ? before->count + half * HALF : NULL;
    return w;
}

// Where the range of a half is expected: where it was before, else as in the other half, else around 1.
static void expected_range(const Row *row, const Row *before, int half, int *low, int *top) {
    *low = before ? before->low[half] : half ? row->low[0] : 800;
    *top = before ? before->top[half] : half ? row->top[0] : 1000;
}

// ---- bins that are no finite non-zero number: nearly always what the header says

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

// ---- rows

static int same_sketch(const Row *a, const Row *b) {
    if (a->used != b->used || memcmp(a->bin, b->bin, sizeof a->bin[0] * (size_t)a->used)) return 0;
    for (int i = 0; i < a->used; i++)
        if (a->count[a->bin[i]] != b->count[a->bin[i]]) return 0;
    return 1;
}

static void put_half(Writer *w, const Row *row, const Row *before, int half) {
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

static Row *next_row(Pair *pair, int fresh, Row **before) {
    *before = fresh ? NULL : &pair->rows[pair->turn];
    pair->turn ^= 1;
    Row *row = &pair->rows[pair->turn];
    empty(row);
    return row;
}

// ---- packed summaries

static const uint8_t *read_varint(const uint8_t *p, const uint8_t *end, uint64_t *v) {
    *v = 0;
    for (int shift = 0; p < end && shift < 64; shift += 7) {
        uint64_t byte = *p++;
        if (shift == 63 && byte > 1) return NULL;
        *v |= (byte & 127) << shift;
        if (byte < 128) return byte || shift == 0 ? p : NULL;  // only the shortest form comes back the same
    }
    return NULL;
}

static int unpack(Row *row, const uint8_t *p, size_t size) {
    if (size < HEADER) return -1;
    const uint8_t *end = p + size;
    uint64_t gap, bin = 0;
    for (p += HEADER; p < end; bin++) {
        if (!(p = read_varint(p, end, &gap)) || gap >= BINS || (bin += gap) >= BINS) return -1;
        if (!(p = read_varint(p, end, &row->count[bin])) || !row->count[bin]) {
            row->count[bin] = 0;
            return -1;
        }
        row->bin[row->used++] = (uint16_t)bin;
        if (is_special((int)bin)) continue;
        int half = bin >= HALF, h = (int)bin & (HALF - 1);
        if (!row->low[half]) row->low[half] = h;
        row->top[half] = h;
    }
    return 0;
}

static uint8_t *write_varint(uint8_t *p, uint64_t v) {
    for (; v >= 128; v >>= 7) *p++ = (uint8_t)(v | 128);
    *p++ = (uint8_t)v;
    return p;
}

static size_t pack(const Row *row, uint8_t *start) {
    uint8_t *p = start;
    for (int i = 0; i < row->used; i++) {
        p = write_varint(p, (uint64_t)(row->bin[i] - (i ? row->bin[i - 1] + 1 : 0)));
        p = write_varint(p, row->count[row->bin[i]]);
    }
    return (size_t)(p - start);
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

static void encode_row(Writer *w, const Row *row, const Row *before, const uint8_t *header) {
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

// ---- the module

enum { MOST_PACKED = HEADER + BINS * 12 };

typedef struct {
    PyObject *items;  // a tuple of bytes, so that nobody can change it meanwhile
    Py_buffer fresh;
    Pair *pair;
    uint32_t *lengths;
    uint8_t *headers;
    Writer out;
    Py_ssize_t bad;
} Encoding;

static void encode_all(Encoding *e, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n && !e->out.failed; i++) {
        PyObject *item = PyTuple_GET_ITEM(e->items, i);
        const uint8_t *summary = (const uint8_t *)PyBytes_AS_STRING(item);
        Row *before, *row = next_row(e->pair, ((const uint8_t *)e->fresh.buf)[i], &before);
        if (unpack(row, summary, (size_t)PyBytes_GET_SIZE(item)) < 0) {
            e->bad = i;
            return;
        }
        size_t start = e->out.size;
        memcpy(e->headers + i * HEADER, summary, HEADER);
        encode_row(&e->out, row, before, summary);
        finish_row(&e->out);
        e->lengths[i] = (uint32_t)(e->out.size - start);
    }
}

static int prepare_encoding(Encoding *e, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        if (PyBytes_CheckExact(PyTuple_GET_ITEM(e->items, i))) continue;
        PyErr_SetString(PyExc_TypeError, "a packed summary is of type bytes");
        return -1;
    }
    if (e->fresh.len != n) {
        PyErr_SetString(PyExc_ValueError, "fresh needs one byte for each summary");
        return -1;
    }
    e->pair = PyMem_RawCalloc(1, sizeof *e->pair);
    e->lengths = PyMem_RawMalloc((size_t)n * sizeof *e->lengths);
    e->headers = PyMem_RawMalloc((size_t)n * HEADER);
    if (e->pair && e->lengths && e->headers) return 0;
    PyErr_NoMemory();
    return -1;
}

static PyObject *encoding_result(const Encoding *e, Py_ssize_t n) {
    if (e->bad >= 0) return PyErr_Format(PyExc_ValueError, "item %zd is not a packed summary", e->bad);
    if (e->out.failed) return PyErr_NoMemory();
    return Py_BuildValue("y#y#y#", e->headers, n * HEADER, e->lengths, n * (Py_ssize_t)sizeof *e->lengths,
                         e->out.size ? (char *)e->out.data : "", (Py_ssize_t)e->out.size);
}

static PyObject *encode(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *summaries, *result = NULL;
    Encoding e = {.bad = -1};
    if (!PyArg_ParseTuple(args, "Oy*", &summaries, &e.fresh)) return NULL;
    e.items = PySequence_Tuple(summaries);
    Py_ssize_t n = e.items ? PyTuple_GET_SIZE(e.items) : 0;
    if (e.items && prepare_encoding(&e, n) == 0) {
        Py_BEGIN_ALLOW_THREADS;
        encode_all(&e, n);
        Py_END_ALLOW_THREADS;
        result = encoding_result(&e, n);
    }
    PyMem_RawFree(e.pair);
    PyMem_RawFree(e.lengths);
    PyMem_RawFree(e.headers);
    PyMem_RawFree(e.out.data);
    Py_XDECREF(e.items);
    PyBuffer_Release(&e.fresh);
    return result;
}

typedef struct {
    Py_buffer headers, lengths, fresh, stream;
    Pair *pair;
    uint8_t *out;
    size_t *ends;  // where each packed summary ends in `out`
    size_t size, room, limit;
    int damaged, failed;
} Decoding;

static int make_room(Decoding *d) {
    if (d->size + MOST_PACKED <= d->room) return 0;
    size_t room = d->room * 2 + MOST_PACKED;
    uint8_t *out = PyMem_RawRealloc(d->out, room);
    if (!out) return -1;
    d->out = out;
    d->room = room;
    return 0;
}

static void decode_all(Decoding *d, Py_ssize_t n) {
    const uint8_t *headers = d->headers.buf, *stream = d->stream.buf, *lengths = d->lengths.buf;
    size_t at = 0;
    for (Py_ssize_t i = 0; i < n && !d->failed; i++) {
        const uint8_t *p = lengths + 4 * i;
        size_t length = p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
        Row *before, *row = next_row(d->pair, ((const uint8_t *)d->fresh.buf)[i], &before);
        int cut = length > MOST_ROW_BYTES || length > (size_t)d->stream.len - at;
        Reader reader = {stream + at, 0, length * 8, cut};
        if (!reader.failed) decode_row(&reader, row, before, headers + i * HEADER);
        if (reader.failed || d->size > d->limit) {
            d->damaged = 1;
            return;
        }
        at += length;
        d->failed = make_room(d) < 0;
        if (d->failed) return;
        memcpy(d->out + d->size, headers + i * HEADER, HEADER);
        d->size += HEADER + pack(row, d->out + d->size + HEADER);
        d->ends[i] = d->size;
    }
    d->damaged = at != (size_t)d->stream.len;
}

static PyObject *decoding_result(const Decoding *d, Py_ssize_t n) {
    if (d->failed) return PyErr_NoMemory();
    if (d->damaged) {
        PyErr_SetString(PyExc_ValueError, "the sketches are damaged");
        return NULL;
    }
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        size_t start = i ? d->ends[i - 1] : 0;
        PyObject *item = PyBytes_FromStringAndSize((char *)d->out + start, (Py_ssize_t)(d->ends[i] - start));
        if (!item) Py_CLEAR(list);
        else PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *decode(PyObject *Py_UNUSED(module), PyObject *args) {
    Decoding d = {.size = 0};
    Py_ssize_t limit;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*y*n", &d.headers, &d.lengths, &d.fresh, &d.stream, &limit)) return NULL;
    Py_ssize_t n = d.fresh.len;
    d.limit = limit > 0 ? (size_t)limit : 0;
    if (d.lengths.len / 4 != n || d.lengths.len % 4 || d.headers.len / HEADER != n || d.headers.len % HEADER) {
        PyErr_SetString(PyExc_ValueError, "headers, lengths and fresh differ in their number of rows");
    } else {
        d.pair = PyMem_RawCalloc(1, sizeof *d.pair);
        d.ends = PyMem_RawMalloc((size_t)n * sizeof *d.ends);
        d.failed = !d.pair || !d.ends;
        Py_BEGIN_ALLOW_THREADS;
        if (!d.failed) decode_all(&d, n);
        Py_END_ALLOW_THREADS;
        result = decoding_result(&d, n);
    }
    PyMem_RawFree(d.pair);
    PyMem_RawFree(d.ends);
    PyMem_RawFree(d.out);
    PyBuffer_Release(&d.headers);
    PyBuffer_Release(&d.lengths);
    PyBuffer_Release(&d.fresh);
    PyBuffer_Release(&d.stream);
    return result;
}

static PyMethodDef methods[] = {
    {"encode", encode, METH_VARARGS, "encode(summaries, fresh) -> (headers, lengths, stream)"},
    {"decode", decode, METH_VARARGS, "decode(headers, lengths, fresh, stream, limit) -> packed summaries"},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_codec", .m_doc = "Sketches as a bit stream.", .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__codec(void) {
    return PyModule_Create(&definition);
}
