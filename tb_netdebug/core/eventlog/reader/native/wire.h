// Walks the protobuf fields in a buffer. `wire.py` is the specification.

#ifndef NETDEBUG_WIRE_H
#define NETDEBUG_WIRE_H

#include "bytes.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

typedef struct {
    uint64_t number, value;
    int kind;
    Span bytes;
} Field;

static inline int get_varint(Span *s, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 70 && s->at < s->end; shift += 7) {
        uint64_t byte = *s->at++;
        *value |= (byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

// Returns 1 with a field, 0 at the end, -1 if the bytes are no message.
static inline int next_field(Span *s, Field *f) {
    uint64_t key;
    if (s->at >= s->end) return 0;
    if (!get_varint(s, &key) || key >> 32 || !(key >> 3)) return -1;
    f->number = key >> 3;
    f->kind = (int)(key & 7);
    f->bytes = (Span){s->at, s->at};
    size_t size = 0;
    if (f->kind == BYTES) {
        if (!get_varint(s, &f->value) || f->value > size_of(*s)) return -1;
        size = (size_t)f->value;
        f->bytes = (Span){s->at, s->at + size};
    } else if (f->kind == VARINT) {
        if (!get_varint(s, &f->value)) return -1;
    } else if (f->kind == FIXED64 || f->kind == FIXED32) {
        size = f->kind == FIXED64 ? 8 : 4;
        if (size > size_of(*s)) return -1;
        f->value = f->kind == FIXED64 ? read_u64(s->at) : read_u32(s->at);
    } else {
        return -1;
    }
    s->at += size;
    return 1;
}

// Keeps the last of each field of bytes below number `count`, empty if there is none. Returns 0 if it is no message.
static inline int get_parts(Span message, Span *parts, uint64_t count) {
    Field f;
    int more;
    for (uint64_t i = 0; i < count; i++) parts[i] = (Span){message.end, message.end};
    while ((more = next_field(&message, &f)) > 0)
        if (f.kind == BYTES && f.number < count) parts[f.number] = f.bytes;
    return more == 0;
}

#endif
