#include "packed.h"

#include <math.h>
#include <string.h>

/* In the order of the bytes. */
typedef struct {
    uint64_t count, nan, pos_inf, neg_inf, zeros, overflow;
    double min, max, sum, squares;
} Header;

_Static_assert(sizeof(Header) == HEADER_BYTES, "the header is written as it lies in memory");

static size_t put_varint(uint64_t value, uint8_t *out) {
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    return n;
}

static int is_nan_bin(uint32_t bin) { return (bin & 0x7FF) > 0x7F8; }

typedef struct {
    uint8_t *out;
    size_t bytes;
    uint32_t next;
} Writer;

static void put_bins(uint64_t counts[BINS], uint32_t from, uint32_t to, Header *header, Writer *writer) {
    for (uint32_t bin = from; bin < to; bin++) {
        uint64_t count = counts[bin];
        if (count == 0)
            continue;
        writer->bytes += put_varint(bin - writer->next, writer->out + writer->bytes);
        writer->bytes += put_varint(count, writer->out + writer->bytes);
        writer->next = bin + 1;
        header->count += count;
        if (is_nan_bin(bin))
            header->nan += count;
        counts[bin] = 0;
    }
}

size_t pack(Folded *folded, double sum, double squares, uint8_t *out) {
    Writer writer = {.out = out, .bytes = HEADER_BYTES};
    uint64_t *counts = folded->counts;
    uint32_t lowest = folded->lowest ? folded->lowest : 1;
    const int none = folded->min > folded->max;
    Header header = {.pos_inf = counts[0x7F8],
                     .neg_inf = counts[0xFF8],
                     .zeros = counts[0] + counts[0x800],
                     .overflow = folded->overflow,
                     /* adding zero turns -0 into +0: the order of values must not decide which it is */
                     .min = none ? (double)NAN : folded->min + 0.0,
                     .max = none ? (double)NAN : folded->max + 0.0,
                     .sum = isnan(sum) ? (double)NAN : sum, /* from infinite sums: its sign depends on the processor */
                     .squares = isnan(squares) ? (double)NAN : squares};
    for (uint32_t sign = 0; sign < BINS; sign += BINS / 2) {
        put_bins(counts, sign, sign + 1, &header, &writer);
        put_bins(counts, sign + lowest, sign + folded->highest + 1, &header, &writer);
    }
    memcpy(out, &header, sizeof header);
    return writer.bytes;
}

static int get_varint(const uint8_t **at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (*at == end)
            return 0;
        uint8_t byte = *(*at)++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) /* reject more than 64 bits, and anything but the shortest form */
            return (shift < 63 || byte < 2) && (shift == 0 || byte != 0);
    }
    return 0;
}

static int add_bins(const uint8_t *at, const uint8_t *end, uint64_t counts[BINS]) {
    uint64_t bin = 0, gap, count;
    while (at < end) {
        if (!get_varint(&at, end, &gap) || !get_varint(&at, end, &count) || gap >= BINS || bin + gap >= BINS)
            return 0;
        if (count == 0)
            return 0;
        bin += gap;
        counts[bin++] += count;
    }
    return 1;
}

int unpack_into(const uint8_t *packed, size_t bytes, Folded *folded, double sums[2]) {
    Header header;
    if (bytes < sizeof header)
        return 0;
    memcpy(&header, packed, sizeof header);
    folded->overflow += header.overflow;
    folded->min = header.min < folded->min ? header.min : folded->min;
    folded->max = header.max > folded->max ? header.max : folded->max;
    folded_cover(folded, 1, BINS / 2 - 1);
    sums[0] += header.sum;
    sums[1] += header.squares;
    return add_bins(packed + HEADER_BYTES, packed + bytes, folded->counts);
}
