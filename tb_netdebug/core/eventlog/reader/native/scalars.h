// Decodes the scalars in blocks. `columns_twin.py` is the specification.

#ifndef NETDEBUG_SCALARS_H
#define NETDEBUG_SCALARS_H

#include "columns.h"

enum { RANGE_COUNTS = 4, RANGE_VALUES = 5, RANGE_FIELDS = 9, FRAME_FIELDS = 5 };

// The result: a value for each row of all blocks; in the tables of names a line for each wanted name.
typedef struct {
    const Span *names;
    size_t name_count, rows;  // rows: those of all undamaged blocks
    Buffer owners, frame, values, present, measured;
    uint64_t seed;
} Lines;

typedef struct {
    uint64_t rows, *frame[FRAME_FIELDS];
    Presence presence;
    uint64_t *counts;
    Span values;
} Rows;

static int get_step_rows(Scratch *s, Span data, uint64_t rows, uint64_t seed, Rows *found) {
    Span parts[5], scalars[4];
    if (rows > MOST_ROWS || !get_parts(data, parts, 5) || !get_parts(parts[3], scalars, 4)) return 0;
    found->rows = rows;
    found->frame[0] = get_deltas(s, parts[1], rows);
    found->frame[1] = get_deltas(s, parts[2], rows);
    found->values = scalars[3];
    return found->frame[0] && found->frame[1] &&
           get_presence(s, scalars[1], scalars[2], rows, 1, seed, &found->presence) &&
           size_of(found->values) == 8 * found->presence.measured;
}

static int get_detail_rows(Scratch *s, Span data, uint64_t rows, uint64_t seed, Rows *found) {
    Span parts[7], scalars[5];
    if (rows > MOST_ROWS || !get_parts(data, parts, 7) || !get_parts(parts[6], scalars, 5)) return 0;
    found->rows = rows;
    for (int field = 0; field < 4; field++)
        if (!(found->frame[field] = get_deltas(s, parts[field + 1], rows))) return 0;
    if (!(found->frame[4] = get_varints(s, parts[5], rows, MOST_COUNT))) return 0;
    if (!get_presence(s, scalars[1], scalars[2], rows, RANGE_FIELDS, seed, &found->presence)) return 0;
    found->counts = get_varints(s, scalars[3], RANGE_COUNTS * found->presence.measured, MOST_COUNT);
    found->values = scalars[4];
    return found->counts && size_of(found->values) == 8 * RANGE_VALUES * found->presence.measured;
}

// ---- lines; their tables are allocated once, when the number of all rows is known

static uint64_t *cell(Buffer *table, const Lines *lines, size_t line, size_t row) {
    return (uint64_t *)table->data + line * lines->rows + row;
}

static void put_step_lines(Lines *lines, const Rows *found, size_t start) {
    const Presence *p = &found->presence;
    for (size_t row = 0; row < found->rows; row++) {
        *cell(&lines->frame, lines, 0, start + row) = found->frame[0][row];
        *cell(&lines->frame, lines, 1, start + row) = found->frame[1][row];
    }
    for (uint64_t name = 0; name < p->table.count; name++)
        for (size_t row = 0; row < found->rows; row++)
            lines->measured.data[start + row] |= (uint8_t)is_set(p->bits, name * p->rows + row);
    for (size_t line = 0; line < lines->name_count; line++) {
        int64_t name = place_of(&p->table, lines->names[line]);
        uint64_t at = name < 0 ? 0 : p->before[name];
        for (size_t row = 0; row < found->rows; row++) {
            int there = name >= 0 && is_set(p->bits, (uint64_t)name * p->rows + row);
            uint64_t value = there ? word_at(found->values.at, p->measured, at++) : 0x7FF8000000000000u;
            *cell(&lines->values, lines, line, start + row) = value;
            lines->present.data[line * lines->rows + start + row] = (uint8_t)there;
        }
    }
}

static void put_range(Lines *lines, const Rows *found, size_t line, size_t row, uint64_t at) {
    uint64_t measured = found->presence.measured;
    for (int field = 0; field < RANGE_COUNTS; field++)
        *cell(&lines->values, lines, line * RANGE_FIELDS + (size_t)field, row) =
            found->counts[(uint64_t)field * measured + at];
    for (int field = 0; field < RANGE_VALUES; field++)
        *cell(&lines->values, lines, line * RANGE_FIELDS + RANGE_COUNTS + (size_t)field, row) =
            word_at(found->values.at + 8 * measured * (uint64_t)field, measured, at);
}

static void put_detail_lines(Lines *lines, const Rows *found, size_t start) {
    const Presence *p = &found->presence;
    for (size_t field = 0; field < FRAME_FIELDS; field++)
        memcpy(cell(&lines->frame, lines, field, start), found->frame[field], found->rows * sizeof(uint64_t));
    for (size_t line = 0; line < lines->name_count; line++) {
        int64_t name = place_of(&p->table, lines->names[line]);
        uint64_t at = name < 0 ? 0 : p->before[name];
        for (size_t row = 0; name >= 0 && row < found->rows; row++) {
            if (!is_set(p->bits, (uint64_t)name * p->rows + row)) continue;
            lines->present.data[line * lines->rows + start + row] = 1;
            put_range(lines, found, line, start + row, at++);
        }
    }
}

#endif
