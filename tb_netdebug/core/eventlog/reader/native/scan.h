// Finds the whole records of an event file. `scan_twin.py` is the specification; both give the same bytes.

#ifndef NETDEBUG_SCAN_H
#define NETDEBUG_SCAN_H

#include "crc.h"
#include "events.h"

enum { HEADER = 12, FOOTER = 4, OVERHEAD = 16 };
enum { BAD_HEADER, BAD_PAYLOAD, BAD_CONTENT };

static const uint64_t MOST_RECORD = 64u << 20;

typedef struct {
    int64_t start, end, reason;
} Gap;

typedef struct {
    const uint8_t *data;
    size_t size, at;
    uint64_t beyond;
    int64_t lost, reason, patience;
    uint64_t need;
    Buffer gaps;
    Events events;
} Scan;

static int64_t here(const Scan *s) {
    return (int64_t)(s->events.base + s->at);
}

static void add_gap(Scan *s, int64_t start, int64_t end, int64_t reason) {
    Gap *gap = extend(&s->gaps, sizeof *gap);
    if (gap) *gap = (Gap){start, end, reason};
}

static void take_record(Scan *s, uint64_t length) {
    const uint8_t *start = s->data + s->at + HEADER;
    if (s->lost >= 0) add_gap(s, s->lost, here(s), s->reason);
    s->lost = -1;
    int64_t begin = here(s);
    s->at += OVERHEAD + length;
    if (!take_event(&s->events, (Span){start, start + length})) add_gap(s, begin, here(s), BAD_CONTENT);
}

static int64_t length_at(const Scan *s, size_t at) {
    const uint8_t *p = s->data + at;
    if (read_u32(p + 4)) return -1;  // far too long, and cheaper to check than the CRC
    if (masked_crc(p, 8) != read_u32(p + 8)) return -1;
    uint64_t length = read_u64(p);
    return length <= MOST_RECORD ? (int64_t)length : -1;
}

static int is_whole(Scan *s, uint64_t length) {
    const uint8_t *start = s->data + s->at + HEADER;
    if (masked_crc(start, length) == read_u32(start + length)) return 1;
    s->patience -= (int64_t)(length + FOOTER);
    return 0;
}

static void search(Scan *s) {
    for (; s->size - s->at >= HEADER; s->at++)
        if (read_u32(s->data + s->at) && length_at(s, s->at) > 0) return;
}

static void lose(Scan *s, int64_t length) {
    if (s->lost < 0) {
        s->lost = here(s);
        s->reason = length < 0 ? BAD_HEADER : BAD_PAYLOAD;
    }
    // Search inside the damaged record, too: its header may be forged, with whole records behind it.
    s->at++;
    search(s);
}

static void scan_records(Scan *s) {
    while (s->at <= s->size && s->size - s->at >= HEADER && s->patience >= 0) {
        int64_t length = length_at(s, s->at);
        uint64_t left = s->beyond - s->at;
        if (length >= 0 && OVERHEAD + (uint64_t)length <= left) {
            s->need = OVERHEAD + (uint64_t)length;
            if (s->need > s->size - s->at) return;
            if (is_whole(s, (uint64_t)length)) {
                take_record(s, (uint64_t)length);
                continue;
            }
        }
        lose(s, length);
    }
    s->need = 0;
    if (s->patience < 0) s->at = s->size;
}

#endif
