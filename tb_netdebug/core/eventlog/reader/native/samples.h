// Decodes the samples of tensors in blocks. `columns_twin.py` is the specification.

#ifndef NETDEBUG_SAMPLES_H
#define NETDEBUG_SAMPLES_H

#include "columns.h"

enum { HEADER_WORDS = 10, LAST_KIND = 5 };

#pragma pack(push, 1)
typedef struct {
    uint32_t block, series;
    int64_t first, last, merged, units, active;
    uint32_t sketch, sketch_bytes;
    uint64_t header[HEADER_WORDS];
} Sample;
#pragma pack(pop)

typedef struct {
    Span data;
    uint64_t rows, samples, sketches;
} Block;

// Which samples are wanted, and the result.
typedef struct {
    int details, kinds, has_name;
    Span name;
    Names series;
    Buffer samples;
    uint64_t seed;
} Query;

typedef struct {
    uint64_t count, series_count;
    Table table;
    Span kinds, headers, units;
    uint64_t *names, *index, *starts, *rows, *sketch_sizes, *sketch_starts, *unit_counts, *unit_starts;
    uint64_t *first, *last, *merged;  // from the row's step, or stored for each sample in a detail block
} Samples;

static int64_t unzigzag(uint64_t code) {
    return (int64_t)(code >> 1) ^ -(int64_t)(code & 1);
}

static int get_series(Scratch *s, Samples *all, Span names) {
    if (!get_names(s, names, &all->table)) return 0;
    all->series_count = size_of(all->kinds);
    if (all->series_count > MOST_SAMPLES || (all->series_count && !all->table.count)) return 0;
    for (const uint8_t *p = all->kinds.at; p < all->kinds.end; p++)
        if (*p < 1 || *p > LAST_KIND) return 0;
    return 1;
}

// Finds the series of each sample, in the order in which they were recorded.
static int get_index(Scratch *s, Samples *all, Span order) {
    uint64_t *codes = get_varints(s, order, all->count, 2 * MOST_SAMPLES);
    int64_t at = -1;
    for (uint64_t i = 0; codes && i < all->count; i++) {
        at += unzigzag(codes[i]) + 1;
        if (at < 0 || (uint64_t)at >= all->series_count) return 0;
        codes[i] = (uint64_t)at;
    }
    return (all->index = codes) != NULL;
}

// Samples are stored by series: finds where each series begins, and the row of each sample.
static int get_rows(Scratch *s, Samples *all, Span sizes, uint64_t rows) {
    uint64_t *row_sizes = get_varints(s, sizes, rows, all->count), total = 0;
    all->starts = scratch(s, (all->series_count + 1) * sizeof *all->starts);
    all->rows = scratch(s, all->count * sizeof *all->rows);
    uint64_t *next = scratch(s, all->series_count * sizeof *next);
    if (!row_sizes || !all->starts || !all->rows || !next) return 0;
    for (uint64_t row = 0; row < rows; row++)
        if ((total += row_sizes[row]) > all->count) return 0;
    if (total != all->count) return 0;
    memset(all->starts, 0, (all->series_count + 1) * sizeof *all->starts);
    for (uint64_t i = 0; i < all->count; i++) all->starts[all->index[i] + 1]++;
    for (uint64_t series = 0; series < all->series_count; series++) {
        if (!all->starts[series + 1]) return 0;
        next[series] = all->starts[series];
        all->starts[series + 1] += all->starts[series];
    }
    uint64_t i = 0;
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t sample = 0; sample < row_sizes[row]; sample++) all->rows[next[all->index[i++]]++] = row;
    return 1;
}

static int get_starts(Scratch *s, uint64_t count, const uint64_t *sizes, uint64_t total, uint64_t **starts) {
    if (!sizes || !(*starts = scratch(s, count * sizeof **starts))) return 0;
    uint64_t at = 0;
    for (uint64_t i = 0; i < count; i++) {
        (*starts)[i] = at;
        if (sizes[i] > total - at) return 0;
        at += sizes[i];
    }
    return at == total;
}

static int get_units(Scratch *s, Samples *all, Span counts) {
    all->unit_counts = get_varints(s, counts, all->count, MOST_UNITS);
    uint64_t *sizes = scratch(s, all->count * sizeof *sizes);
    if (!all->unit_counts || !sizes) return 0;
    for (uint64_t i = 0; i < all->count; i++)
        sizes[i] = all->unit_counts[i] ? (all->unit_counts[i] - 1 + 7) / 8 : 0;
    return get_starts(s, all->count, sizes, size_of(all->units), &all->unit_starts);
}

static int get_steps(Scratch *s, Samples *all, const Span *parts, int details, uint64_t rows) {
    if (details) {
        all->first = get_deltas(s, parts[8], all->count);
        all->last = get_deltas(s, parts[9], all->count);
        all->merged = get_varints(s, parts[10], all->count, MOST_COUNT);
        return all->first && all->last && all->merged;
    }
    all->first = all->last = get_deltas(s, parts[1], rows);
    return all->first != NULL;
}

static int get_samples(Scratch *s, const Block *block, int details, Samples *all) {
    enum { NAMES = 1, KINDS, SERIES_NAMES, ROW_SIZES, ORDER, HEADERS, SKETCH_LENGTHS, UNIT_COUNTS, UNITS };
    Span parts[11], samples[10];
    if (block->rows > MOST_ROWS || block->samples > MOST_SAMPLES) return 0;
    if (!get_parts(block->data, parts, 11) || !get_parts(parts[details ? 7 : 4], samples, 10)) return 0;
    all->count = block->samples;
    all->kinds = samples[KINDS];
    all->headers = samples[HEADERS];
    all->units = samples[UNITS];
    if (!get_series(s, all, samples[NAMES])) return 0;
    uint64_t last_name = all->table.count ? all->table.count - 1 : 0;
    all->names = get_varints(s, samples[SERIES_NAMES], all->series_count, last_name);
    all->sketch_sizes = get_varints(s, samples[SKETCH_LENGTHS], all->count, block->sketches);
    return all->names && get_index(s, all, samples[ORDER]) && get_rows(s, all, samples[ROW_SIZES], block->rows) &&
           get_starts(s, all->count, all->sketch_sizes, block->sketches, &all->sketch_starts) &&
           get_units(s, all, samples[UNIT_COUNTS]) && size_of(all->headers) == 8 * HEADER_WORDS * all->count &&
           get_steps(s, all, parts, details, block->rows);
}

static void put_sample(Query *q, const Samples *all, uint64_t at, uint32_t block, uint32_t series) {
    Sample *sample = extend(&q->samples, sizeof *sample);
    if (!sample) return;
    uint64_t place = q->details ? at : all->rows[at], units = all->unit_counts[at];
    sample->block = block;
    sample->series = series;
    sample->first = (int64_t)all->first[place];
    sample->last = (int64_t)all->last[place];
    sample->merged = q->details ? (int64_t)all->merged[at] : 1;
    sample->units = (int64_t)units - 1;
    if (units) sample->active = (int64_t)set_bits(all->units.at + all->unit_starts[at], 0, (units - 1 + 7) / 8 * 8);
    sample->sketch = (uint32_t)all->sketch_starts[at];
    sample->sketch_bytes = (uint32_t)all->sketch_sizes[at];
    for (int word = 0; word < HEADER_WORDS; word++)
        sample->header[word] = word_at(all->headers.at + 8 * all->count * (size_t)word, all->count, at);
}

// Adds the wanted samples of a block. Returns 0 if it is damaged.
static int put_samples(Query *q, Scratch *s, const Block *block, uint32_t number) {
    Samples all;
    if (!get_samples(s, block, q->details, &all)) return 0;
    for (uint64_t series = 0; series < all.series_count; series++) {
        Span name = all.table.names[all.names[series]];
        if (!(q->kinds >> all.kinds.at[series] & 1)) continue;
        if (q->has_name && (size_of(name) != size_of(q->name) || memcmp(name.at, q->name.at, size_of(name)))) continue;
        int64_t known = number_of(&q->series, all.kinds.at[series], name);
        if (known < 0) s->failed = 1;
        for (uint64_t at = all.starts[series]; at < all.starts[series + 1]; at++)
            put_sample(q, &all, at, number, (uint32_t)known);
    }
    return 1;
}

#endif
