// The sketches of packed summaries as a bit stream: every count is predicted, and only the error is stored.
//
// `codec_twin.py` is the specification in plain Python; both produce the same bytes. A row is one summary. Its
// finite bins are walked from small to large magnitude, first the positive half, then the negative one. The
// difference of a count from its guess is written as a Rice code whose parameter follows recent differences.

#define PY_SSIZE_T_CLEAN
#include "rows.h"

enum { HEADER = 80, MOST_ROW_BYTES = 1 << 16 };

typedef struct {
    Row rows[2];
    int turn;  // which of the two is the current row
} Pair;

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
        if (byte < 128) return byte || shift == 0 ? p : NULL;  // only the shortest form is reproduced by the encoder
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

// ---- the module

enum { MOST_PACKED = HEADER + BINS * 12 };

typedef struct {
    PyObject *items;  // a tuple of bytes: immutable while the GIL is released
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
