// Untrusted bytes, read within their bounds only, and buffers of our own, which grow.

#ifndef NETDEBUG_BYTES_H
#define NETDEBUG_BYTES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const uint8_t *at, *end;
} Span;

static inline size_t size_of(Span s) {
    return (size_t)(s.end - s.at);
}

static inline int equals(Span s, const char *text) {
    return size_of(s) == strlen(text) && !memcmp(s.at, text, size_of(s));
}

static inline uint32_t read_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t read_u64(const uint8_t *p) {
    return (uint64_t)read_u32(p) | (uint64_t)read_u32(p + 4) << 32;
}

static inline double as_double(uint64_t bits) {
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

// `failed` stays set, so that callers need to check it only once, at the end.
typedef struct {
    uint8_t *data;
    size_t size, room;
    int failed;
} Buffer;

static inline void *extend(Buffer *b, size_t size) {  // returns `size` more bytes, zeroed, or NULL
    if (b->failed) return NULL;
    if (b->size + size > b->room) {
        size_t room = (b->size + size) * 3 / 2 + 256;
        uint8_t *data = PyMem_RawRealloc(b->data, room);
        if (!data) {
            b->failed = 1;
            return NULL;
        }
        b->data = data;
        b->room = room;
    }
    void *place = b->data + b->size;
    memset(place, 0, size);
    b->size += size;
    return place;
}

static inline void drop(Buffer *b) {
    PyMem_RawFree(b->data);
    memset(b, 0, sizeof *b);
}

static inline PyObject *bytes_of(const Buffer *b) {
    return PyBytes_FromStringAndSize((const char *)b->data, (Py_ssize_t)b->size);
}

#endif
