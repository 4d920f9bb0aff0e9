// Decodes the columns of numbers and names in blocks. core/records/columns.py accepts and refuses the same bytes.

#ifndef NETDEBUG_COLUMNS_H
#define NETDEBUG_COLUMNS_H

#include "names.h"
#include "wire.h"

static const uint64_t MOST_ROWS = 1 << 20, MOST_SAMPLES = 1 << 20, MOST_NAMES = 1 << 20, MOST_SCALARS = 1 << 16;
static const uint64_t MOST_CELLS = 1 << 24, MOST_UNITS = 1u << 31, MOST_COUNT = ((uint64_t)1 << 63) - 1;

// Memory that is freed when a block has been read.
typedef struct {
    void **items;
    size_t count, room;
    int failed;
} Scratch;

static void *scratch(Scratch *s, size_t size) {
    if (s->count == s->room) {
        size_t room = s->room * 2 + 32;
        void **items = PyMem_RawRealloc(s->items, room * sizeof *items);
        if (!items) return s->failed = 1, NULL;
        s->items = items;
        s->room = room;
    }
    void *memory = PyMem_RawMalloc(size ? size : 1);
    if (!memory) return s->failed = 1, NULL;
    return s->items[s->count++] = memory;
}

static void forget(Scratch *s) {
    while (s->count) PyMem_RawFree(s->items[--s->count]);
}

static void drop_scratch(Scratch *s) {
    forget(s);
    PyMem_RawFree(s->items);
}

// Returns `count` numbers, or NULL if one is above the limit or not in its shortest form.
static uint64_t *get_varints(Scratch *s, Span data, uint64_t count, uint64_t limit) {
    if (size_of(data) < count || size_of(data) > 10 * count) return NULL;
    uint64_t *numbers = scratch(s, count * sizeof *numbers);
    for (uint64_t i = 0; numbers && i < count; i++) {
        uint64_t value = 0, byte;
        int shift = 0;
        do {
            if (data.at == data.end || shift == 70) return NULL;
            byte = *data.at++;
            if (shift == 63 && byte > 1) return NULL;
            value |= (byte & 127) << shift;
            shift += 7;
        } while (byte >= 128);
        if ((!byte && shift > 7) || value > limit) return NULL;
        numbers[i] = value;
    }
    return data.at == data.end ? numbers : NULL;
}

// Returns the i-th of `count` numbers, stored by byte planes: first all lowest bytes, last all highest.
static inline uint64_t word_at(const uint8_t *planes, size_t count, size_t i) {
    uint64_t word = 0;
    for (int byte = 7; byte >= 0; byte--) word = word << 8 | planes[(size_t)byte * count + i];
    return word;
}

static uint64_t *get_deltas(Scratch *s, Span data, uint64_t count) {
    if (size_of(data) != 8 * count) return NULL;
    uint64_t *numbers = scratch(s, count * sizeof *numbers), last = 0;
    for (uint64_t i = 0; numbers && i < count; i++) {
        uint64_t code = word_at(data.at, count, i);
        numbers[i] = last += code >> 1 ^ (0 - (code & 1));
    }
    return numbers;
}

// ---- names

typedef struct {
    uint64_t count;
    Span *names;
} Table;

// Accepts UTF-8 with lone surrogates, as Python's "surrogatepass" does.
static int is_text(Span s) {
    while (s.at < s.end) {
        uint8_t lead = *s.at++;
        if (lead < 0x80) continue;
        int more = lead >= 0xC2 && lead < 0xE0 ? 1 : lead >= 0xE0 && lead < 0xF0 ? 2 : lead >= 0xF0 && lead < 0xF5 ? 3 : 0;
        if (!more || size_of(s) < (size_t)more) return 0;
        if ((lead == 0xE0 && *s.at < 0xA0) || (lead == 0xF0 && *s.at < 0x90) || (lead == 0xF4 && *s.at > 0x8F)) return 0;
        for (; more; more--)
            if ((*s.at++ & 0xC0) != 0x80) return 0;
    }
    return 1;
}

static int get_names(Scratch *s, Span message, Table *table) {
    enum { LENGTHS = 1, TEXT = 2 };
    Span parts[3];
    if (!get_parts(message, parts, 3)) return 0;
    table->count = 0;
    for (const uint8_t *p = parts[LENGTHS].at; p < parts[LENGTHS].end; p++) table->count += *p < 128;
    if (table->count > MOST_NAMES) return 0;
    uint64_t *lengths = get_varints(s, parts[LENGTHS], table->count, size_of(parts[TEXT]));
    table->names = scratch(s, table->count * sizeof *table->names);
    if (!lengths || !table->names) return 0;
    const uint8_t *at = parts[TEXT].at;
    for (uint64_t i = 0; i < table->count; at += lengths[i++]) {
        if (lengths[i] > (uint64_t)(parts[TEXT].end - at)) return 0;
        table->names[i] = (Span){at, at + lengths[i]};
        if (!is_text(table->names[i])) return 0;
    }
    return at == parts[TEXT].end;
}

// ---- which scalars are there

typedef struct {
    Table table;
    const uint8_t *bits;
    uint64_t rows, measured;
    uint64_t *before;  // how many numbers come before those of a name
} Presence;

static inline int is_set(const uint8_t *bits, uint64_t at) {
    return bits[at >> 3] >> (at & 7) & 1;
}

static uint64_t set_bits(const uint8_t *bits, uint64_t start, uint64_t count) {
    uint64_t set = 0;
    for (uint64_t at = start; at < start + count; at++) {
        if (!(at & 7) && start + count - at >= 8) {
            set += (uint64_t)__builtin_popcount(bits[at >> 3]);
            at += 7;
        } else {
            set += (uint64_t)is_set(bits, at);
        }
    }
    return set;
}

static int are_different(const Table *table, uint64_t seed) {
    Names known = {.seed = seed};
    int different = 1;
    for (uint64_t i = 0; i < table->count && different; i++)
        different = number_of(&known, 0, table->names[i]) == (int64_t)i;
    drop_names(&known);
    return different;
}

static int get_presence(Scratch *s, Span names, Span flags, uint64_t rows, uint64_t numbers, uint64_t seed, Presence *p) {
    if (!get_names(s, names, &p->table)) return 0;
    uint64_t count = p->table.count;
    if (count > MOST_SCALARS || count * rows * numbers > MOST_CELLS || !are_different(&p->table, seed)) return 0;
    if (size_of(flags) != (count * rows + 7) / 8) return 0;
    p->bits = flags.at;
    p->rows = rows;
    p->measured = 0;
    if (!(p->before = scratch(s, count * sizeof *p->before))) return 0;
    for (uint64_t name = 0; name < count; name++) {
        p->before[name] = p->measured;
        p->measured += set_bits(flags.at, name * rows, rows);
    }
    return 1;
}

static int64_t place_of(const Table *table, Span name) {
    for (uint64_t i = 0; i < table->count; i++)
        if (size_of(table->names[i]) == size_of(name) && !memcmp(table->names[i].at, name.at, size_of(name)))
            return (int64_t)i;
    return -1;
}

#endif
