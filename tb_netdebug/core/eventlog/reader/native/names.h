// Numbers names in the order of first occurrence.

#ifndef NETDEBUG_NAMES_H
#define NETDEBUG_NAMES_H

#include "bytes.h"

typedef struct {
    size_t start, size;  // in `text`
    uint64_t hash;
    uint32_t kind;
} Name;

typedef struct {
    Buffer names, text, places;  // Name[], their bytes, uint32_t[] with the number plus 1 or 0
    uint64_t seed;               // keeps a hostile file from making all names collide
} Names;

static inline uint64_t hash_of(uint64_t seed, uint32_t kind, Span name) {
    uint64_t hash = seed ^ ((uint64_t)kind << 32) ^ size_of(name), factor = seed | 1, word;
    for (; name.at < name.end; name.at += 8) {
        size_t left = size_of(name);
        word = 0;
        memcpy(&word, name.at, left < 8 ? left : 8);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 29;
        if (left <= 8) break;
    }
    hash *= 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

static inline size_t count_of(const Names *n) {
    return n->names.size / sizeof(Name);
}

static inline const Name *name_at(const Names *n, size_t i) {
    return (const Name *)n->names.data + i;
}

static inline int is_same(const Names *n, const Name *known, uint64_t hash, uint32_t kind, Span name) {
    return known->hash == hash && known->kind == kind && known->size == size_of(name) &&
           !memcmp(n->text.data + known->start, name.at, size_of(name));
}

static inline uint32_t *slot_of(Names *n, uint64_t hash, uint32_t kind, Span name) {
    uint32_t *places = (uint32_t *)n->places.data;
    size_t mask = n->places.size / sizeof *places - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask)
        if (!places[i] || is_same(n, name_at(n, places[i] - 1), hash, kind, name)) return places + i;
}

static inline int make_room(Names *n) {
    size_t room = n->places.size / sizeof(uint32_t);
    if (count_of(n) * 2 < room) return 1;
    Buffer bigger = {0};
    uint32_t *places = extend(&bigger, (room ? room * 2 : 64) * sizeof *places);
    if (!places) return 0;
    size_t mask = bigger.size / sizeof *places - 1;
    for (size_t number = 0; number < count_of(n); number++) {
        size_t i = name_at(n, number)->hash & mask;
        while (places[i]) i = (i + 1) & mask;
        places[i] = (uint32_t)number + 1;
    }
    drop(&n->places);
    n->places = bigger;
    return 1;
}

// Returns the number of a name, or -1 if there is no memory for it.
static inline int64_t number_of(Names *n, uint32_t kind, Span name) {
    if (!make_room(n)) return -1;
    uint64_t hash = hash_of(n->seed, kind, name);
    uint32_t *place = slot_of(n, hash, kind, name);
    if (*place) return *place - 1;
    size_t start = n->text.size;
    uint8_t *text = extend(&n->text, size_of(name));
    Name *added = extend(&n->names, sizeof *added);
    if ((!text && size_of(name)) || !added) return -1;
    if (size_of(name)) memcpy(text, name.at, size_of(name));
    *added = (Name){start, size_of(name), hash, kind};
    *place = (uint32_t)count_of(n);
    return (int64_t)*place - 1;
}

static inline Span text_of(const Names *n, size_t i) {
    const Name *name = name_at(n, i);
    return (Span){n->text.data + name->start, n->text.data + name->start + name->size};
}

static inline int names_failed(const Names *n) {
    return n->names.failed || n->text.failed;
}

static inline void drop_names(Names *n) {
    drop(&n->names);
    drop(&n->text);
    drop(&n->places);
}

#endif
