// Decodes the records of an event file. `events_twin.py` is the specification; both give the same bytes.

#ifndef NETDEBUG_EVENTS_H
#define NETDEBUG_EVENTS_H

#include "names.h"
#include "wire.h"

enum { OTHER = 31, MOST_LEVELS = 30 };

#pragma pack(push, 1)
typedef struct {
    int64_t offset, first, last;
    uint32_t length, rows, samples, ahead, sketches;
    uint16_t rank;
    uint8_t kind, version;
} Entry;

typedef struct {
    int64_t step;
    double time, value;
    int64_t offset;
    uint32_t length, tag;
} Point;
#pragma pack(pop)

typedef struct {
    const uint8_t *data;
    uint64_t base;  // offset of the data in the file
    int ours;       // collect entries of our blocks, else points of other programs
    Buffer entries, points;
    Names tags;
} Events;

typedef struct {
    Span whole, tag, plugin, tensor;
    int has_number, is_histogram, has_tensor;
    double number;
    int64_t step;
    double time;
} Value;

static int64_t offset_of(const Events *e, const uint8_t *p) {
    return (int64_t)(e->base + (uint64_t)(p - e->data));
}

// The functions below, `kind_of` aside, return 0 if the bytes are no message of ours.

static int kind_of(Span name) {
    static const char detail[] = "detail/";
    size_t prefix = sizeof detail - 1, size = size_of(name);
    if (equals(name, "steps")) return 0;
    if (size <= prefix || size > prefix + 2 || memcmp(name.at, detail, prefix)) return OTHER;
    int level = 0;
    for (const uint8_t *p = name.at + prefix; p < name.end; p++) {
        if (*p < '0' || *p > '9') return OTHER;
        level = level * 10 + *p - '0';
    }
    return level >= 1 && level <= MOST_LEVELS ? level : OTHER;
}

static int add_block(Events *e, Span payload, int kind) {
    uint64_t shift = kind != 0, numbers[7] = {0};  // field 1 of a detail block is its level
    Span whole = payload, columns = {payload.at, payload.at}, sketches = columns;
    Field f;
    int more;
    while ((more = next_field(&whole, &f)) > 0) {
        if (f.kind == VARINT && f.number <= 2) numbers[f.number] = f.value;
        if (f.kind == VARINT && f.number >= 3 + shift && f.number <= 6 + shift) numbers[f.number - shift] = f.value;
        if (f.kind == BYTES && f.number == 7 + shift) columns = f.bytes;
        if (f.kind == BYTES && f.number == 8 + shift) sketches = f.bytes;
    }
    int64_t ahead = size_of(sketches) ? sketches.at - columns.at : 0;
    if (more < 0 || ahead < 0 || numbers[2] > 0xFFFF) return 0;
    Entry *entry = extend(&e->entries, sizeof *entry);
    if (!entry) return 0;
    *entry = (Entry){
        .offset = offset_of(e, columns.at), .first = (int64_t)numbers[3], .last = (int64_t)numbers[4],
        .length = (uint32_t)size_of(columns), .rows = (uint32_t)numbers[5], .samples = (uint32_t)numbers[6],
        .ahead = (uint32_t)ahead, .sketches = (uint32_t)size_of(sketches), .rank = (uint16_t)numbers[2],
        .kind = (uint8_t)kind, .version = (uint8_t)(numbers[1] < 255 ? numbers[1] : 255),
    };
    return 1;
}

static int add_payload(Events *e, Span name, Span payload) {
    int kind = kind_of(name);
    if (kind != OTHER) return add_block(e, payload, kind);
    int64_t tag = number_of(&e->tags, 0, name);
    Entry *entry = extend(&e->entries, sizeof *entry);
    if (!entry || tag < 0) return 0;
    *entry = (Entry){
        .offset = offset_of(e, payload.at), .first = tag, .length = (uint32_t)size_of(payload), .kind = OTHER,
    };
    return 1;
}

static int add_ours(Events *e, const Value *value) {
    static const char prefix[] = "netdebug/";
    size_t size = sizeof prefix - 1;
    if (size_of(value->tag) < size || memcmp(value->tag.at, prefix, size)) return 1;
    if (!equals(value->plugin, "netdebug") || !value->has_tensor) return 1;
    Span tensor = value->tensor, name = {value->tag.at + size, value->tag.end};
    Field f;
    int more;
    while ((more = next_field(&tensor, &f)) > 0)
        if (f.number == 8 && f.kind == BYTES && !add_payload(e, name, f.bytes)) return 0;
    return more == 0;
}

// Returns the rank of a shape, or -1. Only the first two sizes are kept.
static int get_dims(Span shape, int64_t *dims) {
    Field f, inner;
    int more, count = 0;
    while ((more = next_field(&shape, &f)) > 0) {
        if (f.number != 2 || f.kind != BYTES) continue;
        int64_t size = 0;
        int rest;
        while ((rest = next_field(&f.bytes, &inner)) > 0)
            if (inner.number == 1 && inner.kind == VARINT) size = (int64_t)inner.value;
        if (rest < 0) return -1;
        if (count < 2) dims[count] = size;
        count++;
    }
    return more < 0 ? -1 : count;
}

// Finds out whether a tensor is a single number or a table of buckets. Returns 0 if it is no message.
static int get_number(Value *value) {
    enum { FLOAT = 1, DOUBLE = 2 };
    Span tensor = value->tensor, numbers[3] = {{0}};  // as bytes, as floats, as doubles
    uint64_t dtype = 0;
    int64_t dims[2] = {0, 0};
    int count = 0, more;
    Field f;
    while ((more = next_field(&tensor, &f)) > 0) {
        if (f.number == 1 && f.kind == VARINT) dtype = f.value;
        if (f.number == 2 && f.kind == BYTES && (count = get_dims(f.bytes, dims)) < 0) return 0;
        if (f.number < 4 || f.number > 6) continue;
        if (f.kind == BYTES && size_of(f.bytes)) numbers[f.number - 4] = f.bytes;
        if (f.number == 5 && f.kind == FIXED32) numbers[1] = (Span){tensor.at - 4, tensor.at};
        if (f.number == 6 && f.kind == FIXED64) numbers[2] = (Span){tensor.at - 8, tensor.at};
    }
    if (more < 0) return 0;
    if (dtype != FLOAT && dtype != DOUBLE) return 1;
    if (count) {
        value->is_histogram = count == 2 && dims[0] > 0 && dims[1] == 3;
        return 1;
    }
    Span stored = numbers[0].at ? numbers[0] : numbers[dtype];
    value->has_number = stored.at && size_of(stored) == (dtype == FLOAT ? 4 : 8);
    if (value->has_number && dtype == DOUBLE) value->number = as_double(read_u64(stored.at));
    if (value->has_number && dtype == FLOAT) {
        float number;
        uint32_t bits = read_u32(stored.at);
        memcpy(&number, &bits, sizeof number);
        value->number = number;
    }
    return 1;
}

static int add_foreign(Events *e, Value *value) {
    if (!value->has_number && !value->is_histogram && value->has_tensor && !get_number(value)) return 0;
    if (!value->has_number && !value->is_histogram) return 1;
    int64_t tag = number_of(&e->tags, 0, value->tag);
    Point *point = extend(&e->points, sizeof *point);
    if (!point || tag < 0) return 0;
    *point = (Point){.step = value->step, .time = value->time, .offset = -1, .tag = (uint32_t)tag};
    if (value->has_number) {
        point->value = value->number;
    } else {
        point->offset = offset_of(e, value->whole.at);
        point->length = (uint32_t)size_of(value->whole);
    }
    return 1;
}

static int get_plugin(Span metadata, Span *name) {
    Field f, inner;
    int more;
    while ((more = next_field(&metadata, &f)) > 0) {
        if (f.number != 1 || f.kind != BYTES) continue;
        int rest;
        while ((rest = next_field(&f.bytes, &inner)) > 0)
            if (inner.number == 1 && inner.kind == BYTES) *name = inner.bytes;
        if (rest < 0) return 0;
    }
    return more == 0;
}

static int get_value(Span whole, Value *value) {
    Field f;
    int more;
    while ((more = next_field(&whole, &f)) > 0) {
        if (f.number == 1 && f.kind == BYTES) value->tag = f.bytes;
        if (f.number == 2 && f.kind == FIXED32) {
            float number;
            uint32_t bits = (uint32_t)f.value;
            memcpy(&number, &bits, sizeof number);
            value->number = number;
            value->has_number = 1;
        }
        if (f.number == 5 && f.kind == BYTES) value->is_histogram = 1;
        if (f.number == 8 && f.kind == BYTES) {
            value->tensor = f.bytes;
            value->has_tensor = 1;
        }
        if (f.number == 9 && f.kind == BYTES && (value->plugin = (Span){0}, !get_plugin(f.bytes, &value->plugin)))
            return 0;
    }
    return more == 0;
}

static int add_values(Events *e, Span summary, int64_t step, double time) {
    Field f;
    int more;
    while ((more = next_field(&summary, &f)) > 0) {
        if (f.number != 1 || f.kind != BYTES) continue;
        Value value = {.whole = f.bytes, .step = step, .time = time};
        if (!get_value(f.bytes, &value) || !(e->ours ? add_ours(e, &value) : add_foreign(e, &value))) return 0;
    }
    return more == 0;
}

static int add_event(Events *e, Span event) {
    Field f;
    int more, has_summary = 0;
    int64_t step = 0;
    double time = 0.0;
    Span summary = {0};
    while ((more = next_field(&event, &f)) > 0) {
        if (f.number == 1 && f.kind == FIXED64) time = as_double(f.value);
        if (f.number == 2 && f.kind == VARINT) step = (int64_t)f.value;
        if (f.number == 5 && f.kind == BYTES) {
            summary = f.bytes;
            has_summary = 1;
        }
    }
    return more == 0 && (!has_summary || add_values(e, summary, step, time));
}

// Takes the contents of an event. Returns 0, and keeps nothing, if the bytes are none.
static int take_event(Events *e, Span event) {
    size_t entries = e->entries.size, points = e->points.size;
    if (add_event(e, event)) return 1;
    e->entries.size = entries;
    e->points.size = points;
    return 0;
}

#endif
